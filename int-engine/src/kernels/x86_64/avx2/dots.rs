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

use super::super::super::operands::{BLOCK, Inputs, Out};
use super::super::super::scalar::check;
use crate::tiles::{GROUP, TILE, View};
use core::arch::x86_64::*;

/// Rows of a register.
const LANES: usize = 8;
/// Bytes of one group of columns of a tile, a cache line.
const LINE: usize = TILE * GROUP;
/// How far ahead weights are fetched when each is used once: about the latency of memory at full bandwidth.
const PREFETCH: usize = 4096;

/// Where the sums of some rows go.
#[derive(Clone, Copy)]
struct Sums {
    /// Of the first row and token.
    start: *mut i32,
    /// From a token to the next.
    stride: usize,
    /// At most those of the registers in use.
    rows: usize,
}

pub(super) fn gemm(weights: View<'_>, inputs: Inputs<'_>, out: Out<'_>) {
    check(weights, inputs, &out);
    // SAFETY: AVX2 is present (see `kernels`), and the operands fit together.
    unsafe { products(weights, inputs, out) }
}

/// # Safety
/// AVX2; the operands fit together.
#[target_feature(enable = "avx2")]
unsafe fn products(weights: View<'_>, inputs: Inputs<'_>, mut out: Out<'_>) {
    let groups = weights.groups();
    let tiles = weights.data().chunks_exact(groups * LINE);
    for (tile, row) in tiles.zip((0..).step_by(TILE)) {
        let mut first = 0;
        for (tokens, block) in inputs.blocks() {
            // SAFETY: `tile` is `groups` lines and `block` `groups` groups of `tokens` tokens; the rows from `row` on
            // and the tokens from `first` on are elements of `out`.
            unsafe {
                let to = Sums {
                    start: out.as_mut_ptr().add(first * out.stride() + row),
                    stride: out.stride(),
                    rows: TILE.min(weights.rows() - row),
                };
                let (w, x) = (tile.as_ptr(), block.as_ptr());
                if tokens == 1 {
                    one_token(w, x, groups, to);
                } else if inputs.tokens() <= BLOCK {
                    several_tokens::<true>(w, x, groups, tokens, to);
                } else {
                    several_tokens::<false>(w, x, groups, tokens, to);
                }
            }
            first += tokens;
        }
    }
}

/// A tile against a token: magnitudes are those of the inputs, which both registers of a line share.
///
/// # Safety
/// AVX2; `w` is a tile of `groups` lines, `x` `groups` groups; the sums go to `to`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn one_token(w: *const i8, x: *const i8, groups: usize, to: Sums) {
    // SAFETY: line g and group g are below `groups`; a prefetch may name any address.
    unsafe {
        let ones = _mm256_set1_epi16(1);
        let mut acc = [[_mm256_setzero_si256()]; 2];
        for g in 0..groups {
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
        store(&acc, to);
    }
}

/// A tile against the 2 to 8 tokens of a block. FETCH asks for weights ahead of their use.
///
/// # Safety
/// AVX2; `w` is a tile of `groups` lines, `x` `groups` groups of `tokens` tokens; the sums go to `to`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn several_tokens<const FETCH: bool>(
    w: *const i8,
    x: *const i8,
    groups: usize,
    tokens: usize,
    to: Sums,
) {
    // SAFETY: the tokens of each part are those of the block.
    unsafe {
        match tokens {
            2 => part::<2, FETCH>(w, x, groups, 2, to),
            3 => part::<3, FETCH>(w, x, groups, 3, to),
            _ => {
                part::<4, FETCH>(w, x, groups, tokens, to);
                let to = Sums {
                    start: to.start.wrapping_add(4 * to.stride),
                    ..to
                };
                let x = x.add(4 * GROUP);
                match tokens {
                    5 => part::<1, false>(w, x, groups, 5, to),
                    6 => part::<2, false>(w, x, groups, 6, to),
                    7 => part::<3, false>(w, x, groups, 7, to),
                    8 => part::<4, false>(w, x, groups, 8, to),
                    _ => {}
                }
            }
        }
    }
}

