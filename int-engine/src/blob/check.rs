//! The ranges of spec 4.5, checked while the bytes of the tensors pass, in pieces of any size.

use super::directory::{LAYER_CONSTS, Role, STATIC_SCALES};
use super::{BlobError, Entry};
use crate::model::{abs_sum, pre_shift_of};

const MULT: (i64, i64) = (1 << 30, (1 << 31) - 1);
const SHIFT: (i64, i64) = (-64, 64);
const SCORE_SHIFT: (i64, i64) = (0, 61);
const WEIGHT: (i64, i64) = (-127, 127);
const HEAD_GAIN: (i64, i64) = (-32767 << 15, 32767 << 15);
const FINAL_GAIN: (i64, i64) = (-32767, 32767);
const STATIC: [(i64, i64); STATIC_SCALES] = [
    (1, 1 << 16),
    (1, 1 << 16),
    (1, (1 << 31) - 1),
    (0, 39),
    (1, (1 << 31) - 1),
];

/// Checks the tensors of a blob in directory order.
#[derive(Default)]
pub(super) struct Checker {
    /// Bytes of an element that has not arrived whole.
    carry: Vec<u8>,
    /// Elements of the current tensor seen so far.
    seen: u64,
    /// Sum of absolute weights and number of weights of the current row.
    row: (u64, usize),
    /// Largest row sum of the current weights.
    largest: u64,
    /// Largest row sum of the embedding table.
    embed_largest: u64,
    /// The constants that came last, and the name of their tensor.
    consts: [i32; LAYER_CONSTS],
    consts_name: String,
}

impl Checker {
    /// Checks the next bytes of `entry` and gives them to `store` in pieces of whole elements.
    pub(super) fn feed<E: From<BlobError>>(
        &mut self,
        entry: &Entry,
        mut bytes: &[u8],
        mut store: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let size = entry.dtype.size();
        if !self.carry.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(size - self.carry.len()));
            self.carry.extend_from_slice(now);
            bytes = later;
            if self.carry.len() < size {
                return Ok(());
            }
            let element = std::mem::take(&mut self.carry);
            self.elements(entry, &element)?;
            store(&element)?;
        }
        let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % size);
        if !whole.is_empty() {
            self.elements(entry, whole)?;
            store(whole)?;
        }
        self.carry.extend_from_slice(rest);
        Ok(())
    }

    /// Ends the tensor whose bytes have all been fed.
    pub(super) fn close(&mut self, entry: &Entry) -> Result<(), BlobError> {
        let largest = std::mem::take(&mut self.largest);
        self.seen = 0;
        match entry.role {
            Role::Weight { psh: None, .. } => self.embed_largest = largest,
            Role::Weight {
                psh: Some(index), ..
            } => self.check_pre_shift(&entry.name, index, largest)?,
            Role::HeadConsts { tied: true } => {
                self.check_pre_shift("embed.weight", 0, self.embed_largest)?
            }
            _ => {}
        }
        Ok(())
    }

    fn check_pre_shift(&self, tensor: &str, index: usize, largest: u64) -> Result<(), BlobError> {
        let (expected, found) = (pre_shift_of(largest), self.consts[index]);
        if expected != found {
            let (tensor, consts) = (tensor.to_owned(), self.consts_name.clone());
            return Err(BlobError::PreShift {
                tensor,
                consts,
                index,
                expected,
                found,
            });
        }
        Ok(())
    }

    /// As [`Checker::feed`] for all of a tensor of weights that was checked elsewhere, by [`weights`] and with this largest
    /// row sum of absolute values.
    pub(super) fn weights(&mut self, largest: u64) {
        self.largest = largest;
    }

    fn elements(&mut self, entry: &Entry, bytes: &[u8]) -> Result<(), BlobError> {
        let first = self.seen;
        match entry.role {
            Role::Weight { cols, .. } => {
                if bytes.contains(&(i8::MIN as u8)) {
                    weights(entry, first, bytes)?;
                }
                self.row_sums(bytes, cols);
            }
            Role::Shift => within(entry, first, int8(bytes), SHIFT)?,
            Role::Mult => within(entry, first, int32(bytes), MULT)?,
            Role::HeadGain => within(entry, first, int32(bytes), HEAD_GAIN)?,
            Role::FinalGain => {
                let values = bytes
                    .chunks_exact(2)
                    .map(|b| i64::from(i16::from_le_bytes([b[0], b[1]])));
                within(entry, first, values, FINAL_GAIN)?;
            }
            Role::Phase => {}
            Role::StaticScales => {
                let ranges = &STATIC[first as usize..];
                for ((index, value), &range) in (first..).zip(int32(bytes)).zip(ranges) {
                    within(entry, index, std::iter::once(value), range)?;
                }
            }
            Role::LayerConsts | Role::HeadConsts { .. } => {
                if first == 0 {
                    self.consts_name.clone_from(&entry.name);
                }
                for (index, value) in (first..).zip(int32(bytes)) {
                    match index {
                        7 => within(entry, index, std::iter::once(value), MULT)?,
                        8 => within(entry, index, std::iter::once(value), SCORE_SHIFT)?,
                        _ => {}
                    }
                    self.consts[index as usize] = value as i32;
                }
            }
        }
        self.seen += (bytes.len() / entry.dtype.size()) as u64;
        Ok(())
    }

    fn row_sums(&mut self, mut bytes: &[u8], cols: usize) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(cols - self.row.1));
            self.row = (
                self.row.0 + abs_sum(now, |b| b as i8),
                self.row.1 + now.len(),
            );
            if self.row.1 == cols {
                self.largest = self.largest.max(self.row.0);
                self.row = (0, 0);
            }
            bytes = later;
        }
    }
}

/// Checks weights from element `first` of `entry` on.
pub(super) fn weights(entry: &Entry, first: u64, bytes: &[u8]) -> Result<(), BlobError> {
    within(entry, first, int8(bytes), WEIGHT)
}

/// Checks bytes from position `at` of the file on, which lie in the gap before `entry`.
pub(super) fn gap(entry: &Entry, at: u64, bytes: &[u8]) -> Result<(), BlobError> {
    match bytes.iter().position(|&b| b != 0) {
        Some(i) => Err(BlobError::Gap {
            tensor: entry.name.clone(),
            offset: at + i as u64,
            found: bytes[i],
        }),
        None => Ok(()),
    }
}

fn int8(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.iter().map(|&b| i64::from(b as i8))
}

fn int32(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes
        .chunks_exact(4)
        .map(|b| i64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])))
}

fn within(
    entry: &Entry,
    first: u64,
    values: impl Iterator<Item = i64>,
    (min, max): (i64, i64),
) -> Result<(), BlobError> {
    for (index, value) in (first..).zip(values) {
        if value < min || value > max {
            return Err(BlobError::OutOfRange {
                tensor: entry.name.clone(),
                index,
                value,
                min,
                max,
            });
        }
    }
    Ok(())
}
