//! Weight matrices in the layout of the kernels, and the split of work over threads.

use super::Exec;
use super::gemm::Gemm;
use super::lanes::LANES;
use crate::source::Matrix;

/// A weight matrix `[out, in]` in panels of 16 outputs; missing outputs of the last panel are 0.
#[derive(Debug, Clone)]
pub struct PackedMatrix {
    rows: usize,
    cols: usize,
    panels: Vec<f32>,
}

impl PackedMatrix {
    /// Packs `m`.
    pub fn new(m: &Matrix) -> Self {
        let (rows, cols) = (m.rows, m.cols);
        let mut panels = vec![0.0; rows.div_ceil(LANES) * LANES * cols];
        for (i, row) in m.data.chunks_exact(cols.max(1)).enumerate() {
            let panel = &mut panels[i / LANES * LANES * cols..];
            for (k, &w) in row.iter().enumerate() {
                panel[k * LANES + i % LANES] = w;
            }
        }
        Self { rows, cols, panels }
    }

    /// Number of outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Writes row `i` of the matrix to `out`.
    ///
    /// # Panics
    /// When `i >= rows`, or `out` does not hold `cols` values.
    pub fn copy_row(&self, i: usize, out: &mut [f32]) {
        assert!(
            i < self.rows && out.len() == self.cols,
            "row {i} of {} x {}",
            self.rows,
            self.cols
        );
        let panel = &self.panels[i / LANES * LANES * self.cols..];
        for (k, o) in out.iter_mut().enumerate() {
            *o = panel[k * LANES + i % LANES];
        }
    }

    /// `x · Wᵀ`: `x` is `[n, cols]`, the result `[n, rows]`.
    ///
    /// # Panics
    /// When `x` is not a whole number of rows.
    pub fn matmul(&self, x: &[f32], exec: &Exec) -> Vec<f32> {
        assert!(
            self.cols > 0 && x.len().is_multiple_of(self.cols),
            "input of {} values for {} columns",
            x.len(),
            self.cols
        );
        let n = x.len() / self.cols;
        let mut out = vec![0.0; n * self.rows];
        let product = |x: &[f32], first: usize, cols: usize, out: &mut [f32]| {
            let panels = &self.panels[first * self.cols..];
            let g = Gemm {
                x,
                ldx: self.cols,
                rows: x.len() / self.cols,
                k: self.cols,
                panels,
                cols,
                ldo: cols,
            };
            (exec.kernels.gemm)(&g, out);
        };
        let threads = exec.threads.min(self.panels.len().max(1));
        if threads <= 1 {
            product(x, 0, self.rows, &mut out);
        } else if n >= threads * exec.kernels.tile_rows {
            let rows = exec.rows_per_thread(n);
            std::thread::scope(|s| {
                let product = &product;
                for (x, out) in x
                    .chunks(rows * self.cols)
                    .zip(out.chunks_mut(rows * self.rows))
                {
                    s.spawn(move || product(x, 0, self.rows, out));
                }
            });
        } else {
            // few rows: each thread computes some panels for all of them
            let width = self.rows.div_ceil(LANES).div_ceil(threads) * LANES;
            let parts = std::thread::scope(|s| {
                let product = &product;
                let handles: Vec<_> = (0..self.rows)
                    .step_by(width)
                    .map(|first| {
                        s.spawn(move || {
                            let cols = width.min(self.rows - first);
                            let mut part = vec![0.0; n * cols];
                            product(x, first, cols, &mut part);
                            (first, cols, part)
                        })
                    })
                    .collect();
                handles
                    .into_iter()
                    .map(|h| h.join().expect("a GEMM thread does not panic"))
                    .collect::<Vec<_>>()
            });
            for (first, cols, part) in parts {
                for (row, part) in out.chunks_mut(self.rows).zip(part.chunks(cols)) {
                    row[first..first + cols].copy_from_slice(part);
                }
            }
        }
        out
    }
}

impl Exec {
    /// Rows of a thread's share of `n`: a multiple of the tile, so that few rows fall outside tiles.
    fn rows_per_thread(&self, n: usize) -> usize {
        n.div_ceil(self.threads.max(1))
            .next_multiple_of(self.kernels.tile_rows)
    }

    /// Runs `f(first_row, rows)` over the rows of `buf`, `width` values each, shared out over the threads.
    pub(super) fn for_rows(
        &self,
        buf: &mut [f32],
        width: usize,
        f: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        let n = buf.len() / width;
        let rows = self.rows_per_thread(n);
        if self.threads <= 1 || n < 64 {
            f(0, buf);
            return;
        }
        std::thread::scope(|s| {
            let f = &f;
            for (i, part) in buf.chunks_mut(rows * width).enumerate() {
                s.spawn(move || f(i * rows, part));
            }
        });
    }
}
