//! Where a chain's blocks and state are kept.

mod codec;
mod disk;
mod guard;
mod memory;

pub use disk::DiskDatabase;
pub use guard::is_guarded;
pub use memory::MemoryDatabase;

use crate::block::Block;
use crate::state::{Change, State};
use alloy_primitives::B256;
use std::sync::Arc;

/// Blocks whose state can be asked, beside the newest.
pub const WINDOW: usize = 256;

/// The database failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DatabaseError {
    /// Reading or writing failed.
    #[error("the database: {0}")]
    Failed(String),
    /// Somebody else has the file open.
    #[error("the database {0} is in use by another process: end that one, or name another file")]
    InUse(String),
    /// It holds something that it never writes.
    #[error("the database is damaged: {0}")]
    Damaged(String),
    /// It belongs to another chain.
    #[error(
        "the database is of another chain, with {}: name another file, or the settings it was made with",
        .differences.join("; ")
    )]
    OtherChain {
        /// Settings with the value of the database and the one that was asked for, at least one.
        differences: Vec<String>,
    },
}

/// What a database holds when it is opened.
#[derive(Debug)]
pub struct Stored {
    /// The chain's id.
    pub chain_id: u64,
    /// Block 0.
    pub genesis: Arc<Block>,
    /// The newest block.
    pub head: Arc<Block>,
    /// States after the newest blocks, the newest last, at most [`WINDOW`] and one.
    pub states: Vec<State>,
}

/// Blocks and state of one chain. A block is there as a whole or not at all.
pub trait Database: Send + Sync {
    /// What is there; `None` in a new database.
    ///
    /// # Errors
    /// When it cannot be read.
    fn load(&self) -> Result<Option<Stored>, DatabaseError>;

    /// Adds a block and what it did to the state. The first one is block 0 of the chain with this id.
    ///
    /// # Errors
    /// When it cannot be written; then nothing of the block is there.
    fn append(
        &self,
        chain_id: u64,
        block: &Arc<Block>,
        changes: &[Change],
    ) -> Result<(), DatabaseError>;

    /// A block by number.
    ///
    /// # Errors
    /// When it cannot be read, or is not as it was appended.
    fn block(&self, number: u64) -> Result<Option<Arc<Block>>, DatabaseError>;

    /// The number of a block by its hash.
    ///
    /// # Errors
    /// When it cannot be read.
    fn number(&self, hash: &B256) -> Result<Option<u64>, DatabaseError>;

    /// Where a transaction is: number of the block, index in it.
    ///
    /// # Errors
    /// When it cannot be read.
    fn transaction(&self, hash: &B256) -> Result<Option<(u64, usize)>, DatabaseError>;
}
