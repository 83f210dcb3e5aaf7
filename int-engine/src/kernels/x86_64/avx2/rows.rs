//! Element-wise rows: quantisation, requantisation, the gated activation.
//!
//! 64-bit products come from `vpmuldq` and `vpmuludq` on even and odd lanes.
#![allow(unsafe_code)]
// Newer compilers take register-only intrinsics as safe inside a function with the feature.
#![allow(unused_unsafe)]

use crate::ops::dynq::Reciprocal;
use crate::ops::ratio::TokenScale;
use crate::ops::requantize::{self as requantize_op, Channels};
use crate::ops::swiglu as swiglu_op;
use crate::tables::SIGMOID;
use core::arch::x86_64::*;

pub(super) fn quantize(u: &[i32], m: u32, q: &mut [i8]) {
    assert_eq!(u.len(), q.len(), "one code per value");
    if m == 0 {
        q.fill(0);
        return;
    }
    let reciprocal = Reciprocal::new(m);
    let whole = u.len() - u.len() % 32;
    // SAFETY: AVX2 is present; the rows have one length, a multiple of 32.
    unsafe { quantize_32s(&u[..whole], reciprocal, &mut q[..whole]) }
    for (q, &u) in q[whole..].iter_mut().zip(&u[whole..]) {
        *q = reciprocal.quantize(u);
    }
}

/// # Safety
/// AVX2; `u` and `q` have one length, a multiple of 32.
#[target_feature(enable = "avx2")]
unsafe fn quantize_32s(u: &[i32], reciprocal: Reciprocal, q: &mut [i8]) {
    // SAFETY: each step reads 32 values at an offset below the common length and writes 32.
    unsafe {
        let left = _mm_cvtsi32_si128(reciprocal.left as i32);
        let right = _mm_cvtsi32_si128(reciprocal.right as i32);
        let r = _mm256_set1_epi64x(i64::from(reciprocal.r));
        let half = _mm256_set1_epi64x(1 << 46);
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        for at in (0..u.len()).step_by(32) {
            let mut v = [_mm256_setzero_si256(); 4];
            for (i, v) in v.iter_mut().enumerate() {
                let x = _mm256_loadu_si256(u.as_ptr().add(at + 8 * i).cast());
                let a = _mm256_srl_epi32(_mm256_sll_epi32(_mm256_abs_epi32(x), left), right);
                let even = _mm256_add_epi64(_mm256_mul_epu32(a, r), half);
                let odd = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64::<32>(a), r), half);
                // Bits 47 and up of each sum are the code, at most 127.
                let even = _mm256_srli_epi64::<47>(even);
                let odd = _mm256_slli_epi64::<32>(_mm256_srli_epi64::<47>(odd));
                *v = _mm256_sign_epi32(_mm256_or_si256(even, odd), x);
            }
            // Packing works within 128-bit halves; `order` puts the groups of four back in sequence.
            let packed = _mm256_packs_epi16(
                _mm256_packs_epi32(v[0], v[1]),
                _mm256_packs_epi32(v[2], v[3]),
            );
            let packed = _mm256_permutevar8x32_epi32(packed, order);
            _mm256_storeu_si256(q.as_mut_ptr().add(at).cast(), packed);
        }
    }
}

pub(super) fn requantize(row: &mut [i32], scale: Option<TokenScale>, channels: Channels<'_>) {
    let whole = row.len() - row.len() % 8;
    assert!(
        row.len() == channels.mult.len() && row.len() == channels.shift.len(),
        "one multiplier and shift per output"
    );
    let end = row.len();
    // SAFETY: AVX2 is present; row and constants have one length, a multiple of 8.
    unsafe { requantize_8s(&mut row[..whole], scale, channels.part(0..whole)) }
    requantize_op::requantize_row(&mut row[whole..], scale, channels.part(whole..end));
}

