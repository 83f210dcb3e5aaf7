//! A chain that goes on from what a database holds.

use super::Snapshot;
use crate::block::Block;
use crate::database::{Database, DatabaseError, Stored};
use crate::error::Error;
use crate::state::State;
use precompile::Fault;
use precompile::registry::{Governance, state as registry};
use precompile::word::Word;
use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;

/// The newest blocks of a database with their states, each with the root that its header names.
pub(super) fn resume(
    database: &dyn Database,
    stored: Stored,
    chain_id: u64,
    genesis: &Block,
    state: &State,
) -> Result<VecDeque<Arc<Snapshot>>, Error> {
    if (stored.chain_id, stored.genesis.hash) != (chain_id, genesis.hash) {
        let asked = (chain_id, genesis, state);
        return Err(Error::Database(DatabaseError::OtherChain {
            differences: differences(&stored, asked),
        }));
    }
    let damaged = |what: String| Error::Database(DatabaseError::Damaged(what));
    let head = stored.head.header.number;
    let before = (stored.states.len() as u64).checked_sub(1);
    let before = before.ok_or_else(|| damaged("no state".into()))?;
    let first = head.checked_sub(before);
    let first = first.ok_or_else(|| damaged("more states than blocks".into()))?;
    let mut recent = VecDeque::new();
    for (number, state) in (first..).zip(stored.states) {
        let block = database.block(number)?;
        let block = block.ok_or_else(|| damaged(format!("block {number} is missing")))?;
        let (found, expected) = (state.root(), block.header.state_root);
        if found != expected {
            let said = format!("the state of block {number} has root {found}, not {expected}");
            return Err(damaged(said));
        }
        recent.push_back(Arc::new(Snapshot { block, state }));
    }
    Ok(recent)
}

/// Governance and the commitments of the models that are active from block 0 on, as far as the list of activations tells.
fn chosen(state: &State) -> Result<(Governance, Vec<Word>), Fault> {
    let mut words = state.registry();
    let governance = registry::governance(&mut words)?;
    let mut models = Vec::new();
    for index in 0..registry::activation_count(&mut words)? {
        let activation = registry::activation(&mut words, index)?;
        if activation.block != 0 {
            break;
        }
        models.push(activation.commitment);
    }
    Ok((governance, models))
}

/// In which settings the chain of a database differs from the one that is asked for.
fn differences(stored: &Stored, (chain_id, genesis, state): (u64, &Block, &State)) -> Vec<String> {
    let mut all = Vec::new();
    let mut compare = |name: &str, here: &dyn Display, there: &dyn Display| {
        let (here, there) = (here.to_string(), there.to_string());
        if here != there {
            all.push(format!("{name} {there}, not {here}"));
        }
    };
    compare("chain id", &chain_id, &stored.chain_id);
    let (here, there) = (&genesis.header, &stored.genesis.header);
    compare("gas limit", &here.gas_limit, &there.gas_limit);
    compare("time", &here.timestamp, &there.timestamp);
    let fees = [here, there].map(|header| header.base_fee_per_gas.unwrap_or_default());
    compare("base fee", &fees[0], &fees[1]);
    let Some(newest) = stored.states.last() else {
        return all;
    };
    // A state in memory can always be read.
    let (Ok(here), Ok(there)) = (chosen(state), chosen(newest)) else {
        return all;
    };
    let ([here, there], models) = ([here.0, there.0], [here.1, there.1]);
    // Admins and quorum are voted on; these two are for ever.
    compare("delay", &here.delay, &there.delay);
    compare("window", &here.window, &there.window);
    let [here, there] = models.map(|models| match &models[..] {
        [] => "none".to_owned(),
        some => some
            .iter()
            .map(alloy_primitives::hex::encode)
            .collect::<Vec<_>>()
            .join(" and "),
    });
    compare("models", &here, &there);
    if all.is_empty() {
        all.push("accounts, admins or quorum".into());
    }
    all
}
