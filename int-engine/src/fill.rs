//! Row-major int8 bytes, in pieces of any size and order, into tiles.
#![allow(unsafe_code)]

use crate::tiles::{GROUP, TILE, index};

/// Whole tiles of a matrix that is being filled. Every element is given exactly once.
pub(crate) struct Filler<'a> {
    cols: usize,
    /// `[rows / 16][cols / 4][16][4]`.
    data: &'a mut [i8],
    /// The sum of what each row has been given.
    sums: &'a mut [i32],
    /// As `sums`, of absolute values: at most 65536 * 128.
    magnitudes: &'a mut [u32],
}

/// Sum, sum of absolute values, and whether there is a -128.
type Sums = (i32, u32, bool);

impl<'a> Filler<'a> {
    /// # Panics
    /// When the slices are not of the same whole tiles of `cols` columns.
    pub(crate) fn new(
        cols: usize,
        data: &'a mut [i8],
        sums: &'a mut [i32],
        magnitudes: &'a mut [u32],
    ) -> Self {
        assert_eq!(data.len(), sums.len() * cols.next_multiple_of(GROUP));
        assert!(magnitudes.len() == sums.len() && sums.len() % TILE == 0);
        Self {
            cols,
            data,
            sums,
            magnitudes,
        }
    }

    /// Parts of `tiles` tiles each, in order.
    pub(crate) fn split(self, tiles: usize) -> impl Iterator<Item = Self> {
        let (cols, rows) = (self.cols, tiles * TILE);
        let data = self.data.chunks_mut(rows * cols.next_multiple_of(GROUP));
        let sums = self.sums.chunks_mut(rows);
        let magnitudes = self.magnitudes.chunks_mut(rows);
        data.zip(sums)
            .zip(magnitudes)
            .map(move |((data, sums), magnitudes)| Self::new(cols, data, sums, magnitudes))
    }

    /// The largest row sum of absolute values.
    pub(crate) fn largest(&self) -> u64 {
        self.magnitudes.iter().copied().max().unwrap_or(0).into()
    }

