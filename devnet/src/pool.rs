//! Transactions that wait for a block.

use crate::block::SentTx;
use crate::error::BadTransaction;
use crate::state::State;
use alloy_consensus::Transaction;
use alloy_primitives::{Address, B256, U160};
use std::collections::{BTreeMap, HashMap};

/// Most transactions that wait.
const MOST: usize = 4096;
/// Most bytes of calldata that wait.
const MOST_BYTES: usize = 64 << 20;
/// Nonces that a transaction may be ahead of its sender's.
const AHEAD: u64 = 64;

struct Waiting {
    tx: SentTx,
    /// Keccak-256 of the sender's address: the state's key.
    sender: B256,
    arrival: u64,
}

/// The pool: by sender and nonce.
#[derive(Default)]
pub(crate) struct Pool {
    waiting: BTreeMap<(Address, u64), Waiting>,
    hashes: HashMap<B256, (Address, u64)>,
    bytes: usize,
    arrivals: u64,
}

impl Pool {
    /// Takes a transaction whose sender, with this Keccak-256, has sent `next` transactions so far.
    pub(crate) fn insert(
        &mut self,
        tx: SentTx,
        sender: B256,
        next: u64,
    ) -> Result<(), BadTransaction> {
        let (key, hash) = ((tx.signer(), tx.nonce()), *tx.hash());
        if self.hashes.contains_key(&hash) {
            return Err(BadTransaction::Known(hash));
        }
        if tx.nonce() > next.saturating_add(AHEAD) {
            return Err(BadTransaction::NonceTooHigh {
                expected: next,
                found: tx.nonce(),
                ahead: AHEAD,
            });
        }
        match self.waiting.get(&key) {
            Some(old) => {
                let paid = old.tx.max_fee_per_gas();
                let tip = |tx: &SentTx| {
                    tx.max_priority_fee_per_gas()
                        .unwrap_or(tx.max_fee_per_gas())
                };
                let enough = |old: u128, new: u128| new >= old.saturating_add(old.div_ceil(10));
                if !enough(paid, tx.max_fee_per_gas()) || !enough(tip(&old.tx), tip(&tx)) {
                    return Err(BadTransaction::Underpriced { paid });
                }
            }
            None if self.waiting.len() >= MOST => return Err(BadTransaction::Full(MOST)),
            None => {}
        }
        let size = tx.input().len();
        if self.bytes.saturating_add(size) > MOST_BYTES {
            return Err(BadTransaction::Full(self.waiting.len()));
        }
        self.remove(&key);
        self.bytes += size;
        self.hashes.insert(hash, key);
        let arrival = self.arrivals;
        self.arrivals += 1;
        let waiting = Waiting {
            tx,
            sender,
            arrival,
        };
        self.waiting.insert(key, waiting);
        Ok(())
    }

    fn remove(&mut self, key: &(Address, u64)) {
        if let Some(old) = self.waiting.remove(key) {
            self.hashes.remove(old.tx.hash());
            self.bytes -= old.tx.input().len();
        }
    }

    /// Lets a transaction go.
    pub(crate) fn discard(&mut self, tx: &SentTx) {
        if let Some(key) = self.hashes.get(tx.hash()).copied() {
            self.remove(&key);
        }
    }

    /// Lets go of what can no longer be executed, after a block.
    pub(crate) fn prune(&mut self, state: &State) {
        let nonce = |sender: &B256| state.by_key(sender).map_or(0, |account| account.nonce);
        let waiting = self.waiting.iter();
        let old = waiting.filter(|((_, n), waiting)| *n < nonce(&waiting.sender));
        let old: Vec<_> = old.map(|(key, _)| *key).collect();
        old.iter().for_each(|key| self.remove(key));
    }

    /// The transaction that came first of those that are next for their senders and pay the base fee.
    pub(crate) fn next(&self, state: &State, base_fee: u64) -> Option<SentTx> {
        let mut first: Option<&Waiting> = None;
        let mut from = (Address::ZERO, 0);
        // One look at each sender: its transactions stand side by side.
        while let Some((&(address, _), one)) = self.waiting.range(from..).next() {
            let account = state.by_key(&one.sender);
            let next = account.map_or(0, |account| account.nonce);
            if let Some(waiting) = self.waiting.get(&(address, next))
                && waiting.tx.max_fee_per_gas() >= base_fee.into()
                && first.is_none_or(|first| waiting.arrival < first.arrival)
            {
                first = Some(waiting);
            }
            let Some(after) = U160::from_be_bytes(address.0.0).checked_add(U160::ONE) else {
                break;
            };
            from = (Address::from(after), 0);
        }
        first.map(|waiting| waiting.tx.clone())
    }

    /// The nonce after the transactions of a sender that wait in a row, of an account that has sent `next` so far.
    pub(crate) fn nonce(&self, address: Address, next: u64) -> u64 {
        let mut nonce = next;
        while self.waiting.contains_key(&(address, nonce)) {
            nonce += 1;
        }
        nonce
    }

    /// A transaction that waits.
    pub(crate) fn get(&self, hash: &B256) -> Option<SentTx> {
        let key = self.hashes.get(hash)?;
        self.waiting.get(key).map(|waiting| waiting.tx.clone())
    }
}
