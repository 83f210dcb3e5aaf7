//! AVX2.
//!
//! Products of int8 values are taken by widening both sides to int16 and `vpmaddwd`, which adds pairs
//! of products in int32: exact for every int8, -128 included. (`vpmaddubsw` would need the sign trick,
//! which is exact only without -128, and on this tile shape it issues as many instructions.)
//! 64-bit products come from `vpmuldq` and `vpmuludq` on even and odd lanes.
#![allow(unsafe_code)]
// Newer compilers take register-only intrinsics as safe inside a function with the feature.
#![allow(unused_unsafe)]
// Indices name the tile's rows and tokens on both sides of a product.
#![allow(clippy::needless_range_loop)]

use super::super::{Kernels, scalar::rows_of};
use crate::ops::attention::{self, Normalizer, QueryScale};
use crate::ops::dynq::{self, Reciprocal};
use crate::ops::ratio::TokenScale;
use crate::ops::requantize::Channels;
use crate::ops::{hadamard, requantize as requantize_op, rms, swiglu as swiglu_op};
use core::arch::x86_64::*;

/// The table, if this CPU has AVX2. The functions of the table are reachable through it alone.
pub(crate) fn kernels() -> Option<&'static Kernels> {
    std::arch::is_x86_feature_detected!("avx2").then_some(&KERNELS)
}

static KERNELS: Kernels = Kernels {
    name: "avx2",
    gemm,
    weighted_sum,
    max_abs,
    quantize,
    sum_squares,
    requantize,
    add_residual,
    butterflies,
    swiglu,
    narrow,
    log_scores,
    softmax_weights,
};

/// The portable definition compiled with AVX2, where the compiler vectorises it well by itself.
macro_rules! compiled_with_avx2 {
    ($name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?, $body:expr) => {
        fn $name($($arg: $ty),*) $(-> $ret)? {
            #[target_feature(enable = "avx2")]
            unsafe fn inner($($arg: $ty),*) $(-> $ret)? {
                $body
            }
            // SAFETY: `kernels` hands out the table only on a CPU with AVX2.
            unsafe { inner($($arg),*) }
        }
    };
}

compiled_with_avx2!(max_abs(u: &[i32]) -> u32, dynq::max_abs(u));
compiled_with_avx2!(sum_squares(x: &[i32], sh: u32) -> u64, rms::sum_squares(x, sh));
compiled_with_avx2!(add_residual(x: &mut [i32], y: &[i32]), requantize_op::add_residual(x, y));
compiled_with_avx2!(butterflies(x: &mut [i32], size: usize), hadamard::butterflies(x, size));
compiled_with_avx2!(swiglu(g: &[i32], u: &[i32], h: &mut [i64]) -> u64, swiglu_op::swiglu_row(g, u, h));
compiled_with_avx2!(narrow(h: &[i64], c: u32, out: &mut [i32]), swiglu_op::narrow_row(h, c, out));
compiled_with_avx2!(log_scores(scale: QueryScale, dots: &mut [i32], mk: &[u16]) -> i32, scale.log_scores(dots, mk));
compiled_with_avx2!(
    softmax_weights(z: &mut [i32], top: i32, mv: &[u16], w: &mut [u16]) -> Normalizer,
    attention::softmax_weights(z, top, mv, w)
);

/// Rows and tokens of the register tile: 12 accumulators, 3 activations and 1 weight fill the 16 registers.
const ROWS: usize = 4;
const TOKENS: usize = 3;
/// Values a step: 16 int8 widened to one register of int16.
const STEP: usize = 16;
/// How far ahead weights are fetched when each is used once: about the latency of memory at full bandwidth.
const PREFETCH: usize = 4096;

