//! The attention of runs of one token each, from the projections to the output: every kv head by itself.

use super::{Pass, Run, with_scratch};
use crate::kernels::operands::Out;
use crate::model::Layer;
use crate::session::attend::{AHEAD, Queries, attend};
use crate::session::cache::{Entry, Head, HeadMut, PAGE, Page};
use crate::session::heads::{quantize_heads, rotate_and_quantize};
use crate::session::plan::Plan;
use std::iter::once;
use std::sync::Arc;

/// Queries, key and value of one kv head of one token, and where they go.
struct Item<'a> {
    kv_head: usize,
    position: usize,
    angles: &'a [(i32, i32)],
    /// As projected, `[group][head_dim]`, `[head_dim]`, `[head_dim]`.
    projected: [&'a mut [i32]; 3],
    /// Quantised, in the same shapes.
    codes: [&'a mut [i8]; 3],
    /// `[group]`, `[1]`, `[1]`.
    largest: [&'a mut [u16]; 3],
    /// The pages before the token's own.
    earlier: &'a [Arc<Page>],
    head: HeadMut<'a>,
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
        let mut items = Vec::with_capacity(runs.len() * kv_heads);
        let mut q = self
            .a
            .chunks_exact_mut(width)
            .zip(self.q8.chunks_exact_mut(width));
        let mut mq = self.mq.chunks_exact_mut(group);
        let mut k = self
            .b
            .chunks_exact_mut(hd)
            .zip(self.k8.chunks_exact_mut(hd));
        let mut mk = self.mk.chunks_exact_mut(1);
        let mut v = self
            .c
            .chunks_exact_mut(hd)
            .zip(self.v8.chunks_exact_mut(hd));
        let mut mv = self.mv.chunks_exact_mut(1);
        let mut out = self.attended.chunks_exact_mut(width);
        for (run, angles) in runs.iter_mut().zip(self.angles.chunks_exact(hd / 2)) {
            let (earlier, page) = run.cache.writable(run.first);
            for (kv_head, head) in page.layer_mut(index).enumerate() {
                let next = (q.next(), k.next(), v.next(), out.next());
                let (Some((q, q8)), Some((k, k8)), Some((v, v8)), Some(out)) = next else {
                    unreachable!("rows for every token");
                };
                let (Some(mq), Some(mk), Some(mv)) = (mq.next(), mk.next(), mv.next()) else {
                    unreachable!("scales for every token");
                };
                items.push(Item {
                    kv_head,
                    position: run.first,
                    angles,
                    projected: [q, k, v],
                    codes: [q8, k8, v8],
                    largest: [mq, mk, mv],
                    earlier,
                    head,
                    out,
                });
            }
        }
        let scratch = &self.scratch;
        plan.pool.each(&mut items, |_, item| {
            let at = item.position % PAGE;
            let earlier = item.earlier.iter();
            let earlier = earlier.map(|page| (PAGE, page.head(index, item.kv_head)));
            item.head.prefetch(at);
            for (_, head) in earlier.clone().take(AHEAD) {
                head.prefetch();
            }
            let [q, k, v] = &mut item.projected;
            let [q8, k8, v8] = &mut item.codes;
            let [mq, mk, mv] = &mut item.largest;
            rotate_and_quantize(plan, q, layer.q_gain.as_deref(), item.angles, q8, mq);
            rotate_and_quantize(plan, k, layer.k_gain.as_deref(), item.angles, k8, mk);
            quantize_heads(plan, v, v8, mv);
            let entry = Entry {
                k8,
                v8,
                mk: mk[0],
                mv: mv[0],
            };
            item.head.append(at, &entry);
            let pages: Vec<(usize, Head<'_>)> =
                earlier.chain(once((at + 1, item.head.head()))).collect();
            let following: Vec<_> = item
                .earlier
                .iter()
                .take(AHEAD)
                .filter(|_| item.kv_head + 1 < kv_heads)
                .map(|page| page.head(index, item.kv_head + 1).keys)
                .collect();
            let queries = Queries {
                first: item.position,
                heads: group,
                from: 0,
                q8,
                mq,
            };
            with_scratch(scratch, |scratch| {
                let out = &mut Out::new(item.out, width);
                attend(
                    plan,
                    layer,
                    &pages,
                    &following,
                    queries,
                    &mut scratch.attention,
                    out,
                );
            });
        });
    }
}
