//! Decode and prefill of a model as contenders: contexts, lengths, threads, sets of kernels.

use std::num::NonZeroUsize;

use int_engine::engine::{CpuEngine, Engine};
use int_engine::kernels::Kernels;

use super::{Group, Options, Progress, inside};
use crate::Error;
use crate::expected::{Expected, Table, check, decode, digest};
use crate::figures::{Key, What, Work};
use crate::rounds::Contender;
use crate::subject::Subject;

/// Tokens of a decode sample.
pub(super) const DECODED: usize = 16;
/// The context and the prompt at which sets of kernels and numbers of threads are compared.
const SHORT: usize = 16;
const PROMPT: usize = 128;
/// Bytes of keys and values that the contexts may share.
const SHARED: usize = 1 << 30;

/// One way to run a model.
#[derive(Clone, Copy, PartialEq)]
struct Way {
    kernels: &'static str,
    threads: NonZeroUsize,
    what: What,
    size: usize,
    /// Decode steps, for decode.
    steps: usize,
}

/// What the options ask for, each once.
fn ways(options: &Options, max_context: usize) -> Vec<Way> {
    let best = Kernels::detect().name;
    let mut ways: Vec<Way> = Vec::new();
    let mut add = |kernels, threads, what, size, steps| {
        let way = Way {
            kernels,
            threads,
            what,
            size,
            steps,
        };
        let known = ways.contains(&way);
        if !known && size <= options.max_context && size + steps < max_context {
            ways.push(way);
        }
    };
    let all = options.threads;
    let (contexts, lengths): (&[usize], &[usize]) = if options.quick {
        (&[16, 1024], &[128, 512])
    } else {
        (&[16, 256, 1024, 4096], &[8, 32, 128, 512, 2048])
    };
    if options.wants(Group::Decode) {
        for &context in contexts {
            add(best, all, What::Decode, context, DECODED);
        }
    }
    // What the time outside of products is a share of.
    if options.wants(Group::Products) {
        add(best, all, What::Decode, inside::CONTEXT, DECODED);
    }
    if options.wants(Group::Prefill) {
        for &length in lengths {
            add(best, all, What::Prefill, length, 0);
        }
    }
    if options.wants(Group::Threads) {
        let counts = (0..).map_while(|i| NonZeroUsize::new(1 << i).filter(|n| *n < all));
        for threads in counts.chain([all]) {
            add(best, threads, What::Decode, SHORT, DECODED);
            add(best, threads, What::Prefill, PROMPT, 0);
        }
    }
    if options.wants(Group::Kernels) {
        for (name, _) in Kernels::all()
            .into_iter()
            .filter(|(_, kernels)| kernels.is_some())
        {
            // The portable kernels are for correctness: a few tokens tell their speed.
            let (steps, prompt) = if name == "scalar" {
                (2, 8)
            } else {
                (DECODED, PROMPT)
            };
            add(name, all, What::Decode, SHORT, steps);
            add(name, all, What::Prefill, prompt, 0);
        }
    }
    ways
}

/// Adds the contenders of a subject.
pub(super) fn contenders<'a>(
    subject: &'a Subject,
    options: &Options,
    progress: &mut dyn FnMut(Progress<'_>),
    all: &mut Vec<Contender<'a>>,
) -> Result<(), Error> {
    progress(Progress::Prepare(&format!(
        "expected results of {}",
        subject.name
    )));
    let ways = ways(options, subject.model.config().max_context());
    let sizes = |what| -> Vec<usize> {
        ways.iter()
            .filter(|w| w.what == what)
            .map(|w| w.size)
            .collect()
    };
    let (contexts, lengths) = (sizes(What::Decode), sizes(What::Prefill));
    let expected = Table::new(subject, options.threads, &contexts, DECODED, &lengths)?;
    // Sessions that decode share the keys and values of their contexts, so that each is computed once. Prompts that are
    // timed find nothing to share.
    type Id = (&'static str, NonZeroUsize, bool);
    let mut engines: Vec<(Id, CpuEngine)> = Vec::new();
    for way in ways {
        let decodes = way.what == What::Decode;
        let id = (way.kernels, way.threads, decodes);
        if !engines.iter().any(|(known, _)| *known == id) {
            let kernels = Kernels::by_name(way.kernels).unwrap_or(Kernels::scalar());
            let engine = CpuEngine::new(subject.model.clone(), kernels, way.threads);
            let engine = if decodes {
                engine.with_prefix_cache(SHARED)
            } else {
                engine
            };
            engines.push((id, engine));
        }
        let Some((_, engine)) = engines.iter().find(|(known, _)| *known == id) else {
            continue;
        };
        let key = Key {
            what: way.what,
            subject: subject.name.clone(),
            engine: engine.backend().to_owned(),
            threads: way.threads.get(),
            size: way.size,
        };
        if decodes {
            let expected = expected.decode[&way.size].clone();
            all.push(decode_contender(subject, engine, key, way.steps, expected)?);
        } else {
            let expected = expected.prefill[&way.size].clone();
            all.push(prefill_contender(subject, engine, key, expected)?);
        }
    }
    Ok(())
}

/// Decodes `steps` tokens after a context that the session keeps.
fn decode_contender<'a>(
    subject: &'a Subject,
    engine: &CpuEngine,
    key: Key,
    steps: usize,
    expected: Expected,
) -> Result<Contender<'a>, Error> {
    let context = key.size;
    let work = Work {
        tokens: steps as f64,
        bytes: subject.decode_bytes(context, steps),
        operations: 0.0,
    };
    let (name, first) = (key.to_string(), subject.token_at(context));
    let mut session = engine.session()?;
    session.feed(&subject.prompt(context))?;
    Ok(Contender::new(key, work, move |watch| {
        session.truncate(context);
        let ids = watch.time(|| decode(&mut *session, first, steps))?;
        check(&name, &ids[..], &expected.ids[..steps])?;
        if steps == expected.ids.len() {
            check(&name, digest(&mut *session), expected.digest)?;
        }
        Ok(())
    }))
}

/// Feeds a whole prompt to an empty session, to the first id.
fn prefill_contender<'a>(
    subject: &'a Subject,
    engine: &CpuEngine,
    key: Key,
    expected: Expected,
) -> Result<Contender<'a>, Error> {
    let prompt = subject.prompt(key.size);
    let work = Work {
        tokens: key.size as f64,
        bytes: 0.0,
        operations: subject.prefill_operations(key.size),
    };
    let name = key.to_string();
    let mut session = engine.session()?;
    Ok(Contender::new(key, work, move |watch| {
        session.reset();
        let id = watch.time(|| session.feed(&prompt).map(|()| session.greedy()))?;
        check(&name, id, expected.ids.first().copied())?;
        check(&name, digest(&mut *session), expected.digest)
    }))
}
