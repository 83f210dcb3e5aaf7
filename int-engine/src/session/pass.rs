//! A forward pass: some tokens of some sessions on their way through the layers together (spec 3.3).
//!
//! A layer is a few phases. In those of the matrix products the threads share the rows of the matrices, so every weight
//! is read once for all tokens; in the others they share the tokens, and in attention pairs of a run of tokens and a kv
//! head. All meet between phases. Runs of one token each go from the projections to the attention's output kv head by kv
//! head ([`decode`]); the other phases of a single token run on the calling thread.

mod attention;
mod decode;
mod mlp;

use super::attend::{self, grow};
use super::cache::KvCache;
use super::head::Head;
use super::plan::Plan;
use crate::buffer::Buffer;
use crate::config::Config;
use crate::halt::Fault;
use crate::kernels::operands::Inputs;
use crate::ops::dynq::clamp_from;
use crate::ops::fixed::I31;
use crate::ops::ratio::{TokenScale, ratio, root_fraction};
use crate::ops::requantize::requantize;
use crate::ops::rms::{alignment, root};
use crate::ops::rope::rope_angle;
use crate::pool::lock;
use crate::probe::{Op, ProbeSink, Recorder};
use std::sync::Mutex;

/// Most tokens of a pass: enough uses of a weight while it is in the cache, and bounded memory.
pub(super) const PASS_TOKENS: usize = 128;

/// Q and k without q/k norm saturate here.
const QK_LIMIT: i32 = 1 << 22;
/// Gate and up saturate here.
const MLP_LIMIT: i32 = 1 << 26;

/// Consecutive tokens of one session.
pub(crate) struct Run<'a> {
    /// Holds what came before; [`Pass::reserve`] makes room for the run.
    pub(crate) cache: &'a mut KvCache,
    /// Position of the first token.
    pub(crate) first: usize,
    /// Accepted ids.
    pub(crate) ids: &'a [u32],
}

/// Receives (stage, position, residual) as [`crate::engine::TraceSink`] does.
pub(super) type Trace<'a> = &'a mut dyn FnMut(usize, usize, &[i32]);

/// What one thread needs for itself.
#[derive(Debug, Default)]
struct Scratch {
    attention: attend::Scratch,
    /// A row of the residual's width.
    row: Vec<i32>,
    /// A row of the gated activation.
    wide: Vec<i64>,
}

/// The state and the memory of a pass. Each buffer may be longer than its shape; `tokens` counts those of all runs, in
/// order.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    /// `[tokens]`.
    positions: Vec<usize>,
    /// The residual, `[tokens][hidden]`.
    x: Vec<i32>,
    /// The quantised input of a product, `[tokens][cols]`.
    codes: Vec<i8>,
    /// The same, packed.
    packed: Buffer,
    /// `[tokens]`.
    scales: Vec<TokenScale>,
    /// Queries, gate, or a product on its way to the residual, `[tokens][width]`.
    a: Vec<i32>,
    /// Keys or up, `[tokens][width]`.
    b: Vec<i32>,
    /// Values, `[tokens][kv_width]`.
    c: Vec<i32>,
    /// The attention's output, `[tokens][heads][head_dim]`.
    attended: Vec<i32>,
    /// `[tokens][head_dim / 2]`.
    angles: Vec<(i32, i32)>,
    /// `[tokens][heads][head_dim]` and `[tokens][heads]`.
    q8: Vec<i8>,
    mq: Vec<u16>,
    /// `[tokens][kv_heads][head_dim]` and `[tokens][kv_heads]`, bound for the cache.
    k8: Vec<i8>,
    mk: Vec<u16>,
    v8: Vec<i8>,
    mv: Vec<u16>,
    /// One for each thread that has a part. Those in use are taken from the end.
    scratch: Mutex<Vec<Scratch>>,
    /// What a probed pass leaves of one layer.
    recorder: Mutex<Recorder>,
    pub(super) head: Head,
}

/// Lends `f` one of the scratches.
fn with_scratch<R>(scratch: &Mutex<Vec<Scratch>>, f: impl FnOnce(&mut Scratch) -> R) -> R {
    let mut own = lock(scratch)
        .pop()
        .expect("one scratch for each part that runs");
    let result = f(&mut own);
    lock(scratch).push(own);
    result
}

/// Tokens of one part of a phase in which threads share the tokens.
fn grain(plan: &Plan, tokens: usize) -> usize {
    tokens.div_ceil(4 * plan.pool.threads()).max(1)
}

