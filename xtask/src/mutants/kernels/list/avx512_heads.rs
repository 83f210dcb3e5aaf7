//! The kernels of AVX-512 for the heads of queries and keys.

use super::{Mutant, m};

const HEADS: &str = "kernels/x86_64/avx512/heads.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    m(
        "head-norm-sum",
        HEADS,
        "head_unit",
        "squares of odd channels are those of even ones",
        &[("_mm512_mul_epu32(b, b)", "_mm512_mul_epu32(a, a)")],
    ),
    m(
        "head-norm-half",
        HEADS,
        "normalize",
        "the gain's product is not rounded",
        &[("_mm512_set1_epi64(1 << 44)", "_mm512_set1_epi64(0)")],
    ),
    m(
        "head-norm-sign",
        HEADS,
        "normalize",
        "correction: the signs of gains are left out",
        &[("_mm512_xor_si512(*x, gain)", "*x")],
    ),
    m(
        "head-norm-odd",
        HEADS,
        "normalize",
        "gains of odd channels are those of even ones",
        &[("(odd(v), odd(g))", "(odd(v), g)")],
    ),
    m(
        "rope-tie",
        HEADS,
        "turned_16",
        "tie: halves of negative sums go towards zero",
        &[(
            "_mm512_mask_sub_epi32(v, negative, v, _mm512_set1_epi32(1))",
            "v",
        )],
    ),
    m(
        "rope-saturates",
        HEADS,
        "turned_16",
        "correction: a turned value above int16 stays",
        &[("_mm512_min_epi32(v, _mm512_set1_epi32(I16))", "v")],
    ),
    m(
        "rope-wide-tie",
        HEADS,
        "rounded",
        "tie: halves of negative sums go towards zero, without gains",
        &[(
            "_mm512_add_epi64(_mm512_add_epi64(v, half), _mm512_srai_epi64::<63>(v))",
            "_mm512_add_epi64(v, half)",
        )],
    ),
    m(
        "rope-wide-odd",
        HEADS,
        "turn",
        "angles of odd channels are those of even ones, without gains",
        &[(
            "_mm512_mul_epi32(x[1], c[1])",
            "_mm512_mul_epi32(x[1], c[0])",
        )],
    ),
    m(
        "rotation-last",
        HEADS,
        "walsh_hadamard",
        "the last stride of 128 channels is left out",
        &[("N == 8", "N == 16")],
    ),
    m(
        "rotation-tie",
        HEADS,
        "quantize",
        "tie: halves after the rotation go towards zero",
        &[(
            "((1u32 << shift) >> 1) as i32",
            "(((1u32 << shift) >> 1) as i32 - 1)",
        )],
    ),
    m(
        "rotation-saturates",
        HEADS,
        "quantize",
        "correction: a rotated value above int16 stays",
        &[("_mm512_min_epu32(a, limit)", "a")],
    ),
    m(
        "codes-tie",
        HEADS,
        "quantize",
        "tie: halves of a code go towards zero",
        &[(
            "_mm512_set1_epi32(1 << (30 - left))",
            "_mm512_set1_epi32((1 << (30 - left)) - 1)",
        )],
    ),
    m(
        "codes-low",
        HEADS,
        "quantize",
        "the low half of the reciprocal is left out",
        &[("_mm512_add_epi32(_mm512_mulhi_epu16(m, low), half)", "half")],
    ),
    m(
        "codes-order",
        HEADS,
        "quantize",
        "codes are in the order of packed quarters",
        &[("_mm512_permutexvar_epi32(order, packed)", "packed")],
    ),
    m(
        "codes-of-zeros",
        HEADS,
        "quantize",
        "correction: a row of zeros divides by its largest magnitude",
        &[("largest.max(1)", "largest")],
    ),
    m(
        "heads-together",
        HEADS,
        "rotate_16s",
        "tail: every run of heads takes the norms of its first",
        &[(
            "head_unit::<N>(head.as_ptr())",
            "head_unit::<N>(row.as_ptr())",
        )],
    ),
];
