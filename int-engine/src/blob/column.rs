//! The elements of one tensor as its bytes arrive.

use super::check;
use super::directory::Role;
use super::{BlobError, Dtype, Entry, LoadError};
use crate::buffer::{Arena, Pages, signed};
use crate::fill::Filler;
use crate::halt::{Fault, try_reserve};
use crate::pool::lock;
use crate::tiles::{TILE, Tiles};
use std::sync::Mutex;

/// What the memory is for.
const WHAT: &str = "a tensor of the model";
/// Elements that the first allocation of a tensor may hold before any more have arrived.
const FIRST: usize = 4096;
/// Bytes of weights, about, that one thread fills while others wait for them.
const PART: usize = 1 << 17;

/// The elements of one tensor.
pub(super) enum Column {
    Weights(Weights),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Uint64(Vec<u64>),
}

/// Weights.
pub(super) struct Weights {
    pub(super) tiles: Tiles,
    /// The sum of absolute values of each row.
    magnitudes: Vec<u32>,
    /// Elements that have arrived, when they come in order.
    taken: usize,
    total_rows: usize,
}

fn no_memory(entry: &Entry) -> Fault {
    Fault::OutOfMemory {
        bytes: usize::try_from(entry.length).unwrap_or(usize::MAX),
        what: WHAT,
    }
}

fn elements(entry: &Entry) -> Result<usize, Fault> {
    usize::try_from(entry.elements()).map_err(|_| no_memory(entry))
}

impl Column {
    /// A tensor without elements.
    pub(super) fn new(entry: &Entry, pages: Pages) -> Result<Self, Fault> {
        Ok(match (entry.role, entry.dtype) {
            (Role::Weight { cols, .. }, _) => Self::Weights(Weights {
                tiles: Tiles::new(cols, pages),
                magnitudes: Vec::new(),
                taken: 0,
                total_rows: elements(entry)? / cols,
            }),
            (_, Dtype::Int8) => Self::Int8(Vec::new()),
            (_, Dtype::Int16) => Self::Int16(Vec::new()),
            (_, Dtype::Int32) => Self::Int32(Vec::new()),
            (_, Dtype::Uint64) => Self::Uint64(Vec::new()),
        })
    }

    /// All tensors of a blob whose bytes are all there, with address space for all weights, side by side.
    pub(super) fn all(entries: &[Entry], pages: Pages) -> Result<Vec<Self>, Fault> {
        let sizes = entries.iter().filter_map(|entry| match entry.role {
            Role::Weight { cols, .. } => Some(Tiles::size(elements(entry).ok()? / cols, cols)),
            _ => None,
        });
        let mut arena = Arena::reserve(sizes, pages);
        let column = |entry| {
            let mut column = Self::new(entry, pages)?;
            if let Self::Weights(w) = &mut column {
                let (rows, cols) = (w.total_rows, w.tiles.cols());
                let data = arena.buffer(Tiles::size(rows, cols), WHAT)?;
                w.tiles = Tiles::within(cols, data);
                w.tiles.grow(rows, rows, &mut w.magnitudes)?;
            }
            Ok(column)
        };
        entries.iter().map(column).collect()
    }

    /// Appends whole elements of a tensor that is not of weights.
    pub(super) fn push(&mut self, entry: &Entry, bytes: &[u8]) -> Result<(), Fault> {
        let total = elements(entry)?;
        match self {
            Self::Weights(_) => unreachable!("weights have their own way"),
            Self::Int8(v) => extend(v, total, bytes, i8::from_le_bytes),
            Self::Int16(v) => extend(v, total, bytes, i16::from_le_bytes),
            Self::Int32(v) => extend(v, total, bytes, i32::from_le_bytes),
            Self::Uint64(v) => extend(v, total, bytes, u64::from_le_bytes),
        }
    }
}

impl Weights {
    /// Checks and appends the next bytes.
    pub(super) fn push(&mut self, entry: &Entry, bytes: &[u8]) -> Result<(), LoadError> {
        let rows = (self.taken + bytes.len()).div_ceil(self.tiles.cols());
        self.tiles
            .grow(rows, self.total_rows, &mut self.magnitudes)?;
        if self
            .tiles
            .filler(&mut self.magnitudes)
            .put(self.taken, signed(bytes))
        {
            check::weights(entry, self.taken as u64, bytes)?;
        }
        self.taken += bytes.len();
        Ok(())
    }

    /// The largest row sum of absolute values, when all elements are there; frees what was needed for it.
    pub(super) fn close(&mut self) -> u64 {
        let largest = self.tiles.filler(&mut self.magnitudes).largest();
        self.magnitudes = Vec::new();
        largest
    }

    /// What several threads fill. All rows must be there.
    pub(super) fn parts(&mut self) -> Parts<'_> {
        let cols = self.tiles.cols();
        let tiles = (PART / (TILE * cols)).max(1);
        let filler = self.tiles.filler(&mut self.magnitudes);
        Parts {
            part: tiles * TILE * cols,
            fillers: filler.split(tiles).map(Mutex::new).collect(),
        }
    }
}

/// Weights in parts, each of which one thread fills at a time.
pub(super) struct Parts<'a> {
    /// Elements of a part.
    part: usize,
    fillers: Vec<Mutex<Filler<'a>>>,
}

impl Parts<'_> {
    /// Checks and takes bytes from element `at` on.
    pub(super) fn put(&self, entry: &Entry, at: u64, bytes: &[u8]) -> Result<(), BlobError> {
        // A tensor in memory has less than 2^31 or 2^63 elements.
        let (mut start, mut rest) = (at as usize, bytes);
        let mut found = false;
        while !rest.is_empty() {
            let (part, within) = (start / self.part, start % self.part);
            let (now, later) = rest.split_at(rest.len().min(self.part - within));
            found |= lock(&self.fillers[part]).put(within, signed(now));
            start += now.len();
            rest = later;
        }
        if found {
            check::weights(entry, at, bytes)?;
        }
        Ok(())
    }

    /// The largest row sum of absolute values.
    pub(super) fn largest(&self) -> u64 {
        let each = self.fillers.iter().map(|filler| lock(filler).largest());
        each.max().unwrap_or(0)
    }
}

/// Appends the elements in `bytes` to a vector that will hold `total`. The capacity is at most `total` and, beyond
/// [`FIRST`], at most twice what has arrived.
fn extend<T, const N: usize>(
    v: &mut Vec<T>,
    total: usize,
    bytes: &[u8],
    decode: impl Fn([u8; N]) -> T,
) -> Result<(), Fault> {
    let needed = v.len() + bytes.len() / N;
    if needed > v.capacity() {
        let capacity = needed.max(2 * v.len()).max(FIRST).min(total).max(needed);
        try_reserve(v, capacity, WHAT)?;
    }
    v.extend(
        bytes
            .chunks_exact(N)
            .map(|b| decode(b.try_into().expect("chunks of N bytes"))),
    );
    Ok(())
}
