//! Weighted sums of values with `vpdpbusd`.
//!
//! A weight, 0 to 2^15, is 256 * high + low. The sums of both halves for a page of 64 keys fit int32, and so does their
//! combination: 64 * 2^15 * 127 < 2^29.
#![allow(unsafe_code)]
// As in the parent.
#![allow(clippy::incompatible_msrv)]
// Register-only intrinsics are safe inside a function with the feature.
#![allow(unused_unsafe)]

use super::super::super::operands::{PAGE, Values};
use crate::tiles::{GROUP, LINE, TILE};
use core::arch::x86_64::*;

/// Rows whose sums are taken together, so that each value is loaded once for both.
const ROWS: usize = 2;
/// Registers of channels whose sums of [`ROWS`] rows are taken together: 16 accumulators.
const REGISTERS: usize = 4;

pub(super) fn weighted_sum(w: &[u16], values: Values<'_>, n: &mut [i64]) {
    let _ = values.rows(w, n);
    n.fill(0);
    let (keys, width) = (values.keys(), values.width());
    if keys == 0 || n.is_empty() {
        return;
    }
    for (w, n) in w.chunks(ROWS * keys).zip(n.chunks_mut(ROWS * width)) {
        // SAFETY: `kernels` hands out the table only on a CPU with these features; `values` holds whole groups for every
        // weight of a row.
        unsafe {
            if w.len() == ROWS * keys {
                rows::<ROWS>(w, values, n);
            } else {
                rows::<1>(w, values, n);
            }
        }
    }
}

/// The sums of MR rows, added to `n`, page after page.
///
/// # Safety
/// The features; `w` `[MR][keys]`, `n` `[MR][width]`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn rows<const MR: usize>(w: &[u16], values: Values<'_>, n: &mut [i64]) {
    let (keys, width) = (values.keys(), values.width());
    let mut halves = [const { Halves::ZERO }; MR];
    for (i, page) in values.pages().iter().enumerate() {
        let (first, end) = (i * PAGE, keys.min((i + 1) * PAGE));
        for (halves, w) in halves.iter_mut().zip(w.chunks_exact(keys)) {
            // SAFETY: the features; at most PAGE weights.
            unsafe { halves.fill(&w[first..end]) };
        }
        let part = Part {
            page,
            // A request of any address is harmless.
            ahead: values.ahead(i).map_or(page.as_ptr(), <[i8]>::as_ptr),
            groups: (end - first).div_ceil(GROUP),
            width,
        };
        let mut at = 0;
        while at < width {
            // SAFETY: the features; the page holds the groups, and so many runs of 16 channels begin below the width.
            unsafe {
                at += TILE
                    * match (width - at).div_ceil(TILE) {
                        1 => part.sum::<MR, 1>(at, &halves, n),
                        2 | 3 => part.sum::<MR, 2>(at, &halves, n),
                        _ => part.sum::<MR, REGISTERS>(at, &halves, n),
                    };
            }
        }
    }
}

/// The low and the high bytes of at most [`PAGE`] weights, four in each element, filled up with zeros.
struct Halves {
    low: [i32; PAGE / GROUP],
    high: [i32; PAGE / GROUP],
}

impl Halves {
    const ZERO: Self = Self {
        low: [0; PAGE / GROUP],
        high: [0; PAGE / GROUP],
    };

    /// # Safety
    /// The features; at most [`PAGE`] weights.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn fill(&mut self, w: &[u16]) {
        let (low, high) = (self.low.as_mut_ptr(), self.high.as_mut_ptr());
        let (first, second) = w.split_at(w.len().min(SPLIT));
        for (i, w) in [first, second].into_iter().enumerate() {
            // SAFETY: two times 32 bytes, 8 elements.
            unsafe {
                let bytes = split(w);
                _mm256_storeu_si256(low.add(8 * i).cast(), bytes[0]);
                _mm256_storeu_si256(high.add(8 * i).cast(), bytes[1]);
            }
        }
    }
}

