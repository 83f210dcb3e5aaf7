//! Where bytes come from, and what can be wrong with it.

use crate::store::What;
use int_engine::commitment::Commitment;
use std::io;
use std::ops::{ControlFlow, Range};
use std::time::Duration;

/// What a request is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Of which blob.
    pub commitment: Commitment,
    /// The blob or its leaves.
    pub what: What,
    /// Which bytes of the file; never empty.
    pub range: Range<u64>,
    /// The answer is given up when nothing arrives for so long.
    pub stall: Duration,
    /// The answer is given up when it is not whole after so long.
    pub limit: Duration,
}

/// A place that has blobs, or says so. Nothing that it gives is believed.
pub trait Source: Send + Sync {
    /// What people call it: the address or the folder that was configured.
    fn name(&self) -> &str;

    /// Hands the bytes of the range to `take`, in order, in pieces of any size, and returns after the last one, or as soon
    /// as `take` breaks.
    ///
    /// # Errors
    /// When the source does not give exactly these bytes in time. What was handed over before may be right.
    fn read(
        &self,
        request: &Request,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), SourceError>;
}

/// A request that was not answered with the bytes it asked for. None of this is a lie about the bytes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SourceError {
    /// It has no such file.
    #[error("has no such file")]
    Absent,
    /// Another HTTP status than 206.
    #[error("answers with HTTP status {0}")]
    Status(u16),
    /// It redirects.
    #[error("redirects, which is not followed; give the address where the files are")]
    Elsewhere,
    /// It sends the whole file instead of a range.
    #[error("ignores range requests; it must answer them with HTTP status 206")]
    NoRanges,
    /// It sends another range, or says so.
    #[error("sends another range than the one asked for")]
    OtherRange,
    /// It sends a compressed form.
    #[error("sends an encoded form of the file")]
    Encoded,
    /// It sends more bytes.
    #[error("sends more than the {0} bytes asked for")]
    More(u64),
    /// It ends early.
    #[error("ends after {got} of {asked} bytes")]
    Fewer {
        /// Bytes that arrived.
        got: u64,
        /// Bytes that were asked for.
        asked: u64,
    },
    /// Nothing arrived for long, or the whole took too long.
    #[error("stalls: {got} of {asked} bytes in {after:.1?}")]
    Stalled {
        /// Bytes that arrived.
        got: u64,
        /// Bytes that were asked for.
        asked: u64,
        /// How long it was given.
        after: Duration,
    },
    /// The network or the disk.
    #[error("{0}")]
    Io(String),
}

impl SourceError {
    /// Whether the same request may have another answer later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Status(status) => *status >= 500 || matches!(status, 408 | 429),
            Self::Fewer { .. } | Self::Stalled { .. } | Self::Io(_) => true,
            Self::Absent
            | Self::Elsewhere
            | Self::NoRanges
            | Self::OtherRange
            | Self::Encoded
            | Self::More(_) => false,
        }
    }

    /// One word for counters.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Status(_) => "status",
            Self::Elsewhere => "redirect",
            Self::NoRanges => "no_ranges",
            Self::OtherRange => "other_range",
            Self::Encoded => "encoded",
            Self::More(_) => "more",
            Self::Fewer { .. } => "fewer",
            Self::Stalled { .. } => "stalled",
            Self::Io(_) => "io",
        }
    }
}

impl From<io::Error> for SourceError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Absent,
            _ => Self::Io(error.to_string()),
        }
    }
}
