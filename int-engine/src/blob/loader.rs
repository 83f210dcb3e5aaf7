//! The loader: from bytes in pieces of any size to a [`Model`].

use super::check::Checker;
use super::column::Column;
use super::header::plan;
use super::{BlobError, Entry, Header, LoadError, RECORD_LEN, Record};
use crate::commitment::{Commitment, Hasher};
use crate::config::{Config, Scheme};
use crate::model::{Embedding, Head, Layer, Linear, Model, StaticScales};
use crate::tiles::Tiles;

/// Bytes that are hashed, checked and stored at a time, while they are in the cache.
const PIECE: usize = 1 << 18;

/// Reads a blob that arrives in pieces of any size. Each byte is hashed once and checked once while it is in the cache.
/// Memory grows with the bytes that have arrived, never with a declared size alone: a tensor's allocation doubles until
/// it has the tensor's size, so while it grows its elements are moved, and for a moment held twice.
pub struct Loader {
    hasher: Hasher,
    /// Bytes taken so far.
    at: u64,
    stage: Stage,
    expected: Option<Commitment>,
    failed: Option<LoadError>,
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

struct Tensors {
    header: Header,
    checker: Checker,
    /// The tensors read so far; the last one may be incomplete.
    columns: Vec<Column>,
    /// Index of the tensor that is being read or comes next.
    current: usize,
}

impl Default for Loader {
    fn default() -> Self {
        Self::new()
    }
}

impl Loader {
    /// A loader of any valid blob.
    #[must_use]
    pub fn new() -> Self {
        Self {
            hasher: Hasher::new(),
            at: 0,
            stage: Stage::Record(Vec::new()),
            expected: None,
            failed: None,
        }
    }

    /// Makes [`Loader::finish`] refuse every blob but the one with this commitment.
    #[must_use]
    pub fn expect(mut self, commitment: Commitment) -> Self {
        self.expected = Some(commitment);
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
        for piece in bytes.chunks(PIECE) {
            if let Err(error) = self.take(piece) {
                self.failed = Some(error.clone());
                return Err(error);
            }
        }
        Ok(())
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), LoadError> {
        self.hasher.update(bytes);
        while !bytes.is_empty() {
            let taken = match &mut self.stage {
                Stage::Record(record) => {
                    let taken = fill(record, RECORD_LEN, bytes);
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
                    let taken = fill(manifest, record.manifest_len as usize, bytes);
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
    fn end_of_manifest(&mut self) -> Result<(), BlobError> {
        if let Stage::Manifest {
            record,
            entries,
            bytes,
        } = &mut self.stage
        {
            if bytes.len() == record.manifest_len as usize {
                let header = Header::from_parts(record.clone(), std::mem::take(entries), bytes)?;
                let tensors = Tensors {
                    header,
                    checker: Checker::default(),
                    columns: Vec::new(),
                    current: 0,
                };
                self.stage = Stage::Tensors(Box::new(tensors));
            }
        }
        Ok(())
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

/// Extends `buffer` to at most `len` bytes; returns how many were taken.
fn fill(buffer: &mut Vec<u8>, len: usize, bytes: &[u8]) -> usize {
    let taken = bytes.len().min(len - buffer.len());
    buffer.extend_from_slice(&bytes[..taken]);
    taken
}

impl Tensors {
    /// Takes bytes at position `at` of the file, up to the end of a gap or tensor; returns how many.
    fn take(&mut self, at: u64, bytes: &[u8]) -> Result<usize, LoadError> {
        let Some(entry) = self.header.entries.get(self.current) else {
            return Err(BlobError::TrailingBytes {
                expected: self.header.total_len,
            }
            .into());
        };
        let available = bytes.len() as u64;
        if at < entry.offset {
            let gap = &bytes[..available.min(entry.offset - at) as usize];
            if let Some(i) = gap.iter().position(|&b| b != 0) {
                return Err(BlobError::Gap {
                    tensor: entry.name.clone(),
                    offset: at + i as u64,
                    found: gap[i],
                }
                .into());
            }
            return Ok(gap.len());
        }
        if at == entry.offset {
            self.columns.push(Column::new(entry));
        }
        let left = entry.offset + entry.length - at;
        let part = &bytes[..available.min(left) as usize];
        let column = &mut self.columns[self.current];
        self.checker.feed(entry, part, |elements| {
            Ok::<_, LoadError>(column.push(entry, elements)?)
        })?;
        if part.len() as u64 == left {
            self.checker.close(entry)?;
            self.current += 1;
        }
        Ok(part.len())
    }

    fn build(self, commitment: Commitment) -> Model {
        let Header {
            config,
            tokenizer_digest,
            metadata,
            total_len,
            ..
        } = self.header;
        let mut t = Columns(self.columns.into_iter());
        let c = &config;
        let embed = Embedding {
            weight: t.tiles(),
            mult: t.int32(),
            shift: t.int8(),
        };
        let rope_phase = t.uint64();
        let layers = (0..c.layers()).map(|_| t.layer(c)).collect();
        let final_gain = t.int16();
        let pre_shift = t.int32()[0];
        let weight = (!c.tied()).then(|| t.tiles());
        let head = Head {
            weight,
            mult: t.int32(),
            shift: t.int8(),
            pre_shift,
        };
        Model {
            embed,
            rope_phase,
            layers,
            final_gain,
            head,
            config,
            commitment,
            tokenizer_digest,
            metadata,
            blob_len: total_len,
        }
    }
}

/// The complete tensors in directory order, whose types the directory fixes.
struct Columns(std::vec::IntoIter<Column>);

macro_rules! typed {
    ($($name:ident, $variant:ident, $element:ty;)*) => {
        $(fn $name(&mut self) -> Vec<$element> {
            match self.0.next() {
                Some(Column::$variant(values)) => values,
                _ => unreachable!("the directory has another order of types"),
            }
        })*
    };
}

impl Columns {
    typed! {
        int8, Int8, i8;
        int16, Int16, i16;
        int32, Int32, i32;
        uint64, Uint64, u64;
    }

    fn tiles(&mut self) -> Tiles {
        match self.0.next() {
            Some(Column::Weights(tiles, _)) => tiles,
            _ => unreachable!("the directory has another order of types"),
        }
    }

    fn linear(&mut self, pre_shift: i32) -> Linear {
        Linear {
            weight: self.tiles(),
            mult: self.int32(),
            shift: self.int8(),
            pre_shift,
        }
    }

    /// The checker has left no negative value.
    fn static_scales(&mut self) -> StaticScales {
        let k = self.int32();
        StaticScales {
            attn_norm: k[0] as u32,
            mlp_norm: k[1] as u32,
            o: k[2] as u32,
            down_shift: k[3] as u32,
            down: k[4] as u32,
        }
    }

    fn layer(&mut self, c: &Config) -> Layer {
        let k = self.int32();
        let static_scales = (c.scheme() == Scheme::Static).then(|| self.static_scales());
        let (q, key, v) = (self.linear(k[0]), self.linear(k[1]), self.linear(k[2]));
        let q_gain = c.qk_norm().then(|| self.int32());
        let k_gain = c.qk_norm().then(|| self.int32());
        Layer {
            static_scales,
            q,
            k: key,
            v,
            o: self.linear(k[3]),
            gate: self.linear(k[4]),
            up: self.linear(k[5]),
            down: self.linear(k[6]),
            q_gain,
            k_gain,
            score_mult: k[7],
            score_shift: k[8],
        }
    }
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
