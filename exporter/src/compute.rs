//! What an export computes with. Nothing here changes a bit of the result.

use crate::linalg::Isa;
use float_engine::forward::{Exec, Kernels};
use std::num::NonZeroUsize;

/// Threads, and the vector extensions of the two kinds of inner loops.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compute {
    pub(crate) threads: NonZeroUsize,
    /// Of the linear algebra in f64.
    pub(crate) isa: Isa,
    /// Of the float model.
    pub(crate) kernels: Kernels,
}

impl Compute {
    /// The widest extensions of this machine.
    pub(crate) fn detect(threads: NonZeroUsize) -> Self {
        Self {
            threads,
            isa: Isa::detect(),
            kernels: Kernels::detect(),
        }
    }

    /// How to run the float model.
    pub(crate) fn exec(&self) -> Exec {
        Exec {
            kernels: self.kernels,
            threads: self.threads.get(),
        }
    }
}
