//! Matrix products and weighted sums with `vpdpbusd` on 256 bits.
//!
//! `vpdpbusd` adds to each int32 lane four products of an unsigned byte and a signed one, and wraps: nothing saturates
//! on the way, so a sum is exact whenever its value fits int32, in any order.
//!
//! `gemm`: an input x, -127 to 127, arrives as the unsigned byte x + 128 ([`Inputs`] in blocks, `flip` 0x80), so that
//! `sum w (x + 128) = sum w x + 128 sum w`, and each accumulator starts at minus 128 times its row's sum. Padding columns
//! have weight 0. The result is `sum w x`, |sum| <= 65536 * 127^2 < 2^30.
//!
//! `weighted_sum`: a weight, 0 to 2^15, is 256 * high + low. The sums of both halves fit int32 (at most
//! 32768 * 255 * 127 < 2^31), and so does their combination for [`RUN`] keys: 64 * 2^15 * 127 < 2^31.
#![allow(unsafe_code)]
// Register-only intrinsics are safe inside a function with the feature.
#![allow(unused_unsafe)]
// As in the parent.
#![allow(clippy::incompatible_msrv)]

use super::super::super::blocks::{self, Block, LINE, Sums, add_channels};
use super::super::super::operands::{Inputs, Out, PAGE, Values};
use super::super::super::scalar::by_pages;
use crate::tiles::{GROUP, TILE, View};
use core::arch::x86_64::*;

/// Rows or channels of a register.
const LANES: usize = 8;
/// How far ahead weights are requested when each is used once, in bytes.
const AHEAD: usize = 4096;
/// Steps of the inner loop with independent sums, with a single token.
const STEPS: usize = 4;
/// Keys whose weighted sum is taken in int32; whole groups.
const RUN: usize = PAGE;

pub(super) fn gemm(weights: View<'_>, inputs: Inputs<'_>, out: Out<'_>) {
    blocks::each(weights, inputs, out, 0x80, |block| {
        // SAFETY: the features are present (see `kernels`), and a block's sums are there to be written.
        unsafe { product(block) }
    });
}

/// # Safety
/// The features; the sums of the block are writable.
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn product(block: Block<'_>) {
    // SAFETY: the tokens of each part are those of the block.
    unsafe {
        match (block.tokens, block.once) {
            (1, _) => one_token(block),
            (2, _) => part::<2, true>(block, 0),
            (3, _) => part::<3, true>(block, 0),
            (4, _) => part::<4, true>(block, 0),
            (tokens, once) => {
                if once {
                    part::<4, true>(block, 0);
                } else {
                    part::<4, false>(block, 0);
                }
                match tokens {
                    5 => part::<1, false>(block, 4),
                    6 => part::<2, false>(block, 4),
                    7 => part::<3, false>(block, 4),
                    _ => part::<4, false>(block, 4),
                }
            }
        }
    }
}

/// Where the sums of both halves of a tile's rows start.
///
/// # Safety
/// The features; `totals` is that of a tile.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn start(totals: &[i32]) -> [__m256i; 2] {
    debug_assert_eq!(totals.len(), TILE);
    [0, 1].map(|v| {
        // SAFETY: 16 sums.
        unsafe {
            let totals = _mm256_loadu_si256(totals.as_ptr().add(v * LANES).cast());
            _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32::<7>(totals))
        }
    })
}

/// # Safety
/// The features; the sums of the block are writable.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn one_token(block: Block<'_>) {
    debug_assert!(block.tile.len() == block.groups * LINE);
    debug_assert!(block.inputs.len() == block.groups * GROUP);
    // SAFETY: each step reads a line of the tile and a group of the input; a request may name any address.
    unsafe {
        let (mut line, mut x) = (block.tile.as_ptr(), block.inputs.as_ptr());
        let mut acc = [[_mm256_setzero_si256(); 2]; STEPS];
        acc[0] = start(block.totals);
        for _ in 0..block.groups / STEPS {
            for acc in &mut acc {
                step(acc, line, x);
                (line, x) = (line.add(LINE), x.add(GROUP));
            }
        }
        for _ in 0..block.groups % STEPS {
            step(&mut acc[0], line, x);
            (line, x) = (line.add(LINE), x.add(GROUP));
        }
        let [a, b, c, d] = acc;
        let sums = [0, 1].map(|v| {
            let (low, high) = (_mm256_add_epi32(a[v], b[v]), _mm256_add_epi32(c[v], d[v]));
            _mm256_add_epi32(low, high)
        });
        store(sums, block.sums);
    }
}

/// A line with one token's group.
///
/// # Safety
/// The features; a line and a group are readable.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn step(acc: &mut [__m256i; 2], line: *const i8, x: *const i8) {
    // SAFETY: the caller's; a request may name any address.
    unsafe {
        _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(AHEAD));
        let x = broadcast(x);
        for (v, acc) in acc.iter_mut().enumerate() {
            let w = _mm256_loadu_si256(line.add(v * LINE / 2).cast());
            *acc = _mm256_dpbusd_avx_epi32(*acc, x, w);
        }
    }
}

