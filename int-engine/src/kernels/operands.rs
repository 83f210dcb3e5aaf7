//! The operands of the kernels besides the matrix: packed inputs and a strided output of
//! [`Kernels::gemm`](super::Kernels::gemm) and `linear`, the values of
//! [`Kernels::weighted_sum`](super::Kernels::weighted_sum) in pages.
#![allow(unsafe_code)]

use crate::tiles::GROUP;
use std::marker::PhantomData;
use std::ops::Range;

/// Tokens of a block of packed inputs.
pub const BLOCK: usize = 8;
/// Tokens and columns of a tile of inputs ([`Form::Tiles`]).
pub const INPUT_TILE: [usize; 2] = [16, 64];

/// How a backend's product takes its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Blocks of up to [`BLOCK`] tokens, each `[cols / 4][tokens of the block][4]`, columns filled up with zeros before
    /// every byte is XORed with `flip`: 0x80 where the instructions take unsigned inputs, else 0.
    Blocks {
        /// What each byte is XORed with.
        flip: u8,
    },
    /// `[tokens / 16][cols / 64][16][64]`, tokens and columns filled up with zeros to whole tiles ([`INPUT_TILE`]).
    Tiles,
}

impl Form {
    /// Tokens that are packed together.
    #[must_use]
    pub fn block(self) -> usize {
        match self {
            Self::Blocks { .. } => BLOCK,
            Self::Tiles => INPUT_TILE[0],
        }
    }

    /// Bytes of the packed inputs of `tokens` tokens.
    #[must_use]
    pub fn len(self, tokens: usize, cols: usize) -> usize {
        match self {
            Self::Blocks { .. } => tokens * cols.next_multiple_of(GROUP),
            Self::Tiles => {
                tokens.next_multiple_of(INPUT_TILE[0]) * cols.next_multiple_of(INPUT_TILE[1])
            }
        }
    }

    /// Packs at most [`Form::block`] tokens, `x` `[tokens][cols]`, into the whole of `block`.
    ///
    /// # Panics
    /// When `block` is shorter than the packed tokens.
    pub fn pack_block(self, x: &[i8], cols: usize, block: &mut [i8]) {
        let tokens = x.len() / cols;
        assert!(tokens <= self.block() && block.len() >= self.len(tokens, cols));
        match self {
            Self::Blocks { flip } => pack_groups(x, cols, flip, block),
            Self::Tiles => {
                let [rows, width] = INPUT_TILE;
                let tiles = block[..self.len(tokens, cols)].chunks_exact_mut(rows * width);
                for (i, tile) in tiles.enumerate() {
                    for (t, row) in tile.chunks_exact_mut(width).enumerate() {
                        let x = x.get(t * cols..(t + 1) * cols).unwrap_or(&[]);
                        let x = &x[x.len().min(i * width)..x.len().min((i + 1) * width)];
                        if x.len() == width {
                            row.copy_from_slice(&x[..width]);
                            continue;
                        }
                        row[..x.len()].copy_from_slice(x);
                        row[x.len()..].fill(0);
                    }
                }
            }
        }
    }
}

/// Quantised inputs of several tokens, packed in the [`Form`] of a backend for the product with a matrix in tiles.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    form: Form,
    tokens: usize,
    cols: usize,
    data: &'a [i8],
}

impl<'a> Inputs<'a> {
    /// Bytes that are enough for the packed inputs of `tokens` tokens in any form.
    #[must_use]
    pub fn room(tokens: usize, cols: usize) -> usize {
        Form::Tiles.len(tokens, cols)
    }

