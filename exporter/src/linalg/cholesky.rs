//! Blocked Cholesky factorisation.

use super::isa::Kernel;
use super::tile::{LANES, micro};
use super::vector::Simd;
use crate::compute::Compute;
use crate::parallel::each;

/// Columns factored together; a multiple of [`LANES`].
const PANEL: usize = 64;

/// A pivot was not positive, or not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the matrix is not positive definite at row {row}")]
pub(crate) struct NotPositiveDefinite {
    /// Where.
    pub(crate) row: usize,
}

/// Overwrites the lower triangle of the symmetric `a` (`k * k`, row-major) with L, `L L^T = a`.
///
/// Only the lower triangle is read. The upper triangle is left with unspecified finite values.
pub(crate) fn cholesky(
    a: &mut [f64],
    k: usize,
    compute: &Compute,
) -> Result<(), NotPositiveDefinite> {
    assert_eq!(a.len(), k * k, "the matrix is square");
    let mut packed = Vec::new();
    for p0 in (0..k).step_by(PANEL) {
        let p1 = k.min(p0 + PANEL);
        // The panel's finished columns, as strips of 16 rows: [strip][column][row].
        pack_rows(&a[p0 * k..p1 * k], k, p0, &mut packed);
        let (head, tail) = a.split_at_mut(p1 * k);
        let diagonal = &mut head[p0 * k..];
        for rows in diagonal.chunks_mut(LANES * k) {
            let mut own = Vec::new();
            pack_rows(rows, k, p0, &mut own);
            compute.isa.run(Update {
                rows,
                k,
                p0,
                p1,
                own: &own,
                panel: &packed,
            });
        }
        factor_diagonal(diagonal, k, p0, p1)?;
        let (diagonal, packed) = (&*diagonal, &packed);
        each(
            compute.threads,
            tail.chunks_mut(LANES * k),
            Vec::new,
            |own, rows| {
                pack_rows(rows, k, p0, own);
                compute.isa.run(Update {
                    rows,
                    k,
                    p0,
                    p1,
                    own,
                    panel: packed,
                });
                solve(rows, k, p0, p1, diagonal);
            },
        );
    }
    Ok(())
}

/// Packs columns `0..p0` of the rows as `[strip of LANES rows][column][LANES]`, missing rows as 0.
fn pack_rows(rows: &[f64], k: usize, p0: usize, out: &mut Vec<f64>) {
    let height = rows.len() / k;
    out.clear();
    out.resize(height.div_ceil(LANES) * LANES * p0, 0.0);
    for (r, row) in rows.chunks(k).enumerate() {
        let strip = &mut out[r / LANES * LANES * p0..];
        for (t, &v) in row[..p0].iter().enumerate() {
            strip[t * LANES + r % LANES] = v;
        }
    }
}

/// Subtracts the finished columns from columns `p0..p1` of at most [`LANES`] rows.
struct Update<'a> {
    rows: &'a mut [f64],
    k: usize,
    p0: usize,
    p1: usize,
    own: &'a [f64],
    panel: &'a [f64],
}

impl Kernel for Update<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd, const MR: usize, const NV: usize>(self, simd: S) {
        let Self {
            rows,
            k,
            p0,
            p1,
            own,
            panel,
        } = self;
        if p0 == 0 {
            return;
        }
        let (height, nr) = (rows.len() / k, NV * S::WIDTH);
        for (s, strip) in panel.chunks(LANES * p0).enumerate() {
            for i0 in (0..height).step_by(MR) {
                for j0 in (0..LANES).step_by(nr) {
                    let c0 = p0 + s * LANES + j0;
                    if c0 >= p1 {
                        continue;
                    }
                    let mut acc = [[0.0; LANES]; MR];
                    let (a, b) = ((&own[i0..], LANES), (&strip[j0..], LANES));
                    micro::<S, MR, NV>(simd, &mut acc, a, b, p0);
                    for r in 0..MR.min(height - i0) {
                        let out = &mut rows[(i0 + r) * k + c0..][..nr.min(p1 - c0)];
                        for (o, v) in out.iter_mut().zip(acc[r]) {
                            *o -= v;
                        }
                    }
                }
            }
        }
    }
}

/// Factors the block of rows and columns `p0..p1` in place.
fn factor_diagonal(
    block: &mut [f64],
    k: usize,
    p0: usize,
    p1: usize,
) -> Result<(), NotPositiveDefinite> {
    for j in 0..p1 - p0 {
        for i in j..p1 - p0 {
            let mut s = block[i * k + p0 + j];
            for t in p0..p0 + j {
                s -= block[i * k + t] * block[j * k + t];
            }
            if i == j {
                if !(s > 0.0 && s.is_finite()) {
                    return Err(NotPositiveDefinite { row: p0 + j });
                }
                block[j * k + p0 + j] = libm::sqrt(s);
            } else {
                block[i * k + p0 + j] = s / block[j * k + p0 + j];
            }
        }
    }
    Ok(())
}

