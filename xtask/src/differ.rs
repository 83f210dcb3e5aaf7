//! Random sessions of the embedded tiny model on every backend and on the reference: their logits never differ.
//!
//! A session is a random prompt and its greedy continuation. The reference computes the logits of every position once,
//! one token at a time. Each backend feeds the same tokens in random chunks, on a random number of threads, with
//! detours that are taken back and with positions that are forgotten and fed again, and every logit that it delivers is
//! compared.

use crate::{child, progress::Progress};
use anyhow::{Context, Result, bail, ensure};
use int_engine::blob::Loader;
use int_engine::engine::{CpuEngine, Engine};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The numbers of threads that a backend is run on.
const THREADS: [usize; 4] = [1, 2, 3, 5];

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// At least this many tokens, in whole sessions
    #[arg(long, default_value_t = 100_000)]
    tokens: usize,
    /// Seed of every choice
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this session of the seed alone, as a difference names it
    #[arg(long)]
    session: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Rng(u64);

impl Rng {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A value in `low..=high`.
    fn range(&mut self, low: usize, high: usize) -> usize {
        low + (self.word() % (high - low + 1) as u64) as usize
    }
}

/// One session: everything but the greedy part of its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    index: usize,
    /// Tokens, the continuation included.
    len: usize,
    prompt: Vec<u32>,
    /// Seed of the chunks, one more for each backend.
    seed: u64,
}

/// Session `index` of a seed: lengths up to the whole context, short ones more often than their share of tokens.
fn plan(seed: u64, index: usize, context: usize, accepted: usize) -> Plan {
    let mut rng = Rng(seed ^ (index as u64).wrapping_mul(0xD134_2543_DE82_EF95));
    let most = [context.min(8), context.min(70), context, context][rng.range(0, 3)];
    let len = rng.range(1, most);
    let prompt = (0..rng.range(1, len))
        .map(|_| rng.range(0, accepted - 1) as u32)
        .collect();
    Plan {
        index,
        len,
        prompt,
        seed: rng.word(),
    }
}

/// Whole sessions that hold at least `tokens` together.
fn plans(seed: u64, tokens: usize, context: usize, accepted: usize) -> Vec<Plan> {
    let (mut all, mut held) = (Vec::new(), 0);
    while held < tokens {
        let next = plan(seed, all.len(), context, accepted);
        held += next.len;
        all.push(next);
    }
    all
}

/// Two computers of the same function and what was compared between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pair {
    names: (String, String),
    sessions: usize,
    /// Positions, each once.
    tokens: usize,
    /// Rows of logits, those of positions fed again included.
    rows: usize,
    chunks: usize,
    rewinds: usize,
    /// Tokens a number of threads, in the order of [`THREADS`].
    threads: [usize; THREADS.len()],
    /// Rows that differ.
    differences: usize,
}

/// The first logit that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Difference {
    session: usize,
    names: (String, String),
    threads: usize,
    /// Tokens up to the position.
    tokens: Vec<u32>,
    index: usize,
    expected: i32,
    found: i32,
}

/// The outcome of all sessions.
#[derive(Debug, Default)]
struct Outcome {
    pairs: Vec<Pair>,
    first: Option<Difference>,
}

/// A backend under test, on each number of threads.
struct Runner {
    name: &'static str,
    engines: Vec<CpuEngine>,
}

/// What one backend did in one session.
struct Walk {
    /// `[len][vocab]`: the last logits of each position.
    logits: Vec<i32>,
    pair: Pair,
    first: Option<Difference>,
}

/// The first index at which two rows differ.
fn unequal(a: &[i32], b: &[i32]) -> Option<usize> {
    if a == b {
        return None;
    }
    a.iter().zip(b).position(|(x, y)| x != y)
}

/// The reference's tokens and logits of a session, `[len][vocab]`.
fn reference(model: &int_reference::Model, plan: &Plan) -> (Vec<u32>, Vec<i32>) {
    let (mut cache, mut tokens) = (model.new_cache(), plan.prompt.clone());
    let mut logits = Vec::with_capacity(plan.len * model.vocab());
    for position in 0..plan.len {
        let row = model.logits(&model.step(&mut cache, tokens[position]));
        if position + 1 == tokens.len() && tokens.len() < plan.len {
            tokens.push(model.argmax(&row));
        }
        logits.extend(row);
    }
    (tokens, logits)
}

/// A chunk's length: single tokens, a few, and more than the threads' blocks hold.
fn chunk_len(rng: &mut Rng) -> usize {
    match rng.range(0, 7) {
        0..=2 => 1,
        3 | 4 => rng.range(2, 9),
        5 | 6 => rng.range(10, 97),
        _ => rng.range(98, 512),
    }
}

