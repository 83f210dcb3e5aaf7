//! Attention of the query heads that share one kv head, for a run of tokens (spec 1.14).

use super::cache::KvCache;
use super::plan::Plan;
use crate::halt::{Fault, try_resize};
use crate::kernels::operands::{Inputs, Out};
use crate::model::Layer;
use crate::ops::attention::{Normalizer, QueryScale};

/// Queries that share one pass over the keys.
const QUERIES: usize = 24;

/// Memory for [`attend`].
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// `[tile][group][head_dim]`.
    queries: Vec<i8>,
    /// As `queries`, packed.
    packed: Vec<i8>,
    /// `[tile][group][keys]`.
    dots: Vec<i32>,
    /// `[tile][group][keys]`.
    weights: Vec<u16>,
    /// `[keys]`.
    mk: Vec<u16>,
    mv: Vec<u16>,
    /// `[tile][group]`.
    normalizers: Vec<Normalizer>,
    /// `[tile][group][head_dim]`.
    sums: Vec<i64>,
}

/// Tokens of one call.
pub(super) fn tile(group: usize) -> usize {
    (QUERIES / group).max(1)
}

impl Scratch {
    /// Makes room for `tokens` tokens that see at most `keys` keys.
    pub(super) fn reserve(&mut self, plan: &Plan, tokens: usize, keys: usize) -> Result<(), Fault> {
        let config = plan.model.config();
        let (hd, group) = (config.head_dim(), config.group());
        let rows = tile(group).min(tokens) * group;
        let what = "attention";
        grow(&mut self.queries, rows * hd, what)?;
        grow(&mut self.packed, Inputs::room(rows, hd), what)?;
        grow(&mut self.dots, rows * keys, what)?;
        grow(&mut self.weights, rows * keys, what)?;
        grow(&mut self.mk, keys, what)?;
        grow(&mut self.mv, keys, what)?;
        crate::halt::try_reserve(&mut self.normalizers, rows, what)?;
        grow(&mut self.sums, rows * hd, what)
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

/// Quantised queries of consecutive tokens of one session.
#[derive(Clone, Copy)]
pub(super) struct Queries<'a> {
    /// Position of the first token.
    pub(super) first: usize,
    /// `[tokens][heads][head_dim]`.
    pub(super) q8: &'a [i8],
    /// `[tokens][heads]`.
    pub(super) mq: &'a [u16],
}

/// Attention of the heads that share kv head `kv_head`, for at most [`tile`] tokens; `out` is
/// `[tokens][group][head_dim]`.
///
/// The cache holds every position up to the last token's.
pub(super) fn attend(
    plan: &Plan,
    (index, layer): (usize, &Layer),
    cache: &KvCache,
    kv_head: usize,
    queries: Queries<'_>,
    scratch: &mut Scratch,
    out: &mut [i32],
) {
    let Queries { first, q8, mq } = queries;
    let (config, kernels) = (plan.model.config(), plan.kernels);
    let (hd, heads, group) = (config.head_dim(), config.heads(), config.group());
    let tokens = mq.len() / heads;
    let width = group * hd;
    let rows = scratch.queries[..tokens * width].chunks_exact_mut(width);
    for (queries, row) in rows.zip(q8.chunks_exact(heads * hd)) {
        queries.copy_from_slice(&row[kv_head * width..][..width]);
    }
    let packed = Inputs::pack(
        &scratch.queries[..tokens * width],
        hd,
        (kernels.form)(tokens * group),
        &mut scratch.packed,
    );
    // Later tokens' keys are part of the product for the earlier ones, and are left out below.
    let keys = first + tokens;
    let dots = &mut scratch.dots[..tokens * group * keys];
    let mut start = 0;
    for (len, head) in cache.head(index, kv_head, keys) {
        let range = start..start + len;
        (kernels.gemm)(
            head.keys(len),
            packed,
            Out::new(dots, keys).part(range.clone()),
        );
        scratch.mk[range.clone()].copy_from_slice(&head.mk[..len]);
        scratch.mv[range].copy_from_slice(&head.mv[..len]);
        start += len;
    }
    scratch.normalizers.clear();
    let rows = dots.chunks_exact_mut(keys);
    for (row, (dots, weights)) in rows.zip(scratch.weights.chunks_exact_mut(keys)).enumerate() {
        let (token, head) = (row / group, kv_head * group + row % group);
        let visible = first + token + 1;
        let (z, weights) = (&mut dots[..visible], &mut weights[..visible]);
        let scale = QueryScale::new(
            mq[token * heads + head],
            layer.score_mult,
            layer.score_shift as u32,
        );
        let top = (kernels.log_scores)(scale, z, &scratch.mk[..visible]);
        let normalizer = (kernels.softmax_weights)(z, top, &scratch.mv[..visible], weights);
        scratch.normalizers.push(normalizer);
    }
    let sums = &mut scratch.sums[..tokens * width];
    sums.fill(0);
    let mut start = 0;
    for (len, head) in cache.head(index, kv_head, keys) {
        let rows = sums.chunks_exact_mut(hd);
        for (row, (sums, weights)) in rows.zip(scratch.weights.chunks_exact(keys)).enumerate() {
            let visible = (first + row / group + 1).saturating_sub(start).min(len);
            (kernels.weighted_sum)(&weights[start..start + visible], head.values(visible), sums);
        }
        start += len;
    }
    let rows = sums.chunks_exact(hd).zip(out.chunks_exact_mut(hd));
    for ((sums, out), normalizer) in rows.zip(&scratch.normalizers) {
        (kernels.attention_output)(*normalizer, sums, out);
    }
}
