//! Sums of products of int8 values.
//!
//! A register holds four columns of four rows. The dot product instructions add the four products of a row and a group
//! of an input to one int32 lane. Without them products are widened: those of two groups sum in int16, at most
//! 2 * 127^2 = 32258 < 2^15 (spec 0.1: -128 is no stored value), and pairs of such sums are added in int32.
#![allow(unsafe_code)]
// Newer compilers take register-only intrinsics as safe inside a function with the feature.
#![allow(unused_unsafe)]
// Indices name the registers of a tile and the tokens on both sides of a product.
#![allow(clippy::needless_range_loop)]

use super::super::super::blocks::{self, Block, LINE, Sums, group_weights};
use super::super::super::operands::{Inputs, Out, Values};
use crate::tiles::{GROUP, TILE, View};
use core::arch::aarch64::*;

/// Bytes of a register.
const REGISTER: usize = 16;
/// Registers of a line of a tile.
const REGISTERS: usize = LINE / REGISTER;
/// Rows of a register.
const LANES: usize = 4;

/// `gemm` with the dot product instructions.
pub(super) fn gemm_dotprod(weights: View<'_>, inputs: Inputs<'_>, out: Out<'_>) {
    blocks::each(weights, inputs, out, 0, |block| {
        // SAFETY: the features are present (see `kernels`), and a block's sums are there to be written.
        unsafe { dotprod(block) }
    });
}

/// `gemm` without them.
pub(super) fn gemm_widening(weights: View<'_>, inputs: Inputs<'_>, out: Out<'_>) {
    blocks::each(weights, inputs, out, 0, |block| {
        // SAFETY: NEON is present (see `kernels`), and a block's sums are there to be written.
        unsafe { widening(block) }
    });
}

/// # Safety
/// NEON and the dot product instructions; the sums of the block are writable.
#[target_feature(enable = "neon,dotprod")]
unsafe fn dotprod(block: Block<'_>) {
    // SAFETY: the tokens of each part are those of the block.
    unsafe {
        let mut first = 0;
        while first + 4 <= block.tokens {
            dotprod_part::<4>(block, first);
            first += 4;
        }
        match block.tokens - first {
            1 if first == 0 => dotprod_token(block),
            1 => dotprod_part::<1>(block, first),
            2 => dotprod_part::<2>(block, first),
            3 => dotprod_part::<3>(block, first),
            _ => {}
        }
    }
}

/// # Safety
/// NEON; the sums of the block are writable.
#[target_feature(enable = "neon")]
unsafe fn widening(block: Block<'_>) {
    // SAFETY: the tokens of each part are those of the block.
    unsafe {
        let mut first = 0;
        while first + 2 <= block.tokens {
            widening_part::<2>(block, first);
            first += 2;
        }
        if first < block.tokens {
            widening_part::<1>(block, first);
        }
    }
}

/// Adds the products of four rows and one group, which is in lane LANE of `x`.
///
/// # Safety
/// NEON and the dot product instructions.
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn dot<const LANE: usize>(mut acc: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: one register-only instruction of the enabled feature. (Its intrinsic is not stable.)
    unsafe {
        core::arch::asm!(
            "sdot {acc:v}.4s, {w:v}.16b, {x:v}.4b[{lane}]",
            acc = inout(vreg) acc,
            w = in(vreg) w,
            x = in(vreg) x,
            lane = const LANE,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    acc
}

/// The four registers of a line.
///
/// # Safety
/// NEON; a line is readable at `line`.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load(line: *const i8) -> [int8x16_t; REGISTERS] {
    // SAFETY: as the caller promises.
    unsafe {
        [
            vld1q_s8(line),
            vld1q_s8(line.add(REGISTER)),
            vld1q_s8(line.add(2 * REGISTER)),
            vld1q_s8(line.add(3 * REGISTER)),
        ]
    }
}

/// A group of inputs in every lane.
///
/// # Safety
/// NEON; four values are readable at `x`.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn broadcast(x: *const i8) -> int8x16_t {
    // SAFETY: as the caller promises.
    unsafe { vreinterpretq_s8_s32(vdupq_n_s32(x.cast::<i32>().read_unaligned())) }
}

