//! The portable backend: the definitions themselves, in plain Rust.

use super::operands::{Form, Inputs, Out, Values};
use super::{Kernels, heads};
use crate::ops::attention::{self, Normalizer, QueryScale};
#[cfg(debug_assertions)]
use crate::ops::proven::{Columns, DOT_PRODUCT};
use crate::ops::{dynq, hadamard, head_norm, requantize, rms, rope, rows, swiglu};
use crate::tiles::{GROUP, LINE, TILE, View};

pub(super) static KERNELS: Kernels = Kernels {
    name: "scalar",
    form: |_| Form::Blocks { flip: 0 },
    gemm,
    linear: super::linear_by_panels,
    weighted_sum,
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
    attention_output: Normalizer::output,
    head_norm: head_norm::head_norm,
    rope: rope::rope_within,
    round_shift: rows::round_shift,
    rotate_heads: |row, rotation, codes, largest| {
        heads::rotate_heads(&KERNELS, row, rotation, codes, largest);
    },
    apply_gain: rows::apply_gain,
    largest: rows::largest,
};

/// Asserts that the operands of a product fit together, and that the inputs have the form that it takes.
pub(super) fn check(weights: View<'_>, inputs: Inputs<'_>, out: &Out<'_>, form: Form) {
    assert_eq!(inputs.form(), form, "the form of the inputs");
    assert_eq!(weights.cols(), inputs.cols(), "one input per column");
    assert!(
        out.tokens() == inputs.tokens() && out.rows() == weights.rows(),
        "one output per row and token"
    );
}

/// The sums of each row, page by page: `add(weights, values, sums)` adds those of a page.
#[inline(always)]
pub(super) fn by_pages(
    w: &[u16],
    values: Values<'_>,
    n: &mut [i64],
    mut add: impl FnMut(&[u16], &[i8], &mut [i64]),
) {
    let _ = values.rows(w, n);
    n.fill(0);
    if n.is_empty() {
        return;
    }
    for (keys, page) in values.groups() {
        let rows = w.chunks_exact(values.keys());
        for (w, n) in rows.zip(n.chunks_exact_mut(values.width())) {
            add(&w[keys.clone()], page, n);
        }
    }
}

fn weighted_sum(w: &[u16], values: Values<'_>, n: &mut [i64]) {
    by_pages(w, values, n, attention::weighted_sum);
}

/// Products of half a tile's rows with a group, a lane each.
const LANES: usize = TILE / 2 * GROUP;

/// Adds the products of two groups to each lane: each at most 127^2, their sum below 2^15.
///
/// The shape is one that compilers vectorise: eight or sixteen int16 products an instruction, widened once for two.
#[inline(always)]
fn add_products(sums: &mut [i32; LANES], [w0, w1]: [&[i8; LANES]; 2], [x0, x1]: [[i16; GROUP]; 2]) {
    let x0: [i16; LANES] = std::array::from_fn(|i| x0[i % GROUP]);
    let x1: [i16; LANES] = std::array::from_fn(|i| x1[i % GROUP]);
    for i in 0..LANES {
        sums[i] += i32::from(i16::from(w0[i]) * x0[i] + i16::from(w1[i]) * x1[i]);
    }
}

/// One half of a line.
#[inline(always)]
fn lanes(line: &[i8], half: usize) -> &[i8; LANES] {
    line[half * LANES..][..LANES]
        .try_into()
        .expect("half a line")
}

#[inline(always)]
fn widen(group: &[i8]) -> [i16; GROUP] {
    std::array::from_fn(|k| i16::from(group[k]))
}

/// The sums of the rows of one tile with one token: at most 65536 products of magnitude at most 127^2, below 2^30.
///
/// `tile` `[groups][16][4]`, `block` `[groups][tokens][4]`.
#[inline(always)]
fn tile_sums(tile: &[i8], block: &[i8], tokens: usize, token: usize) -> [i32; TILE] {
    let step = tokens * GROUP;
    let mut sums = [0; TILE];
    for half in 0..2 {
        let mut products = [0; LANES];
        let (lines, groups) = (tile.chunks_exact(2 * LINE), block.chunks_exact(2 * step));
        let (line, group) = (lines.remainder(), groups.remainder());
        for (lines, groups) in lines.zip(groups) {
            let w = [lanes(lines, half), lanes(&lines[LINE..], half)];
            let x = [0, step].map(|at| widen(&groups[at + token * GROUP..][..GROUP]));
            add_products(&mut products, w, x);
        }
        if !line.is_empty() {
            let w = [lanes(line, half), &[0; LANES]];
            let x = [widen(&group[token * GROUP..][..GROUP]), [0; GROUP]];
            add_products(&mut products, w, x);
        }
        let rows = &mut sums[half * TILE / 2..][..TILE / 2];
        for (sum, products) in rows.iter_mut().zip(products.chunks_exact(GROUP)) {
            *sum = products.iter().sum();
        }
    }
    sums
}

/// Asserts that the sums of the rows of one tile with one token are as proven.
#[cfg(debug_assertions)]
fn prove(tile: &[i8], block: &[i8], tokens: usize, token: usize, cols: usize) {
    let mut proof = Columns::zero(TILE);
    let groups = block.chunks_exact(tokens * GROUP);
    for (line, group) in tile.chunks_exact(TILE * GROUP).zip(groups) {
        for (k, &x) in group[token * GROUP..][..GROUP].iter().enumerate() {
            proof.plus((0..TILE).map(|r| i64::from(line[r * GROUP + k]) * i64::from(x)));
        }
    }
    proof.hold(&DOT_PRODUCT, cols);
}

/// The definition, for inputs that are not flipped.
pub(super) fn gemm(weights: View<'_>, inputs: Inputs<'_>, mut out: Out<'_>) {
    check(weights, inputs, &out, Form::Blocks { flip: 0 });
    let tiles = weights.data().chunks_exact(weights.groups() * TILE * GROUP);
    // A tile stays in the first-level cache for all tokens.
    for (tile, row) in tiles.zip((0..).step_by(TILE)) {
        let rows = TILE.min(weights.rows() - row);
        let mut first = 0;
        for (tokens, block) in inputs.blocks() {
            for t in 0..tokens {
                #[cfg(debug_assertions)]
                prove(tile, block, tokens, t, weights.cols());
                let sums = tile_sums(tile, block, tokens, t);
                out.token(first + t)[row..row + rows].copy_from_slice(&sums[..rows]);
            }
            first += tokens;
        }
    }
}
