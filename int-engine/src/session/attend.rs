//! Attention of the query heads that share one kv head, for a run of tokens (spec 1.14).

use super::Plan;
use super::cache::HeadCache;
use crate::halt::{Fault, try_resize};
use crate::model::Layer;
use crate::ops::attention::QueryScale;

/// Queries that share one pass over the keys.
const QUERIES: usize = 24;

/// Memory for [`attend`].
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// `[tile][group][head_dim]`.
    queries: Vec<i8>,
    /// `[tile][group][keys]`.
    dots: Vec<i32>,
    /// `[keys]`.
    weights: Vec<u16>,
    /// `[head_dim]`.
    sums: Vec<i64>,
    /// `[tile][group * head_dim]`: the result.
    pub(super) out: Vec<i32>,
}

/// Tokens of one call.
pub(super) fn tile(group: usize) -> usize {
    (QUERIES / group).max(1)
}

impl Scratch {
    /// Makes room for `tokens` tokens that see at most `keys` keys.
    pub(super) fn reserve(&mut self, plan: &Plan, tokens: usize, keys: usize) -> Result<(), Fault> {
        let config = plan.model.config();
        let rows = tile(config.group()).min(tokens) * config.group();
        let what = "attention";
        grow(&mut self.queries, rows * config.head_dim(), what)?;
        grow(&mut self.dots, rows * keys, what)?;
        grow(&mut self.weights, keys, what)?;
        grow(&mut self.sums, config.head_dim(), what)?;
        grow(&mut self.out, rows * config.head_dim(), what)
    }
}

/// Grows to at least `len`.
pub(super) fn grow<T: Clone + Default>(
    v: &mut Vec<T>,
    len: usize,
    what: &'static str,
) -> Result<(), Fault> {
    if v.len() < len {
        try_resize(v, len, T::default(), what)
    } else {
        Ok(())
    }
}

/// Quantised queries of consecutive tokens.
#[derive(Clone, Copy)]
pub(super) struct Queries<'a> {
    /// Position of the first token.
    pub(super) first: usize,
    /// `[tokens][heads][head_dim]`.
    pub(super) q8: &'a [i8],
    /// `[tokens][heads]`.
    pub(super) mq: &'a [u16],
}

/// Attention of the heads that share kv head `kv_head`, for at most [`tile`] tokens.
///
/// The cache holds every position up to the last token's. The result is `scratch.out`.
pub(super) fn attend(
    plan: &Plan,
    layer: &Layer,
    cache: &HeadCache,
    kv_head: usize,
    queries: Queries<'_>,
    scratch: &mut Scratch,
) {
    let Queries { first, q8, mq } = queries;
    let config = plan.model.config();
    let (hd, heads, group) = (config.head_dim(), config.heads(), config.group());
    let tokens = mq.len() / heads;
    let width = group * hd;
    let queries = &mut scratch.queries[..tokens * width];
    for (queries, row) in queries
        .chunks_exact_mut(width)
        .zip(q8.chunks_exact(heads * hd))
    {
        queries.copy_from_slice(&row[kv_head * width..][..width]);
    }
    // Later tokens' keys are part of the product for the earlier ones, and are left out below.
    let keys = first + tokens;
    let dots = &mut scratch.dots[..tokens * group * keys];
    (plan.kernels.gemm)(&cache.k8[..keys * hd], hd, queries, dots);
    let rows = dots
        .chunks_exact_mut(keys)
        .zip(scratch.out.chunks_exact_mut(hd));
    for (row, (dots, out)) in rows.enumerate() {
        let (token, head) = (row / group, kv_head * group + row % group);
        let visible = first + token + 1;
        let (z, weights) = (&mut dots[..visible], &mut scratch.weights[..visible]);
        let scale = QueryScale::new(
            mq[token * heads + head],
            layer.score_mult,
            layer.score_shift as u32,
        );
        let top = (plan.kernels.log_scores)(scale, z, &cache.mk[..visible]);
        let normalizer = (plan.kernels.softmax_weights)(z, top, &cache.mv[..visible], weights);
        let sums = &mut scratch.sums[..hd];
        sums.fill(0);
        (plan.kernels.weighted_sum)(weights, &cache.v8[..visible * hd], sums);
        normalizer.output(sums, out);
    }
}