fn gemm(weights: &[i8], cols: usize, x: &[i8], out: &mut [i32]) {
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

fn weighted_sum(w: &[u16], values: &[i8], n: &mut [i64]) {
    assert_eq!(
        values.len(),
        w.len() * n.len(),
        "one row of values per weight"
    );
    let width = n.len();
    for (w, values) in w.chunks(KEYS).zip(values.chunks(KEYS * width.max(1))) {
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
        for (&w, row) in w.iter().zip(values.chunks_exact(width.max(1))) {
            for (n, &v) in n[i..].iter_mut().zip(&row[i..]) {
                *n += i64::from(w) * i64::from(v);
            }
        }
        // `vpmaddwd` reads the weight 2^15 as -2^15.
        for (&w, row) in w.iter().zip(values.chunks_exact(width.max(1))) {
            if w == 1 << 15 {
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

fn quantize(u: &[i32], m: u32, q: &mut [i8]) {
    assert_eq!(u.len(), q.len(), "one code per value");
    if m == 0 {
        q.fill(0);
        return;
    }
    let reciprocal = Reciprocal::new(m);
    let whole = u.len() - u.len() % 32;
    // SAFETY: AVX2 is present; the rows have one length, a multiple of 32.
    unsafe { quantize_32s(&u[..whole], reciprocal, &mut q[..whole]) }
    for (q, &u) in q[whole..].iter_mut().zip(&u[whole..]) {
        *q = reciprocal.quantize(u);
    }
}

/// # Safety
/// AVX2; `u` and `q` have one length, a multiple of 32.
#[target_feature(enable = "avx2")]
unsafe fn quantize_32s(u: &[i32], reciprocal: Reciprocal, q: &mut [i8]) {
    // SAFETY: each step reads 32 values at an offset below the common length and writes 32.
    unsafe {
        let left = _mm_cvtsi32_si128(reciprocal.left as i32);
        let right = _mm_cvtsi32_si128(reciprocal.right as i32);
        let r = _mm256_set1_epi64x(i64::from(reciprocal.r));
        let half = _mm256_set1_epi64x(1 << 46);
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        for at in (0..u.len()).step_by(32) {
            let mut v = [_mm256_setzero_si256(); 4];
            for (i, v) in v.iter_mut().enumerate() {
                let x = _mm256_loadu_si256(u.as_ptr().add(at + 8 * i).cast());
                let a = _mm256_srl_epi32(_mm256_sll_epi32(_mm256_abs_epi32(x), left), right);
                let even = _mm256_add_epi64(_mm256_mul_epu32(a, r), half);
                let odd = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64::<32>(a), r), half);
                // Bits 47 and up of each sum are the code, at most 127.
                let even = _mm256_srli_epi64::<47>(even);
                let odd = _mm256_slli_epi64::<32>(_mm256_srli_epi64::<47>(odd));
                *v = _mm256_sign_epi32(_mm256_or_si256(even, odd), x);
            }
            // Packing works within 128-bit halves; `order` puts the groups of four back in sequence.
            let packed = _mm256_packs_epi16(
                _mm256_packs_epi32(v[0], v[1]),
                _mm256_packs_epi32(v[2], v[3]),
            );
            let packed = _mm256_permutevar8x32_epi32(packed, order);
            _mm256_storeu_si256(q.as_mut_ptr().add(at).cast(), packed);
        }
    }
}

fn requantize(row: &mut [i32], scale: Option<TokenScale>, channels: Channels<'_>) {
    let whole = row.len() - row.len() % 8;
    assert!(
        row.len() == channels.mult.len() && row.len() == channels.shift.len(),
        "one multiplier and shift per output"
    );
    let end = row.len();
    // SAFETY: AVX2 is present; row and constants have one length, a multiple of 8.
    unsafe { requantize_8s(&mut row[..whole], scale, channels.part(0..whole)) }
    requantize_op::requantize_row(&mut row[whole..], scale, channels.part(whole..end));
}

/// # Safety
/// AVX2; the row and the constants have one length, a multiple of 8.
#[target_feature(enable = "avx2")]
unsafe fn requantize_8s(row: &mut [i32], scale: Option<TokenScale>, channels: Channels<'_>) {
    // SAFETY: each step touches 8 elements at an offset below the common length.
    unsafe {
        let Channels {
            mult,
            shift,
            left,
            limit,
        } = channels;
        let left = _mm_cvtsi32_si128(left as i32);
        let token = scale.map(|s| _mm256_set1_epi32(s.mantissa));
        let te = _mm256_set1_epi32(scale.map_or(0, |s| s.exponent));
        let (zero, one) = (_mm256_setzero_si256(), _mm256_set1_epi32(1));
        let i31 = _mm256_set1_epi32(i32::MAX);
        let limit = _mm256_set1_epi32(limit);
        for at in (0..row.len()).step_by(8) {
            let mut a = _mm256_sll_epi32(_mm256_loadu_si256(row.as_ptr().add(at).cast()), left);
            if let Some(token) = token {
                a = srdhm(a, token);
            }
            a = srdhm(a, _mm256_loadu_si256(mult.as_ptr().add(at).cast()));
            let e = _mm256_add_epi32(
                _mm256_cvtepi8_epi32(_mm_loadl_epi64(shift.as_ptr().add(at).cast())),
                te,
            );
            // The rest is symmetric in the sign. Right by max(e, 0): |a| + 2^(e-1) < 2^32, and a count of
            // 32 or more gives 0, as |a| < 2^31 is below half of 2^32.
            let right = _mm256_max_epi32(e, zero);
            let half = _mm256_srli_epi32::<1>(_mm256_sllv_epi32(one, right));
            let mut m = _mm256_srlv_epi32(_mm256_add_epi32(_mm256_abs_epi32(a), half), right);
            // Left by max(-e, 0): fits int32 exactly if m <= floor((2^31 - 1) / 2^-e), else saturates.
            let up = _mm256_max_epi32(_mm256_sub_epi32(zero, e), zero);
            let over = _mm256_cmpgt_epi32(m, _mm256_srlv_epi32(i31, up));
            m = _mm256_blendv_epi8(_mm256_sllv_epi32(m, up), i31, over);
            let y = _mm256_sign_epi32(_mm256_min_epi32(m, limit), a);
            _mm256_storeu_si256(row.as_mut_ptr().add(at).cast(), y);
        }
    }
}

/// srdhm of eight pairs, none of them (-2^31, -2^31).
///
/// # Safety
/// AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn srdhm(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: register-only instructions of the enabled feature.
    unsafe {
        let half = _mm256_set1_epi64x(1 << 30);
        let even = _mm256_add_epi64(_mm256_mul_epi32(a, b), half);
        let odd = _mm256_add_epi64(
            _mm256_mul_epi32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b)),
            half,
        );
        // Bits 31 to 62 of each sum, moved to the low half of even lanes and the high half of odd ones.
        _mm256_blend_epi32::<0b1010_1010>(
            _mm256_srli_epi64::<31>(even),
            _mm256_slli_epi64::<1>(odd),
        )
    }
}
