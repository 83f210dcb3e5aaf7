//! The kernels of AVX-512 with VNNI.

use super::{Mutant, m};

const DOTS: &str = "kernels/x86_64/avx512/dots.rs";
const ROWS: &str = "kernels/x86_64/avx512/rows.rs";
const SOFTMAX: &str = "kernels/x86_64/avx512/softmax.rs";
const SUMS: &str = "kernels/x86_64/avx512/sums.rs";

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
        "gemm-few-start",
        DOTS,
        "few",
        "correction: sums do not start at minus 128 times the row's sum with few tokens",
        &[(
            "_mm512_sub_epi32(zero, _mm512_slli_epi32::<7>(sums))",
            "zero",
        )],
    ),
    m(
        "gemm-few-tail",
        DOTS,
        "few",
        "tail: groups after whole steps are left out with few tokens",
        &[("0..self.groups % STEPS", "0..self.groups & 0")],
    ),
    m(
        "gemm-few-edge-overwrites",
        DOTS,
        "few",
        "tail: an edge tile stores 16 rows with few tokens",
        &[("TILE.min(self.rows - row)", "TILE")],
    ),
    m(
        "gemm-few-partial",
        DOTS,
        "few",
        "the sums of every fourth group are left out",
        &[("_mm512_add_epi32(c, d)", "c")],
    ),
    m(
        "gemm-few-inputs",
        DOTS,
        "add_line",
        "each of few tokens has the inputs of the first",
        &[("x.add(m * GROUP)", "x.add(0 * m * GROUP)")],
    ),
    m(
        "gemm-few-outputs",
        DOTS,
        "few",
        "the sums of each of few tokens go where the first's belong",
        &[(
            "self.out.add(m * self.stride + row)",
            "self.out.add(0 * m + row)",
        )],
    ),
    m(
        "gemm-few-saturates",
        DOTS,
        "add_line",
        "pairs of products saturate in int16 with few tokens",
        &[(
            "_mm512_dpbusd_epi32(*acc, x, w)",
            "_mm512_add_epi32(*acc, _mm512_madd_epi16(_mm512_maddubs_epi16(x, w), _mm512_set1_epi16(1)))",
        )],
    ),
    m(
        "gemm-few-operands",
        DOTS,
        "add_line",
        "weights are taken as the unsigned side with few tokens",
        &[(
            "_mm512_dpbusd_epi32(*acc, x, w)",
            "_mm512_dpbusd_epi32(*acc, w, x)",
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
        SUMS,
        "sum",
        "tail: channels after the last are written",
        &[(
            "(u32::from(u16::MAX) >> (TILE - channels)) as u16",
            "u16::MAX",
        )],
    ),
    m(
        "weighted-sum-edge",
        SUMS,
        "sum",
        "tail: the last channel is left out",
        &[(
            "(u32::from(u16::MAX) >> (TILE - channels)) as u16",
            "(u32::from(u16::MAX) >> (TILE - channels + 1)) as u16",
        )],
    ),
    m(
        "weighted-sum-high",
        SUMS,
        "sum",
        "correction: the high bytes of weights count half",
        &[(
            "_mm512_slli_epi32::<8>(high)",
            "_mm512_slli_epi32::<7>(high)",
        )],
    ),
    m(
        "weighted-sum-saturates",
        SUMS,
        "sum",
        "pairs of products with low bytes saturate in int16",
        &[(
            "_mm512_dpbusd_epi32(sums[0], low, v)",
            "_mm512_add_epi32(sums[0], _mm512_madd_epi16(_mm512_maddubs_epi16(low, v), _mm512_set1_epi16(1)))",
        )],
    ),
    m(
        "weighted-sum-carry",
        SUMS,
        "sum",
        "the sums of the pages before are lost",
        &[(
            "_mm512_add_epi64(old, _mm512_cvtepi32_epi64(part))",
            "_mm512_cvtepi32_epi64(part)",
        )],
    ),
    m(
        "weighted-sum-second",
        SUMS,
        "rows",
        "tail: the second of two rows has no weights",
        &[("w.chunks_exact(keys)", "w[..keys].chunks_exact(keys)")],
    ),
    m(
        "weighted-sum-halves",
        SUMS,
        "split",
        "high bytes of weights are those of a shift by 7",
        &[("_mm512_srli_epi16::<8>(w)", "_mm512_srli_epi16::<7>(w)")],
    ),
    m(
        "weighted-sum-mask",
        SUMS,
        "split",
        "tail: the last of the weights that are split together is left out",
        &[("(1u64 << w.len()) - 1", "((1u64 << w.len()) - 1) >> 1")],
    ),
    m(
        "weighted-sum-rest",
        SUMS,
        "rows",
        "tail: keys after the last whole group are left out",
        &[("(end - first).div_ceil(GROUP)", "(end - first) / GROUP")],
    ),
    m(
        "weighted-sum-pages",
        SUMS,
        "rows",
        "each page of values meets the weights of the first",
        &[("&w[first..end]", "&w[..end - first]")],
    ),
    m(
        "quantize-tie",
        ROWS,
        "quantize_16s",
        "tie: halves go towards zero",
        &[(
            "_mm512_set1_epi64(1 << 46)",
            "_mm512_set1_epi64((1 << 46) - 1)",
        )],
    ),
    m(
        "quantize-odd",
        ROWS,
        "quantize_16s",
        "codes of odd values are those of even ones",
        &[("_mm512_mul_epu32(odd(a), r)", "_mm512_mul_epu32(a, r)")],
    ),
    m(
        "requantize-tie",
        ROWS,
        "outputs",
        "tie: halves go towards zero",
        &[("_mm512_add_epi32(twice, one)", "twice")],
    ),
    m(
        "requantize-left",
        ROWS,
        "outputs",
        "a shift to the left wraps instead of saturating",
        &[(
            "_mm512_mask_mov_epi32(_mm512_sllv_epi32(m, up), over, i31)",
            "_mm512_sllv_epi32(m, up)",
        )],
    ),
    m(
        "requantize-tail",
        ROWS,
        "requantize_16s",
        "tail: values after whole steps are left out",
        &[("0..row.len()", "0..row.len() / STEP * STEP")],
    ),
    m(
        "srdhm-tie",
        ROWS,
        "srdhm",
        "tie: halves go towards minus infinity",
        &[(
            "_mm512_set1_epi64(1 << 30)",
            "_mm512_set1_epi64((1 << 30) - 1)",
        )],
    ),
    m(
        "swiglu-tie",
        ROWS,
        "swiglu_16s",
        "tie: halves go towards zero",
        &[(
            "_mm512_set1_epi64(1 << 23)",
            "_mm512_set1_epi64((1 << 23) - 1)",
        )],
    ),
    m(
        "swiglu-far",
        ROWS,
        "swiglu_16s",
        "correction: the sigmoid of a far gate is the table's last",
        &[("_mm512_mask_mov_epi32(sigmoid, far, one)", "sigmoid")],
    ),
    m(
        "butterflies-signs",
        ROWS,
        "strides_to_8",
        "two differences of the stride 8 have the other sign",
        &[(
            "_mm512_mask_sub_epi32(_mm512_add_epi32(y, x), 0xFF00, y, x)",
            "_mm512_mask_sub_epi32(_mm512_add_epi32(y, x), 0xFF00, x, y)",
        )],
    ),
    m(
        "butterflies-strides",
        ROWS,
        "two_strides",
        "two outputs of four registers are swapped",
        &[
            ("_mm512_add_epi32(t, v)", "_mm512_sub_epi32(s, u)"),
            ("_mm512_sub_epi32(s, u)", "_mm512_add_epi32(t, v)"),
        ],
    ),
    m(
        "butterflies-last",
        ROWS,
        "butterflies_16s",
        "tail: a last single stride is left out",
        &[("2 * half <= size", "false")],
    ),
    m(
        "score-tie",
        SOFTMAX,
        "ScoreConstants::new",
        "tie: halves go towards minus infinity",
        &[("1 << (scale.rs - 1)", "(1i64 << (scale.rs - 1)) - 1")],
    ),
    m(
        "score-product-tie",
        SOFTMAX,
        "scores",
        "tie: halves of a negative product with a key's scale go towards zero",
        &[("_mm512_set1_epi32(511)", "_mm512_set1_epi32(512)")],
    ),
    m(
        "score-product-half",
        SOFTMAX,
        "scores",
        "tie: halves of a product with a key's scale go towards zero",
        &[("_mm512_set1_epi32(512)", "_mm512_set1_epi32(511)")],
    ),
    m(
        "score-saturates",
        SOFTMAX,
        "log_scores",
        "correction: a score beyond the limit wraps",
        &[(
            "scale.log_score(256 * 127 * 127, 32767) == LIMIT",
            "scale.log_score(256 * 127 * 127, 32767) > LIMIT",
        )],
    ),
    m(
        "score-odd",
        SOFTMAX,
        "scores",
        "scores of odd keys are those of even ones",
        &[(
            "_mm512_mul_epi32(odd(a), self.rm)",
            "_mm512_mul_epi32(a, self.rm)",
        )],
    ),
    m(
        "score-tail",
        SOFTMAX,
        "log_scores_16s",
        "tail: scores after the last key take part in the largest",
        &[(
            "_mm512_mask_max_epi32(top, mask, top, z)",
            "_mm512_max_epi32(top, z)",
        )],
    ),
    m(
        "exp2-tie",
        SOFTMAX,
        "weights",
        "no rounding of the exponential's shift",
        &[(
            "_mm512_mask_avg_epu16(e, some, shifted, _mm512_setzero_si512())",
            "_mm512_srlv_epi16(e, n)",
        )],
    ),
    m(
        "exp2-first",
        SOFTMAX,
        "weights",
        "correction: a distance below 256 is rounded too",
        &[(
            "_mm512_mask_avg_epu16(e, some, shifted, _mm512_setzero_si512())",
            "_mm512_avg_epu16(shifted, _mm512_setzero_si512())",
        )],
    ),
    m(
        "exp2-quarters",
        SOFTMAX,
        "weights",
        "the second and the third quarter of the table are swapped",
        &[
            (
                "_mm512_mask_blend_epi16(bit_6, e0, e1)",
                "_mm512_mask_blend_epi16(bit_6, e0, e2)",
            ),
            (
                "_mm512_mask_blend_epi16(bit_6, e2, e3)",
                "_mm512_mask_blend_epi16(bit_6, e1, e3)",
            ),
        ],
    ),
    m(
        "exp2-wraps",
        SOFTMAX,
        "weights",
        "distances are taken modulo 2^16",
        &[(
            "_mm512_packus_epi32(a, b)",
            "_mm512_packus_epi32(_mm512_and_si512(a, _mm512_set1_epi32(0xFFFF)), _mm512_and_si512(b, _mm512_set1_epi32(0xFFFF)))",
        )],
    ),
    m(
        "exp2-order",
        SOFTMAX,
        "Exponential::new",
        "weights are in the order of packed quarters",
        &[(
            "_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7)",
            "_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7)",
        )],
    ),
    m(
        "den-tail",
        SOFTMAX,
        "raw_weights_32s",
        "tail: lanes after the last key count in the sum of weights",
        &[("z.len().next_multiple_of(KEYS)", "z.len()")],
    ),
    m(
        "largest-weight",
        SOFTMAX,
        "raw_weights_32s",
        "the shift of the weights is that of even keys",
        &[("(seen | seen >> 16) & 0xFFFF", "seen & 0xFFFF")],
    ),
    m(
        "narrow-weights-tie",
        SOFTMAX,
        "narrow_weights_32s",
        "tie: halves go towards zero",
        &[(
            "_mm512_mask_avg_epu16(x, rounded, x, _mm512_setzero_si512())",
            "_mm512_srlv_epi16(x, _mm512_set1_epi16(c.min(1) as i16))",
        )],
    ),
    m(
        "narrow-weights-none",
        SOFTMAX,
        "narrow_weights_32s",
        "correction: products that need no shift are halved",
        &[("if c > 0 { u32::MAX } else { 0 }", "u32::MAX")],
    ),
    m(
        "narrow-weights-tail",
        SOFTMAX,
        "narrow_weights_32s",
        "tail: keys after whole steps are left out",
        &[("whole < w.len()", "false")],
    ),
];
