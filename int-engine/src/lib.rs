//! The integer decoder: the consensus function of `spec/` and its CPU kernels.
//!
//! A [`Model`](model::Model) is made only by the blob [`Loader`](blob::Loader), which checks every range that the
//! overflow proofs of the specification rest on. Nothing here reads a clock or an environment variable,
//! or opens a file: a loader reads the source that it is given.
//!
//! A node reads a blob from any source in pieces of any size, accepts it only if its commitment is the expected one,
//! and generates:
//!
//! ```
//! use int_engine::blob::Loader;
//! use int_engine::commitment;
//! use int_engine::config::{Config, Dims};
//! use int_engine::engine::{CpuEngine, Engine, generate};
//! use int_engine::kernels::Kernels;
//! use std::num::NonZeroUsize;
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//!
//! # mod sample { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sample/mod.rs")); }
//! # let config = Config::new(Dims {
//! #     scheme: Default::default(), hidden: 64, layers: 2, heads: 4, kv_heads: 2, head_dim: 16, intermediate: 96, vocab: 100, accepted_ids: 100,
//! #     max_context: 32, qk_norm: true, tied: true, eps: 1, stop_ids: vec![],
//! # })?;
//! # let file = sample::sample(&config, 1);
//! # let expected = commitment::commitment(&file);
//! let mut loader = Loader::new().expect(expected);
//! for piece in file.chunks(1 << 20) {
//!     loader.push(piece)?;
//! }
//! let model = Arc::new(loader.finish()?);
//!
//! let engine = CpuEngine::new(model, Kernels::detect(), NonZeroUsize::MIN);
//! let mut session = engine.session()?;
//! let answer = generate(&mut *session, &[1, 2, 3], 8, &mut |_| ControlFlow::Continue(()))?;
//! assert_eq!(answer.ids.len(), 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The expected commitment comes from the chain, as 32 bytes or as text:
//! `"0x92e3…".parse::<`[`Commitment`](commitment::Commitment)`>()`.
//!
//! Beside [`generate`](engine::generate), and always with its answers: [`Batch`](engine::Batch) for many requests at once,
//! [`Engine::step`](engine::Engine::step) beneath it for sessions that the caller holds, [`verify`](engine::verify) for a
//! claimed answer, [`generate_speculative`](engine::generate_speculative) with drafts from the text itself, and
//! [`CpuEngine::with_prefix_cache`](engine::CpuEngine::with_prefix_cache) for prompts that begin alike. [`read`] says what a
//! loader reads from, [`halt`] what ends a computation on every node alike (`Halt`) and on this machine alone (`Fault`).

#![deny(unsafe_code, clippy::float_arithmetic)]

// The tests' small model is that of the tests outside the crate.
#[cfg(test)]
extern crate self as int_engine;

pub mod blob;
pub mod buffer;
pub mod commitment;
pub mod config;
pub mod engine;
mod fill;
pub mod halt;
mod keccak;
pub mod kernels;
#[cfg(test)]
mod lack;
pub mod model;
pub mod ops;
mod pool;
pub mod probe;
pub mod read;
#[cfg(test)]
mod seeded;
mod session;
pub mod tables;
pub mod tiles;
pub mod toy;
