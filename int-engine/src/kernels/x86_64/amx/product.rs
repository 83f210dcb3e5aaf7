//! A product in blocks of two tiles of rows by two of tokens.
//!
//! The unit works while the vector units requantise: each step of a block is followed by some outputs of the block before,
//! whose sums wait in memory.
#![allow(unsafe_code)]
// Register-only intrinsics are safe inside a function with the feature.
#![allow(unused_unsafe)]
// As in `avx512`.
#![allow(clippy::incompatible_msrv)]

use super::super::avx512::rows::{Constants, Requantizer, lanes};
use super::{BYTES, COLS, GROUPS, TOKENS, clear};
use crate::ops::ratio::TokenScale;
use crate::ops::requantize::Channels;
use crate::tiles::{LINE, TILE};
use core::arch::asm;
use core::arch::x86_64::*;

/// Sums are stored as they are.
pub(super) const SUMS: u8 = 0;
/// Sums are requantised without scales of the tokens.
pub(super) const PLAIN: u8 = 1;
/// Sums are requantised with them.
pub(super) const SCALED: u8 = 2;

/// Rows and tokens of a block.
const ROWS: usize = 2 * TILE;
const BLOCK: usize = 2 * TOKENS;

/// Bytes of inputs that stay in the first cache beside two tiles of weights.
const NEAR: usize = 1 << 14;

/// A tile in memory.
#[repr(C, align(64))]
struct Tile([i8; BYTES]);

/// The sums of a block, `[tokens][rows]`.
#[repr(C, align(64))]
struct Sums([i32; BLOCK * ROWS]);

/// Loads a tile of memory.
macro_rules! load {
    ($instruction:literal, $tile:tt, $from:expr) => {
        asm!(
            concat!($instruction, " ", $tile, ", [{from} + {line}*1]"),
            from = in(reg) $from,
            line = in(reg) LINE,
            out($tile) _,
            options(nostack, readonly, preserves_flags),
        )
    };
}

/// Adds to a tile of sums the products of a tile of inputs with one of weights.
macro_rules! multiply {
    ($sums:tt, $x:tt, $w:tt) => {
        asm!(
            concat!("tdpbssd ", $sums, ", ", $x, ", ", $w),
            out($sums) _,
            options(nostack, nomem, preserves_flags),
        )
    };
}

/// The operands.
pub(super) struct Product<'a> {
    pub(super) tiles: *const i8,
    pub(super) groups: usize,
    pub(super) rows: usize,
    pub(super) inputs: *const i8,
    /// Bytes of a token.
    pub(super) width: usize,
    pub(super) tokens: usize,
    /// One per token for [`SCALED`].
    pub(super) scales: &'a [TokenScale],
    /// One per row, but for [`SUMS`].
    pub(super) channels: Channels<'a>,
    pub(super) out: *mut i32,
    pub(super) stride: usize,
}

/// Tiles of a block.
#[derive(Clone, Copy)]
struct Block {
    row: usize,
    token: usize,
    /// Whether there is a second tile of rows, and of tokens.
    rows: bool,
    tokens: bool,
}

/// Sums that wait for what becomes of them.
#[derive(Clone, Copy)]
struct Waiting {
    /// [`Sums`].
    sums: *const i32,
    /// Of the first row.
    row: usize,
    /// Of the first sums, and of those that are next.
    first: usize,
    token: usize,
    /// After the last.
    end: usize,
    masks: [u16; 2],
    constants: [Constants; 2],
}

/// Where the tiles of a step begin; the second ones are used only where there is a second tile.
#[derive(Clone, Copy)]
struct Operands {
    x: [*const i8; 2],
    w: [*const i8; 2],
}