    /// Packs `x`, `[tokens][cols]`, into `memory`, of which it takes the first [`Form::len`] bytes.
    ///
    /// # Panics
    /// When `x` is no whole number of rows or `memory` is too short.
    #[must_use]
    pub fn pack(x: &[i8], cols: usize, form: Form, memory: &'a mut [i8]) -> Self {
        let tokens = x.len() / cols;
        assert_eq!(tokens * cols, x.len(), "whole rows");
        let blocks = memory[..form.len(tokens, cols)].chunks_mut(form.len(form.block(), cols));
        for (x, block) in x.chunks(form.block() * cols).zip(blocks) {
            form.pack_block(x, cols, block);
        }
        Self::packed(tokens, cols, form, memory)
    }

    /// Inputs that [`Form::pack_block`] has packed block by block.
    ///
    /// # Panics
    /// When `data` is too short, or there are more than 65536 columns.
    #[must_use]
    pub fn packed(tokens: usize, cols: usize, form: Form, data: &'a [i8]) -> Self {
        assert!(
            cols <= 65536 && tokens <= data.len(),
            "memory for every token, at most 65536 columns"
        );
        Self {
            form,
            tokens,
            cols,
            data: &data[..form.len(tokens, cols)],
        }
    }

    /// The form.
    #[must_use]
    pub fn form(self) -> Form {
        self.form
    }

    /// The packed bytes.
    #[must_use]
    pub fn data(self) -> &'a [i8] {
        self.data
    }

    /// Tokens.
    #[must_use]
    pub fn tokens(self) -> usize {
        self.tokens
    }

    /// Columns, the last group's padding left out.
    #[must_use]
    pub fn cols(self) -> usize {
        self.cols
    }

    /// Groups of four columns.
    #[must_use]
    pub fn groups(self) -> usize {
        self.cols.div_ceil(GROUP)
    }

    /// The blocks of [`Form::Blocks`] in order, each with its number of tokens: `[groups][tokens][4]`.
    ///
    /// # Panics
    /// When the form is another.
    pub fn blocks(self) -> impl Iterator<Item = (usize, &'a [i8])> {
        assert!(self.form != Form::Tiles, "inputs in blocks");
        let row = self.groups() * GROUP;
        self.data
            .chunks(BLOCK * row)
            .map(move |block| (block.len() / row, block))
    }
}

/// A block of [`Form::Blocks`].
fn pack_groups(x: &[i8], cols: usize, flip: u8, block: &mut [i8]) {
    let tokens = x.len() / cols;
    let flip = flip as i8;
    if tokens == 1 {
        let (values, padding) = block[..cols.next_multiple_of(GROUP)].split_at_mut(cols);
        for (to, &x) in values.iter_mut().zip(x) {
            *to = x ^ flip;
        }
        padding.fill(flip);
        return;
    }
    let whole = cols / GROUP;
    for (t, row) in x.chunks_exact(cols).enumerate() {
        let groups = block.chunks_exact_mut(tokens * GROUP);
        let values = row.chunks_exact(GROUP);
        let rest = values.remainder();
        for (group, x) in groups.zip(values) {
            let x = [x[0], x[1], x[2], x[3]].map(|x| x ^ flip);
            group[t * GROUP..][..GROUP].copy_from_slice(&x);
        }
        if !rest.is_empty() {
            let group = &mut block[(whole * tokens + t) * GROUP..][..GROUP];
            group.fill(flip);
            for (to, &x) in group.iter_mut().zip(rest) {
                *to = x ^ flip;
            }
        }
    }
}

/// Some columns of a row-major matrix of int32, exclusively: `[tokens][rows]` with any stride.
#[derive(Debug)]
pub struct Out<'a> {
    start: *mut i32,
    tokens: usize,
    rows: usize,
    stride: usize,
    memory: PhantomData<&'a mut [i32]>,
}

// SAFETY: an `Out` is an exclusive borrow of its elements, as `&mut [i32]` is.
unsafe impl Send for Out<'_> {}

impl<'a> Out<'a> {
    /// All of a matrix, `[tokens][rows]`.
    ///
    /// # Panics
    /// When `out` is no whole number of rows of at least one element.
    #[must_use]
    pub fn new(out: &'a mut [i32], rows: usize) -> Self {
        assert!(rows > 0 && out.len() % rows == 0, "whole rows");
        Self {
            start: out.as_mut_ptr(),
            tokens: out.len() / rows,
            rows,
            stride: rows,
            memory: PhantomData,
        }
    }

