//! The tensors of a blob, read in the order of the file or by several threads.

use super::check::{self, Checker};
use super::column::{Column, Parts};
use super::{BlobError, Entry, Header, LoadError};
use crate::buffer::Pages;
use crate::commitment::{Commitment, Hasher, leaf_hashes};
use crate::config::{Config, Scheme};
use crate::halt::{Fault, try_reserve};
use crate::model::{Embedding, Head, Layer, Linear, Model, StaticScales};
use crate::pool::lock;
use crate::read::{self, ReadAt};
use crate::tiles::Tiles;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Mutex;

/// What has been read after the manifest.
pub(super) struct Tensors {
    pub(super) header: Header,
    checker: Checker,
    /// The tensors read so far, of which the last one may be incomplete; or all, when they were made for the whole file.
    columns: Vec<Column>,
    /// Index of the tensor that is being read or comes next.
    current: usize,
    pages: Pages,
}

/// Consecutive bytes of the file that lie in one tensor or in the gap before it.
struct Span {
    /// Index of the tensor.
    index: usize,
    gap: bool,
    len: usize,
    /// They are the tensor's last.
    last: bool,
}

/// The first span of `len` bytes, at least one, at position `at`, where `current` is the first tensor that ends later;
/// `None` after the last tensor.
fn span(entries: &[Entry], current: usize, at: u64, len: usize) -> Option<Span> {
    let entry = entries.get(current)?;
    let gap = at < entry.offset;
    let end = if gap {
        entry.offset
    } else {
        entry.offset + entry.length
    };
    let left = end - at;
    Some(Span {
        index: current,
        gap,
        len: left.min(len as u64) as usize,
        last: !gap && left <= len as u64,
    })
}

/// All spans of `len` bytes at position `at`, each with its position.
fn spans(entries: &[Entry], at: u64, len: usize) -> impl Iterator<Item = (u64, Span)> {
    let end = at + len as u64;
    let mut at = at;
    let mut current = entries.partition_point(|entry| entry.offset + entry.length <= at);
    std::iter::from_fn(move || {
        let span = (at < end).then(|| span(entries, current, at, (end - at) as usize))??;
        let start = at;
        at += span.len as u64;
        current += usize::from(span.last);
        Some((start, span))
    })
}

