//! The table of tensor formats and the conversions that it drives.

use std::ops::Range;

use thiserror::Error;

use crate::decode;

/// Bytes of whole blocks to their values; lengths are checked by the caller.
type Decode = fn(&[u8], &mut [f32]);

struct Row {
    format: Format,
    ggml_id: u32,
    name: &'static str,
    block_len: usize,
    block_bytes: usize,
    decode: Decode,
}

/// Declares the enum and the table from the same rows:
/// `Name = ggml id, [values per block => bytes per block], block decoder;`
macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident = $id:literal, [$len:literal => $bytes:literal], $decode:path;)*) => {
        /// A tensor format of GGUF: how a block of consecutive values of a row is stored.
        #[allow(non_camel_case_types)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Format { $($(#[$doc])* $name,)* }

        static TABLE: &[Row] = &[$(Row {
            format: Format::$name,
            ggml_id: $id,
            name: stringify!($name),
            block_len: $len,
            block_bytes: $bytes,
            decode: |bytes, out| each_block::<$bytes, $len>(bytes, out, $decode),
        },)*];

        impl Format {
            /// Every format, in the table's order.
            pub const ALL: &'static [Format] = &[$(Format::$name,)*];
        }
    };
}

formats! {
    /// IEEE binary32.
    F32 = 0, [1 => 4], decode::f32;
    /// IEEE binary16.
    F16 = 1, [1 => 2], decode::f16;
    /// 4 bits, one f16 scale per 32 values, zero point 8.
    Q4_0 = 2, [32 => 18], decode::q4_0;
    /// 4 bits, an f16 scale and an f16 minimum per 32 values.
    Q4_1 = 3, [32 => 20], decode::q4_1;
    /// 8 bits signed, one f16 scale per 32 values.
    Q8_0 = 8, [32 => 34], decode::q8_0;
    /// 4 bits, 6-bit scales and minima per 32 values under two f16 per 256.
    Q4_K = 12, [256 => 144], decode::q4_k;
    /// 6 bits, 8-bit scales per 16 values under one f16 per 256.
    Q6_K = 14, [256 => 210], decode::q6_k;
    /// The upper half of binary32.
    BF16 = 30, [1 => 2], decode::bf16;
}

fn each_block<const BYTES: usize, const LEN: usize>(
    bytes: &[u8],
    out: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; LEN]),
) {
    let (blocks, _) = bytes.as_chunks::<BYTES>();
    let (values, _) = out.as_chunks_mut::<LEN>();
    for (block, values) in blocks.iter().zip(values) {
        decode(block, values);
    }
}

/// A length that does not fit a format.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// A row is not a whole number of blocks.
    #[error("{}: a row of {row_len} values is not a whole number of blocks of {}", .format.name(), .format.block_len())]
    RowLength {
        /// The format.
        format: Format,
        /// Values in the row.
        row_len: u64,
    },
    /// The bytes are not as many as the values need.
    #[error("{}: {values} values take {expected} bytes, found {found}", .format.name())]
    ByteLength {
        /// The format.
        format: Format,
        /// Values asked for.
        values: u64,
        /// Bytes that these values take.
        expected: u64,
        /// Bytes given.
        found: u64,
    },
    /// The size of the values in bytes exceeds 64 bits.
    #[error("{}: the size in bytes of {rows} rows of {row_len} values overflows", .format.name())]
    SizeOverflow {
        /// The format.
        format: Format,
        /// Rows.
        rows: u64,
        /// Values in a row.
        row_len: u64,
    },
    /// The requested rows are reversed or end past the tensor.
    #[error("rows {start}..{end} are not rows of a tensor of {rows} rows")]
    RowRange {
        /// First row asked for.
        start: u64,
        /// Row after the last one asked for.
        end: u64,
        /// Rows that the bytes hold.
        rows: u64,
    },
    /// The output is not as long as the requested rows.
    #[error("the output holds {found} values, the rows have {expected}")]
    OutputLength {
        /// Values in the requested rows.
        expected: u64,
        /// Length of the output.
        found: u64,
    },
}

