//! From samples to figures: medians, rates, ratios.

use serde::{Deserialize, Serialize};

use crate::limits::Unit;
use crate::rounds::Series;

/// The name under which the limits of the machine stand among the engines.
pub const MACHINE: &str = "machine";
/// The names of the other engines.
pub const PEERS: [&str; 2] = ["llama.cpp", "candle"];

/// Kinds of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A buffer larger than the caches is read once, in order; `size` is the distance of the prefetch instruction.
    StreamRead,
    /// Registers are multiplied by the instructions that `engine` names.
    Peak,
    /// Tokens are decoded one by one after `size` tokens.
    Decode,
    /// A prompt of `size` tokens, to the first id.
    Prefill,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The kind.
    pub what: What,
    /// The model; empty for the machine's limits.
    pub subject: String,
    /// A set of kernels, another engine, or [`MACHINE`]'s instructions.
    pub engine: String,
    /// Threads.
    pub threads: usize,
    /// The size that the kind names.
    pub size: usize,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            subject,
            engine,
            threads,
            size,
            ..
        } = self;
        match self.what {
            What::StreamRead if *size == 0 => write!(f, "streaming read, plain")?,
            What::StreamRead => write!(f, "streaming read, prefetch {size} B ahead")?,
            What::Peak => write!(f, "int8 products, {engine}")?,
            What::Decode => write!(f, "{subject}: decode at context {size}, {engine}")?,
            What::Prefill => write!(f, "{subject}: prefill of {size}, {engine}")?,
        }
        write!(
            f,
            ", {threads} thread{}",
            if *threads == 1 { "" } else { "s" }
        )
    }
}

/// What one sample does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Tokens, over all sessions.
    pub tokens: f64,
    /// Bytes that must be read from memory.
    pub bytes: f64,
    /// Multiplications and additions of the products with weights.
    pub operations: f64,
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What was measured.
    pub key: Key,
    /// What one sample does.
    pub work: Work,
    /// Median of the samples used.
    pub seconds: f64,
    /// The fastest of them.
    pub least: f64,
    /// The slowest less the fastest, as a share of the median.
    pub spread: f64,
    /// Samples used.
    pub samples: usize,
    /// Samples left out because others disturbed them.
    pub left_out: usize,
    /// Most samples were disturbed, so none was left out.
    pub disturbed: bool,
    /// Share of the machine's limit, and the limit's name.
    pub of_limit: Option<(f64, &'static str)>,
    /// How many times as fast as each of [`PEERS`].
    pub times: [Option<f64>; 2],
}

impl Figure {
    /// Tokens a second, where there are tokens.
    #[must_use]
    pub fn tokens_per_s(&self) -> Option<f64> {
        (self.work.tokens > 0.0).then(|| self.work.tokens / self.seconds)
    }
}

/// The middle of the values, or the mean of the two middle ones; 0 of none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Medians of every series, and their ratios to each other.
#[must_use]
pub fn figures(series: &[Series]) -> Vec<Figure> {
    let mut all: Vec<Figure> = series
        .iter()
        .filter(|s| !s.samples.is_empty())
        .map(alone)
        .collect();
    let ratios: Vec<_> = all
        .iter()
        .map(|figure| (limit_of(figure, &all), times_of(figure, &all)))
        .collect();
    for (figure, (of_limit, times)) in all.iter_mut().zip(ratios) {
        (figure.of_limit, figure.times) = (of_limit, times);
    }
    all
}

fn alone(series: &Series) -> Figure {
    let quiet: Vec<f64> = series
        .samples
        .iter()
        .filter(|s| !s.noise.disturbed)
        .map(|s| s.seconds)
        .collect();
    let disturbed = 2 * quiet.len() < series.samples.len();
    let used = if disturbed {
        series.samples.iter().map(|s| s.seconds).collect()
    } else {
        quiet
    };
    let least = used.iter().copied().fold(f64::INFINITY, f64::min);
    let most = used.iter().copied().fold(0.0, f64::max);
    let seconds = median(&used);
    Figure {
        key: series.key.clone(),
        work: series.work,
        seconds,
        least,
        spread: (most - least) / seconds,
        samples: used.len(),
        left_out: series.samples.len() - used.len(),
        disturbed,
        of_limit: None,
        times: [None; 2],
    }
}

/// Bytes a second of the fastest streaming read with so many threads.
#[must_use]
pub fn stream_limit(all: &[Figure], threads: usize) -> Option<f64> {
    let reads = all
        .iter()
        .filter(|f| f.key.what == What::StreamRead && f.key.threads == threads);
    reads
        .map(|f| f.work.bytes / f.seconds)
        .max_by(f64::total_cmp)
}

/// Operations a second of the instructions that a set of kernels is built on.
#[must_use]
pub fn peak_limit(all: &[Figure], kernels: &str, threads: usize) -> Option<f64> {
    let unit = Unit::of_kernels(kernels)?.name();
    let peaks = all
        .iter()
        .filter(|f| f.key.what == What::Peak && f.key.engine == unit && f.key.threads == threads);
    peaks
        .map(|f| f.work.operations / f.seconds)
        .max_by(f64::total_cmp)
}

fn limit_of(figure: &Figure, all: &[Figure]) -> Option<(f64, &'static str)> {
    let Key {
        what,
        engine,
        threads,
        ..
    } = &figure.key;
    match what {
        What::StreamRead | What::Peak => None,
        What::Decode => {
            let limit = stream_limit(all, *threads)?;
            Some((figure.work.bytes / figure.seconds / limit, "read"))
        }
        What::Prefill => {
            let limit = peak_limit(all, engine, *threads)?;
            Some((figure.work.operations / figure.seconds / limit, "products"))
        }
    }
}

/// How many times as fast as the peers at the same.
fn times_of(figure: &Figure, all: &[Figure]) -> [Option<f64>; 2] {
    PEERS.map(|peer| {
        let key = Key {
            engine: peer.to_owned(),
            ..figure.key.clone()
        };
        let other = all.iter().find(|f| f.key == key)?;
        Some(figure.tokens_per_s()? / other.tokens_per_s()?)
    })
}
