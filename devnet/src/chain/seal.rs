//! From transactions to a block.

use super::{Chain, Snapshot, lock};
use crate::block::{Block, Receipt, SentTx, plain_header};
use crate::database::WINDOW;
use crate::error::{BadTransaction, Error};
use crate::execute::{Engines, Kind, transact, tx_env};
use crate::state::{Change, Pending, State, View};
use alloy_consensus::{Eip658Value, Header, Transaction, TxType, Typed2718};
use alloy_eips::eip1559::BaseFeeParams;
use alloy_primitives::keccak256;
use revm::context::result::EVMError;
use std::sync::{Arc, PoisonError};

/// The header of the block after `parent` as far as it is known before the execution.
pub(super) fn next_header(parent: &Block, timestamp: u64) -> Header {
    let before = &parent.header;
    Header {
        parent_hash: parent.hash,
        number: before.number.saturating_add(1),
        timestamp,
        gas_limit: before.gas_limit,
        base_fee_per_gas: before.next_block_base_fee(BaseFeeParams::ethereum()),
        // What PREVRANDAO gives: the same on every node that follows the chain.
        mix_hash: keccak256(parent.hash),
        extra_data: "blue".as_bytes().into(),
        ..plain_header()
    }
}

/// Where the transactions of a block come from.
pub(super) trait Source {
    /// The next one.
    fn next(&mut self, state: &State, header: &Header) -> Option<SentTx>;

    /// Told of one that can have no place in this block; whether others may.
    fn refused(&mut self, tx: SentTx, reason: BadTransaction) -> Result<(), Error>;
}

/// A block that was executed.
pub(super) struct Executed {
    pub(super) block: Block,
    state: State,
    changes: Vec<Change>,
}

fn receipt(
    tx: &SentTx,
    success: bool,
    cumulative_gas_used: u64,
    logs: Vec<revm::primitives::Log>,
) -> Receipt {
    let receipt = alloy_consensus::Receipt {
        status: Eip658Value::Eip658(success),
        cumulative_gas_used,
        logs,
    };
    let kind = TxType::try_from(tx.ty()).unwrap_or(TxType::Legacy);
    Receipt::from_typed(kind, receipt.with_bloom())
}

impl Chain {
    /// Executes the transactions of a block.
    pub(super) fn execute(
        &self,
        parent: &Snapshot,
        mut header: Header,
        source: &mut dyn Source,
    ) -> Result<Executed, Error> {
        self.standing()?;
        let engines = Engines {
            models: &self.models,
            latch: &self.latch,
        };
        let mut pending = Pending::new(parent.state.clone());
        let (mut transactions, mut receipts) = (Vec::new(), Vec::new());
        while let Some(tx) = source.next(pending.state(), &header) {
            if tx.gas_limit() > header.gas_limit.saturating_sub(header.gas_used) {
                let most = header.gas_limit - header.gas_used;
                let found = tx.gas_limit();
                source.refused(tx, BadTransaction::GasLimit { found, most })?;
                break;
            }
            let view = View {
                state: pending.state(),
                hashes: &|number| self.block_hash(number),
            };
            let env = tx_env(&tx);
            let done = transact(
                view,
                self.chain_id,
                &header,
                &engines,
                env,
                Kind::Transaction,
            );
            // Before any verdict on the transaction: a fault looks like an error of the execution.
            self.standing()?;
            let done = match done {
                Ok(done) => done,
                Err(EVMError::Transaction(reason)) => {
                    source.refused(tx, BadTransaction::Invalid(reason.to_string()))?;
                    continue;
                }
                Err(EVMError::Database(error)) => return Err(self.stand_still(error.to_string())),
                Err(error) => return Err(self.stand_still(format!("the EVM failed: {error}"))),
            };
            let committed = pending.commit(done.state);
            committed.map_err(|error| self.stand_still(error.to_string()))?;
            header.gas_used += done.result.tx_gas_used();
            let success = done.result.is_success();
            let logs = done.result.into_logs();
            receipts.push(receipt(&tx, success, header.gas_used, logs));
            transactions.push(tx);
        }
        let (state, changes) = pending.settle();
        header.state_root = state.root();
        (
            header.transactions_root,
            header.receipts_root,
            header.logs_bloom,
        ) = Block::roots(&transactions, &receipts);
        Ok(Executed {
            block: Block::new(header, transactions, receipts),
            state,
            changes,
        })
    }

