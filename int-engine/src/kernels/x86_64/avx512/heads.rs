//! Heads of 64 and of 128 channels in registers, from the projection to the codes.
#![allow(unsafe_code)]
// Register-only intrinsics are safe inside a function with the feature.
#![allow(unused_unsafe)]
// As in the parent.
#![allow(clippy::incompatible_msrv)]

use super::KERNELS;
use super::rows::{ODD, STEP, negated, odd, strides_to_8, two_strides};
use crate::kernels::heads;
use crate::ops::dynq::Reciprocal;
use crate::ops::fixed::I16;
use crate::ops::head_norm::HeadUnit;
use crate::ops::rms::alignment;
use crate::ops::rope::CosSin;
use crate::ops::rotation::HeadRotation;
use core::arch::x86_64::*;

/// Heads whose norms are computed together, before their rotations.
const TOGETHER: usize = 8;

pub(super) fn rotate_heads(
    row: &mut [i32],
    rotation: HeadRotation<'_>,
    codes: &mut [i8],
    largest: &mut [u16],
) {
    rotation.heads(row, codes, largest);
    let whole = rotation.hadamard.is_butterflies_of(rotation.channels());
    // SAFETY: `kernels` hands out the table only on a CPU with these features; the rows fit together, in heads of N
    // registers, and so do the gains.
    unsafe {
        match (rotation.channels(), rotation.gain.is_some()) {
            (64, false) if whole => rotate_16s::<4, false>(row, rotation, codes, largest),
            (64, true) if whole => rotate_16s::<4, true>(row, rotation, codes, largest),
            (128, false) if whole => rotate_16s::<8, false>(row, rotation, codes, largest),
            (128, true) if whole => rotate_16s::<8, true>(row, rotation, codes, largest),
            _ => heads::rotate_heads(&KERNELS, row, rotation, codes, largest),
        }
    }
}

/// `N` registers a head, N = 4 or 8; `NORM`: with gains.
///
/// # Safety
/// The features; the rows hold whole heads, as many as there are magnitudes; gains of a head with `NORM`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn rotate_16s<const N: usize, const NORM: bool>(
    row: &mut [i32],
    rotation: HeadRotation<'_>,
    codes: &mut [i8],
    largest: &mut [u16],
) {
    // SAFETY: the caller's.
    unsafe {
        let turns = Turns::<N, NORM>::new(rotation.angles);
        let gain = rotation.gain.map_or(core::ptr::null(), <[i32]>::as_ptr);
        let parts = row
            .chunks(TOGETHER * N * STEP)
            .zip(codes.chunks_mut(TOGETHER * N * STEP))
            .zip(largest.chunks_mut(TOGETHER));
        for ((row, codes), largest) in parts {
            let mut units = [HeadUnit::default(); TOGETHER];
            if NORM {
                for (head, unit) in row.chunks_exact(N * STEP).zip(&mut units) {
                    *unit = head_unit::<N>(head.as_ptr());
                }
            }
            let heads = row
                .chunks_exact(N * STEP)
                .zip(codes.chunks_exact_mut(N * STEP));
            for ((head, codes), (largest, unit)) in heads.zip(largest.iter_mut().zip(units)) {
                let mut x = [_mm512_setzero_si512(); N];
                for (i, x) in x.iter_mut().enumerate() {
                    *x = _mm512_loadu_si512(head.as_ptr().add(i * STEP).cast());
                }
                if NORM {
                    normalize(&mut x, unit, gain);
                }
                turns.turn(&mut x);
                walsh_hadamard(&mut x);
                *largest = quantize(x, rotation.shift, codes.as_mut_ptr());
            }
        }
    }
}

/// [`HeadUnit::of`] N registers in memory.
///
/// # Safety
/// The features; the registers lie in memory.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn head_unit<const N: usize>(head: *const i32) -> HeadUnit {
    // SAFETY: the caller's.
    unsafe {
        let mut a = [_mm512_setzero_si512(); N];
        let mut any = _mm512_setzero_si512();
        for (i, a) in a.iter_mut().enumerate() {
            *a = _mm512_abs_epi32(_mm512_loadu_si512(head.add(i * STEP).cast()));
            any = _mm512_or_si512(any, *a);
        }
        // The union of the bits of magnitudes is as long as the longest.
        let sh = alignment(_mm512_reduce_or_epi32(any) as u32);
        let (half, right) = (
            _mm512_set1_epi32(((1u32 << sh) >> 1) as i32),
            _mm512_set1_epi32(sh as i32),
        );
        let mut sums = [_mm512_setzero_si512(); 2];
        for a in a {
            let a = _mm512_srlv_epi32(_mm512_add_epi32(a, half), right);
            let b = odd(a);
            sums[0] = _mm512_add_epi64(sums[0], _mm512_mul_epu32(a, a));
            sums[1] = _mm512_add_epi64(sums[1], _mm512_mul_epu32(b, b));
        }
        let sum = _mm512_reduce_add_epi64(_mm512_add_epi64(sums[0], sums[1]));
        HeadUnit::new(sum as u64, sh)
    }
}

