//! The kernels of AVX-512 with VNNI; its rows are those of AVX2.

use super::{Mutant, m};

const DOTS: &str = "kernels/x86_64/avx512/dots.rs";

/// The one instruction of a step.
const ADD_PRODUCTS: &str = r#"core::arch::asm!(
                    "vpdpbusd {acc}, {x}, {w}",
                    acc = inout(zmm_reg) *acc,
                    x = in(zmm_reg) x,
                    w = in(zmm_reg) w,
                    options(nostack, preserves_flags)
                );"#;

pub(super) const MUTANTS: &[Mutant] = &[
    m(
        "gemm-start",
        DOTS,
        "block",
        "correction: sums do not start at minus 128 times the row's sum",
        &[(
            "_mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32::<7>(sums))",
            "_mm512_setzero_si512()",
        )],
    ),
    m(
        "gemm-edge-overwrites",
        DOTS,
        "block",
        "tail: an edge tile stores 16 rows",
        &[("TILE.min(self.rows - row - n * TILE)", "TILE")],
    ),
    m(
        "gemm-edge-rows",
        DOTS,
        "block",
        "tail: the last row of an edge tile is left out",
        &[(
            "TILE.min(self.rows - row - n * TILE)",
            "(if self.rows - row - n * TILE < TILE { self.rows - row - n * TILE - 1 } else { TILE })",
        )],
    ),
    m(
        "gemm-tail",
        DOTS,
        "steps",
        "tail: groups after whole steps are left out",
        &[("0..groups % STEPS", "0..groups & 0")],
    ),
    m(
        "gemm-one-start",
        DOTS,
        "one",
        "correction: sums do not start at minus 128 times the row's sum with one token",
        &[(
            "_mm512_sub_epi32(zero, _mm512_slli_epi32::<7>(sums))",
            "zero",
        )],
    ),
    m(
        "gemm-one-tail",
        DOTS,
        "one",
        "tail: groups after whole steps are left out with one token",
        &[("0..self.groups % STEPS", "0..self.groups & 0")],
    ),
    m(
        "gemm-one-edge-overwrites",
        DOTS,
        "one",
        "tail: an edge tile stores 16 rows with one token",
        &[("TILE.min(self.rows - row)", "TILE")],
    ),
    m(
        "gemm-one-partial",
        DOTS,
        "one",
        "the sums of every fourth group are left out",
        &[("_mm512_add_epi32(c, d)", "c")],
    ),
    m(
        "gemm-one-saturates",
        DOTS,
        "one",
        "pairs of products saturate in int16 with one token",
        &[(
            "_mm512_dpbusd_epi32(*acc, x, _mm512_loadu_si512(line.cast()))",
            "_mm512_add_epi32(*acc, _mm512_madd_epi16(_mm512_maddubs_epi16(x, _mm512_loadu_si512(line.cast())), _mm512_set1_epi16(1)))",
        )],
    ),
    m(
        "gemm-one-operands",
        DOTS,
        "one",
        "weights are taken as the unsigned side with one token",
        &[(
            "_mm512_dpbusd_epi32(*acc, x, _mm512_loadu_si512(line.cast()))",
            "_mm512_dpbusd_epi32(*acc, _mm512_loadu_si512(line.cast()), x)",
        )],
    ),
    m(
        "gemm-panel-tail",
        DOTS,
        "panels",
        "tail: the edge tile of a panel is left out with several blocks of tokens",
        &[(
            "(self.rows - row).div_ceil(TILE)",
            "((self.rows - row) / TILE).max(1)",
        )],
    ),
    m(
        "gemm-saturates",
        DOTS,
        "step",
        "pairs of products saturate in int16",
        &[(
            ADD_PRODUCTS,
            "*acc = _mm512_add_epi32(*acc, _mm512_madd_epi16(_mm512_maddubs_epi16(x, w), _mm512_set1_epi16(1)));",
        )],
    ),
    m(
        "gemm-operands",
        DOTS,
        "step",
        "weights are taken as the unsigned side",
        &[(ADD_PRODUCTS, "*acc = _mm512_dpbusd_epi32(*acc, w, x);")],
    ),
    m(
        "weighted-sum-tail",
        DOTS,
        "sum",
        "tail: channels after the last are written",
        &[(
            "(u32::from(u16::MAX) >> (TILE - channels)) as u16",
            "u16::MAX",
        )],
    ),
    m(
        "weighted-sum-edge",
        DOTS,
        "sum",
        "tail: the last channel is left out",
        &[(
            "(u32::from(u16::MAX) >> (TILE - channels)) as u16",
            "(u32::from(u16::MAX) >> (TILE - channels + 1)) as u16",
        )],
    ),
    m(
        "weighted-sum-high",
        DOTS,
        "sum",
        "correction: the high bytes of weights count half",
        &[(
            "_mm512_slli_epi32::<8>(high)",
            "_mm512_slli_epi32::<7>(high)",
        )],
    ),
    m(
        "weighted-sum-saturates",
        DOTS,
        "sum",
        "pairs of products with low bytes saturate in int16",
        &[(
            "_mm512_dpbusd_epi32(sums[0], low, v)",
            "_mm512_add_epi32(sums[0], _mm512_madd_epi16(_mm512_maddubs_epi16(low, v), _mm512_set1_epi16(1)))",
        )],
    ),
    m(
        "weighted-sum-halves",
        DOTS,
        "of",
        "high bytes of weights are those of a shift by 7",
        &[("_mm512_srli_epi16::<8>(w)", "_mm512_srli_epi16::<7>(w)")],
    ),
];
