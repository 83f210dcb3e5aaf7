//! Calls on models of random dimensions: small models of any proportions, whose weights fit a few megabytes.

use std::num::NonZeroUsize;
use std::sync::Arc;

use int_engine::config::{Config, Dims, Scheme};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use serde::Serialize;

use super::{Case, Chain, Shape};
use crate::Error;
use crate::synthetic;

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In 0 .. limit; a limit of 0 counts as 1.
    pub fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit.max(1))) as u32
    }

    /// In 1 ..= max, every power of two as likely as another.
    fn scaled(&mut self, max: u32) -> u32 {
        let bits = self.below(max.ilog2() + 1);
        (1 << bits) + self.below((1 << bits).min(max + 1 - (1 << bits)))
    }
}

/// Most weights of a random model.
const MOST_WEIGHTS: u64 = 2_000_000;
/// Calls on each model.
const CALLS: usize = 20;
/// Tokens a prompt and an output have at most.
const LONGEST: u32 = 96;

/// Widths whose rotation has Paley's factors, times a power of two.
const PALEY: [u32; 5] = [12, 20, 144, 240, 400];

/// A width in 1 ..= max.
fn width(random: &mut Random, max: u32) -> u32 {
    if random.below(3) > 0 {
        return random.scaled(max);
    }
    let least = PALEY[random.below(5) as usize].min(max);
    least << random.below((max / least).ilog2() + 1)
}

/// Dimensions of spec 3.1 with at most [`MOST_WEIGHTS`] weights, 64 layers and a vocabulary of 2^18, of either scheme.
///
/// Every third width is one that a matrix of Paley rotates (spec 2.4).
fn dims(random: &mut Random) -> Dims {
    loop {
        let kv_heads = random.scaled(32);
        let d = Dims {
            scheme: match random.below(2) {
                0 => Scheme::Dynamic,
                _ => Scheme::Static,
            },
            hidden: width(random, 8192),
            layers: random.scaled(64),
            heads: kv_heads * random.scaled(8),
            kv_heads,
            head_dim: width(random, 256).next_multiple_of(2),
            intermediate: width(random, 65536),
            vocab: random.scaled(1 << 18),
            accepted_ids: 1,
            max_context: 2 * LONGEST,
            qk_norm: random.below(2) == 1,
            tied: random.below(2) == 1,
            eps: 1,
            stop_ids: vec![],
        };
        let (n, hd) = (u64::from(d.hidden), u64::from(d.head_dim));
        let width = 2 * hd * u64::from(d.heads + d.kv_heads);
        let layer = n * (width + 3 * u64::from(d.intermediate));
        let head = n * u64::from(d.vocab) * if d.tied { 1 } else { 2 };
        if d.heads * d.head_dim <= 16384 && u64::from(d.layers) * layer + head <= MOST_WEIGHTS {
            let accepted_ids = d.vocab;
            return Dims { accepted_ids, ..d };
        }
    }
}

/// How the time of random calls lies beside their prices.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Number of calls.
    pub calls: usize,
    /// Number of models.
    pub models: usize,
    /// The median rate, in units of the target.
    pub median: f64,
    /// The slowest call, and the dimensions of its model.
    pub slowest: Case,
}

/// Times `calls` random calls on random models, each up to `tries` times while it is slower than half the target; the
/// shortest time counts.
///
/// # Errors
/// [`Error::Wrong`] when an answer changes from one time to the next.
pub fn random_calls(
    kernels: &'static Kernels,
    threads: NonZeroUsize,
    calls: usize,
    tries: usize,
    progress: &mut dyn FnMut(usize, &str),
) -> Result<Spread, Error> {
    let mut random = Random::new(calls as u64);
    let mut rates = Vec::new();
    let mut slowest: Option<Case> = None;
    let mut models = 0;
    while rates.len() < calls {
        let d = dims(&mut random);
        let label = format!(
            "{} hidden {} layers {} heads {}/{} of {} mlp {} vocab {}",
            d.scheme, d.hidden, d.layers, d.heads, d.kv_heads, d.head_dim, d.intermediate, d.vocab
        );
        let accepted = d.accepted_ids;
        let config = Config::new(d).map_err(|e| Error::Wrong {
            what: label.clone(),
            expected: "valid dimensions".into(),
            found: e.to_string(),
        })?;
        let model = Model::from_bytes(&synthetic::blob(&config)?).map_err(|error| Error::Load {
            name: label.clone(),
            error,
        })?;
        models += 1;
        let mut chain = Chain::new(kernels, threads);
        let name = chain.activate(&Arc::new(model))?;
        for _ in 0..CALLS.min(calls - rates.len()) {
            let (n, m) = (random.scaled(LONGEST), random.scaled(LONGEST));
            let shape = match random.below(3) {
                0 => Shape::Generate(n, m.div_ceil(6)),
                1 => Shape::Verify(n, m.div_ceil(6)),
                _ => Shape::LogitsDigest(n),
            };
            let ready = chain.prepare(&label, &name, accepted, shape, random.next())?;
            progress(rates.len(), &ready.name);
            let mut case = Case {
                name: ready.name.clone(),
                gas: ready.gas,
                ns: u64::MAX,
            };
            for _ in 0..tries.max(1) {
                case.ns = case.ns.min(chain.time(&ready)?);
                if case.of_target() >= 0.5 {
                    break;
                }
            }
            rates.push(case.of_target());
            if slowest
                .as_ref()
                .is_none_or(|s| case.of_target() < s.of_target())
            {
                slowest = Some(case);
            }
        }
    }
    rates.sort_by(f64::total_cmp);
    let slowest = slowest.ok_or_else(|| Error::Wrong {
        what: "random calls".into(),
        expected: "at least one".into(),
        found: "none".into(),
    })?;
    Ok(Spread {
        calls: rates.len(),
        models,
        median: rates[rates.len() / 2],
        slowest,
    })
}
