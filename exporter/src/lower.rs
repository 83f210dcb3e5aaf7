//! Exact function-preserving transforms of a layer: equalise, fold the norm gains, rotate.
//!
//! Row vectors x are activations; a weight matrix W is `[out, in]` and y = x W^T.

use crate::hadamard::Hadamard;
use crate::random::SplitMix;
use float_engine::config::ModelConfig;
use float_engine::source::{LayerWeights, Matrix};
use int_engine::config::{Scheme, had_block, pow2_block};

/// Seed of the residual rotation's signs.
const SIGN_SEED: u64 = 0x0b1e_5167;
/// Maxima below this count as this when factors are balanced.
const BALANCE_FLOOR: f64 = 1e-6;

/// A matrix in f64, row-major `[rows][cols]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mat {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) data: Vec<f64>,
}

impl Mat {
    pub(crate) fn of(m: &Matrix) -> Self {
        Self {
            rows: m.rows,
            cols: m.cols,
            data: m.data.iter().map(|&v| f64::from(v)).collect(),
        }
    }

    pub(crate) fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.cols..(i + 1) * self.cols]
    }

    fn scale_rows(&mut self, factor: impl Fn(usize) -> f64) {
        for (i, row) in self.data.chunks_mut(self.cols).enumerate() {
            let s = factor(i);
            row.iter_mut().for_each(|v| *v *= s);
        }
    }

    fn scale_cols(&mut self, factor: impl Fn(usize) -> f64) {
        let s: Vec<f64> = (0..self.cols).map(factor).collect();
        for row in self.data.chunks_mut(self.cols) {
            row.iter_mut().zip(&s).for_each(|(v, s)| *v *= s);
        }
    }

    fn column_max(&self) -> Vec<f64> {
        let mut max = vec![0.0; self.cols];
        for row in self.data.chunks(self.cols) {
            raise(&mut max, row.iter().copied());
        }
        max
    }
}

/// `max[i] = max(max[i], |values[i]|)`.
pub(crate) fn raise(max: &mut [f64], values: impl Iterator<Item = f64>) {
    for (m, v) in max.iter_mut().zip(values) {
        *m = m.max(v.abs());
    }
}

/// Block of the rotation before down: the largest power of two that divides the MLP's width, or with static scales
/// the largest divisor that has a Hadamard matrix, mostly the whole width.
pub(crate) fn mlp_block(c: &ModelConfig, scheme: Scheme) -> usize {
    match scheme {
        Scheme::Dynamic => pow2_block(c.intermediate),
        Scheme::Static => had_block(c.intermediate),
    }
}

/// The dimensions and rotations of a model.
#[derive(Debug, Clone)]
pub(crate) struct Rotations {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    qk_norm: bool,
    /// The residual's signs d.
    signs: Vec<f64>,
    residual: Hadamard,
    head: Hadamard,
    mlp: Hadamard,
}

impl Rotations {
    pub(crate) fn new(c: &ModelConfig, scheme: Scheme) -> Self {
        let mut random = SplitMix::new(SIGN_SEED);
        let sign = |_| {
            if random.next_u64() >> 63 == 0 {
                1.0
            } else {
                -1.0
            }
        };
        Self {
            heads: c.heads,
            kv_heads: c.kv_heads,
            head_dim: c.head_dim,
            qk_norm: c.qk_norm,
            signs: (0..c.hidden).map(sign).collect(),
            residual: Hadamard::new(had_block(c.hidden)),
            head: Hadamard::new(had_block(c.head_dim)),
            mlp: Hadamard::new(mlp_block(c, scheme)),
        }
    }

    /// x Q, Q = diag(d) blockdiag(H_B) / sqrt(B), for one residual row.
    pub(crate) fn rotate_residual(&self, x: &mut [f64]) {
        x.iter_mut().zip(&self.signs).for_each(|(v, d)| *v *= d);
        self.residual.forward_orthogonal(x, 1);
    }

    /// A row of heads times blockdiag(H_B) / sqrt(B).
    pub(crate) fn rotate_heads(&self, x: &mut [f64]) {
        self.head.forward_orthogonal(x, 1);
    }

    /// An MLP row times blockdiag(H_B), not normalised, as the integer engine does it.
    pub(crate) fn rotate_mlp(&self, x: &mut [f64]) {
        self.mlp.forward(x, 1);
    }

    fn pair(&self, channel: usize) -> usize {
        channel % self.head_dim % (self.head_dim / 2)
    }
}