/// Weights that [`split`] takes.
pub(crate) const SPLIT: usize = 32;

/// The low and the high bytes of at most [`SPLIT`] weights, filled up with zeros.
///
/// # Safety
/// The features.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(crate) unsafe fn split(w: &[u16]) -> [__m256i; 2] {
    debug_assert!(w.len() <= SPLIT);
    // SAFETY: the mask has one bit for each weight.
    unsafe {
        let mask = ((1u64 << w.len()) - 1) as u32;
        let w = _mm512_maskz_loadu_epi16(mask, w.as_ptr().cast());
        let high = _mm512_srli_epi16::<8>(w);
        [_mm512_cvtepi16_epi8(w), _mm512_cvtepi16_epi8(high)]
    }
}

/// A page of values.
struct Part<'a> {
    page: &'a [i8],
    /// What is requested from memory meanwhile, line by line.
    ahead: *const i8,
    /// Groups of keys.
    groups: usize,
    width: usize,
}

impl Part<'_> {
    /// Adds the sums of MR rows to at most 16 NV channels from `at` of `n`, `[MR][width]`; returns NV.
    ///
    /// # Safety
    /// The features; the page holds the groups; `at` + 16 (NV - 1) below the width.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn sum<const MR: usize, const NV: usize>(
        &self,
        at: usize,
        halves: &[Halves; MR],
        n: &mut [i64],
    ) -> usize {
        let width = self.width;
        let channels = TILE.min(width - at - (NV - 1) * TILE);
        // All but the last run of channels are whole.
        let last = (u32::from(u16::MAX) >> (TILE - channels)) as u16;
        let mask = |i: usize| if i + 1 == NV { last } else { u16::MAX };
        // SAFETY: loads and stores of the last channels are masked; requests of any address are harmless.
        unsafe {
            let mut sums = [[[_mm512_setzero_si512(); 2]; NV]; MR];
            let mut line = self.page.as_ptr().add(at * GROUP);
            let mut ahead = self.ahead.wrapping_add(at * GROUP);
            for group in 0..self.groups {
                let mut v = [_mm512_setzero_si512(); NV];
                for (i, v) in v.iter_mut().enumerate() {
                    *v = _mm512_maskz_loadu_epi32(mask(i), line.add(i * LINE).cast());
                    _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_add(i * LINE));
                }
                for (sums, halves) in sums.iter_mut().zip(halves) {
                    let low = _mm512_set1_epi32(*halves.low.get_unchecked(group));
                    let high = _mm512_set1_epi32(*halves.high.get_unchecked(group));
                    for (sums, &v) in sums.iter_mut().zip(&v) {
                        sums[0] = _mm512_dpbusd_epi32(sums[0], low, v);
                        sums[1] = _mm512_dpbusd_epi32(sums[1], high, v);
                    }
                }
                line = line.wrapping_add(width * GROUP);
                ahead = ahead.wrapping_add(width * GROUP);
            }
            for (sums, n) in sums.into_iter().zip(n.chunks_exact_mut(width)) {
                for (i, [low, high]) in sums.into_iter().enumerate() {
                    let sum = _mm512_add_epi32(low, _mm512_slli_epi32::<8>(high));
                    let n = n.as_mut_ptr().add(at + i * TILE);
                    let parts = [
                        _mm512_castsi512_si256(sum),
                        _mm512_extracti64x4_epi64::<1>(sum),
                    ];
                    for (half, part) in parts.into_iter().enumerate() {
                        let n = n.wrapping_add(8 * half);
                        let mask = (mask(i) >> (8 * half)) as u8;
                        let old = _mm512_maskz_loadu_epi64(mask, n);
                        let new = _mm512_add_epi64(old, _mm512_cvtepi32_epi64(part));
                        _mm512_mask_storeu_epi64(n, mask, new);
                    }
                }
            }
        }
        NV
    }
}
