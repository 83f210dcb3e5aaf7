//! One decoder layer, with an observer of what enters its matrix products.

use super::attention::LayerKv;
use super::pack::PackedMatrix;
use super::rope::RopeTable;
use super::{Exec, ForwardError};
use crate::config::ModelConfig;
use crate::source::LayerWeights;

/// A layer's weights in the layout of the kernels.
#[derive(Debug, Clone)]
pub struct PackedLayer {
    attn_norm: Vec<f32>,
    q: PackedMatrix,
    k: PackedMatrix,
    v: PackedMatrix,
    o: PackedMatrix,
    q_norm: Option<Vec<f32>>,
    k_norm: Option<Vec<f32>>,
    ffn_norm: Vec<f32>,
    gate: PackedMatrix,
    up: PackedMatrix,
    down: PackedMatrix,
}

impl PackedLayer {
    /// Packs the weights of a layer.
    pub fn new(w: &LayerWeights) -> Self {
        Self {
            attn_norm: w.attn_norm.clone(),
            q: PackedMatrix::new(&w.q),
            k: PackedMatrix::new(&w.k),
            v: PackedMatrix::new(&w.v),
            o: PackedMatrix::new(&w.o),
            q_norm: w.q_norm.clone(),
            k_norm: w.k_norm.clone(),
            ffn_norm: w.ffn_norm.clone(),
            gate: PackedMatrix::new(&w.gate),
            up: PackedMatrix::new(&w.up),
            down: PackedMatrix::new(&w.down),
        }
    }
}

/// A point of a layer at which activations are observed, in execution order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tap {
    /// Input of q, k and v: the residual after the first norm, `[n, hidden]`.
    AttnInput,
    /// Queries after their norm and rope, `[n, heads * head_dim]`.
    Query,
    /// Keys after their norm and rope, `[n, kv_heads * head_dim]`.
    Key,
    /// Values, `[n, kv_heads * head_dim]`.
    Value,
    /// Input of o: the heads' outputs, `[n, heads * head_dim]`.
    AttnOutput,
    /// Output of o, before the residual addition, `[n, hidden]`.
    AttnProjected,
    /// Input of gate and up: the residual after the second norm, `[n, hidden]`.
    FfnInput,
    /// Input of down: `silu(gate) * up`, `[n, intermediate]`.
    DownInput,
    /// Output of down, before the residual addition, `[n, hidden]`.
    FfnOutput,
}

/// What an observer sees: activations `[n, width]`, valid during the call.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// Where.
    pub tap: Tap,
    /// Index of the window.
    pub window: usize,
    /// Channels of a row.
    pub width: usize,
    /// Rows, one a token.
    pub data: &'a [f32],
}

