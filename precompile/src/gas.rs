//! Prices, version 1 (spec 6.7): functions of calldata and stored sizes, known before any work.

use crate::record::Sizes;
use int_engine::config::{had_block, had_factors};

/// Calling any function.
pub const CALL: u64 = 800;
/// A read of storage, always as a cold one.
pub const READ: u64 = 2_100;
/// A write of storage, always as a cold one of a fresh slot.
pub const WRITE: u64 = 22_100;
/// No call costs less: a caller with less gas is OutOfGas whatever it asks.
pub const LEAST: u64 = CALL + READ;
/// A word of calldata after the selector.
pub const INPUT_WORD: u64 = 12;
/// Legacy getApproved, and what is no function of the registry.
pub const LEGACY_GET_APPROVED: u64 = 5_000;
/// Legacy isAdmin.
pub const LEGACY_IS_ADMIN: u64 = 3_000;
/// Picoseconds of the slowest permitted backend that one gas pays for: ten million gas a second.
pub const PS_PER_GAS: u128 = 100_000;

/// An event with so many topics, the signature's included, and bytes of data.
pub(crate) const fn event(topics: u64, bytes: u64) -> u64 {
    375 + 375 * topics + 8 * bytes
}

/// The price of calldata of so many bytes after the selector.
pub(crate) fn input(bytes: usize) -> u64 {
    INPUT_WORD.saturating_mul((bytes as u64).div_ceil(32))
}

/// The entry price of inference for so many bytes after the selector: the call, three reads, the calldata.
pub(crate) fn entry(bytes: usize) -> u64 {
    total((bytes as u64).div_ceil(32), 0)
}

/// Picoseconds of the slowest permitted backend for each thing that a call computes.
mod ps {
    /// A pass: a layer.
    pub(super) const PASS_LAYER: u128 = 15_000_000;
    /// A pass: a byte of weights or of the cache.
    pub(super) const BYTE: u128 = 36;
    /// A token in a layer, whatever its sizes.
    pub(super) const LAYER: u128 = 500_000;
    /// A token in a layer: a product of the matrices.
    pub(super) const MAC: u128 = 4;
    /// A token in a layer: a value of the residual.
    pub(super) const HIDDEN: u128 = 16_000;
    /// A token in a layer: a value of q or k.
    pub(super) const QKV: u128 = 6_000;
    /// A token in a layer: a value of the MLP.
    pub(super) const FF: u128 = 4_500;
    /// A token in a layer: a query head; a key/value head is two.
    pub(super) const HEAD: u128 = 150_000;
    /// A byte of a page of the cache, which a call fills anew.
    pub(super) const FRESH: u128 = 350;
    /// A token in a layer, or twice for the residual in a row of logits: a value and an order of Paley in its rotation.
    pub(super) const TURN: u128 = 800;
    /// A query head and a position that it sees.
    pub(super) const PAIR: u128 = 1_800;
    /// Each value of the head, for such a pair.
    pub(super) const PAIR_DIM: u128 = 11;
    /// A logit.
    pub(super) const LOGIT: u128 = 700;
    /// A product of a logit.
    pub(super) const LOGIT_MAC: u128 = 6;
    /// A logit of a digest.
    pub(super) const DIGEST: u128 = 25_000;
}

/// Products of a value in the rotation of a row of `n` values, beside those of the power of two: the sum of the orders of the
/// Paley factors of `had_block(n)` (spec 2.4).
fn paley_orders(n: u32) -> u128 {
    // No row has no values; stored sizes of none would.
    let block = had_block(n.max(1) as usize);
    let (primes, _) = had_factors(block).unwrap_or_default();
    primes.iter().map(|&p| p as u128 + 1).sum()
}

/// What a call computes (spec 6.7). Prices saturate: any count and any stored sizes have one.
struct Work {
    /// Passes over the weights.
    passes: u128,
    /// Tokens through the layers.
    tokens: u128,
    /// Positions of the cache that later passes read again.
    cached: u128,
    /// Rows of logits.
    rows: u128,
    /// Digests of rows.
    digests: u128,
}

