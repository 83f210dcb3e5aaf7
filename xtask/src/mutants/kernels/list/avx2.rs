//! The kernels of AVX2.

use super::{Mutant, m};

const DOTS: &str = "kernels/x86_64/avx2/dots.rs";
const BLOCKS: &str = "kernels/blocks.rs";
const ROWS: &str = "kernels/x86_64/avx2/rows.rs";
const SOFTMAX: &str = "kernels/x86_64/avx2/softmax.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    m(
        "gemm-one-tail",
        DOTS,
        "one_token",
        "tail: an odd last group is left out with one token",
        &[("0..block.groups", "0..block.groups & !1")],
    ),
    m(
        "gemm-several-tail",
        DOTS,
        "part",
        "tail: groups after whole runs of four are left out with several tokens",
        &[("0..block.groups", "0..block.groups & !3")],
    ),
    m(
        "gemm-one-sign",
        DOTS,
        "one_token",
        "correction: magnitudes of inputs meet weights without the inputs' signs",
        &[(
            "_mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(w, x))",
            "_mm256_maddubs_epi16(magnitudes, w)",
        )],
    ),
    m(
        "gemm-several-sign",
        DOTS,
        "part",
        "correction: magnitudes of weights meet inputs without the weights' signs",
        &[("_mm256_sign_epi8(x, w[v])", "x")],
    ),
    m(
        "gemm-one-saturates",
        DOTS,
        "one_token",
        "sums of pairs are doubled in int16, which saturates",
        &[(
            "_mm256_madd_epi16(pairs, ones)",
            "_mm256_srai_epi32::<1>(_mm256_madd_epi16(_mm256_adds_epi16(pairs, pairs), ones))",
        )],
    ),
    m(
        "gemm-several-saturates",
        DOTS,
        "part",
        "sums of pairs are doubled in int16, which saturates, with several tokens",
        &[(
            "_mm256_madd_epi16(pairs, ones)",
            "_mm256_srai_epi32::<1>(_mm256_madd_epi16(_mm256_adds_epi16(pairs, pairs), ones))",
        )],
    ),
    m(
        "gemm-unsigned-inputs",
        DOTS,
        "one_token",
        "inputs plus 128 as unsigned bytes: pairs saturate",
        &[(
            "_mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(w, x))",
            "_mm256_sub_epi16(_mm256_maddubs_epi16(_mm256_xor_si256(x, _mm256_set1_epi8(-128)), w), _mm256_maddubs_epi16(_mm256_set1_epi8(-128), w))",
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
        "gemm-fifth-token",
        DOTS,
        "product",
        "tail: the last three of seven tokens are taken for the first three",
        &[("part::<3, false>(block, 4)", "part::<3, false>(block, 0)")],
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
        "values are widened without their signs",
        &[("_mm256_cvtepi8_epi16(v)", "_mm256_cvtepu8_epi16(v)")],
    ),
    m(
        "weighted-sum-saturates",
        DOTS,
        "channels",
        "products saturate to int16",
        &[(
            "_mm256_add_epi32(acc[c], products)",
            "_mm256_add_epi32(acc[c], _mm256_min_epi32(products, _mm256_set1_epi32(32767)))",
        )],
    ),
    m(
        "quantize-tie",
        ROWS,
        "quantize_32s",
        "tie: halves go towards zero",
        &[(
            "_mm256_set1_epi64x(1 << 46)",
            "_mm256_set1_epi64x((1 << 46) - 1)",
        )],
    ),
    m(
        "requantize-tie",
        ROWS,
        "requantize_8s",
        "tie: halves go towards zero",
        &[(
            "_mm256_srli_epi32::<1>(_mm256_sllv_epi32(one, right))",
            "_mm256_max_epi32(zero, _mm256_sub_epi32(_mm256_srli_epi32::<1>(_mm256_sllv_epi32(one, right)), one))",
        )],
    ),
    m(
        "requantize-left",
        ROWS,
        "requantize_8s",
        "a shift to the left wraps instead of saturating",
        &[(
            "_mm256_blendv_epi8(_mm256_sllv_epi32(m, up), i31, over)",
            "_mm256_sllv_epi32(m, up)",
        )],
    ),
    m(
        "srdhm-tie",
        ROWS,
        "srdhm",
        "tie: halves go towards minus infinity",
        &[(
            "_mm256_set1_epi64x(1 << 30)",
            "_mm256_set1_epi64x((1 << 30) - 1)",
        )],
    ),
    m(
        "swiglu-tie",
        ROWS,
        "swiglu_8s",
        "tie: halves go towards zero",
        &[(
            "_mm256_set1_epi64x(1 << 23)",
            "_mm256_set1_epi64x((1 << 23) - 1)",
        )],
    ),
    m(
        "score-tie",
        SOFTMAX,
        "log_scores_8s",
        "tie: halves go towards minus infinity",
        &[("(1 << (scale.rs - 1))", "((1i64 << (scale.rs - 1)) - 1)")],
    ),
    m(
        "score-product-tie",
        SOFTMAX,
        "log_scores_8s",
        "tie: halves of the product with a key's scale go towards zero",
        &[(
            "_mm256_set1_epi64x(1 << 9)",
            "_mm256_set1_epi64x((1 << 9) - 1)",
        )],
    ),
    m(
        "exp2-tie",
        SOFTMAX,
        "raw_weights_8s",
        "no rounding of the exponential's shift",
        &[("_mm256_add_epi32(e, half)", "e")],
    ),
    m(
        "narrow-weights-tie",
        SOFTMAX,
        "narrow_weights_8s",
        "tie: halves go towards zero",
        &[("(1 << c) >> 1", "(((1 << c) >> 1) - 1).max(0)")],
    ),
];
