//! The integer decoder: the consensus function of `spec/` and its CPU kernels.
//!
//! A [`Model`](model::Model) is made only by the blob [`Loader`](blob::Loader), which checks every range that the
//! overflow proofs of the specification rest on. Nothing here reads a clock, a file or an environment variable.

#![deny(unsafe_code, clippy::float_arithmetic)]

pub mod blob;
pub mod commitment;
pub mod config;
pub mod engine;
pub mod halt;
pub mod kernels;
pub mod model;
pub mod ops;
pub mod pool;
mod session;
pub mod tables;
pub mod toy;
