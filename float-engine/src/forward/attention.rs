//! Keys and values of one layer, and causal attention over them.

use super::Exec;
use super::gemm::Gemm;
use super::lanes::LANES;
use crate::config::ModelConfig;

/// Query rows of one unit of work.
const ROW_TILE: usize = 24;

/// The keys and values of one layer, for the positions seen so far.
#[derive(Debug, Clone)]
pub(super) struct LayerKv {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    len: usize,
    /// For each kv head, panels of 16 positions: `[position / 16][head_dim][16]`; unused lanes are 0.
    keys: Vec<Vec<f32>>,
    /// For each kv head and each 16 channels: `[position][16]`; unused lanes are 0.
    values: Vec<Vec<f32>>,
}

impl LayerKv {
    pub(super) fn new(c: &ModelConfig) -> Self {
        Self {
            heads: c.heads,
            kv_heads: c.kv_heads,
            head_dim: c.head_dim,
            len: 0,
            keys: vec![Vec::new(); c.kv_heads],
            values: vec![Vec::new(); c.kv_heads * c.head_dim.div_ceil(LANES)],
        }
    }

    /// Appends rows `[n, kv_heads * head_dim]` of keys (after rope) and values.
    pub(super) fn push(&mut self, k: &[f32], v: &[f32]) {
        let (d, width) = (self.head_dim, self.kv_heads * self.head_dim);
        let blocks = d.div_ceil(LANES);
        for (k, v) in k.chunks_exact(width).zip(v.chunks_exact(width)) {
            let lane = self.len % LANES;
            for (h, keys) in self.keys.iter_mut().enumerate() {
                if lane == 0 {
                    keys.resize(keys.len() + d * LANES, 0.0);
                }
                let panel = self.len / LANES * d * LANES;
                for (i, &x) in k[h * d..(h + 1) * d].iter().enumerate() {
                    keys[panel + i * LANES + lane] = x;
                }
                for (b, part) in v[h * d..(h + 1) * d].chunks(LANES).enumerate() {
                    let values = &mut self.values[h * blocks + b];
                    values.extend_from_slice(part);
                    values.resize(values.len() + LANES - part.len(), 0.0);
                }
            }
            self.len += 1;
        }
    }

    /// Attention of queries `q`, `[n, heads * head_dim]`, for the last `n` positions pushed.
    ///
    /// A position's sums do not depend on how many follow it, so that a cached decode gives the bits of a prefill.
    pub(super) fn attend(&self, q: &[f32], exec: &Exec) -> Vec<f32> {
        let width = self.heads * self.head_dim;
        let n = q.len() / width;
        let start = self.len - n;
        let mut out = vec![0.0; n * width];
        let tiles = out.chunks_mut(ROW_TILE * width).enumerate();
        let tile = |i: usize, out: &mut [f32], scores: &mut Vec<f32>| {
            let first = i * ROW_TILE;
            let rows = out.len() / width;
            self.tile(
                &q[first * width..(first + rows) * width],
                start + first,
                out,
                scores,
                exec,
            );
        };
        if exec.threads <= 1 || n <= ROW_TILE {
            let mut scores = Vec::new();
            tiles.for_each(|(i, out)| tile(i, out, &mut scores));
            return out;
        }
        // later tiles are longer: deal them out in turn
        let mut shares: Vec<Vec<(usize, &mut [f32])>> =
            (0..exec.threads).map(|_| Vec::new()).collect();
        for (i, out) in tiles {
            shares[i % exec.threads].push((i, out));
        }
        std::thread::scope(|s| {
            let tile = &tile;
            for share in shares {
                s.spawn(move || {
                    let mut scores = Vec::new();
                    share
                        .into_iter()
                        .for_each(|(i, out)| tile(i, out, &mut scores));
                });
            }
        });
        out
    }

    /// Rows of `q` at positions `start..`.
    fn tile(&self, q: &[f32], start: usize, out: &mut [f32], scores: &mut Vec<f32>, exec: &Exec) {
        let (d, width) = (self.head_dim, self.heads * self.head_dim);
        let rows = q.len() / width;
        let len = start + rows;
        let lds = len.next_multiple_of(LANES);
        let blocks = d.div_ceil(LANES);
        let scale = (1.0 / (d as f64).sqrt()) as f32;
        scores.clear();
        scores.resize(rows * lds, 0.0);
        for h in 0..self.heads {
            let kv = h / (self.heads / self.kv_heads);
            let keys = &self.keys[kv][..lds * d];
            let g = Gemm {
                x: &q[h * d..],
                ldx: width,
                rows,
                k: d,
                panels: keys,
                cols: lds,
                ldo: lds,
            };
            (exec.kernels.gemm)(&g, scores);
            let mut sums = [0.0f32; ROW_TILE];
            for (r, row) in scores.chunks_exact_mut(lds).enumerate() {
                sums[r] = (exec.kernels.softmax_unscaled)(row, start + r + 1, scale);
            }
            for b in 0..blocks {
                let cols = LANES.min(d - b * LANES);
                let panels = &self.values[kv * blocks + b][..len * LANES];
                let g = Gemm {
                    x: scores,
                    ldx: lds,
                    rows,
                    k: len,
                    panels,
                    cols,
                    ldo: width,
                };
                (exec.kernels.gemm)(&g, &mut out[h * d + b * LANES..]);
            }
            for (row, sum) in out.chunks_exact_mut(width).zip(sums) {
                for x in &mut row[h * d..(h + 1) * d] {
                    *x /= sum;
                }
            }
        }
    }
}