impl Pass {
    /// Makes room for `tokens` tokens that see at most `keys` keys.
    pub(super) fn reserve(&mut self, plan: &Plan, tokens: usize, keys: usize) -> Result<(), Fault> {
        let c = plan.model.config();
        let (n, ff, qw, kw) = (c.hidden(), c.intermediate(), c.q_width(), c.kv_width());
        let (widest, what) = (n.max(ff).max(qw), "activations");
        grow(&mut self.positions, tokens, what)?;
        grow(&mut self.x, tokens * n, what)?;
        grow(&mut self.codes, tokens * widest, what)?;
        self.packed.grow(Inputs::room(tokens, widest), what)?;
        grow(&mut self.scales, tokens, what)?;
        grow(&mut self.a, tokens * widest, what)?;
        grow(&mut self.b, tokens * ff.max(kw), what)?;
        grow(&mut self.c, tokens * kw, what)?;
        grow(&mut self.attended, tokens * qw, what)?;
        grow(&mut self.angles, tokens * c.head_dim() / 2, what)?;
        grow(&mut self.q8, tokens * qw, what)?;
        grow(&mut self.mq, tokens * c.heads(), what)?;
        for (codes, scales) in [(&mut self.k8, &mut self.mk), (&mut self.v8, &mut self.mv)] {
            grow(codes, tokens * kw, what)?;
            grow(scales, tokens * c.kv_heads(), what)?;
        }
        // No phase has more parts than tokens, and attention none more than tokens and kv heads.
        let parts = plan.pool.threads().min(tokens * c.kv_heads());
        let mut scratch = lock(&self.scratch);
        if scratch.len() < parts {
            scratch.resize_with(parts, Default::default);
        }
        for scratch in scratch.iter_mut().rev().take(parts) {
            scratch.attention.reserve(plan, tokens, keys)?;
            grow(&mut scratch.row, n, what)?;
            grow(&mut scratch.wide, ff, what)?;
        }
        Ok(())
    }

    /// Makes room for what a probed pass of `tokens` tokens records.
    pub(super) fn reserve_probes(&mut self, config: &Config, tokens: usize) -> Result<(), Fault> {
        lock(&self.recorder).reserve(config, tokens)
    }

    /// The residual rows of `tokens` tokens, `[tokens][hidden]`.
    pub(super) fn residual(&self, plan: &Plan, tokens: usize) -> &[i32] {
        &self.x[..tokens * plan.model.config().hidden()]
    }

    /// Makes the head's inputs of the tokens in `rows`, for which the head has room; the first token of the pass has
    /// position `first`.
    pub(super) fn head_inputs(&mut self, plan: &Plan, first: usize, rows: std::ops::Range<usize>) {
        let n = plan.model.config().hidden();
        self.head.clear();
        for i in rows {
            self.head
                .push::<false>(plan, first + i, &self.x[i * n..][..n]);
        }
    }

