//! The one layout of int8 matrices in memory, for weights and for keys: tiles of 16 rows.
//!
//! `[rows / 16][cols / 4][16][4]`: a tile holds 16 rows, and in it groups of four consecutive columns follow each other,
//! each group of all 16 rows in one line of 64 bytes. Every dot product instruction in use adds four products to one
//! lane of 32 bits, so a register of weights meets one group of an input, broadcast, and no lane is ever added to
//! another. Decode walks a matrix in the order of its bytes; a block of inputs meets each tile while it is in the cache.
//!
//! Rows and columns are filled up with zeros. The layout is no part of the commitment: the loader hashes the bytes that
//! it packs.

use crate::buffer::{Buffer, Pages};
use crate::fill::Filler;
use crate::halt::{Fault, try_resize};
use std::ops::Range;

/// Rows of a tile.
pub const TILE: usize = 16;
/// Columns of a group.
pub const GROUP: usize = 4;
/// Bytes of a line: a group of a tile.
pub const LINE: usize = TILE * GROUP;

/// A matrix of int8 in tiles, with the sum of each row.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Tiles {
    rows: usize,
    cols: usize,
    data: Buffer,
    /// `[rows]`, filled up with zeros to whole tiles.
    sums: Vec<i32>,
}

/// Where a weight lies.
#[inline(always)]
pub(crate) fn index(row: usize, col: usize, cols: usize) -> usize {
    let padded = cols.next_multiple_of(GROUP);
    (row / TILE) * TILE * padded + (col / GROUP) * TILE * GROUP + (row % TILE) * GROUP + col % GROUP
}

impl Tiles {
    /// Packs a row-major matrix, `[rows][cols]`.
    ///
    /// # Panics
    /// When `cols` is 0, or `weights` is no whole number of rows, or memory runs out.
    #[must_use]
    pub fn pack(weights: &[i8], cols: usize) -> Self {
        assert!(cols > 0 && weights.len() % cols == 0, "whole rows");
        let rows = weights.len() / cols;
        let mut tiles = Self::new(cols, Pages::default());
        let mut magnitudes = Vec::new();
        tiles
            .grow(rows, rows, &mut magnitudes)
            .expect("memory for a packed matrix");
        tiles.filler(&mut magnitudes).put(0, weights);
        tiles
    }

    /// A matrix without rows, for [`Tiles::grow`].
    pub(crate) fn new(cols: usize, pages: Pages) -> Self {
        Self::within(cols, Buffer::new(pages))
    }

    /// A matrix without rows in this memory.
    pub(crate) fn within(cols: usize, data: Buffer) -> Self {
        Self {
            rows: 0,
            cols,
            data,
            sums: Vec::new(),
        }
    }

    /// Bytes of memory of a matrix of so many rows, `usize::MAX` when there are not so many.
    pub(crate) fn size(rows: usize, cols: usize) -> usize {
        let padded = rows.checked_next_multiple_of(TILE).unwrap_or(usize::MAX);
        let width = cols.checked_next_multiple_of(GROUP).unwrap_or(usize::MAX);
        padded.saturating_mul(width)
    }

    /// Appends rows of zeros up to `rows`, in a matrix that will have at most `total` of them; `magnitudes` gets as many
    /// zeros as [`Tiles::filler`] needs. Memory beyond the rows that are there is at most that of as many again, or address
    /// space.
    pub(crate) fn grow(
        &mut self,
        rows: usize,
        total: usize,
        magnitudes: &mut Vec<u32>,
    ) -> Result<(), Fault> {
        let what = "a tensor of the model";
        let (now, all) = (Self::size(rows, self.cols), Self::size(total, self.cols));
        self.data.grow_within(now, all, what)?;
        let padded = rows.next_multiple_of(TILE);
        if padded > self.sums.len() {
            let doubled = (2 * self.sums.len()).min(total.next_multiple_of(TILE));
            let padded = padded.max(doubled);
            try_resize(&mut self.sums, padded, 0, what)?;
            try_resize(magnitudes, padded, 0, what)?;
        }
        self.rows = self.rows.max(rows);
        Ok(())
    }