/// Solves `X L^T = A` for columns `p0..p1` of the rows, L being the factored diagonal block.
fn solve(rows: &mut [f64], k: usize, p0: usize, p1: usize, diagonal: &[f64]) {
    // Transposed, so that the rows are vector lanes.
    let mut lanes = [[0.0; LANES]; PANEL];
    for (r, row) in rows.chunks(k).enumerate() {
        for (j, &v) in row[p0..p1].iter().enumerate() {
            lanes[j][r] = v;
        }
    }
    for j in 0..p1 - p0 {
        let l = &diagonal[j * k + p0..][..j + 1];
        let (done, rest) = lanes.split_at_mut(j);
        let x = &mut rest[0];
        for (d, &lt) in done.iter().zip(l) {
            for r in 0..LANES {
                x[r] -= d[r] * lt;
            }
        }
        for v in x.iter_mut() {
            *v /= l[j];
        }
    }
    for (r, row) in rows.chunks_mut(k).enumerate() {
        for (j, v) in row[p0..p1].iter_mut().enumerate() {
            *v = lanes[j][r];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::{Isa, Plain};
    use crate::test_support::uniform;
    use std::num::NonZeroUsize;

    fn on(threads: usize) -> Compute {
        Compute::detect(NonZeroUsize::new(threads).unwrap())
    }

    fn spd(k: usize) -> Vec<f64> {
        let x = uniform(k as u64 + 5, (k + 3) * k);
        let mut a = vec![0.0; k * k];
        for i in 0..k {
            for j in 0..k {
                a[i * k + j] = (0..k + 3).map(|t| x[t * k + i] * x[t * k + j]).sum();
            }
            a[i * k + i] += 0.1;
        }
        a
    }

    #[test]
    fn the_factor_reproduces_the_matrix_for_any_thread_count() {
        // Around the strip (16) and the panel (64).
        for k in [1, 2, 15, 16, 17, 63, 64, 65, 130, 200] {
            let a = spd(k);
            let mut reference = None;
            for threads in [1, 2, 5] {
                let mut l = a.clone();
                cholesky(&mut l, k, &on(threads)).unwrap();
                for i in 0..k {
                    for j in 0..=i {
                        let s: f64 = (0..=j).map(|t| l[i * k + t] * l[j * k + t]).sum();
                        let d = (s - a[i * k + j]).abs();
                        assert!(d < 1e-9, "k {k} ({i}, {j}): off by {d}");
                    }
                }
                let lower: Vec<u64> = (0..k)
                    .flat_map(|i| (0..=i).map(move |j| (i, j)))
                    .map(|(i, j)| l[i * k + j].to_bits())
                    .collect();
                assert_eq!(*reference.get_or_insert(lower.clone()), lower);
            }
        }
    }

    #[test]
    fn an_indefinite_matrix_is_named_at_its_row() {
        let mut a = spd(70);
        a[66 * 70 + 66] = -1.0;
        let one = &on(1);
        assert_eq!(
            cholesky(&mut a, 70, one),
            Err(NotPositiveDefinite { row: 66 })
        );
        assert_eq!(
            cholesky(&mut [f64::NAN], 1, one),
            Err(NotPositiveDefinite { row: 0 })
        );
    }

    #[test]
    fn every_register_tile_gives_the_same_bits() {
        // 13 rows, 64 finished columns, a panel of 20.
        let (k, p0, p1) = (90, 64, 84);
        let all = uniform(6, (20 + 13) * k);
        let (panel, rows) = all.split_at(20 * k);
        let (mut packed, mut own) = (Vec::new(), Vec::new());
        pack_rows(panel, k, p0, &mut packed);
        pack_rows(rows, k, p0, &mut own);
        let by = |run: &dyn Fn(Update<'_>)| {
            let mut out = rows.to_vec();
            run(Update {
                rows: &mut out,
                k,
                p0,
                p1,
                own: &own,
                panel: &packed,
            });
            out.into_iter().map(f64::to_bits).collect::<Vec<_>>()
        };
        let expected = by(&|u| u.run::<Plain, 1, 1>(Plain));
        assert!(expected == by(&|u| u.run::<Plain, 4, 2>(Plain)));
        assert!(expected == by(&|u| u.run::<Plain, 8, 4>(Plain)));
        for isa in Isa::available() {
            assert!(expected == by(&|u| isa.run(u)), "{isa:?}");
        }
    }
}
