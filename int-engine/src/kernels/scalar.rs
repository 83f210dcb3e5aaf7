//! The portable backend: the definitions themselves, in plain Rust.

use super::Kernels;
use crate::ops::attention::{self, QueryScale};
use crate::ops::proven::{self, DOT_PRODUCT};
use crate::ops::{dynq, hadamard, requantize, rms, swiglu};

pub(super) static KERNELS: Kernels = Kernels {
    name: "scalar",
    gemm,
    weighted_sum: attention::weighted_sum,
    max_abs: dynq::max_abs,
    quantize: dynq::quantize,
    sum_squares: rms::sum_squares,
    requantize: requantize::requantize_row,
    add_residual: requantize::add_residual,
    butterflies: hadamard::butterflies,
    swiglu: swiglu::swiglu_row,
    narrow: swiglu::narrow_row,
    log_scores: QueryScale::log_scores,
    softmax_weights: attention::softmax_weights,
};

/// The number of rows of a product, after checking that the operands fit together.
pub(super) fn rows_of(weights: &[i8], cols: usize, x: &[i8], out: &[i32]) -> (usize, usize) {
    assert!((1..=65536).contains(&cols), "1 <= cols <= 65536");
    let (rows, tokens) = (weights.len() / cols, x.len() / cols);
    assert!(
        rows * cols == weights.len() && tokens * cols == x.len(),
        "whole rows"
    );
    assert_eq!(out.len(), rows * tokens, "one output per row and token");
    (rows, tokens)
}

fn gemm(weights: &[i8], cols: usize, x: &[i8], out: &mut [i32]) {
    let (rows, tokens) = rows_of(weights, cols, x, out);
    // A weight row stays in the first-level cache for all tokens.
    for (r, row) in weights.chunks_exact(cols).enumerate() {
        for (t, x) in x.chunks_exact(cols).enumerate() {
            out[t * rows + r] = dot(row, x);
        }
    }
    debug_assert!(tokens == 0 || out.len() / tokens == rows);
}

/// At most 65536 products of magnitude at most 127^2: below 2^30.
#[inline(always)]
fn dot(a: &[i8], b: &[i8]) -> i32 {
    proven::sum(
        &DOT_PRODUCT,
        a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)),
    )
}
