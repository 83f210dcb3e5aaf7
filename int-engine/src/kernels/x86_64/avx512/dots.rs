//! Matrix products with `vpdpbusd`.
//!
//! `vpdpbusd` adds to each int32 lane four products of an unsigned byte and a signed one, and wraps: nothing saturates
//! on the way, so a sum is exact whenever its value fits int32, in any order.
//!
//! `gemm`: an input x, -127 to 127, arrives as the unsigned byte x + 128 ([`Inputs`] in blocks, `flip` 0x80), so that
//! `sum w (x + 128) = sum w x + 128 sum w`, and each accumulator starts at minus 128 times its row's sum. Padding columns
//! have weight 0. The result is `sum w x`, |sum| <= 65536 * 127^2 < 2^30.
#![allow(unsafe_code)]
// Compilers before 1.89 do not build for x86-64 with these kernels: their intrinsics are younger than the crate's
// declared version, which the other targets keep.
#![allow(clippy::incompatible_msrv)]
// Register-only intrinsics are safe inside a function with the feature.
#![allow(unused_unsafe)]

use super::super::super::operands::{BLOCK, Form, Inputs, Out};
use super::super::super::scalar;
use crate::tiles::{GROUP, LINE, TILE, View};
use core::arch::x86_64::*;

/// Most tokens of which [`Product::few`] takes all sums of a tile together.
const FEW: usize = 4;
/// Lines between a line in use and the one requested from memory meanwhile, with few tokens.
const AHEAD: usize = 64;
const _: () = assert!(FEW <= BLOCK);
/// Bytes of a matrix that is read so quickly that what follows it is requested meanwhile instead: a page of keys.
const SMALL: usize = 16 << 10;
/// The same within a panel, which has been requested into the second-level cache.
const NEAR: usize = 16;
/// Tiles of a panel: with 8 tokens, 24 accumulators.
const PANEL: usize = 3;
/// Steps of the inner loop together.
const STEPS: usize = 4;

pub(super) fn gemm(weights: View<'_>, inputs: Inputs<'_>, mut out: Out<'_>) {
    scalar::check(weights, inputs, &out, Form::Blocks { flip: 0x80 });
    if inputs.tokens() == 0 {
        return;
    }
    let tiles = weights.rows().div_ceil(TILE);
    assert!(
        weights.data().len() == tiles * weights.groups() * LINE
            && weights.sums().len() == tiles * TILE,
        "whole tiles"
    );
    let product = Product {
        tiles: weights.data().as_ptr(),
        sums: weights.sums().as_ptr(),
        groups: weights.groups(),
        rows: weights.rows(),
        next: weights.next(),
        out: out.as_mut_ptr(),
        stride: out.stride(),
    };
    // SAFETY: `kernels` hands out the table only on a CPU with these features; the pointers are those of slices of whole
    // tiles and of an exclusive output with one element per row and token; packed
    // tokens, of which the first FEW are one block.
    unsafe {
        match (inputs.tokens(), inputs.data().as_ptr()) {
            (1, x) => product.few::<1>(x),
            (2, x) if product.small() => product.few::<2>(x),
            (3, x) if product.small() => product.few::<3>(x),
            (FEW, x) if product.small() => product.few::<FEW>(x),
            _ => product.panels(inputs),
        }
    }
}

/// The operands of `gemm`.
#[derive(Clone, Copy)]
struct Product {
    /// `[rows / 16][groups][16][4]`.
    tiles: *const i8,
    /// Whole tiles.
    sums: *const i32,
    groups: usize,
    rows: usize,
    /// What will be read after the last tile.
    next: *const i8,
    out: *mut i32,
    stride: usize,
}

/// What the inner loop requests from memory, into the second-level cache, while it runs.
#[derive(Clone, Copy)]
struct Request {
    /// Lines that the next panel will read.
    next: *const i8,
    /// How many of them in [`STEPS`] steps.
    lines: usize,
}

/// An expression with the number of tokens of a block, 1 to 8, as a constant.
macro_rules! by_tokens {
    ($tokens:expr, $n:ident => $body:expr) => {
        by_tokens!(@ $tokens, $n => $body, 1 2 3 4 5 6 7)
    };
    (@ $tokens:expr, $n:ident => $body:expr, $($literal:literal)*) => {
        match $tokens {
            $($literal => {
                const $n: usize = $literal;
                $body
            })*
            _ => {
                const $n: usize = BLOCK;
                $body
            }
        }
    };
}

