//! NEON, with the dot product instructions where the CPU has them.
//!
//! NEON is part of the base of every arm64 target, so the compiler emits it for the portable definitions too. The
//! kernels here are those whose instructions it does not find: widening products, rounding and saturating shifts.
#![allow(unsafe_code)]

mod dots;
mod rows;
mod softmax;

use super::super::operands::Form;
use super::super::{Kernels, heads, scalar};

/// The table, if this CPU has NEON. The functions of the table are reachable through it alone.
pub(crate) fn kernels() -> Option<&'static Kernels> {
    if std::arch::is_aarch64_feature_detected!("dotprod") {
        without_dotprod().and(Some(&DOTPROD))
    } else {
        without_dotprod()
    }
}

/// The table that needs no dot product instructions.
pub(crate) fn without_dotprod() -> Option<&'static Kernels> {
    std::arch::is_aarch64_feature_detected!("neon").then_some(&BASE)
}

const NEON: Kernels = Kernels {
    name: "neon",
    form: |_| Form::Blocks { flip: 0 },
    gemm: dots::gemm_widening,
    linear: scalar::KERNELS.linear,
    weighted_sum: dots::weighted_sum,
    max_abs: scalar::KERNELS.max_abs,
    quantize: rows::quantize,
    sum_squares: scalar::KERNELS.sum_squares,
    requantize: rows::requantize,
    add_residual: scalar::KERNELS.add_residual,
    butterflies: scalar::KERNELS.butterflies,
    swiglu: rows::swiglu,
    narrow: scalar::KERNELS.narrow,
    log_scores: softmax::log_scores,
    softmax_weights: softmax::softmax_weights,
    attention_output: scalar::KERNELS.attention_output,
    head_norm: scalar::KERNELS.head_norm,
    rope: scalar::KERNELS.rope,
    round_shift: scalar::KERNELS.round_shift,
    rotate_heads: |row, rotation, codes, largest| {
        heads::rotate_heads(&BASE, row, rotation, codes, largest);
    },
    apply_gain: scalar::KERNELS.apply_gain,
    largest: scalar::KERNELS.largest,
};

static BASE: Kernels = NEON;

static DOTPROD: Kernels = Kernels {
    gemm: dots::gemm_dotprod,
    ..NEON
};