/// Feeds the session's tokens to one engine and compares what it delivers with `expected`.
fn walk(
    runner: &Runner,
    which: usize,
    plan: &Plan,
    tokens: &[u32],
    expected: &[i32],
    rng: &mut Rng,
) -> Result<Walk> {
    let engine = &runner.engines[which];
    let (vocab, accepted) = (engine.config().vocab(), engine.config().accepted_ids());
    let context = engine.config().max_context();
    let names = ("reference".to_string(), runner.name.to_string());
    let mut logits = vec![0; expected.len()];
    let mut compared = vec![false; tokens.len()];
    let mut first = None;
    let mut pair = Pair {
        names: names.clone(),
        sessions: 1,
        tokens: tokens.len(),
        ..Pair::default()
    };
    pair.threads[which] = tokens.len();
    let mut compare = |pair: &mut Pair, position: usize, row: &[i32]| {
        pair.rows += 1;
        compared[position] = true;
        let at = position * vocab..(position + 1) * vocab;
        if let Some(index) = unequal(&expected[at.clone()], row) {
            pair.differences += 1;
            first.get_or_insert_with(|| Difference {
                session: plan.index,
                names: names.clone(),
                threads: THREADS[which],
                tokens: tokens[..=position].to_vec(),
                index,
                expected: expected[position * vocab + index],
                found: row[index],
            });
        }
        logits[at].copy_from_slice(row);
    };
    let mut session = engine.session()?;
    let mut rewinds_left = 3;
    while session.position() < tokens.len() {
        let position = session.position();
        if rewinds_left > 0 && position > 0 && rng.range(0, 5) == 0 {
            rewinds_left -= 1;
            pair.rewinds += 1;
            if rng.range(0, 1) == 0 {
                // Other tokens, taken back.
                let most = (context - position).min(100);
                if most > 0 {
                    let detour: Vec<u32> = (0..rng.range(1, most))
                        .map(|_| rng.range(0, accepted - 1) as u32)
                        .collect();
                    session.feed(&detour)?;
                    session.truncate(position);
                }
            } else {
                session.truncate(rng.range(position.saturating_sub(100), position - 1));
            }
            continue;
        }
        let chunk = &tokens[position..tokens.len().min(position + chunk_len(rng))];
        pair.chunks += 1;
        if chunk.len() > 1 || rng.range(0, 1) == 0 {
            session.feed_all_logits(chunk, &mut |at, row| compare(&mut pair, at, row))?;
        } else {
            session.feed(chunk)?;
        }
        // The head for one position splits its rows instead of the tokens.
        let last = session.logits().context("a fed session has logits")?;
        compare(&mut pair, position + chunk.len() - 1, last);
    }
    ensure!(
        compared.iter().all(|&c| c),
        "{} delivered no logits for a position",
        runner.name
    );
    Ok(Walk {
        logits,
        pair,
        first,
    })
}

/// Runs one session on the reference and on every runner: one pair for each two of them, the reference first.
fn session(model: &int_reference::Model, runners: &[Runner], plan: &Plan) -> Result<Outcome> {
    let (tokens, expected) = reference(model, plan);
    let (vocab, mut outcome, mut walks) = (model.vocab(), Outcome::default(), Vec::new());
    for (i, runner) in runners.iter().enumerate() {
        let mut rng = Rng(plan.seed.wrapping_add(i as u64));
        let which = rng.range(0, THREADS.len() - 1);
        walks.push(walk(runner, which, plan, &tokens, &expected, &mut rng)?);
    }
    for walk in &walks {
        outcome.add(walk.pair.clone(), walk.first.clone());
    }
    for (i, a) in walks.iter().enumerate() {
        for b in &walks[i + 1..] {
            let mut pair = Pair {
                names: (a.pair.names.1.clone(), b.pair.names.1.clone()),
                rows: tokens.len(),
                chunks: a.pair.chunks + b.pair.chunks,
                rewinds: a.pair.rewinds + b.pair.rewinds,
                ..b.pair.clone()
            };
            for (sum, n) in pair.threads.iter_mut().zip(a.pair.threads) {
                *sum += n;
            }
            let rows = a.logits.chunks(vocab).zip(b.logits.chunks(vocab));
            pair.differences = rows.filter(|(x, y)| x != y).count();
            // A difference between two backends is one of at least one of them from the reference.
            outcome.add(pair, None);
        }
    }
    Ok(outcome)
}