/// Largest magnitudes per channel over the calibration tokens, before any transform.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChannelMaxima {
    /// After rope, `[heads * head_dim]`.
    pub(crate) q: Vec<f64>,
    /// After rope, `[kv_heads * head_dim]`.
    pub(crate) k: Vec<f64>,
    /// Input of o, `[heads * head_dim]`.
    pub(crate) o_in: Vec<f64>,
    /// Input of down, `[intermediate]`.
    pub(crate) down_in: Vec<f64>,
}

/// Factors that balance activations against weights; each cancels out of the layer's function.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Equalisation {
    /// Per MLP channel: up rows are divided, down columns multiplied.
    pub(crate) mlp: Vec<f64>,
    /// Per kv channel: v rows are divided, o columns of the group multiplied.
    pub(crate) value: Vec<f64>,
    /// Per kv head and rope pair, or per pair with q/k norm: k is divided, q multiplied.
    pub(crate) pair: Vec<f64>,
}

/// Divides by the geometric mean.
fn centre(s: &mut [f64]) {
    let mean = libm::exp(s.iter().fold(0.0, |t, v| t + libm::log(*v)) / s.len() as f64);
    s.iter_mut().for_each(|v| *v /= mean);
}

impl Equalisation {
    /// Factors with exponent 1/2 from the maxima: `s = sqrt(activation / weight)`, geometric mean 1.
    pub(crate) fn of(r: &Rotations, max: &ChannelMaxima, w: &LayerWeights) -> Self {
        let (hd, half, group) = (r.head_dim, r.head_dim / 2, r.heads / r.kv_heads);
        let balance = |x: f64, w: f64| libm::sqrt(x.max(BALANCE_FLOOR) / w.max(BALANCE_FLOOR));
        let down = Mat::of(&w.down).column_max();
        let mut mlp: Vec<f64> = max
            .down_in
            .iter()
            .zip(&down)
            .map(|(x, w)| balance(*x, *w))
            .collect();
        centre(&mut mlp);
        let o = Mat::of(&w.o).column_max();
        let over_group = |v: &[f64], c: usize| {
            (0..group).fold(0.0f64, |m, g| m.max(v[(c / hd * group + g) * hd + c % hd]))
        };
        let mut value: Vec<f64> = (0..r.kv_heads * hd)
            .map(|c| balance(over_group(&max.o_in, c), over_group(&o, c)))
            .collect();
        centre(&mut value);
        let kv = |c: usize| c / hd;
        let of_head = |v: &[f64], per: usize, head: usize, pair: usize| {
            let mut m = 0.0f64;
            for (c, x) in v.iter().enumerate() {
                if r.pair(c) == pair && (r.qk_norm || kv(c) / per == head) {
                    m = m.max(*x);
                }
            }
            m
        };
        let sets = if r.qk_norm { 1 } else { r.kv_heads };
        let mut pair = Vec::with_capacity(sets * half);
        for head in 0..sets {
            let mut s: Vec<f64> = (0..half)
                .map(|p| balance(of_head(&max.k, 1, head, p), of_head(&max.q, group, head, p)))
                .collect();
            centre(&mut s);
            pair.extend(s);
        }
        Self { mlp, value, pair }
    }

    /// The v factor of o's input channel `c`.
    pub(crate) fn value_of_query(&self, r: &Rotations, c: usize) -> f64 {
        let (hd, group) = (r.head_dim, r.heads / r.kv_heads);
        self.value[c / hd / group * hd + c % hd]
    }

    /// The pair factor of channel `c` of rows with `per_kv` heads to each kv head.
    pub(crate) fn pair_of(&self, r: &Rotations, per_kv: usize, c: usize) -> f64 {
        let head = if r.qk_norm {
            0
        } else {
            c / r.head_dim / per_kv
        };
        self.pair[head * (r.head_dim / 2) + r.pair(c)]
    }
}

/// A layer in the basis of the integer engine.
#[derive(Debug, Clone)]
pub(crate) struct Lowered {
    pub(crate) q: Mat,
    pub(crate) k: Mat,
    pub(crate) v: Mat,
    pub(crate) o: Mat,
    pub(crate) gate: Mat,
    pub(crate) up: Mat,
    pub(crate) down: Mat,
    pub(crate) q_gain: Option<Vec<f64>>,
    pub(crate) k_gain: Option<Vec<f64>>,
}