impl Work {
    fn gas(&self, sizes: &Sizes) -> u64 {
        let wide = u128::from;
        let (n, ff, vocab) = (
            wide(sizes.hidden),
            wide(sizes.intermediate),
            wide(sizes.vocab),
        );
        let (layers, heads, kv_heads) =
            (wide(sizes.layers), wide(sizes.heads), wide(sizes.kv_heads));
        let hd = wide(sizes.head_dim);
        let (q, kv) = (heads * hd, kv_heads * hd);
        // Sizes are of 32 bits each, so q and kv are below 2^64 and macs below 2^99.
        let macs = n
            .saturating_mul(q + 2 * kv)
            .saturating_add(q.saturating_mul(n))
            .saturating_add((3 * n).saturating_mul(ff));
        let sum = |terms: &[(u128, u128)]| {
            terms.iter().fold(0u128, |sum, (count, ps)| {
                sum.saturating_add(count.saturating_mul(*ps))
            })
        };
        let pass = sum(&[
            (layers, ps::PASS_LAYER),
            (layers.saturating_mul(macs), ps::BYTE),
            (vocab * n, ps::BYTE),
        ]);
        let token = layers.saturating_mul(sum(&[
            (1, ps::LAYER),
            (macs, ps::MAC),
            (n, ps::HIDDEN),
            (q + kv, ps::QKV),
            (ff, ps::FF),
            (heads + 2 * kv_heads, ps::HEAD),
            (
                (q + kv).saturating_mul(paley_orders(sizes.head_dim)),
                ps::TURN,
            ),
            (
                if sizes.is_static {
                    ff * paley_orders(sizes.intermediate)
                } else {
                    0
                },
                ps::TURN,
            ),
        ]));
        let pair = (layers * heads).saturating_mul(ps::PAIR + ps::PAIR_DIM * hd);
        let page = (layers * kv_heads * 2).saturating_mul((hd + 4) * 64 * ps::FRESH);
        let cached = (layers * kv_heads * 2).saturating_mul((hd + 4) * ps::BYTE);
        let logits = vocab.saturating_mul(ps::LOGIT + ps::LOGIT_MAC * n);
        let row = logits.saturating_add(2 * n * paley_orders(sizes.hidden) * ps::TURN);
        let pairs = self.tokens.saturating_mul(self.tokens + 1) / 2;
        let work = sum(&[
            (self.passes, pass),
            (self.tokens, token),
            (self.tokens.div_ceil(64), page),
            (pairs, pair),
            (self.cached, cached),
            (self.rows, row),
            (self.digests, vocab * ps::DIGEST),
        ]);
        u64::try_from(work.div_ceil(PS_PER_GAS)).unwrap_or(u64::MAX)
    }
}

/// The work of `generate`, for `n` prompt tokens: a price beside the entry price.
#[must_use]
pub fn generate(sizes: &Sizes, n: u64, max_new: u32) -> u64 {
    let (n, m) = (u128::from(n), u128::from(max_new.max(1)));
    Work {
        passes: m,
        tokens: n + m - 1,
        // The pass of new token i, from 1 on, reads the n + i - 1 positions before it.
        cached: (m - 1) * n + (m - 1) * m.saturating_sub(2) / 2,
        rows: m,
        digests: 0,
    }
    .gas(sizes)
}

/// The work of `verify`, for `n` prompt and `k` output tokens: a price beside the entry price.
#[must_use]
pub fn verify(sizes: &Sizes, n: u64, k: u64) -> u64 {
    let (n, k) = (u128::from(n), u128::from(k));
    Work {
        passes: 1,
        tokens: n + k,
        cached: 0,
        rows: k + 1,
        digests: 0,
    }
    .gas(sizes)
}

/// The work of `logitsDigest`, for `n` tokens: a price beside the entry price.
#[must_use]
pub fn logits_digest(sizes: &Sizes, n: u64) -> u64 {
    Work {
        passes: 1,
        tokens: n.into(),
        cached: 0,
        rows: 1,
        digests: 1,
    }
    .gas(sizes)
}

/// The whole price of a call with so many words of arguments and this work.
pub(crate) fn total(words: u64, work: u64) -> u64 {
    let entry = (CALL + 3 * READ).saturating_add(INPUT_WORD.saturating_mul(words));
    entry.saturating_add(work)
}

/// The whole price of a `generate` call: what `gasOfGenerate` answers.
#[must_use]
pub fn of_generate(sizes: &Sizes, n: u64, max_new: u32) -> u64 {
    total(n.saturating_add(5), generate(sizes, n, max_new))
}

/// The whole price of a `verify` call: what `gasOfVerify` answers.
#[must_use]
pub fn of_verify(sizes: &Sizes, n: u64, k: u64) -> u64 {
    total(n.saturating_add(k).saturating_add(7), verify(sizes, n, k))
}

/// The whole price of a `logitsDigest` call: what `gasOfLogitsDigest` answers.
#[must_use]
pub fn of_logits_digest(sizes: &Sizes, n: u64) -> u64 {
    total(n.saturating_add(4), logits_digest(sizes, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_those_of_the_block() {
        // No factor, each of them, the least powers of two that they need and one less, an odd part that has none.
        for (n, expected) in [
            (0, 0),
            (1, 0),
            (2048, 0),
            (6, 0),
            (12, 12),
            (1536, 12),
            (10, 0),
            (20, 20),
            (72, 12),
            (144, 24),
            (120, 20),
            (240, 32),
            (200, 20),
            (400, 40),
            (51_200, 40),
            (77, 0),
            (65_535, 0),
        ] {
            assert_eq!(paley_orders(n), expected, "{n}");
        }
    }

    #[test]
    fn nothing_costs_less_than_the_least() {
        use crate::registry::Function;
        let cheapest = Function::ALL.iter().map(|f| f.base_price()).min();
        let others = [
            LEGACY_IS_ADMIN,
            LEGACY_GET_APPROVED,
            entry(0),
            crate::packed::gas(&[]),
        ];
        assert_eq!(cheapest, Some(LEAST));
        assert!(others.iter().all(|&price| price >= LEAST));
    }
}
