//! Scores and weights of attention: 16 scores or 32 weights a step, the last ones by masks.
#![allow(unsafe_code)]
// Register-only intrinsics are safe inside a function with the feature.
#![allow(unused_unsafe)]
// As in the parent.
#![allow(clippy::incompatible_msrv)]

use super::rows::{ODD, STEP, lanes, odd};
use crate::ops::attention::{Normalizer, QueryScale};
use crate::ops::fixed::bit_length;
use crate::tables::EXP2;
use core::arch::x86_64::*;

/// The largest magnitude of a score.
const LIMIT: i32 = (1 << 30) - 1;
/// Keys of a step of the weights.
const KEYS: usize = 32;

pub(super) fn log_scores(scale: QueryScale, dots: &mut [i32], mk: &[u16]) -> i32 {
    assert_eq!(dots.len(), mk.len(), "one scale per key");
    // The largest score that a query with this scale can have.
    let saturates = scale.log_score(256 * 127 * 127, 32767) == LIMIT;
    // SAFETY: `kernels` hands out the table only on a CPU with these features; both slices have one length.
    unsafe {
        if saturates {
            log_scores_16s::<true>(scale, dots, mk)
        } else {
            log_scores_16s::<false>(scale, dots, mk)
        }
    }
}

/// `SATURATES`: scores may exceed the limit.
///
/// # Safety
/// The features; the slices have one length.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn log_scores_16s<const SATURATES: bool>(
    scale: QueryScale,
    dots: &mut [i32],
    mk: &[u16],
) -> i32 {
    // SAFETY: a step's values in the mask lie within both slices.
    unsafe {
        let constants = ScoreConstants::new(scale);
        let mut top = _mm512_set1_epi32(i32::MIN);
        let whole = dots.len() - dots.len() % STEP;
        for at in (0..whole).step_by(STEP) {
            let (dots, mk) = (dots.as_mut_ptr().add(at), mk.as_ptr().add(at));
            let z = constants.scores::<SATURATES>(dots, mk, u16::MAX);
            top = _mm512_max_epi32(top, z);
        }
        if whole < dots.len() {
            let mask = lanes(dots.len() - whole);
            let (dots, mk) = (dots.as_mut_ptr().add(whole), mk.as_ptr().add(whole));
            let z = constants.scores::<SATURATES>(dots, mk, mask);
            top = _mm512_mask_max_epi32(top, mask, top, z);
        }
        _mm512_reduce_max_epi32(top)
    }
}

/// A query's scale in every lane.
#[derive(Clone, Copy)]
struct ScoreConstants {
    rm: __m512i,
    rs: __m512i,
    addend: __m512i,
}

impl ScoreConstants {
    /// # Safety
    /// The features.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn new(scale: QueryScale) -> Self {
        // SAFETY: register-only instructions of the enabled features.
        unsafe {
            Self {
                rm: _mm512_set1_epi64(scale.rm.into()),
                rs: _mm512_set1_epi64(scale.rs.into()),
                addend: _mm512_set1_epi64(1 << (scale.rs - 1)),
            }
        }
    }

    /// Scores in place of the dot products in the mask; returns them.
    ///
    /// # Safety
    /// The features; the values in the mask lie in memory.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn scores<const SATURATES: bool>(
        self,
        dots: *mut i32,
        mk: *const u16,
        mask: u16,
    ) -> __m512i {
        // SAFETY: the caller's.
        unsafe {
            let dot = _mm512_maskz_loadu_epi32(mask, dots);
            let mk = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, mk.cast()));
            // rdbpot of dot * mk by 10: with dot = 1024 * high + low, high * mk plus the half-up quotient of low * mk,
            // after one less for a negative product. |high| < 2^13, low < 2^10 and mk < 2^15 are int16 products, and the
            // upper halves of mk are zero. The quotient is below 2^27.
            let negative = _mm512_cmplt_epi32_mask(dot, _mm512_setzero_si512());
            let half =
                _mm512_mask_mov_epi32(_mm512_set1_epi32(512), negative, _mm512_set1_epi32(511));
            let low = _mm512_and_si512(dot, _mm512_set1_epi32(1023));
            let low = _mm512_srli_epi32::<10>(_mm512_dpwssd_epi32(half, low, mk));
            let a = _mm512_dpwssd_epi32(low, _mm512_srai_epi32::<10>(dot), mk);
            // Below 2^53 + 2^61.
            let even = _mm512_add_epi64(_mm512_mul_epi32(a, self.rm), self.addend);
            let odds = _mm512_add_epi64(_mm512_mul_epi32(odd(a), self.rm), self.addend);
            let mut even = _mm512_srav_epi64(even, self.rs);
            let mut odds = _mm512_srav_epi64(odds, self.rs);
            if SATURATES {
                let limit = _mm512_set1_epi64(LIMIT.into());
                let low_limit = _mm512_set1_epi64((-LIMIT).into());
                even = _mm512_max_epi64(_mm512_min_epi64(even, limit), low_limit);
                odds = _mm512_max_epi64(_mm512_min_epi64(odds, limit), low_limit);
            }
            // The low halves, those of odd lanes moved up.
            let z = _mm512_mask_shuffle_epi32::<0b10_10_00_00>(even, ODD, odds);
            _mm512_mask_storeu_epi32(dots, mask, z);
            z
        }
    }
}

