//! Float checkpoint to integer blob.
//!
//! [`export`] reads a checkpoint layer by layer, measures activations on calibration tokens, applies exact
//! function-preserving transforms (equalisation, folded norm gains, Hadamard rotations), rounds every matrix to int8 with GPTQ,
//! and writes the blob of `spec/` 4. The method is described in `docs/EXPORT.md`.
//!
//! The same checkpoint, tokenizer and calibration give the same bytes on every machine and with any number of threads, for
//! as long as [`REVISION`] stays: every float sum has one order, nothing is fused, and exp, log and sqrt are those of `libm`.

#![deny(unsafe_code)]

pub mod calibration;
mod collect;
mod compute;
mod constants;
mod emit;
mod error;
mod export;
mod gptq;
mod hadamard;
#[allow(unsafe_code)]
mod linalg;
mod lower;
mod parallel;
mod partial;
mod phase;
mod piece;
pub mod quality;
mod random;
mod report;
pub mod stress;
#[cfg(test)]
mod test_support;

pub use error::{CalibrationError, ExportError};
pub use export::{ExportOptions, Progress, REVISION, export};
pub use int_engine::config::Scheme;
pub use report::{Report, SiteMaxima, StaticSite, TensorReport, WorstRow};
