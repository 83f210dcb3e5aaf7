//! Everything hashed again, to find what a disk has done.

use super::error::indices;
use super::layout::What;
use super::{State, Store, StoreError, disk, scan};
use int_engine::commitment::{Commitment, Tree};
use std::fmt;
use std::num::NonZeroUsize;

/// What hashing a published blob again has shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every byte is right.
    Right,
    /// Every byte of the blob is right, its leaves were not and have been written again.
    Leaves,
    /// These chunks are other bytes or cannot be read; the blob lies in `damaged/`.
    Chunks(Vec<u64>),
    /// The bytes have another commitment, and no leaves are there to tell which; the blob lies in `damaged/`.
    Bytes,
}

impl Verdict {
    /// Whether the blob is still published.
    #[must_use]
    pub fn is_right(&self) -> bool {
        matches!(self, Self::Right | Self::Leaves)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.write_str("right"),
            Self::Leaves => f.write_str("leaves written again"),
            Self::Chunks(chunks) => write!(f, "chunks {}", indices(chunks)),
            Self::Bytes => f.write_str("chunks unknown: its leaves are damaged too"),
        }
    }
}

/// A blob that was hashed again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// The blob.
    pub commitment: Commitment,
    /// Length of its file in bytes.
    pub len: u64,
    /// What was found.
    pub verdict: Verdict,
}

impl Store {
    /// Hashes every published blob again, read from the disk. A damaged one is moved to `damaged/`, so that nobody gets it;
    /// a fetch of it keeps the chunks that are right. `progress(done, total)` counts the bytes of all blobs.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], and what the system refuses of folders and names; a blob that cannot be read is damaged.
    pub fn scrub(
        &self,
        threads: NonZeroUsize,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Vec<Checked>, StoreError> {
        self.writer()?;
        let mut blobs = self.list()?;
        blobs.retain(|entry| entry.state == State::Published);
        let total: u64 = blobs.iter().map(|entry| entry.len).sum();
        let (mut before, mut checked) = (0, vec![]);
        for entry in blobs {
            let verdict = self.check(entry.commitment, threads, &mut |done, _| {
                progress(before + done.min(entry.len), total);
            })?;
            before += entry.len;
            progress(before, total);
            // One that is gone by now was removed.
            checked.extend(verdict.map(|verdict| Checked {
                commitment: entry.commitment,
                len: entry.len,
                verdict,
            }));
        }
        Ok(checked)
    }

    /// Hashes one published blob again, as [`Store::scrub`] does with all; `None` when it is not published. For the
    /// process that has the store open and cannot load a blob: a damaged one is moved to `damaged/`, and the next fetch
    /// keeps the chunks that are right. Whoever has opened it before reads on in the same file. `progress(done, total)`
    /// counts bytes.
    ///
    /// # Errors
    /// As [`Store::scrub`], and [`StoreError::Busy`] while somebody else in this process writes the blob.
    pub fn check(
        &self,
        commitment: Commitment,
        threads: NonZeroUsize,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Option<Verdict>, StoreError> {
        let _slot = self.slot(commitment)?;
        let path = self.path(commitment, What::Blob);
        let opened = disk::open(&path)?;
        let Some((file, len)) = opened else {
            return Ok(None);
        };
        disk::forget(&file);
        let mut done = 0;
        let read = Tree::read(&file, len, threads, |n| {
            done += n;
            progress(done, len);
        });
        if let Ok(read) = &read
            && read.commitment() == commitment
        {
            if self.leaves(commitment, len)?.as_ref() == Some(read) {
                return Ok(Some(Verdict::Right));
            }
            let leaves = self.path(commitment, What::Leaves);
            disk::write_whole(&leaves, read.leaves().as_flattened())?;
            tracing::warn!(%commitment, "leaves written again");
            return Ok(Some(Verdict::Leaves));
        }
        let verdict = match self.tree(commitment, &file, len)? {
            None => Verdict::Bytes,
            Some(tree) => {
                let mut chunks =
                    scan::damaged(&file, &tree, threads, &mut |done, _| progress(done, len));
                if chunks.is_empty() {
                    // All chunks are there, and bytes beyond them.
                    chunks.extend((tree.leaves().len() as u64).checked_sub(1));
                }
                Verdict::Chunks(chunks)
            }
        };
        disk::rename(&path, &self.damaged_path(commitment))?;
        tracing::error!(%commitment, %verdict, "damaged blob taken out");
        Ok(Some(verdict))
    }
}
