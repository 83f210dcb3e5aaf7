//! Blocks that another node has sealed.

use super::seal::{Source, next_header};
use super::{Chain, lock, recover};
use crate::block::{Block, SentTx};
use crate::error::{BadTransaction, Error};
use crate::state::State;
use alloy_consensus::{Header, TxEnvelope};
use alloy_primitives::B256;
use std::sync::Arc;

impl Chain {
    /// Executes a block of another node and keeps it, if it is the next one and everything that its header says comes out
    /// here too.
    ///
    /// There is no clock here: a block of any time after its parent's is kept. Who follows strangers compares its time with
    /// the clock first, since no later block can have an earlier one.
    ///
    /// # Errors
    /// [`Error::Block`] with what differs; [`Error::Fault`] when this machine cannot tell or stands still, which says
    /// nothing about the block.
    pub fn import(&self, block: alloy_consensus::Block<TxEnvelope>) -> Result<Arc<Block>, Error> {
        let _one_at_a_time = lock(&self.sealing);
        self.standing()?;
        self.follow(block).or_else(|error| {
            // A verdict holds only on a machine that had no fault until it was found.
            self.standing()?;
            Err(error)
        })
    }

    fn follow(&self, block: alloy_consensus::Block<TxEnvelope>) -> Result<Arc<Block>, Error> {
        let number = block.header.number;
        let refuse = |reason: String| Error::Block { number, reason };
        let head = self.head();
        let (given, body) = (block.header, block.body);
        let header = next_header(&head.block, given.timestamp);
        if given.timestamp <= head.block.header.timestamp {
            return Err(refuse("its time is not after its parent's".into()));
        }
        let known = |h: &Header| (h.number, h.parent_hash);
        if known(&header) != known(&given) {
            let (next, hash) = known(&header);
            let said = format!("the next block is {next} on {hash}");
            return Err(refuse(said));
        }
        if !body.ommers.is_empty() || body.withdrawals.is_some_and(|w| !w.is_empty()) {
            return Err(refuse("it has ommers or withdrawals".into()));
        }
        let mut transactions = Vec::new();
        for tx in body.transactions {
            let hash = *tx.hash();
            let tx = recover(tx);
            transactions.push(tx.map_err(|reason| refuse(invalid(&hash, &reason)))?);
        }
        let count = transactions.len();
        let mut source = Given {
            number,
            transactions: transactions.into_iter(),
        };
        let executed = self.execute(&head, header, &mut source)?;
        if executed.block.transactions.len() != count {
            return Err(refuse("its transactions do not fit it".into()));
        }
        if let Some(reason) = difference(&executed.block.header, &given) {
            return Err(refuse(reason));
        }
        self.keep(executed)
    }
}

fn invalid(hash: &B256, reason: &BadTransaction) -> String {
    format!("transaction {hash} is invalid: {reason}")
}

/// The first thing in which a header differs from the one that the execution gives.
fn difference(found: &Header, given: &Header) -> Option<String> {
    let differs = |name: &str, found: String, given: String| {
        (found != given).then(|| format!("its {name} is {given}, the execution gives {found}"))
    };
    let hex = |h: &Header| {
        [
            ("state root", h.state_root.to_string()),
            ("receipts root", h.receipts_root.to_string()),
            ("gas", h.gas_used.to_string()),
            ("transactions root", h.transactions_root.to_string()),
            ("base fee", format!("{:?}", h.base_fee_per_gas)),
        ]
    };
    let mut pairs = hex(found).into_iter().zip(hex(given));
    let first = pairs.find_map(|((name, found), (_, given))| differs(name, found, given));
    first.or_else(|| (found != given).then(|| "its header is another one".into()))
}

struct Given {
    number: u64,
    transactions: std::vec::IntoIter<SentTx>,
}

impl Source for Given {
    fn next(&mut self, _: &State, _: &Header) -> Option<SentTx> {
        self.transactions.next()
    }

    fn refused(&mut self, tx: SentTx, reason: BadTransaction) -> Result<(), Error> {
        Err(Error::Block {
            number: self.number,
            reason: invalid(tx.hash(), &reason),
        })
    }
}
