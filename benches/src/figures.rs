//! From samples to figures: medians, rates, ratios.

use serde::{Deserialize, Serialize};

use crate::limits::Unit;
use crate::rounds::Series;

/// The name under which the limits of the machine stand among the engines.
pub const MACHINE: &str = "machine";
/// The names of the other engines.
pub const PEERS: [&str; 3] = [LLAMA_NATIVE, LLAMA_PLAIN, CANDLE];
/// llama.cpp with weights in the layout of its fastest kernels, on some processors those of the matrix unit.
pub const LLAMA_NATIVE: &str = "llama.cpp, native";
/// llama.cpp on its dot products of vectors.
pub const LLAMA_PLAIN: &str = "llama.cpp, no repacking";
/// candle.
pub const CANDLE: &str = "candle";

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
    /// The products of `size` tokens with all weights, nothing between them; of one token the head's too.
    Products,
    /// `size` sessions decode together.
    Batch,
    /// `size` tokens are generated after a prompt of 64.
    Generate,
    /// The same answer is checked.
    Verify,
    /// Of tokens decoded one by one after `size` tokens, the time that the mean thread spends outside products with weights.
    OutsideWeightsMean,
    /// The same, the time in which no thread is in such a product.
    OutsideWeights,
    /// The same as the first, outside products with weights, keys and values.
    OutsideProductsMean,
    /// The same, the time in which no thread is in such a product.
    OutsideProducts,
    /// A blob file of `size` megabytes is hashed as the engine does.
    Hash,
    /// It is hashed by the `sha3` crate.
    HashPlain,
    /// It is loaded, ready to run.
    Load,
    /// `size` tokens are generated after a text that they repeat.
    CopyPlain,
    /// The same with drafts.
    CopyDrafted,
    /// `size` tokens are generated after a text whose drafts are mostly wrong.
    NewPlain,
    /// The same with drafts.
    NewDrafted,
}

/// Shares of a decode step.
pub(crate) const OUTSIDE: [What; 4] = [
    What::OutsideWeightsMean,
    What::OutsideWeights,
    What::OutsideProductsMean,
    What::OutsideProducts,
];

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
            What::Products => write!(f, "{subject}: products of {size}, {engine}")?,
            What::Batch => write!(f, "{subject}: {size} sessions, {engine}")?,
            What::Generate => write!(f, "{subject}: generate {size}, {engine}")?,
            What::Verify => write!(f, "{subject}: verify {size}, {engine}")?,
            What::OutsideWeightsMean => write!(
                f,
                "{subject}: outside products with weights at context {size}, {engine}"
            )?,
            What::OutsideWeights => write!(
                f,
                "{subject}: without products with weights at context {size}, {engine}"
            )?,
            What::OutsideProductsMean => write!(
                f,
                "{subject}: outside all products at context {size}, {engine}"
            )?,
            What::OutsideProducts => write!(
                f,
                "{subject}: without any product at context {size}, {engine}"
            )?,
            What::Hash => write!(f, "{subject}: hash {size} MB")?,
            What::HashPlain => write!(f, "{subject}: hash {size} MB by sha3")?,
            What::Load => write!(f, "{subject}: load {size} MB")?,
            What::CopyPlain => write!(f, "{subject}: copy {size}, {engine}")?,
            What::CopyDrafted => write!(f, "{subject}: copy {size} with drafts, {engine}")?,
            What::NewPlain => write!(f, "{subject}: new text of {size}, {engine}")?,
            What::NewDrafted => write!(f, "{subject}: new text of {size} with drafts, {engine}")?,
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
    pub times: [Option<f64>; PEERS.len()],
    /// A ratio to another figure of the run, and what it is.
    pub compared: Option<(f64, &'static str)>,
}

impl Figure {
    /// Tokens a second, where there are tokens and the time is all of theirs.
    #[must_use]
    pub fn tokens_per_s(&self) -> Option<f64> {
        let whole = !OUTSIDE.contains(&self.key.what);
        (whole && self.work.tokens > 0.0).then(|| self.work.tokens / self.seconds)
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
        .map(|f| (limit_of(f, &all), times_of(f, &all), compared(f, &all)))
        .collect();
    for (figure, (of_limit, times, compared)) in all.iter_mut().zip(ratios) {
        (figure.of_limit, figure.times, figure.compared) = (of_limit, times, compared);
    }
    all
}

/// The figure of a key.
#[must_use]
pub fn find<'a>(all: &'a [Figure], key: &Key) -> Option<&'a Figure> {
    all.iter().find(|f| f.key == *key)
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
        times: [None; PEERS.len()],
        compared: None,
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
        size,
        ..
    } = &figure.key;
    let bytes = match what {
        What::Decode => true,
        What::Products => *size == 1,
        What::Prefill => false,
        _ => return None,
    };
    // What other engines must read or multiply is theirs to say.
    if PEERS.contains(&engine.as_str()) {
        return None;
    }
    if bytes {
        let limit = stream_limit(all, *threads)?;
        Some((figure.work.bytes / figure.seconds / limit, "read"))
    } else {
        let limit = peak_limit(all, engine, *threads)?;
        Some((figure.work.operations / figure.seconds / limit, "products"))
    }
}

