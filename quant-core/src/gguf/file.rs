//! A parsed file.

use std::collections::BTreeMap;
use std::ops::Range;

use super::cursor::{At, Cursor};
use super::metadata::{LEAST_ENTRY, file_alignment, read_metadata};
use super::tensors::{LEAST_TENSOR, check_layout, pad, read_tensor};
use super::{GgufError, MAGIC, TensorInfo, Value};
use crate::{FormatError, dequantize, dequantize_rows};

/// A GGUF file parsed over its bytes, usually a memory map. The tensors' data are not touched.
#[derive(Debug, Clone)]
pub struct GgufFile<'a> {
    version: u32,
    alignment: u32,
    metadata: BTreeMap<String, Value>,
    tensors: Vec<TensorInfo>,
    /// Indices into `tensors`, sorted by name.
    by_name: Vec<usize>,
    /// The data section: offsets of tensors count from its start.
    data: &'a [u8],
}

impl<'a> GgufFile<'a> {
    /// Parses the whole of `bytes`; see the [module](super) for what is accepted.
    ///
    /// # Errors
    /// One [`GgufError`] per defect, the first one met.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, GgufError> {
        let mut cursor = Cursor::new(bytes);
        let version = read_version(&mut cursor)?;
        let tensor_count = cursor.u64("tensor count", At::Header)?;
        let entry_count = cursor.count(LEAST_ENTRY, "metadata count", At::Header)?;
        cursor.check_count(tensor_count, LEAST_TENSOR, "tensor count", At::Header)?;

        let metadata = read_metadata(&mut cursor, entry_count)?;
        let alignment = file_alignment(&metadata)?;

        cursor.check_count(tensor_count, LEAST_TENSOR, "tensor count", At::Header)?;
        let mut tensors = Vec::with_capacity(tensor_count as usize);
        for number in 0..tensor_count {
            tensors.push(read_tensor(&mut cursor, number, alignment)?);
        }
        let by_name = index_by_name(&tensors)?;

        let data_start = pad(cursor.position(), alignment);
        let data = usize::try_from(data_start)
            .ok()
            .and_then(|at| bytes.get(at..))
            .unwrap_or(&[]);
        let data_end = check_layout(&tensors, alignment, data.len() as u64)?;
        let expected = data_start + pad(data_end, alignment);
        if bytes.len() as u64 > expected {
            return Err(GgufError::TrailingBytes {
                expected,
                found: bytes.len() as u64,
            });
        }
        Ok(Self {
            version,
            alignment,
            metadata,
            tensors,
            by_name,
            data,
        })
    }

    /// Version of the container: 2 or 3.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Alignment of the tensors' data in bytes.
    #[must_use]
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// All metadata.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, Value> {
        &self.metadata
    }

    /// The metadata value with key `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// The tensors in the file's order.
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor called `name`.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        let found = self
            .by_name
            .binary_search_by(|&i| self.tensors[i].name.as_str().cmp(name))
            .ok()?;
        Some(&self.tensors[self.by_name[found]])
    }

    /// The data of `tensor`, which is one of [`tensors`](Self::tensors); empty for a tensor of another
    /// file that lies outside this one's data.
    #[must_use]
    pub fn data(&self, tensor: &TensorInfo) -> &'a [u8] {
        let range = || {
            let start = usize::try_from(tensor.offset).ok()?;
            let end = start.checked_add(usize::try_from(tensor.size).ok()?)?;
            self.data.get(start..end)
        };
        range().unwrap_or(&[])
    }

    /// All values of `tensor`, row-major: `block_len` of them for each `block_bytes` of its data.
    ///
    /// # Errors
    /// None for a tensor of this file. For one that was altered or is another file's,
    /// [`FormatError`] as by [`dequantize`].
    pub fn dequantize(&self, tensor: &TensorInfo) -> Result<Vec<f32>, FormatError> {
        let bytes = self.data(tensor);
        // The number of values is that of the data's blocks, not a product of declared numbers.
        let blocks = bytes.len() / tensor.format.block_bytes();
        let mut out = vec![0.0; blocks * tensor.format.block_len()];
        dequantize(tensor.format, bytes, &mut out)?;
        Ok(out)
    }

    /// Rows `rows` of `tensor` into `out`, row-major `[rows.len(), row_len]`; the rows of all outer
    /// dimensions are numbered through.
    ///
    /// # Errors
    /// [`FormatError`] as by [`dequantize_rows`].
    pub fn dequantize_rows(
        &self,
        tensor: &TensorInfo,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), FormatError> {
        let row_len = usize::try_from(tensor.row_len()).map_err(|_| FormatError::SizeOverflow {
            format: tensor.format,
            rows: 1,
            row_len: tensor.row_len(),
        })?;
        dequantize_rows(tensor.format, self.data(tensor), row_len, rows, out)
    }
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u32, GgufError> {
    let magic: [u8; 4] = cursor.array("magic", At::Header)?;
    let mut reversed = MAGIC;
    reversed.reverse();
    if magic != MAGIC && magic != reversed {
        return Err(GgufError::Magic { found: magic });
    }
    let bytes: [u8; 4] = cursor.array("version", At::Header)?;
    let found = u32::from_le_bytes(bytes);
    // A big-endian writer stores its small version number in the last byte.
    if magic == reversed || (found & 0xffff == 0 && found != 0) {
        return Err(GgufError::BigEndian { version: bytes });
    }
    if !(2..=3).contains(&found) {
        return Err(GgufError::Version { found });
    }
    Ok(found)
}

fn index_by_name(tensors: &[TensorInfo]) -> Result<Vec<usize>, GgufError> {
    let mut by_name: Vec<usize> = (0..tensors.len()).collect();
    by_name.sort_unstable_by(|&a, &b| tensors[a].name.cmp(&tensors[b].name));
    for pair in by_name.windows(2) {
        if tensors[pair[0]].name == tensors[pair[1]].name {
            return Err(GgufError::DuplicateTensor {
                tensor: tensors[pair[0]].name.clone(),
            });
        }
    }
    Ok(by_name)
}