    /// Tokens.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Elements of each token.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The elements of a token, `[rows]`.
    ///
    /// # Panics
    /// When there is no such token.
    #[must_use]
    pub fn token(&mut self, token: usize) -> &mut [i32] {
        assert!(token < self.tokens, "token {token} of {}", self.tokens);
        // SAFETY: `token` is below `tokens`, so the row lies within the borrowed matrix, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(token * self.stride), self.rows) }
    }

    /// The elements in `range` of every token.
    ///
    /// # Panics
    /// When `range` ends after the last.
    #[must_use]
    pub fn part(&mut self, range: Range<usize>) -> Out<'_> {
        assert!(range.start <= range.end && range.end <= self.rows);
        Out {
            start: self.start.wrapping_add(range.start),
            rows: range.len(),
            memory: PhantomData,
            ..*self
        }
    }

    /// The first `rows` elements of every token, which `self` no longer has.
    ///
    /// # Panics
    /// When there are fewer.
    #[must_use]
    pub fn split_off(&mut self, rows: usize) -> Self {
        assert!(rows <= self.rows);
        let taken = Self {
            rows,
            memory: PhantomData,
            ..*self
        };
        self.start = self.start.wrapping_add(rows);
        self.rows -= rows;
        taken
    }

    /// The first element of the first token; a token's elements are consecutive, tokens [`Out::stride`] apart.
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        allow(dead_code, reason = "portable kernels write by token")
    )]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut i32 {
        self.start
    }

    /// Elements from a token to the next.
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        allow(dead_code, reason = "portable kernels write by token")
    )]
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }
}

/// Keys of a page of [`Values`]: whole groups.
pub const PAGE: usize = 64;

/// The values of consecutive keys, [`PAGE`] keys a page, each page in groups of four keys: `[PAGE / 4][width][4]`.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    keys: usize,
    width: usize,
    pages: &'a [&'a [i8]],
    /// How many pages after the one in use is the one that is asked for.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "nothing is asked for ahead there")
    )]
    distance: usize,
    /// What is asked for after the last page.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "nothing is asked for ahead there")
    )]
    following: &'a [&'a [i8]],
}