/// A tile against T consecutive tokens of a block of `tokens`: magnitudes are those of the weights, which all tokens
/// share. 8 accumulators, 2 weights, their magnitudes, the ones and the input fit the 16 registers.
///
/// # Safety
/// AVX2; `w` is a tile of `groups` lines, `x` the first of the T tokens in the first group; the sums go to `to`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn part<const T: usize, const FETCH: bool>(
    w: *const i8,
    x: *const i8,
    groups: usize,
    tokens: usize,
    to: Sums,
) {
    // SAFETY: line g and group g are below `groups`, token t is below T; a prefetch may name any address.
    unsafe {
        let ones = _mm256_set1_epi16(1);
        let mut acc = [[_mm256_setzero_si256(); T]; 2];
        for g in 0..groups {
            let line = w.add(g * LINE);
            if FETCH {
                _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(PREFETCH));
            }
            let w = [0, 1].map(|v| _mm256_loadu_si256(line.add(v * LINE / 2).cast()));
            let magnitudes = w.map(|w| _mm256_abs_epi8(w));
            let group = x.add(g * tokens * GROUP);
            for t in 0..T {
                let x = broadcast(group.add(t * GROUP));
                for v in 0..2 {
                    let pairs = _mm256_maddubs_epi16(magnitudes[v], _mm256_sign_epi8(x, w[v]));
                    acc[v][t] = _mm256_add_epi32(acc[v][t], _mm256_madd_epi16(pairs, ones));
                }
            }
        }
        store(&acc, to);
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
/// AVX2; `to.rows` elements are writable at `to.start` and at each of the T - 1 tokens after it.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store<const T: usize>(acc: &[[__m256i; T]; 2], to: Sums) {
    for t in 0..T {
        // SAFETY: a whole tile's rows are writable at the token, or else the buffer's, of which the rows that there are
        // are copied.
        unsafe {
            let out = to.start.add(t * to.stride);
            if to.rows == TILE {
                _mm256_storeu_si256(out.cast(), acc[0][t]);
                _mm256_storeu_si256(out.add(LANES).cast(), acc[1][t]);
            } else {
                let mut sums = [0i32; TILE];
                _mm256_storeu_si256(sums.as_mut_ptr().cast(), acc[0][t]);
                _mm256_storeu_si256(sums.as_mut_ptr().add(LANES).cast(), acc[1][t]);
                core::ptr::copy_nonoverlapping(sums.as_ptr(), out, to.rows.min(TILE));
            }
        }
    }
}

/// Keys whose weighted values sum within int32: 512 * 2^15 * 127 < 2^31 (spec 1.14).
const KEYS: usize = 512;
/// Channels of a register of values, four keys each, widened to int16.
const CHANNELS: usize = 4;

pub(super) fn weighted_sum(w: &[u16], values: &[i8], n: &mut [i64]) {
    let width = n.len();
    assert_eq!(
        values.len(),
        w.len().div_ceil(GROUP) * GROUP * width,
        "whole groups of values, one value per weight and channel"
    );
    if width == 0 {
        return;
    }
    for (w, values) in w.chunks(KEYS).zip(values.chunks(KEYS * width)) {
        let whole = width - width % CHANNELS;
        let mut first = 0;
        while first < whole {
            let left = whole - first;
            // SAFETY: AVX2 is present (see `kernels`); `values` is the groups of `w` of `width` channels, among them
            // those from `first` on.
            unsafe {
                if left >= 8 * CHANNELS {
                    channels::<8>(w, values, width, first, &mut n[first..]);
                    first += 8 * CHANNELS;
                } else if left >= 2 * CHANNELS {
                    channels::<2>(w, values, width, first, &mut n[first..]);
                    first += 2 * CHANNELS;
                } else {
                    channels::<1>(w, values, width, first, &mut n[first..]);
                    first += CHANNELS;
                }
            }
        }
        let groups = || w.chunks(GROUP).zip(values.chunks_exact(GROUP * width));
        if whole < width {
            for (w, values) in groups() {
                let values = values[whole * GROUP..].chunks_exact(GROUP);
                for (n, values) in n[whole..].iter_mut().zip(values) {
                    for (&w, &v) in w.iter().zip(values) {
                        *n += i64::from(w) * i64::from(v);
                    }
                }
            }
        }
        // `vpmaddwd` has read the weight 2^15 as -2^15.
        if w.contains(&(1 << 15)) {
            for (w, values) in groups() {
                for (s, _) in w.iter().enumerate().filter(|(_, w)| **w == 1 << 15) {
                    for (n, values) in n[..whole].iter_mut().zip(values.chunks_exact(GROUP)) {
                        *n += i64::from(values[s]) << 16;
                    }
                }
            }
        }
    }
}

/// Adds the sums over at most 512 keys for 4 * C channels from `first` on, each weight taken as an int16.
///
/// # Safety
/// AVX2; `values` holds the groups of `w`, each of `width` channels, and first + 4 * C <= width.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn channels<const C: usize>(
    w: &[u16],
    values: &[i8],
    width: usize,
    first: usize,
    n: &mut [i64],
) {
    debug_assert!(
        w.len() <= KEYS
            && values.len() == w.len().div_ceil(GROUP) * GROUP * width
            && first + CHANNELS * C <= width
            && n.len() >= CHANNELS * C
    );
    // SAFETY: the channels lie in each group of `values`; the weights of a group are read from a local array; sums are
    // stored to one.
    unsafe {
        let mut acc = [_mm256_setzero_si256(); C];
        for (group, w) in w.chunks(GROUP).enumerate() {
            let mut weights = [0u16; GROUP];
            if let Ok(w) = <[u16; GROUP]>::try_from(w) {
                weights = w;
            } else {
                weights[..w.len()].copy_from_slice(w);
            }
            let weights = _mm256_set1_epi64x(weights.as_ptr().cast::<i64>().read_unaligned());
            let row = values.as_ptr().add((group * width + first) * GROUP);
            for c in 0..C {
                let v = _mm_loadu_si128(row.add(c * CHANNELS * GROUP).cast());
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
}