/// [`HeadUnit::normalize`] of every value, with the gain of its channel.
///
/// # Safety
/// The features; N registers of gains lie in memory.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn normalize<const N: usize>(x: &mut [__m512i; N], unit: HeadUnit, gain: *const i32) {
    // SAFETY: the caller's.
    unsafe {
        let half = _mm512_set1_epi32(((1u32 << unit.sh) >> 1) as i32);
        let right = _mm512_set1_epi32(unit.sh as i32);
        let up = _mm512_set1_epi32(unit.up as i32);
        let rr = _mm512_set1_epi32(unit.rr as i32);
        let (half_31, half_45) = (_mm512_set1_epi64(1 << 30), _mm512_set1_epi64(1 << 44));
        let limit = _mm512_set1_epi32(I16);
        for (i, x) in x.iter_mut().enumerate() {
            let gain = _mm512_loadu_si512(gain.add(i * STEP).cast());
            let g = _mm512_abs_epi32(gain);
            let v = _mm512_srlv_epi32(_mm512_add_epi32(_mm512_abs_epi32(*x), half), right);
            let v = _mm512_sllv_epi32(v, up);
            // Sums of even lanes and of odd ones, y in the bits from 45 on.
            let [even, odds] = [(v, g), (odd(v), odd(g))].map(|(v, g)| {
                let t = _mm512_add_epi64(_mm512_mul_epu32(v, rr), half_31);
                let t = _mm512_srli_epi64::<31>(t);
                _mm512_add_epi64(_mm512_mul_epu32(t, g), half_45)
            });
            let y = _mm512_mask_blend_epi32(
                ODD,
                _mm512_srli_epi64::<45>(even),
                _mm512_srli_epi64::<13>(odds),
            );
            let negative = _mm512_movepi32_mask(_mm512_xor_si512(*x, gain));
            *x = negated(negative, _mm512_min_epi32(y, limit));
        }
    }
}

/// The angles of a position, 16 pairs of channels a register.
#[derive(Clone, Copy)]
struct Turns<const N: usize, const NORM: bool> {
    /// With `NORM`, int16 pairs (cos, sin); else cosines.
    c: [__m512i; N],
    /// With `NORM`, int16 pairs (-sin, cos); else sines.
    s: [__m512i; N],
}

impl<const N: usize, const NORM: bool> Turns<N, NORM> {
    /// # Safety
    /// The features; N / 2 registers of angles.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn new(angles: &[CosSin]) -> Self {
        let (mut c, mut s) = ([0i32; STEP], [0i32; STEP]);
        // SAFETY: the arrays fill a register.
        unsafe {
            let mut turns = Self {
                c: [_mm512_setzero_si512(); N],
                s: [_mm512_setzero_si512(); N],
            };
            let registers = turns.c.iter_mut().zip(&mut turns.s);
            for (angles, (to_c, to_s)) in angles.chunks_exact(STEP).zip(registers) {
                for ((&(cos, sin), c), s) in angles.iter().zip(&mut c).zip(&mut s) {
                    // Both at most 2^14.
                    (*c, *s) = if NORM {
                        (cos & 0xFFFF | sin << 16, -sin & 0xFFFF | cos << 16)
                    } else {
                        (cos, sin)
                    };
                }
                *to_c = _mm512_loadu_si512(c.as_ptr().cast());
                *to_s = _mm512_loadu_si512(s.as_ptr().cast());
            }
            turns
        }
    }

    /// The rotary embedding of the pairs (i, i + N / 2).
    ///
    /// # Safety
    /// The features; int16 values with `NORM`, else at most 2^22.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn turn(&self, x: &mut [__m512i; N]) {
        // SAFETY: register-only instructions of the enabled features.
        unsafe {
            for i in 0..N / 2 {
                let (a, b, c, s) = (x[i], x[i + N / 2], self.c[i], self.s[i]);
                let turned = if NORM {
                    // (b, a) as int16 pairs: sums of two products, at most 2^30.
                    let pair = _mm512_mask_blend_epi16(0xAAAA_AAAA, b, _mm512_slli_epi32::<16>(a));
                    [s, c].map(|turn| Self::turned_16(pair, turn))
                } else {
                    let (a_odd, b_odd, c_odd, s_odd) = (odd(a), odd(b), odd(c), odd(s));
                    let products = |x: [__m512i; 2], c: [__m512i; 2]| {
                        [_mm512_mul_epi32(x[0], c[0]), _mm512_mul_epi32(x[1], c[1])]
                    };
                    let [ac, bc] = [[a, a_odd], [b, b_odd]].map(|x| products(x, [c, c_odd]));
                    let [as_, bs] = [[a, a_odd], [b, b_odd]].map(|x| products(x, [s, s_odd]));
                    [
                        Self::rounded(
                            _mm512_sub_epi64(ac[0], bs[0]),
                            _mm512_sub_epi64(ac[1], bs[1]),
                        ),
                        Self::rounded(
                            _mm512_add_epi64(bc[0], as_[0]),
                            _mm512_add_epi64(bc[1], as_[1]),
                        ),
                    ]
                };
                [x[i], x[i + N / 2]] = turned;
            }
        }
    }

    /// sat(rdbpot(v, 14), 2^15 - 1) of the sums v of two products each.
    ///
    /// # Safety
    /// The features.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn turned_16(pair: __m512i, turn: __m512i) -> __m512i {
        // SAFETY: register-only instructions of the enabled features.
        unsafe {
            let half = _mm512_set1_epi32(1 << 13);
            // Half up, after one less for negative sums.
            let v = _mm512_dpwssd_epi32(half, pair, turn);
            let negative = _mm512_cmplt_epi32_mask(v, half);
            let v = _mm512_mask_sub_epi32(v, negative, v, _mm512_set1_epi32(1));
            let v = _mm512_srai_epi32::<14>(v);
            _mm512_max_epi32(
                _mm512_min_epi32(v, _mm512_set1_epi32(I16)),
                _mm512_set1_epi32(-I16),
            )
        }
    }

    /// rdbpot(v, 14) of sums v of even and odd lanes; below 2^23.
    ///
    /// # Safety
    /// The features.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn rounded(even: __m512i, odds: __m512i) -> __m512i {
        // SAFETY: register-only instructions of the enabled features.
        unsafe {
            let half = _mm512_set1_epi64(1 << 13);
            // Half up, after one less for negative sums.
            let [even, odds] = [even, odds]
                .map(|v| _mm512_add_epi64(_mm512_add_epi64(v, half), _mm512_srai_epi64::<63>(v)));
            _mm512_mask_blend_epi32(
                ODD,
                _mm512_srli_epi64::<14>(even),
                _mm512_slli_epi64::<18>(odds),
            )
        }
    }
}

