//! Sums of products of int8 values.
#![allow(unsafe_code)]
// Newer compilers take register-only intrinsics as safe inside a function with the feature.
#![allow(unused_unsafe)]
// Indices name the tile's rows and tokens on both sides of a product.
#![allow(clippy::needless_range_loop)]

use core::arch::aarch64::*;

/// Rows and tokens of the register tile: 16 accumulators, 4 activations and 1 weight of the 32 registers.
const ROWS: usize = 4;
const TOKENS: usize = 4;
/// Values a step: one register of int8.
const STEP: usize = 16;

/// Adds 16 products to four int32 lanes by widening: two products an int16 lane, pairs of those into int32.
///
/// Two products of magnitude at most 127^2 sum to at most 32258 < 2^15 (spec 0.1: -128 is no stored value).
///
/// # Safety
/// NEON.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn widening_step(acc: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: register-only instructions of the enabled feature.
    unsafe {
        let low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
        vpadalq_s16(acc, vmlal_high_s8(low, w, x))
    }
}

/// Adds 16 products to four int32 lanes, four products a lane, exact for every int8.
///
/// # Safety
/// NEON and the dot product instructions.
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn dotprod_step(mut acc: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: one register-only instruction of the enabled feature. (Its intrinsic is not stable.)
    unsafe {
        core::arch::asm!(
            "sdot {acc:v}.4s, {w:v}.16b, {x:v}.16b",
            acc = inout(vreg) acc,
            w = in(vreg) w,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    acc
}

/// The matrix product with one way of adding 16 products.
macro_rules! gemm {
    ($name:ident, $features:literal, $step:path) => {
        pub(super) mod $name {
            use super::super::super::super::scalar::rows_of;
            use super::{ROWS, STEP, TOKENS, rest};
            use core::arch::aarch64::*;

            pub(in super::super) fn gemm(weights: &[i8], cols: usize, x: &[i8], out: &mut [i32]) {
                let (rows, tokens) = rows_of(weights, cols, x, out);
                let whole = rows - rows % ROWS;
                let (w, x, out) = (weights.as_ptr(), x.as_ptr(), out.as_mut_ptr());
                for r in (0..whole).step_by(ROWS) {
                    // SAFETY: the features are present (see `kernels`); rows r .. r + 4 and the tokens named by
                    // the loop lie within the operands, whose lengths `rows_of` checked, and so do their outputs.
                    unsafe { row_tile::<ROWS>(w.add(r * cols), cols, x, tokens, out.add(r), rows) }
                }
                for r in whole..rows {
                    // SAFETY: as above, with the one row r.
                    unsafe { row_tile::<1>(w.add(r * cols), cols, x, tokens, out.add(r), rows) }
                }
            }

            /// R rows against every token.
            ///
            /// # Safety
            /// The module's features; `w` is R rows of `cols` values, `x` `tokens` rows of them, and
            /// `out[t * stride + r]` is writable.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn row_tile<const R: usize>(
                w: *const i8,
                cols: usize,
                x: *const i8,
                tokens: usize,
                out: *mut i32,
                stride: usize,
            ) {
                // SAFETY: token t is below `tokens` in each call, so the pointers stay within what the caller
                // promises.
                unsafe {
                    let mut t = 0;
                    while t + TOKENS <= tokens {
                        tile::<R, TOKENS>(w, cols, x.add(t * cols), out.add(t * stride), stride);
                        t += TOKENS;
                    }
                    let (x, out) = (x.add(t * cols), out.add(t * stride));
                    match tokens - t {
                        1 => tile::<R, 1>(w, cols, x, out, stride),
                        2 => tile::<R, 2>(w, cols, x, out, stride),
                        3 => tile::<R, 3>(w, cols, x, out, stride),
                        _ => {}
                    }
                }
            }

            /// R rows against T tokens.
            ///
            /// # Safety
            /// As [`row_tile`], with T tokens.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn tile<const R: usize, const T: usize>(
                w: *const i8,
                cols: usize,
                x: *const i8,
                out: *mut i32,
                stride: usize,
            ) {
                // SAFETY: loads cover [k, k + 16) with k + 16 <= cols of each row, or a buffer of 16 values that
                // holds the rest; stores are those that the caller allows.
                unsafe {
                    let mut acc = [[vdupq_n_s32(0); T]; R];
                    let whole = cols - cols % STEP;
                    let mut k = 0;
                    while k < whole {
                        let mut xs = [vdupq_n_s8(0); T];
                        for t in 0..T {
                            xs[t] = vld1q_s8(x.add(t * cols + k));
                        }
                        for r in 0..R {
                            let ws = vld1q_s8(w.add(r * cols + k));
                            for t in 0..T {
                                acc[r][t] = $step(acc[r][t], ws, xs[t]);
                            }
                        }
                        k += STEP;
                    }
                    if whole < cols {
                        for t in 0..T {
                            let xs = rest(x.add(t * cols + whole), cols - whole);
                            for r in 0..R {
                                let ws = rest(w.add(r * cols + whole), cols - whole);
                                acc[r][t] = $step(acc[r][t], ws, xs);
                            }
                        }
                    }
                    for t in 0..T {
                        if R == 4 {
                            // Lane sums of four rows at once.
                            let a = vpaddq_s32(acc[0][t], acc[1 % R][t]);
                            let b = vpaddq_s32(acc[2 % R][t], acc[3 % R][t]);
                            vst1q_s32(out.add(t * stride), vpaddq_s32(a, b));
                        } else {
                            for r in 0..R {
                                *out.add(t * stride + r) = vaddvq_s32(acc[r][t]);
                            }
                        }
                    }
                }
            }
        }
    };
}