impl Product<'_> {
    /// Makes the product; `END`: what becomes of the sums.
    ///
    /// # Safety
    /// The features; the unit is configured; valid operands.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    pub(super) unsafe fn run<const END: u8>(&self) {
        let mut memory = Sums([0; BLOCK * ROWS]);
        // SAFETY: the caller's; a tile of rows and one of tokens begin at each block. The steps of a block take all sums
        // that wait, before its own are stored in their place; whole tiles lie within the output.
        unsafe {
            let sums = memory.0.as_mut_ptr();
            let mut waiting = self.waiting::<END>(sums, 0, 0..0);
            for row in (0..self.rows).step_by(ROWS) {
                // The tiles that follow in memory, if there are any: a request of any address is harmless.
                let mut next = self
                    .tiles
                    .wrapping_add((row / TILE + 2) * self.groups * LINE);
                for token in (0..self.tokens).step_by(BLOCK) {
                    let block = Block {
                        row,
                        token,
                        rows: row + TILE < self.rows,
                        tokens: token + TOKENS < self.tokens,
                    };
                    next = self.block::<END>(block, next, &mut waiting);
                    let end = self.tokens.min(token + BLOCK);
                    let whole = (self.rows - row).min(ROWS) % TILE + (end - token) % TOKENS == 0;
                    if END == SUMS && whole {
                        store(block, self.out.add(token * self.stride + row), self.stride);
                        continue;
                    }
                    store(block, sums, ROWS);
                    waiting = self.waiting::<END>(sums, row, token..end);
                }
            }
            self.finish::<END>(&mut waiting, BLOCK);
        }
    }

    /// The sums of two tiles of rows from `row` with these tokens.
    ///
    /// # Safety
    /// The features; valid operands.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn waiting<const END: u8>(
        &self,
        sums: *const i32,
        row: usize,
        tokens: core::ops::Range<usize>,
    ) -> Waiting {
        let masks = [row, row + TILE].map(|row| lanes(self.rows.saturating_sub(row)));
        let load = |i: usize| {
            if END == SUMS || masks[i] == 0 {
                // SAFETY: no constants are read.
                return unsafe { Constants::load(self.channels, 0, 0) };
            }
            // SAFETY: the caller's; the mask is that of the rows that there are.
            unsafe { Constants::load(self.channels, row + i * TILE, masks[i]) }
        };
        Waiting {
            sums,
            row,
            first: tokens.start,
            token: tokens.start,
            end: tokens.end,
            masks,
            constants: [load(0), load(1)],
        }
    }

    /// Writes the outputs of at most so many of the tokens that wait.
    ///
    /// # Safety
    /// The features; valid operands.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn finish<const END: u8>(&self, waiting: &mut Waiting, tokens: usize) {
        let end = waiting.end.min(waiting.token + tokens);
        while waiting.token < end {
            let at = (waiting.token - waiting.first) * ROWS;
            // SAFETY: the caller's; the sums of the token lie in the memory of the block, and stores are masked to the
            // rows that there are.
            unsafe {
                let out = self.out.add(waiting.token * self.stride + waiting.row);
                let scale = match END {
                    SCALED => *self.scales.get_unchecked(waiting.token),
                    _ => TokenScale::default(),
                };
                let requantizer = Requantizer::new(self.channels, scale);
                for i in 0..2 {
                    let sums = _mm512_load_si512(waiting.sums.add(at + i * TILE).cast());
                    let y = match END {
                        SUMS => sums,
                        PLAIN => requantizer.outputs::<false>(sums, waiting.constants[i]),
                        _ => requantizer.outputs::<true>(sums, waiting.constants[i]),
                    };
                    _mm512_mask_storeu_epi32(out.wrapping_add(i * TILE), waiting.masks[i], y);
                }
            }
            waiting.token += 1;
        }
    }

    /// Leaves the sums of a block in tmm0 to tmm3, `[2][2]`, and writes outputs of the block before. Requests lines from
    /// `next` on, and returns where the requests end.
    ///
    /// # Safety
    /// The features; the unit is configured; valid operands; each tile begins before the end.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn block<const END: u8>(
        &self,
        block: Block,
        next: *const i8,
        waiting: &mut Waiting,
    ) -> *const i8 {
        let (whole, rest) = (self.groups / GROUPS, self.groups % GROUPS);
        let tile = self.groups * LINE;
        let w = self.tiles.wrapping_add(block.row / TILE * tile);
        let x = self.inputs.wrapping_add(block.token * self.width);
        let mut at = Operands {
            x: [x, x.wrapping_add(TOKENS * self.width)],
            w: [w, w.wrapping_add(tile)],
        };
        let blocks = self.tokens.div_ceil(BLOCK);
        let lines = (2 * GROUPS).div_ceil(blocks);
        let share = (waiting.end - waiting.token).div_ceil(self.groups.div_ceil(GROUPS));
        let mut next = next;
        // SAFETY: the caller's; `whole` steps of every tile in use lie in memory. The rest of a tile of weights is
        // copied to a tile filled up with zeros, and inputs are filled up with zeros.
        unsafe {
            clear();
            for _ in 0..whole {
                self.step::<END>(block, at, waiting, share);
                at.x = at.x.map(|x| x.wrapping_add(TOKENS * COLS));
                at.w = at.w.map(|w| w.wrapping_add(BYTES));
                for i in 0..lines {
                    _mm_prefetch::<_MM_HINT_T1>(next.wrapping_add(i * LINE));
                }
                next = next.wrapping_add(lines * LINE);
            }
            if rest > 0 {
                let mut ends = [const { Tile([0; BYTES]) }; 2];
                for (end, w) in ends.iter_mut().zip(at.w).take(1 + usize::from(block.rows)) {
                    core::ptr::copy_nonoverlapping(w, end.0.as_mut_ptr(), rest * LINE);
                }
                at.w = [ends[0].0.as_ptr(), ends[1].0.as_ptr()];
                self.step::<END>(block, at, waiting, share);
            }
        }
        next
    }

    /// Adds a tile of columns to the sums and writes the outputs of `share` tokens that wait.
    ///
    /// What other blocks use again shall stay in the first cache: the weights, if there are several blocks of tokens, and
    /// the inputs, if they are few. The others are loaded with `tileloaddt1`, which leaves it alone.
    ///
    /// # Safety
    /// The features; the unit is configured; valid operands; a tile lies behind each pointer in use.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn step<const END: u8>(
        &self,
        block: Block,
        at: Operands,
        waiting: &mut Waiting,
        share: usize,
    ) {
        let blocks = self.tokens > BLOCK;
        let streamed = blocks && self.tokens * self.width > NEAR;
        // SAFETY: the caller's.
        unsafe {
            if streamed {
                load!("tileloaddt1", "tmm4", at.x[0]);
            } else {
                load!("tileloadd", "tmm4", at.x[0]);
            }
            if blocks {
                load!("tileloadd", "tmm6", at.w[0]);
            } else {
                load!("tileloaddt1", "tmm6", at.w[0]);
            }
            multiply!("tmm0", "tmm4", "tmm6");
            if block.rows {
                if blocks {
                    load!("tileloadd", "tmm7", at.w[1]);
                } else {
                    load!("tileloaddt1", "tmm7", at.w[1]);
                }
                multiply!("tmm1", "tmm4", "tmm7");
            }
            self.finish::<END>(waiting, share.div_ceil(2));
            if block.tokens {
                if streamed {
                    load!("tileloaddt1", "tmm5", at.x[1]);
                } else {
                    load!("tileloadd", "tmm5", at.x[1]);
                }
                multiply!("tmm2", "tmm5", "tmm6");
                if block.rows {
                    multiply!("tmm3", "tmm5", "tmm7");
                }
            }
            self.finish::<END>(waiting, share / 2);
        }
    }
}

/// Stores tmm0 to tmm3, those that the block has, to `[tokens][rows]`, tokens `stride` elements apart.
///
/// # Safety
/// The unit is configured; the memory is writable.
unsafe fn store(block: Block, to: *mut i32, stride: usize) {
    macro_rules! store {
        ($tile:literal, $offset:expr) => {
            asm!(
                concat!("tilestored [{to} + {stride}*4], ", $tile),
                to = in(reg) to.wrapping_add($offset),
                stride = in(reg) stride,
                options(nostack, preserves_flags),
            )
        };
    }
    // SAFETY: the caller's.
    unsafe {
        store!("tmm0", 0);
        if block.rows {
            store!("tmm1", TILE);
        }
        if block.tokens {
            store!("tmm2", TOKENS * stride);
            if block.rows {
                store!("tmm3", TOKENS * stride + TILE);
            }
        }
    }
}