impl Outcome {
    fn add(&mut self, pair: Pair, first: Option<Difference>) {
        match self.pairs.iter_mut().find(|p| p.names == pair.names) {
            Some(p) => {
                p.sessions += pair.sessions;
                p.tokens += pair.tokens;
                p.rows += pair.rows;
                p.chunks += pair.chunks;
                p.rewinds += pair.rewinds;
                p.differences += pair.differences;
                for (sum, n) in p.threads.iter_mut().zip(pair.threads) {
                    *sum += n;
                }
            }
            None => self.pairs.push(pair),
        }
        self.first = match (self.first.take(), first) {
            (Some(a), Some(b)) => Some(if b.session < a.session { b } else { a }),
            (a, b) => a.or(b),
        };
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "| pair | tokens | sessions | rows of logits compared | chunks | rewinds | tokens on 1 / 2 / 3 / 5 threads | differences |\n|---|---|---|---|---|---|---|---|\n",
        );
        for p in &self.pairs {
            let threads = p.threads.map(|n| n.to_string()).join(" / ");
            text += &format!(
                "| {} = {} | {} | {} | {} | {} | {} | {threads} | {} |\n",
                p.names.0,
                p.names.1,
                p.tokens,
                p.sessions,
                p.rows,
                p.chunks,
                p.rewinds,
                p.differences
            );
        }
        text
    }

    fn json(&self, seed: u64) -> Value {
        let pairs: Vec<Value> = self
            .pairs
            .iter()
            .map(|p| {
                json!({
                    "pair": [p.names.0, p.names.1], "tokens": p.tokens, "sessions": p.sessions, "rows": p.rows,
                    "chunks": p.chunks, "rewinds": p.rewinds, "differences": p.differences,
                    "tokens_on_threads": THREADS.iter().zip(p.threads).map(|(t, n)| (t.to_string(), n.into())).collect::<serde_json::Map<_, _>>(),
                })
            })
            .collect();
        let first = self.first.as_ref().map(|d| {
            json!({
                "session": d.session, "pair": [d.names.0, d.names.1], "threads": d.threads, "tokens": d.tokens,
                "position": d.tokens.len() - 1, "index": d.index, "expected": d.expected, "found": d.found,
            })
        });
        json!({"seed": seed, "pairs": pairs, "first_difference": first})
    }
}

/// Runs the sessions on as many workers as there are processors.
fn differ(
    blob: &[u8],
    backends: &[(&'static str, &'static Kernels)],
    plans: &[Plan],
    progress: &Progress,
) -> Result<Outcome> {
    let reference = int_reference::Model::from_blob(blob)?;
    let model = load(blob)?;
    let workers = std::thread::available_parallelism()
        .map_or(1, NonZeroUsize::get)
        .min(plans.len().max(1));
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Outcome::default()));
    let work = || -> Result<()> {
        let runners: Vec<Runner> = backends
            .iter()
            .map(|&(name, kernels)| Runner {
                name,
                engines: THREADS
                    .iter()
                    .filter_map(|&n| NonZeroUsize::new(n))
                    .map(|n| CpuEngine::new(Arc::clone(&model), kernels, n))
                    .collect(),
            })
            .collect();
        while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = session(&reference, &runners, plan)
                .with_context(|| format!("session {}", plan.index))?;
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            let mut first = outcome.first;
            for pair in outcome.pairs {
                total.add(pair, first.take());
            }
            drop(total);
            progress.inc(plan.len as u64);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|w| w.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?)
    })?;
    Ok(total.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn load(blob: &[u8]) -> Result<Arc<Model>> {
    let mut loader = Loader::new();
    loader.push(blob)?;
    Ok(Arc::new(loader.finish()?))
}

fn tiny() -> Result<Vec<u8>> {
    let path = child::root().join("models/default/blue-tiny.blob");
    std::fs::read(&path).with_context(|| path.display().to_string())
}

/// Compares every backend of this machine with the reference and with each other.
pub(crate) fn run(options: &Options) -> Result<()> {
    let blob = tiny()?;
    let model = load(&blob)?;
    let (context, accepted) = (model.config().max_context(), model.config().accepted_ids());
    let plans = match options.session {
        Some(index) => vec![plan(options.seed, index, context, accepted)],
        None => plans(options.seed, options.tokens, context, accepted),
    };
    let backends: Vec<(&'static str, &'static Kernels)> = Kernels::all()
        .into_iter()
        .filter_map(|(name, kernels)| Some((name, kernels?)))
        .collect();
    let progress = Progress::new(
        "tokens",
        plans.iter().map(|p| p.len as u64).sum(),
        options.json,
    );
    let outcome = differ(&blob, &backends, &plans, &progress)?;
    drop(progress);
    if options.json {
        println!("{:#}", outcome.json(options.seed));
    } else {
        for (name, kernels) in Kernels::all() {
            if kernels.is_none() {
                println!("SKIP {name}: this machine lacks it");
            }
        }
        print!("{}", outcome.table());
    }
    if let Some(d) = &outcome.first {
        bail!(
            "{} and {} ({} threads) differ first at position {}, logit {}: {} and {}\nprompt: {:?}\nreplay: cargo xtask differ --seed {} --session {}",
            d.names.0,
            d.names.1,
            d.threads,
            d.tokens.len() - 1,
            d.index,
            d.expected,
            d.found,
            d.tokens,
            options.seed,
            d.session,
        );
    }
    ensure!(
        outcome.pairs.iter().all(|p| p.differences == 0),
        "two backends differ"
    );
    Ok(())
}

#[cfg(test)]
mod tests;
