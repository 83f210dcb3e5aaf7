//! Why a text is not a trace.

use int_engine::probe::Op;

use super::{MAX_LINE, Place, SCHEMA};

/// A defect of a trace file, with the line that has it, from 1.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read further.
    #[error("line {line}: cannot be read")]
    Read {
        /// The line.
        line: u64,
        /// Why.
        source: std::io::Error,
    },
    /// There is no first line.
    #[error("the file is empty: the first line of a trace is its header")]
    Empty,
    /// A line exceeds [`MAX_LINE`].
    #[error("line {line}: longer than {MAX_LINE} bytes")]
    LineTooLong {
        /// The line.
        line: u64,
    },
    /// Not the JSON object of this line: syntax, an unknown, missing or repeated member, a value of another type.
    #[error("line {line}: {message}")]
    Json {
        /// The line.
        line: u64,
        /// What is wrong.
        message: String,
    },
    /// The header is of another format.
    #[error("line 1: the schema is {found:?}, must be {SCHEMA:?}")]
    Schema {
        /// What the header says.
        found: String,
    },
    /// The header's prompt is empty or longer than any context.
    #[error("line 1: the prompt has {len} ids, must have 1 to 32768")]
    Prompt {
        /// Its length.
        len: usize,
    },
    /// A digest or commitment is not 64 lower-case hexadecimal digits.
    #[error("line {line}: `{member}` is not 64 lower-case hexadecimal digits")]
    Hex {
        /// The line.
        line: u64,
        /// The member.
        member: &'static str,
    },
    /// No operation of spec 7.10 has the name.
    #[error("line {line}: no operation is named {op:?}")]
    Op {
        /// The line.
        line: u64,
        /// The name.
        op: String,
    },
    /// A layer where the operation has none, or none where it has one.
    #[error(
        "line {line}: `layer` of op {op} must be {}",
        if op.in_layer() { "a number" } else { "null" }
    )]
    Layer {
        /// The line.
        line: u64,
        /// The operation.
        op: Op,
    },
    /// A position beyond the prompt.
    #[error("line {line}: position {position} is outside the prompt of {prompt} ids")]
    Position {
        /// The line.
        line: u64,
        /// The position.
        position: u64,
        /// Ids of the prompt.
        prompt: usize,
    },
    /// A line that is not after the one before it in the order of computation.
    #[error("line {line}: {found} does not come after {before}")]
    Order {
        /// The line.
        line: u64,
        /// Its place.
        found: Place,
        /// The place of the line before.
        before: Place,
    },
    /// As many values as `count` says are not there.
    #[error("line {line}: `count` is {count}, but there are {values} values")]
    Count {
        /// The line.
        line: u64,
        /// What the line says.
        count: u64,
        /// What it holds.
        values: usize,
    },
    /// The digest is not that of the values.
    #[error("line {line}: `digest` is not the digest of the values")]
    Digest {
        /// The line.
        line: u64,
    },
}