/// A tensor while several threads read the file.
enum Shared<'a> {
    Weights(Parts<'a>),
    /// Filled in the order of the file.
    Small(Mutex<&'a mut Column>),
}

/// What a thread has made of a piece.
struct Piece {
    at: u64,
    leaves: Vec<[u8; 32]>,
    /// The bytes of the spans in small tensors.
    small: VecDeque<Vec<u8>>,
    /// The first span that breaks a rule, when the piece alone shows it, or that there is no memory for.
    broken: Option<(u64, LoadError)>,
}

impl Tensors {
    /// `whole` when the file is there with the length that its header implies: then memory for all weights is set apart.
    pub(super) fn new(header: Header, pages: Pages, whole: bool) -> Result<Self, LoadError> {
        let columns = if whole {
            Column::all(&header.entries, pages)?
        } else {
            Vec::new()
        };
        Ok(Self {
            header,
            checker: Checker::default(),
            columns,
            current: 0,
            pages,
        })
    }

    /// Takes bytes at position `at` of the file, up to the end of a gap or tensor; returns how many.
    pub(super) fn take(&mut self, at: u64, bytes: &[u8]) -> Result<usize, LoadError> {
        let Some(span) = span(&self.header.entries, self.current, at, bytes.len()) else {
            return Err(BlobError::TrailingBytes {
                expected: self.header.total_len,
            }
            .into());
        };
        let (entry, bytes) = (&self.header.entries[span.index], &bytes[..span.len]);
        if span.gap {
            check::gap(entry, at, bytes)?;
            return Ok(span.len);
        }
        if self.columns.len() == self.current {
            self.columns.push(Column::new(entry, self.pages)?);
        }
        match &mut self.columns[self.current] {
            Column::Weights(weights) => {
                weights.push(entry, bytes)?;
                if span.last {
                    self.checker.weights(weights.close());
                }
            }
            column => self.checker.feed(entry, bytes, |elements| {
                Ok::<_, LoadError>(column.push(entry, elements)?)
            })?,
        }
        if span.last {
            self.checker.close(entry)?;
            self.current += 1;
        }
        Ok(span.len)
    }

    /// Reads the file from `at`, the end of a chunk, to its end. The tensors were made for the whole file, and everything
    /// before `at` has been taken.
    pub(super) fn read<S: ReadAt + ?Sized>(
        &mut self,
        source: &S,
        at: u64,
        piece_len: usize,
        threads: NonZeroUsize,
        hasher: &mut Hasher,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<(), LoadError> {
        let entries = &self.header.entries[self.current..];
        let checker = &mut self.checker;
        let columns = self.columns[self.current..].iter_mut();
        let shared: Vec<_> = columns
            .map(|column| match column {
                Column::Weights(weights) => Shared::Weights(weights.parts()),
                column => Shared::Small(Mutex::new(column)),
            })
            .collect();
        read::in_order(
            source,
            at..self.header.total_len,
            piece_len,
            threads,
            |at, bytes| piece(entries, &shared, at, bytes),
            |len, piece| {
                hasher.append(&piece.leaves, len as u64);
                join(entries, &shared, checker, piece, len)?;
                progress(len as u64);
                Ok::<_, LoadError>(())
            },
        )
    }

    pub(super) fn build(self, commitment: Commitment) -> Model {
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

/// Hashes a piece of the file, checks what it alone can show, and packs its weights.
fn piece(entries: &[Entry], shared: &[Shared<'_>], at: u64, bytes: &[u8]) -> Piece {
    let mut piece = Piece {
        at,
        leaves: Vec::new(),
        small: VecDeque::new(),
        broken: None,
    };
    leaf_hashes(bytes, &mut piece.leaves);
    for (start, span) in spans(entries, at, bytes.len()) {
        let entry = &entries[span.index];
        let bytes = &bytes[(start - at) as usize..][..span.len];
        let checked = match &shared[span.index] {
            _ if span.gap => check::gap(entry, start, bytes).map_err(LoadError::from),
            Shared::Weights(parts) => {
                let put = parts.put(entry, start - entry.offset, bytes);
                put.map_err(LoadError::from)
            }
            Shared::Small(_) => copy(bytes)
                .map(|bytes| piece.small.push_back(bytes))
                .map_err(LoadError::from),
        };
        if let Err(error) = checked {
            piece.broken = Some((start, error));
            break;
        }
    }
    piece
}

fn copy(bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut copy = Vec::new();
    try_reserve(&mut copy, bytes.len(), "a piece of a tensor")?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Takes the next piece in the order of the file, and checks what earlier pieces bear on.
fn join(
    entries: &[Entry],
    shared: &[Shared<'_>],
    checker: &mut Checker,
    mut piece: Piece,
    len: usize,
) -> Result<(), LoadError> {
    let mut broken = piece.broken;
    for (start, span) in spans(entries, piece.at, len) {
        if let Some((_, error)) = broken.take_if(|(at, _)| *at == start) {
            return Err(error);
        }
        let entry = &entries[span.index];
        match &shared[span.index] {
            _ if span.gap => {}
            Shared::Weights(parts) => {
                if span.last {
                    checker.weights(parts.largest());
                }
            }
            Shared::Small(column) => {
                let (column, bytes) = (&mut lock(column), piece.small.pop_front());
                checker.feed(entry, &bytes.unwrap_or_default(), |elements| {
                    Ok::<_, LoadError>(column.push(entry, elements)?)
                })?;
            }
        }
        if span.last {
            checker.close(entry)?;
        }
    }
    Ok(())
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
            Some(Column::Weights(weights)) => weights.tiles,
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