impl Product {
    fn small(&self) -> bool {
        self.rows * self.groups * GROUP <= SMALL
    }

    /// The product with MR tokens, at most [`FEW`], tile after tile in the order of memory.
    ///
    /// # Safety
    /// The features; valid operands of MR tokens, packed at `x`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn few<const MR: usize>(self, x: *const i8) {
        let mut ahead = if self.small() {
            self.next
        } else {
            self.tiles.wrapping_add(AHEAD * LINE)
        };
        // SAFETY: each step reads one line of the tile and one group of each token; the last rows alone are written in
        // part; requests of any address are harmless.
        unsafe {
            let mut line = self.tiles;
            for row in (0..self.rows).step_by(TILE) {
                let sums = _mm512_loadu_si512(self.sums.add(row).cast());
                let zero = _mm512_setzero_si512();
                let start = _mm512_sub_epi32(zero, _mm512_slli_epi32::<7>(sums));
                let mut acc = [[start, zero, zero, zero]; MR];
                let mut x = x;
                for _ in 0..self.groups / STEPS {
                    for u in 0..STEPS {
                        _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_add(u * LINE));
                        add_line(acc.each_mut().map(|acc| &mut acc[u]), line.add(u * LINE), x);
                        x = x.add(MR * GROUP);
                    }
                    line = line.add(STEPS * LINE);
                    ahead = ahead.wrapping_add(STEPS * LINE);
                }
                for _ in 0..self.groups % STEPS {
                    add_line(acc.each_mut().map(|acc| &mut acc[0]), line, x);
                    x = x.add(MR * GROUP);
                    line = line.add(LINE);
                    ahead = ahead.wrapping_add(LINE);
                }
                let rows = TILE.min(self.rows - row);
                let mask = (u32::from(u16::MAX) >> (TILE - rows)) as u16;
                for (m, [a, b, c, d]) in acc.into_iter().enumerate() {
                    let sum = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
                    _mm512_mask_storeu_epi32(self.out.add(m * self.stride + row), mask, sum);
                }
            }
        }
    }

    /// The product with more tokens: each panel meets all of them while it is in the cache.
    ///
    /// # Safety
    /// The features; valid operands.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn panels(self, inputs: Inputs<'_>) {
        let mut row = 0;
        // SAFETY: each call's tiles begin before the last row's end.
        unsafe {
            while row < self.rows {
                match (self.rows - row).div_ceil(TILE) {
                    1 => self.panel::<1>(row, inputs),
                    2 => self.panel::<2>(row, inputs),
                    _ => self.panel::<PANEL>(row, inputs),
                }
                row += PANEL * TILE;
            }
        }
    }

    /// NV tiles from `row` with every token.
    ///
    /// # Safety
    /// The features; valid operands; the last of the tiles begins before the last row's end.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn panel<const NV: usize>(self, row: usize, inputs: Inputs<'_>) {
        let following = row / TILE + NV;
        let mut request = Request {
            // A request of any address is harmless.
            next: if following * TILE < self.rows {
                self.tiles.wrapping_add(following * self.groups * LINE)
            } else {
                self.next
            },
            lines: (STEPS * PANEL).div_ceil(inputs.tokens().div_ceil(BLOCK)),
        };
        let mut first = 0;
        for (tokens, x) in inputs.blocks() {
            let x = x.as_ptr();
            // SAFETY: the caller's; `x` are this block's tokens.
            request.next =
                unsafe { by_tokens!(tokens, N => self.block::<N, NV>(row, first, x, request)) };
            first += tokens;
        }
    }

    /// The sums of MR tokens with NV tiles, those from `row`; returns what [`Request`] continues with.
    ///
    /// # Safety
    /// The features; valid operands; the last of the tiles begins before the last row's end; `x` are the packed tokens from
    /// `first`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn block<const MR: usize, const NV: usize>(
        self,
        row: usize,
        first: usize,
        x: *const i8,
        request: Request,
    ) -> *const i8 {
        // SAFETY: `row` is that of a tile, so NV whole tiles of weights and sums lie behind it; rows of the output are
        // written up to the last alone.
        unsafe {
            let tile = self.groups * LINE;
            let tiles = self.tiles.add(row / TILE * tile);
            let mut acc = [[_mm512_setzero_si512(); NV]; MR];
            for n in 0..NV {
                let sums = _mm512_loadu_si512(self.sums.add(row + n * TILE).cast());
                let start = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32::<7>(sums));
                for acc in &mut acc {
                    acc[n] = start;
                }
            }
            let (acc, next) = steps::<MR, NV>(acc, [tiles, x], tile, self.groups, request);
            for n in 0..NV {
                let rows = TILE.min(self.rows - row - n * TILE);
                let mask = (u32::from(u16::MAX) >> (TILE - rows)) as u16;
                let out = self.out.add(first * self.stride + row + n * TILE);
                for (m, acc) in acc.iter().enumerate() {
                    _mm512_mask_storeu_epi32(out.add(m * self.stride), mask, acc[n]);
                }
            }
            next
        }
    }
}

