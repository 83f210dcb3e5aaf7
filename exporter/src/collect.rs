//! Running the float model layer by layer and measuring what enters its matrix products.

use crate::compute::Compute;
use crate::error::ExportError;
use crate::linalg::Gram;
use crate::lower::{ChannelMaxima, Equalisation, Rotations, normalise, raise};
use crate::parallel::each;
use float_engine::config::ModelConfig;
use float_engine::forward::{PackedLayer, Tap, run_layer};
use float_engine::source::LayerWeights;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows of all windows, one after another, `[tokens][width]`.
#[derive(Debug, Default)]
struct Rows {
    width: usize,
    data: Vec<f32>,
}

impl Rows {
    fn push(&mut self, width: usize, data: &[f32]) {
        self.width = width;
        self.data.extend_from_slice(data);
    }

    fn count(&self) -> usize {
        self.data.len() / self.width.max(1)
    }

    fn row(&self, t: usize) -> &[f32] {
        &self.data[t * self.width..][..self.width]
    }
}

/// The activations of one layer over the calibration tokens.
pub(crate) struct Captured {
    before: Rows,
    middle: Rows,
    value: Rows,
    o_in: Rows,
    down_in: Rows,
    pub(crate) maxima: ChannelMaxima,
}

/// Runs a layer, replacing the residuals by its output, without looking.
pub(crate) fn advance(
    c: &ModelConfig,
    weights: &LayerWeights,
    residual: &mut [Vec<f32>],
    compute: &Compute,
) -> Result<(), ExportError> {
    let packed = PackedLayer::new(weights);
    run_layer(c, &packed, residual, &compute.exec(), &mut |_| {})?;
    Ok(())
}

/// Runs a layer, replacing the residuals by its output, and keeps its activations.
pub(crate) fn capture(
    c: &ModelConfig,
    layer: usize,
    weights: &LayerWeights,
    residual: &mut [Vec<f32>],
    compute: &Compute,
) -> Result<Captured, ExportError> {
    let (q_dim, kv_dim) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
    let mut got = Captured {
        before: Rows::default(),
        middle: Rows::default(),
        value: Rows::default(),
        o_in: Rows::default(),
        down_in: Rows::default(),
        maxima: ChannelMaxima {
            q: vec![0.0; q_dim],
            k: vec![0.0; kv_dim],
            o_in: vec![0.0; q_dim],
            down_in: vec![0.0; c.intermediate],
        },
    };
    for w in residual.iter() {
        got.before.push(c.hidden, w);
    }
    let mut bad = None;
    let packed = PackedLayer::new(weights);
    run_layer(c, &packed, residual, &compute.exec(), &mut |seen| {
        let site = match seen.tap {
            Tap::Query => "the query",
            Tap::Key => "the key",
            Tap::Value => "the value",
            Tap::AttnOutput => "the input of o",
            Tap::DownInput => "the input of down",
            _ => "the residual",
        };
        if bad.is_none() && !seen.data.iter().all(|v| v.is_finite()) {
            bad = Some((seen.window, site));
        }
        let grow = |max: &mut [f64]| {
            for row in seen.data.chunks(seen.width) {
                raise(max, row.iter().map(|&v| f64::from(v)));
            }
        };
        match seen.tap {
            Tap::Query => grow(&mut got.maxima.q),
            Tap::Key => grow(&mut got.maxima.k),
            Tap::Value => got.value.push(seen.width, seen.data),
            Tap::AttnOutput => {
                grow(&mut got.maxima.o_in);
                got.o_in.push(seen.width, seen.data);
            }
            Tap::AttnProjected => {
                // The residual between attention and MLP.
                let from = got.middle.data.len();
                got.middle.push(seen.width, seen.data);
                let before = &got.before.data[from..];
                got.middle.data[from..]
                    .iter_mut()
                    .zip(before)
                    .for_each(|(y, x)| *y += x);
            }
            Tap::DownInput => {
                grow(&mut got.maxima.down_in);
                got.down_in.push(seen.width, seen.data);
            }
            _ => {}
        }
    })?;
    if bad.is_none() {
        let finite = |w: &Vec<f32>| w.iter().all(|v| v.is_finite());
        bad = residual
            .iter()
            .position(|w| !finite(w))
            .map(|w| (w, "the residual"));
    }
    match bad {
        Some((window, site)) => Err(ExportError::Activation {
            layer,
            window,
            site,
        }),
        None => Ok(got),
    }
}

/// The largest of non-negative values, in any order of arrival.
#[derive(Default)]
struct Max(AtomicU64);

impl Max {
    fn add(&self, row: &[f64]) {
        let max = crate::constants::max_abs(row);
        // Non-negative f64 order as their bits do.
        self.0.fetch_max(max.to_bits(), Ordering::Relaxed);
    }

