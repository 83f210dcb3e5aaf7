//! What backends with registers of their own share: the walk over tiles and blocks of tokens, and the parts of a
//! weighted sum that fill no register.

use super::operands::{BLOCK, Form, Inputs, Out, Values};
use super::scalar::{by_pages, check};
pub(super) use crate::tiles::LINE;
use crate::tiles::{GROUP, TILE, View};

/// A tile against the tokens of a block.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    /// `[groups][16][4]`.
    pub(super) tile: &'a [i8],
    /// `[16]`: the sum of each of the tile's rows.
    #[cfg_attr(
        target_arch = "aarch64",
        expect(dead_code, reason = "no input is flipped there")
    )]
    pub(super) totals: &'a [i32],
    /// `[groups][tokens][4]`.
    pub(super) inputs: &'a [i8],
    /// Groups of four columns.
    pub(super) groups: usize,
    /// Tokens, 1 ..= [`BLOCK`].
    pub(super) tokens: usize,
    /// Whether this is the only block, so that each weight is used once.
    #[cfg_attr(
        target_arch = "aarch64",
        expect(dead_code, reason = "nothing is asked for ahead there")
    )]
    pub(super) once: bool,
    /// Where the sums go.
    pub(super) sums: Sums,
}

/// Memory for the sums of a tile's rows with some tokens.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    /// That of the first row with the first token; those of the other rows follow.
    pub(super) start: *mut i32,
    /// From a token to the next.
    pub(super) stride: usize,
    /// Rows that there are, at most 16.
    pub(super) rows: usize,
}

impl Sums {
    /// Those from a later token on.
    #[inline(always)]
    pub(super) fn after(self, tokens: usize) -> Self {
        Self {
            start: self.start.wrapping_add(tokens * self.stride),
            ..self
        }
    }
}

/// Calls `block` for every tile and block of tokens of a product whose inputs are XORed with `flip`. It may write the `rows` sums of each of its tokens.
///
/// # Panics
/// When the operands do not fit together.
#[inline(always)]
pub(super) fn each(
    weights: View<'_>,
    inputs: Inputs<'_>,
    mut out: Out<'_>,
    flip: u8,
    mut block: impl FnMut(Block<'_>),
) {
    check(weights, inputs, &out, Form::Blocks { flip });
    let groups = weights.groups();
    let tiles = weights.data().chunks_exact(groups * LINE);
    let totals = weights.sums().chunks_exact(TILE);
    for ((tile, totals), row) in tiles.zip(totals).zip((0..).step_by(TILE)) {
        let mut sums = Sums {
            start: out.as_mut_ptr().wrapping_add(row),
            stride: out.stride(),
            rows: TILE.min(weights.rows() - row),
        };
        // A tile stays in the first-level cache for all tokens.
        for (tokens, inputs_of_block) in inputs.blocks() {
            block(Block {
                tile,
                totals,
                inputs: inputs_of_block,
                groups,
                tokens,
                once: inputs.tokens() <= BLOCK,
                sums,
            });
            sums = sums.after(tokens);
        }
    }
}

/// A weighted sum whose products read each weight as an int16.
///
/// `channels(w, values, width, n)` adds the sums over the keys of `w`, at most 64, to `n`, which is the longest
/// beginning of the channels that is a multiple of `step`; `values` is `[w.len() / 4][width][4]`. The sums of a page fit
/// int32: 64 * 2^15 * 127 < 2^31.
///
/// # Panics
/// When the lengths do not fit together.
#[inline(always)]
pub(super) fn weighted_sum(
    w: &[u16],
    values: Values<'_>,
    n: &mut [i64],
    step: usize,
    mut channels: impl FnMut(&[u16], &[i8], usize, &mut [i64]),
) {
    let width = values.width();
    let whole = width - width % step;
    by_pages(w, values, n, |w, values, n| {
        channels(w, values, width, &mut n[..whole]);
        let groups = || w.chunks(GROUP).zip(values.chunks_exact(GROUP * width));
        if whole < width {
            for (w, values) in groups() {
                add_channels(w, &values[whole * GROUP..], &mut n[whole..]);
            }
        }
        // The weight 2^15 was read as -2^15.
        if w.contains(&(1 << 15)) {
            for (w, values) in groups() {
                for (s, _) in w.iter().enumerate().filter(|(_, w)| **w == 1 << 15) {
                    for (n, values) in n[..whole].iter_mut().zip(values.chunks_exact(GROUP)) {
                        *n += i64::from(values[s]) << 16;
                    }
                }
            }
        }
    });
}

/// Adds the products of a group's weights to channels that fill no register; `values` `[channels][4]`.
#[inline(always)]
pub(super) fn add_channels(w: &[u16], values: &[i8], n: &mut [i64]) {
    for (n, values) in n.iter_mut().zip(values.chunks_exact(GROUP)) {
        for (&w, &v) in w.iter().zip(values) {
            *n += i64::from(w) * i64::from(v);
        }
    }
}

/// The weights of a group, zeros after the last.
#[inline(always)]
pub(super) fn group_weights(w: &[u16]) -> [u16; GROUP] {
    <[u16; GROUP]>::try_from(w).unwrap_or_else(|_| {
        let mut weights = [0; GROUP];
        weights[..w.len()].copy_from_slice(w);
        weights
    })
}
