//! GPTQ: int8 rounding of a weight matrix under the Hessian of its inputs.
//!
//! Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers" (2022), with
//! activation order and 1 % damping. The feedback is computed from the factor of the Hessian itself rather than
//! of its inverse: with columns in quantisation order and `H = R R^T`, R upper triangular, the values of the columns
//! after i that are optimal given the errors `d_0 .. d_i` made so far are reached column by column through
//! `w_j - (1 / R_jj) sum over i < j of R_ij d_i`, which is GPTQ's update without an inverse. The same sums give the
//! output error `d H d^T = |d R|^2`.

use crate::compute::Compute;
use crate::linalg::{Gram, Kernel, LANES, NotPositiveDefinite, Simd, cholesky, micro};
use crate::parallel::each;

/// Largest magnitude of a weight code.
pub(crate) const CODE_MAX: f64 = 127.0;
/// Share of the mean diagonal added to the diagonal.
const DAMPING: f64 = 0.01;
/// Columns whose feedback is applied together.
const BLOCK: usize = 64;
/// Strips of [`LANES`] rows that are quantised together.
const STRIPS: usize = 4;
/// Rows quantised together.
const TILE: usize = STRIPS * LANES;

/// The factored, damped Hessian of a matrix's inputs.
pub(crate) struct Factor {
    k: usize,
    /// R, `k * k` row-major, columns in quantisation order; below the diagonal unspecified.
    r: Vec<f64>,
    /// `1 / R_jj`.
    inverse_diagonal: Vec<f64>,
    /// Column of the matrix that is quantised i-th.
    order: Vec<usize>,
    /// The value added to every diagonal element.
    damping: f64,
}

impl Factor {
    /// Factors the Gram matrix of the inputs; the columns with the most energy are quantised first.
    pub(crate) fn new(gram: &Gram, compute: &Compute) -> Result<Self, NotPositiveDefinite> {
        let k = gram.width();
        let mean = (0..k).fold(0.0, |s, i| s + gram.get(i, i)) / k as f64;
        // Inputs that are all zero: every rounding is as good as another, and the nearest is taken.
        let damping = if mean > 0.0 { DAMPING * mean } else { 1.0 };
        let mut order: Vec<usize> = (0..k).collect();
        order.sort_by(|&a, &b| gram.get(b, b).total_cmp(&gram.get(a, a)).then(a.cmp(&b)));
        // In reversed order the lower factor L of the matrix is R with both axes reversed, that is, the buffer reversed.
        let mut r = vec![0.0; k * k];
        each(
            compute.threads,
            r.chunks_mut(k).enumerate(),
            || (),
            |(), (i, row)| {
                let oi = order[k - 1 - i];
                for (j, v) in row[..=i].iter_mut().enumerate() {
                    *v = gram.get(oi, order[k - 1 - j]);
                }
                row[i] += damping;
            },
        );
        cholesky(&mut r, k, compute)?;
        r.reverse();
        let inverse_diagonal = (0..k).map(|i| 1.0 / r[i * k + i]).collect();
        Ok(Self {
            k,
            r,
            inverse_diagonal,
            order,
            damping,
        })
    }
}

/// What rounding did to one row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RowError {
    /// Squared norm of the row.
    pub(crate) weight: f64,
    /// Squared norm of the rounding error.
    pub(crate) weight_error: f64,
    /// Energy of the row's output over the calibration inputs; 0 without a Hessian.
    pub(crate) output: f64,
    /// Energy of the output's error over the calibration inputs; 0 without a Hessian.
    pub(crate) output_error: f64,
    /// Values that lay beyond the largest code and were clamped.
    pub(crate) clipped: u32,
}

/// An int8 matrix with one scale per row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantized {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// `rows * cols` codes, row-major, magnitude at most 127.
    pub(crate) codes: Vec<i8>,
    /// Real value of one code step, per row; 0 for a row of zeros.
    pub(crate) scales: Vec<f64>,
    pub(crate) errors: Vec<RowError>,
}

