//! The loader: from bytes in pieces of any size to a [`Model`].

use super::header::plan;
use super::tensors::Tensors;
use super::{BlobError, Entry, Header, LoadError, RECORD_LEN, Record};
use crate::buffer::Pages;
use crate::commitment::{CHUNK, Commitment, FIRST_CHUNK, Hasher};
use crate::halt::{Fault, try_reserve};
use crate::model::Model;
use crate::read::{self, PIECE, ReadAt};
use std::num::NonZeroUsize;

/// Makes a [`Model`] of a blob: of bytes that arrive in pieces of any size by [`Loader::push`], or of a file by
/// [`Loader::load`]. Both give the same model or the same error.
///
/// Each byte is read once; the bytes that are used are the bytes that were hashed and checked. Memory never follows from a
/// declared size alone:
///
/// - [`Loader::push`]: it grows with the bytes that have arrived. A tensor of 2 MiB or more gets its address space when it
///   begins, on Linux, and takes memory as it fills; else its allocation doubles until it has the tensor's size, so while
///   it grows its elements are moved, and for a moment held twice.
/// - [`Loader::load`]: a file that has the length that its header implies gets room for all its weights at once: on Linux
///   address space, which takes memory as it fills; elsewhere memory. Besides, every thread holds a piece of the file.
///
/// No memory is a [`Fault`](crate::halt::Fault), where sizes depend on the blob. What the format bounds to a few KiB, a
/// name or a pair of metadata, is allocated as usual.
pub struct Loader {
    hasher: Hasher,
    /// Bytes taken so far.
    at: u64,
    stage: Stage,
    expected: Option<Commitment>,
    failed: Option<LoadError>,
    pages: Pages,
    /// Bytes of a piece of a file, a multiple of a chunk.
    piece: usize,
    /// Length of the file, when it is known.
    len: Option<u64>,
}

enum Stage {
    Record(Vec<u8>),
    Manifest {
        record: Record,
        entries: Vec<Entry>,
        bytes: Vec<u8>,
    },
    Tensors(Box<Tensors>),
}

impl Default for Loader {
    fn default() -> Self {
        Self::new()
    }
}

impl Loader {
    /// Most chunks of a piece that a thread reads at a time: 16 MiB.
    pub const MOST_CHUNKS: usize = 256;

    /// A loader of any valid blob.
    #[must_use]
    pub fn new() -> Self {
        Self {
            hasher: Hasher::new(),
            at: 0,
            stage: Stage::Record(Vec::new()),
            expected: None,
            failed: None,
            pages: Pages::default(),
            piece: PIECE,
            len: None,
        }
    }

    /// Makes [`Loader::finish`] refuse every blob but the one with this commitment.
    #[must_use]
    pub fn expect(mut self, commitment: Commitment) -> Self {
        self.expected = Some(commitment);
        self
    }

    /// The pages of the memory for weights; the model is the same with either.
    #[must_use]
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// Chunks that a thread of [`Loader::load`] reads at a time, 8 if not set, at most [`Loader::MOST_CHUNKS`]; the model is
    /// the same with any.
    #[must_use]
    pub fn chunks_at_a_time(mut self, chunks: NonZeroUsize) -> Self {
        self.piece = CHUNK * chunks.get().min(Self::MOST_CHUNKS);
        self
    }

