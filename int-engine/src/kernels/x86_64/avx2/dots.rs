//! Sums of products of int8 values.
//!
//! Both sides are widened to int16 for `vpmaddwd`, which adds pairs of products in int32: exact for every
//! int8, -128 included. (`vpmaddubsw` would need the sign trick, which is exact only without -128, and on
//! this tile shape it issues as many instructions.)
#![allow(unsafe_code)]
// Newer compilers take register-only intrinsics as safe inside a function with the feature.
#![allow(unused_unsafe)]
// Indices name the tile's rows and tokens on both sides of a product.
#![allow(clippy::needless_range_loop)]

use super::super::super::scalar::rows_of;
use core::arch::x86_64::*;

/// Rows and tokens of the register tile: 12 accumulators, 3 activations and 1 weight fill the 16 registers.
const ROWS: usize = 4;
const TOKENS: usize = 3;
/// Values a step: 16 int8 widened to one register of int16.
const STEP: usize = 16;
/// How far ahead weights are fetched when each is used once: about the latency of memory at full bandwidth.
const PREFETCH: usize = 4096;

pub(super) fn gemm(weights: &[i8], cols: usize, x: &[i8], out: &mut [i32]) {
    let (rows, tokens) = rows_of(weights, cols, x, out);
    let whole = rows - rows % ROWS;
    let (w, x, out) = (weights.as_ptr(), x.as_ptr(), out.as_mut_ptr());
    for r in (0..whole).step_by(ROWS) {
        // SAFETY: AVX2 is present (see `kernels`); rows r .. r + 4 and the tokens named by the loop lie within
        // the operands, whose lengths `rows_of` checked, and so do their outputs.
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
/// AVX2; `w` is R rows of `cols` values, `x` `tokens` rows of them, and `out[t * stride + r]` is writable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn row_tile<const R: usize>(
    w: *const i8,
    cols: usize,
    x: *const i8,
    tokens: usize,
    out: *mut i32,
    stride: usize,
) {
    // SAFETY: token t is below `tokens` in each call, so the pointers stay within what the caller promises.
    unsafe {
        if tokens == 1 {
            return tile::<R, 1, true>(w, cols, x, out, stride);
        }
        let mut t = 0;
        while t + TOKENS <= tokens {
            tile::<R, TOKENS, false>(w, cols, x.add(t * cols), out.add(t * stride), stride);
            t += TOKENS;
        }
        match tokens - t {
            1 => tile::<R, 1, false>(w, cols, x.add(t * cols), out.add(t * stride), stride),
            2 => tile::<R, 2, false>(w, cols, x.add(t * cols), out.add(t * stride), stride),
            _ => {}
        }
    }
}

/// R rows against T tokens. FETCH asks for weights ahead of their use.
///
/// # Safety
/// As [`row_tile`], with T tokens.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn tile<const R: usize, const T: usize, const FETCH: bool>(
    w: *const i8,
    cols: usize,
    x: *const i8,
    out: *mut i32,
    stride: usize,
) {
    // SAFETY: loads cover [k, k + 16) with k + 16 <= cols of each row, or a buffer of 16 values that holds
    // the rest; stores are those that the caller allows; a prefetch may name any address.
    unsafe {
        let mut acc = [[_mm256_setzero_si256(); T]; R];
        let whole = cols - cols % STEP;
        let mut k = 0;
        while k < whole {
            let mut xs = [_mm256_setzero_si256(); T];
            for t in 0..T {
                xs[t] = _mm256_cvtepi8_epi16(_mm_loadu_si128(x.add(t * cols + k).cast()));
            }
            for r in 0..R {
                let row = w.add(r * cols + k);
                if FETCH && k % 64 == 0 {
                    _mm_prefetch::<_MM_HINT_T1>(row.wrapping_add(PREFETCH));
                }
                let ws = _mm256_cvtepi8_epi16(_mm_loadu_si128(row.cast()));
                for t in 0..T {
                    acc[r][t] = _mm256_add_epi32(acc[r][t], _mm256_madd_epi16(ws, xs[t]));
                }
            }
            k += STEP;
        }
        if whole < cols {
            for t in 0..T {
                let xs = rest(x.add(t * cols + whole), cols - whole);
                for r in 0..R {
                    let ws = rest(w.add(r * cols + whole), cols - whole);
                    acc[r][t] = _mm256_add_epi32(acc[r][t], _mm256_madd_epi16(ws, xs));
                }
            }
        }
        for t in 0..T {
            if R == 4 {
                // Lane sums of four rows at once.
                let a = _mm256_hadd_epi32(acc[0][t], acc[1 % R][t]);
                let b = _mm256_hadd_epi32(acc[2 % R][t], acc[3 % R][t]);
                let c = _mm256_hadd_epi32(a, b);
                let sums =
                    _mm_add_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256::<1>(c));
                _mm_storeu_si128(out.add(t * stride).cast(), sums);
            } else {
                for r in 0..R {
                    *out.add(t * stride + r) = lane_sum(acc[r][t]);
                }
            }
        }
    }
}

