//! What the project promises of its speed, as ratios within one run.

use crate::figures::{
    CANDLE, Figure, Key, LLAMA_NATIVE, LLAMA_PLAIN, PEERS, What, figures, find, growth,
    straightness,
};
use crate::record::Record;
use crate::synthetic;

/// A promise and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The promise.
    pub what: String,
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
    /// Anywhere: the ratio is shown beside one that is promised.
    Shown,
}

impl Goal {
    /// Whether it was measured and holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        match (self.bound, self.value) {
            (Bound::Shown, _) => true,
            (Bound::AtLeast(bound), Some(value)) => value >= bound,
            (Bound::AtMost(bound), Some(value)) => value <= bound,
            (_, None) => false,
        }
    }
}

/// Bytes of memory beside weights, keys and values.
const MEMORY: f64 = 64e6;

/// The model of the promises about real weights: the blob whose file name begins with `smollm2`.
const REAL: &str = "SmolLM2-135M: ";

/// Context at which decode is promised a share of the streaming read, and the share.
const FAR: (usize, f64) = (1024, 0.82);

/// Adds a promise.
struct List(Vec<Goal>);

impl List {
    fn add(&mut self, what: &str, bound: Bound, value: Option<f64>) {
        let what = what.to_owned();
        self.0.push(Goal { what, bound, value });
    }

    /// The promise is about llama.cpp on vector instructions; beside it stands llama.cpp as built for this machine.
    fn llama(&mut self, what: &str, least: f64, figures: &Figures<'_>, kind: What, size: usize) {
        for (peer, bound) in [
            (LLAMA_PLAIN, Bound::AtLeast(least)),
            (LLAMA_NATIVE, Bound::Shown),
        ] {
            let what = format!("{what}, times {peer}");
            self.add(&what, bound, figures.times(kind, size, peer));
        }
    }
}

/// All promises. The random model's are those of the Qwen3-0.6B shape; the real model's those of SmolLM2-135M.
#[must_use]
pub fn goals(record: &Record) -> Vec<Goal> {
    use Bound::{AtLeast, AtMost, Shown};
    let all = figures(&record.series);
    let qwen3 = Figures::of(&all, record, synthetic::NAME);
    let avx2 = qwen3.with("avx2");
    let real = all
        .iter()
        .map(|f| &f.key.subject)
        .find(|s| s.to_lowercase().starts_with("smollm2"));
    let real = Figures::of(&all, record, real.map_or("", String::as_str));
    let mut list = List(Vec::new());

    for (context, least) in [(16, 0.85), FAR] {
        list.add(
            &format!("decode at context {context}, of the streaming read"),
            AtLeast(least),
            qwen3.of_limit(What::Decode, context),
        );
    }
    list.llama("decode at context 16", 2.2, &qwen3, What::Decode, 16);
    list.add(
        "decode at context 16, times candle",
        AtLeast(1.5),
        qwen3.times(What::Decode, 16, CANDLE),
    );
    list.add(
        "time in which no thread is in a product with weights, keys or values, of a token at context 256",
        AtMost(0.08),
        qwen3.compared(What::OutsideProducts, 256),
    );
    list.add(
        "time in which no thread is in a product with weights, of the same",
        Shown,
        qwen3.compared(What::OutsideWeights, 256),
    );
    list.add(
        "processors' time outside products with weights, keys and values, waits included, of the same",
        Shown,
        qwen3.compared(What::OutsideProductsMean, 256),
    );
    list.add(
        "processors' time outside products with weights, waits included, of the same",
        Shown,
        qwen3.compared(What::OutsideWeightsMean, 256),
    );
    for size in [128, 512] {
        let what = format!("prefill of {size}");
        list.llama(&what, 7.0, &qwen3, What::Prefill, size);
    }
    list.add(
        "avx512: products of 128 tokens, of the peak",
        AtLeast(0.70),
        qwen3.with("avx512").of_limit(What::Products, 128),
    );
    list.llama("avx2: decode at context 16", 1.7, &avx2, What::Decode, 16);
    list.llama("avx2: prefill of 128", 1.1, &avx2, What::Prefill, 128);
    list.add(
        "batch of 8 sessions, tokens a second, times one session",
        AtLeast(4.0),
        qwen3.compared(What::Batch, 8),
    );
    list.add(
        "verify of 64 tokens after 64, times as fast as generating them, both with the prompt",
        AtLeast(12.0),
        qwen3.compared(What::Verify, 64),
    );
    list.add(
        "time of load, times hashing the file by the engine's hasher",
        AtMost(1.3),
        qwen3.load_over(What::Hash),
    );
    list.add(
        "time of load, times hashing the file by sha3",
        Shown,
        qwen3.load_over(What::HashPlain),
    );
    let growth = growth(&all, &qwen3.engine, synthetic::NAME, record.threads);
    list.add(
        "time of decode for each token of context, times reading its keys and values",
        // A token of context may cost what a token at the far context may.
        AtMost(1.0 / FAR.1),
        growth.map(|(slope, read)| slope / read),
    );
    list.add(
        "largest distance of decode from a line in the context, of the time",
        Shown,
        straightness(&all, &qwen3.engine, synthetic::NAME, record.threads),
    );
    list.add(
        "memory beside weights, keys and values, of 64 MB",
        AtMost(1.0),
        record.memory.map(|memory| memory.beside() as f64 / MEMORY),
    );
    let what = format!("{REAL}decode at context 16");
    list.llama(&what, 1.5, &real, What::Decode, 16);
    for size in [128, 512] {
        let what = format!("{REAL}prefill of {size}");
        list.llama(&what, 2.0, &real, What::Prefill, size);
    }
    list.add(
        &format!("{REAL}drafts on a text that it repeats, times as fast as without"),
        AtLeast(1.5),
        real.compared(What::CopyDrafted, 96),
    );
    list.add(
        &format!("{REAL}drafts on a new text, times as fast as without"),
        AtLeast(0.95),
        real.compared(What::NewDrafted, 96),
    );
    list.0
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

    fn times(&self, what: What, size: usize, peer: &str) -> Option<f64> {
        let peer = PEERS.iter().position(|known| *known == peer)?;
        self.figure(what, size)?.times[peer]
    }

    fn compared(&self, what: What, size: usize) -> Option<f64> {
        Some(self.figure(what, size)?.compared?.0)
    }

    /// The time of a load over that of hashing the same file.
    fn load_over(&self, hash: What) -> Option<f64> {
        let mine = |what| {
            let mut mine = self.all.iter().filter(|f| f.key.subject == self.subject);
            mine.find(|f| f.key.what == what).map(|f| f.seconds)
        };
        Some(mine(What::Load)? / mine(hash)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_on_their_side_and_what_was_not_measured_does_not() {
        let goal = |bound, value| Goal {
            what: String::new(),
            bound,
            value,
        };
        for (bound, value, holds) in [
            (Bound::AtLeast(2.0), Some(2.0), true),
            (Bound::AtLeast(2.0), Some(1.9), false),
            (Bound::AtMost(2.0), Some(2.0), true),
            (Bound::AtMost(2.0), Some(2.1), false),
            (Bound::AtMost(2.0), None, false),
            (Bound::Shown, None, true),
        ] {
            assert_eq!(goal(bound, value).holds(), holds, "{bound:?} {value:?}");
        }
    }
}
