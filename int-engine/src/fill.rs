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
        self.put_by(at, values, |_, _, _| Block::default())
    }

    /// As [`Filler::put`]; `block(rows, cols, lines)` packs the first columns of the 16 rows of a tile.
    #[inline(always)]
    fn put_by(
        &mut self,
        at: usize,
        mut values: &[i8],
        block: impl Fn(&[i8], usize, &mut [i8]) -> Block,
    ) -> bool {
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
                self.tile(row, now, &block)
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
    fn tile(
        &mut self,
        row: usize,
        values: &[i8],
        block: impl Fn(&[i8], usize, &mut [i8]) -> Block,
    ) -> bool {
        let cols = self.cols;
        let start = index(row, 0, cols);
        let lines = &mut self.data[start..][..cols.next_multiple_of(GROUP) * TILE];
        let mut done = block(values, cols, lines);
        for (r, values) in values.chunks_exact(cols).enumerate() {
            let rest = &values[done.cols..];
            let (sum, magnitude, found) = sums(rest);
            self.sums[row + r] = done.sums[r] + sum;
            self.magnitudes[row + r] = done.magnitudes[r] + magnitude;
            done.found |= found;
            let start = done.cols * TILE + r * GROUP;
            for (group, values) in rest.chunks(GROUP).enumerate() {
                let at = start + group * TILE * GROUP;
                lines[at..at + values.len()].copy_from_slice(values);
            }
        }
        done.found
    }
}

/// The first columns of a tile, as they were packed.
#[derive(Default)]
struct Block {
    /// How many, a multiple of [`GROUP`].
    cols: usize,
    /// The sum of each row over these columns.
    sums: [i32; TILE],
    /// As `sums`, of absolute values.
    magnitudes: [u32; TILE],
    /// There is a -128 among them.
    found: bool,
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    // The intrinsics of AVX-512 came with Rust 1.89; the crate's other targets compile with the declared version.
    #![allow(clippy::incompatible_msrv)]
    use super::{Block, Filler, TILE};
    use core::arch::x86_64::*;