    /// Takes elements from element `at` on, row-major. Returns whether one is -128, which is no weight.
    ///
    /// # Panics
    /// When there are not that many.
    pub(crate) fn put(&mut self, at: usize, values: &[i8]) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512bw") {
                // SAFETY: the CPU has what the function is compiled for.
                return unsafe { x86_64::put_avx512(self, at, values) };
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: as above.
                return unsafe { x86_64::put_avx2(self, at, values) };
            }
        }
        self.put_here(at, values)
    }

    #[inline(always)]
    fn put_here(&mut self, at: usize, mut values: &[i8]) -> bool {
        let cols = self.cols;
        let (mut row, mut found) = (at / cols, false);
        let col = at % cols;
        if col > 0 {
            let (now, later) = values.split_at(values.len().min(cols - col));
            found |= self.part(row, col, now);
            values = later;
            row += 1;
        }
        while values.len() >= cols {
            let whole = row % TILE == 0 && values.len() >= TILE * cols;
            let rows = if whole { TILE } else { 1 };
            let (now, later) = values.split_at(rows * cols);
            found |= if whole {
                self.tile(row, now)
            } else {
                self.part(row, 0, now)
            };
            values = later;
            row += rows;
        }
        if !values.is_empty() {
            found |= self.part(row, 0, values);
        }
        found
    }

    /// A part of one row.
    #[inline(always)]
    fn part(&mut self, row: usize, col: usize, values: &[i8]) -> bool {
        let (sum, magnitude, found) = sums(values);
        self.sums[row] += sum;
        self.magnitudes[row] += magnitude;
        let head = values.len().min((GROUP - col % GROUP) % GROUP);
        let (head, rest) = values.split_at(head);
        let start = index(row, col, self.cols);
        self.data[start..start + head.len()].copy_from_slice(head);
        let start = index(row, col + head.len(), self.cols);
        for (group, values) in rest.chunks(GROUP).enumerate() {
            let at = start + group * TILE * GROUP;
            self.data[at..at + values.len()].copy_from_slice(values);
        }
        found
    }

    /// A whole tile from row `row` on.
    #[inline(always)]
    fn tile(&mut self, row: usize, values: &[i8]) -> bool {
        let cols = self.cols;
        let mut found = false;
        for (r, values) in values.chunks_exact(cols).enumerate() {
            let (sum, magnitude, minimum) = sums(values);
            self.sums[row + r] = sum;
            self.magnitudes[row + r] = magnitude;
            found |= minimum;
        }
        let start = index(row, 0, cols);
        let lines = self.data[start..].chunks_exact_mut(TILE * GROUP);
        for (group, line) in lines.take(cols.div_ceil(GROUP)).enumerate() {
            let col = group * GROUP;
            let width = GROUP.min(cols - col);
            if width == GROUP {
                for (r, out) in line.chunks_exact_mut(GROUP).enumerate() {
                    out.copy_from_slice(&values[r * cols + col..][..GROUP]);
                }
            } else {
                for (r, out) in line.chunks_exact_mut(GROUP).enumerate() {
                    out[..width].copy_from_slice(&values[r * cols + col..][..width]);
                }
            }
        }
        found
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::Filler;

    #[target_feature(enable = "avx512bw")]
    pub(super) fn put_avx512(filler: &mut Filler<'_>, at: usize, values: &[i8]) -> bool {
        filler.put_here(at, values)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn put_avx2(filler: &mut Filler<'_>, at: usize, values: &[i8]) -> bool {
        filler.put_here(at, values)
    }
}

/// 256 int8 sum to -2^15 ..= 2^15 - 256, their absolute values to at most 2^15, so sums of blocks in 16 bits are exact.
#[inline(always)]
fn sums(values: &[i8]) -> Sums {
    let mut all = (0, 0, false);
    for block in values.chunks(256) {
        let sum: i16 = block.iter().map(|&w| i16::from(w)).sum();
        let magnitude: u16 = block.iter().map(|&w| u16::from(w.unsigned_abs())).sum();
        let largest = block.iter().fold(0, |m, &w| m.max(w.unsigned_abs()));
        all.0 += i32::from(sum);
        all.1 += u32::from(magnitude);
        all.2 |= largest == 128;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::Rng;

    /// What a matrix holds after all of it was put in pieces with the given ends, in the given order.
    fn filled(
        values: &[i8],
        cols: usize,
        pieces: &[(usize, usize)],
        portable: bool,
    ) -> (Vec<i8>, Vec<i32>, Vec<u32>, bool) {
        let rows = (values.len() / cols).next_multiple_of(TILE);
        let mut data = vec![0; rows * cols.next_multiple_of(GROUP)];
        let (mut sums, mut magnitudes) = (vec![0; rows], vec![0; rows]);
        let mut filler = Filler::new(cols, &mut data, &mut sums, &mut magnitudes);
        let mut found = false;
        for &(start, end) in pieces {
            let values = &values[start..end];
            found |= if portable {
                filler.put_here(start, values)
            } else {
                filler.put(start, values)
            };
        }
        (data, sums, magnitudes, found)
    }

    #[test]
    fn any_pieces_in_any_order() {
        let mut rng = Rng(1);
        for cols in [1, 2, 3, 4, 5, 7, 63, 64, 65, 100, 300] {
            for rows in [1, 15, 16, 17, 33] {
                let mut values = rng.bytes(rows * cols);
                let minimum = rng.next() % 2 == 0;
                if minimum {
                    let at = rng.next() as usize % values.len();
                    values[at] = -128;
                }
                // By the definition of the layout.
                let all = rows.next_multiple_of(TILE);
                let mut data = vec![0; all * cols.next_multiple_of(GROUP)];
                let (mut sums, mut magnitudes) = (vec![0; all], vec![0; all]);
                for (i, &value) in values.iter().enumerate() {
                    data[index(i / cols, i % cols, cols)] = value;
                    sums[i / cols] += i32::from(value);
                    magnitudes[i / cols] += u32::from(value.unsigned_abs());
                }
                let expected = (data, sums, magnitudes, minimum);
                for longest in [1, 3, cols + 1, 20 * cols, values.len()] {
                    let mut pieces = vec![];
                    let mut start = 0;
                    while start < values.len() {
                        let len = 1 + rng.next() as usize % longest;
                        let end = values.len().min(start + len);
                        pieces.push((start, end));
                        start = end;
                    }
                    for i in (1..pieces.len()).rev() {
                        pieces.swap(i, rng.next() as usize % (i + 1));
                    }
                    for portable in [false, true] {
                        let found = filled(&values, cols, &pieces, portable);
                        assert!(found == expected, "{rows} x {cols}, pieces up to {longest}");
                    }
                }
            }
        }
    }

    #[test]
    fn sums_of_the_extremes() {
        for (value, len) in [
            (127, 65536),
            (-127, 65536),
            (-128, 65536),
            (-128, 256),
            (0, 1),
        ] {
            let (sum, magnitude, found) = sums(&vec![value; len]);
            assert_eq!(sum, i32::from(value) * len as i32);
            assert_eq!(magnitude, u32::from(value.unsigned_abs()) * len as u32);
            assert_eq!(found, value == -128);
        }
    }
}