/// How many times as fast as the peers at the same.
fn times_of(figure: &Figure, all: &[Figure]) -> [Option<f64>; PEERS.len()] {
    PEERS.map(|peer| {
        if figure.key.engine == peer || !matches!(figure.key.what, What::Decode | What::Prefill) {
            return None;
        }
        let key = Key {
            engine: peer.to_owned(),
            ..figure.key.clone()
        };
        Some(figure.tokens_per_s()? / find(all, &key)?.tokens_per_s()?)
    })
}

fn compared(figure: &Figure, all: &[Figure]) -> Option<(f64, &'static str)> {
    let other = |what, size| {
        find(
            all,
            &Key {
                what,
                size,
                ..figure.key.clone()
            },
        )
    };
    let size = figure.key.size;
    match figure.key.what {
        What::Batch => {
            let one = other(What::Batch, 1)?;
            Some((
                figure.tokens_per_s()? / one.tokens_per_s()?,
                "x one session",
            ))
        }
        What::Verify => Some((
            other(What::Generate, size)?.seconds / figure.seconds,
            "x as fast as generating",
        )),
        What::CopyDrafted | What::NewDrafted => {
            let plain = if figure.key.what == What::CopyDrafted {
                What::CopyPlain
            } else {
                What::NewPlain
            };
            let ratio = other(plain, size)?.seconds / figure.seconds;
            Some((ratio, "x as fast as without"))
        }
        What::HashPlain => Some((
            figure.seconds / other(What::Hash, size)?.seconds,
            "x the engine's hasher",
        )),
        What::Load => Some((
            figure.seconds / other(What::Hash, size)?.seconds,
            "x the time of hashing",
        )),
        what if OUTSIDE.contains(&what) => Some((
            figure.seconds / figure.work.tokens * other(What::Decode, size)?.tokens_per_s()?,
            "of the token",
        )),
        _ => None,
    }
}

/// Decode of a model at every context.
fn decodes<'a>(
    all: &'a [Figure],
    engine: &str,
    subject: &str,
    threads: usize,
) -> Option<Vec<&'a Figure>> {
    let decode: Vec<&Figure> = all
        .iter()
        .filter(|f| {
            let key = &f.key;
            key.what == What::Decode
                && key.engine == engine
                && key.subject == subject
                && key.threads == threads
        })
        .collect();
    (decode.len() >= 3).then_some(decode)
}

/// Context and seconds of a token.
fn point(figure: &Figure) -> (f64, f64) {
    (figure.key.size as f64, figure.seconds / figure.work.tokens)
}

/// Slope of the line of least squares, and its height at 0.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (x, y) = (
        points.iter().map(|p| p.0).sum::<f64>() / n,
        points.iter().map(|p| p.1).sum::<f64>() / n,
    );
    let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
        / points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum::<f64>();
    (slope, y - slope * x)
}

/// Seconds that a decode step takes longer for each token of context, by least squares over all contexts, and the
/// seconds in which the streaming read reads the keys and values of one.
#[must_use]
pub fn growth(all: &[Figure], engine: &str, subject: &str, threads: usize) -> Option<(f64, f64)> {
    let decode = decodes(all, engine, subject, threads)?;
    let points: Vec<_> = decode.iter().map(|f| point(f)).collect();
    let (slope, _) = line(&points);
    let by_size = |f: &&&Figure| f.key.size;
    let first = decode.iter().min_by_key(by_size)?;
    let last = decode.iter().max_by_key(by_size)?;
    let bytes = |f: &Figure| f.work.bytes / f.work.tokens;
    let kv = (bytes(last) - bytes(first)) / (last.key.size as f64 - first.key.size as f64);
    Some((slope, kv / stream_limit(all, threads)?))
}

