//! Rows: quantisation, requantisation, the gated activation and rotations, 16 values at a time; the last ones by
//! masks.
//!
//! 64-bit products come from `vpmuldq` and `vpmuludq` on even and odd lanes.
#![allow(unsafe_code)]
// Register-only intrinsics are safe inside a function with the feature.
#![allow(unused_unsafe)]
// As in the parent.
#![allow(clippy::incompatible_msrv)]

use crate::ops::dynq::Reciprocal;
use crate::ops::hadamard;
use crate::ops::proven::ROTATION;
use crate::ops::ratio::TokenScale;
use crate::ops::requantize::Channels;
use crate::tables::SIGMOID;
use core::arch::x86_64::*;

/// Values of a step.
pub(super) const STEP: usize = 16;
/// Odd lanes of 32 bits.
pub(super) const ODD: u16 = 0xAAAA;

/// The lanes of a step that hold some of `left` values.
#[inline(always)]
pub(in super::super) fn lanes(left: usize) -> u16 {
    (u32::from(u16::MAX) >> (STEP - left.min(STEP))) as u16
}

/// The odd lanes of 32 bits in the place of the even ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn odd(a: __m512i) -> __m512i {
    // SAFETY: register-only instructions of the enabled features.
    unsafe { _mm512_shuffle_epi32::<0b11_11_01_01>(a) }
}

/// `-a` in the lanes of the mask.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn negated(mask: u16, a: __m512i) -> __m512i {
    // SAFETY: register-only instructions of the enabled features.
    unsafe { _mm512_mask_sub_epi32(a, mask, _mm512_setzero_si512(), a) }
}

pub(super) fn quantize(u: &[i32], m: u32, q: &mut [i8]) {
    assert_eq!(u.len(), q.len(), "one code per value");
    if m == 0 {
        q.fill(0);
        return;
    }
    // SAFETY: `kernels` hands out the table only on a CPU with these features; the rows have one length.
    unsafe { quantize_16s(u, Reciprocal::new(m), q) }
}

/// # Safety
/// The features; `u` and `q` have one length.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn quantize_16s(u: &[i32], reciprocal: Reciprocal, q: &mut [i8]) {
    // SAFETY: loads and stores are masked to the rows.
    unsafe {
        let left = _mm_cvtsi32_si128(reciprocal.left as i32);
        let right = _mm_cvtsi32_si128(reciprocal.right as i32);
        let r = _mm512_set1_epi64(i64::from(reciprocal.r));
        let half = _mm512_set1_epi64(1 << 46);
        for at in (0..u.len()).step_by(STEP) {
            let mask = lanes(u.len() - at);
            let x = _mm512_maskz_loadu_epi32(mask, u.as_ptr().add(at));
            let a = _mm512_srl_epi32(_mm512_sll_epi32(_mm512_abs_epi32(x), left), right);
            let even = _mm512_add_epi64(_mm512_mul_epu32(a, r), half);
            let odds = _mm512_add_epi64(_mm512_mul_epu32(odd(a), r), half);
            // Bits 47 and up of each sum are the code, at most 127; odd ones go to the high half of their lanes.
            let code = _mm512_mask_blend_epi32(
                ODD,
                _mm512_srli_epi64::<47>(even),
                _mm512_srli_epi64::<15>(odds),
            );
            let code = _mm512_cvtepi32_epi8(negated(_mm512_movepi32_mask(x), code));
            _mm_mask_storeu_epi8(q.as_mut_ptr().add(at), mask, code);
        }
    }
}

pub(super) fn requantize(row: &mut [i32], scale: Option<TokenScale>, channels: Channels<'_>) {
    assert!(
        row.len() == channels.mult.len() && row.len() == channels.shift.len(),
        "one multiplier and shift per output"
    );
    // SAFETY: `kernels` hands out the table only on a CPU with these features; row and constants have one length.
    unsafe {
        match scale {
            Some(scale) => requantize_16s::<true>(row, scale, channels),
            None => requantize_16s::<false>(row, TokenScale::default(), channels),
        }
    }
}

/// The constants that requantise 16 outputs, a lane each.
#[derive(Clone, Copy)]
pub(in super::super) struct Constants {
    mult: __m512i,
    /// Its odd lanes in the even ones.
    mult_odd: __m512i,
    shift: __m512i,
}

