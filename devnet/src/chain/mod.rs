//! The chain: it takes transactions, seals and imports blocks, and answers for the blocks that there are.

mod call;
mod import;
mod resume;
mod seal;

pub use call::{CallAt, Request};

use crate::block::{Block, SentTx};
use crate::database::{Database, WINDOW};
use crate::error::{BadTransaction, Error};
use crate::execute::TX_GAS;
use crate::genesis::Genesis;
use crate::pool::Pool;
use crate::state::{State, Unreadable};
use alloy_consensus::transaction::SignerRecoverable;
use alloy_consensus::{Transaction, TxEnvelope, Typed2718};
use alloy_eips::eip2718::Decodable2718;
use alloy_primitives::{Address, B256, U256, keccak256};
use precompile::{Fault, FaultLatch, Models};
use revm::context_interface::cfg::gas::calculate_initial_tx_gas_for_tx;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::watch;

/// What a chain is made of.
pub struct Config {
    /// What it begins with.
    pub genesis: Genesis,
    /// Where its blocks and state are kept.
    pub database: Box<dyn Database>,
    /// The models that blocks are executed with.
    pub models: Arc<dyn Models + Send + Sync>,
    /// The models that calls are executed with: engines of their own, since an engine runs one job at a time.
    pub call_models: Arc<dyn Models + Send + Sync>,
}

/// A block and the state after it.
#[derive(Debug)]
pub struct Snapshot {
    /// The block.
    pub block: Arc<Block>,
    /// The state.
    pub state: State,
}

/// A chain of one node. Blocks are sealed one at a time; queries and calls go on beside them.
pub struct Chain {
    chain_id: u64,
    database: Box<dyn Database>,
    models: Arc<dyn Models + Send + Sync>,
    call_models: Arc<dyn Models + Send + Sync>,
    latch: FaultLatch,
    /// The newest blocks with their states, the newest last; never empty.
    recent: RwLock<VecDeque<Arc<Snapshot>>>,
    pool: Mutex<Pool>,
    sealing: Mutex<()>,
    heads: watch::Sender<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Chain {
    /// A new chain, or the one that the database holds.
    ///
    /// # Errors
    /// When the genesis is refused, the database fails, or it is of another chain.
    pub fn new(config: Config) -> Result<Self, Error> {
        let (block, state) = config.genesis.build()?;
        let chain_id = config.genesis.chain_id;
        let recent = match config.database.load()? {
            Some(stored) => resume::resume(&*config.database, stored, chain_id, &block, &state)?,
            None => {
                let block = Arc::new(block);
                config
                    .database
                    .append(chain_id, &block, &state.as_changes())?;
                VecDeque::from([Arc::new(Snapshot { block, state })])
            }
        };
        let head = recent.back().map_or(0, |head| head.block.header.number);
        Ok(Self {
            chain_id,
            database: config.database,
            models: config.models,
            call_models: config.call_models,
            latch: FaultLatch::new(),
            recent: RwLock::new(recent),
            pool: Mutex::default(),
            sealing: Mutex::default(),
            heads: watch::Sender::new(head),
        })
    }

    /// The chain's id.
    #[must_use]
    pub const fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// The newest block and its state.
    ///
    /// # Panics
    /// Never: there is always block 0.
    #[must_use]
    pub fn head(&self) -> Arc<Snapshot> {
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
        recent.back().expect("block 0 at least").clone()
    }

    /// The number of the newest block, as it changes.
    #[must_use]
    pub fn heads(&self) -> watch::Receiver<u64> {
        self.heads.subscribe()
    }

    /// The fault for which this node stands still.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.latch.tripped()
    }

    /// Forgets the fault, after its cause was put right; blocks can be sealed again.
    pub fn clear_fault(&self) -> Option<Fault> {
        self.latch.clear()
    }

    /// `Ok` unless the node stands still: the condition of any verdict.
    fn standing(&self) -> Result<(), Error> {
        self.latch.check().map_err(Error::Fault)
    }

    /// The state or the database fails, so this node stands still (spec 6.9).
    fn stand_still(&self, said: String) -> Error {
        self.latch.trip(&Fault::State(said.clone()));
        // The first fault, if there is an earlier one.
        Error::Fault(self.latch.tripped().unwrap_or(Fault::State(said)))
    }