pub(super) fn softmax_weights(z: &mut [i32], top: i32, mv: &[u16], w: &mut [u16]) -> Normalizer {
    assert!(
        z.len() == mv.len() && z.len() == w.len(),
        "one scale and weight per key"
    );
    // SAFETY: `kernels` hands out the table only on a CPU with these features; the slices have one length.
    unsafe {
        let normalizer = raw_weights_32s(z, top, mv, w);
        narrow_weights_32s(normalizer.c, mv, w);
        normalizer
    }
}

/// The lanes of a step that hold some of `left` keys.
#[inline(always)]
fn keys(left: usize) -> u32 {
    u32::MAX >> (KEYS - left.min(KEYS))
}

/// Weights in Q15 of scores whose largest is `top`.
///
/// # Safety
/// The features; the slices have one length.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn raw_weights_32s(z: &[i32], top: i32, mv: &[u16], w: &mut [u16]) -> Normalizer {
    // SAFETY: a step's keys in the mask lie within the slices.
    unsafe {
        let exponential = Exponential::new(top);
        let (sign, ones) = (_mm512_set1_epi16(i16::MIN), _mm512_set1_epi16(1));
        let (mut den, mut seen) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        let mut step = |at: usize, mask: u32| {
            let p = exponential.weights(z.as_ptr().add(at), mask);
            _mm512_mask_storeu_epi16(w.as_mut_ptr().add(at).cast(), mask, p);
            // p - 2^15 is an int16.
            den = _mm512_dpwssd_epi32(den, _mm512_xor_si512(p, sign), ones);
            // Bits 15 and up of the products; mv < 2^15.
            let mv = _mm512_maskz_loadu_epi16(mask, mv.as_ptr().add(at).cast());
            let high = _mm512_mulhi_epu16(p, _mm512_add_epi16(mv, mv));
            seen = _mm512_or_si512(seen, high);
        };
        let whole = z.len() - z.len() % KEYS;
        for at in (0..whole).step_by(KEYS) {
            step(at, u32::MAX);
        }
        if whole < z.len() {
            step(whole, keys(z.len() - whole));
        }
        // At most 2^30 in all.
        let lanes = z.len().next_multiple_of(KEYS) as u32;
        let seen = _mm512_reduce_or_epi32(seen) as u32;
        Normalizer {
            den: (_mm512_reduce_add_epi32(den) as u32).wrapping_add(lanes << 15),
            c: bit_length((seen | seen >> 16) & 0xFFFF),
        }
    }
}

/// 2^(-d/256) of the distances from the largest score.
#[derive(Clone, Copy)]
struct Exponential {
    /// EXP2, 64 entries each.
    table: [[__m512i; 2]; 4],
    top: __m512i,
    /// The order of packed quarters.
    order: __m512i,
}