/// The Walsh-Hadamard transform of 16 N values.
///
/// # Safety
/// The features; N = 4 or 8.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn walsh_hadamard<const N: usize>(x: &mut [__m512i; N]) {
    // SAFETY: register-only instructions of the enabled features.
    unsafe {
        for x in x.iter_mut() {
            *x = strides_to_8(*x);
        }
        for i in (0..N).step_by(4) {
            [x[i], x[i + 1], x[i + 2], x[i + 3]] =
                two_strides([x[i], x[i + 1], x[i + 2], x[i + 3]]);
        }
        if N == 8 {
            for i in 0..4 {
                let (a, b) = (x[i], x[i + N / 2]);
                (x[i], x[i + N / 2]) = (_mm512_add_epi32(a, b), _mm512_sub_epi32(a, b));
            }
        }
    }
}

/// Codes of sat(rdbpot(x, shift), 2^15 - 1) by their largest magnitude, which is returned.
///
/// # Safety
/// The features; 16 N codes are writable; N is a multiple of 4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn quantize<const N: usize>(x: [__m512i; N], shift: u32, codes: *mut i8) -> u16 {
    // SAFETY: the caller's.
    unsafe {
        let half = _mm512_set1_epi32(((1u32 << shift) >> 1) as i32);
        let right = _mm512_set1_epi32(shift as i32);
        let limit = _mm512_set1_epi32(I16);
        let (mut m, mut largest) = (x, _mm512_setzero_si512());
        for m in &mut m {
            let a = _mm512_srlv_epi32(_mm512_add_epi32(_mm512_abs_epi32(*m), half), right);
            *m = _mm512_min_epu32(a, limit);
            largest = _mm512_max_epi32(largest, *m);
        }
        let largest = _mm512_reduce_max_epi32(largest) as u32;
        // A row of zeros has codes of zero by any reciprocal.
        let Reciprocal { r, left, .. } = Reciprocal::new(largest.max(1));
        // (m * 2^left * r + 2^46) >> 47 with r = high * 2^16 + low: the fraction of m * low decides nothing, as the
        // shift of m * r by 47 - left is above 16. m * high < 2^30, and m, high < 2^15 are int16.
        let low = _mm512_set1_epi32((r & 0xFFFF) as i32);
        let high = _mm512_set1_epi32((r >> 16) as i32);
        let right = _mm512_set1_epi32(31 - left as i32);
        let half = _mm512_set1_epi32(1 << (30 - left));
        // The order of packed quarters.
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        for i in (0..N).step_by(4) {
            let [a, b, c, d] = [0, 1, 2, 3].map(|j| {
                let m = m[i + j];
                let y = _mm512_add_epi32(_mm512_mulhi_epu16(m, low), half);
                let y = _mm512_srlv_epi32(_mm512_dpwssd_epi32(y, m, high), right);
                negated(_mm512_movepi32_mask(x[i + j]), y)
            });
            let packed = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
            let packed = _mm512_permutexvar_epi32(order, packed);
            _mm512_storeu_si512(codes.add(i * STEP).cast(), packed);
        }
        largest as u16
    }
}