impl Constants {
    /// Those of the lanes in the mask, of the outputs from `at` on.
    ///
    /// # Safety
    /// The features; the channels have the outputs of the mask.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    pub(in super::super) unsafe fn load(channels: Channels<'_>, at: usize, mask: u16) -> Self {
        // SAFETY: loads are masked to the outputs that there are.
        unsafe {
            let mult = _mm512_maskz_loadu_epi32(mask, channels.mult.as_ptr().add(at));
            let shift = _mm_maskz_loadu_epi8(mask, channels.shift.as_ptr().add(at));
            Self {
                mult,
                mult_odd: odd(mult),
                shift: _mm512_cvtepi8_epi32(shift),
            }
        }
    }
}

/// What requantises every output of a token.
#[derive(Clone, Copy)]
pub(in super::super) struct Requantizer {
    left: __m128i,
    mantissa: __m512i,
    exponent: __m512i,
    limit: __m512i,
}

impl Requantizer {
    /// # Safety
    /// The features.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    pub(in super::super) unsafe fn new(channels: Channels<'_>, scale: TokenScale) -> Self {
        // SAFETY: register-only instructions of the enabled features.
        unsafe {
            Self {
                left: _mm_cvtsi32_si128(channels.left as i32),
                mantissa: _mm512_set1_epi32(scale.mantissa),
                exponent: _mm512_set1_epi32(scale.exponent),
                limit: _mm512_set1_epi32(channels.limit),
            }
        }
    }

    /// Spec 1.8 of 16 accumulators. `SCALED`: with the token's scale; without, its exponent is 0.
    ///
    /// # Safety
    /// The features.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    pub(in super::super) unsafe fn outputs<const SCALED: bool>(
        self,
        acc: __m512i,
        constants: Constants,
    ) -> __m512i {
        // SAFETY: register-only instructions of the enabled features.
        unsafe {
            let (zero, one) = (_mm512_setzero_si512(), _mm512_set1_epi32(1));
            let mut a = _mm512_sll_epi32(acc, self.left);
            if SCALED {
                a = srdhm(a, self.mantissa, self.mantissa);
            }
            a = srdhm(a, constants.mult, constants.mult_odd);
            let e = _mm512_add_epi32(constants.shift, self.exponent);
            // The rest is symmetric in the sign. Right by max(e, 0), half away from zero: 2 |a| < 2^32 right by as much,
            // plus 1, right by 1; a count of 32 or more gives 0, as |a| < 2^31 is below half of 2^32.
            let right = _mm512_max_epi32(e, zero);
            let magnitude = _mm512_abs_epi32(a);
            let twice = _mm512_srlv_epi32(_mm512_add_epi32(magnitude, magnitude), right);
            let mut m = _mm512_srli_epi32::<1>(_mm512_add_epi32(twice, one));
            if _mm512_movepi32_mask(e) != 0 {
                // Left by max(-e, 0): fits int32 exactly if m <= floor((2^31 - 1) / 2^-e), else saturates.
                let i31 = _mm512_set1_epi32(i32::MAX);
                let up = _mm512_max_epi32(_mm512_sub_epi32(zero, e), zero);
                let over = _mm512_cmpgt_epi32_mask(m, _mm512_srlv_epi32(i31, up));
                m = _mm512_mask_mov_epi32(_mm512_sllv_epi32(m, up), over, i31);
            }
            negated(_mm512_movepi32_mask(a), _mm512_min_epi32(m, self.limit))
        }
    }
}

/// `SCALED`: with the token's scale.
///
/// # Safety
/// The features; the row and the constants have one length.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn requantize_16s<const SCALED: bool>(
    row: &mut [i32],
    scale: TokenScale,
    channels: Channels<'_>,
) {
    // SAFETY: loads and stores are masked to the row and the constants of its length.
    unsafe {
        let requantizer = Requantizer::new(channels, scale);
        for at in (0..row.len()).step_by(STEP) {
            let mask = lanes(row.len() - at);
            let acc = _mm512_maskz_loadu_epi32(mask, row.as_ptr().add(at));
            let constants = Constants::load(channels, at, mask);
            let y = requantizer.outputs::<SCALED>(acc, constants);
            _mm512_mask_storeu_epi32(row.as_mut_ptr().add(at), mask, y);
        }
    }
}