/// Equalises, folds both norm gains and rotates a layer.
///
/// q, k, v, gate and up then read the normalised residual in the rotated basis, o reads head rows rotated by
/// [`Rotations::rotate_heads`], down reads rows of [`Rotations::rotate_mlp`], and o and down write the rotated residual.
pub(crate) fn lower(r: &Rotations, eq: &Equalisation, w: &LayerWeights) -> Lowered {
    let group = r.heads / r.kv_heads;
    let gained = |m: &Matrix, gain: &[f32]| {
        let mut m = Mat::of(m);
        m.scale_cols(|j| f64::from(gain[j]));
        m
    };
    let mut q = gained(&w.q, &w.attn_norm);
    let mut k = gained(&w.k, &w.attn_norm);
    let mut v = gained(&w.v, &w.attn_norm);
    let mut gate = gained(&w.gate, &w.ffn_norm);
    let mut up = gained(&w.up, &w.ffn_norm);
    let (mut o, mut down) = (Mat::of(&w.o), Mat::of(&w.down));
    let (mut q_gain, mut k_gain) = (None, None);
    if let (Some(gq), Some(gk)) = (&w.q_norm, &w.k_norm) {
        let scaled = |g: &[f32], f: &dyn Fn(f64) -> f64| -> Vec<f64> {
            let factor = |(i, &g): (usize, &f32)| f64::from(g) * f(eq.pair_of(r, 1, i));
            g.iter().enumerate().map(factor).collect()
        };
        q_gain = Some(scaled(gq, &|s| s));
        k_gain = Some(scaled(gk, &|s| 1.0 / s));
    } else {
        q.scale_rows(|c| eq.pair_of(r, group, c));
        k.scale_rows(|c| 1.0 / eq.pair_of(r, 1, c));
    }
    v.scale_rows(|c| 1.0 / eq.value[c]);
    o.scale_cols(|c| eq.value_of_query(r, c));
    up.scale_rows(|c| 1.0 / eq.mlp[c]);
    down.scale_cols(|c| eq.mlp[c]);
    // R2: heads of v on the way out, of o on the way in.
    let cols = v.cols;
    r.head.forward_orthogonal(&mut v.data, cols);
    r.head.forward_orthogonal(&mut o.data, 1);
    // R4, with the inverse of the unnormalised transform: H H^T = B I.
    r.mlp.forward(&mut down.data, 1);
    let inverse = 1.0 / r.mlp.block() as f64;
    down.data.iter_mut().for_each(|v| *v *= inverse);
    // R1 on the way in ...
    for m in [&mut q, &mut k, &mut v, &mut gate, &mut up] {
        for row in m.data.chunks_mut(m.cols) {
            r.rotate_residual(row);
        }
    }
    // ... and on the way out.
    for m in [&mut o, &mut down] {
        m.scale_rows(|i| r.signs[i]);
        let cols = m.cols;
        r.residual.forward_orthogonal(&mut m.data, cols);
    }
    Lowered {
        q,
        k,
        v,
        o,
        gate,
        up,
        down,
        q_gain,
        k_gain,
    }
}

