//! What ends a run.

use int_engine::blob::{LoadError, WriteError};
use int_engine::halt::{Fault, Halt, StepError};

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A contender did other work than it was timed for.
    #[error("{what}: the result is {found}, must be {expected}")]
    Wrong {
        /// What was timed.
        what: String,
        /// The right result.
        expected: String,
        /// The contender's.
        found: String,
    },
    /// A buffer does not fit.
    #[error("no memory for a buffer of {bytes} bytes")]
    Memory {
        /// Its size.
        bytes: usize,
    },
    /// The random blob cannot be written.
    #[error("the random blob: {0}")]
    Write(#[from] WriteError),
    /// A blob does not load.
    #[error("{name} does not load: {error}")]
    Load {
        /// The subject's name.
        name: String,
        /// Why.
        error: LoadError,
    },
    /// The engine lacks memory.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A call of a precompile does not finish.
    #[error("the precompile: {0}")]
    Precompile(#[from] precompile::Fault),
    /// A step of several sessions fails.
    #[error(transparent)]
    Step(#[from] StepError),
    /// Another engine that was asked for is missing or does not answer.
    #[error("{name}: {reason}")]
    Peer {
        /// The engine.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The process whose memory is measured fails.
    #[error("the measurement of memory: {reason}")]
    Probe {
        /// Why.
        reason: String,
    },
    /// The system does not tell the peak memory of a process.
    #[error("this system does not tell the peak memory of a process")]
    NoCounter,
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A record is none.
    #[error("{path} is no record: {reason}")]
    Record {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A page has no place for figures.
    #[error("{path} has no place for figures: {reason}")]
    Page {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The model is too small for a measurement.
    #[error("the model refuses a measurement: {0}")]
    Halt(#[from] Halt),
}

impl From<int_engine::halt::Error> for Error {
    fn from(error: int_engine::halt::Error) -> Self {
        match error {
            int_engine::halt::Error::Halt(halt) => Self::Halt(halt),
            int_engine::halt::Error::Fault(fault) => Self::Fault(fault),
        }
    }
}
