//! A chain in memory: for tests, tools and other clients' experiments.

use crate::host::{Call, Host, Lookup, Models, Outcome};
use crate::refusal::Fault;
use crate::word::{Word, ZERO};
use int_engine::commitment::Commitment;
use int_engine::engine::Engine;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Storage and events of the registry, and the number of the block that is executed.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Memory {
    /// The block's number.
    pub block: u64,
    /// Words of the registry's storage that are not zero.
    pub storage: BTreeMap<Word, Word>,
    /// Topics and data of the events so far.
    pub logs: Vec<(Vec<Word>, Vec<u8>)>,
}

impl Memory {
    /// Executes a call, and keeps what it wrote when it returns.
    ///
    /// # Errors
    /// [`crate::run`]'s.
    pub fn call(&mut self, call: &Call<'_>, models: &dyn Models) -> Result<Outcome, Fault> {
        let before = self.clone();
        let outcome = crate::run(crate::Version::V1, call, self, models);
        if !matches!(outcome, Ok(Outcome::Return { .. })) {
            *self = before;
        }
        outcome
    }
}

impl Host for Memory {
    fn block_number(&self) -> u64 {
        self.block
    }

    fn read(&mut self, key: &Word) -> Result<Word, Fault> {
        Ok(self.storage.get(key).copied().unwrap_or(ZERO))
    }

    fn write(&mut self, key: &Word, value: &Word) -> Result<(), Fault> {
        match *value {
            ZERO => self.storage.remove(key),
            value => self.storage.insert(*key, value),
        };
        Ok(())
    }

    fn log(&mut self, topics: Vec<Word>, data: Vec<u8>) {
        self.logs.push((topics, data));
    }
}

/// Models at hand in memory; all others are missing.
#[derive(Clone, Default)]
pub struct ModelSet(HashMap<Commitment, Lookup>);

impl ModelSet {
    /// Adds a model under its commitment.
    pub fn insert(&mut self, engine: Arc<dyn Engine>) {
        self.0.insert(engine.commitment(), Lookup::Ready(engine));
    }

    /// Adds a commitment whose bytes are at hand and refused by spec 4.
    pub fn insert_refused(&mut self, commitment: Commitment) {
        self.0.insert(commitment, Lookup::Refused);
    }
}

impl Models for ModelSet {
    fn model(&self, commitment: Commitment) -> Result<Lookup, Fault> {
        let found = self.0.get(&commitment).cloned();
        found.ok_or_else(|| Fault::Missing {
            commitment,
            reason: "no such model was inserted".into(),
        })
    }
}