/// srdhm of 16 pairs, none of them (-2^31, -2^31); `b_odd` holds the odd lanes of b in the even ones.
///
/// # Safety
/// The features.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn srdhm(a: __m512i, b: __m512i, b_odd: __m512i) -> __m512i {
    // SAFETY: register-only instructions of the enabled features.
    unsafe {
        let half = _mm512_set1_epi64(1 << 30);
        let even = _mm512_add_epi64(_mm512_mul_epi32(a, b), half);
        let odds = _mm512_add_epi64(_mm512_mul_epi32(odd(a), b_odd), half);
        // Bits 31 to 62 of each sum, moved to the low half of even lanes and the high half of odd ones.
        _mm512_mask_blend_epi32(
            ODD,
            _mm512_srli_epi64::<31>(even),
            _mm512_slli_epi64::<1>(odds),
        )
    }
}

pub(super) fn swiglu(g: &[i32], u: &[i32], h: &mut [i64]) -> u64 {
    assert!(
        g.len() == u.len() && g.len() == h.len(),
        "rows of one width"
    );
    // SAFETY: `kernels` hands out the table only on a CPU with these features; the rows have one length.
    unsafe { swiglu_16s(g, u, h) }
}

/// # Safety
/// The features; the rows have one length.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn swiglu_16s(g: &[i32], u: &[i32], h: &mut [i64]) -> u64 {
    // SAFETY: loads and stores are masked to the rows; gathered indices are clamped to the table's last.
    unsafe {
        let one = _mm512_set1_epi32(1 << 24);
        let last = _mm512_set1_epi32(SIGMOID.len() as i32 - 1);
        let half = _mm512_set1_epi64(1 << 23);
        let first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
        let second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
        let mut largest = _mm512_setzero_si512();
        for at in (0..g.len()).step_by(STEP) {
            let mask = lanes(g.len() - at);
            let gs = _mm512_maskz_loadu_epi32(mask, g.as_ptr().add(at));
            let us = _mm512_maskz_loadu_epi32(mask, u.as_ptr().add(at));
            let a = _mm512_abs_epi32(gs);
            let index = _mm512_srli_epi32::<6>(_mm512_add_epi32(a, _mm512_set1_epi32(32)));
            let index = _mm512_min_epi32(index, last);
            let sigmoid = _mm512_i32gather_epi32::<4>(index, SIGMOID.as_ptr().cast());
            let far = _mm512_cmpgt_epi32_mask(a, _mm512_set1_epi32((1 << 16) - 1));
            let sigmoid = _mm512_mask_mov_epi32(sigmoid, far, one);
            let negative = _mm512_movepi32_mask(gs);
            let sigmoid = _mm512_mask_sub_epi32(sigmoid, negative, one, sigmoid);
            // rdbpot rounds magnitudes half up: |g| * sigmoid <= 2^50, its quotient <= 2^26.
            let even = _mm512_add_epi64(_mm512_mul_epu32(a, sigmoid), half);
            let odds = _mm512_add_epi64(_mm512_mul_epu32(odd(a), odd(sigmoid)), half);
            let silu = _mm512_mask_blend_epi32(
                ODD,
                _mm512_srli_epi64::<24>(even),
                _mm512_slli_epi64::<8>(odds),
            );
            let silu = negated(negative, silu);
            let even = _mm512_mul_epi32(silu, us);
            let odds = _mm512_mul_epi32(odd(silu), odd(us));
            largest = _mm512_max_epu64(largest, _mm512_abs_epi64(even));
            largest = _mm512_max_epu64(largest, _mm512_abs_epi64(odds));
            let h = h.as_mut_ptr().add(at);
            let low = _mm512_permutex2var_epi64(even, first, odds);
            let high = _mm512_permutex2var_epi64(even, second, odds);
            _mm512_mask_storeu_epi64(h, mask as u8, low);
            _mm512_mask_storeu_epi64(h.wrapping_add(8), (mask >> 8) as u8, high);
        }
        _mm512_reduce_max_epu64(largest)
    }
}