/// The last `len` < 16 values of a row, zeros after them, as int16.
///
/// # Safety
/// AVX2; `p` is readable for `len` values.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn rest(p: *const i8, len: usize) -> __m256i {
    let mut buffer = [0i8; STEP];
    // SAFETY: len < 16 values are readable at `p` and writable in the buffer, which is 16 long.
    unsafe {
        core::ptr::copy_nonoverlapping(p, buffer.as_mut_ptr(), len.min(STEP));
        _mm256_cvtepi8_epi16(_mm_loadu_si128(buffer.as_ptr().cast()))
    }
}

/// # Safety
/// AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn lane_sum(v: __m256i) -> i32 {
    // SAFETY: register-only instructions of the enabled feature.
    unsafe {
        let s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
        let s = _mm_add_epi32(s, _mm_shuffle_epi32::<0b01_00_11_10>(s));
        _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32::<0b10_11_00_01>(s)))
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
            // SAFETY: AVX2 is present; channels i .. i + 64 lie in each row of `values` and in `n`.
            unsafe { weighted_sum_tile::<4>(w, values, width, i, &mut n[i..i + 64]) }
            i += 64;
        }
        while i + 16 <= width {
            // SAFETY: AVX2 is present; channels i .. i + 16 lie in each row of `values` and in `n`.
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
        // `vpmaddwd` has read the weight 2^15 as -2^15.
        if w.contains(&(1 << 15)) {
            for (_, row) in rows().filter(|(w, _)| **w == 1 << 15) {
                for (n, &v) in n[..i].iter_mut().zip(row) {
                    *n += i64::from(v) << 16;
                }
            }
        }
    }
}

/// Adds the sums over at most 512 keys for 16 * C channels from `first` on, each weight taken as an int16.
///
/// # Safety
/// AVX2; `values` holds `w.len()` rows of `width` values, first + 16 * C <= width, `n` is 16 * C long.
#[inline]
#[target_feature(enable = "avx2")]
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
    // the second row of the last odd key is a register of zeros; stores go to a local array.
    unsafe {
        let mut acc = [[_mm256_setzero_si256(); 2]; C];
        let mut s = 0;
        while s < w.len() {
            let pair = s + 1 < w.len();
            let next = if pair { w[s + 1] } else { 0 };
            let weights = _mm256_set1_epi32((u32::from(w[s]) | u32::from(next) << 16) as i32);
            let row = values.as_ptr().add(s * width + first);
            for c in 0..C {
                let a = _mm_loadu_si128(row.add(16 * c).cast());
                let b = if pair {
                    _mm_loadu_si128(row.add(width + 16 * c).cast())
                } else {
                    _mm_setzero_si128()
                };
                let low = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b));
                let high = _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, b));
                acc[c][0] = _mm256_add_epi32(acc[c][0], _mm256_madd_epi16(low, weights));
                acc[c][1] = _mm256_add_epi32(acc[c][1], _mm256_madd_epi16(high, weights));
            }
            s += 2;
        }
        for c in 0..C {
            for half in 0..2 {
                let mut sums = [0i32; 8];
                _mm256_storeu_si256(sums.as_mut_ptr().cast(), acc[c][half]);
                for (n, sum) in n[16 * c + 8 * half..][..8].iter_mut().zip(sums) {
                    *n += i64::from(sum);
                }
            }
        }
    }
}
