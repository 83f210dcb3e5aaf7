//! A store and the sources that fill it, as models see them.

use crate::fetch::{self, Options, Progress, Source, fetch};
use crate::library::{Library, OnProgress, Open};
use crate::store::{State, Store, StoreError};
use int_engine::commitment::Commitment;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Blobs of a store, and where others come from.
pub struct Shelf {
    store: Store,
    sources: Vec<Arc<dyn Source>>,
    options: Options,
}

impl Shelf {
    /// A store; without sources it holds what was imported.
    #[must_use]
    pub fn new(store: Store, sources: Vec<Arc<dyn Source>>, options: Options) -> Self {
        Self {
            store,
            sources,
            options,
        }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }
}

fn other(error: StoreError) -> io::Error {
    io::Error::other(error)
}

impl Library for Shelf {
    fn open(&self, commitment: Commitment) -> io::Result<Option<Open>> {
        let blob = self.store.blob(commitment).map_err(other)?;
        Ok(blob.map(|blob| {
            let len = blob.len();
            (Box::new(blob) as Box<_>, len)
        }))
    }

    fn fetch(
        &self,
        commitment: Commitment,
        len: Option<u64>,
        progress: OnProgress<'_>,
    ) -> Result<(), String> {
        let most = self.options.max_blob_len;
        let options = match len {
            Some(len) if len > most => {
                return Err(format!(
                    "the blob has {len} bytes, more than the limit of {most}"
                ));
            }
            Some(len) => Options {
                max_blob_len: len,
                ..self.options.clone()
            },
            None => self.options.clone(),
        };
        let heard = &mut |step| match step {
            Progress::Proving => progress(0, len.unwrap_or_default()),
            Progress::Checking(done, total) | Progress::Fetching(done, total) => {
                progress(done, total)
            }
            Progress::Publishing(_) => ControlFlow::Continue(()),
        };
        let report = fetch(&self.store, commitment, &self.sources, &options, heard);
        match report {
            Ok(report) => {
                tracing::info!(%commitment, bytes = report.len, kept = report.kept, "blob fetched");
                Ok(())
            }
            Err(fetch::FetchError::Cancelled) => Err("broken off".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn damaged(&self, commitment: Commitment) -> io::Result<()> {
        let threads = self.options.threads;
        let checked = self.store.check(commitment, threads, &mut |_, _| {});
        checked.map(|_| ()).map_err(other)
    }

    fn list(&self) -> io::Result<Vec<Commitment>> {
        let entries = self.store.list().map_err(other)?;
        let published = entries.into_iter().filter(|e| e.state == State::Published);
        Ok(published.map(|entry| entry.commitment).collect())
    }

    fn remove(&self, commitment: Commitment) -> io::Result<()> {
        self.store.remove(commitment).map(|_| ()).map_err(other)
    }
}
