//! A database that ends with the process.

use super::{Database, DatabaseError, Stored};
use crate::block::Block;
use crate::state::Change;
use alloy_primitives::B256;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

#[derive(Default)]
struct Tables {
    blocks: Vec<Arc<Block>>,
    numbers: HashMap<B256, u64>,
    transactions: HashMap<B256, (u64, usize)>,
}

/// Blocks in memory. The state is the chain's own.
#[derive(Default)]
pub struct MemoryDatabase(RwLock<Tables>);

impl MemoryDatabase {
    fn read<T>(&self, what: impl FnOnce(&Tables) -> T) -> T {
        what(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Database for MemoryDatabase {
    fn load(&self) -> Result<Option<Stored>, DatabaseError> {
        Ok(None)
    }

    fn append(&self, _: u64, block: &Arc<Block>, _: &[Change]) -> Result<(), DatabaseError> {
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let number = block.header.number;
        tables.numbers.insert(block.hash, number);
        for (index, tx) in block.transactions.iter().enumerate() {
            tables.transactions.insert(*tx.hash(), (number, index));
        }
        tables.blocks.push(block.clone());
        Ok(())
    }

    fn block(&self, number: u64) -> Result<Option<Arc<Block>>, DatabaseError> {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        Ok(self.read(|tables| tables.blocks.get(index).cloned()))
    }

    fn number(&self, hash: &B256) -> Result<Option<u64>, DatabaseError> {
        Ok(self.read(|tables| tables.numbers.get(hash).copied()))
    }

    fn transaction(&self, hash: &B256) -> Result<Option<(u64, usize)>, DatabaseError> {
        Ok(self.read(|tables| tables.transactions.get(hash).copied()))
    }
}