/// Runs one layer over independent windows, replacing each `[n, hidden]` residual by the layer's output.
///
/// Every window is a sequence of its own with positions from 0. `observe` is called for each window at each
/// [`Tap`] in order.
///
/// # Errors
/// A window that is empty or not a whole number of rows; weights that do not fit the configuration.
pub fn run_layer(
    config: &ModelConfig,
    weights: &PackedLayer,
    windows: &mut [Vec<f32>],
    exec: &Exec,
    observe: &mut dyn FnMut(&Observation<'_>),
) -> Result<(), ForwardError> {
    weights.check(config)?;
    for w in windows.iter() {
        if w.is_empty() || !w.len().is_multiple_of(config.hidden) {
            return Err(ForwardError::WindowShape {
                len: w.len(),
                hidden: config.hidden,
            });
        }
    }
    let longest = windows
        .iter()
        .map(|w| w.len() / config.hidden)
        .max()
        .unwrap_or(0);
    let rope = RopeTable::new(config, longest);
    for (window, x) in windows.iter_mut().enumerate() {
        let mut kv = LayerKv::new(config);
        let mut see = |tap, width, data: &[f32]| {
            observe(&Observation {
                tap,
                window,
                width,
                data,
            })
        };
        weights.step(config, x, 0, &rope, &mut kv, exec, &mut see);
    }
    Ok(())
}

/// RMS norm of each row of `x`.
pub(super) fn norm_rows(x: &[f32], gain: &[f32], config: &ModelConfig, exec: &Exec) -> Vec<f32> {
    let (width, eps) = (gain.len(), config.rms_eps as f32);
    let mut out = vec![0.0; x.len()];
    exec.for_rows(&mut out, width, |first, rows| {
        for (row, x) in rows
            .chunks_exact_mut(width)
            .zip(x[first * width..].chunks_exact(width))
        {
            (exec.kernels.rms_norm)(x, gain, eps, row);
        }
    });
    out
}

fn add_to(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

impl PackedLayer {
    fn check(&self, c: &ModelConfig) -> Result<(), ForwardError> {
        let matrices = [
            ("q", &self.q, c.q_dim(), c.hidden),
            ("k", &self.k, c.kv_dim(), c.hidden),
            ("v", &self.v, c.kv_dim(), c.hidden),
            ("o", &self.o, c.hidden, c.q_dim()),
            ("gate", &self.gate, c.intermediate, c.hidden),
            ("up", &self.up, c.intermediate, c.hidden),
            ("down", &self.down, c.hidden, c.intermediate),
        ];
        for (tensor, m, rows, cols) in matrices {
            if (m.rows(), m.cols()) != (rows, cols) {
                return Err(ForwardError::WeightShape { tensor });
            }
        }
        let gain = if c.qk_norm { Some(c.head_dim) } else { None };
        let gains = [
            ("attn_norm", Some(self.attn_norm.len()), Some(c.hidden)),
            ("ffn_norm", Some(self.ffn_norm.len()), Some(c.hidden)),
            ("q_norm", self.q_norm.as_ref().map(Vec::len), gain),
            ("k_norm", self.k_norm.as_ref().map(Vec::len), gain),
        ];
        match gains.iter().find(|(_, found, expected)| found != expected) {
            Some((tensor, ..)) => Err(ForwardError::WeightShape { tensor }),
            None => Ok(()),
        }
    }

    /// The layer over `n` new positions from `start` on; `kv` holds the earlier ones.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn step(
        &self,
        config: &ModelConfig,
        x: &mut [f32],
        start: usize,
        rope: &RopeTable,
        kv: &mut LayerKv,
        exec: &Exec,
        observe: &mut dyn FnMut(Tap, usize, &[f32]),
    ) {
        let (q_dim, kv_dim) = (config.q_dim(), config.kv_dim());
        let input = norm_rows(x, &self.attn_norm, config, exec);
        observe(Tap::AttnInput, config.hidden, &input);
        let mut q = self.q.matmul(&input, exec);
        let mut k = self.k.matmul(&input, exec);
        let v = self.v.matmul(&input, exec);
        prepare_heads(
            &mut q,
            q_dim,
            self.q_norm.as_deref(),
            config,
            start,
            rope,
            exec,
        );
        prepare_heads(
            &mut k,
            kv_dim,
            self.k_norm.as_deref(),
            config,
            start,
            rope,
            exec,
        );
        observe(Tap::Query, q_dim, &q);
        observe(Tap::Key, kv_dim, &k);
        observe(Tap::Value, kv_dim, &v);
        kv.push(&k, &v);
        let heads = kv.attend(&q, exec);
        observe(Tap::AttnOutput, q_dim, &heads);
        let projected = self.o.matmul(&heads, exec);
        observe(Tap::AttnProjected, config.hidden, &projected);
        add_to(x, &projected);

        let input = norm_rows(x, &self.ffn_norm, config, exec);
        observe(Tap::FfnInput, config.hidden, &input);
        let mut gate = self.gate.matmul(&input, exec);
        let up = self.up.matmul(&input, exec);
        let width = config.intermediate;
        exec.for_rows(&mut gate, width, |first, rows| {
            let from = first * width;
            (exec.kernels.silu_mul)(rows, &up[from..from + rows.len()]);
        });
        observe(Tap::DownInput, width, &gate);
        let output = self.down.matmul(&gate, exec);
        observe(Tap::FfnOutput, config.hidden, &output);
        add_to(x, &output);
    }
}

/// The norm of each head, if there is one, then rope.
fn prepare_heads(
    rows: &mut [f32],
    width: usize,
    gain: Option<&[f32]>,
    config: &ModelConfig,
    start: usize,
    rope: &RopeTable,
    exec: &Exec,
) {
    if let Some(gain) = gain {
        let normed = norm_rows(rows, gain, config, exec);
        rows.copy_from_slice(&normed);
    }
    exec.for_rows(rows, width, |first, rows| {
        for (i, row) in rows.chunks_exact_mut(width).enumerate() {
            for head in row.chunks_exact_mut(config.head_dim) {
                rope.rotate(head, start + first + i);
            }
        }
    });
}