    /// A block with its state; `None` for a block that is not there.
    ///
    /// # Errors
    /// [`Error::NoState`] when the block is older than the states that are kept.
    pub fn snapshot(&self, number: u64) -> Result<Option<Arc<Snapshot>>, Error> {
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
        let first = recent.front().map_or(0, |s| s.block.header.number);
        let Some(index) = number.checked_sub(first) else {
            let window = WINDOW;
            return Err(Error::NoState { number, window });
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        Ok(recent.get(index).cloned())
    }

    /// A block; `None` for one that is not there.
    ///
    /// # Errors
    /// The database's.
    pub fn block(&self, number: u64) -> Result<Option<Arc<Block>>, Error> {
        if let Ok(Some(snapshot)) = self.snapshot(number) {
            return Ok(Some(snapshot.block.clone()));
        }
        Ok(self.database.block(number)?)
    }

    /// The number of the block with a hash.
    ///
    /// # Errors
    /// The database's.
    pub fn number(&self, hash: &B256) -> Result<Option<u64>, Error> {
        Ok(self.database.number(hash)?)
    }

    /// The block that holds a transaction, and its index there.
    ///
    /// # Errors
    /// The database's.
    pub fn transaction(&self, hash: &B256) -> Result<Option<(Arc<Block>, usize)>, Error> {
        let Some((number, index)) = self.database.transaction(hash)? else {
            return Ok(None);
        };
        Ok(self.block(number)?.map(|block| (block, index)))
    }

    /// A transaction that waits for a block.
    #[must_use]
    pub fn waiting(&self, hash: &B256) -> Option<SentTx> {
        lock(&self.pool).get(hash)
    }

    /// The next nonce of an account, its waiting transactions counted.
    #[must_use]
    pub fn next_nonce(&self, address: Address) -> u64 {
        // The pool first: what leaves it is in the head already.
        let pool = lock(&self.pool);
        let head = self.head();
        let next = head.state.account(&address).map_or(0, |a| a.nonce);
        pool.nonce(address, next)
    }

    /// Takes a transaction as it is sent.
    ///
    /// # Errors
    /// Those of [`Chain::submit`], and [`BadTransaction::Encoding`].
    pub fn submit_raw(&self, bytes: &[u8]) -> Result<B256, Error> {
        let rest = &mut &*bytes;
        let tx = TxEnvelope::decode_2718(rest);
        let tx = tx.map_err(|error| BadTransaction::Encoding(error.to_string()))?;
        if !rest.is_empty() {
            let said = format!("{} bytes more than the transaction has", rest.len());
            return Err(BadTransaction::Encoding(said).into());
        }
        self.submit(tx)
    }

    /// Takes a signed transaction.
    ///
    /// # Errors
    /// [`Error::Transaction`] with why it can never be executed, or not be kept; [`Error::Database`] when nobody can tell
    /// whether it was.
    pub fn submit(&self, tx: TxEnvelope) -> Result<B256, Error> {
        let tx = recover(tx)?;
        let hash = *tx.hash();
        let sender = keccak256(tx.signer());
        let mut pool = lock(&self.pool);
        let head = self.head();
        let account = head.state.by_key(&sender);
        let (next, balance) = account.map_or((0, U256::ZERO), |a| (a.nonce, a.balance));
        self.check(&tx, &head, next, balance)?;
        if self.database.transaction(&hash)?.is_some() {
            return Err(BadTransaction::Known(hash).into());
        }
        pool.insert(tx, sender, next)?;
        Ok(hash)
    }

    /// What can be said of a transaction without executing it.
    fn check(
        &self,
        tx: &SentTx,
        head: &Snapshot,
        next: u64,
        balance: U256,
    ) -> Result<(), BadTransaction> {
        if tx.is_eip4844() {
            return Err(BadTransaction::Blobs);
        }
        let found = tx.chain_id();
        if found.is_some_and(|id| id != self.chain_id) {
            let expected = self.chain_id;
            return Err(BadTransaction::ChainId { expected, found });
        }
        if tx.nonce() < next {
            let (expected, found) = (next, tx.nonce());
            return Err(BadTransaction::NonceTooLow { expected, found });
        }
        let (found, most) = (tx.gas_limit(), head.block.header.gas_limit.min(TX_GAS));
        if found > most {
            return Err(BadTransaction::GasLimit { found, most });
        }
        let env = crate::execute::tx_env(tx);
        let intrinsic = calculate_initial_tx_gas_for_tx(&env, crate::execute::SPEC, None);
        let least = intrinsic.initial_total_gas().max(intrinsic.floor_gas());
        if found < least {
            return Err(BadTransaction::IntrinsicGas { found, least });
        }
        let fee = tx.max_fee_per_gas();
        if tx.max_priority_fee_per_gas().is_some_and(|tip| tip > fee) {
            return Err(BadTransaction::Tip);
        }
        let header = seal::next_header(&head.block, head.block.header.timestamp);
        let least = header.base_fee_per_gas.unwrap_or_default();
        if fee < u128::from(least) {
            return Err(BadTransaction::Fee { found: fee, least });
        }
        let cost = U256::from(found).checked_mul(U256::from(fee));
        let cost = cost.and_then(|gas| gas.checked_add(tx.value()));
        if cost.is_none_or(|cost| cost > balance) {
            let address = tx.signer();
            return Err(BadTransaction::Funds { address });
        }
        Ok(())
    }

    /// The hashes of blocks, for the EVM.
    fn block_hash(&self, number: u64) -> Result<B256, Unreadable> {
        let block = self.block(number);
        let block = block.map_err(|error| Unreadable(error.to_string()))?;
        Ok(block.map(|block| block.hash).unwrap_or_default())
    }
}

/// A transaction with its sender.
fn recover(tx: TxEnvelope) -> Result<SentTx, BadTransaction> {
    let signer = tx.recover_signer().map_err(|_| BadTransaction::Signature)?;
    Ok(SentTx::new_unchecked(tx, signer))
}
