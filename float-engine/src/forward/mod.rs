//! The forward pass in f32.
//!
//! Results have the same bits on every machine, instruction set and number of threads: every sum has one
//! documented order, no operation is fused, and the exponential, the sines and the powers are computed in plain Rust.
//! [`FloatModel`] holds a whole model; [`run_layer`] runs one layer at a time and shows its activations.

mod attention;
#[allow(unsafe_code)]
mod gemm;
#[allow(unsafe_code)]
mod kernels;
#[allow(unsafe_code)]
mod lanes;
mod layer;
mod model;
mod pack;
mod rope;
#[allow(unsafe_code)]
mod rows;

pub use kernels::Kernels;
pub use layer::{Observation, PackedLayer, Tap, run_layer};
pub use model::{FloatModel, HEAD_BLOCK, Session, argmax, head_logits};
pub use pack::PackedMatrix;
pub use rope::RopeTable;

use crate::config::ModelConfig;
use crate::source::Matrix;

/// How to run: which kernels, on how many threads. Neither changes a result.
#[derive(Debug, Clone, Copy)]
pub struct Exec {
    /// The kernels.
    pub kernels: Kernels,
    /// Number of threads, at least 1.
    pub threads: usize,
}

impl Exec {
    /// The fastest kernels of this CPU on `threads` threads (at least one).
    pub fn new(threads: usize) -> Self {
        Self {
            kernels: Kernels::detect(),
            threads: threads.max(1),
        }
    }
}

/// Why a forward pass was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// No tokens.
    #[error("no tokens; at least one is needed")]
    Empty,
    /// A token outside the vocabulary.
    #[error("token {id} is outside the vocabulary of {vocab}")]
    TokenOutOfRange {
        /// The token.
        id: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// More positions than the model was made for.
    #[error("{len} positions; the model has {max}")]
    TooLong {
        /// Positions asked for.
        len: usize,
        /// `max_context`.
        max: usize,
    },
    /// A window that is not `[n, hidden]` with n at least 1.
    #[error("a window of {len} values is not a whole number of rows of {hidden}, at least one")]
    WindowShape {
        /// Values in the window.
        len: usize,
        /// Width of a row.
        hidden: usize,
    },
    /// Layer weights of another shape than the configuration's.
    #[error("the layer's `{tensor}` does not fit the configuration")]
    WeightShape {
        /// The tensor.
        tensor: &'static str,
    },
}

/// The embedding of `tokens`, `[n, hidden]`.
///
/// # Errors
/// No tokens, or a token outside the table.
pub fn embed_tokens(
    config: &ModelConfig,
    embed: &Matrix,
    tokens: &[u32],
) -> Result<Vec<f32>, ForwardError> {
    if tokens.is_empty() {
        return Err(ForwardError::Empty);
    }
    let mut x = Vec::with_capacity(tokens.len() * config.hidden);
    for &id in tokens {
        if id as usize >= embed.rows {
            return Err(ForwardError::TokenOutOfRange {
                id,
                vocab: embed.rows,
            });
        }
        x.extend_from_slice(embed.row(id as usize));
    }
    Ok(x)
}