/// # Safety
/// AVX2; the row and the constants have one length, a multiple of 8.
#[target_feature(enable = "avx2")]
unsafe fn requantize_8s(row: &mut [i32], scale: Option<TokenScale>, channels: Channels<'_>) {
    // SAFETY: each step touches 8 elements at an offset below the common length.
    unsafe {
        let Channels {
            mult,
            shift,
            left,
            limit,
        } = channels;
        let left = _mm_cvtsi32_si128(left as i32);
        let token = scale.map(|s| _mm256_set1_epi32(s.mantissa));
        let te = _mm256_set1_epi32(scale.map_or(0, |s| s.exponent));
        let (zero, one) = (_mm256_setzero_si256(), _mm256_set1_epi32(1));
        let i31 = _mm256_set1_epi32(i32::MAX);
        let limit = _mm256_set1_epi32(limit);
        for at in (0..row.len()).step_by(8) {
            let mut a = _mm256_sll_epi32(_mm256_loadu_si256(row.as_ptr().add(at).cast()), left);
            if let Some(token) = token {
                a = srdhm(a, token);
            }
            a = srdhm(a, _mm256_loadu_si256(mult.as_ptr().add(at).cast()));
            let e = _mm256_add_epi32(
                _mm256_cvtepi8_epi32(_mm_loadl_epi64(shift.as_ptr().add(at).cast())),
                te,
            );
            // The rest is symmetric in the sign. Right by max(e, 0): |a| + 2^(e-1) < 2^32, and a count of
            // 32 or more gives 0, as |a| < 2^31 is below half of 2^32.
            let right = _mm256_max_epi32(e, zero);
            let half = _mm256_srli_epi32::<1>(_mm256_sllv_epi32(one, right));
            let mut m = _mm256_srlv_epi32(_mm256_add_epi32(_mm256_abs_epi32(a), half), right);
            // Left by max(-e, 0): fits int32 exactly if m <= floor((2^31 - 1) / 2^-e), else saturates.
            let up = _mm256_max_epi32(_mm256_sub_epi32(zero, e), zero);
            let over = _mm256_cmpgt_epi32(m, _mm256_srlv_epi32(i31, up));
            m = _mm256_blendv_epi8(_mm256_sllv_epi32(m, up), i31, over);
            let y = _mm256_sign_epi32(_mm256_min_epi32(m, limit), a);
            _mm256_storeu_si256(row.as_mut_ptr().add(at).cast(), y);
        }
    }
}

/// srdhm of eight pairs, none of them (-2^31, -2^31).
///
/// # Safety
/// AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn srdhm(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: register-only instructions of the enabled feature.
    unsafe {
        let half = _mm256_set1_epi64x(1 << 30);
        let even = _mm256_add_epi64(_mm256_mul_epi32(a, b), half);
        let odd = _mm256_add_epi64(
            _mm256_mul_epi32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b)),
            half,
        );
        // Bits 31 to 62 of each sum, moved to the low half of even lanes and the high half of odd ones.
        _mm256_blend_epi32::<0b1010_1010>(
            _mm256_srli_epi64::<31>(even),
            _mm256_slli_epi64::<1>(odd),
        )
    }
}

/// Eight unsigned products of 32-bit lanes, even lanes and odd lanes as 64-bit values.
///
/// # Safety
/// AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn products(a: __m256i, b: __m256i) -> [__m256i; 2] {
    // SAFETY: register-only instructions of the enabled feature.
    unsafe {
        [
            _mm256_mul_epu32(a, b),
            _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b)),
        ]
    }
}

/// As [`products`], signed.
///
/// # Safety
/// AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn signed_products(a: __m256i, b: __m256i) -> [__m256i; 2] {
    // SAFETY: register-only instructions of the enabled feature.
    unsafe {
        [
            _mm256_mul_epi32(a, b),
            _mm256_mul_epi32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b)),
        ]
    }
}

