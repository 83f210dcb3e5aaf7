//! The writer: tensors in directory order to a canonical blob, hashed on the way.

use super::check::Checker;
use super::{ALIGNMENT, BlobError, Entry, Header};
use crate::commitment::{Commitment, Hasher, Tree};
use crate::config::Config;
use std::io::Write;

/// Why a blob cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The sink failed.
    #[error("cannot write the blob: {0}")]
    Io(#[from] std::io::Error),
    /// The content breaks a rule that every loader enforces.
    #[error(transparent)]
    Invalid(#[from] BlobError),
    /// Another tensor is due.
    #[error("tensor {found} is given where {expected} is due")]
    Order {
        /// The tensor that is due.
        expected: String,
        /// The tensor given.
        found: String,
    },
    /// All tensors have been written.
    #[error("tensor {found} is given after the last tensor")]
    NoneDue {
        /// The tensor given.
        found: String,
    },
    /// A tensor has another length than its shape implies.
    #[error("tensor {tensor} is given {found} bytes, must have {expected}")]
    Length {
        /// Name of the tensor.
        tensor: String,
        /// Bytes that the shape implies.
        expected: u64,
        /// Bytes given.
        found: u64,
    },
    /// Bytes were appended while no tensor was begun.
    #[error("bytes are appended to no tensor")]
    NotBegun,
    /// The file ends before all tensors are written.
    #[error("tensor {tensor} is missing")]
    Missing {
        /// The first missing tensor.
        tensor: String,
    },
    /// An earlier call failed, so what the sink holds is no beginning of a blob.
    #[error("an earlier write failed")]
    Failed,
}

/// Writes one blob. Tensors come in directory order, each whole by [`Writer::tensor`] or in parts by
/// [`Writer::begin`] and [`Writer::append`]; elements are little-endian. Every range is checked before a byte is
/// written, so [`Writer::finish`] succeeds only on a blob that loads.
pub struct Writer<W: Write> {
    sink: W,
    hasher: Hasher,
    header: Header,
    checker: Checker,
    /// Index of the tensor that is begun or due.
    current: usize,
    /// Bytes of the current tensor given so far, once it is begun.
    given: Option<u64>,
    /// Bytes written.
    at: u64,
    failed: bool,
}

impl<W: Write> Writer<W> {
    /// Writes record and manifest. `metadata` keys must be strictly ascending (spec 4.2).
    ///
    /// # Errors
    /// [`WriteError::Invalid`] when the metadata breaks a rule, [`WriteError::Io`].
    pub fn new(
        sink: W,
        config: &Config,
        tokenizer_digest: [u8; 32],
        metadata: Vec<(String, String)>,
    ) -> Result<Self, WriteError> {
        let header = Header::new(config, tokenizer_digest, metadata)?;
        let bytes = header.to_bytes();
        let (hasher, checker) = (Hasher::new(), Checker::default());
        let mut writer = Self {
            sink,
            hasher,
            header,
            checker,
            current: 0,
            given: None,
            at: 0,
            failed: false,
        };
        writer.write(&bytes)?;
        Ok(writer)
    }

    /// Everything that stands before the tensors.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The tensor that is begun or due; `None` after the last.
    #[must_use]
    pub fn expected(&self) -> Option<&Entry> {
        self.header.entries.get(self.current)
    }

    /// Writes a whole tensor.
    ///
    /// # Errors
    /// As [`Writer::begin`] and [`Writer::append`], and [`WriteError::Length`] for too few bytes.
    pub fn tensor(&mut self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        self.begin(name)?;
        self.append(bytes)?;
        self.guard(Self::need_none_begun)
    }

    /// Begins a tensor, whose bytes follow by [`Writer::append`]. It ends by itself with its last byte.
    ///
    /// # Errors
    /// [`WriteError::Order`] or [`WriteError::NoneDue`] for a tensor that is not due, [`WriteError::Length`] when the
    /// one before is incomplete, [`WriteError::Io`].
    pub fn begin(&mut self, name: &str) -> Result<(), WriteError> {
        self.guard(|w| {
            w.need_none_begun()?;
            let Some(entry) = w.header.entries.get(w.current) else {
                return Err(WriteError::NoneDue { found: name.into() });
            };
            if entry.name != name {
                return Err(WriteError::Order {
                    expected: entry.name.clone(),
                    found: name.into(),
                });
            }
            let gap = (entry.offset - w.at) as usize;
            w.write(&[0; ALIGNMENT as usize][..gap])?;
            w.given = Some(0);
            Ok(())
        })
    }

    /// Writes the next bytes of the tensor that was begun.
    ///
    /// # Errors
    /// [`WriteError::NotBegun`], [`WriteError::Length`] for too many bytes, [`WriteError::Invalid`] for a value out
    /// of its range, [`WriteError::Io`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.guard(|w| {
            let (Some(given), Some(entry)) = (w.given, w.header.entries.get(w.current)) else {
                return Err(WriteError::NotBegun);
            };
            let found = given + bytes.len() as u64;
            if found > entry.length {
                return Err(WriteError::Length {
                    tensor: entry.name.clone(),
                    expected: entry.length,
                    found,
                });
            }
            w.checker.feed(entry, bytes, |_| Ok::<_, WriteError>(()))?;
            w.given = Some(found);
            if found == entry.length {
                w.checker.close(entry)?;
                w.current += 1;
                w.given = None;
            }
            w.write(bytes)
        })
    }

    /// Ends the file. Returns the sink, flushed, and the blob's commitment.
    ///
    /// # Errors
    /// [`WriteError::Missing`] or [`WriteError::Length`] when a tensor is missing or incomplete, [`WriteError::Io`].
    pub fn finish(self) -> Result<(W, Commitment), WriteError> {
        let (sink, tree) = self.finish_tree()?;
        Ok((sink, tree.commitment()))
    }

    /// As [`Writer::finish`], with the leaf hashes from which proofs are made.
    ///
    /// # Errors
    /// As [`Writer::finish`].
    pub fn finish_tree(mut self) -> Result<(W, Tree), WriteError> {
        self.guard(|w| {
            w.need_none_begun()?;
            match w.expected() {
                Some(entry) => Err(WriteError::Missing {
                    tensor: entry.name.clone(),
                }),
                None => Ok(w.sink.flush()?),
            }
        })?;
        Ok((self.sink, self.hasher.finish()))
    }

    fn need_none_begun(&mut self) -> Result<(), WriteError> {
        match (self.given, self.expected()) {
            (Some(found), Some(entry)) => Err(WriteError::Length {
                tensor: entry.name.clone(),
                expected: entry.length,
                found,
            }),
            _ => Ok(()),
        }
    }

    /// Runs `step` unless an earlier one failed, and remembers a failure.
    fn guard(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        if self.failed {
            return Err(WriteError::Failed);
        }
        let result = step(self);
        self.failed = result.is_err();
        result
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.sink.write_all(bytes)?;
        self.hasher.update(bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("at", &self.at)
            .field("expected", &self.expected())
            .finish_non_exhaustive()
    }
}
