//! AVX2.
#![allow(unsafe_code)]

mod dots;
mod rows;
mod softmax;

use super::super::operands::Form;
use super::super::{Kernels, heads, linear_by_panels};
use crate::ops::attention::Normalizer;
use crate::ops::{dynq, hadamard, head_norm, requantize, rms, rope, rows as row_ops, swiglu};

/// The table, if this CPU has AVX2. The functions of the table are reachable through it alone.
pub(crate) fn kernels() -> Option<&'static Kernels> {
    std::arch::is_x86_feature_detected!("avx2").then_some(&KERNELS)
}

static KERNELS: Kernels = TABLE;

/// Its functions need AVX2.
pub(super) const TABLE: Kernels = Kernels {
    name: "avx2",
    form: |_| Form::Blocks { flip: 0 },
    gemm: dots::gemm,
    linear: linear_by_panels,
    weighted_sum: dots::weighted_sum,
    max_abs,
    quantize: rows::quantize,
    sum_squares,
    requantize: rows::requantize,
    add_residual,
    butterflies,
    swiglu: rows::swiglu,
    narrow,
    log_scores: softmax::log_scores,
    softmax_weights: softmax::softmax_weights,
    attention_output,
    head_norm,
    rope,
    round_shift,
    rotate_heads: |row, rotation, codes, largest| {
        heads::rotate_heads(&KERNELS, row, rotation, codes, largest);
    },
    apply_gain,
    largest,
};

compiled_with!("avx2", max_abs(u: &[i32]) -> u32, dynq::max_abs(u));
compiled_with!("avx2", sum_squares(x: &[i32], sh: u32) -> u64, rms::sum_squares(x, sh));
compiled_with!("avx2", add_residual(x: &mut [i32], y: &[i32]), requantize::add_residual(x, y));
compiled_with!("avx2", butterflies(x: &mut [i32], size: usize), hadamard::butterflies(x, size));
compiled_with!("avx2", narrow(h: &[i64], c: u32, out: &mut [i32]), swiglu::narrow_row(h, c, out));
compiled_with!("avx2", attention_output(d: Normalizer, n: &[i64], out: &mut [i32]), d.output(n, out));
compiled_with!("avx2", head_norm(x: &mut [i32], gain: &[i32]), head_norm::head_norm(x, gain));
compiled_with!("avx2", rope(x: &mut [i32], cos_sin: &[(i32, i32)], limit: i32), rope::rope_within(x, cos_sin, limit));
compiled_with!("avx2", round_shift(x: &mut [i32], r: u32, limit: i32), row_ops::round_shift(x, r, limit));
compiled_with!("avx2", apply_gain(y: &[i32], gain: &[i16], out: &mut [i64]) -> u64, row_ops::apply_gain(y, gain, out));
compiled_with!("avx2", largest(x: &[i32]) -> i32, row_ops::largest(x));
