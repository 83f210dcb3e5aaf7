//! What ends a run.

use int_engine::blob::{LoadError, WriteError};
use int_engine::halt::{Fault, Halt};

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