    /// What fills the rows; `magnitudes` belongs to this matrix alone, as [`Tiles::grow`] left it.
    pub(crate) fn filler<'a>(&'a mut self, magnitudes: &'a mut [u32]) -> Filler<'a> {
        let padded = self.rows.next_multiple_of(TILE);
        let size = Self::size(self.rows, self.cols);
        Filler::new(
            self.cols,
            &mut self.data.bytes_mut()[..size],
            &mut self.sums[..padded],
            &mut magnitudes[..padded],
        )
    }

    /// Output channels.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs of each output channel.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// A row, `[cols]`.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = i8> + '_ {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let data = self.data.bytes();
        (0..self.cols).map(move |col| data[index(row, col, self.cols)])
    }

    /// The matrix row-major, `[rows][cols]`.
    #[must_use]
    pub fn to_rows(&self) -> Vec<i8> {
        (0..self.rows).flat_map(|row| self.row(row)).collect()
    }

    /// The whole matrix as an operand.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        let padded = self.rows.next_multiple_of(TILE);
        View {
            rows: self.rows,
            cols: self.cols,
            data: &self.data.bytes()[..Self::size(self.rows, self.cols)],
            sums: &self.sums[..padded],
            next: None,
        }
    }
}

/// Values of consecutive keys, `[keys][width]`, in groups of four keys: `[keys / 4][width][4]`, filled up with zeros.
///
/// # Panics
/// When `width` is 0 or `values` is no whole number of rows, or memory runs out.
#[must_use]
pub fn group_values(values: &[i8], width: usize) -> Vec<i8> {
    assert!(width > 0 && values.len() % width == 0, "whole rows");
    let keys = values.len() / width;
    let len = keys.next_multiple_of(GROUP).checked_mul(width);
    let mut out = vec![0; len.expect("memory for the groups")];
    for (s, row) in values.chunks_exact(width).enumerate() {
        for (i, &v) in row.iter().enumerate() {
            out[(s / GROUP * width + i) * GROUP + s % GROUP] = v;
        }
    }
    out
}

/// Some rows of a matrix in tiles. Both slices cover whole tiles; what they hold after the last row does not matter.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    rows: usize,
    cols: usize,
    data: &'a [i8],
    sums: &'a [i32],
    next: Option<&'a [i8]>,
}

impl<'a> View<'a> {
    /// A view of memory in the layout: `data` `[rows / 16][cols / 4][16][4]`, `sums` the sum of each row.
    ///
    /// # Panics
    /// When the slices do not cover the tiles of `rows` rows of `cols` columns, or `cols` is not in 1 ..= 65536.
    #[must_use]
    pub fn new(rows: usize, cols: usize, data: &'a [i8], sums: &'a [i32]) -> Self {
        assert!((1..=65536).contains(&cols), "1 <= cols <= 65536");
        // No slice is as long as the largest number, which stands for all sizes beyond it.
        let padded = rows.checked_next_multiple_of(TILE).unwrap_or(usize::MAX);
        Self {
            rows,
            cols,
            data: &data[..Tiles::size(rows, cols)],
            sums: &sums[..padded],
            next: None,
        }
    }

    /// The rows in `range`, which starts at a tile.
    ///
    /// # Panics
    /// When it does not, or ends after the last row.
    #[must_use]
    pub fn part(self, range: Range<usize>) -> Self {
        assert!(range.start % TILE == 0 && range.end <= self.rows && range.start <= range.end);
        let row = self.cols.next_multiple_of(GROUP);
        let end = range.end.next_multiple_of(TILE);
        Self {
            rows: range.len(),
            cols: self.cols,
            data: &self.data[range.start * row..end * row],
            sums: &self.sums[range.start..end],
            next: None,
        }
    }

    /// The same rows, with what will be read after them: kernels may ask for it ahead. It changes no result.
    #[must_use]
    pub fn before(self, next: Option<&'a [i8]>) -> Self {
        Self { next, ..self }
    }

