//! What the project promises of its speed, as ratios within one run.

use crate::figures::{Figure, Key, What, beside_products, figures, find};
use crate::record::Record;
use crate::synthetic;

/// A promise and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The promise.
    pub what: &'static str,
    /// The bound.
    pub bound: Bound,
    /// The ratio; `None` when the run did not measure it.
    pub value: Option<f64>,
}

/// The side on which a ratio must lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At least so much.
    AtLeast(f64),
    /// At most so much.
    AtMost(f64),
}

impl Goal {
    /// Whether it was measured and holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        match (self.value, self.bound) {
            (Some(value), Bound::AtLeast(bound)) => value >= bound,
            (Some(value), Bound::AtMost(bound)) => value <= bound,
            (None, _) => false,
        }
    }
}

/// Bytes of memory beside weights, keys and values.
const MEMORY: f64 = 64e6;

/// All promises. The random model's are those of the Qwen3-0.6B shape; the real model's those of SmolLM2-135M.
#[must_use]
pub fn goals(record: &Record) -> Vec<Goal> {
    use Bound::{AtLeast, AtMost};
    let all = figures(&record.series);
    let qwen3 = Figures::of(&all, record, synthetic::NAME);
    let real = all
        .iter()
        .map(|f| &f.key.subject)
        .find(|s| !s.is_empty() && *s != synthetic::NAME);
    let real = Figures::of(&all, record, real.map_or("", String::as_str));
    let memory = record.memory.map(|memory| memory.beside() as f64 / MEMORY);
    let rows = [
        (
            "decode at context 16, of the streaming read",
            AtLeast(0.85),
            qwen3.of_limit(What::Decode, 16),
        ),
        (
            "decode at context 1024, of the streaming read",
            AtLeast(0.82),
            qwen3.of_limit(What::Decode, 1024),
        ),
        (
            "decode at context 16, times llama.cpp",
            AtLeast(2.2),
            qwen3.times(What::Decode, 16, 0),
        ),
        (
            "decode at context 16, times candle",
            AtLeast(1.5),
            qwen3.times(What::Decode, 16, 1),
        ),
        (
            "share of a token at context 256 that is no product",
            AtMost(0.08),
            beside_products(&all, synthetic::NAME, record.threads),
        ),
        (
            "prefill of 128, times llama.cpp",
            AtLeast(7.0),
            qwen3.times(What::Prefill, 128, 0),
        ),
        (
            "prefill of 512, times llama.cpp",
            AtLeast(7.0),
            qwen3.times(What::Prefill, 512, 0),
        ),
        (
            "avx512: products of 128 tokens, of the peak",
            AtLeast(0.70),
            qwen3.with("avx512").of_limit(What::Products, 128),
        ),
        (
            "avx2: decode at context 16, times llama.cpp",
            AtLeast(1.7),
            qwen3.with("avx2").times(What::Decode, 16, 0),
        ),
        (
            "avx2: prefill of 128, times llama.cpp",
            AtLeast(1.1),
            qwen3.with("avx2").times(What::Prefill, 128, 0),
        ),
        (
            "batch of 8 sessions, times one session",
            AtLeast(4.0),
            qwen3.compared(What::Batch, 8),
        ),
        (
            "verify of 64 tokens, times generating them",
            AtLeast(12.0),
            qwen3.compared(What::Verify, 64),
        ),
        (
            "load, times hashing",
            AtMost(1.3),
            qwen3.first_compared(What::Load),
        ),
        (
            "memory beside weights, keys and values, of 64 MB",
            AtMost(1.0),
            memory,
        ),
        (
            "real model: decode at context 16, times llama.cpp",
            AtLeast(1.5),
            real.times(What::Decode, 16, 0),
        ),
        (
            "real model: prefill of 128, times llama.cpp",
            AtLeast(2.0),
            real.times(What::Prefill, 128, 0),
        ),
        (
            "real model: prefill of 512, times llama.cpp",
            AtLeast(2.0),
            real.times(What::Prefill, 512, 0),
        ),
        (
            "real model: drafts on a text that it repeats, times without",
            AtLeast(1.5),
            real.compared(What::CopyDrafted, 96),
        ),
        (
            "real model: drafts on a new text, times without",
            AtLeast(0.95),
            real.compared(What::NewDrafted, 96),
        ),
    ];
    rows.into_iter()
        .map(|(what, bound, value)| Goal { what, bound, value })
        .collect()
}

/// The figures of one model with one set of kernels.
#[derive(Clone)]
struct Figures<'a> {
    all: &'a [Figure],
    subject: &'a str,
    engine: String,
    threads: usize,
}

impl<'a> Figures<'a> {
    fn of(all: &'a [Figure], record: &Record, subject: &'a str) -> Self {
        Self {
            all,
            subject,
            engine: record
                .machine
                .kernel_sets
                .last()
                .cloned()
                .unwrap_or_default(),
            threads: record.threads,
        }
    }

    fn with(&self, kernels: &str) -> Self {
        Self {
            engine: kernels.to_owned(),
            ..self.clone()
        }
    }

    fn figure(&self, what: What, size: usize) -> Option<&Figure> {
        let key = Key {
            what,
            subject: self.subject.to_owned(),
            engine: self.engine.clone(),
            threads: self.threads,
            size,
        };
        find(self.all, &key)
    }

    fn of_limit(&self, what: What, size: usize) -> Option<f64> {
        Some(self.figure(what, size)?.of_limit?.0)
    }

    fn times(&self, what: What, size: usize, peer: usize) -> Option<f64> {
        self.figure(what, size)?.times[peer]
    }

    fn compared(&self, what: What, size: usize) -> Option<f64> {
        Some(self.figure(what, size)?.compared?.0)
    }

    fn first_compared(&self, what: What) -> Option<f64> {
        let found = self
            .all
            .iter()
            .find(|f| f.key.what == what && f.key.subject == self.subject);
        Some(found?.compared?.0)
    }
}