    /// Keeps an executed block as the newest.
    pub(super) fn keep(&self, executed: Executed) -> Result<Arc<Block>, Error> {
        self.standing()?;
        let block = Arc::new(executed.block);
        let written = self
            .database
            .append(self.chain_id, &block, &executed.changes);
        written.map_err(|error| self.stand_still(error.to_string()))?;
        let snapshot = Arc::new(Snapshot {
            block: block.clone(),
            state: executed.state,
        });
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(snapshot.clone());
        while recent.len() > WINDOW + 1 {
            recent.pop_front();
        }
        drop(recent);
        // After the head: who holds the pool and finds a transaction gone finds the state after it.
        lock(&self.pool).prune(&snapshot.state);
        self.heads.send_replace(block.header.number);
        Ok(block)
    }

    /// Seals a block of at most `most` of the transactions that wait.
    ///
    /// # Errors
    /// [`Error::Fault`] when this machine cannot finish a transaction or its database fails: then no block is sealed, the
    /// transactions wait on, and nothing is sealed before [`Chain::clear_fault`]. [`Error::Time`] when the time, in seconds,
    /// does not come after the newest block's.
    pub fn seal(&self, timestamp: u64, most: usize) -> Result<Arc<Block>, Error> {
        let _one_at_a_time = lock(&self.sealing);
        let executed = self.next(timestamp, most)?;
        self.keep(executed)
    }

    /// Seals a block of the transaction that waits for it the longest; `None` when none that waits can be executed.
    ///
    /// # Errors
    /// Those of [`Chain::seal`].
    pub fn seal_one(&self, timestamp: u64) -> Result<Option<Arc<Block>>, Error> {
        let _one_at_a_time = lock(&self.sealing);
        self.standing()?;
        let head = self.head();
        let base_fee = next_header(&head.block, timestamp).base_fee_per_gas;
        let ready = lock(&self.pool).next(&head.state, base_fee.unwrap_or_default());
        if ready.is_none() {
            return Ok(None);
        }
        let executed = self.next(timestamp, 1)?;
        // What waited may be executable no more.
        match executed.block.transactions.is_empty() {
            true => Ok(None),
            false => self.keep(executed).map(Some),
        }
    }

    /// The next block of at most `most` transactions.
    fn next(&self, timestamp: u64, most: usize) -> Result<Executed, Error> {
        self.standing()?;
        let head = self.head();
        let parent = head.block.header.timestamp;
        if timestamp <= parent {
            let given = timestamp;
            return Err(Error::Time { given, parent });
        }
        let header = next_header(&head.block, timestamp);
        let mut waiting = FromPool { chain: self, most };
        self.execute(&head, header, &mut waiting)
    }
}

struct FromPool<'a> {
    chain: &'a Chain,
    most: usize,
}

impl Source for FromPool<'_> {
    fn next(&mut self, state: &State, header: &Header) -> Option<SentTx> {
        self.most = self.most.checked_sub(1)?;
        let base_fee = header.base_fee_per_gas.unwrap_or_default();
        lock(&self.chain.pool).next(state, base_fee)
    }

    fn refused(&mut self, tx: SentTx, reason: BadTransaction) -> Result<(), Error> {
        // What does not fit this block waits for the next one.
        if !matches!(reason, BadTransaction::GasLimit { .. }) {
            tracing::warn!(hash = %tx.hash(), %reason, "a transaction that waited cannot be executed");
            lock(&self.chain.pool).discard(&tx);
            self.most = self.most.saturating_add(1);
        }
        Ok(())
    }
}
