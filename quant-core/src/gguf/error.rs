//! Why a file is not read.

use std::fmt;

use thiserror::Error;

use super::{
    ALIGNMENT_KEY, MAX_ALIGNMENT, MAX_ARRAY_DEPTH, MAX_DIMENSIONS, MAX_NAME_BYTES, MIN_ALIGNMENT,
};
use crate::{Format, FormatError};

/// The part of a file that an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Magic, version and counts.
    Header,
    /// The metadata entry with this number, its key not yet known.
    Entry(u64),
    /// The metadata entry with this key.
    Key(String),
    /// The tensor entry with this number, its name not yet known.
    TensorEntry(u64),
    /// The tensor with this name.
    Tensor(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Header => f.write_str("header"),
            Place::Entry(i) => write!(f, "metadata entry {i}"),
            Place::Key(key) => write!(f, "metadata key {key:?}"),
            Place::TensorEntry(i) => write!(f, "tensor entry {i}"),
            Place::Tensor(name) => write!(f, "tensor {name:?}"),
        }
    }
}

/// A defect of a GGUF file. Offsets are in bytes from the start of the file unless said otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GgufError {
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it starts with \"{}\", a GGUF file with \"GGUF\"", .found.escape_ascii())]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// A file for big-endian machines.
    #[error(
        "big-endian GGUF file (version bytes {version:02x?}): only little-endian files are read"
    )]
    BigEndian {
        /// The four bytes after the magic.
        version: [u8; 4],
    },
    /// A version other than 2 and 3.
    #[error("GGUF version {found} is not supported: versions 2 and 3 are")]
    Version {
        /// The version found.
        found: u32,
    },
    /// The file ends inside a field.
    #[error(
        "{place}: {field} at offset {offset} takes {needed} bytes, the file has {available} left"
    )]
    Truncated {
        /// What was being read.
        place: Place,
        /// Field that is cut.
        field: &'static str,
        /// Offset of the field.
        offset: u64,
        /// Bytes that the field takes.
        needed: u64,
        /// Bytes from there to the end of the file.
        available: u64,
    },
    /// A declared number of items that the rest of the file cannot hold.
    #[error("{place}: {field} is {declared}, the rest of the file has room for {possible} at most")]
    Count {
        /// What was being read.
        place: Place,
        /// The counting field.
        field: &'static str,
        /// The number declared.
        declared: u64,
        /// Most items of the least size that fit.
        possible: u64,
    },
    /// A key or a tensor name is too long.
    #[error("{place}: a name of {len} bytes, at most {MAX_NAME_BYTES} are allowed")]
    NameTooLong {
        /// What was being read.
        place: Place,
        /// Length declared.
        len: u64,
    },
    /// A string is not UTF-8.
    #[error("{place}: {field} at offset {offset} is not UTF-8")]
    NotUtf8 {
        /// What was being read.
        place: Place,
        /// Which string.
        field: &'static str,
        /// Offset of the string's first byte.
        offset: u64,
    },
    /// A metadata value's type id is none of 0 to 12.
    #[error("metadata key {key:?}: value type {id} is unknown, types are 0 to 12")]
    ValueType {
        /// The key.
        key: String,
        /// The id found.
        id: u32,
    },
    /// A bool is neither 0 nor 1.
    #[error("metadata key {key:?}: bool {found} at offset {offset}, it must be 0 or 1")]
    Bool {
        /// The key.
        key: String,
        /// The byte found.
        found: u8,
        /// Its offset.
        offset: u64,
    },
    /// Arrays are nested too deeply.
    #[error("metadata key {key:?}: arrays nested deeper than {MAX_ARRAY_DEPTH}")]
    ArrayDepth {
        /// The key.
        key: String,
    },
    /// Two metadata entries have the same key.
    #[error("metadata key {key:?} appears twice")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The alignment is not a u32.
    #[error("metadata key {ALIGNMENT_KEY:?} is a {found}, it must be a u32")]
    AlignmentType {
        /// Type found.
        found: &'static str,
    },
    /// The alignment is not an accepted power of two.
    #[error(
        "metadata key {ALIGNMENT_KEY:?} is {found}, it must be a power of two from {MIN_ALIGNMENT} to {MAX_ALIGNMENT}"
    )]
    Alignment {
        /// Value found.
        found: u32,
    },
    /// Two tensors have the same name.
    #[error("tensor {tensor:?} appears twice")]
    DuplicateTensor {
        /// The name.
        tensor: String,
    },
    /// A tensor has no dimension or too many.
    #[error("tensor {tensor:?}: {found} dimensions, there must be 1 to {MAX_DIMENSIONS}")]
    DimensionCount {
        /// The tensor.
        tensor: String,
        /// Number declared.
        found: u32,
    },
    /// A dimension is zero.
    #[error("tensor {tensor:?}: dimension {axis} of {shape:?} is zero")]
    ZeroDimension {
        /// The tensor.
        tensor: String,
        /// Index into `shape`.
        axis: usize,
        /// The shape, outermost first.
        shape: Vec<u64>,
    },
    /// ggml's type id is not in the table of formats.
    #[error(
        "tensor {tensor:?}: ggml type id {id} is not supported, supported are {}",
        supported()
    )]
    UnknownFormat {
        /// The tensor.
        tensor: String,
        /// The id found.
        id: u32,
    },
    /// The shape does not fit the format, or its size exceeds 64 bits.
    #[error("tensor {tensor:?} of shape {shape:?}: {source}")]
    Size {
        /// The tensor.
        tensor: String,
        /// The shape, outermost first.
        shape: Vec<u64>,
        /// What does not fit.
        source: FormatError,
    },
    /// The product of the dimensions exceeds 64 bits.
    #[error("tensor {tensor:?}: the number of elements of shape {shape:?} overflows")]
    ElementCount {
        /// The tensor.
        tensor: String,
        /// The shape, outermost first.
        shape: Vec<u64>,
    },
    /// A tensor's offset is not a multiple of the alignment.
    #[error(
        "tensor {tensor:?}: data offset {offset} is not a multiple of the alignment {alignment}"
    )]
    Misaligned {
        /// The tensor.
        tensor: String,
        /// Offset from the start of the data.
        offset: u64,
        /// The alignment.
        alignment: u32,
    },
    /// A tensor ends past the end of the file.
    #[error(
        "tensor {tensor:?}: {size} bytes at data offset {offset}, the data section has {available}"
    )]
    PastEnd {
        /// The tensor.
        tensor: String,
        /// Offset from the start of the data.
        offset: u64,
        /// Bytes of the tensor.
        size: u64,
        /// Bytes of the data section.
        available: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first:?} and {second:?} overlap at data offset {offset}")]
    Overlap {
        /// The tensor that starts first.
        first: String,
        /// The tensor that starts inside it.
        second: String,
        /// Start of the second one, from the start of the data.
        offset: u64,
    },
    /// Bytes between tensors belong to none and are not padding.
    #[error(
        "tensor {tensor:?} starts at data offset {offset}, the data before it ends at {expected}"
    )]
    Hole {
        /// The tensor after the hole.
        tensor: String,
        /// Its offset from the start of the data.
        offset: u64,
        /// Where it would start without a hole.
        expected: u64,
    },
    /// Bytes follow the last tensor and its padding.
    #[error("the file has {found} bytes, its last tensor and padding end at {expected}")]
    TrailingBytes {
        /// Where the file may end at the latest.
        expected: u64,
        /// Length of the file.
        found: u64,
    },
}

fn supported() -> String {
    let names: Vec<String> = Format::ALL
        .iter()
        .map(|format| format!("{format} ({})", format.ggml_id()))
        .collect();
    names.join(", ")
}