/// A tile against the one token of a block, four groups at a time.
///
/// # Safety
/// NEON and the dot product instructions; the sums of the block are writable.
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn dotprod_token(block: Block<'_>) {
    debug_assert!(block.tile.len() == block.groups * LINE);
    debug_assert!(block.inputs.len() == block.groups * GROUP);
    // SAFETY: line g and group g are below `groups`, four groups are one register.
    unsafe {
        let (w, x) = (block.tile.as_ptr(), block.inputs.as_ptr());
        let mut acc = [[vdupq_n_s32(0)]; REGISTERS];
        // Of the odd groups, so that an instruction waits for none of those before it in its line or the next.
        let mut odd = [vdupq_n_s32(0); REGISTERS];
        let mut g = 0;
        while g + 4 <= block.groups {
            let x = vld1q_s8(x.add(g * GROUP));
            let lines = [0, 1, 2, 3].map(|i| load(w.add((g + i) * LINE)));
            for v in 0..REGISTERS {
                acc[v][0] = dot::<0>(acc[v][0], lines[0][v], x);
                odd[v] = dot::<1>(odd[v], lines[1][v], x);
                acc[v][0] = dot::<2>(acc[v][0], lines[2][v], x);
                odd[v] = dot::<3>(odd[v], lines[3][v], x);
            }
            g += 4;
        }
        while g < block.groups {
            let (x, line) = (broadcast(x.add(g * GROUP)), load(w.add(g * LINE)));
            for v in 0..REGISTERS {
                acc[v][0] = dot::<0>(acc[v][0], line[v], x);
            }
            g += 1;
        }
        for v in 0..REGISTERS {
            acc[v][0] = vaddq_s32(acc[v][0], odd[v]);
        }
        store(&acc, block.sums);
    }
}

/// A tile against T tokens of a block from `first` on: for T = 4 there are 16 accumulators, 4 weights and one register
/// of inputs, a lane for each token.
///
/// # Safety
/// NEON and the dot product instructions; the sums of the block are writable, first + T <= its tokens.
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn dotprod_part<const T: usize>(block: Block<'_>, first: usize) {
    debug_assert!(block.tile.len() == block.groups * LINE && first + T <= block.tokens);
    debug_assert!(block.inputs.len() == block.groups * block.tokens * GROUP);
    // SAFETY: line g and group g are below `groups`; tokens first .. first + T are the block's, four of them fill a
    // register.
    unsafe {
        let (w, x) = (
            block.tile.as_ptr(),
            block.inputs.as_ptr().add(first * GROUP),
        );
        let mut acc = [[vdupq_n_s32(0); T]; REGISTERS];
        for g in 0..block.groups {
            let line = load(w.add(g * LINE));
            let x = x.add(g * block.tokens * GROUP);
            if T == 4 {
                let x = vld1q_s8(x);
                for v in 0..REGISTERS {
                    acc[v][0] = dot::<0>(acc[v][0], line[v], x);
                    acc[v][1 % T] = dot::<1>(acc[v][1 % T], line[v], x);
                    acc[v][2 % T] = dot::<2>(acc[v][2 % T], line[v], x);
                    acc[v][3 % T] = dot::<3>(acc[v][3 % T], line[v], x);
                }
            } else {
                for t in 0..T {
                    let x = broadcast(x.add(t * GROUP));
                    for v in 0..REGISTERS {
                        acc[v][t] = dot::<0>(acc[v][t], line[v], x);
                    }
                }
            }
        }
        store(&acc, block.sums.after(first));
    }
}

/// A tile against T tokens of a block from `first` on, two groups at a time. For T = 2 there are 16 accumulators, each
/// of two rows with two sums a row.
///
/// # Safety
/// NEON; the sums of the block are writable, first + T <= its tokens.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn widening_part<const T: usize>(block: Block<'_>, first: usize) {
    debug_assert!(block.tile.len() == block.groups * LINE && first + T <= block.tokens);
    debug_assert!(block.inputs.len() == block.groups * block.tokens * GROUP);
    // SAFETY: lines and groups are below `groups`, token first + t is one of the block's.
    unsafe {
        let (w, x) = (
            block.tile.as_ptr(),
            block.inputs.as_ptr().add(first * GROUP),
        );
        let step = block.tokens * GROUP;
        let mut acc = [[[vdupq_n_s32(0); T]; 2]; REGISTERS];
        let mut g = 0;
        while g + 2 <= block.groups {
            let xs: [[int8x16_t; T]; 2] = [0, 1]
                .map(|i| core::array::from_fn(|t| broadcast(x.add((g + i) * step + t * GROUP))));
            for v in 0..REGISTERS {
                let a = vld1q_s8(w.add(g * LINE + v * REGISTER));
                let b = vld1q_s8(w.add((g + 1) * LINE + v * REGISTER));
                for t in 0..T {
                    let (xa, xb) = (xs[0][t], xs[1][t]);
                    let low = vmull_s8(vget_low_s8(a), vget_low_s8(xa));
                    let low = vmlal_s8(low, vget_low_s8(b), vget_low_s8(xb));
                    let high = vmlal_high_s8(vmull_high_s8(a, xa), b, xb);
                    acc[v][0][t] = vpadalq_s16(acc[v][0][t], low);
                    acc[v][1][t] = vpadalq_s16(acc[v][1][t], high);
                }
            }
            g += 2;
        }
        if g < block.groups {
            for t in 0..T {
                let xs = broadcast(x.add(g * step + t * GROUP));
                for v in 0..REGISTERS {
                    let w = vld1q_s8(w.add(g * LINE + v * REGISTER));
                    let low = vmull_s8(vget_low_s8(w), vget_low_s8(xs));
                    acc[v][0][t] = vpadalq_s16(acc[v][0][t], low);
                    acc[v][1][t] = vpadalq_s16(acc[v][1][t], vmull_high_s8(w, xs));
                }
            }
        }
        let mut sums = [[vdupq_n_s32(0); T]; REGISTERS];
        for v in 0..REGISTERS {
            for t in 0..T {
                sums[v][t] = vpaddq_s32(acc[v][0][t], acc[v][1][t]);
            }
        }
        store(&sums, block.sums.after(first));
    }
}