    /// The header, once its bytes have arrived.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        match &self.stage {
            Stage::Tensors(t) => Some(&t.header),
            _ => None,
        }
    }

    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// [`LoadError::Blob`]: the first rule of spec 4 that the bytes so far break. [`LoadError::Fault`]: this machine has
    /// no memory for the next bytes. After an error every further call returns it again.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let mut bytes = bytes;
        while !bytes.is_empty() {
            // Bytes that come all at once are cut between chunks, and hashed where they lie.
            let most = if self.at == 0 {
                FIRST_CHUNK + PIECE
            } else {
                PIECE
            };
            let (piece, later) = bytes.split_at(bytes.len().min(most));
            if let Err(error) = self.take(piece) {
                self.failed = Some(error.clone());
                return Err(error);
            }
            bytes = later;
        }
        Ok(())
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), LoadError> {
        self.hasher.update(bytes);
        while !bytes.is_empty() {
            let taken = match &mut self.stage {
                Stage::Record(record) => {
                    let taken = fill(record, RECORD_LEN, bytes)?;
                    if record.len() == RECORD_LEN {
                        let (record, entries) = plan(record)?;
                        self.stage = Stage::Manifest {
                            record,
                            entries,
                            bytes: Vec::new(),
                        };
                        self.end_of_manifest()?;
                    }
                    taken
                }
                Stage::Manifest {
                    record,
                    bytes: manifest,
                    ..
                } => {
                    let taken = fill(manifest, record.manifest_len as usize, bytes)?;
                    self.end_of_manifest()?;
                    taken
                }
                Stage::Tensors(tensors) => tensors.take(self.at, bytes)?,
            };
            self.at += taken as u64;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Goes on to the tensors when the manifest is complete.
    fn end_of_manifest(&mut self) -> Result<(), LoadError> {
        if let Stage::Manifest {
            record,
            entries,
            bytes,
        } = &mut self.stage
        {
            if bytes.len() == record.manifest_len as usize {
                let header = Header::from_parts(record.clone(), std::mem::take(entries), bytes)?;
                let whole = self.len == Some(header.total_len);
                let tensors = Tensors::new(header, self.pages, whole)?;
                self.stage = Stage::Tensors(Box::new(tensors));
            }
        }
        Ok(())
    }

    /// The model of the `len` bytes of `source`, a file or bytes in memory, read by at most `threads` threads. `progress`
    /// hears of the bytes that have been taken, in portions.
    ///
    /// A file of another length than its header implies has an error, and is read by one thread to find the first.
    ///
    /// # Errors
    /// As [`Loader::push`] and [`Loader::finish`]; [`LoadError::Read`] when the source cannot be read, or has fewer bytes.
    ///
    /// # Panics
    /// When bytes were pushed before.
    pub fn load<S: ReadAt + ?Sized>(
        mut self,
        source: &S,
        len: u64,
        threads: NonZeroUsize,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<Model, LoadError> {
        assert_eq!(self.at, 0, "a loader that has taken nothing");
        self.len = Some(len);
        let first = self.piece.saturating_add(FIRST_CHUNK);
        let mut buffer = read::piece_buffer(len.min(first as u64) as usize)?;
        while self.at < len {
            if let Stage::Tensors(tensors) = &mut self.stage {
                if tensors.header.total_len == len {
                    let (at, piece, hasher) = (self.at, self.piece, &mut self.hasher);
                    tensors.read(source, at, piece, threads, hasher, progress)?;
                    self.at = len;
                    break;
                }
            }
            let most = if self.at == 0 { first } else { self.piece };
            let n = (len - self.at).min(most as u64) as usize;
            read::read_exact(source, &mut buffer[..n], self.at)?;
            self.push(&buffer[..n])?;
            progress(n as u64);
        }
        self.finish()
    }

    /// The model, after the last byte.
    ///
    /// # Errors
    /// The error of an earlier [`Loader::push`]; [`BlobError::Truncated`]; [`BlobError::CommitmentMismatch`] when
    /// [`Loader::expect`] asked for another blob.
    pub fn finish(self) -> Result<Model, LoadError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let expected = match &self.stage {
            Stage::Record(_) => RECORD_LEN as u64,
            Stage::Manifest { record, .. } => record.total_len,
            Stage::Tensors(t) => t.header.total_len,
        };
        let Stage::Tensors(tensors) = self.stage else {
            return Err(BlobError::Truncated {
                expected,
                found: self.at,
            }
            .into());
        };
        if self.at < expected {
            return Err(BlobError::Truncated {
                expected,
                found: self.at,
            }
            .into());
        }
        let commitment = self.hasher.finish().commitment();
        if let Some(expected) = self.expected.filter(|&expected| expected != commitment) {
            return Err(BlobError::CommitmentMismatch {
                expected,
                found: commitment,
            }
            .into());
        }
        Ok(tensors.build(commitment))
    }
}

/// Extends `buffer` to at most `len` bytes; returns how many were taken. Its memory stays below twice what it holds.
fn fill(buffer: &mut Vec<u8>, len: usize, bytes: &[u8]) -> Result<usize, Fault> {
    let taken = bytes.len().min(len - buffer.len());
    let needed = buffer.len() + taken;
    if needed > buffer.capacity() {
        let doubled = (2 * buffer.len()).min(len).max(needed);
        try_reserve(buffer, doubled, "the beginning of a blob")?;
    }
    buffer.extend_from_slice(&bytes[..taken]);
    Ok(taken)
}

impl Model {
    /// Loads a whole blob from memory.
    ///
    /// # Errors
    /// As [`Loader::push`] and [`Loader::finish`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LoadError> {
        let mut loader = Loader::new();
        loader.push(bytes)?;
        loader.finish()
    }
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("at", &self.at)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
