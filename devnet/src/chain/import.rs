//! Blocks that another node has sealed.

use super::seal::{Source, next_header};
use super::{Chain, lock, recover};
use crate::block::{Block, SentTx};
use crate::error::{BadTransaction, Error};
use crate::state::State;
use alloy_consensus::{Header, TxEnvelope};
use std::sync::Arc;

impl Chain {
    /// Executes a block of another node and keeps it, if it is the next one and everything that its header says comes out
    /// here too.
    ///
    /// # Errors
    /// [`Error::Block`] with what differs; [`Error::Fault`] when this machine cannot tell, which says nothing about the
    /// block.
    pub fn import(&self, block: alloy_consensus::Block<TxEnvelope>) -> Result<Arc<Block>, Error> {
        let _one_at_a_time = lock(&self.sealing);
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
        let transactions = body.transactions.into_iter().map(recover);
        let transactions: Vec<_> = transactions.collect::<Result<_, _>>()?;
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
            reason: format!("transaction {} is invalid: {reason}", tx.hash()),
        })
    }
}
