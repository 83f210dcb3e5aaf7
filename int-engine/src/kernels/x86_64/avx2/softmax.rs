//! Scores and weights of attention.
#![allow(unsafe_code)]
// Newer compilers take register-only intrinsics as safe inside a function with the feature.
#![allow(unused_unsafe)]

use super::rows::{interleave, products, signed_products};
use crate::ops::attention::{self, Normalizer, QueryScale};
use crate::tables::EXP2;
use core::arch::x86_64::*;

/// EXP2 as gathers take it.
static EXP2_WIDE: [i32; 256] = {
    let mut wide = [0; 256];
    let mut i = 0;
    while i < 256 {
        wide[i] = EXP2[i] as i32;
        i += 1;
    }
    wide
};

pub(super) fn log_scores(scale: QueryScale, dots: &mut [i32], mk: &[u16]) -> i32 {
    assert_eq!(dots.len(), mk.len(), "one scale per key");
    let whole = dots.len() - dots.len() % 8;
    let (head, tail) = dots.split_at_mut(whole);
    // SAFETY: AVX2 is present; both slices have one length, a multiple of 8.
    let top = unsafe { log_scores_8s(scale, head, &mk[..whole]) };
    top.max(scale.log_scores(tail, &mk[whole..]))
}

/// # Safety
/// AVX2; the slices have one length, a multiple of 8.
#[target_feature(enable = "avx2")]
unsafe fn log_scores_8s(scale: QueryScale, dots: &mut [i32], mk: &[u16]) -> i32 {
    // SAFETY: each step touches 8 elements at an offset below the common length.
    unsafe {
        let rm = _mm256_set1_epi32(scale.rm);
        let rs = _mm_cvtsi32_si128(scale.rs as i32);
        // The sum stays within 2^53 + 2^61 of zero, so 2^62 makes it non-negative, and leaves the quotient by
        // 2^rs, rs <= 62, larger by 2^(62 - rs) exactly.
        let addend = _mm256_set1_epi64x((1 << 62) + (1 << (scale.rs - 1)));
        let bias = _mm256_set1_epi64x(1 << (62 - scale.rs));
        let limit = _mm256_set1_epi64x((1 << 30) - 1);
        let low_limit = _mm256_set1_epi64x(-((1 << 30) - 1));
        let half = _mm256_set1_epi64x(1 << 9);
        let mut top = _mm256_set1_epi32(i32::MIN);
        for at in (0..dots.len()).step_by(8) {
            let dot = _mm256_loadu_si256(dots.as_ptr().add(at).cast());
            let mk = _mm256_cvtepu16_epi32(_mm_loadu_si128(mk.as_ptr().add(at).cast()));
            // rdbpot rounds magnitudes half up: |dot| * mk < 2^37, its quotient < 2^27.
            let [even, odd] = products(_mm256_abs_epi32(dot), mk)
                .map(|p| _mm256_srli_epi64::<10>(_mm256_add_epi64(p, half)));
            let a = _mm256_sign_epi32(interleave(even, odd), dot);
            let [even, odd] = signed_products(a, rm).map(|p| {
                let z = _mm256_sub_epi64(_mm256_srl_epi64(_mm256_add_epi64(p, addend), rs), bias);
                let z = _mm256_blendv_epi8(z, limit, _mm256_cmpgt_epi64(z, limit));
                _mm256_blendv_epi8(z, low_limit, _mm256_cmpgt_epi64(low_limit, z))
            });
            let z = interleave(even, odd);
            _mm256_storeu_si256(dots.as_mut_ptr().add(at).cast(), z);
            top = _mm256_max_epi32(top, z);
        }
        lanes(top).into_iter().fold(i32::MIN, i32::max)
    }
}

pub(super) fn softmax_weights(z: &mut [i32], top: i32, mv: &[u16], w: &mut [u16]) -> Normalizer {
    assert!(
        z.len() == mv.len() && z.len() == w.len(),
        "one scale and weight per key"
    );
    let whole = z.len() - z.len() % 8;
    // SAFETY: AVX2 is present; both slices have one length, a multiple of 8.
    let (den, largest) = unsafe { raw_weights_8s(&mut z[..whole], top, &mv[..whole]) };
    let (tail_den, tail_largest) = attention::raw_weights(&mut z[whole..], top, &mv[whole..]);
    let normalizer = Normalizer::new(den + tail_den, largest.max(tail_largest));
    // SAFETY: AVX2 is present; both slices have one length, a multiple of 8.
    unsafe { narrow_weights_8s(&z[..whole], normalizer.c, &mut w[..whole]) }
    attention::narrow_weights(&z[whole..], normalizer.c, &mut w[whole..]);
    normalizer
}

/// Products of weights and value scales in place of scores; returns the sum of weights and the largest product.
///
/// # Safety
/// AVX2; the slices have one length, a multiple of 8.
#[target_feature(enable = "avx2")]
unsafe fn raw_weights_8s(z: &mut [i32], top: i32, mv: &[u16]) -> (u32, i32) {
    // SAFETY: each step touches 8 elements at an offset below the common length; gathered indices are below 256.
    unsafe {
        let (top, one) = (_mm256_set1_epi32(top), _mm256_set1_epi32(1));
        let mut den = _mm256_setzero_si256();
        let mut largest = den;
        for at in (0..z.len()).step_by(8) {
            let d = _mm256_sub_epi32(top, _mm256_loadu_si256(z.as_ptr().add(at).cast()));
            let n = _mm256_srli_epi32::<8>(d);
            let index = _mm256_and_si256(d, _mm256_set1_epi32(255));
            let e = _mm256_i32gather_epi32::<4>(EXP2_WIDE.as_ptr(), index);
            // e <= 2^15, so every n >= 17 gives 0; counts of 32 and more shift everything out.
            let half = _mm256_srli_epi32::<1>(_mm256_sllv_epi32(one, n));
            let p = _mm256_srlv_epi32(_mm256_add_epi32(e, half), n);
            den = _mm256_add_epi32(den, p);
            let mv = _mm256_cvtepu16_epi32(_mm_loadu_si128(mv.as_ptr().add(at).cast()));
            let w = _mm256_mullo_epi32(p, mv);
            _mm256_storeu_si256(z.as_mut_ptr().add(at).cast(), w);
            largest = _mm256_max_epi32(largest, w);
        }
        (
            lanes(den).into_iter().sum::<i32>() as u32,
            lanes(largest).into_iter().fold(0, i32::max),
        )
    }
}

/// # Safety
/// AVX2; the slices have one length, a multiple of 8.
#[target_feature(enable = "avx2")]
unsafe fn narrow_weights_8s(z: &[i32], c: u32, w: &mut [u16]) {
    // SAFETY: each step touches 8 elements at an offset below the common length.
    unsafe {
        let half = _mm256_set1_epi32((1 << c) >> 1);
        let c = _mm_cvtsi32_si128(c as i32);
        for at in (0..z.len()).step_by(8) {
            let v = _mm256_add_epi32(_mm256_loadu_si256(z.as_ptr().add(at).cast()), half);
            let v = _mm256_srl_epi32(v, c);
            // At most 2^15, so the unsigned saturation never acts.
            let v = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            _mm_storeu_si128(w.as_mut_ptr().add(at).cast(), v);
        }
    }
}

/// # Safety
/// AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn lanes(v: __m256i) -> [i32; 8] {
    let mut lanes = [0; 8];
    // SAFETY: the array holds eight lanes.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), v) }
    lanes
}
