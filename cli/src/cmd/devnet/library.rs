//! Where the models of a development chain come from: files named on the command line, and a store.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use blue_node::library::{Library, OnProgress, Open};
use blue_node::models::{Backend as Engines, Cpu, Purpose, Started};
use blue_node::shelf::Shelf;
use int_engine::commitment::Commitment;
use int_engine::model::Model;
use int_engine::read::read_exact;
use precompile::Fault;

use crate::embedded;
use crate::reference::ReferenceEngine;

/// A blob outside the store.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Inside this program.
    Embedded,
    /// A file, which is never changed.
    File(PathBuf),
}

/// Blobs of the command line, and a store for others.
pub(super) struct Blobs {
    pub(super) files: BTreeMap<Commitment, Place>,
    pub(super) shelf: Option<Shelf>,
}

impl Library for Blobs {
    fn open(&self, commitment: Commitment) -> io::Result<Option<Open>> {
        match (self.files.get(&commitment), &self.shelf) {
            (Some(Place::Embedded), _) => Ok(Some((
                Box::new(embedded::BLOB),
                embedded::BLOB.len() as u64,
            ))),
            (Some(Place::File(path)), _) => {
                let file = File::open(path)?;
                let len = file.metadata()?.len();
                Ok(Some((Box::new(file), len)))
            }
            (None, Some(shelf)) => shelf.open(commitment),
            (None, None) => Ok(None),
        }
    }

    fn fetch(
        &self,
        commitment: Commitment,
        len: Option<u64>,
        progress: OnProgress<'_>,
    ) -> Result<(), String> {
        match &self.shelf {
            Some(shelf) => shelf.fetch(commitment, len, progress),
            None => Err("no --blob is its file, and there is no --store to fetch it into".into()),
        }
    }

    fn damaged(&self, commitment: Commitment) -> io::Result<()> {
        match (self.files.get(&commitment), &self.shelf) {
            (None, Some(shelf)) => shelf.damaged(commitment),
            // Files of the command line are the user's.
            _ => Ok(()),
        }
    }

    fn list(&self) -> io::Result<Vec<Commitment>> {
        self.shelf.as_ref().map_or(Ok(vec![]), Library::list)
    }

    fn remove(&self, commitment: Commitment) -> io::Result<()> {
        let shelf = self.shelf.as_ref();
        shelf.map_or(Ok(()), |shelf| shelf.remove(commitment))
    }
}

/// Engines of the reference, which reads a blob by itself.
pub(super) struct Reference(pub(super) Arc<dyn Library>);

impl Engines for Reference {
    fn name(&self) -> &str {
        "reference"
    }

    fn beside_weights(&self) -> u64 {
        0
    }

    fn start(&self, model: &Arc<Model>, _: Purpose) -> Result<Started, Fault> {
        let commitment = model.commitment();
        let missing = |reason: String| Fault::Missing { commitment, reason };
        let open = self
            .0
            .open(commitment)
            .map_err(|e| missing(e.to_string()))?;
        let (source, len) = open.ok_or_else(|| missing("its file is gone".into()))?;
        let mut blob = Vec::new();
        let whole = usize::try_from(len).ok();
        whole
            .filter(|&len| blob.try_reserve_exact(len).is_ok())
            .map(|len| blob.resize(len, 0))
            .ok_or_else(|| missing(format!("its {len} bytes do not fit into memory")))?;
        read_exact(&*source, &mut blob, 0).map_err(|e| missing(e.to_string()))?;
        let engine = ReferenceEngine::new(&blob, Arc::clone(model));
        let engine =
            engine.map_err(|error| missing(format!("the reference refuses it: {error}")))?;
        Ok(Started {
            engine: Arc::new(engine),
            prefix: Box::new(|| None),
        })
    }
}

/// Engines on this CPU, or the reference's.
pub(super) fn engines(cpu: Option<Cpu>, library: &Arc<dyn Library>) -> Arc<dyn Engines> {
    match cpu {
        Some(cpu) => Arc::new(cpu),
        None => Arc::new(Reference(Arc::clone(library))),
    }
}
