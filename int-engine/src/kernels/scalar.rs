//! The portable backend: the definitions themselves, in plain Rust.

use super::Kernels;
use super::operands::{Inputs, Out};
use crate::ops::attention::{self, QueryScale};
use crate::ops::proven::{Columns, DOT_PRODUCT};
use crate::ops::{dynq, hadamard, requantize, rms, swiglu};
use crate::tiles::{GROUP, TILE, View};

pub(super) static KERNELS: Kernels = Kernels {
    name: "scalar",
    flip: 0,
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

/// Asserts that the operands of a product fit together.
pub(super) fn check(weights: View<'_>, inputs: Inputs<'_>, out: &Out<'_>) {
    assert_eq!(weights.cols(), inputs.cols(), "one input per column");
    assert!(
        out.tokens() == inputs.tokens() && out.rows() == weights.rows(),
        "one output per row and token"
    );
}

/// The sums of the rows of one tile with one token: at most 65536 products of magnitude at most 127^2, below 2^30.
///
/// `tile` `[groups][16][4]`, `x` the token's groups.
#[inline(always)]
fn tile_sums<'a>(tile: &[i8], x: impl Iterator<Item = &'a [i8]>, cols: usize) -> [i32; TILE] {
    let mut sums = [0; TILE];
    let mut proof = Columns::zero(TILE);
    for (line, x) in tile.chunks_exact(TILE * GROUP).zip(x) {
        for (k, &x) in x.iter().enumerate() {
            proof.plus((0..TILE).map(|r| i64::from(line[r * GROUP + k]) * i64::from(x)));
        }
        let x: [i32; GROUP] = std::array::from_fn(|k| i32::from(x[k]));
        for (sum, w) in sums.iter_mut().zip(line.chunks_exact(GROUP)) {
            let w: [i32; GROUP] = std::array::from_fn(|k| i32::from(w[k]));
            *sum += w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3];
        }
    }
    proof.hold(&DOT_PRODUCT, cols);
    sums
}

/// The definition, for inputs that are not flipped.
#[inline(always)]
pub(super) fn gemm(weights: View<'_>, inputs: Inputs<'_>, mut out: Out<'_>) {
    check(weights, inputs, &out);
    let cols = weights.cols();
    let tiles = weights.data().chunks_exact(weights.groups() * TILE * GROUP);
    // A tile stays in the first-level cache for all tokens.
    for (tile, row) in tiles.zip((0..).step_by(TILE)) {
        let rows = TILE.min(weights.rows() - row);
        let mut first = 0;
        for (tokens, block) in inputs.blocks() {
            for t in 0..tokens {
                let x = block
                    .chunks_exact(tokens * GROUP)
                    .map(|g| &g[t * GROUP..][..GROUP]);
                let sums = tile_sums(tile, x, cols);
                out.token(first + t)[row..row + rows].copy_from_slice(&sums[..rows]);
            }
            first += tokens;
        }
    }
}
