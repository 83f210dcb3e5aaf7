//! Element-wise rows: quantisation, requantisation, the gated activation.
//!
//! Where a rounding is symmetric in the sign (ties away from zero), magnitudes take NEON's rounding shifts, whose
//! ties go up: `vrshr` and `vrshl` by -e give floor((x + 2^(e-1)) / 2^e), computed without overflow of the addition.
#![allow(unsafe_code)]
// Newer compilers take register-only intrinsics as safe inside a function with the feature.
#![allow(unused_unsafe)]

use crate::ops::dynq::Reciprocal;
use crate::ops::ratio::TokenScale;
use crate::ops::requantize::{self as requantize_op, Channels};
use crate::ops::swiglu as swiglu_op;
use crate::tables::SIGMOID;
use core::arch::aarch64::*;

/// |x| for x above -2^31.
///
/// # Safety
/// NEON.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn magnitude(x: int32x4_t) -> uint32x4_t {
    // SAFETY: register-only instructions of the enabled feature.
    unsafe { vreinterpretq_u32_s32(vabsq_s32(x)) }
}

/// Magnitudes below 2^31 with the signs of `of`.
///
/// # Safety
/// NEON.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn signed(m: uint32x4_t, of: int32x4_t) -> int32x4_t {
    // SAFETY: register-only instructions of the enabled feature.
    unsafe {
        // All ones where negative: the complement less -1 is the negation.
        let sign = vshrq_n_s32::<31>(of);
        vsubq_s32(veorq_s32(vreinterpretq_s32_u32(m), sign), sign)
    }
}

/// (a * b + 2^(SHIFT-1)) >> SHIFT of four magnitudes; the quotients fit 32 bits.
///
/// # Safety
/// NEON.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn rounded_products<const SHIFT: i32>(
    a: uint32x4_t,
    b: uint32x4_t,
) -> uint32x4_t {
    // SAFETY: register-only instructions of the enabled feature.
    unsafe {
        let low = vrshrq_n_u64::<SHIFT>(vmull_u32(vget_low_u32(a), vget_low_u32(b)));
        let high = vrshrq_n_u64::<SHIFT>(vmull_high_u32(a, b));
        vcombine_u32(vmovn_u64(low), vmovn_u64(high))
    }
}

pub(super) fn quantize(u: &[i32], m: u32, q: &mut [i8]) {
    assert_eq!(u.len(), q.len(), "one code per value");
    if m == 0 {
        q.fill(0);
        return;
    }
    let reciprocal = Reciprocal::new(m);
    let whole = u.len() - u.len() % 8;
    // SAFETY: NEON is present; the rows have one length, a multiple of 8.
    unsafe { quantize_8s(&u[..whole], reciprocal, &mut q[..whole]) }
    for (q, &u) in q[whole..].iter_mut().zip(&u[whole..]) {
        *q = reciprocal.quantize(u);
    }
}