pub(super) fn butterflies(x: &mut [i32], size: usize) {
    assert!(
        size.is_power_of_two() && x.len() % size == 0,
        "whole runs of a power of two"
    );
    if size < STEP {
        return hadamard::butterflies(x, size);
    }
    ROTATION.within_runs(x, size);
    // SAFETY: `kernels` hands out the table only on a CPU with these features; whole runs of at least 16.
    unsafe { butterflies_16s(x, size) }
}

/// # Safety
/// The features; `size` is a power of two, at least 16, and divides the length.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn butterflies_16s(x: &mut [i32], size: usize) {
    // SAFETY: each access is to 16 values of a run.
    unsafe {
        let mut half = STEP;
        if size < 4 * STEP {
            for run in x.chunks_exact_mut(STEP) {
                let run = run.as_mut_ptr().cast();
                _mm512_storeu_si512(run, strides_to_8(_mm512_loadu_si512(run)));
            }
        } else {
            for run in x.chunks_exact_mut(4 * STEP) {
                let run: *mut __m512i = run.as_mut_ptr().cast();
                let mut v = [_mm512_setzero_si512(); 4];
                for (i, v) in v.iter_mut().enumerate() {
                    *v = strides_to_8(_mm512_loadu_si512(run.add(i)));
                }
                for (i, v) in two_strides(v).into_iter().enumerate() {
                    _mm512_storeu_si512(run.add(i), v);
                }
            }
            half = 4 * STEP;
        }
        while 4 * half <= size {
            for run in x.chunks_exact_mut(4 * half) {
                let run = run.as_mut_ptr();
                for at in (0..half).step_by(STEP) {
                    let mut v = [_mm512_setzero_si512(); 4];
                    for (i, v) in v.iter_mut().enumerate() {
                        *v = _mm512_loadu_si512(run.add(i * half + at).cast());
                    }
                    for (i, v) in two_strides(v).into_iter().enumerate() {
                        _mm512_storeu_si512(run.add(i * half + at).cast(), v);
                    }
                }
            }
            half *= 4;
        }
        if 2 * half <= size {
            for run in x.chunks_exact_mut(2 * half) {
                let run = run.as_mut_ptr();
                for at in (0..half).step_by(STEP) {
                    let (a, b) = (run.add(at).cast(), run.add(half + at).cast());
                    let (low, high) = (_mm512_loadu_si512(a), _mm512_loadu_si512(b));
                    _mm512_storeu_si512(a, _mm512_add_epi32(low, high));
                    _mm512_storeu_si512(b, _mm512_sub_epi32(low, high));
                }
            }
        }
    }
}

/// The strides 1, 2, 4 and 8 of one register.
///
/// # Safety
/// The features.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn strides_to_8(x: __m512i) -> __m512i {
    // SAFETY: register-only instructions of the enabled features.
    unsafe {
        let y = _mm512_shuffle_epi32::<0b10_11_00_01>(x);
        let x = _mm512_mask_sub_epi32(_mm512_add_epi32(y, x), 0xAAAA, y, x);
        let y = _mm512_shuffle_epi32::<0b01_00_11_10>(x);
        let x = _mm512_mask_sub_epi32(_mm512_add_epi32(y, x), 0xCCCC, y, x);
        let y = _mm512_shuffle_i64x2::<0b10_11_00_01>(x, x);
        let x = _mm512_mask_sub_epi32(_mm512_add_epi32(y, x), 0xF0F0, y, x);
        let y = _mm512_shuffle_i64x2::<0b01_00_11_10>(x, x);
        _mm512_mask_sub_epi32(_mm512_add_epi32(y, x), 0xFF00, y, x)
    }
}

/// Two strides, the second twice the first, of four registers.
///
/// # Safety
/// The features.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn two_strides([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    // SAFETY: register-only instructions of the enabled features.
    unsafe {
        let (s, t) = (_mm512_add_epi32(a, b), _mm512_sub_epi32(a, b));
        let (u, v) = (_mm512_add_epi32(c, d), _mm512_sub_epi32(c, d));
        [
            _mm512_add_epi32(s, u),
            _mm512_add_epi32(t, v),
            _mm512_sub_epi32(s, u),
            _mm512_sub_epi32(t, v),
        ]
    }
}