/// Stores the sums of a tile's rows with T tokens.
///
/// # Safety
/// NEON; the sums of T tokens are writable.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store<const T: usize>(acc: &[[int32x4_t; T]; REGISTERS], sums: Sums) {
    for t in 0..T {
        let to = sums.after(t).start;
        // SAFETY: the sums of 16 rows are writable, or else those of a buffer, of which the rows that there are are
        // copied.
        unsafe {
            if sums.rows == TILE {
                for v in 0..REGISTERS {
                    vst1q_s32(to.add(v * LANES), acc[v][t]);
                }
            } else {
                let mut buffer = [0i32; TILE];
                for v in 0..REGISTERS {
                    vst1q_s32(buffer.as_mut_ptr().add(v * LANES), acc[v][t]);
                }
                core::ptr::copy_nonoverlapping(buffer.as_ptr(), to, sums.rows);
            }
        }
    }
}

/// Channels of a register of values, four keys each.
const CHANNELS: usize = 4;

pub(super) fn weighted_sum(w: &[u16], values: Values<'_>, n: &mut [i64]) {
    blocks::weighted_sum(w, values, n, CHANNELS, |w, values, width, n| {
        let mut first = 0;
        while first < n.len() {
            let left = n.len() - first;
            let n = &mut n[first..];
            // SAFETY: NEON is present (see `kernels`); the channels from `first` on are among the `width` of `values`.
            first += unsafe {
                if left >= 4 * CHANNELS {
                    channels::<4>(w, values, width, first, n)
                } else {
                    channels::<1>(w, values, width, first, n)
                }
            };
        }
    });
}

/// Adds the sums over at most 64 keys for the 4 * C channels from `first` on, whose number it returns.
///
/// # Safety
/// NEON; `values` is the groups of `w`, each of `width` channels, and first + 4 * C <= width.
#[target_feature(enable = "neon")]
unsafe fn channels<const C: usize>(
    w: &[u16],
    values: &[i8],
    width: usize,
    first: usize,
    n: &mut [i64],
) -> usize {
    debug_assert!(values.len() == w.len().div_ceil(GROUP) * GROUP * width);
    debug_assert!(first + CHANNELS * C <= width && n.len() >= CHANNELS * C);
    // SAFETY: the channels lie in each group of `values`; a group's weights are read from a local array.
    unsafe {
        let mut acc = [[vdupq_n_s32(0); CHANNELS]; C];
        for (group, w) in w.chunks(GROUP).enumerate() {
            let weights = vreinterpret_s16_u16(vld1_u16(group_weights(w).as_ptr()));
            let values = values.as_ptr().add((group * width + first) * GROUP);
            for c in 0..C {
                let v = vld1q_s8(values.add(c * REGISTER));
                let (low, high) = (vmovl_s8(vget_low_s8(v)), vmovl_high_s8(v));
                let a = &mut acc[c];
                a[0] = vmlal_s16(a[0], vget_low_s16(low), weights);
                a[1] = vmlal_s16(a[1], vget_high_s16(low), weights);
                a[2] = vmlal_s16(a[2], vget_low_s16(high), weights);
                a[3] = vmlal_s16(a[3], vget_high_s16(high), weights);
            }
        }
        for (n, sums) in n.iter_mut().zip(acc.as_flattened()) {
            *n += i64::from(vaddvq_s32(*sums));
        }
    }
    CHANNELS * C
}
