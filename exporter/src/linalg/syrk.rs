//! The Gram matrix `X^T X` of a stream of rows.

use super::isa::Kernel;
use super::tile::{LANES, micro};
use super::vector::Simd;
use crate::compute::Compute;
use crate::parallel::each;

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
        compute: &Compute,
        fill: impl Fn(usize, &mut [f64]) + Sync,
    ) {
        let (k, strips) = (self.k, self.k.div_ceil(LANES));
        let mut plain = vec![0.0; CHUNK.min(rows) * k];
        let mut packed = vec![0.0; strips * LANES * CHUNK.min(rows)];
        for t0 in (0..rows).step_by(CHUNK) {
            let t = CHUNK.min(rows - t0);
            let plain = &mut plain[..t * k];
            each(
                compute.threads,
                plain.chunks_mut(k).enumerate(),
                || (),
                |(), (i, row)| fill(t0 + i, row),
            );
            let packed = &mut packed[..strips * LANES * t];
            let rows = &*plain;
            each(
                compute.threads,
                packed.chunks_mut(LANES * t).enumerate(),
                || (),
                |(), (s, strip)| pack(rows, k, s * LANES, strip),
            );
            let packed = &*packed;
            each(
                compute.threads,
                self.sums.chunks_mut(LANES * k).enumerate(),
                || (),
                |(), (s, out)| {
                    compute.isa.run(Panel {
                        out,
                        k,
                        s,
                        packed,
                        t,
                    });
                },
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

/// Adds the product of `t` packed rows to rows `s * LANES ..` of the matrix, from the diagonal strip on.
struct Panel<'a> {
    out: &'a mut [f64],
    k: usize,
    s: usize,
    packed: &'a [f64],
    t: usize,
}

impl Kernel for Panel<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd, const MR: usize, const NV: usize>(self, simd: S) {
        let Self {
            out,
            k,
            s,
            packed,
            t,
        } = self;
        let (height, nr) = (out.len() / k, NV * S::WIDTH);
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
                    let (a, b) = ((&left[i0..], LANES), (&right[j0..], LANES));
                    micro::<S, MR, NV>(simd, &mut acc, a, b, t);
                    for r in 0..h {
                        out[(i0 + r) * k + c0..][..w].copy_from_slice(&acc[r][..w]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::{Isa, Plain};
    use crate::test_support::uniform;
    use std::num::NonZeroUsize;

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
                let compute = Compute::detect(NonZeroUsize::new(threads).unwrap());
                gram.add_rows(first, &compute, |t, row| {
                    row.copy_from_slice(&x[t * k..][..k]);
                });
                gram.add_rows(rows - first, &compute, |t, row| {
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
        let by = |run: &dyn Fn(Panel<'_>)| {
            let mut out = vec![0.25; k * k];
            let packed = &packed;
            for (s, out) in out.chunks_mut(LANES * k).enumerate() {
                run(Panel {
                    out,
                    k,
                    s,
                    packed,
                    t,
                });
            }
            let upper = |i: usize| out[i * k + i..(i + 1) * k].to_vec();
            (0..k).flat_map(upper).map(f64::to_bits).collect::<Vec<_>>()
        };
        let expected = by(&|p| p.run::<Plain, 1, 1>(Plain));
        assert!(expected == by(&|p| p.run::<Plain, 4, 2>(Plain)));
        assert!(expected == by(&|p| p.run::<Plain, 8, 4>(Plain)));
        for isa in Isa::available() {
            assert!(expected == by(&|p| isa.run(p)), "{isa:?}");
        }
    }
}
