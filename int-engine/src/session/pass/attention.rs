//! The attention half of a layer: queries, keys, values, the cache, and the o projection.

use super::{Pass, QK_LIMIT, Run, grain, with_scratch};
use crate::kernels::operands::{BLOCK, Out, PAGE};
use crate::model::Layer;
use crate::ops::fixed::{I16, I31};
use crate::ops::ratio::norm_scale;
use crate::pool::lock;
use crate::probe::Op;
use crate::session::attend::{self, Queries, attend};
use crate::session::cache::{Entry, HeadMut};
use crate::session::heads::{
    K_OPS, Q_OPS, QUANT, quantize_heads, rotate_and_quantize, rotate_heads,
};
use crate::session::plan::{Matrix, Plan, Product};
use std::cmp::Reverse;

impl Pass {
    /// The products of the normalised input with q, k and v.
    pub(super) fn project(&mut self, plan: &Plan, layer: &Layer, tokens: usize) {
        let config = plan.model.config();
        let n = config.hidden();
        let (qw, kw) = (config.q_width(), config.kv_width());
        let inputs = plan.pack(&self.codes[..tokens * n], n, self.packed.bytes_mut());
        let scales = &self.scales[..tokens];
        // The norm of a head takes out the token's scale.
        let (qk_scales, qk_limit) = if config.qk_norm() {
            (None, I31)
        } else {
            (Some(scales), QK_LIMIT)
        };
        let product = |w, out, width, scales, limit| Product {
            matrix: Matrix::of(w),
            scales,
            limit,
            out: Out::new(out, width),
        };
        plan.products(
            inputs,
            [
                product(
                    &layer.q,
                    &mut self.a[..tokens * qw],
                    qw,
                    qk_scales,
                    qk_limit,
                ),
                product(
                    &layer.k,
                    &mut self.b[..tokens * kw],
                    kw,
                    qk_scales,
                    qk_limit,
                ),
                product(&layer.v, &mut self.c[..tokens * kw], kw, Some(scales), I16),
            ],
        );
    }

    /// Rotated, quantised queries, keys and values.
    pub(super) fn rotate<const PROBED: bool>(&mut self, plan: &Plan, layer: &Layer, tokens: usize) {
        let config = plan.model.config();
        let (hd, qw, kw) = (config.head_dim(), config.q_width(), config.kv_width());
        let grain = grain(plan, tokens);
        let (h, g) = (config.heads() * grain, config.kv_heads() * grain);
        let (recorder, pairs) = (&self.recorder, hd / 2);
        let q = self.a[..tokens * qw]
            .chunks_mut(grain * qw)
            .zip(self.q8.chunks_mut(grain * qw))
            .zip(self.mq.chunks_mut(h));
        let k = self.b[..tokens * kw]
            .chunks_mut(grain * kw)
            .zip(self.k8.chunks_mut(grain * kw))
            .zip(self.mk.chunks_mut(g));
        let v = self.c[..tokens * kw]
            .chunks_mut(grain * kw)
            .zip(self.v8.chunks_mut(grain * kw))
            .zip(self.mv.chunks_mut(g));
        let at = self
            .positions
            .chunks(grain)
            .zip(self.angles.chunks(grain * pairs));
        let mut items: Vec<_> = q.zip(k).zip(v).zip(at).collect();
        plan.pool.each(&mut items, |_, item| {
            let (((q, k), v), (positions, angles)) = item;
            let ((v, v8), mv) = v;
            for (((row, codes), largest), gain, width, ops, all) in [
                (q, &layer.q_gain, qw, Q_OPS, Op::Q),
                (k, &layer.k_gain, kw, K_OPS, Op::K),
            ] {
                let rows = row
                    .chunks_exact_mut(width)
                    .zip(codes.chunks_exact_mut(width))
                    .zip(largest.chunks_exact_mut(width / hd));
                let at = positions.iter().zip(angles.chunks_exact(pairs));
                for (((row, codes), largest), (&position, angles)) in rows.zip(at) {
                    let gain = gain.as_deref();
                    if !PROBED {
                        rotate_and_quantize(plan, row, gain, angles, codes, largest);
                        continue;
                    }
                    lock(recorder).rows(position, all, row, width);
                    rotate_heads(plan, row, gain, angles, |stage, row| {
                        lock(recorder).rows(position, ops[stage], row, width);
                    });
                    quantize_heads(plan, row, codes, largest);
                    lock(recorder).heads(position, ops[QUANT], codes, largest);
                }
            }
            let rows = v
                .chunks_exact(kw)
                .zip(v8.chunks_exact_mut(kw))
                .zip(mv.chunks_exact_mut(kw / hd));
            for (((row, codes), largest), &position) in rows.zip(*positions) {
                quantize_heads(plan, row, codes, largest);
                if PROBED {
                    lock(recorder).rows(position, Op::V, row, kw);
                    lock(recorder).heads(position, Op::VQuant, codes, largest);
                }
            }
        });
    }

