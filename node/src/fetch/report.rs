//! What a fetch did, and what each source did.

use super::source::SourceError;
use crate::store::StoreError;
use int_engine::commitment::Commitment;
use std::fmt;
use std::io;

/// What was wrong with an answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Trouble {
    /// The request was not answered.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The file does not begin as a blob does.
    #[error("offers a file that is no blob")]
    NoBlob,
    /// The record states a length beyond what was allowed.
    #[error("states a length of {stated} bytes, at most {most} are taken")]
    TooLong {
        /// What the record states.
        stated: u64,
        /// [`Options::max_blob_len`](super::Options::max_blob_len).
        most: u64,
    },
    /// Record and leaves give another commitment.
    #[error("its record and leaves give another commitment")]
    OtherLeaves,
    /// The bytes do not hash to the leaf.
    #[error("sends other bytes")]
    OtherBytes,
    /// The code that reads it panicked.
    #[error("its reader failed")]
    Panicked,
}

impl Trouble {
    /// Whether the source offered other bytes than those of the commitment.
    #[must_use]
    pub fn is_lie(&self) -> bool {
        matches!(self, Self::NoBlob | Self::OtherLeaves | Self::OtherBytes)
    }

    /// Whether asking again may help.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Source(error) if error.may_pass())
    }

    /// One word for counters.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Source(error) => error.kind(),
            Self::NoBlob => "no_blob",
            Self::TooLong { .. } => "too_long",
            Self::OtherLeaves => "other_leaves",
            Self::OtherBytes => "other_bytes",
            Self::Panicked => "panicked",
        }
    }
}

/// What was wrong, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The chunk that was being sent; `None` for record and leaves.
    pub chunk: Option<u64>,
    /// What was wrong.
    pub trouble: Trouble,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.chunk {
            Some(index) => write!(f, "chunk {index}: {}", self.trouble),
            None => write!(f, "{}", self.trouble),
        }
    }
}

/// Faults of one source that are kept; all are counted.
pub(super) const MOST_FAULTS: usize = 16;

/// What one source did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceReport {
    /// Its name.
    pub name: String,
    /// Chunks that came from it and were right.
    pub chunks: u64,
    /// Bytes of these chunks.
    pub bytes: u64,
    /// Its first faults, at most 16.
    pub faults: Vec<Fault>,
    /// The number of all faults.
    pub fault_count: u64,
    /// Whether it was given up.
    pub given_up: bool,
}

impl SourceReport {
    /// Whether it offered other bytes than those of the commitment.
    #[must_use]
    pub fn lied(&self) -> bool {
        self.faults.iter().any(|fault| fault.trouble.is_lie())
    }

    /// The fault that says most: a lie, or the last one.
    #[must_use]
    pub fn worst(&self) -> Option<&Fault> {
        let lie = self.faults.iter().find(|fault| fault.trouble.is_lie());
        lie.or(self.faults.last())
    }
}

impl fmt::Display for SourceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} chunks", self.name, self.chunks)?;
        if let Some(fault) = self.worst() {
            write!(f, "; {fault}")?;
        }
        if self.fault_count > 1 {
            write!(f, " ({} faults)", self.fault_count)?;
        }
        Ok(())
    }
}

/// A fetch that ended with a published blob.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The blob.
    pub commitment: Commitment,
    /// Its length in bytes.
    pub len: u64,
    /// Bytes that were on the disk before.
    pub kept: u64,
    /// What each source did, in the order in which they were given.
    pub sources: Vec<SourceReport>,
}

/// A fetch that ended without a published blob. What has arrived stays and is gone on with.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// There is nobody to ask.
    #[error("{0} is not here, and there is no source to ask")]
    NoSources(Commitment),
    /// The store, that is the disk of this machine.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system starts no thread.
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
    /// The caller broke off.
    #[error("broken off")]
    Cancelled,
    /// Every source has been given up.
    #[error("{}", exhausted(*.commitment, *.missing, .sources))]
    Exhausted {
        /// The blob.
        commitment: Commitment,
        /// Chunks that are missing; `None` when no source has proved how many there are.
        missing: Option<u64>,
        /// What each source did, in the order in which they were given.
        sources: Vec<SourceReport>,
    },
}

fn exhausted(commitment: Commitment, missing: Option<u64>, sources: &[SourceReport]) -> String {
    let mut text = match missing {
        Some(n) => format!("no source is left for {n} missing chunks of {commitment}"),
        None => format!("no source has record and leaves of {commitment}"),
    };
    for source in sources {
        text.push_str(&format!("\n  {source}"));
    }
    text
}

impl FetchError {
    /// Whether every source that answered offered other bytes, so that asking again is of no use.
    #[must_use]
    pub fn only_other_bytes(&self) -> bool {
        let Self::Exhausted { sources, .. } = self else {
            return false;
        };
        let absent = |fault: &Fault| fault.trouble == Trouble::Source(SourceError::Absent);
        sources.iter().any(SourceReport::lied)
            && (sources.iter()).all(|s| s.lied() || s.faults.iter().all(absent))
    }
}