gemm!(widening, "neon", super::widening_step);
gemm!(dotprod, "neon,dotprod", super::dotprod_step);

/// The last `len` < 16 values of a row, zeros after them.
///
/// # Safety
/// NEON; `p` is readable for `len` values.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn rest(p: *const i8, len: usize) -> int8x16_t {
    let mut buffer = [0i8; STEP];
    // SAFETY: len < 16 values are readable at `p` and writable in the buffer, which is 16 long.
    unsafe {
        core::ptr::copy_nonoverlapping(p, buffer.as_mut_ptr(), len.min(STEP));
        vld1q_s8(buffer.as_ptr())
    }
}

/// Keys whose weighted values sum within int32: 512 * 2^15 * 127 < 2^31 (spec 1.14).
const KEYS: usize = 512;

pub(super) fn weighted_sum(w: &[u16], values: &[i8], n: &mut [i64]) {
    assert_eq!(
        values.len(),
        w.len() * n.len(),
        "one row of values per weight"
    );
    let width = n.len();
    if width == 0 {
        return;
    }
    for (w, values) in w.chunks(KEYS).zip(values.chunks(KEYS * width)) {
        let mut i = 0;
        while i + 64 <= width {
            // SAFETY: NEON is present; channels i .. i + 64 lie in each row of `values` and in `n`.
            unsafe { weighted_sum_tile::<4>(w, values, width, i, &mut n[i..i + 64]) }
            i += 64;
        }
        while i + 16 <= width {
            // SAFETY: NEON is present; channels i .. i + 16 lie in each row of `values` and in `n`.
            unsafe { weighted_sum_tile::<1>(w, values, width, i, &mut n[i..i + 16]) }
            i += 16;
        }
        let rows = || w.iter().zip(values.chunks_exact(width));
        if i < width {
            for (&w, row) in rows() {
                for (n, &v) in n[i..].iter_mut().zip(&row[i..]) {
                    *n += i64::from(w) * i64::from(v);
                }
            }
        }
        // The tiles have read the weight 2^15 as -2^15.
        for (_, row) in rows().filter(|(w, _)| **w == 1 << 15) {
            for (n, &v) in n[..i].iter_mut().zip(row) {
                *n += i64::from(v) << 16;
            }
        }
    }
}

/// Adds the sums over at most 512 keys for 16 * C channels from `first` on, each weight taken as an int16.
///
/// # Safety
/// NEON; `values` holds `w.len()` rows of `width` values, first + 16 * C <= width, `n` is 16 * C long.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn weighted_sum_tile<const C: usize>(
    w: &[u16],
    values: &[i8],
    width: usize,
    first: usize,
    n: &mut [i64],
) {
    debug_assert!(
        w.len() <= KEYS
            && values.len() == w.len() * width
            && first + 16 * C <= width
            && n.len() == 16 * C
    );
    // SAFETY: key s is below w.len() and channels [first + 16c, first + 16c + 16) lie in its row of `values`;
    // stores go to a local array.
    unsafe {
        let mut acc = [[vdupq_n_s32(0); 4]; C];
        for (s, &w) in w.iter().enumerate() {
            let weight = vdupq_n_s16(w as i16);
            let row = values.as_ptr().add(s * width + first);
            for c in 0..C {
                let v = vld1q_s8(row.add(16 * c));
                let (low, high) = (vmovl_s8(vget_low_s8(v)), vmovl_high_s8(v));
                let a = &mut acc[c];
                a[0] = vmlal_s16(a[0], vget_low_s16(low), vget_low_s16(weight));
                a[1] = vmlal_high_s16(a[1], low, weight);
                a[2] = vmlal_s16(a[2], vget_low_s16(high), vget_low_s16(weight));
                a[3] = vmlal_high_s16(a[3], high, weight);
            }
        }
        for (n, acc) in n.chunks_exact_mut(4).zip(acc.as_flattened()) {
            let mut sums = [0i32; 4];
            vst1q_s32(sums.as_mut_ptr(), *acc);
            for (n, sum) in n.iter_mut().zip(sums) {
                *n += i64::from(sum);
            }
        }
    }
}