impl Format {
    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The format with ggml's type id `id`, if it is in the table.
    #[must_use]
    pub fn from_ggml_id(id: u32) -> Option<Format> {
        TABLE
            .iter()
            .find(|row| row.ggml_id == id)
            .map(|row| row.format)
    }

    /// The format called `name` (as by [`Format::name`]).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Format> {
        TABLE
            .iter()
            .find(|row| row.name == name)
            .map(|row| row.format)
    }

    /// ggml's type id.
    #[must_use]
    pub fn ggml_id(self) -> u32 {
        self.row().ggml_id
    }

    /// ggml's name, such as `Q4_K`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Values in a block.
    #[must_use]
    pub fn block_len(self) -> usize {
        self.row().block_len
    }

    /// Bytes in a block.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        self.row().block_bytes
    }

    /// Bytes that `rows` rows of `row_len` values take.
    ///
    /// # Errors
    /// [`FormatError::RowLength`] unless a row is whole blocks, [`FormatError::SizeOverflow`] past 64 bits.
    pub fn size_in_bytes(self, rows: u64, row_len: u64) -> Result<u64, FormatError> {
        let block_len = self.block_len() as u64;
        if !row_len.is_multiple_of(block_len) {
            return Err(FormatError::RowLength {
                format: self,
                row_len,
            });
        }
        (row_len / block_len)
            .checked_mul(self.block_bytes() as u64)
            .and_then(|bytes| bytes.checked_mul(rows))
            .ok_or(FormatError::SizeOverflow {
                format: self,
                rows,
                row_len,
            })
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Widens whole rows to `f32`: `out.len()` values from exactly the bytes that they take.
///
/// The bits equal ggml's reference decoder. Non-finite scales give non-finite values.
///
/// # Errors
/// [`FormatError::RowLength`] unless `out` is whole blocks, [`FormatError::ByteLength`] unless
/// `bytes` is exactly as long as `out` needs. `out` is untouched on an error.
pub fn dequantize(format: Format, bytes: &[u8], out: &mut [f32]) -> Result<(), FormatError> {
    let values = out.len() as u64;
    let expected = format.size_in_bytes(1, values)?;
    let found = bytes.len() as u64;
    if expected != found {
        return Err(FormatError::ByteLength {
            format,
            values,
            expected,
            found,
        });
    }
    (format.row().decode)(bytes, out);
    Ok(())
}

/// Widens the rows `rows` of a tensor `[n, row_len]` stored in `bytes`.
///
/// `out` is row-major `[rows.len(), row_len]`; `n` is `bytes.len()` over the bytes of a row.
///
/// # Errors
/// [`FormatError::RowLength`] if `row_len` is zero or not whole blocks, [`FormatError::ByteLength`] if
/// `bytes` is not whole rows, [`FormatError::RowRange`] and [`FormatError::OutputLength`] as named.
pub fn dequantize_rows(
    format: Format,
    bytes: &[u8],
    row_len: usize,
    rows: Range<usize>,
    out: &mut [f32],
) -> Result<(), FormatError> {
    let row_bytes = match format.size_in_bytes(1, row_len as u64)? {
        0 => return Err(FormatError::RowLength { format, row_len: 0 }),
        row_bytes => row_bytes,
    };
    let found = bytes.len() as u64;
    let row_count = found / row_bytes;
    if !found.is_multiple_of(row_bytes) {
        let expected = row_count * row_bytes;
        let values = row_count * row_len as u64;
        return Err(FormatError::ByteLength {
            format,
            values,
            expected,
            found,
        });
    }
    let (start, end) = (rows.start as u64, rows.end as u64);
    if start > end || end > row_count {
        return Err(FormatError::RowRange {
            start,
            end,
            rows: row_count,
        });
    }
    // The rows lie inside `bytes`, so their byte positions fit a usize; the number of values may not.
    let expected = (end - start).saturating_mul(row_len as u64);
    if expected != out.len() as u64 {
        return Err(FormatError::OutputLength {
            expected,
            found: out.len() as u64,
        });
    }
    dequantize(
        format,
        &bytes[(start * row_bytes) as usize..(end * row_bytes) as usize],
        out,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_indexed_by_the_enum_and_unambiguous() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.format as usize, i);
            assert_eq!(Format::from_ggml_id(row.ggml_id), Some(row.format));
            assert_eq!(Format::from_name(row.name), Some(row.format));
        }
        assert_eq!(Format::ALL.len(), TABLE.len());
        assert_eq!(Format::from_ggml_id(4), None);
        assert_eq!(Format::from_ggml_id(u32::MAX), None);
    }

    #[test]
    fn dequantize_refuses_wrong_lengths() {
        for &format in Format::ALL {
            let (len, size) = (format.block_len(), format.block_bytes());
            let bytes = vec![0u8; 2 * size + 1];
            let mut out = vec![1.0f32; 2 * len + 1];
            assert_eq!(
                dequantize(format, &bytes[..2 * size], &mut out[..2 * len]),
                Ok(())
            );
            assert!(out[..2 * len].iter().all(|x| *x == 0.0));
            assert_eq!(out[2 * len], 1.0);
            assert_eq!(dequantize(format, &[], &mut []), Ok(()));
            for wrong in [0, size, 2 * size - 1, 2 * size + 1] {
                assert_eq!(
                    dequantize(format, &bytes[..wrong], &mut out[..2 * len]),
                    Err(FormatError::ByteLength {
                        format,
                        values: 2 * len as u64,
                        expected: 2 * size as u64,
                        found: wrong as u64
                    })
                );
            }
            if len > 1 {
                let wrong = FormatError::RowLength {
                    format,
                    row_len: 2 * len as u64 + 1,
                };
                assert_eq!(dequantize(format, &bytes[..2 * size], &mut out), Err(wrong));
            }
        }
    }

    #[test]
    fn rows_are_slices_of_the_whole() {
        for &format in Format::ALL {
            let row_len = 2 * format.block_len();
            let row_bytes = 2 * format.block_bytes();
            // Bytes below 0x78 keep every f16, bf16 and f32 finite.
            let bytes: Vec<u8> = (0..5 * row_bytes).map(|i| (i * 37 % 0x78) as u8).collect();
            let mut whole = vec![0.0; 5 * row_len];
            dequantize(format, &bytes, &mut whole).unwrap();
            for (start, end) in [(0, 5), (0, 1), (4, 5), (2, 4), (3, 3), (5, 5)] {
                let mut part = vec![0.0; (end - start) * row_len];
                dequantize_rows(format, &bytes, row_len, start..end, &mut part).unwrap();
                assert_eq!(part, whole[start * row_len..end * row_len]);
            }
            let mut out = vec![0.0; row_len];
            let refuse = |bytes: &[u8], rows: Range<usize>, out: &mut [f32]| {
                dequantize_rows(format, bytes, row_len, rows, out).unwrap_err()
            };
            assert!(matches!(
                refuse(&bytes, 5..6, &mut out),
                FormatError::RowRange {
                    end: 6,
                    rows: 5,
                    ..
                }
            ));
            #[allow(clippy::reversed_empty_ranges)]
            let reversed = 3..2;
            assert!(matches!(
                refuse(&bytes, reversed, &mut out),
                FormatError::RowRange { start: 3, .. }
            ));
            assert!(matches!(
                refuse(&bytes, 0..2, &mut out),
                FormatError::OutputLength { .. }
            ));
            assert!(matches!(
                refuse(&bytes[1..], 0..1, &mut out),
                FormatError::ByteLength { .. }
            ));
            assert!(matches!(
                dequantize_rows(format, &bytes, 0, 0..0, &mut []),
                Err(FormatError::RowLength { row_len: 0, .. })
            ));
        }
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert_eq!(Format::Q8_0.size_in_bytes(3, 64), Ok(3 * 68));
        assert!(matches!(
            Format::F32.size_in_bytes(1, 1 << 62),
            Err(FormatError::SizeOverflow { .. })
        ));
        assert!(matches!(
            Format::F32.size_in_bytes(1 << 62, 1),
            Err(FormatError::SizeOverflow { .. })
        ));
        assert!(matches!(
            Format::Q8_0.size_in_bytes(1, (1 << 42) + 1),
            Err(FormatError::RowLength { .. })
        ));
    }
}