    /// Writes keys and values to the caches.
    pub(super) fn append(&self, plan: &Plan, layer: usize, runs: &mut [Run<'_>]) {
        let config = plan.model.config();
        let (hd, kv_heads) = (config.head_dim(), config.kv_heads());
        let mut token = 0;
        for run in runs {
            let (mut position, end) = (run.first, run.first + run.ids.len());
            while position < end {
                let len = (PAGE - position % PAGE).min(end - position);
                let mut heads: Vec<_> = run.cache.writable(position).1.layer_mut(layer).collect();
                let write = |g: usize, head: &mut HeadMut<'_>| {
                    for i in 0..len {
                        let at = (token + i) * kv_heads + g;
                        let entry = Entry {
                            k8: &self.k8[at * hd..][..hd],
                            v8: &self.v8[at * hd..][..hd],
                            mk: self.mk[at],
                            mv: self.mv[at],
                        };
                        head.append(position % PAGE + i, &entry);
                    }
                };
                if len > BLOCK {
                    plan.pool.each(&mut heads, write);
                } else {
                    for (g, head) in heads.iter_mut().enumerate() {
                        write(g, head);
                    }
                }
                (token, position) = (token + len, position + len);
            }
        }
    }

    /// Attention of every token over its session's cache, which holds the token's own position.
    pub(super) fn attention(
        &mut self,
        plan: &Plan,
        (index, layer): (usize, &Layer),
        runs: &[Run<'_>],
    ) {
        let config = plan.model.config();
        let (heads, kv_heads, qw) = (config.heads(), config.kv_heads(), config.q_width());
        let (width, tile) = (
            config.group() * config.head_dim(),
            attend::tile(config.group()),
        );
        let mut items = Vec::new();
        let mut rest = &mut self.attended[..];
        let mut token = 0;
        for run in runs {
            for start in (0..run.ids.len()).step_by(tile) {
                let len = tile.min(run.ids.len() - start);
                let (rows, after) = rest.split_at_mut(len * qw);
                let queries = Queries {
                    first: run.first + start,
                    heads,
                    from: 0,
                    q8: &self.q8[token * qw..][..len * qw],
                    mq: &self.mq[token * heads..][..len * heads],
                };
                let mut rows = Out::new(rows, qw);
                for g in 0..kv_heads {
                    let queries = Queries {
                        from: g * config.group(),
                        ..queries
                    };
                    items.push((g, &*run.cache, queries, rows.split_off(width)));
                }
                (token, rest) = (token + len, after);
            }
        }
        // The same keys and values one after the other, and those of most keys first.
        items.sort_by_key(|(g, _, queries, _)| (*g, Reverse(queries.first)));
        let scratch = &self.scratch;
        plan.pool.each(&mut items, |_, item| {
            let (g, cache, queries, out) = item;
            let page = |i| cache.head(i, index, *g);
            with_scratch(scratch, |scratch| {
                attend(
                    plan,
                    layer,
                    page,
                    &[],
                    *queries,
                    &mut scratch.attention,
                    out,
                );
            });
        });
    }

    /// Quantises the attention's output.
    pub(super) fn quantize_output<const PROBED: bool>(
        &mut self,
        plan: &Plan,
        layer: &Layer,
        tokens: usize,
    ) {
        let qw = plan.model.config().q_width();
        let (grain, recorder) = (grain(plan, tokens), &self.recorder);
        let mut items: Vec<_> = self.attended[..tokens * qw]
            .chunks_mut(grain * qw)
            .zip(self.codes.chunks_mut(grain * qw))
            .zip(self.scales.chunks_mut(grain))
            .zip(self.positions.chunks(grain))
            .collect();
        plan.pool.each(&mut items, |_, item| {
            let (((rows, codes), scales), positions) = item;
            let rows = rows.chunks_exact_mut(qw).zip(codes.chunks_exact_mut(qw));
            for ((row, codes), (scale, &position)) in rows.zip(scales.iter_mut().zip(*positions)) {
                if PROBED {
                    lock(recorder).rows(position, Op::Attend, row, qw);
                }
                let fixed = layer.static_scales.map(|s| s.o);
                *scale = norm_scale(plan.quantize_input(row, fixed, codes));
                if PROBED {
                    lock(recorder).codes(position, Op::OQuant, codes, *scale);
                }
            }
        });
    }

    /// The product of the o projection, left in `a`.
    pub(super) fn output(&mut self, plan: &Plan, layer: &Layer, tokens: usize) {
        let config = plan.model.config();
        let (n, qw) = (config.hidden(), config.q_width());
        let inputs = plan.pack(&self.codes[..tokens * qw], qw, self.packed.bytes_mut());
        plan.products(
            inputs,
            [Product {
                matrix: Matrix::of(&layer.o),
                scales: Some(&self.scales[..tokens]),
                limit: I31,
                out: Out::new(&mut self.a[..tokens * n], n),
            }],
        );
    }
}
