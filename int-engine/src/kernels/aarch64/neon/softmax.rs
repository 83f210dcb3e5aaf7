//! Scores and weights of attention.
#![allow(unsafe_code)]
// Newer compilers take register-only intrinsics as safe inside a function with the feature.
#![allow(unused_unsafe)]

use super::rows::{magnitude, rounded_products, signed};
use crate::ops::attention::{self, Normalizer, QueryScale};
use crate::tables::EXP2;
use core::arch::aarch64::*;

pub(super) fn log_scores(scale: QueryScale, dots: &mut [i32], mk: &[u16]) -> i32 {
    assert_eq!(dots.len(), mk.len(), "one scale per key");
    let whole = dots.len() - dots.len() % 4;
    let (head, tail) = dots.split_at_mut(whole);
    // SAFETY: NEON is present; both slices have one length, a multiple of 4.
    let top = unsafe { log_scores_4s(scale, head, &mk[..whole]) };
    top.max(scale.log_scores(tail, &mk[whole..]))
}

/// # Safety
/// NEON; the slices have one length, a multiple of 4.
#[target_feature(enable = "neon")]
unsafe fn log_scores_4s(scale: QueryScale, dots: &mut [i32], mk: &[u16]) -> i32 {
    // SAFETY: each step touches 4 elements at an offset below the common length.
    unsafe {
        let rm = vdupq_n_s32(scale.rm);
        // 1 to 62; a negative count shifts right, rounding half up.
        let down = vdupq_n_s64(-i64::from(scale.rs));
        let limit = vdupq_n_s32((1 << 30) - 1);
        let low_limit = vnegq_s32(limit);
        let mut top = vdupq_n_s32(i32::MIN);
        for at in (0..dots.len()).step_by(4) {
            let dot = vld1q_s32(dots.as_ptr().add(at));
            let mk = vmovl_u16(vld1_u16(mk.as_ptr().add(at)));
            // rdbpot rounds magnitudes half up: |dot| * mk < 2^37, its quotient < 2^27.
            let a = signed(rounded_products::<10>(magnitude(dot), mk), dot);
            let low = vrshlq_s64(vmull_s32(vget_low_s32(a), vget_low_s32(rm)), down);
            let high = vrshlq_s64(vmull_high_s32(a, rm), down);
            // The narrowing saturates to int32, which contains the score's own limits.
            let z = vcombine_s32(vqmovn_s64(low), vqmovn_s64(high));
            let z = vmaxq_s32(vminq_s32(z, limit), low_limit);
            vst1q_s32(dots.as_mut_ptr().add(at), z);
            top = vmaxq_s32(top, z);
        }
        vmaxvq_s32(top)
    }
}

pub(super) fn softmax_weights(z: &mut [i32], top: i32, mv: &[u16], w: &mut [u16]) -> Normalizer {
    assert!(
        z.len() == mv.len() && z.len() == w.len(),
        "one scale and weight per key"
    );
    let whole = z.len() - z.len() % 4;
    // SAFETY: NEON is present; both slices have one length, a multiple of 4.
    let (den, largest) = unsafe { raw_weights_4s(&mut z[..whole], top, &mv[..whole]) };
    let (tail_den, tail_largest) = attention::raw_weights(&mut z[whole..], top, &mv[whole..]);
    let normalizer = Normalizer::new(den + tail_den, largest.max(tail_largest));
    // SAFETY: NEON is present; both slices have one length, a multiple of 4.
    unsafe { narrow_weights_4s(&z[..whole], normalizer.c, &mut w[..whole]) }
    attention::narrow_weights(&z[whole..], normalizer.c, &mut w[whole..]);
    normalizer
}

/// Products of weights and value scales in place of scores; returns the sum of weights and the largest product.
///
/// # Safety
/// NEON; the slices have one length, a multiple of 4.
#[target_feature(enable = "neon")]
unsafe fn raw_weights_4s(z: &mut [i32], top: i32, mv: &[u16]) -> (u32, i32) {
    // SAFETY: each step touches 4 elements at an offset below the common length; indices are below 256.
    unsafe {
        let top = vdupq_n_s32(top);
        let mut den = vdupq_n_u32(0);
        let mut largest = vdupq_n_u32(0);
        for at in (0..z.len()).step_by(4) {
            let d = vreinterpretq_u32_s32(vsubq_s32(top, vld1q_s32(z.as_ptr().add(at))));
            let mut lanes = [0u32; 4];
            vst1q_u32(lanes.as_mut_ptr(), d);
            let e = vld1q_u32(lanes.map(|d| u32::from(EXP2[(d & 255) as usize])).as_ptr());
            // e <= 2^15, so every shift by 17 or more gives 0. (Counts are read from 8 bits of a lane.)
            let n = vminq_u32(vshrq_n_u32::<8>(d), vdupq_n_u32(32));
            let p = vrshlq_u32(e, vnegq_s32(vreinterpretq_s32_u32(n)));
            den = vaddq_u32(den, p);
            let w = vmulq_u32(p, vmovl_u16(vld1_u16(mv.as_ptr().add(at))));
            vst1q_s32(z.as_mut_ptr().add(at), vreinterpretq_s32_u32(w));
            largest = vmaxq_u32(largest, w);
        }
        // Products are below 2^30.
        (vaddvq_u32(den), vmaxvq_u32(largest) as i32)
    }
}

/// # Safety
/// NEON; the slices have one length, a multiple of 4.
#[target_feature(enable = "neon")]
unsafe fn narrow_weights_4s(z: &[i32], c: u32, w: &mut [u16]) {
    // SAFETY: each step touches 4 elements at an offset below the common length.
    unsafe {
        // 0 to 15; a negative count shifts right, rounding half up.
        let down = vdupq_n_s32(-(c as i32));
        for at in (0..z.len()).step_by(4) {
            // At most 2^15, so the narrowing is exact.
            let v = vrshlq_s32(vld1q_s32(z.as_ptr().add(at)), down);
            vst1_u16(w.as_mut_ptr().add(at), vmovn_u32(vreinterpretq_u32_s32(v)));
        }
    }
}
