//! The kernels of AVX-VNNI; its rows are those of AVX2.

use super::{Mutant, m};

const DOTS: &str = "kernels/x86_64/avxvnni/dots.rs";

/// The one instruction of a step.
const ADD_PRODUCTS: &str = "_mm256_dpbusd_avx_epi32(*acc, x, w)";

pub(super) const MUTANTS: &[Mutant] = &[
    m(
        "gemm-start",
        DOTS,
        "start",
        "correction: sums do not start at minus 128 times the row's sum",
        &[(
            "_mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32::<7>(totals))",
            "_mm256_setzero_si256()",
        )],
    ),
    m(
        "gemm-one-tail",
        DOTS,
        "one_token",
        "tail: groups after whole steps are left out with one token",
        &[("0..block.groups % STEPS", "0..block.groups % 1")],
    ),
    m(
        "gemm-one-partial",
        DOTS,
        "one_token",
        "the sums of every fourth group are left out with one token",
        &[("_mm256_add_epi32(c[v], d[v])", "c[v]")],
    ),
    m(
        "gemm-one-operands",
        DOTS,
        "step",
        "weights are taken as the unsigned side with one token",
        &[(ADD_PRODUCTS, "_mm256_dpbusd_avx_epi32(*acc, w, x)")],
    ),
    m(
        "gemm-operands",
        DOTS,
        "part",
        "weights are taken as the unsigned side",
        &[(ADD_PRODUCTS, "_mm256_dpbusd_avx_epi32(*acc, w, x)")],
    ),
    m(
        "gemm-saturates",
        DOTS,
        "part",
        "pairs of products saturate in int16",
        &[(
            ADD_PRODUCTS,
            "_mm256_add_epi32(*acc, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1)))",
        )],
    ),
    m(
        "gemm-seventh-token",
        DOTS,
        "product",
        "tail: the last three of seven tokens are taken for the first three",
        &[("part::<3, false>(block, 4)", "part::<3, false>(block, 0)")],
    ),
    m(
        "gemm-edge-overwrites",
        DOTS,
        "store",
        "tail: an edge tile stores 16 rows",
        &[("sums.rows == TILE", "true")],
    ),
    m(
        "weighted-sum-high",
        DOTS,
        "sum",
        "correction: the high bytes of weights count half",
        &[(
            "_mm256_slli_epi32::<8>(high)",
            "_mm256_slli_epi32::<7>(high)",
        )],
    ),
    m(
        "weighted-sum-tail",
        DOTS,
        "weighted_sum",
        "tail: channels that fill no register are left out",
        &[("whole < width", "false")],
    ),
    m(
        "weighted-sum-saturates",
        DOTS,
        "sum",
        "pairs of products with low bytes saturate in int16",
        &[(
            "_mm256_dpbusd_avx_epi32(sums[0], low, v)",
            "_mm256_add_epi32(sums[0], _mm256_madd_epi16(_mm256_maddubs_epi16(low, v), _mm256_set1_epi16(1)))",
        )],
    ),
];
