//! The Gram matrix `X^T X` of a stream of rows.

use super::tile::{LANES, dispatch, micro};
use super::vector::Vector;
use crate::parallel::each;
use std::num::NonZeroUsize;

/// Rows that are packed and multiplied together.
const CHUNK: usize = 256;

/// `sum over rows x of x^T x`, upper triangle, accumulated in row order.
#[derive(Debug, Clone)]
pub(crate) struct Gram {
    k: usize,
    /// `k * k`, row-major; only elements on and above the diagonal are meaningful.
    sums: Vec<f64>,
}

impl Gram {
    /// The zero matrix of width `k`.
    pub(crate) fn new(k: usize) -> Self {
        Self {
            k,
            sums: vec![0.0; k * k],
        }
    }

    /// Element (i, j) of the symmetric matrix.
    #[inline]
    pub(crate) fn get(&self, i: usize, j: usize) -> f64 {
        self.sums[i.min(j) * self.k + i.max(j)]
    }

    /// Width of the matrix.
    pub(crate) fn width(&self) -> usize {
        self.k
    }

    /// Adds `rows` rows; `fill(t, row)` writes row `t` (all `k` values of it).
    pub(crate) fn add_rows(
        &mut self,
        rows: usize,
        threads: NonZeroUsize,
        fill: impl Fn(usize, &mut [f64]) + Sync,
    ) {
        let (k, strips) = (self.k, self.k.div_ceil(LANES));
        let mut plain = vec![0.0; CHUNK.min(rows) * k];
        let mut packed = vec![0.0; strips * LANES * CHUNK.min(rows)];
        for t0 in (0..rows).step_by(CHUNK) {
            let t = CHUNK.min(rows - t0);
            let plain = &mut plain[..t * k];
            each(
                threads,
                plain.chunks_mut(k).enumerate(),
                || (),
                |(), (i, row)| fill(t0 + i, row),
            );
            let packed = &mut packed[..strips * LANES * t];
            let rows = &*plain;
            each(
                threads,
                packed.chunks_mut(LANES * t).enumerate(),
                || (),
                |(), (s, strip)| pack(rows, k, s * LANES, strip),
            );
            let packed = &*packed;
            each(
                threads,
                self.sums.chunks_mut(LANES * k).enumerate(),
                || (),
                |(), (s, out)| panel(out, k, s, packed, t),
            );
        }
    }
}

/// Packs columns `c0 .. c0 + LANES` of the rows as `[row][LANES]`, columns past the end as 0.
fn pack(rows: &[f64], k: usize, c0: usize, strip: &mut [f64]) {
    let width = LANES.min(k - c0);
    for (row, out) in rows.chunks(k).zip(strip.chunks_mut(LANES)) {
        out[..width].copy_from_slice(&row[c0..c0 + width]);
        out[width..].fill(0.0);
    }
}

/// Adds to rows `s * LANES ..` of the matrix, from the diagonal strip on.
#[inline(always)]
fn panel_body<V: Vector, const MR: usize, const NV: usize>(
    out: &mut [f64],
    k: usize,
    s: usize,
    packed: &[f64],
    t: usize,
) {
    let (height, nr) = (out.len() / k, NV * V::WIDTH);
    let strips = packed.len() / (LANES * t);
    let left = &packed[s * LANES * t..][..LANES * t];
    for sj in s..strips {
        let right = &packed[sj * LANES * t..][..LANES * t];
        for i0 in (0..height).step_by(MR) {
            for j0 in (0..LANES).step_by(nr) {
                let c0 = sj * LANES + j0;
                if c0 >= k {
                    continue;
                }
                let (h, w) = (MR.min(height - i0), nr.min(k - c0));
                let mut acc = [[0.0; LANES]; MR];
                for r in 0..h {
                    acc[r][..w].copy_from_slice(&out[(i0 + r) * k + c0..][..w]);
                }
                micro::<V, MR, NV>(&mut acc, (&left[i0..], LANES), (&right[j0..], LANES), t);
                for r in 0..h {
                    out[(i0 + r) * k + c0..][..w].copy_from_slice(&acc[r][..w]);
                }
            }
        }
    }
}

dispatch! {
    fn panel(out: &mut [f64], k: usize, s: usize, packed: &[f64], t: usize) = panel_body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::vector::Plain;
    use crate::test_support::uniform;

    #[test]
    fn equals_the_naive_sum_bit_for_bit() {
        // Widths around the strip (16) and rows around the chunk (256).
        for (k, rows) in [
            (1, 1),
            (15, 3),
            (16, 255),
            (17, 256),
            (33, 257),
            (48, 600),
            (100, 5),
        ] {
            let x = uniform(k as u64, rows * k);
            for threads in [1, 2, 5] {
                let mut gram = Gram::new(k);
                // Two calls: accumulation continues in row order.
                let first = rows / 3;
                let threads = NonZeroUsize::new(threads).unwrap();
                gram.add_rows(first, threads, |t, row| {
                    row.copy_from_slice(&x[t * k..][..k]);
                });
                gram.add_rows(rows - first, threads, |t, row| {
                    row.copy_from_slice(&x[(first + t) * k..][..k]);
                });
                for i in 0..k {
                    for j in i..k {
                        let s = (0..rows).fold(0.0, |s, t| s + x[t * k + i] * x[t * k + j]);
                        assert_eq!(gram.get(j, i).to_bits(), f64::to_bits(s), "{k} {i} {j}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_register_tile_gives_the_same_bits() {
        let (k, t) = (37, 21);
        let x = uniform(1, k * t);
        let strips = k.div_ceil(LANES);
        let mut packed = vec![0.0; strips * LANES * t];
        for (s, strip) in packed.chunks_mut(LANES * t).enumerate() {
            pack(&x, k, s * LANES, strip);
        }
        let by = |body: fn(&mut [f64], usize, usize, &[f64], usize)| {
            let mut out = vec![0.25; k * k];
            for (s, rows) in out.chunks_mut(LANES * k).enumerate() {
                body(rows, k, s, &packed, t);
            }
            let upper = |i: usize| out[i * k + i..(i + 1) * k].to_vec();
            (0..k).flat_map(upper).map(f64::to_bits).collect::<Vec<_>>()
        };
        let expected = by(panel_body::<Plain, 1, 1>);
        assert!(expected == by(panel_body::<Plain, 4, 2>));
        assert!(expected == by(panel_body::<Plain, 8, 4>));
        assert!(expected == by(panel));
    }
}
