//! A database that fails when it is told to.

use alloy_primitives::B256;
use blue_devnet::database::{Database, DatabaseError, MemoryDatabase, Stored};
use blue_devnet::{Block, Change};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Blocks in memory, until `fails` is set.
#[derive(Default)]
pub(crate) struct Flaky {
    inner: MemoryDatabase,
    pub(crate) fails: Arc<AtomicBool>,
}

impl Flaky {
    fn works(&self) -> Result<&MemoryDatabase, DatabaseError> {
        match self.fails.load(Ordering::Relaxed) {
            false => Ok(&self.inner),
            true => Err(DatabaseError::Failed("no space left".into())),
        }
    }
}

impl Database for Flaky {
    fn load(&self) -> Result<Option<Stored>, DatabaseError> {
        self.works()?.load()
    }

    fn append(&self, id: u64, block: &Arc<Block>, all: &[Change]) -> Result<(), DatabaseError> {
        self.works()?.append(id, block, all)
    }

    fn block(&self, number: u64) -> Result<Option<Arc<Block>>, DatabaseError> {
        self.works()?.block(number)
    }

    fn number(&self, hash: &B256) -> Result<Option<u64>, DatabaseError> {
        self.works()?.number(hash)
    }

    fn transaction(&self, hash: &B256) -> Result<Option<(u64, usize)>, DatabaseError> {
        self.works()?.transaction(hash)
    }
}
