//! A tensor that grows as its bytes arrive.

use super::directory::Role;
use super::{Dtype, Entry};
use crate::halt::Fault;
use crate::tiles::Tiles;
use std::collections::TryReserveError;

/// Elements that the first allocation of a tensor may hold before any more have arrived.
const FIRST: usize = 4096;

/// The elements of one tensor.
pub(super) enum Column {
    /// Weights, and the bytes of a row that has not arrived whole.
    Weights(Tiles, Vec<i8>),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Uint64(Vec<u64>),
}

impl Column {
    pub(super) fn new(entry: &Entry) -> Self {
        if let Role::Weight { cols, .. } = entry.role {
            return Self::Weights(Tiles::new(cols), Vec::new());
        }
        match entry.dtype {
            Dtype::Int8 => Self::Int8(Vec::new()),
            Dtype::Int16 => Self::Int16(Vec::new()),
            Dtype::Int32 => Self::Int32(Vec::new()),
            Dtype::Uint64 => Self::Uint64(Vec::new()),
        }
    }

    /// Appends whole elements.
    pub(super) fn push(&mut self, entry: &Entry, bytes: &[u8]) -> Result<(), Fault> {
        let elements = entry.elements();
        let no_memory = || Fault::OutOfMemory {
            bytes: usize::try_from(entry.length).unwrap_or(usize::MAX),
            what: "a tensor of the model",
        };
        let total = usize::try_from(elements).map_err(|_| no_memory())?;
        match self {
            Self::Weights(tiles, row) => {
                return rows(tiles, row, total, bytes);
            }
            Self::Int8(v) => extend(v, total, bytes, i8::from_le_bytes),
            Self::Int16(v) => extend(v, total, bytes, i16::from_le_bytes),
            Self::Int32(v) => extend(v, total, bytes, i32::from_le_bytes),
            Self::Uint64(v) => extend(v, total, bytes, u64::from_le_bytes),
        }
        .map_err(|_| no_memory())
    }
}

/// Appends bytes of weights, of which there will be `total`, row by row.
fn rows(tiles: &mut Tiles, row: &mut Vec<i8>, total: usize, mut bytes: &[u8]) -> Result<(), Fault> {
    let cols = tiles.cols();
    let (all, what) = (total / cols, "a tensor of the model");
    while !bytes.is_empty() {
        let (now, later) = bytes.split_at(bytes.len().min(cols - row.len()));
        crate::halt::try_reserve(row, row.len() + now.len(), what)?;
        row.extend(now.iter().map(|&b| b as i8));
        bytes = later;
        if row.len() == cols {
            tiles.push(row, all)?;
            row.clear();
        }
    }
    Ok(())
}

/// Appends the elements in `bytes` to a vector that will hold `total`. The capacity is at most `total` and, beyond
/// [`FIRST`], at most twice what has arrived.
fn extend<T, const N: usize>(
    v: &mut Vec<T>,
    total: usize,
    bytes: &[u8],
    decode: impl Fn([u8; N]) -> T,
) -> Result<(), TryReserveError> {
    let needed = v.len() + bytes.len() / N;
    if needed > v.capacity() {
        let capacity = needed.max(2 * v.len()).max(FIRST).min(total).max(needed);
        v.try_reserve_exact(capacity - v.len())?;
    }
    v.extend(
        bytes
            .chunks_exact(N)
            .map(|b| decode(b.try_into().expect("chunks of N bytes"))),
    );
    Ok(())
}