/// Quantises a `rows * k` matrix; `fill(o, row)` writes row `o`. Without a factor, to the nearest code.
pub(crate) fn quantize(
    rows: usize,
    cols: usize,
    factor: Option<&Factor>,
    compute: &Compute,
    fill: impl Fn(usize, &mut [f64]) + Sync,
) -> Quantized {
    let mut q = Quantized {
        rows,
        cols,
        codes: vec![0; rows * cols],
        scales: vec![0.0; rows],
        errors: vec![RowError::default(); rows],
    };
    let tiles = q
        .codes
        .chunks_mut(TILE * cols)
        .zip(q.scales.chunks_mut(TILE))
        .zip(q.errors.chunks_mut(TILE))
        .enumerate();
    each(
        compute.threads,
        tiles,
        || Tile::new(cols),
        |tile, (i, ((codes, scales), errors))| {
            let mut row = vec![0.0; cols];
            for r in 0..scales.len() {
                fill(i * TILE + r, &mut row);
                scales[r] = tile.load(r, &row, factor, &mut errors[r]);
            }
            match factor {
                Some(f) => compute.isa.run(RoundWithFeedback(tile, f)),
                None => tile.round_nearest(),
            }
            tile.store(factor, codes, scales, errors);
        },
    );
    q
}

/// Rows being quantised, in units of their scale, as strips `[strip][column in order][LANES]`.
struct Tile {
    k: usize,
    /// The weights.
    w: Vec<f64>,
    /// The codes, as f64.
    q: Vec<f64>,
    /// Errors `q - w`.
    d: Vec<f64>,
    /// `sum over i < j of R_ij d_i`.
    feedback: Vec<f64>,
    /// `sum over i < j of R_ij w_i`.
    signal: Vec<f64>,
    clipped: [u32; TILE],
    output: [f64; TILE],
    output_error: [f64; TILE],
}

impl Tile {
    fn new(k: usize) -> Self {
        let z = || vec![0.0; k * TILE];
        Self {
            k,
            w: z(),
            q: z(),
            d: z(),
            feedback: z(),
            signal: z(),
            clipped: [0; TILE],
            output: [0.0; TILE],
            output_error: [0.0; TILE],
        }
    }

    /// Takes row `r` of the tile; returns its scale.
    fn load(&mut self, r: usize, row: &[f64], f: Option<&Factor>, error: &mut RowError) -> f64 {
        if r == 0 {
            self.w.fill(0.0);
            self.feedback.fill(0.0);
            self.signal.fill(0.0);
            self.clipped = [0; TILE];
            self.output = [0.0; TILE];
            self.output_error = [0.0; TILE];
        }
        let max = row.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        error.weight = row.iter().fold(0.0, |s, v| s + v * v);
        let scale = max / CODE_MAX;
        // Also rows so small that their scale vanishes in f64.
        if scale == 0.0 {
            return 0.0;
        }
        let (strip, lane) = (r / LANES * LANES * self.k, r % LANES);
        for i in 0..self.k {
            let column = f.map_or(i, |f| f.order[i]);
            self.w[strip + i * LANES + lane] = row[column] / scale;
        }
        scale
    }

    fn round_nearest(&mut self) {
        for (q, w) in self.q.iter_mut().zip(&self.w) {
            *q = nearest(*w);
        }
    }

    fn store(&self, f: Option<&Factor>, codes: &mut [i8], scales: &[f64], errors: &mut [RowError]) {
        for (r, ((codes, &scale), e)) in
            codes.chunks_mut(self.k).zip(scales).zip(errors).enumerate()
        {
            let (strip, lane) = (r / LANES * LANES * self.k, r % LANES);
            let mut units = 0.0;
            for i in 0..self.k {
                let at = strip + i * LANES + lane;
                let d = self.q[at] - self.w[at];
                units += d * d;
                codes[f.map_or(i, |f| f.order[i])] = self.q[at] as i8;
            }
            let s2 = scale * scale;
            e.weight_error = units * s2;
            e.clipped = self.clipped[r];
            if let Some(f) = f {
                // The damping's own share is taken out again.
                e.output = (self.output[r] * s2 - f.damping * e.weight).max(0.0);
                e.output_error = (self.output_error[r] * s2 - f.damping * e.weight_error).max(0.0);
            }
        }
    }
}

/// Nearest integer of magnitude at most 127, halves to even.
#[inline(always)]
fn nearest(x: f64) -> f64 {
    // Adding 1.5 * 2^52 leaves no fraction bits: the addition itself rounds.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    (x.clamp(-CODE_MAX, CODE_MAX) + SHIFT) - SHIFT
}

/// Rounds the rows of a tile column by column, each error fed back to the columns still open.
struct RoundWithFeedback<'a>(&'a mut Tile, &'a Factor);

