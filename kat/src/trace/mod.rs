//! Traces: every operation of a forward pass as a digest, in files that any implementation can write (spec 7.10).

mod error;
mod line;
mod reader;
mod run;
mod writer;

pub use error::TraceError;
pub use reader::Reader;
pub use run::{Run, RunError, buffer_bytes};
pub use writer::Writer;

use int_engine::commitment::keccak256;
use int_engine::probe::Op;

/// The member `schema` of a trace's header.
pub const SCHEMA: &str = "blue-trace-1";
/// Longest line of a trace that is read, in bytes.
pub const MAX_LINE: usize = 1 << 25;

/// The first line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The model's commitment.
    pub commitment: [u8; 32],
    /// The ids that were fed, 1 to 32768 of them.
    pub prompt: Vec<u32>,
    /// The implementation.
    pub target: String,
    /// Where it ran.
    pub machine: String,
}

/// A place in the order of computation (spec 7.10): by position, embedding, layers, head, and operations in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Position of the token.
    pub position: usize,
    /// The layer; `None` for the embedding and the head.
    pub layer: Option<usize>,
    /// The operation.
    pub op: Op,
}

impl Place {
    fn key(self) -> (usize, bool, Option<usize>, Op) {
        (self.position, self.op.in_head(), self.layer, self.op)
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "position {}, ", self.position)?;
        match self.layer {
            Some(layer) => write!(f, "layer {layer}, ")?,
            None if self.op.in_head() => f.write_str("head, ")?,
            None => {}
        }
        write!(f, "op {}", self.op)
    }
}

/// One line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which operation.
    pub place: Place,
    /// How many values it has.
    pub count: usize,
    /// [`row_digest`] of the values.
    pub digest: [u8; 32],
    /// The values, where they were kept.
    pub values: Option<Vec<i64>>,
}

/// The digest of spec 7.3: keccak256 of the values as consecutive little-endian int64.
#[must_use]
pub fn row_digest(values: &[i64]) -> [u8; 32] {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    keccak256(&bytes)
}

#[cfg(test)]
pub(crate) mod tests;