    /// Where the bytes begin that will be read after these rows, those that follow in memory unless
    /// [`View::before`] named others. No reference: it may lie behind all memory.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "nothing is asked for ahead there")
    )]
    pub(crate) fn next(self) -> *const i8 {
        self.next
            .map_or(self.data.as_ptr_range().end, <[i8]>::as_ptr)
    }

    /// Rows, the last tile's padding left out.
    #[must_use]
    pub fn rows(self) -> usize {
        self.rows
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

    /// The tiles, [`View::groups`] lines of 64 bytes each.
    #[must_use]
    pub fn data(self) -> &'a [i8] {
        self.data
    }

    /// The sum of each row, whole tiles.
    #[must_use]
    pub fn sums(self) -> &'a [i32] {
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::Rng;

    #[test]
    fn rows_come_back_in_any_pieces() {
        let mut rng = Rng(1);
        for cols in [1, 3, 4, 5, 64, 1024] {
            for rows in [0, 1, 15, 16, 17, 40] {
                let weights = rng.bytes(rows * cols);
                let tiles = Tiles::pack(&weights, cols);
                assert_eq!((tiles.rows(), tiles.cols()), (rows, cols));
                assert_eq!(tiles.to_rows(), weights, "{rows} x {cols}");
                let (mut grown, mut magnitudes) = (Tiles::new(cols, Pages::Small), vec![]);
                for row in 1..=rows {
                    grown.grow(row, rows, &mut magnitudes).unwrap();
                    let at = (row - 1) * cols;
                    grown
                        .filler(&mut magnitudes)
                        .put(at, &weights[at..at + cols]);
                }
                assert_eq!(grown.to_rows(), weights);
                assert_eq!(grown.view().sums(), tiles.view().sums());
                let view = tiles.view();
                assert_eq!(view.data().len(), rows.div_ceil(16) * view.groups() * 64);
                for (row, &sum) in weights.chunks(cols).zip(view.sums()) {
                    assert_eq!(sum, row.iter().map(|&w| i32::from(w)).sum::<i32>());
                }
            }
        }
    }

    /// A test for each size that the slices do not cover, or that none covers.
    macro_rules! refused {
        ($($name:ident: $rows:expr, $cols:expr;)*) => {
            $(#[test]
            #[should_panic]
            fn $name() {
                let _ = View::new($rows, $cols, &[0; 4096], &[0; 64]);
            })*
        };
    }

    refused! {
        most_rows: usize::MAX, 4;
        most_rows_of_one_column: usize::MAX - 14, 1;
        more_bytes_than_a_number_says: usize::MAX / 16 + 1, 16;
        the_same_with_most_columns: usize::MAX / 65536 + 1, 65536;
        one_row_too_many: 65, 4;
        one_column_too_many: 64, 65;
        no_columns: 16, 0;
        columns_beyond_the_limit: 0, 65537;
        most_columns: 0, usize::MAX;
    }

    #[test]
    fn sizes_beyond_all_numbers_are_the_largest() {
        let (data, sums) = (vec![0; 4096], vec![0; 64]);
        assert_eq!(View::new(64, 64, &data, &sums).data().len(), 4096);
        let most = usize::MAX;
        assert_eq!(Tiles::size(0, most), 0);
        for (rows, cols) in [(most, 1), (1, most), (most / 2, 4), (most, most)] {
            assert_eq!(Tiles::size(rows, cols), most);
        }
    }

    #[test]
    fn the_layout_is_tiles_of_groups() {
        let weights: Vec<i8> = (0..17)
            .flat_map(|r| [r, 20 + r, 40 + r, 60 + r, 80 + r])
            .collect();
        let tiles = Tiles::pack(&weights, 5);
        let data = tiles.view().data();
        assert_eq!(data.len(), 2 * 2 * 64);
        assert_eq!(data[..8], [0, 20, 40, 60, 1, 21, 41, 61]);
        assert_eq!(data[64..72], [80, 0, 0, 0, 81, 0, 0, 0]);
        assert_eq!(data[128..136], [16, 36, 56, 76, 0, 0, 0, 0]);
        let part = tiles.view().part(16..17);
        assert_eq!(
            (part.rows(), part.data().len(), part.sums()[0]),
            (1, 128, 16 + 36 + 56 + 76 + 96)
        );
    }
}
