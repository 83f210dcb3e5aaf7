//! Sums of products of int8 values.
//!
//! A register holds four columns of eight rows, and a group of an input is broadcast to all lanes. `vpmaddubsw` takes
//! one side unsigned, so one side gives its magnitudes and its signs go to the other; two products of magnitude at most
//! 127^2 sum to at most 32258 < 2^15, so it does not saturate (spec 0.1: -128 is no stored value). `vpmaddwd` with ones
//! adds the pairs in int32.
#![allow(unsafe_code)]
// Newer compilers take register-only intrinsics as safe inside a function with the feature.
#![allow(unused_unsafe)]
// Indices name the registers of a tile and the tokens on both sides of a product.
#![allow(clippy::needless_range_loop)]

use super::super::super::blocks::{self, Block, LINE, Sums, group_weights};
use super::super::super::operands::{Inputs, Out, Values};
use crate::tiles::{GROUP, TILE, View};
use core::arch::x86_64::*;

/// Rows of a register.
const LANES: usize = 8;
/// How far ahead weights are fetched when each is used once: about the latency of memory at full bandwidth.
const PREFETCH: usize = 4096;

pub(super) fn gemm(weights: View<'_>, inputs: Inputs<'_>, out: Out<'_>) {
    blocks::each(weights, inputs, out, 0, |block| {
        // SAFETY: AVX2 is present (see `kernels`), and a block's sums are there to be written.
        unsafe { product(block) }
    });
}

/// # Safety
/// AVX2; the sums of the block are writable.
#[target_feature(enable = "avx2")]
unsafe fn product(block: Block<'_>) {
    // SAFETY: the tokens of each part are those of the block.
    unsafe {
        match (block.tokens, block.once) {
            (1, _) => one_token(block),
            (2, true) => part::<2, true>(block, 0),
            (2, false) => part::<2, false>(block, 0),
            (3, true) => part::<3, true>(block, 0),
            (3, false) => part::<3, false>(block, 0),
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
                    8 => part::<4, false>(block, 4),
                    _ => {}
                }
            }
        }
    }
}

/// A tile against the one token of a block: magnitudes are those of the input, which both registers of a line share.
///
/// # Safety
/// AVX2; the sums of the block are writable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn one_token(block: Block<'_>) {
    let (w, x) = (block.tile.as_ptr(), block.inputs.as_ptr());
    debug_assert!(block.tile.len() == block.groups * LINE);
    debug_assert!(block.inputs.len() == block.groups * GROUP);
    // SAFETY: line g and group g are below `groups`; a prefetch may name any address.
    unsafe {
        let ones = _mm256_set1_epi16(1);
        let mut acc = [[_mm256_setzero_si256()]; 2];
        for g in 0..block.groups {
            let line = w.add(g * LINE);
            _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(PREFETCH));
            let x = broadcast(x.add(g * GROUP));
            let magnitudes = _mm256_abs_epi8(x);
            for v in 0..2 {
                let w = _mm256_loadu_si256(line.add(v * LINE / 2).cast());
                let pairs = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(w, x));
                acc[v][0] = _mm256_add_epi32(acc[v][0], _mm256_madd_epi16(pairs, ones));
            }
        }
        store(&acc, block.sums);
    }
}

/// A tile against T tokens of a block from `first` on: magnitudes are those of the weights, which all tokens share.
/// FETCH asks for weights ahead of their use. For T = 4 there are 8 accumulators, 2 weights, 2 magnitudes, the ones, an
/// input and a product, within the 16 registers.
///
/// # Safety
/// AVX2; the sums of the block are writable, first + T <= its tokens.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn part<const T: usize, const FETCH: bool>(block: Block<'_>, first: usize) {
    debug_assert!(block.tile.len() == block.groups * LINE && first + T <= block.tokens);
    debug_assert!(block.inputs.len() == block.groups * block.tokens * GROUP);
    // SAFETY: line g and group g are below `groups`, token first + t is one of the block's; a prefetch may name any
    // address.
    unsafe {
        let (w, x) = (
            block.tile.as_ptr(),
            block.inputs.as_ptr().add(first * GROUP),
        );
        let ones = _mm256_set1_epi16(1);
        let mut acc = [[_mm256_setzero_si256(); T]; 2];
        for g in 0..block.groups {
            let line = w.add(g * LINE);
            if FETCH {
                _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(PREFETCH));
            }
            let w = [0, 1].map(|v| _mm256_loadu_si256(line.add(v * LINE / 2).cast()));
            let magnitudes = w.map(|w| _mm256_abs_epi8(w));
            let group = x.add(g * block.tokens * GROUP);
            for t in 0..T {
                let x = broadcast(group.add(t * GROUP));
                for v in 0..2 {
                    let pairs = _mm256_maddubs_epi16(magnitudes[v], _mm256_sign_epi8(x, w[v]));
                    acc[v][t] = _mm256_add_epi32(acc[v][t], _mm256_madd_epi16(pairs, ones));
                }
            }
        }
        store(&acc, block.sums.after(first));
    }
}