    /// Takes every run through all layers. The caches have room, and so has this pass.
    pub(super) fn forward<const PROBED: bool>(
        &mut self,
        plan: &Plan,
        runs: &mut [Run<'_>],
        trace: Option<Trace<'_>>,
        probe: ProbeSink<'_>,
    ) {
        let tokens = runs.iter().map(|run| run.ids.len()).sum();
        let mut trace = trace;
        let n = plan.model.config().hidden();
        let mut emit = |pass: &Self, stage: usize| {
            if let Some(trace) = &mut trace {
                let rows = pass.x[..tokens * n].chunks_exact(n);
                for (&position, row) in pass.positions.iter().zip(rows) {
                    trace(stage, position, row);
                }
            }
        };
        let mut drain = |pass: &mut Self, layer: Option<usize>| {
            if PROBED {
                lock(&pass.recorder).drain(layer, probe);
            }
        };
        self.embed::<PROBED>(plan, runs);
        emit(self, 0);
        drain(self, None);
        for (i, layer) in plan.model.layers().iter().enumerate() {
            let fraction = layer.static_scales.map(|s| s.attn_norm);
            plan.prepare(tokens, [&layer.q, &layer.k, &layer.v], || {
                self.norm::<PROBED>(plan, tokens, fraction, None, Op::AttnNorm);
            });
            self.project(plan, layer, tokens);
            if !PROBED && runs.iter().all(|run| run.ids.len() == 1) {
                self.attend_each(plan, (i, layer), runs);
            } else {
                self.rotate::<PROBED>(plan, layer, tokens);
                self.append(plan, i, runs);
                self.attention(plan, (i, layer), runs);
            }
            plan.prepare(tokens, [&layer.o], || {
                self.quantize_output::<PROBED>(plan, layer, tokens);
            });
            self.output(plan, layer, tokens);
            let fraction = layer.static_scales.map(|s| s.mlp_norm);
            let ops = [Op::O, Op::AttnResidual];
            plan.prepare(tokens, [&layer.gate, &layer.up], || {
                self.norm::<PROBED>(plan, tokens, fraction, Some(ops), Op::MlpNorm);
            });
            self.gate_and_up(plan, layer, tokens);
            plan.prepare(tokens, [&layer.down], || {
                self.gate::<PROBED>(plan, layer, tokens);
            });
            self.down(plan, layer, tokens);
            self.add::<PROBED>(plan, tokens, [Op::Down, Op::MlpResidual]);
            emit(self, i + 1);
            drain(self, Some(i));
        }
    }

    /// Embeddings and rotary angles.
    fn embed<const PROBED: bool>(&mut self, plan: &Plan, runs: &[Run<'_>]) {
        let (config, embed) = (plan.model.config(), plan.model.embed());
        let n = config.hidden();
        let ids = runs.iter().flat_map(|run| (run.first..).zip(run.ids));
        let rows = self.x.chunks_exact_mut(n).zip(&mut self.positions);
        let angles = self.angles.chunks_exact_mut(config.head_dim() / 2);
        for ((position, &id), ((x, at), angles)) in ids.zip(rows.zip(angles)) {
            *at = position;
            let id = id as usize;
            for (x, w) in x.iter_mut().zip(embed.weight.row(id)) {
                // |w| * 2^24 < 2^31.
                let w = i32::from(w) << 24;
                *x = requantize(w, 0, None, embed.mult[id], embed.shift[id], I31);
            }
            if PROBED {
                lock(&self.recorder).rows(position, Op::Embed, x, n);
            }
            for (angle, &phase) in angles.iter_mut().zip(plan.model.rope_phase()) {
                *angle = rope_angle(phase, position as u32);
            }
        }
    }

    /// `norm` of spec 3.3 for every token: codes and scales. `fraction` is the static scheme's constant. With `add` the
    /// product in `a` is added to the residual first; `add` names the product and the sum.
    fn norm<const PROBED: bool>(
        &mut self,
        plan: &Plan,
        tokens: usize,
        fraction: Option<u32>,
        add: Option<[Op; 2]>,
        op: Op,
    ) {
        let (config, kernels) = (plan.model.config(), plan.kernels);
        let (n, grain) = (config.hidden(), grain(plan, tokens));
        let (scratch, recorder) = (&self.scratch, &self.recorder);
        let mut items: Vec<_> = self.x[..tokens * n]
            .chunks_mut(grain * n)
            .zip(self.a.chunks(grain * n))
            .zip(self.codes.chunks_mut(grain * n))
            .zip(self.scales.chunks_mut(grain))
            .zip(self.positions.chunks(grain))
            .collect();
        plan.pool.each(&mut items, |_, item| {
            let ((((x, a), codes), scales), positions) = item;
            let rows = x.chunks_exact_mut(n).zip(a.chunks_exact(n));
            let rows = rows.zip(codes.chunks_exact_mut(n).zip(&mut **scales));
            for (((x, a), (codes, scale)), &position) in rows.zip(*positions) {
                if let Some(ops) = add {
                    add_row::<PROBED>(plan, x, a, recorder, position, ops);
                }
                let largest = (kernels.max_abs)(x);
                let sh = alignment(largest);
                let (r, e) = root((kernels.sum_squares)(x, sh), sh, config.eps());
                let m = fraction.map_or(largest, |c| root_fraction(c, r, e));
                if largest <= m {
                    (kernels.quantize)(x, m, codes);
                } else {
                    with_scratch(scratch, |scratch| {
                        let row = &mut scratch.row[..n];
                        clamp_from(x, m, row);
                        (kernels.quantize)(row, m, codes);
                    });
                }
                *scale = ratio(m, r, e);
                if PROBED {
                    lock(recorder).codes(position, op, codes, *scale);
                }
            }
        });
    }

    /// Adds the product in `a` to the residual.
    fn add<const PROBED: bool>(&mut self, plan: &Plan, tokens: usize, ops: [Op; 2]) {
        let n = plan.model.config().hidden();
        let grain = grain(plan, tokens);
        let recorder = &self.recorder;
        let mut items: Vec<_> = self.x[..tokens * n]
            .chunks_mut(grain * n)
            .zip(self.a.chunks(grain * n))
            .zip(self.positions.chunks(grain))
            .collect();
        plan.pool.each(&mut items, |_, item| {
            let ((x, a), positions) = item;
            let rows = x.chunks_exact_mut(n).zip(a.chunks_exact(n));
            for ((x, a), &position) in rows.zip(*positions) {
                add_row::<PROBED>(plan, x, a, recorder, position, ops);
            }
        });
    }
}

/// Adds a product to a row of the residual.
fn add_row<const PROBED: bool>(
    plan: &Plan,
    x: &mut [i32],
    product: &[i32],
    recorder: &Mutex<Recorder>,
    position: usize,
    ops: [Op; 2],
) {
    (plan.kernels.add_residual)(x, product);
    if PROBED {
        lock(recorder).rows(position, ops[0], product, x.len());
        lock(recorder).rows(position, ops[1], x, x.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Kernels;
    use crate::lack::small::{dims, model};
    use crate::pool::Pool;
    use std::num::NonZeroUsize;

    #[test]
    fn memory_is_for_threads_that_have_a_part() {
        let threads = NonZeroUsize::new(9).unwrap();
        let plan = Plan::new(model(dims()), Kernels::scalar(), Pool::new(threads));
        let (threads, mut pass) = (plan.pool.threads(), Pass::default());
        // Two kv heads.
        for (tokens, parts) in [(0, 0), (1, 2), (3, 6), (128, 256), (1, 256)] {
            pass.reserve(&plan, tokens, 300).unwrap();
            assert_eq!(lock(&pass.scratch).len(), threads.min(parts));
        }
    }
}