impl Exponential {
    /// # Safety
    /// The features.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn new(top: i32) -> Self {
        // SAFETY: the table has eight registers of entries.
        unsafe {
            let mut table = [[_mm512_setzero_si512(); 2]; 4];
            for (i, entries) in table.as_flattened_mut().iter_mut().enumerate() {
                *entries = _mm512_loadu_si512(EXP2.as_ptr().add(i * KEYS).cast());
            }
            Self {
                table,
                top: _mm512_set1_epi32(top),
                order: _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
            }
        }
    }

    /// The weights, at most 2^15, of the scores in the mask; 0 in the other lanes.
    ///
    /// # Safety
    /// The features; the scores in the mask lie in memory.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn weights(self, z: *const i32, mask: u32) -> __m512i {
        // SAFETY: the caller's.
        unsafe {
            let [low, high] = [mask as u16, (mask >> 16) as u16];
            let far = _mm512_set1_epi32(i32::MAX);
            let a = _mm512_maskz_loadu_epi32(low, z);
            let b = _mm512_maskz_loadu_epi32(high, z.wrapping_add(STEP));
            let a = _mm512_mask_sub_epi32(far, low, self.top, a);
            let b = _mm512_mask_sub_epi32(far, high, self.top, b);
            // Distances are below 2^31. Saturated to 16 bits, one of 2^16 or more still has n = 255, whose weight is 0.
            let d = _mm512_permutexvar_epi64(self.order, _mm512_packus_epi32(a, b));
            // Each lookup takes the six low bits; bits 6 and 7 choose among the four.
            let [e0, e1, e2, e3] = self
                .table
                .map(|[low, high]| _mm512_permutex2var_epi16(low, d, high));
            let bit_6 = _mm512_test_epi16_mask(d, _mm512_set1_epi16(1 << 6));
            let bit_7 = _mm512_test_epi16_mask(d, _mm512_set1_epi16(1 << 7));
            let e = _mm512_mask_blend_epi16(
                bit_7,
                _mm512_mask_blend_epi16(bit_6, e0, e1),
                _mm512_mask_blend_epi16(bit_6, e2, e3),
            );
            // Half up: the mean with 0 of e >> (n - 1), which is 0 for n > 16; e itself for n = 0.
            let n = _mm512_srli_epi16::<8>(d);
            let shifted = _mm512_srlv_epi16(e, _mm512_sub_epi16(n, _mm512_set1_epi16(1)));
            let some = _mm512_test_epi16_mask(d, _mm512_set1_epi16(!0xFF));
            _mm512_mask_avg_epu16(e, some, shifted, _mm512_setzero_si512())
        }
    }
}

/// The products of weights in Q15 and value scales, below 2^(15 + c), shifted right by c, half up: at most 2^15.
///
/// # Safety
/// The features; the slices have one length.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn narrow_weights_32s(c: u32, mv: &[u16], w: &mut [u16]) {
    // SAFETY: a step's keys in the mask lie within the slices.
    unsafe {
        // By c - 1, which leaves 16 bits, and then the mean with 0; for c = 0 the product itself.
        let rounded = if c > 0 { u32::MAX } else { 0 };
        let right = _mm512_set1_epi16(c.saturating_sub(1) as i16);
        let left = _mm512_sub_epi16(_mm512_set1_epi16(16), right);
        let step = |mv: *const u16, w: *mut u16, mask: u32| {
            let p = _mm512_maskz_loadu_epi16(mask, w.cast());
            let mv = _mm512_maskz_loadu_epi16(mask, mv.cast());
            let low = _mm512_srlv_epi16(_mm512_mullo_epi16(p, mv), right);
            let high = _mm512_sllv_epi16(_mm512_mulhi_epu16(p, mv), left);
            let x = _mm512_or_si512(low, high);
            let x = _mm512_mask_avg_epu16(x, rounded, x, _mm512_setzero_si512());
            _mm512_mask_storeu_epi16(w.cast(), mask, x);
        };
        let (mv_end, w_end) = (mv.as_ptr(), w.as_mut_ptr());
        let whole = w.len() - w.len() % KEYS;
        for at in (0..whole).step_by(KEYS) {
            step(mv_end.add(at), w_end.add(at), u32::MAX);
        }
        if whole < w.len() {
            step(mv_end.add(whole), w_end.add(whole), keys(w.len() - whole));
        }
    }
}