/// Eight 32-bit lanes from the low halves of even and odd 64-bit values.
///
/// # Safety
/// AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn interleave(even: __m256i, odd: __m256i) -> __m256i {
    // SAFETY: register-only instructions of the enabled feature.
    unsafe { _mm256_blend_epi32::<0b1010_1010>(even, _mm256_slli_epi64::<32>(odd)) }
}

pub(super) fn swiglu(g: &[i32], u: &[i32], h: &mut [i64]) -> u64 {
    assert!(
        g.len() == u.len() && g.len() == h.len(),
        "rows of one width"
    );
    let whole = g.len() - g.len() % 8;
    // SAFETY: AVX2 is present; the rows have one length, a multiple of 8.
    let m = unsafe { swiglu_8s(&g[..whole], &u[..whole], &mut h[..whole]) };
    m.max(swiglu_op::swiglu_row(
        &g[whole..],
        &u[whole..],
        &mut h[whole..],
    ))
}

/// # Safety
/// AVX2; the rows have one length, a multiple of 8.
#[target_feature(enable = "avx2")]
unsafe fn swiglu_8s(g: &[i32], u: &[i32], h: &mut [i64]) -> u64 {
    // SAFETY: each step touches 8 elements at an offset below the common length; gathered indices are clamped
    // to the table's last.
    unsafe {
        let one = _mm256_set1_epi32(1 << 24);
        let last = _mm256_set1_epi32(SIGMOID.len() as i32 - 1);
        let half = _mm256_set1_epi64x(1 << 23);
        let zero = _mm256_setzero_si256();
        let mut largest = zero;
        for at in (0..g.len()).step_by(8) {
            let gs = _mm256_loadu_si256(g.as_ptr().add(at).cast());
            let us = _mm256_loadu_si256(u.as_ptr().add(at).cast());
            let a = _mm256_abs_epi32(gs);
            let index = _mm256_srli_epi32::<6>(_mm256_add_epi32(a, _mm256_set1_epi32(32)));
            let table = SIGMOID.as_ptr().cast::<i32>();
            let sigmoid = _mm256_i32gather_epi32::<4>(table, _mm256_min_epi32(index, last));
            let sigmoid = _mm256_blendv_epi8(
                sigmoid,
                one,
                _mm256_cmpgt_epi32(a, _mm256_set1_epi32((1 << 16) - 1)),
            );
            let negative = _mm256_cmpgt_epi32(zero, gs);
            let sigmoid = _mm256_blendv_epi8(sigmoid, _mm256_sub_epi32(one, sigmoid), negative);
            // rdbpot rounds magnitudes half up: |g| * sigmoid <= 2^50, its quotient <= 2^26.
            let [even, odd] =
                products(a, sigmoid).map(|p| _mm256_srli_epi64::<24>(_mm256_add_epi64(p, half)));
            let silu = _mm256_sign_epi32(interleave(even, odd), gs);
            let [even, odd] = signed_products(silu, us);
            // Values 0 1 4 5 and 2 3 6 7, then in sequence.
            let (low, high) = (
                _mm256_unpacklo_epi64(even, odd),
                _mm256_unpackhi_epi64(even, odd),
            );
            _mm256_storeu_si256(
                h.as_mut_ptr().add(at).cast(),
                _mm256_permute2x128_si256::<0x20>(low, high),
            );
            _mm256_storeu_si256(
                h.as_mut_ptr().add(at + 4).cast(),
                _mm256_permute2x128_si256::<0x31>(low, high),
            );
            for m in products(_mm256_abs_epi32(silu), _mm256_abs_epi32(us)) {
                largest = _mm256_blendv_epi8(largest, m, _mm256_cmpgt_epi64(m, largest));
            }
        }
        let mut lanes = [0u64; 4];
        _mm256_storeu_si256(lanes.as_mut_ptr().cast(), largest);
        lanes.into_iter().fold(0, u64::max)
    }
}