/// A tile with T tokens of a block from `first` on. `FETCH` requests weights ahead of their use.
///
/// # Safety
/// The features; the sums of the block are writable, first + T <= its tokens.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn part<const T: usize, const FETCH: bool>(block: Block<'_>, first: usize) {
    debug_assert!(block.tile.len() == block.groups * LINE && first + T <= block.tokens);
    debug_assert!(block.inputs.len() == block.groups * block.tokens * GROUP);
    // SAFETY: each step reads a line of the tile and a group of each token; a request may name any address.
    unsafe {
        let (mut line, mut x) = (
            block.tile.as_ptr(),
            block.inputs.as_ptr().add(first * GROUP),
        );
        let mut acc = [start(block.totals); T];
        for _ in 0..block.groups {
            if FETCH {
                _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(AHEAD));
            }
            let w = [0, 1].map(|v| _mm256_loadu_si256(line.add(v * LINE / 2).cast()));
            for (t, acc) in acc.iter_mut().enumerate() {
                let x = broadcast(x.add(t * GROUP));
                for (acc, &w) in acc.iter_mut().zip(&w) {
                    *acc = _mm256_dpbusd_avx_epi32(*acc, x, w);
                }
            }
            // Past the last group it is not read.
            (line, x) = (
                line.wrapping_add(LINE),
                x.wrapping_add(block.tokens * GROUP),
            );
        }
        for (t, acc) in acc.into_iter().enumerate() {
            store(acc, block.sums.after(first + t));
        }
    }
}

/// A group of inputs in every lane.
///
/// # Safety
/// The features; four values are readable at `x`.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn broadcast(x: *const i8) -> __m256i {
    // SAFETY: as the caller promises.
    unsafe { _mm256_set1_epi32(x.cast::<i32>().read_unaligned()) }
}

/// Stores the sums of a tile's rows with one token.
///
/// # Safety
/// The features; the sums are writable.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn store(acc: [__m256i; 2], sums: Sums) {
    // SAFETY: the sums of 16 rows are writable, or else those of a buffer, of which the rows that there are are copied.
    unsafe {
        let mut buffer = [0i32; TILE];
        let whole = sums.rows == TILE;
        let to = if whole {
            sums.start
        } else {
            buffer.as_mut_ptr()
        };
        for (v, acc) in acc.into_iter().enumerate() {
            _mm256_storeu_si256(to.add(v * LANES).cast(), acc);
        }
        if !whole {
            core::ptr::copy_nonoverlapping(buffer.as_ptr(), sums.start, sums.rows);
        }
    }
}

pub(super) fn weighted_sum(w: &[u16], values: Values<'_>, n: &mut [i64]) {
    let width = values.width();
    let whole = width - width % LANES;
    by_pages(w, values, n, |w, values, n| {
        let halves = Halves::of(w);
        let mut first = 0;
        while first < whole {
            // SAFETY: the features are present (see `kernels`); the channels from `first` on are whole registers of the
            // `width` of each group of `values`.
            first += unsafe {
                match (whole - first) / LANES {
                    1 => halves.sum::<1>(values, first, n),
                    2 | 3 => halves.sum::<2>(values, first, n),
                    _ => halves.sum::<4>(values, first, n),
                }
            };
        }
        if whole < width {
            let groups = w.chunks(GROUP).zip(values.chunks_exact(GROUP * width));
            for (w, values) in groups {
                add_channels(w, &values[whole * GROUP..], &mut n[whole..]);
            }
        }
    });
}

/// The low and the high bytes of at most [`RUN`] weights, those of a group together, filled up with zeros.
struct Halves {
    low: [[u8; GROUP]; RUN / GROUP],
    high: [[u8; GROUP]; RUN / GROUP],
    groups: usize,
}

impl Halves {
    fn of(w: &[u16]) -> Self {
        let mut halves = Self {
            low: [[0; GROUP]; RUN / GROUP],
            high: [[0; GROUP]; RUN / GROUP],
            groups: w.len().div_ceil(GROUP),
        };
        let (low, high) = (
            halves.low.as_flattened_mut(),
            halves.high.as_flattened_mut(),
        );
        for ((low, high), w) in low.iter_mut().zip(high).zip(w) {
            [*low, *high] = w.to_le_bytes();
        }
        halves
    }

    /// Adds the sums of 8 NV channels from `first`, whose number it returns.
    ///
    /// # Safety
    /// The features; `values` `[groups][n.len()][4]`; first + 8 NV <= `n.len()`.
    #[target_feature(enable = "avx2,avxvnni")]
    unsafe fn sum<const NV: usize>(&self, values: &[i8], first: usize, n: &mut [i64]) -> usize {
        let width = n.len();
        debug_assert!(first + NV * LANES <= width);
        debug_assert!(values.len() == self.groups * GROUP * width);
        // SAFETY: the channels lie in each group of `values` and in `n`.
        unsafe {
            let mut sums = [[_mm256_setzero_si256(); 2]; NV];
            let halves = self.low[..self.groups].iter().zip(&self.high);
            for (group, (&low, &high)) in halves.enumerate() {
                let [low, high] = [low, high].map(|h| _mm256_set1_epi32(i32::from_ne_bytes(h)));
                let line = values.as_ptr().add((group * width + first) * GROUP);
                for (i, sums) in sums.iter_mut().enumerate() {
                    let v = _mm256_loadu_si256(line.add(i * LANES * GROUP).cast());
                    sums[0] = _mm256_dpbusd_avx_epi32(sums[0], low, v);
                    sums[1] = _mm256_dpbusd_avx_epi32(sums[1], high, v);
                }
            }
            for (i, [low, high]) in sums.into_iter().enumerate() {
                let sum = _mm256_add_epi32(low, _mm256_slli_epi32::<8>(high));
                let parts = [
                    _mm256_castsi256_si128(sum),
                    _mm256_extracti128_si256::<1>(sum),
                ];
                for (half, part) in parts.into_iter().enumerate() {
                    let n: *mut __m256i = n.as_mut_ptr().add(first + i * LANES + 4 * half).cast();
                    let new = _mm256_add_epi64(_mm256_loadu_si256(n), _mm256_cvtepi32_epi64(part));
                    _mm256_storeu_si256(n, new);
                }
            }
        }
        NV * LANES
    }
}
