//! A blob, its tree, and sources in memory that do what a test says.
#![allow(dead_code, unreachable_pub)]

pub mod http;

use blue_node::fetch::{Options, Progress, Request, Source, SourceError};
use blue_node::store::{Store, What, chunk_range};
use int_engine::commitment::{Commitment, Tree};
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const BLOB: &[u8] = include_bytes!("../../../models/default/blue-tiny.blob");

pub fn tree() -> Tree {
    Tree::read(BLOB, BLOB.len() as u64, NonZeroUsize::MIN, |_| {}).unwrap()
}

pub fn leaves() -> Vec<u8> {
    tree().leaves().as_flattened().to_vec()
}

pub fn commitment() -> Commitment {
    int_engine::commitment::commitment(BLOB)
}

pub fn chunk(index: u64) -> Range<usize> {
    let range = chunk_range(BLOB.len() as u64, index).unwrap();
    range.start as usize..range.end as usize
}

/// Nothing is given up for being slow: no test depends on the machine's speed unless it says so.
pub fn options() -> Options {
    Options {
        connections: NonZeroUsize::new(2).unwrap(),
        tries: NonZeroU32::new(3).unwrap(),
        backoff: Duration::from_millis(5),
        stall: Duration::from_secs(600),
        least_rate: 64 << 10,
        patience: Duration::from_millis(50),
        run: 256 << 10,
        threads: NonZeroUsize::new(2).unwrap(),
        ..Options::default()
    }
}

pub fn quiet() -> impl FnMut(Progress) -> ControlFlow<()> + Send {
    |_| ControlFlow::Continue(())
}

/// Published bytes of the blob in a store.
pub fn published(store: &Store) -> Option<Vec<u8>> {
    let blob = store.blob(commitment()).unwrap()?;
    Some(std::fs::read(blob.path()).unwrap())
}

/// The names in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Files in memory.
pub struct Memory {
    pub name: String,
    pub blob: Vec<u8>,
    pub leaves: Vec<u8>,
    /// Bytes of the blob that were handed over.
    pub served: AtomicU64,
    pub requests: Mutex<Vec<(What, Range<u64>)>>,
}

impl Memory {
    pub fn new(name: &str, blob: Vec<u8>, leaves: Vec<u8>) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            blob,
            leaves,
            served: AtomicU64::new(0),
            requests: Mutex::default(),
        })
    }

    pub fn good() -> Arc<Self> {
        Self::new("good", BLOB.to_vec(), leaves())
    }

    /// One bit of the blob is another.
    pub fn flipped(at: usize) -> Arc<Self> {
        let mut blob = BLOB.to_vec();
        blob[at] ^= 1 << (at % 8);
        Self::new("flipped", blob, leaves())
    }

    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }
}

impl Source for Memory {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(
        &self,
        request: &Request,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let range = request.range.clone();
        self.requests
            .lock()
            .unwrap()
            .push((request.what, range.clone()));
        let file = match request.what {
            What::Blob => &self.blob,
            What::Leaves => &self.leaves,
        };
        if file.is_empty() {
            return Err(SourceError::Absent);
        }
        let asked = range.end - range.start;
        let (start, end) = (range.start as usize, range.end as usize);
        let bytes = file
            .get(start..end.min(file.len()))
            .ok_or(SourceError::OtherRange)?;
        for piece in bytes.chunks(10_000) {
            if request.what == What::Blob {
                self.served.fetch_add(piece.len() as u64, Ordering::Relaxed);
            }
            if take(piece).is_break() {
                return Ok(());
            }
        }
        if (bytes.len() as u64) < asked {
            let got = bytes.len() as u64;
            return Err(SourceError::Fewer { got, asked });
        }
        Ok(())
    }
}