/// A group of inputs in every lane.
///
/// # Safety
/// AVX2; four values are readable at `x`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn broadcast(x: *const i8) -> __m256i {
    // SAFETY: as the caller promises.
    unsafe { _mm256_set1_epi32(x.cast::<i32>().read_unaligned()) }
}

/// Stores the sums of a tile's rows with T tokens.
///
/// # Safety
/// AVX2; the sums of T tokens are writable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store<const T: usize>(acc: &[[__m256i; T]; 2], sums: Sums) {
    for t in 0..T {
        let to = sums.after(t).start;
        // SAFETY: the sums of 16 rows are writable, or else those of a buffer, of which the rows that there are are
        // copied.
        unsafe {
            if sums.rows == TILE {
                _mm256_storeu_si256(to.cast(), acc[0][t]);
                _mm256_storeu_si256(to.add(LANES).cast(), acc[1][t]);
            } else {
                let mut buffer = [0i32; TILE];
                _mm256_storeu_si256(buffer.as_mut_ptr().cast(), acc[0][t]);
                _mm256_storeu_si256(buffer.as_mut_ptr().add(LANES).cast(), acc[1][t]);
                core::ptr::copy_nonoverlapping(buffer.as_ptr(), to, sums.rows);
            }
        }
    }
}

/// Channels of a register of values, four keys each, widened to int16.
const CHANNELS: usize = 4;

pub(super) fn weighted_sum(w: &[u16], values: Values<'_>, n: &mut [i64]) {
    blocks::weighted_sum(w, values, n, CHANNELS, |w, values, width, n| {
        let mut first = 0;
        while first < n.len() {
            let left = n.len() - first;
            let n = &mut n[first..];
            // SAFETY: AVX2 is present (see `kernels`); the channels from `first` on are among the `width` of `values`.
            first += unsafe {
                if left >= 8 * CHANNELS {
                    channels::<8>(w, values, width, first, n)
                } else if left >= 2 * CHANNELS {
                    channels::<2>(w, values, width, first, n)
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
/// AVX2; `values` is the groups of `w`, each of `width` channels, and first + 4 * C <= width.
#[target_feature(enable = "avx2")]
unsafe fn channels<const C: usize>(
    w: &[u16],
    values: &[i8],
    width: usize,
    first: usize,
    n: &mut [i64],
) -> usize {
    debug_assert!(values.len() == w.len().div_ceil(GROUP) * GROUP * width);
    debug_assert!(first + CHANNELS * C <= width && n.len() >= CHANNELS * C);
    // SAFETY: the channels lie in each group of `values`; a group's weights are read from a local array; sums are
    // stored to one.
    unsafe {
        let mut acc = [_mm256_setzero_si256(); C];
        for (group, w) in w.chunks(GROUP).enumerate() {
            let weights = group_weights(w);
            let weights = _mm256_set1_epi64x(weights.as_ptr().cast::<i64>().read_unaligned());
            let values = values.as_ptr().add((group * width + first) * GROUP);
            for c in 0..C {
                let v = _mm_loadu_si128(values.add(c * CHANNELS * GROUP).cast());
                let products = _mm256_madd_epi16(_mm256_cvtepi8_epi16(v), weights);
                acc[c] = _mm256_add_epi32(acc[c], products);
            }
        }
        for (n, acc) in n.chunks_exact_mut(CHANNELS).zip(acc) {
            // Two sums a channel.
            let mut sums = [0i32; 2 * CHANNELS];
            _mm256_storeu_si256(sums.as_mut_ptr().cast(), acc);
            for (n, sums) in n.iter_mut().zip(sums.chunks_exact(2)) {
                *n += i64::from(sums[0]) + i64::from(sums[1]);
            }
        }
    }
    CHANNELS * C
}