/// Adds the products of a line of weights with one group of MR tokens.
///
/// # Safety
/// The features; a line, a group of each token.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn add_line<const MR: usize>(acc: [&mut __m512i; MR], line: *const i8, x: *const i8) {
    // SAFETY: reads the line and the group that the caller has.
    unsafe {
        let w = _mm512_loadu_si512(line.cast());
        for (m, acc) in acc.into_iter().enumerate() {
            let x = _mm512_set1_epi32(x.add(m * GROUP).cast::<i32>().read_unaligned());
            *acc = _mm512_dpbusd_epi32(*acc, x, w);
        }
    }
}

/// The inner loop over `groups` groups: NV tiles, `tile` bytes apart, with MR packed tokens; returns the sums and the end of
/// what was requested.
///
/// # Safety
/// The features; `groups` groups at `[tiles, x]`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn steps<const MR: usize, const NV: usize>(
    acc: [[__m512i; NV]; MR],
    [mut tiles, mut x]: [*const i8; 2],
    tile: usize,
    groups: usize,
    request: Request,
) -> ([[__m512i; NV]; MR], *const i8) {
    let (mut acc, mut next) = (acc, request.next);
    // SAFETY: each step reads one line of each tile and one group of each token; requests of any address are harmless.
    unsafe {
        for _ in 0..groups / STEPS {
            for u in 0..STEPS {
                let x = x.add(u * MR * GROUP);
                acc = step::<MR, NV>(acc, tiles.add(u * LINE), tile, x);
            }
            for _ in 0..request.lines {
                _mm_prefetch::<_MM_HINT_T1>(next);
                next = next.wrapping_add(LINE);
            }
            tiles = tiles.add(STEPS * LINE);
            x = x.add(STEPS * MR * GROUP);
        }
        for _ in 0..groups % STEPS {
            acc = step::<MR, NV>(acc, tiles, tile, x);
            tiles = tiles.add(LINE);
            x = x.add(MR * GROUP);
        }
    }
    (acc, next)
}

/// One group. A line [`NEAR`] lines ahead in each tile is requested into the first-level cache.
///
/// # Safety
/// The features; a line of each tile, a group of each token.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn step<const MR: usize, const NV: usize>(
    acc: [[__m512i; NV]; MR],
    tiles: *const i8,
    tile: usize,
    x: *const i8,
) -> [[__m512i; NV]; MR] {
    let mut acc = acc;
    // SAFETY: reads the line and the group that the caller has; requests of any address are harmless; the instruction
    // is one of the features.
    unsafe {
        let mut w = [_mm512_setzero_si512(); NV];
        for (n, w) in w.iter_mut().enumerate() {
            let line = tiles.add(n * tile);
            _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(NEAR * LINE));
            *w = _mm512_loadu_si512(line.cast());
        }
        for (m, acc) in acc.iter_mut().enumerate() {
            let x = _mm512_set1_epi32(x.add(m * GROUP).cast::<i32>().read_unaligned());
            for (acc, &w) in acc.iter_mut().zip(&w) {
                // `_mm512_dpbusd_epi32` as assembly, over which the compiler moves no load: it would else load operands
                // of several steps at once, for which there are no registers.
                core::arch::asm!(
                    "vpdpbusd {acc}, {x}, {w}",
                    acc = inout(zmm_reg) *acc,
                    x = in(zmm_reg) x,
                    w = in(zmm_reg) w,
                    options(nostack, preserves_flags)
                );
            }
        }
    }
    acc
}