impl<'a> Values<'a> {
    /// The last page may end with the group of the last key; what it holds after that key does not matter.
    ///
    /// # Panics
    /// When the pages do not hold `keys` keys of `width` channels.
    #[must_use]
    pub fn new(keys: usize, width: usize, pages: &'a [&'a [i8]]) -> Self {
        assert!(
            pages.len() == keys.div_ceil(PAGE) && width.checked_mul(PAGE).is_some(),
            "one page for {PAGE} keys"
        );
        for (i, page) in pages.iter().enumerate() {
            let len = (keys - i * PAGE).min(PAGE).next_multiple_of(GROUP) * width;
            assert!(page.len() >= len, "whole groups of values");
        }
        Self {
            keys,
            width,
            pages,
            distance: 1,
            following: &[],
        }
    }

    /// Keys.
    #[must_use]
    pub fn keys(self) -> usize {
        self.keys
    }

    /// Channels.
    #[must_use]
    pub fn width(self) -> usize {
        self.width
    }

    /// The pages.
    #[must_use]
    pub fn pages(self) -> &'a [&'a [i8]] {
        self.pages
    }

    /// The same values, with what kernels may ask for while they read page i: page i + `distance`, and after the last
    /// page `following`. It changes no result.
    #[must_use]
    pub fn before(self, distance: usize, following: &'a [&'a [i8]]) -> Self {
        Self {
            distance,
            following,
            ..self
        }
    }

    /// What to ask for while page `i` is read.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "nothing is asked for ahead there")
    )]
    pub(crate) fn ahead(self, i: usize) -> Option<&'a [i8]> {
        let at = i + self.distance;
        let later = || self.following.get(at - self.pages.len());
        self.pages.get(at).or_else(later).copied()
    }

    /// Each page with its keys: whole groups, `[keys / 4][width][4]`.
    pub fn groups(self) -> impl Iterator<Item = (Range<usize>, &'a [i8])> {
        self.pages.iter().enumerate().map(move |(i, page)| {
            let keys = i * PAGE..self.keys.min((i + 1) * PAGE);
            let len = keys.len().next_multiple_of(GROUP) * self.width;
            (keys, &page[..len])
        })
    }

    /// The rows of `weights`, `[rows][keys]`, and `sums`, `[rows][width]`.
    ///
    /// # Panics
    /// When the lengths do not fit together.
    #[must_use]
    pub fn rows(self, weights: &[u16], sums: &[i64]) -> usize {
        let rows = sums.len().checked_div(self.width).unwrap_or(0);
        assert!(
            sums.len() == rows * self.width && rows.checked_mul(self.keys) == Some(weights.len()),
            "one weight per row and key, one sum per row and channel"
        );
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::Rng;

    #[test]
    fn blocks_interleave_groups_of_tokens() {
        let mut rng = Rng(3);
        for cols in [1, 3, 4, 7, 64] {
            for tokens in [1, 2, 7, 8, 9, 16, 21] {
                for flip in [0, 0x80] {
                    let x = rng.bytes(tokens * cols);
                    let form = Form::Blocks { flip };
                    let mut memory = vec![0x33; form.len(tokens, cols) + 5];
                    let inputs = Inputs::pack(&x, cols, form, &mut memory);
                    assert_eq!((inputs.tokens(), inputs.cols()), (tokens, cols));
                    let mut first = 0;
                    for (n, block) in inputs.blocks() {
                        for t in 0..n {
                            for k in 0..inputs.groups() * GROUP {
                                let got = block[(k / GROUP * n + t) * GROUP + k % GROUP];
                                let want = if k < cols {
                                    x[(first + t) * cols + k]
                                } else {
                                    0
                                };
                                assert_eq!(got, want ^ flip as i8);
                            }
                        }
                        first += n;
                    }
                    assert_eq!(first, tokens);
                }
            }
        }
    }

    #[test]
    fn tiles_are_filled_up() {
        let mut rng = Rng(4);
        for cols in [1, 63, 64, 65, 128] {
            for tokens in [1, 2, 15, 16, 17, 33] {
                let x = rng.bytes(tokens * cols);
                let mut memory = vec![0x33; Inputs::room(tokens, cols)];
                let inputs = Inputs::pack(&x, cols, Form::Tiles, &mut memory);
                let width = cols.next_multiple_of(64);
                assert_eq!(inputs.data().len(), tokens.next_multiple_of(16) * width);
                for (i, &got) in inputs.data().iter().enumerate() {
                    let (tile, at) = (i / 1024, i % 1024);
                    let t = tile / (width / 64) * 16 + at / 64;
                    let k = tile % (width / 64) * 64 + at % 64;
                    let want = if t < tokens && k < cols {
                        x[t * cols + k]
                    } else {
                        0
                    };
                    assert_eq!(got, want, "{tokens} x {cols}: ({t}, {k})");
                }
            }
        }
    }

    #[test]
    fn parts_of_an_output_are_columns() {
        let mut memory: Vec<i32> = (0..12).collect();
        let mut out = Out::new(&mut memory, 4);
        assert_eq!((out.tokens(), out.rows(), out.stride()), (3, 4, 4));
        assert_eq!(out.part(1..3).token(2), [9, 10]);
        assert_eq!(out.part(4..4).token(2), []);
        out.split_off(1).token(1)[0] = -1;
        out.token(1)[2] = -2;
        assert_eq!(memory[4..8], [-1, 5, 6, -2]);
    }
}