    fn get(self) -> f64 {
        f64::from_bits(self.0.into_inner())
    }
}

/// What was measured at a site.
pub(crate) struct Site {
    /// Sums of squares of the matrix product's input.
    pub(crate) gram: Gram,
    /// The largest value: of the residual before a norm, of the input itself elsewhere.
    pub(crate) max: f64,
    /// For every token max|x| / root: of the normalised residual before a norm, 0 for a residual of zeros. Elsewhere none.
    pub(crate) peaks: Vec<f64>,
    /// The largest value before the site's rotation; 0 before a norm.
    pub(crate) unrotated: f64,
}

/// Hessian of the normalised, rotated residual, and the largest residual in the rotated basis.
fn norm_site(
    r: &Rotations,
    rows: &Rows,
    eps: f64,
    gain: Option<&[f32]>,
    compute: &Compute,
) -> Site {
    let mut gram = Gram::new(rows.width);
    let max = Max::default();
    let peaks: Vec<Max> = (0..rows.count()).map(|_| Max::default()).collect();
    let inverse_root = 1.0 / libm::sqrt(rows.width as f64);
    gram.add_rows(rows.count(), compute, |t, out| {
        let x = rows.row(t);
        out.iter_mut().zip(x).for_each(|(o, &v)| *o = f64::from(v));
        r.rotate_residual(out);
        max.add(out);
        normalise(x, eps, out);
        if let Some(gain) = gain {
            out.iter_mut()
                .zip(gain)
                .for_each(|(o, &g)| *o *= f64::from(g));
        }
        r.rotate_residual(out);
        // The root mean square of out is 1: max|out| / sqrt(n) is the largest share of the root.
        peaks[t].add(out);
    });
    Site {
        gram,
        max: max.get(),
        peaks: peaks
            .into_iter()
            .map(|peak| peak.get() * inverse_root)
            .collect(),
        unrotated: 0.0,
    }
}

impl Captured {
    /// Site of q, k and v.
    pub(crate) fn attention_input(&self, r: &Rotations, eps: f64, compute: &Compute) -> Site {
        norm_site(r, &self.before, eps, None, compute)
    }

    /// Site of gate and up.
    pub(crate) fn mlp_input(&self, r: &Rotations, eps: f64, compute: &Compute) -> Site {
        norm_site(r, &self.middle, eps, None, compute)
    }

    /// Site of o, in the basis of the equalised and rotated heads.
    pub(crate) fn o_input(&self, r: &Rotations, eq: &Equalisation, compute: &Compute) -> Site {
        let inverse: Vec<f64> = (0..self.o_in.width)
            .map(|c| 1.0 / eq.value_of_query(r, c))
            .collect();
        site(&self.o_in, &inverse, |row| r.rotate_heads(row), compute)
    }

    /// Site of down, in the basis of the equalised and rotated MLP.
    pub(crate) fn down_input(&self, r: &Rotations, eq: &Equalisation, compute: &Compute) -> Site {
        let inverse: Vec<f64> = eq.mlp.iter().map(|s| 1.0 / s).collect();
        site(&self.down_in, &inverse, |row| r.rotate_mlp(row), compute)
    }

    /// The largest equalised and rotated value.
    pub(crate) fn value_max(&self, r: &Rotations, eq: &Equalisation, compute: &Compute) -> f64 {
        let max = Max::default();
        each(
            compute.threads,
            0..self.value.count(),
            || vec![0.0; self.value.width],
            |row, t| {
                for ((o, &v), s) in row.iter_mut().zip(self.value.row(t)).zip(&eq.value) {
                    *o = f64::from(v) / s;
                }
                r.rotate_heads(row);
                max.add(row);
            },
        );
        max.get()
    }
}

fn site(rows: &Rows, scale: &[f64], rotate: impl Fn(&mut [f64]) + Sync, compute: &Compute) -> Site {
    let mut gram = Gram::new(rows.width);
    let (max, unrotated) = (Max::default(), Max::default());
    gram.add_rows(rows.count(), compute, |t, out| {
        for ((o, &v), s) in out.iter_mut().zip(rows.row(t)).zip(scale) {
            *o = f64::from(v) * s;
        }
        unrotated.add(out);
        rotate(out);
        max.add(out);
    });
    Site {
        gram,
        max: max.get(),
        peaks: Vec::new(),
        unrotated: unrotated.get(),
    }
}

/// Site of the output head: normalised residual times the final gain, rotated.
pub(crate) fn head_site(
    r: &Rotations,
    residual: &[Vec<f32>],
    final_norm: &[f32],
    eps: f64,
    compute: &Compute,
) -> Site {
    let mut rows = Rows::default();
    for w in residual {
        rows.push(final_norm.len(), w);
    }
    norm_site(r, &rows, eps, Some(final_norm), compute)
}
