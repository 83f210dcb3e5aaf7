//! Small models, a registry in memory, and a library that can be slow or fail.

#![allow(dead_code, reason = "each test program uses a part")]

#[path = "../../../precompile/tests/common/mod.rs"]
mod chain;

#[allow(unused_imports, reason = "each test program uses a part")]
pub(crate) use chain::{Blob, small, tiny};

use blue_node::library::{Library, MemoryLibrary, OnProgress, Open};
use int_engine::commitment::Commitment;
use int_engine::kernels::Kernels;
use precompile::genesis::Genesis;
use precompile::memory::{Memory, ModelSet};
use precompile::registry::Function;
use precompile::word::Word;
use precompile::{Call, Fault, Outcome, REGISTRY, Target, calldata};
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

pub(crate) const ADMIN: [u8; 20] = [0xA1; 20];
pub(crate) const DELAY: u64 = 5;

/// The CPU backend that tests use: small caches, the fastest kernels.
pub(crate) fn cpu(prefix_cache: usize) -> blue_node::models::Cpu {
    blue_node::models::Cpu {
        kernels: Kernels::detect(),
        threads: NonZeroUsize::MIN,
        call_threads: NonZeroUsize::MIN,
        prefix_cache,
    }
}

/// A library whose fetches and openings can be held up, made to fail, and are counted.
#[derive(Default)]
pub(crate) struct Gated {
    pub(crate) there: MemoryLibrary,
    /// Blobs that can be fetched.
    pub(crate) elsewhere: Mutex<BTreeMap<Commitment, Vec<u8>>>,
    pub(crate) fetches: AtomicU64,
    /// Fetches that were broken off.
    pub(crate) broken: AtomicU64,
    /// Whether a fetch goes on until it is broken off.
    pub(crate) endless: AtomicBool,
    /// Commitments whose opening waits until they are taken out.
    held: Mutex<Vec<Commitment>>,
    released: Condvar,
}

impl Gated {
    pub(crate) fn hold(&self, commitment: Commitment) {
        self.held.lock().unwrap().push(commitment);
    }

    pub(crate) fn release(&self) {
        self.held.lock().unwrap().clear();
        self.released.notify_all();
    }
}

impl Library for Gated {
    fn open(&self, commitment: Commitment) -> io::Result<Option<Open>> {
        let held = self.held.lock().unwrap();
        let _held = self
            .released
            .wait_while(held, |held| held.contains(&commitment))
            .unwrap();
        self.there.open(commitment)
    }

    fn fetch(
        &self,
        commitment: Commitment,
        len: Option<u64>,
        progress: OnProgress<'_>,
    ) -> Result<(), String> {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let found = self.elsewhere.lock().unwrap().get(&commitment).cloned();
        let blob = found.ok_or("no source has it\n  the first: has no such file")?;
        assert_eq!(len, Some(blob.len() as u64), "what the chain says");
        while self.endless.load(Ordering::Relaxed) {
            if progress(1, blob.len() as u64).is_break() {
                self.broken.fetch_add(1, Ordering::Relaxed);
                return Err("broken off".into());
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let _ = progress(blob.len() as u64, blob.len() as u64);
        self.there.insert(blob);
        Ok(())
    }

    fn damaged(&self, commitment: Commitment) -> io::Result<()> {
        self.there.damaged(commitment)
    }

    fn list(&self) -> io::Result<Vec<Commitment>> {
        self.there.list()
    }

    fn remove(&self, commitment: Commitment) -> io::Result<()> {
        self.there.remove(commitment)
    }
}

/// A registry where one key decides.
pub(crate) struct Registry(pub(crate) Memory);

impl Registry {
    pub(crate) fn new() -> Self {
        let genesis = Genesis {
            admins: vec![ADMIN],
            former: vec![],
            quorum: 1,
            delay: DELAY,
            window: 10,
            single: true,
        };
        let [(address, account), _] = genesis.accounts().unwrap();
        assert_eq!(address, REGISTRY);
        Self(Memory {
            block: 1,
            storage: account.storage,
            logs: vec![],
        })
    }

    fn send(&mut self, data: &[u8]) {
        let call = Call::new(Target::Registry, data, 10_000_000, ADMIN);
        let outcome = self.0.call(&call, &ModelSet::default()).unwrap();
        assert!(matches!(outcome, Outcome::Return { .. }), "{outcome:?}");
    }

    pub(crate) fn propose(&mut self, name: &Word, version: u64, blob: &Blob) {
        self.send(&blob.propose(name, version));
    }

    pub(crate) fn activate(&mut self, name: &Word, version: u64) {
        self.send(&calldata::of_version(Function::Activate, name, version));
    }

    pub(crate) fn revoke(&mut self, name: &Word, version: u64) {
        self.send(&calldata::of_version(Function::Revoke, name, version));
    }

    /// The state, as a node reads it.
    pub(crate) fn state(&self) -> impl FnMut(&Word) -> Result<Word, Fault> + '_ {
        |key| Ok(self.0.storage.get(key).copied().unwrap_or_default())
    }
}

/// Waits at most so long for something that another thread does.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed().as_secs() < 30, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

pub(crate) fn library(blobs: &[&Blob]) -> Arc<Gated> {
    let library = Gated::default();
    for blob in blobs {
        assert_eq!(library.there.insert(blob.bytes.clone()), blob.commitment);
    }
    Arc::new(library)
}
