//! Float checkpoint to integer blob.
//!
//! [`export`] reads a checkpoint layer by layer, measures activations on calibration tokens, applies exact
//! function-preserving transforms (equalisation, folded norm gains, Hadamard rotations), rounds every matrix to int8 with GPTQ,
//! and writes the blob of `spec/` 4. The method is described in `docs/EXPORT.md`.
//!
//! The same checkpoint and calibration give the same bytes on every machine and with any number of threads: every float
//! sum has one order, nothing is fused, and exp, log and sqrt are those of `libm`.

pub mod calibration;
mod collect;
mod constants;
mod emit;
mod error;
mod export;
mod gptq;
mod hadamard;
mod linalg;
mod lower;
mod parallel;
mod partial;
mod phase;
mod piece;
mod random;
mod report;
pub mod stress;
#[cfg(test)]
mod test_support;

pub use error::{CalibrationError, ExportError};
pub use export::{ExportOptions, Progress, export};
pub use report::{Report, SiteMaxima, TensorReport, WorstRow};