/// A residual row divided by its root mean square, without a gain.
pub(crate) fn normalise(x: &[f32], eps: f64, out: &mut [f64]) {
    let mean = x.iter().fold(0.0, |s, &v| s + f64::from(v) * f64::from(v)) / x.len() as f64;
    let root = libm::sqrt(mean + eps);
    let inverse = if root > 0.0 { 1.0 / root } else { 0.0 };
    out.iter_mut()
        .zip(x)
        .for_each(|(o, &v)| *o = f64::from(v) * inverse);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::random_windows;
    use crate::collect::capture;
    use crate::compute::Compute;
    use float_engine::forward::{FloatModel, embed_tokens};
    use float_engine::source::Checkpoint;
    use std::num::NonZeroUsize;
    use std::path::Path;

    fn matrix(m: &Mat) -> Matrix {
        Matrix::new(m.rows, m.cols, m.data.iter().map(|&v| v as f32).collect())
    }

    /// Undoes the rotation of down's columns: times H^T, whose column i is the image of unit vector i.
    fn unrotated(r: &Rotations, m: &Mat) -> Mat {
        let image = |i: usize| {
            let mut row = vec![0.0; m.cols];
            row[i] = 1.0;
            r.rotate_mlp(&mut row);
            row
        };
        let images: Vec<Vec<f64>> = (0..m.cols).map(image).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).fold(0.0, |s, (a, b)| s + a * b);
        let data = (0..m.rows).flat_map(|o| images.iter().map(move |h| dot(m.row(o), h)));
        Mat {
            data: data.collect(),
            ..*m
        }
    }

    /// The checkpoint with every layer lowered and the rotation before down undone, as a float model with its own head.
    fn transformed(ckpt: &Checkpoint, scheme: Scheme) -> Checkpoint {
        let c = ckpt.config();
        let r = Rotations::new(c, scheme);
        let embed = ckpt.embed().unwrap();
        let mut residual: Vec<Vec<f32>> = random_windows(5, c.vocab, 2, 24)
            .iter()
            .map(|w| embed_tokens(c, &embed, w).unwrap())
            .collect();
        let compute = Compute::detect(NonZeroUsize::MIN);
        let mut layers = Vec::new();
        for i in 0..c.layers {
            let w = ckpt.layer(i).unwrap();
            let seen = capture(c, i, &w, &mut residual, &compute).unwrap();
            let mut l = lower(&r, &Equalisation::of(&r, &seen.maxima, &w), &w);
            l.down = unrotated(&r, &l.down);
            let gain = |g: Option<Vec<f64>>| g.map(|g| g.iter().map(|&v| v as f32).collect());
            layers.push(LayerWeights {
                attn_norm: vec![1.0; c.hidden],
                q: matrix(&l.q),
                k: matrix(&l.k),
                v: matrix(&l.v),
                o: matrix(&l.o),
                q_norm: gain(l.q_gain),
                k_norm: gain(l.k_gain),
                ffn_norm: vec![1.0; c.hidden],
                gate: matrix(&l.gate),
                up: matrix(&l.up),
                down: matrix(&l.down),
            });
        }
        let rotated = |m: &Matrix, gain: &[f32]| {
            let mut m = Mat::of(m);
            for row in m.data.chunks_mut(m.cols) {
                row.iter_mut()
                    .zip(gain)
                    .for_each(|(v, &g)| *v *= f64::from(g));
                r.rotate_residual(row);
            }
            matrix(&m)
        };
        let head = ckpt.lm_head().unwrap().unwrap_or_else(|| embed.clone());
        let head = rotated(&head, &ckpt.final_norm().unwrap());
        let embed = rotated(&embed, &vec![1.0; c.hidden]);
        let config = ModelConfig {
            tied: false,
            ..c.clone()
        };
        Checkpoint::from_parts(config, embed, layers, vec![1.0; c.hidden], Some(head)).unwrap()
    }

    #[test]
    fn the_transforms_preserve_the_float_function() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
        // q/k norm, heads wider than hidden / heads; hidden 80 = 20 * 4 and no q/k norm with hidden 96 = 12 * 8.
        for name in [
            "golden/a_qwen3_tied_bf16",
            "golden/b_qwen3_untied_f32_sharded",
            "golden/c_llama_untied_f16",
            "tiny-austen",
        ] {
            let ckpt = Checkpoint::open(&models.join(name)).unwrap();
            let ids = &random_windows(9, ckpt.config().vocab, 1, 20)[0];
            let logits = |c: &Checkpoint| FloatModel::load(c).unwrap().logits(ids, 1).unwrap();
            let a = logits(&ckpt);
            let largest = a.iter().fold(0.0f32, |m, v| m.max(v.abs()));
            for scheme in [Scheme::Dynamic, Scheme::Static] {
                let b = logits(&transformed(&ckpt, scheme));
                for (x, y) in a.iter().zip(&b) {
                    assert!((x - y).abs() < 1e-5 * largest, "{name}: {x} against {y}");
                }
            }
        }
    }

    #[test]
    fn eps_is_inside_the_root() {
        let norm = |x: &[f32], eps| {
            let mut out = vec![9.0; x.len()];
            normalise(x, eps, &mut out);
            out
        };
        // The mean square 2^-60 is far below eps = 2^-20, whose root is 2^-10.
        let x = 2f32.powi(-30);
        for v in norm(&[x, -x], 2f64.powi(-20)) {
            assert!((v.abs() * 2f64.powi(20) - 1.0).abs() < 1e-9);
        }
        assert_eq!(norm(&[3.0, -3.0], 0.0), [1.0, -1.0]);
        assert_eq!(norm(&[0.0, 0.0], 0.0), [0.0, 0.0]);
    }

    #[test]
    fn equalisation_is_neutral_on_balanced_and_on_silent_channels() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
        let ckpt = Checkpoint::open(&models.join("golden/c_llama_untied_f16")).unwrap();
        let c = ckpt.config();
        let r = Rotations::new(c, Scheme::Dynamic);
        let mut w = ckpt.layer(0).unwrap();
        w.down.data.fill(0.0);
        w.o.data.fill(0.0);
        let zeros = |n| vec![0.0; n];
        let maxima = ChannelMaxima {
            q: zeros(c.heads * c.head_dim),
            k: zeros(c.kv_heads * c.head_dim),
            o_in: zeros(c.heads * c.head_dim),
            down_in: zeros(c.intermediate),
        };
        let eq = Equalisation::of(&r, &maxima, &w);
        for s in [&eq.mlp, &eq.value, &eq.pair] {
            assert!(s.iter().all(|v| (v - 1.0).abs() < 1e-12));
        }
    }
}