impl Kernel for RoundWithFeedback<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd, const MR: usize, const NV: usize>(self, simd: S) {
        let Self(tile, f) = self;
        let k = f.k;
        for i0 in (0..k).step_by(BLOCK) {
            let i1 = k.min(i0 + BLOCK);
            for s in 0..STRIPS {
                let strip = s * k * LANES..(s + 1) * k * LANES;
                let w = &tile.w[strip.clone()];
                let q = &mut tile.q[strip.clone()];
                let d = &mut tile.d[strip.clone()];
                let feedback = &mut tile.feedback[strip.clone()];
                let signal = &mut tile.signal[strip];
                let mut clipped = [0u32; LANES];
                let (mut output, mut output_error) = ([0.0; LANES], [0.0; LANES]);
                for i in i0..i1 {
                    let (rii, inverse) = (f.r[i * k + i], f.inverse_diagonal[i]);
                    let at = i * LANES;
                    let mut di = [0.0; LANES];
                    let mut wi = [0.0; LANES];
                    for l in 0..LANES {
                        let x = w[at + l] - feedback[at + l] * inverse;
                        clipped[l] += u32::from(x.abs() > CODE_MAX + 0.5);
                        let n = nearest(x);
                        q[at + l] = n;
                        wi[l] = w[at + l];
                        di[l] = n - wi[l];
                        let e = feedback[at + l] + rii * di[l];
                        let y = signal[at + l] + rii * wi[l];
                        output_error[l] += e * e;
                        output[l] += y * y;
                    }
                    d[at..at + LANES].copy_from_slice(&di);
                    let row = &f.r[i * k + i + 1..i * k + i1];
                    let rest = feedback[at + LANES..].chunks_exact_mut(LANES);
                    for ((rij, fb), sg) in row
                        .iter()
                        .zip(rest)
                        .zip(signal[at + LANES..].chunks_exact_mut(LANES))
                    {
                        for l in 0..LANES {
                            fb[l] += rij * di[l];
                            sg[l] += rij * wi[l];
                        }
                    }
                }
                for l in 0..LANES {
                    tile.clipped[s * LANES + l] += clipped[l];
                    tile.output[s * LANES + l] += output[l];
                    tile.output_error[s * LANES + l] += output_error[l];
                }
            }
            // Columns past the block, MR at a time for every strip, so that the rows of R are read once a tile.
            for j0 in (i1..k).step_by(MR) {
                let h = MR.min(k - j0);
                // The last columns read past the row's end into the next row, whose values are not stored.
                let r = &f.r[i0 * k + j0..];
                for s in 0..STRIPS {
                    let base = s * k * LANES;
                    let from = base + i0 * LANES..base + i1 * LANES;
                    let to = base + j0 * LANES..base + (j0 + h) * LANES;
                    product::<S, MR, NV>(
                        simd,
                        &mut tile.feedback[to.clone()],
                        (r, k),
                        &tile.d[from.clone()],
                    );
                    product::<S, MR, NV>(simd, &mut tile.signal[to], (r, k), &tile.w[from]);
                }
            }
        }
    }
}

/// `out[j][lane] += sum over i of r[i][j] * x[i][lane]`.
#[inline(always)]
fn product<S: Simd, const MR: usize, const NV: usize>(
    simd: S,
    out: &mut [f64],
    (r, k): (&[f64], usize),
    x: &[f64],
) {
    let (terms, nr) = (x.len() / LANES, NV * S::WIDTH);
    for n0 in (0..LANES).step_by(nr) {
        let mut acc = [[0.0; LANES]; MR];
        for (a, o) in acc.iter_mut().zip(out.chunks(LANES)) {
            a[..nr].copy_from_slice(&o[n0..n0 + nr]);
        }
        if r.len() >= (terms - 1) * k + MR {
            micro::<S, MR, NV>(simd, &mut acc, (r, k), (&x[n0..], LANES), terms);
        } else {
            // The very end of R: too few values follow for a full register tile.
            for (i, xi) in x.chunks(LANES).enumerate() {
                for (j, a) in acc.iter_mut().enumerate().take(out.len() / LANES) {
                    for l in 0..nr {
                        a[l] += r[i * k + j] * xi[n0 + l];
                    }
                }
            }
        }
        for (a, o) in acc.iter().zip(out.chunks_mut(LANES)) {
            o[n0..n0 + nr].copy_from_slice(&a[..nr]);
        }
    }
}

#[cfg(test)]
mod tests;
