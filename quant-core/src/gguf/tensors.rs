//! Reading of the tensor entries and the checks of where the tensors lie.

use super::cursor::{At, Cursor};
use super::{GgufError, MAX_DIMENSIONS};
use crate::{Format, FormatError};

/// Least bytes of an entry: the name's length, the number of dimensions, one dimension, the format,
/// the offset.
pub(super) const LEAST_TENSOR: u64 = 8 + 4 + 8 + 4 + 8;

/// A tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name.
    pub name: String,
    /// Format of its data.
    pub format: Format,
    /// Row-major shape, outermost dimension first: `[out, in]` for a weight matrix. Never empty and
    /// never with a zero in a file that was read. (The file lists the dimensions innermost first.)
    pub shape: Vec<u64>,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl TensorInfo {
    /// Values in a row: the innermost dimension.
    #[must_use]
    pub fn row_len(&self) -> u64 {
        self.shape.last().copied().unwrap_or(0)
    }

    /// Bytes of the data.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Offset of the data from the start of the data section, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// Reads one entry: all checks but those that need the other tensors.
pub(super) fn read_tensor(
    cursor: &mut Cursor<'_>,
    number: u64,
    alignment: u32,
) -> Result<TensorInfo, GgufError> {
    let name = cursor.name("name", At::TensorEntry(number))?;
    let at = At::Tensor(name);
    let tensor = || name.to_owned();
    let found = cursor.u32("number of dimensions", at)?;
    if !(1..=MAX_DIMENSIONS as u32).contains(&found) {
        return Err(GgufError::DimensionCount {
            tensor: tensor(),
            found,
        });
    }
    let mut shape = vec![0; found as usize];
    for dimension in shape.iter_mut().rev() {
        *dimension = cursor.u64("dimension", at)?;
    }
    let id = cursor.u32("ggml type", at)?;
    let offset = cursor.u64("data offset", at)?;
    let format = Format::from_ggml_id(id).ok_or_else(|| GgufError::UnknownFormat {
        tensor: tensor(),
        id,
    })?;
    let size = size_in_bytes(name, format, &shape)?;
    if !offset.is_multiple_of(u64::from(alignment)) {
        return Err(GgufError::Misaligned {
            tensor: tensor(),
            offset,
            alignment,
        });
    }
    Ok(TensorInfo {
        name: tensor(),
        format,
        shape,
        offset,
        size,
    })
}

/// Bytes of a tensor, with the checks of its shape.
pub(super) fn size_in_bytes(name: &str, format: Format, shape: &[u64]) -> Result<u64, GgufError> {
    if let Some(axis) = shape.iter().position(|&dimension| dimension == 0) {
        return Err(GgufError::ZeroDimension {
            tensor: name.to_owned(),
            axis,
            shape: shape.to_vec(),
        });
    }
    let size_error = |source: FormatError| GgufError::Size {
        tensor: name.to_owned(),
        shape: shape.to_vec(),
        source,
    };
    let element_error = || GgufError::ElementCount {
        tensor: name.to_owned(),
        shape: shape.to_vec(),
    };
    let (row_len, outer) = shape
        .split_last()
        .map_or((1, shape), |(&row_len, outer)| (row_len, outer));
    let rows = outer
        .iter()
        .try_fold(1u64, |product, &dimension| product.checked_mul(dimension))
        .ok_or_else(element_error)?;
    rows.checked_mul(row_len).ok_or_else(element_error)?;
    format.size_in_bytes(rows, row_len).map_err(size_error)
}

/// Checks that the tensors fill a data section of `available` bytes without overlap and hole, and
/// returns the end of the last one.
pub(super) fn check_layout(
    tensors: &[TensorInfo],
    alignment: u32,
    available: u64,
) -> Result<u64, GgufError> {
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_unstable_by_key(|&i| (tensors[i].offset, tensors[i].size));
    let mut end = 0;
    let mut previous: Option<&TensorInfo> = None;
    for tensor in order.into_iter().map(|i| &tensors[i]) {
        let (offset, size) = (tensor.offset, tensor.size);
        if let Some(first) = previous.filter(|_| offset < end) {
            return Err(GgufError::Overlap {
                first: first.name.clone(),
                second: tensor.name.clone(),
                offset,
            });
        }
        // `end` is at most `available`, the length of a slice, so rounding it up does not overflow.
        let expected = pad(end, alignment);
        if offset.checked_add(size).is_none_or(|end| end > available) {
            return Err(GgufError::PastEnd {
                tensor: tensor.name.clone(),
                offset,
                size,
                available,
            });
        }
        if offset != expected {
            return Err(GgufError::Hole {
                tensor: tensor.name.clone(),
                offset,
                expected,
            });
        }
        end = offset + size;
        previous = Some(tensor);
    }
    Ok(end)
}

/// `position` rounded up to a multiple of `alignment`. `position` is at most `isize::MAX`.
pub(super) fn pad(position: u64, alignment: u32) -> u64 {
    position.next_multiple_of(u64::from(alignment))
}
