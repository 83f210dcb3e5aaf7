//! `out = x · Wᵀ` with W in panels of 16 outputs.
//!
//! Summation order, the same for every shape and instruction set: within a block of [`K_BLOCK`] inputs the
//! products are added one by one from 0, and the sums of the blocks are added in order.

use super::lanes::{LANES, Lanes};

/// Inputs in a block of the summation.
pub(super) const K_BLOCK: usize = 256;

/// Rows of `x` handled before the next panel, so that their block stays in the second-level cache.
const ROW_BLOCK: usize = 384;

/// Operands of a product.
#[derive(Clone, Copy)]
pub(super) struct Gemm<'a> {
    /// Rows of `k` values, `ldx` apart.
    pub(super) x: &'a [f32],
    pub(super) ldx: usize,
    pub(super) rows: usize,
    pub(super) k: usize,
    /// `cols.div_ceil(16)` panels; panel `p` holds for each input the weights of outputs `16p .. 16p+16`.
    pub(super) panels: &'a [f32],
    /// Outputs written, `ldo` values from one row to the next.
    pub(super) cols: usize,
    pub(super) ldo: usize,
}

/// The product; every index is checked here once.
///
/// # Safety
/// The CPU has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn gemm<L: Lanes, const TILE: usize>(g: &Gemm<'_>, out: &mut [f32]) {
    if g.rows == 0 || g.cols == 0 {
        return;
    }
    let panels = g.cols.div_ceil(LANES);
    assert!(g.k > 0 && g.ldx >= g.k && g.ldo >= g.cols, "gemm strides");
    assert!(
        g.x.len() >= (g.rows - 1) * g.ldx + g.k,
        "gemm input is short"
    );
    assert!(
        g.panels.len() >= panels * g.k * LANES,
        "gemm weights are short"
    );
    assert!(
        out.len() >= (g.rows - 1) * g.ldo + g.cols,
        "gemm output is short"
    );
    let wide = if g.rows == 1 {
        g.cols / (4 * LANES) * 4
    } else {
        0
    };

    // SAFETY: with the asserts above, rows `r < rows`, inputs `k < g.k` and panels `p < panels` are in bounds;
    // a tile writes `min(16, cols - 16p)` values of its rows.
    unsafe {
        for p in (0..wide).step_by(4) {
            row_tile::<L, 1, 4>(g, 0, p, LANES, out);
        }
        for first in (0..g.rows).step_by(ROW_BLOCK) {
            let end = (first + ROW_BLOCK).min(g.rows);
            for p in wide..panels {
                let valid = (g.cols - p * LANES).min(LANES);
                for k0 in (0..g.k).step_by(K_BLOCK) {
                    let mut r = first;
                    while r + TILE <= end {
                        block_tile::<L, TILE, 1>(g, r, p, k0, valid, out);
                        r += TILE;
                    }
                    while r + 4 <= end {
                        block_tile::<L, 4, 1>(g, r, p, k0, valid, out);
                        r += 4;
                    }
                    while r < end {
                        block_tile::<L, 1, 1>(g, r, p, k0, valid, out);
                        r += 1;
                    }
                }
            }
        }
    }
}

/// All blocks of one tile.
#[inline(always)]
unsafe fn row_tile<L: Lanes, const R: usize, const P: usize>(
    g: &Gemm<'_>,
    r0: usize,
    p0: usize,
    valid: usize,
    out: &mut [f32],
) {
    for k0 in (0..g.k).step_by(K_BLOCK) {
        // SAFETY: as in `gemm`.
        unsafe { block_tile::<L, R, P>(g, r0, p0, k0, valid, out) }
    }
}

/// Adds the block that starts at input `k0` to `R` rows of `P` panels; the first block overwrites.
#[inline(always)]
unsafe fn block_tile<L: Lanes, const R: usize, const P: usize>(
    g: &Gemm<'_>,
    r0: usize,
    p0: usize,
    k0: usize,
    valid: usize,
    out: &mut [f32],
) {
    // SAFETY: `gemm` has checked that rows r0..r0+R, panels p0..p0+P and inputs k0..k1 are in bounds.
    unsafe {
        let k1 = (k0 + K_BLOCK).min(g.k);
        let x = g.x.as_ptr().add(r0 * g.ldx);
        let w = g.panels.as_ptr().add(p0 * g.k * LANES);
        let mut acc = [[L::splat(0.0); P]; R];
        for k in k0..k1 {
            let mut column = [L::splat(0.0); P];
            for (p, c) in column.iter_mut().enumerate() {
                *c = L::load(w.add((p * g.k + k) * LANES));
            }
            for (r, row) in acc.iter_mut().enumerate() {
                let a = L::splat(*x.add(r * g.ldx + k));
                for (sum, &c) in row.iter_mut().zip(&column) {
                    *sum = sum.add(a.mul(c));
                }
            }
        }
        for (r, row) in acc.iter().enumerate() {
            for (p, &sum) in row.iter().enumerate() {
                let o = out.as_mut_ptr().add((r0 + r) * g.ldo + (p0 + p) * LANES);
                if valid == LANES {
                    let total = if k0 == 0 { sum } else { L::load(o).add(sum) };
                    total.store(o);
                } else {
                    let mut lanes = [0.0; LANES];
                    sum.store(lanes.as_mut_ptr());
                    for (i, &s) in lanes[..valid].iter().enumerate() {
                        *o.add(i) = if k0 == 0 { s } else { *o.add(i) + s };
                    }
                }
            }
        }
    }
}
