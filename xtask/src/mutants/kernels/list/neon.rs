//! The kernels of NEON, with and without the dot product instructions.

use super::{Mutant, m};

const DOTS: &str = "kernels/aarch64/neon/dots.rs";
const BLOCKS: &str = "kernels/blocks.rs";
const ROWS: &str = "kernels/aarch64/neon/rows.rs";
const SOFTMAX: &str = "kernels/aarch64/neon/softmax.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    m(
        "gemm-dotprod-tail",
        DOTS,
        "dotprod_token",
        "tail: groups that fill no register are left out",
        &[("g < block.groups", "false")],
    ),
    m(
        "gemm-dotprod-odd",
        DOTS,
        "dotprod_token",
        "the sums of odd groups are left out",
        &[("vaddq_s32(acc[v][0], odd[v])", "acc[v][0]")],
    ),
    m(
        "gemm-dotprod-token",
        DOTS,
        "dotprod",
        "tail: the last three of seven tokens are taken for the first three",
        &[(
            "dotprod_part::<3>(block, first)",
            "dotprod_part::<3>(block, 0)",
        )],
    ),
    m(
        "gemm-widening-tail",
        DOTS,
        "widening_part",
        "tail: an odd last group is left out",
        &[("g < block.groups", "false")],
    ),
    m(
        "gemm-widening-saturates",
        DOTS,
        "widening_part",
        "sums of pairs are doubled in int16, which saturates",
        &[(
            "vmlal_s8(low, vget_low_s8(b), vget_low_s8(xb))",
            "vshrq_n_s16::<1>(vqaddq_s16(vmlal_s8(low, vget_low_s8(b), vget_low_s8(xb)), vmlal_s8(low, vget_low_s8(b), vget_low_s8(xb))))",
        )],
    ),
    m(
        "gemm-widening-rows",
        DOTS,
        "widening_part",
        "sums of two rows are mixed",
        &[(
            "vpaddq_s32(acc[v][0][t], acc[v][1][t])",
            "vpaddq_s32(acc[v][1][t], acc[v][0][t])",
        )],
    ),
    m(
        "gemm-edge-overwrites",
        DOTS,
        "store",
        "tail: an edge tile stores 16 rows",
        &[("sums.rows == TILE", "true")],
    ),
    m(
        "gemm-edge-rows",
        DOTS,
        "store",
        "tail: an edge tile stores one row too few",
        &[(
            "core::ptr::copy_nonoverlapping(buffer.as_ptr(), to, sums.rows);",
            "core::ptr::copy_nonoverlapping(buffer.as_ptr(), to, sums.rows - 1);",
        )],
    ),
    m(
        "weighted-sum-2-15",
        BLOCKS,
        "weighted_sum",
        "correction: the weight 2^15 stays -2^15",
        &[("w.contains(&(1 << 15))", "false")],
    ),
    m(
        "weighted-sum-tail",
        BLOCKS,
        "weighted_sum",
        "tail: channels that fill no register are left out",
        &[("whole < width", "false")],
    ),
    m(
        "weighted-sum-unsigned",
        DOTS,
        "channels",
        "half of the values are widened without their signs",
        &[(
            "vmovl_high_s8(v)",
            "vreinterpretq_s16_u16(vmovl_high_u8(vreinterpretq_u8_s8(v)))",
        )],
    ),
    m(
        "rounded-products-tie",
        ROWS,
        "rounded_products",
        "no rounding of the low half",
        &[(
            "vrshrq_n_u64::<SHIFT>(vmull_u32(vget_low_u32(a), vget_low_u32(b)))",
            "vshrq_n_u64::<SHIFT>(vmull_u32(vget_low_u32(a), vget_low_u32(b)))",
        )],
    ),
    m(
        "srdhm-tie",
        ROWS,
        "srdhm",
        "the product is not rounded",
        &[("vqrdmulhq_s32(a, b)", "vqdmulhq_s32(a, b)")],
    ),
    m(
        "requantize-left",
        ROWS,
        "requantize_8s",
        "a shift to the left wraps instead of saturating",
        &[(
            "vqshlq_s32(vreinterpretq_s32_u32(m), up)",
            "vshlq_s32(vreinterpretq_s32_u32(m), up)",
        )],
    ),
    m(
        "requantize-count",
        ROWS,
        "requantize_8s",
        "counts of shifts are read from 8 bits of a lane without a bound",
        &[(
            "vminq_s32(vmaxq_s32(vnegq_s32(e), zero), most_left)",
            "vmaxq_s32(vnegq_s32(e), zero)",
        )],
    ),
    m(
        "score-tie",
        SOFTMAX,
        "log_scores_4s",
        "the score is not rounded",
        &[(
            "vrshlq_s64(vmull_high_s32(a, rm), down)",
            "vshlq_s64(vmull_high_s32(a, rm), down)",
        )],
    ),
    m(
        "exp2-count",
        SOFTMAX,
        "raw_weights_4s",
        "counts of shifts are read from 8 bits of a lane without a bound",
        &[(
            "vminq_u32(vshrq_n_u32::<8>(d), vdupq_n_u32(32))",
            "vshrq_n_u32::<8>(d)",
        )],
    ),
    m(
        "narrow-weights-tie",
        SOFTMAX,
        "narrow_weights_4s",
        "the weight is not rounded",
        &[(
            "vrshlq_s32(vld1q_s32(z.as_ptr().add(at)), down)",
            "vshlq_s32(vld1q_s32(z.as_ptr().add(at)), down)",
        )],
    ),
];
