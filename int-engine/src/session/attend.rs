//! Attention of the query heads that share one kv head, for a run of tokens (spec 1.14).

use super::cache::Head;
use super::plan::Plan;
use crate::halt::{Fault, try_resize};
use crate::kernels::operands::{Inputs, Out, PAGE, Values};
use crate::model::Layer;
use crate::ops::attention::{Normalizer, QueryScale};

/// Rows of dot products of one call: query heads times tokens.
const ROWS: usize = 32;

/// How many pages of keys or values after the one in use is the one that is asked for meanwhile.
pub(super) const PAGES_AHEAD: usize = 2;

/// Memory for [`attend`]. A row belongs to one query head of one token, `[tokens][group]`.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// `[rows][head_dim]`.
    queries: Vec<i8>,
    /// As `queries`, packed.
    packed: Vec<i8>,
    /// `[rows][keys]`.
    dots: Vec<i32>,
    /// `[rows][keys]`.
    weights: Vec<u16>,
    /// `[keys]`.
    mk: Vec<u16>,
    mv: Vec<u16>,
    /// `[rows]`.
    normalizers: Vec<Normalizer>,
    /// `[rows][head_dim]`.
    sums: Vec<i64>,
}

/// Tokens of one call.
pub(super) fn tile(group: usize) -> usize {
    (ROWS / group).max(1)
}

impl Scratch {
    /// Makes room for runs of at most `tokens` tokens that see at most `keys` keys.
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
    /// Heads of each token below.
    pub(super) heads: usize,
    /// The first of those that share the kv head.
    pub(super) from: usize,
    /// `[tokens][heads][head_dim]`.
    pub(super) q8: &'a [i8],
    /// `[tokens][heads]`.
    pub(super) mq: &'a [u16],
}

/// Attention of the heads that share a kv head, for at most [`tile`] tokens; `out` is `[tokens][group * head_dim]`.
///
/// `page` gives the kv head's pages, which hold every position up to the last token's. `following` are keys that the
/// thread may read afterwards, of at most [`PAGES_AHEAD`] pages.
pub(super) fn attend<'a>(
    plan: &Plan,
    layer: &Layer,
    page: impl Fn(usize) -> Head<'a>,
    following: &[&[i8]],
    queries: Queries<'_>,
    scratch: &mut Scratch,
    out: &mut Out<'_>,
) {
    let Queries {
        first,
        heads,
        from,
        q8,
        mq,
    } = queries;
    let (config, kernels) = (plan.model.config(), plan.kernels);
    let (hd, group) = (config.head_dim(), config.group());
    let tokens = mq.len() / heads;
    let width = group * hd;
    let queries = if heads == group {
        q8
    } else {
        let rows = scratch.queries[..tokens * width].chunks_exact_mut(width);
        for (queries, row) in rows.zip(q8.chunks_exact(heads * hd)) {
            queries.copy_from_slice(&row[from * hd..][..width]);
        }
        &scratch.queries[..tokens * width]
    };
    let form = (kernels.form)(tokens * group);
    let packed = Inputs::pack(queries, hd, form, &mut scratch.packed);
    // Later tokens' keys are part of the products for the earlier ones, and their weights are zero.
    let keys = first + tokens;
    let dots = &mut scratch.dots[..tokens * group * keys];
    let pages = keys.div_ceil(PAGE);
    let ahead = PAGES_AHEAD.min(pages);
    let values: Vec<&[i8]> = (0..pages).map(|i| page(i).values).collect();
    for i in 0..pages {
        let (head, range) = (page(i), i * PAGE..keys.min((i + 1) * PAGE));
        let next = if i + ahead < pages {
            let next = page(i + ahead);
            next.prefetch_scales();
            next.keys
        } else {
            values[i + ahead - pages]
        };
        (kernels.gemm)(
            head.keys(range.len()).before(Some(next)),
            packed,
            Out::new(dots, keys).part(range.clone()),
        );
        head.scales(&mut scratch.mk[range.clone()], &mut scratch.mv[range]);
    }
    scratch.normalizers.clear();
    let weights = &mut scratch.weights[..tokens * group * keys];
    let rows = dots.chunks_exact_mut(keys);
    for (row, (dots, weights)) in rows.zip(weights.chunks_exact_mut(keys)).enumerate() {
        let (token, head) = (row / group, from + row % group);
        let visible = first + token + 1;
        let z = &mut dots[..visible];
        let (weights, unseen) = weights.split_at_mut(visible);
        let scale = QueryScale::new(
            mq[token * heads + head],
            layer.score_mult,
            layer.score_shift as u32,
        );
        let top = (kernels.log_scores)(scale, z, &scratch.mk[..visible]);
        let normalizer = (kernels.softmax_weights)(z, top, &scratch.mv[..visible], weights);
        unseen.fill(0);
        scratch.normalizers.push(normalizer);
    }
    let sums = &mut scratch.sums[..tokens * width];
    let values = Values::new(keys, hd, &values).before(ahead, following);
    (kernels.weighted_sum)(weights, values, sums);
    let rows = sums.chunks_exact(hd).zip(&scratch.normalizers);
    for (row, (sums, &normalizer)) in rows.enumerate() {
        let out = &mut out.token(row / group)[row % group * hd..][..hd];
        (kernels.attention_output)(normalizer, sums, out);
    }
}
