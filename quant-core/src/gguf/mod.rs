//! The GGUF container, versions 2 and 3, little-endian.
//!
//! Layout: magic, version, tensor count, metadata count, the metadata entries, the tensor entries,
//! padding to the alignment (`general.alignment`, 32 if absent), the tensors' data.
//!
//! What is refused beyond the format's own rules, and what is not:
//! - Each tensor starts at a multiple of the alignment, the first one at the start of the data, every
//!   other one at the end of another one padded to the alignment: no overlap and no hole, in any order.
//! - The file ends with the last tensor, or with its padding, or anywhere between. A longer file is
//!   refused. The content of padding is not looked at.
//! - Dimensions: 1 to [`MAX_DIMENSIONS`], none zero. A row is a whole number of blocks.
//! - The alignment is a power of two from [`MIN_ALIGNMENT`] to [`MAX_ALIGNMENT`], stored as a `u32`.
//! - Keys and tensor names are at most [`MAX_NAME_BYTES`] long; arrays nest at most
//!   [`MAX_ARRAY_DEPTH`] deep; strings are UTF-8; a bool is 0 or 1.
//!
//! Reading allocates at most [`MAX_ALLOCATION_RATIO`] times the length of the input, plus a constant.

mod cursor;
mod error;
mod file;
mod metadata;
mod tensors;
mod value;
mod write;

pub use error::{GgufError, Place};
pub use file::GgufFile;
pub use tensors::TensorInfo;
pub use value::{Array, Value};
pub use write::{GgufBuilder, WriteError};

/// First bytes of a file.
pub const MAGIC: [u8; 4] = *b"GGUF";
/// Alignment of tensor data where the metadata does not say.
pub const DEFAULT_ALIGNMENT: u32 = 32;
/// Least alignment accepted (bytes).
pub const MIN_ALIGNMENT: u32 = 8;
/// Largest alignment accepted (bytes): a 2 MiB page.
pub const MAX_ALIGNMENT: u32 = 1 << 21;
/// Most dimensions of a tensor.
pub const MAX_DIMENSIONS: usize = 4;
/// Longest metadata key or tensor name in bytes.
pub const MAX_NAME_BYTES: usize = 65535;
/// Deepest nesting of arrays: an array of numbers has depth 1.
pub const MAX_ARRAY_DEPTH: usize = 4;
/// Heap bytes that reading may hold per byte of input.
pub const MAX_ALLOCATION_RATIO: usize = 16;

/// Metadata key of the alignment.
const ALIGNMENT_KEY: &str = "general.alignment";
