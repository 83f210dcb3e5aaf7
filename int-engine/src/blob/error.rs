//! What a reader refuses.

use crate::commitment::Commitment;
use crate::config::ConfigError;
use crate::halt::Fault;
use crate::read::ReadError;

/// Why a byte string is not a blob (spec 4): the same verdict on every machine.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BlobError {
    /// The file does not start with the magic bytes.
    #[error("the file starts with {found:02x?}, must start with BLUEBLOB")]
    Magic {
        /// The first eight bytes.
        found: [u8; 8],
    },
    /// Another version of the file format.
    #[error("format_version is {found}, must be 1")]
    FormatVersion {
        /// The version found.
        found: u32,
    },
    /// Another version of the specification.
    #[error("spec_version is {found}, must be 1")]
    SpecVersion {
        /// The version found.
        found: u32,
    },
    /// Another activation scheme.
    #[error("scheme is {found}, must be 1 (dynamic) or 2 (static)")]
    Scheme {
        /// The scheme found.
        found: u8,
    },
    /// The blob names another table than the frozen one.
    #[error("the digest of table {table} is {found}, must be {expected}")]
    TableDigest {
        /// Name of the table.
        table: &'static str,
        /// Digest of the frozen table.
        expected: Commitment,
        /// Digest in the record.
        found: Commitment,
    },
    /// A flag is neither 0 nor 1.
    #[error("{field} is {found}, must be 0 or 1")]
    Flag {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        found: u8,
    },
    /// The record holds no valid configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The record declares too many stop ids.
    #[error("the record declares {found} stop ids, must be at most 16")]
    StopIdCount {
        /// The declared number.
        found: u32,
    },
    /// A byte of the record after its last field is not zero.
    #[error("byte {offset} of the record is {found}, must be 0")]
    RecordPadding {
        /// Position in the record.
        offset: usize,
        /// The byte found.
        found: u8,
    },
    /// The manifest is declared longer than allowed.
    #[error("manifest_len is {found}, must be at most 4194304")]
    ManifestLen {
        /// The declared length.
        found: u32,
    },
    /// The declared length of the file contradicts the configuration.
    #[error("total_len is {declared}, the configuration and manifest_len imply {expected}")]
    TotalLen {
        /// Length in the record.
        declared: u64,
        /// End of the last tensor.
        expected: u64,
    },
    /// The manifest ends inside a field.
    #[error("the manifest of {len} bytes ends inside {field}")]
    ManifestShort {
        /// The field being read.
        field: &'static str,
        /// Length of the manifest.
        len: usize,
    },
    /// The manifest is longer than its content.
    #[error("the manifest's content ends after {used} of {len} bytes")]
    ManifestLong {
        /// Bytes of content.
        used: usize,
        /// Length of the manifest.
        len: usize,
    },
    /// Too many metadata pairs.
    #[error("{found} metadata pairs, must be at most 64")]
    MetadataCount {
        /// The number found.
        found: usize,
    },
    /// A metadata key is empty or too long.
    #[error("metadata key {index} has {found} bytes, must have 1 to 64")]
    MetadataKeyLen {
        /// Position of the pair.
        index: usize,
        /// Length found.
        found: usize,
    },
    /// A metadata value is too long.
    #[error("metadata value {index} has {found} bytes, must have at most 4096")]
    MetadataValueLen {
        /// Position of the pair.
        index: usize,
        /// Length found.
        found: usize,
    },
    /// A metadata text is not UTF-8.
    #[error("metadata {what} {index} is not UTF-8")]
    MetadataUtf8 {
        /// Position of the pair.
        index: usize,
        /// `key` or `value`.
        what: &'static str,
    },
    /// A metadata key does not follow the one before it.
    #[error("metadata key {index}, {key:?}, must be larger than the key before it")]
    MetadataOrder {
        /// Position of the pair.
        index: usize,
        /// The key found.
        key: String,
    },
    /// The directory has another number of tensors than the configuration implies.
    #[error("the directory has {found} tensors, the configuration implies {expected}")]
    DirectoryLen {
        /// The number that follows from the record.
        expected: usize,
        /// The number found.
        found: u32,
    },
    /// A directory entry differs from the one that the configuration implies.
    #[error("directory entry {index}, {tensor}: {field} is {found}, must be {expected}")]
    DirectoryEntry {
        /// Position in the directory.
        index: usize,
        /// Name that the configuration implies.
        tensor: String,
        /// The field that differs.
        field: &'static str,
        /// Its right value.
        expected: String,
        /// The value found.
        found: String,
    },
    /// A byte between two tensors is not zero.
    #[error("byte {offset}, in the gap before {tensor}, is {found}, must be 0")]
    Gap {
        /// The tensor after the gap.
        tensor: String,
        /// Position in the file.
        offset: u64,
        /// The byte found.
        found: u8,
    },
    /// A stored value lies outside its range (spec 4.5).
    #[error("{tensor}[{index}] is {value}, must be in {min} ..= {max}")]
    OutOfRange {
        /// Name of the tensor.
        tensor: String,
        /// Element in row-major order.
        index: u64,
        /// The value found.
        value: i64,
        /// Smallest accepted value.
        min: i64,
        /// Largest accepted value.
        max: i64,
    },
    /// A stored accumulator shift is not the one that follows from the weights (spec 4.5).
    #[error("{consts}[{index}], the psh of {tensor}, is {found}, must be {expected}")]
    PreShift {
        /// The weights in question.
        tensor: String,
        /// The tensor that holds the shift.
        consts: String,
        /// Element of `consts`.
        index: usize,
        /// The shift that follows from the weights.
        expected: i32,
        /// The shift found.
        found: i32,
    },
    /// The file ends too early.
    #[error("the file ends after {found} bytes, at least {expected} are needed")]
    Truncated {
        /// Bytes needed.
        expected: u64,
        /// Bytes given.
        found: u64,
    },
    /// The file goes on after its declared end.
    #[error("the file goes on after its end at {expected}")]
    TrailingBytes {
        /// The declared length.
        expected: u64,
    },
    /// A valid blob, but not the expected one.
    #[error("the commitment is {found}, expected {expected}")]
    CommitmentMismatch {
        /// The commitment asked for.
        expected: Commitment,
        /// The commitment of the bytes given.
        found: Commitment,
    },
}

/// Why a load gave no model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// The bytes are refused, on every machine. They may be damaged bytes of a good blob: a loader refuses what it meets
    /// first, before it knows whose bytes they are.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// This machine failed, which says nothing about the bytes.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The bytes could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}
