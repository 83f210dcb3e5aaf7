//! Where blobs come from: the seam between models and what holds their bytes.

use int_engine::commitment::{Commitment, commitment};
use int_engine::read::ReadAt;
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// An open blob and its length in bytes.
pub type Open = (Box<dyn ReadAt + Send>, u64);

/// Hears of bytes that are there, of so many; a break ends the work as soon as possible.
pub type OnProgress<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// Blobs at hand, and a way to get those that are not.
///
/// Nobody trusts a library: whoever reads a blob compares all of it with the commitment.
pub trait Library: Send + Sync {
    /// The blob of a commitment, `None` if it is not at hand.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, commitment: Commitment) -> io::Result<Option<Open>>;

    /// Gets a blob that is not at hand, and returns when it is; `len` is its length, where the chain says it.
    ///
    /// # Errors
    /// Why it cannot be had now, for people. A later call goes on where this one ended.
    fn fetch(
        &self,
        commitment: Commitment,
        len: Option<u64>,
        progress: OnProgress<'_>,
    ) -> Result<(), String>;

    /// Says that the bytes at hand are not those of the commitment, or cannot be read. A library that can looks for itself:
    /// when it is so, the blob is not at hand any more, and [`Library::fetch`] gets what is wrong. A no-op when it is not at
    /// hand, or not this library's to change.
    ///
    /// # Errors
    /// What the system says.
    fn damaged(&self, commitment: Commitment) -> io::Result<()>;

    /// The commitments of all blobs at hand.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self) -> io::Result<Vec<Commitment>>;

    /// Lets go of a blob; a no-op when it is not at hand.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, commitment: Commitment) -> io::Result<()>;
}

/// Blobs in memory: for models inside a program, and for tests.
#[derive(Default)]
pub struct MemoryLibrary(Mutex<BTreeMap<Commitment, Arc<[u8]>>>);

impl MemoryLibrary {
    /// Adds a blob; returns its commitment.
    pub fn insert(&self, blob: impl Into<Arc<[u8]>>) -> Commitment {
        let blob = blob.into();
        let commitment = commitment(&blob);
        self.blobs().insert(commitment, blob);
        commitment
    }

    fn blobs(&self) -> std::sync::MutexGuard<'_, BTreeMap<Commitment, Arc<[u8]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Library for MemoryLibrary {
    fn open(&self, commitment: Commitment) -> io::Result<Option<Open>> {
        let found = self.blobs().get(&commitment).cloned();
        Ok(found.map(|bytes| {
            let len = bytes.len() as u64;
            (Box::new(bytes) as Box<_>, len)
        }))
    }

    fn fetch(
        &self,
        commitment: Commitment,
        _: Option<u64>,
        _: OnProgress<'_>,
    ) -> Result<(), String> {
        match self.blobs().contains_key(&commitment) {
            true => Ok(()),
            false => Err("blobs in memory come from nowhere else".into()),
        }
    }

    fn damaged(&self, commitment: Commitment) -> io::Result<()> {
        self.remove(commitment)
    }

    fn list(&self) -> io::Result<Vec<Commitment>> {
        Ok(self.blobs().keys().copied().collect())
    }

    fn remove(&self, commitment: Commitment) -> io::Result<()> {
        self.blobs().remove(&commitment);
        Ok(())
    }
}
