//! The portable kernels.

use super::{Mutant, m};

const KERNELS: &str = "kernels/scalar.rs";
const ATTENTION: &str = "ops/attention.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    m(
        "gemm-odd-group",
        KERNELS,
        "tile_sums",
        "tail: an odd last group is left out",
        &[("!line.is_empty()", "false")],
    ),
    m(
        "gemm-second-group",
        KERNELS,
        "tile_sums",
        "the second of two groups meets the inputs of the first",
        &[("[0, step]", "[0, 0]")],
    ),
    m(
        "gemm-saturates",
        KERNELS,
        "add_products",
        "sums saturate at 24 bits",
        &[(
            "sums[i] += i32::from(i16::from(w0[i]) * x0[i] + i16::from(w1[i]) * x1[i]);",
            "sums[i] = (sums[i] + i32::from(i16::from(w0[i]) * x0[i] + i16::from(w1[i]) * x1[i])).clamp(1 - (1 << 23), (1 << 23) - 1);",
        )],
    ),
    m(
        "gemm-saturates-pairs",
        KERNELS,
        "add_products",
        "pairs of products saturate one bit too early",
        &[(
            "sums[i] += i32::from(i16::from(w0[i]) * x0[i] + i16::from(w1[i]) * x1[i]);",
            "sums[i] += i32::from((i16::from(w0[i]) * x0[i] + i16::from(w1[i]) * x1[i]).clamp(-(1 << 14), (1 << 14) - 1));",
        )],
    ),
    m(
        "gemm-edge-rows",
        KERNELS,
        "gemm",
        "tail: the last row of an edge tile is left out",
        &[(
            "TILE.min(weights.rows() - row)",
            "if weights.rows() - row < TILE { weights.rows() - row - 1 } else { TILE }",
        )],
    ),
    m(
        "weighted-sum-2-15",
        ATTENTION,
        "weighted_sum",
        "correction: the weight 2^15 is read as -2^15",
        &[("w.into()", "i64::from(w as i16)")],
    ),
    m(
        "weighted-sum-rest",
        ATTENTION,
        "weighted_sum",
        "tail: what follows the last key in its group has the weight of the key before",
        &[("[0i64; GROUP]", "[i64::from(w[w.len() - 1]); GROUP]")],
    ),
    m(
        "quantize-tie",
        "ops/dynq.rs",
        "Reciprocal::quantize",
        "tie: halves go towards zero",
        &[("(1 << 46)", "((1 << 46) - 1)")],
    ),
    m(
        "max-abs-signed",
        "ops/dynq.rs",
        "max_abs",
        "the largest value instead of the largest magnitude",
        &[("m.max(v.unsigned_abs())", "m.max((*v).max(0) as u32)")],
    ),
    m(
        "sum-squares-tie",
        "ops/rms.rs",
        "sum_squares",
        "tie: halves go towards zero",
        &[("(1u32 << sh) >> 1", "((1u32 << sh) >> 1).saturating_sub(1)")],
    ),
    m(
        "rdbpot-tie",
        "ops/fixed.rs",
        "rdbpot",
        "tie: halves go towards zero",
        &[("(1u64 << e) >> 1", "((1u64 << e) >> 1).saturating_sub(1)")],
    ),
    m(
        "srdhm-tie",
        "ops/fixed.rs",
        "srdhm",
        "tie: halves go towards minus infinity",
        &[("(1 << 30)", "((1 << 30) - 1)")],
    ),
    m(
        "requantize-left",
        "ops/requantize.rs",
        "requantize",
        "a shift to the left wraps instead of saturating",
        &[("sat(a << (-e).min(31), I31)", "(a << (-e).min(31)) as i32")],
    ),
    m(
        "add-residual-wraps",
        "ops/requantize.rs",
        "add_residual",
        "the sum wraps instead of saturating",
        &[("x.saturating_add(y)", "x.wrapping_add(y)")],
    ),
    m(
        "butterflies-first-stride",
        "ops/hadamard.rs",
        "butterflies",
        "two outputs of the first run of four are swapped",
        &[(
            "(a + c, b + d, a - c, b - d)",
            "(a + c, a - c, b + d, b - d)",
        )],
    ),
    m(
        "swiglu-negative",
        "ops/swiglu.rs",
        "swiglu",
        "correction: the sigmoid of a negative gate is that of its magnitude",
        &[("(1 << 24) - sigmoid", "sigmoid")],
    ),
    m(
        "exp2-tie",
        ATTENTION,
        "exp2_weight",
        "tie: halves go towards zero",
        &[("((1 << n) >> 1)", "((1u32 << n) >> 1).saturating_sub(1)")],
    ),
    m(
        "score-tie",
        ATTENTION,
        "log_score",
        "tie: halves go towards minus infinity",
        &[("(1 << (self.rs - 1))", "((1i64 << (self.rs - 1)) - 1)")],
    ),
    m(
        "narrow-weights-tie",
        ATTENTION,
        "narrow_weights",
        "tie: halves go towards zero",
        &[("(1 << c) >> 1", "(((1 << c) >> 1) - 1).max(0)")],
    ),
    m(
        "rotate-heads-largest",
        "kernels/heads.rs",
        "rotate_heads",
        "the largest magnitude is looked for after the first channel",
        &[("(kernels.max_abs)(head)", "(kernels.max_abs)(&head[1..])")],
    ),
    m(
        "rotate-heads-saturates",
        "kernels/heads.rs",
        "rotate_heads",
        "correction: a rotated value above int16 stays",
        &[(
            "(kernels.round_shift)(head, rotation.shift, I16)",
            "(kernels.round_shift)(head, rotation.shift, i32::MAX)",
        )],
    ),
    m(
        "rope-limit",
        "ops/rotation.rs",
        "rope_limit",
        "correction: a turned value above int16 stays",
        &[("self.gain.is_some()", "false")],
    ),
];
