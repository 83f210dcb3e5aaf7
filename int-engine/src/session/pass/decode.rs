//! The attention of runs of one token each, from the projections to the output: every kv head by itself.
//!
//! A probed pass goes another way, operation by operation over all heads (`attention.rs`); tests hold both to the same
//! bytes.

use super::{Pass, Run, with_scratch};
use crate::kernels::operands::Out;
use crate::model::Layer;
use crate::session::attend::{PAGES_AHEAD, Queries, attend};
use crate::session::cache::{Entry, HeadMut, PAGE, Page};
use crate::session::heads::{quantize_heads, rotate_and_quantize};
use crate::session::plan::Plan;
use std::cmp::Reverse;
use std::sync::Arc;

/// Queries, key and value of one kv head of one token, and where they go.
struct Item<'a> {
    kv_head: usize,
    position: usize,
    angles: &'a [(i32, i32)],
    /// Queries, `[group][head_dim]`: as projected, and their codes and scales.
    q: (&'a mut [i32], &'a mut [i8], &'a mut [u16]),
    /// The key as projected, `[head_dim]`, and its codes.
    k: (&'a mut [i32], &'a mut [i8]),
    /// The value, likewise.
    v: (&'a [i32], &'a mut [i8]),
    /// The pages before the token's own.
    earlier: &'a [Arc<Page>],
    /// The kv head in the token's own.
    own: HeadMut<'a>,
    /// `[group][head_dim]`.
    out: &'a mut [i32],
}

impl Pass {
    /// Rotates and quantises queries, keys and values, writes the caches, and attends: for runs of one token each.
    pub(super) fn attend_each(
        &mut self,
        plan: &Plan,
        (index, layer): (usize, &Layer),
        runs: &mut [Run<'_>],
    ) {
        let config = plan.model.config();
        let (hd, group) = (config.head_dim(), config.group());
        let (kv_heads, width) = (config.kv_heads(), group * hd);
        let q = (self.a.chunks_exact_mut(width))
            .zip(self.q8.chunks_exact_mut(width))
            .zip(self.mq.chunks_exact_mut(group));
        let k = (self.b.chunks_exact_mut(hd)).zip(self.k8.chunks_exact_mut(hd));
        let v = (self.c.chunks_exact(hd)).zip(self.v8.chunks_exact_mut(hd));
        let mut rows = q.zip(k).zip(v.zip(self.attended.chunks_exact_mut(width)));
        let mut items = Vec::with_capacity(runs.len() * kv_heads);
        for (run, angles) in runs.iter_mut().zip(self.angles.chunks_exact(hd / 2)) {
            let (earlier, page) = run.cache.writable(run.first);
            let heads = page.layer_mut(index).enumerate();
            for ((kv_head, own), row) in heads.zip(rows.by_ref()) {
                let ((((q, q8), mq), k), (v, out)) = row;
                items.push(Item {
                    kv_head,
                    position: run.first,
                    angles,
                    q: (q, q8, mq),
                    k,
                    v,
                    earlier,
                    own,
                    out,
                });
            }
        }
        // The same keys and values one after the other, and those of most keys first.
        items.sort_by_key(|item| (item.kv_head, Reverse(item.position)));
        // Where the keys are that a thread reads after each item.
        let mut next: Vec<_> = (items.iter().skip(1))
            .map(|item| Some((item.earlier, item.kv_head)))
            .collect();
        next.push(None);
        for thread in 0..plan.pool.threads() {
            let own = plan.pool.own(thread, items.len());
            if !own.is_empty() {
                next[own.end - 1] = None;
            }
        }
        let scratch = &self.scratch;
        plan.pool.each(&mut items, |i, item| {
            let (earlier, kv_head) = (item.earlier, item.kv_head);
            let at = item.position % PAGE;
            item.own.prefetch(at, earlier.len() < PAGES_AHEAD);
            for page in earlier.iter().take(PAGES_AHEAD) {
                page.head(index, kv_head).prefetch();
            }
            let ((q, q8, mq), (k, k8), (v, v8)) = (&mut item.q, &mut item.k, &mut item.v);
            let (mut mk, mut mv) = ([0], [0]);
            let gains = [&layer.q_gain, &layer.k_gain].map(Option::as_deref);
            rotate_and_quantize(plan, q, gains[0], item.angles, q8, mq);
            rotate_and_quantize(plan, k, gains[1], item.angles, k8, &mut mk);
            quantize_heads(plan, v, v8, &mut mv);
            let ([mk], [mv]) = (mk, mv);
            item.own.append(at, &Entry { k8, v8, mk, mv });
            let own = item.own.head();
            let page = |i: usize| earlier.get(i).map_or(own, |page| page.head(index, kv_head));
            let mut following: [&[i8]; PAGES_AHEAD] = [&[]; PAGES_AHEAD];
            let (pages, kv_head) = next[i].unwrap_or_default();
            let known = pages.len().min(PAGES_AHEAD);
            for (keys, page) in following.iter_mut().zip(pages) {
                *keys = page.head(index, kv_head).keys;
            }
            let queries = Queries {
                first: item.position,
                heads: group,
                from: 0,
                q8,
                mq,
            };
            with_scratch(scratch, |scratch| {
                let (scratch, out) = (&mut scratch.attention, &mut Out::new(item.out, width));
                attend(
                    plan,
                    layer,
                    page,
                    &following[..known],
                    queries,
                    scratch,
                    out,
                );
            });
        });
    }
}
