//! AVX-512 with VNNI.
#![allow(unsafe_code)]
// Compilers before 1.89 do not build for x86-64 with these kernels: their intrinsics are younger than the crate's
// declared version, which the other targets keep.
#![allow(clippy::incompatible_msrv)]

mod dots;
mod heads;
pub(super) mod rows;
mod softmax;
pub(super) mod sums;

use super::super::operands::Form;
use super::super::{Kernels, linear_by_panels};
use crate::ops::attention::Normalizer;
use crate::ops::{dynq, head_norm, requantize, rms, rope, rows as row_ops, swiglu};

/// The table, if this CPU has every feature that its functions are compiled with. The functions of the table are
/// reachable through it alone.
pub(crate) fn kernels() -> Option<&'static Kernels> {
    (std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512dq")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512vnni"))
    .then_some(&KERNELS)
}

pub(super) static KERNELS: Kernels = Kernels {
    name: "avx512",
    form: |_| Form::Blocks { flip: 0x80 },
    gemm: dots::gemm,
    linear: linear_by_panels,
    weighted_sum: sums::weighted_sum,
    max_abs,
    quantize: rows::quantize,
    sum_squares,
    requantize: rows::requantize,
    add_residual,
    butterflies: rows::butterflies,
    swiglu: rows::swiglu,
    narrow,
    log_scores: softmax::log_scores,
    softmax_weights: softmax::softmax_weights,
    attention_output,
    head_norm,
    rope,
    round_shift,
    rotate_heads: heads::rotate_heads,
    apply_gain,
    largest,
};

/// With this backend's features.
macro_rules! compiled {
    ($($function:tt)*) => {
        compiled_with!("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni", $($function)*);
    };
}

compiled!(max_abs(u: &[i32]) -> u32, dynq::max_abs(u));
compiled!(sum_squares(x: &[i32], sh: u32) -> u64, rms::sum_squares(x, sh));
compiled!(add_residual(x: &mut [i32], y: &[i32]), requantize::add_residual(x, y));
compiled!(narrow(h: &[i64], c: u32, out: &mut [i32]), swiglu::narrow_row(h, c, out));
compiled!(attention_output(d: Normalizer, n: &[i64], out: &mut [i32]), d.output(n, out));
compiled!(head_norm(x: &mut [i32], gain: &[i32]), head_norm::head_norm(x, gain));
compiled!(rope(x: &mut [i32], cos_sin: &[(i32, i32)], limit: i32), rope::rope_within(x, cos_sin, limit));
compiled!(round_shift(x: &mut [i32], r: u32, limit: i32), row_ops::round_shift(x, r, limit));
compiled!(apply_gain(y: &[i32], gain: &[i16], out: &mut [i64]) -> u64, row_ops::apply_gain(y, gain, out));
compiled!(largest(x: &[i32]) -> i32, row_ops::largest(x));
