//! A file on this machine becomes a blob of the store.

use super::layout::{chunk_range, stated_len};
use super::{Blob, Publishing, Store, StoreError, disk};
use int_engine::commitment::{Commitment, FIRST_CHUNK, Tree};
use int_engine::read::read_exact;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;

/// Where an import stands; bytes done, of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Importing {
    /// The file is hashed.
    Hashing(u64, u64),
    /// What an earlier import has copied is hashed.
    Checking(u64, u64),
    /// The file is copied.
    Copying(u64, u64),
    /// The copy is published.
    Publishing(Publishing),
}

impl Store {
    /// Copies the file at `path` in, if its bytes have the commitment `expected` (any, when there is none), and publishes
    /// it. A copy that broke off is gone on with, and a blob that is published already is not written again.
    ///
    /// # Errors
    /// [`StoreError::NotABlob`] when the record is not that of a file of this length, [`StoreError::OtherBytes`] for
    /// another commitment, [`StoreError::Damaged`] when the file changes meanwhile, and what the system refuses.
    pub fn import(
        &self,
        path: &Path,
        expected: Option<Commitment>,
        threads: NonZeroUsize,
        progress: &mut (dyn FnMut(Importing) + Send),
    ) -> Result<Blob, StoreError> {
        self.writer()?;
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let (file, len) =
            disk::open(path)?.ok_or_else(|| StoreError::io("read", path, missing()))?;
        begins_as_blob(path, &file, len)?;
        let mut done = 0;
        let tree = Tree::read(&file, len, threads, |n| {
            done += n;
            progress(Importing::Hashing(done, len));
        });
        let tree = tree.map_err(|e| StoreError::io("read", path, e.into()))?;
        let commitment = tree.commitment();
        if let Some(expected) = expected
            && expected != commitment
        {
            return Err(StoreError::OtherBytes {
                what: path.display().to_string(),
                expected,
                found: commitment,
            });
        }
        if let Some(blob) = self.blob(commitment)? {
            return Ok(blob);
        }
        let slot = self.slot(commitment)?;
        let mut partial = slot.open(tree, true, threads, &mut |done, total| {
            progress(Importing::Checking(done, total));
        })?;
        for index in 0..partial.held().len() as u64 {
            let Some(range) = chunk_range(len, index) else {
                break;
            };
            if partial.held().get(index as usize) == Some(&false) {
                let mut chunk = vec![0; (range.end - range.start) as usize];
                read_exact(&file, &mut chunk, range.start)
                    .map_err(|e| StoreError::io("read", path, e.into()))?;
                partial.write(index, &chunk)?;
            }
            progress(Importing::Copying(range.end, len));
        }
        partial.publish(&mut |step| progress(Importing::Publishing(step)))
    }
}

fn begins_as_blob(path: &Path, file: &File, len: u64) -> Result<(), StoreError> {
    let refused = |why: String| StoreError::NotABlob {
        path: path.to_path_buf(),
        why,
    };
    if len <= FIRST_CHUNK as u64 {
        return Err(refused(format!(
            "has {len} bytes: a blob is longer than its {FIRST_CHUNK} byte record"
        )));
    }
    let mut head = [0; 25];
    read_exact(file, &mut head, 0).map_err(|e| StoreError::io("read", path, e.into()))?;
    match stated_len(&head) {
        None => Err(refused(
            "is not a blob: it does not begin with BLUEBLOB".into(),
        )),
        Some(stated) if stated != len => Err(refused(format!(
            "has {len} bytes, its record says {stated}"
        ))),
        Some(_) => Ok(()),
    }
}