/// # Safety
/// NEON; `u` and `q` have one length, a multiple of 8.
#[target_feature(enable = "neon")]
unsafe fn quantize_8s(u: &[i32], reciprocal: Reciprocal, q: &mut [i8]) {
    // SAFETY: each step reads 8 values at an offset below the common length and writes 8.
    unsafe {
        // One of the two is zero; a negative count shifts right, towards zero.
        let align = vdupq_n_s32(reciprocal.left as i32 - reciprocal.right as i32);
        let r = vdupq_n_u32(reciprocal.r);
        for at in (0..u.len()).step_by(8) {
            let code = |at| {
                let x = vld1q_s32(u.as_ptr().add(at));
                let a = vshlq_u32(magnitude(x), align);
                // Bits 47 and up of each rounded product are the code, at most 127.
                vmovn_s32(signed(rounded_products::<47>(a, r), x))
            };
            let codes = vcombine_s16(code(at), code(at + 4));
            vst1_s8(q.as_mut_ptr().add(at), vmovn_s16(codes));
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
    // SAFETY: NEON is present; row and constants have one length, a multiple of 8.
    unsafe { requantize_8s(&mut row[..whole], scale, channels.part(0..whole)) }
    requantize_op::requantize_row(&mut row[whole..], scale, channels.part(whole..end));
}

/// `vqrdmulh` is srdhm (spec 1.3): it gives floor((2ab + 2^31) / 2^32) = floor((ab + 2^30) / 2^31), the sum taken
/// without overflow, and saturates where that leaves int32, for (-2^31, -2^31) alone.
///
/// gemmlowp's formulation agrees, ties included. For p = ab >= 0 it is floor((p + 2^30) / 2^31). For p < 0 it is
/// (p + 1 - 2^30) / 2^31 truncated, of a negative numerator: ceil((p + 1 - 2^30) / 2^31), which for integers is
/// floor((p + 1 - 2^30 + 2^31 - 1) / 2^31) = floor((p + 2^30) / 2^31).
///
/// # Safety
/// NEON.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn srdhm(a: int32x4_t, b: int32x4_t) -> int32x4_t {
    // SAFETY: register-only instructions of the enabled feature.
    unsafe { vqrdmulhq_s32(a, b) }
}

/// # Safety
/// NEON; the row and the constants have one length, a multiple of 8.
#[target_feature(enable = "neon")]
unsafe fn requantize_8s(row: &mut [i32], scale: Option<TokenScale>, channels: Channels<'_>) {
    // SAFETY: each step touches 8 elements at an offset below the common length.
    unsafe {
        let Channels {
            mult,
            shift,
            left,
            limit,
        } = channels;
        let left = vdupq_n_s32(left as i32);
        let token = scale.map(|s| vdupq_n_s32(s.mantissa));
        let te = vdupq_n_s32(scale.map_or(0, |s| s.exponent));
        let (zero, limit) = (vdupq_n_s32(0), vdupq_n_s32(limit));
        let (most_right, most_left) = (vdupq_n_s32(32), vdupq_n_s32(31));
        for at in (0..row.len()).step_by(8) {
            let shifts = vmovl_s8(vld1_s8(shift.as_ptr().add(at)));
            for (at, shift) in [
                (at, vmovl_s16(vget_low_s16(shifts))),
                (at + 4, vmovl_high_s16(shifts)),
            ] {
                let mut a = vshlq_s32(vld1q_s32(row.as_ptr().add(at)), left);
                if let Some(token) = token {
                    a = srdhm(a, token);
                }
                a = srdhm(a, vld1q_s32(mult.as_ptr().add(at)));
                let e = vaddq_s32(shift, te);
                // The rest is symmetric in the sign. Right by max(e, 0); from 32 on the result is 0, as |a| < 2^31
                // is below half of 2^32. (Counts are read from 8 bits of a lane: the bounds come first.)
                let right = vminq_s32(vmaxq_s32(e, zero), most_right);
                let m = vrshlq_u32(magnitude(a), vnegq_s32(right));
                // Left by max(-e, 0), saturating; from 31 on every non-zero value saturates.
                let up = vminq_s32(vmaxq_s32(vnegq_s32(e), zero), most_left);
                let m = vqshlq_s32(vreinterpretq_s32_u32(m), up);
                let m = vreinterpretq_u32_s32(vminq_s32(m, limit));
                vst1q_s32(row.as_mut_ptr().add(at), signed(m, a));
            }
        }
    }
}

pub(super) fn swiglu(g: &[i32], u: &[i32], h: &mut [i64]) -> u64 {
    assert!(
        g.len() == u.len() && g.len() == h.len(),
        "rows of one width"
    );
    let whole = g.len() - g.len() % 4;
    // SAFETY: NEON is present; the rows have one length, a multiple of 4.
    let m = unsafe { swiglu_4s(&g[..whole], &u[..whole], &mut h[..whole]) };
    m.max(swiglu_op::swiglu_row(
        &g[whole..],
        &u[whole..],
        &mut h[whole..],
    ))
}

/// # Safety
/// NEON; the rows have one length, a multiple of 4.
#[target_feature(enable = "neon")]
unsafe fn swiglu_4s(g: &[i32], u: &[i32], h: &mut [i64]) -> u64 {
    // SAFETY: each step touches 4 elements at an offset below the common length; indices are clamped to the
    // table's last by the instruction before their use, which checks them again.
    unsafe {
        let one = vdupq_n_u32(1 << 24);
        let last = vdupq_n_u32(SIGMOID.len() as u32 - 1);
        let mut largest = vdupq_n_u64(0);
        for at in (0..g.len()).step_by(4) {
            let gs = vld1q_s32(g.as_ptr().add(at));
            let us = vld1q_s32(u.as_ptr().add(at));
            let a = magnitude(gs);
            let index = vminq_u32(vrshrq_n_u32::<6>(a), last);
            let mut lanes = [0u32; 4];
            vst1q_u32(lanes.as_mut_ptr(), index);
            let sigmoid = vld1q_u32(lanes.map(|i| SIGMOID[i as usize]).as_ptr());
            let beyond = vcgeq_u32(a, vdupq_n_u32(1 << 16));
            let sigmoid = vbslq_u32(beyond, one, sigmoid);
            let sigmoid = vbslq_u32(vcltzq_s32(gs), vsubq_u32(one, sigmoid), sigmoid);
            // rdbpot rounds magnitudes half up: |g| * sigmoid <= 2^50, its quotient <= 2^26.
            let silu = rounded_products::<24>(a, sigmoid);
            let s = signed(silu, gs);
            let h = h.as_mut_ptr().add(at);
            vst1q_s64(h, vmull_s32(vget_low_s32(s), vget_low_s32(us)));
            vst1q_s64(h.add(2), vmull_high_s32(s, us));
            let us = magnitude(us);
            for m in [
                vmull_u32(vget_low_u32(silu), vget_low_u32(us)),
                vmull_high_u32(silu, us),
            ] {
                largest = vbslq_u64(vcgtq_u64(m, largest), m, largest);
            }
        }
        vgetq_lane_u64::<0>(largest).max(vgetq_lane_u64::<1>(largest))
    }
}
