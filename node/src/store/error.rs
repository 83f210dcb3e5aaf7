//! What can go wrong in a store.

use int_engine::commitment::Commitment;
use std::io;
use std::path::{Path, PathBuf};

/// Why a store did not do what it was asked for. Nothing is published after an error.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process, or another [`Store`](super::Store) of this one, writes there.
    #[error("{} is written by another process; stop it, or use another folder", .dir.display())]
    Locked {
        /// The folder of the store.
        dir: PathBuf,
    },
    /// The store was opened for reading alone.
    #[error("{} is open for reading only", .dir.display())]
    ReadOnly {
        /// The folder of the store.
        dir: PathBuf,
    },
    /// This blob is being written by another caller in this process.
    #[error("{commitment} is being written already")]
    Busy {
        /// The blob.
        commitment: Commitment,
    },
    /// The disk is full, or a quota is used up. What was written before stays and is gone on with.
    #[error("no space for {}: {needed} bytes are needed, {}", .path.display(), free(*.available))]
    NoSpace {
        /// The file that did not fit.
        path: PathBuf,
        /// Bytes of the whole file.
        needed: u64,
        /// Bytes that were free, where the system says.
        available: Option<u64>,
    },
    /// The system refused.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file to import is no blob.
    #[error("{} {why}", .path.display())]
    NotABlob {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The bytes are those of another commitment.
    #[error("{what} is not the blob {expected}: its bytes have the commitment {found}")]
    OtherBytes {
        /// The file or the leaves.
        what: String,
        /// What was asked for.
        expected: Commitment,
        /// What the bytes have.
        found: Commitment,
    },
    /// Chunks on the disk are not those that were written.
    #[error("{commitment} has damaged chunks on the disk: {}", indices(.chunks))]
    Damaged {
        /// The blob.
        commitment: Commitment,
        /// Indices of the chunks, ascending.
        chunks: Vec<u64>,
    },
}

fn free(available: Option<u64>) -> String {
    match available {
        Some(n) => format!("{n} are free"),
        None => "fewer are free".into(),
    }
}

/// Ascending indices as ranges: `3, 7-9 and 5 more`.
pub(super) fn indices(chunks: &[u64]) -> String {
    const MOST: usize = 16;
    let runs = chunks.chunk_by(|a, b| a + 1 == *b);
    let (mut text, mut told) = (Vec::new(), 0);
    for run in runs.take(MOST) {
        told += run.len();
        text.push(match run {
            [first, .., last] => format!("{first}-{last}"),
            [only] => only.to_string(),
            [] => continue,
        });
    }
    let text = text.join(", ");
    match chunks.len() - told {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

impl StoreError {
    pub(super) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            doing,
            path: path.to_path_buf(),
            source,
        }
    }

    /// As [`StoreError::io`], with a full disk told apart. `needed` is the whole file's length.
    pub(super) fn write(path: &Path, needed: u64, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace {
                path: path.to_path_buf(),
                needed,
                available: super::disk::available(path),
            },
            _ => Self::io("write", path, source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::indices;

    #[test]
    fn indices_are_told_as_ranges() {
        assert_eq!(indices(&[]), "");
        assert_eq!(indices(&[3]), "3");
        assert_eq!(indices(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        let odd: Vec<u64> = (0..40).map(|i| 2 * i).collect();
        assert!(indices(&odd).ends_with(", 30 and 24 more"));
    }
}