/// How far the decode step that is farthest from that line is from it, of its time.
#[must_use]
pub fn straightness(all: &[Figure], engine: &str, subject: &str, threads: usize) -> Option<f64> {
    let decode = decodes(all, engine, subject, threads)?;
    let points: Vec<_> = decode.iter().map(|f| point(f)).collect();
    let (slope, zero) = line(&points);
    let far = |&(x, y): &(f64, f64)| (zero + slope * x - y).abs() / y;
    points.iter().map(far).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quiet::Noise;
    use crate::rounds::Sample;

    fn key(what: What, engine: &str, size: usize) -> Key {
        Key {
            what,
            subject: "m".into(),
            engine: engine.into(),
            threads: 2,
            size,
        }
    }

    fn series(key: Key, work: Work, seconds: &[(f64, bool)]) -> Series {
        let samples = seconds.iter().map(|&(seconds, disturbed)| Sample {
            seconds,
            noise: Noise {
                disturbed,
                ..Noise::default()
            },
        });
        Series {
            key,
            work,
            samples: samples.collect(),
        }
    }

    #[test]
    fn medians_leave_out_what_was_disturbed_unless_most_was() {
        assert_eq!(
            (median(&[]), median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])),
            (0.0, 2.0, 2.5)
        );
        let work = Work {
            tokens: 6.0,
            ..Work::default()
        };
        let some = [(1.0, false), (9.0, true), (3.0, false), (2.0, false)];
        let figure = &figures(&[series(key(What::Prefill, "scalar", 6), work, &some)])[0];
        assert_eq!(
            (figure.seconds, figure.least, figure.spread),
            (2.0, 1.0, 1.0)
        );
        assert_eq!(
            (figure.samples, figure.left_out, figure.disturbed),
            (3, 1, false)
        );
        assert_eq!(figure.tokens_per_s(), Some(3.0));
        let most = [(1.0, false), (9.0, true), (3.0, true)];
        let figure = &figures(&[series(key(What::Prefill, "scalar", 6), work, &most)])[0];
        assert_eq!(
            (figure.seconds, figure.samples, figure.disturbed),
            (3.0, 3, true)
        );
        assert!(figures(&[series(key(What::Prefill, "scalar", 6), work, &[])]).is_empty());
    }

    #[test]
    fn ratios_are_to_the_same_size_and_threads() {
        let work = |tokens, bytes, operations| Work {
            tokens,
            bytes,
            operations,
        };
        let limit = |what, engine: &str, work| {
            let key = Key {
                subject: String::new(),
                ..key(what, engine, 0)
            };
            series(key, work, &[(1.0, false)])
        };
        let at = |what, engine, size, tokens, seconds| {
            let bytes = 0.5 * (100.0 + size as f64);
            series(
                key(what, engine, size),
                work(tokens, bytes, 30.0),
                &[(seconds, false)],
            )
        };
        let all = figures(&[
            limit(What::StreamRead, MACHINE, work(0.0, 100.0, 0.0)),
            limit(What::Peak, Unit::Vnni512.name(), work(0.0, 0.0, 40.0)),
            at(What::Decode, "avx512", 0, 1.0, 0.5),
            at(What::Decode, "avx512", 100, 1.0, 1.0),
            at(What::Decode, "avx512", 256, 1.0, 1.78),
            at(What::Decode, PEERS[0], 0, 1.0, 2.0),
            at(What::Prefill, "avx512", 8, 8.0, 1.0),
            at(What::OutsideWeightsMean, "avx512", 256, 1.0, 0.178),
            at(What::Batch, "avx512", 1, 1.0, 1.0),
            at(What::Batch, "avx512", 8, 8.0, 2.0),
            at(What::Generate, "avx512", 64, 64.0, 6.0),
            at(What::Verify, "avx512", 64, 64.0, 0.5),
            at(What::Hash, "avx512", 600, 0.0, 1.0),
            at(What::Load, "avx512", 600, 0.0, 1.25),
        ]);
        let get = |what, engine, size| find(&all, &key(what, engine, size)).unwrap();
        let decode = get(What::Decode, "avx512", 0);
        assert_eq!(decode.of_limit, Some((1.0, "read")));
        assert_eq!(decode.times, [Some(4.0), None, None]);
        assert_eq!(get(What::Decode, "avx512", 100).times, [None; 3]);
        assert_eq!(get(What::Decode, PEERS[0], 0).of_limit, None);
        assert_eq!(
            get(What::Prefill, "avx512", 8).of_limit,
            Some((0.75, "products"))
        );
        assert_eq!(get(What::Batch, "avx512", 8).compared.unwrap().0, 4.0);
        assert_eq!(get(What::Verify, "avx512", 64).compared.unwrap().0, 12.0);
        assert_eq!(get(What::Load, "avx512", 600).compared.unwrap().0, 1.25);
        let beside = get(What::OutsideWeightsMean, "avx512", 256)
            .compared
            .unwrap()
            .0;
        assert!((beside - 0.1).abs() < 1e-9, "{beside}");
        let (slope, kv) = growth(&all, "avx512", "m", 2).unwrap();
        assert!(
            (slope - 0.005).abs() < 1e-9 && (kv - 0.005).abs() < 1e-9,
            "{slope} {kv}"
        );
        assert!(straightness(&all, "avx512", "m", 2).unwrap() < 1e-9);
    }
}