    #[target_feature(enable = "avx512bw")]
    pub(super) fn put_avx512(filler: &mut Filler<'_>, at: usize, values: &[i8]) -> bool {
        filler.put_by(at, values, |rows, cols, lines| {
            block_avx512(rows, cols, lines)
        })
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn put_avx2(filler: &mut Filler<'_>, at: usize, values: &[i8]) -> bool {
        filler.put_by(at, values, |rows, cols, lines| {
            block_avx2(rows, cols, lines)
        })
    }

    /// Blocks of 16 rows and 64 columns: a transposition of 16 x 16 words. A line then holds four columns of each row, so
    /// sums of its words are sums of rows.
    #[target_feature(enable = "avx512bw")]
    fn block_avx512(rows: &[i8], cols: usize, lines: &mut [i8]) -> Block {
        const WIDTH: usize = 64;
        assert!(rows.len() == TILE * cols && lines.len() >= cols / WIDTH * WIDTH * TILE);
        let (one8, one16) = (_mm512_set1_epi8(1), _mm512_set1_epi16(1));
        let zero = _mm512_setzero_si512();
        let (mut sums, mut magnitudes, mut largest) = (zero, zero, zero);
        for block in 0..cols / WIDTH {
            let row: [__m512i; TILE] = std::array::from_fn(|r| {
                // SAFETY: 64 columns of row r of 16, which the assertion has found.
                unsafe { _mm512_loadu_si512(rows.as_ptr().add(r * cols + block * WIDTH).cast()) }
            });
            let mut pairs = [zero; TILE];
            for i in 0..8 {
                pairs[2 * i] = _mm512_unpacklo_epi32(row[2 * i], row[2 * i + 1]);
                pairs[2 * i + 1] = _mm512_unpackhi_epi32(row[2 * i], row[2 * i + 1]);
            }
            // In each quarter of `fours[4 * i + k]`: four columns of rows 4 * i to 4 * i + 3.
            let mut fours = [zero; TILE];
            for i in 0..4 {
                let [a, b, c, d] = [0, 1, 2, 3].map(|k| pairs[4 * i + k]);
                fours[4 * i] = _mm512_unpacklo_epi64(a, c);
                fours[4 * i + 1] = _mm512_unpackhi_epi64(a, c);
                fours[4 * i + 2] = _mm512_unpacklo_epi64(b, d);
                fours[4 * i + 3] = _mm512_unpackhi_epi64(b, d);
            }
            for k in 0..4 {
                let [a, b, c, d] = [0, 1, 2, 3].map(|i| fours[4 * i + k]);
                let ab02 = _mm512_shuffle_i32x4::<0x88>(a, b);
                let ab13 = _mm512_shuffle_i32x4::<0xdd>(a, b);
                let cd02 = _mm512_shuffle_i32x4::<0x88>(c, d);
                let cd13 = _mm512_shuffle_i32x4::<0xdd>(c, d);
                let quarters = [
                    _mm512_shuffle_i32x4::<0x88>(ab02, cd02),
                    _mm512_shuffle_i32x4::<0x88>(ab13, cd13),
                    _mm512_shuffle_i32x4::<0xdd>(ab02, cd02),
                    _mm512_shuffle_i32x4::<0xdd>(ab13, cd13),
                ];
                for (quarter, line) in quarters.into_iter().enumerate() {
                    let at = (block * 16 + quarter * 4 + k) * 64;
                    // SAFETY: a line of the block, which the assertion has found.
                    unsafe { _mm512_storeu_si512(lines.as_mut_ptr().add(at).cast(), line) };
                    let magnitude = _mm512_abs_epi8(line);
                    largest = _mm512_max_epu8(largest, magnitude);
                    // Two products of 1 and at most 128 fit 16 bits.
                    let pairs = _mm512_maddubs_epi16(one8, line);
                    sums = _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, one16));
                    let pairs = _mm512_maddubs_epi16(magnitude, one8);
                    magnitudes = _mm512_add_epi32(magnitudes, _mm512_madd_epi16(pairs, one16));
                }
            }
        }
        let mut done = Block {
            cols: cols / WIDTH * WIDTH,
            found: _mm512_movepi8_mask(largest) != 0,
            ..Block::default()
        };
        // SAFETY: both arrays have 64 bytes.
        unsafe {
            _mm512_storeu_si512(done.sums.as_mut_ptr().cast(), sums);
            _mm512_storeu_si512(done.magnitudes.as_mut_ptr().cast(), magnitudes);
        }
        done
    }

    /// As [`block_avx512`], in blocks of 8 rows and 32 columns.
    #[target_feature(enable = "avx2")]
    fn block_avx2(rows: &[i8], cols: usize, lines: &mut [i8]) -> Block {
        const WIDTH: usize = 32;
        assert!(rows.len() == TILE * cols && lines.len() >= cols / WIDTH * WIDTH * TILE);
        let (one8, one16) = (_mm256_set1_epi8(1), _mm256_set1_epi16(1));
        let zero = _mm256_setzero_si256();
        let mut largest = zero;
        let mut done = Block {
            cols: cols / WIDTH * WIDTH,
            ..Block::default()
        };
        for half in 0..2 {
            let (mut sums, mut magnitudes) = (zero, zero);
            for block in 0..cols / WIDTH {
                let row: [__m256i; 8] = std::array::from_fn(|r| {
                    let at = (half * 8 + r) * cols + block * WIDTH;
                    // SAFETY: 32 columns of a row of 16, which the assertion has found.
                    unsafe { _mm256_loadu_si256(rows.as_ptr().add(at).cast()) }
                });
                let mut pairs = [zero; 8];
                for i in 0..4 {
                    pairs[2 * i] = _mm256_unpacklo_epi32(row[2 * i], row[2 * i + 1]);
                    pairs[2 * i + 1] = _mm256_unpackhi_epi32(row[2 * i], row[2 * i + 1]);
                }
                let mut fours = [zero; 8];
                for i in 0..2 {
                    let [a, b, c, d] = [0, 1, 2, 3].map(|k| pairs[4 * i + k]);
                    fours[4 * i] = _mm256_unpacklo_epi64(a, c);
                    fours[4 * i + 1] = _mm256_unpackhi_epi64(a, c);
                    fours[4 * i + 2] = _mm256_unpacklo_epi64(b, d);
                    fours[4 * i + 3] = _mm256_unpackhi_epi64(b, d);
                }
                for k in 0..4 {
                    let (a, b) = (fours[k], fours[4 + k]);
                    let halves = [
                        _mm256_permute2x128_si256::<0x20>(a, b),
                        _mm256_permute2x128_si256::<0x31>(a, b),
                    ];
                    for (i, line) in halves.into_iter().enumerate() {
                        let at = (block * 8 + i * 4 + k) * 64 + half * 32;
                        // SAFETY: half a line of the block, which the assertion has found.
                        unsafe { _mm256_storeu_si256(lines.as_mut_ptr().add(at).cast(), line) };
                        let magnitude = _mm256_abs_epi8(line);
                        largest = _mm256_max_epu8(largest, magnitude);
                        // Two products of 1 and at most 128 fit 16 bits.
                        let pairs = _mm256_maddubs_epi16(one8, line);
                        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, one16));
                        let pairs = _mm256_maddubs_epi16(magnitude, one8);
                        magnitudes = _mm256_add_epi32(magnitudes, _mm256_madd_epi16(pairs, one16));
                    }
                }
            }
            // SAFETY: both arrays have 32 bytes from row 0 or 8 on.
            unsafe {
                let (sum, magnitude) =
                    (&mut done.sums[half * 8..], &mut done.magnitudes[half * 8..]);
                _mm256_storeu_si256(sum.as_mut_ptr().cast(), sums);
                _mm256_storeu_si256(magnitude.as_mut_ptr().cast(), magnitudes);
            }
        }
        done.found = _mm256_movemask_epi8(largest) != 0;
        done
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

    type Put = fn(&mut Filler<'_>, usize, &[i8]) -> bool;

    /// Every way of this CPU to do it.
    fn ways() -> Vec<Put> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut ways: Vec<Put> = vec![
            |filler, at, values| filler.put(at, values),
            |filler, at, values| filler.put_by(at, values, |_, _, _| Block::default()),
        ];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2.
            ways.push(|filler, at, values| unsafe { x86_64::put_avx2(filler, at, values) });
        }
        ways
    }

    /// What a matrix holds after all of it was put in pieces with the given ends, in the given order.
    fn filled(
        values: &[i8],
        cols: usize,
        pieces: &[(usize, usize)],
        put: Put,
    ) -> (Vec<i8>, Vec<i32>, Vec<u32>, bool) {
        let rows = (values.len() / cols).next_multiple_of(TILE);
        let mut data = vec![0; rows * cols.next_multiple_of(GROUP)];
        let (mut sums, mut magnitudes) = (vec![0; rows], vec![0; rows]);
        let mut filler = Filler::new(cols, &mut data, &mut sums, &mut magnitudes);
        let mut found = false;
        for &(start, end) in pieces {
            let values = &values[start..end];
            found |= put(&mut filler, start, values);
        }
        (data, sums, magnitudes, found)
    }

    #[test]
    fn any_pieces_in_any_order() {
        let mut rng = Rng(1);
        for cols in [1, 2, 3, 4, 5, 7, 31, 32, 33, 63, 64, 65, 100, 300] {
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
                    for put in ways() {
                        let found = filled(&values, cols, &pieces, put);
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
