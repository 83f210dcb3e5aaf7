//! Several sessions in one step, checking an answer, loading: what a node does besides decoding.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;

use int_engine::blob::Loader;
use int_engine::buffer::Pages;
use int_engine::commitment::Tree;
use int_engine::engine::{CpuEngine, Engine, Feed, Session, Verdict, generate, verify};
use int_engine::kernels::Kernels;

use crate::expected::{check, decode};
use crate::figures::{Key, What, Work};
use crate::rounds::Contender;
use crate::subject::{self, Subject};
use crate::{Error, plain};

/// Numbers of sessions that advance together.
const SESSIONS: [usize; 5] = [1, 2, 4, 8, 16];
/// Tokens in each session before, and steps of a sample.
const CONTEXT: usize = 16;
const STEPS: usize = 16;
/// Tokens of the prompt and of the answer that is checked.
const PROMPT: usize = 64;
const ANSWER: usize = 64;

fn key(subject: &Subject, what: What, threads: NonZeroUsize, size: usize) -> Key {
    Key {
        what,
        subject: subject.name.clone(),
        engine: Kernels::detect().name.into(),
        threads: threads.get(),
        size,
    }
}

/// The tokens of a session: others than those of the next one.
fn tokens_of(subject: &Subject, session: usize, count: usize) -> Vec<u32> {
    (0..count)
        .map(|i| subject.token_at(1000 * session + i))
        .collect()
}

/// Adds decode of several sessions together; each must decode what it decodes alone.
pub(super) fn batch<'a>(
    subject: &'a Subject,
    threads: NonZeroUsize,
    all: &mut Vec<Contender<'a>>,
) -> Result<(), Error> {
    let engine = Rc::new(CpuEngine::new(
        subject.model.clone(),
        Kernels::detect(),
        threads,
    ));
    let (mut sessions, mut expected) = (Vec::new(), Vec::new());
    for s in 0..SESSIONS[SESSIONS.len() - 1] {
        let tokens = tokens_of(subject, s, CONTEXT + 1);
        let mut session = engine.session()?;
        session.feed(&tokens[..CONTEXT])?;
        expected.push((
            tokens[CONTEXT],
            decode(&mut *session, tokens[CONTEXT], STEPS)?,
        ));
        session.truncate(CONTEXT);
        sessions.push(session);
    }
    let sessions = Rc::new(std::cell::RefCell::new(sessions));
    let expected = Rc::new(expected);
    for n in SESSIONS {
        let key = key(subject, What::Batch, threads, n);
        let work = Work {
            tokens: (n * STEPS) as f64,
            bytes: 0.0,
            operations: 0.0,
        };
        let (engine, sessions, expected) = (engine.clone(), sessions.clone(), expected.clone());
        let name = key.to_string();
        all.push(Contender::new(key, work, move |watch| {
            let mut sessions = sessions.borrow_mut();
            let sessions = &mut sessions[..n];
            let mut ids: Vec<Vec<u32>> = expected[..n].iter().map(|e| vec![e.0]).collect();
            watch.time(|| -> Result<(), Error> {
                for _ in 0..STEPS {
                    let next = step(&engine, sessions, &ids)?;
                    for (ids, id) in ids.iter_mut().zip(next) {
                        ids.push(id);
                    }
                }
                Ok(())
            })?;
            for ((ids, (_, expected)), session) in ids.iter().zip(&*expected).zip(sessions) {
                session.truncate(CONTEXT);
                check(&name, &ids[1..], &expected[..])?;
            }
            Ok(())
        }));
    }
    Ok(())
}

/// Feeds every session the last of its ids.
fn step(
    engine: &CpuEngine,
    sessions: &mut [Box<dyn Session>],
    ids: &[Vec<u32>],
) -> Result<Vec<u32>, Error> {
    let mut feeds: Vec<Feed<'_>> = sessions
        .iter_mut()
        .zip(ids)
        .map(|(session, ids)| Feed::new(&mut **session, &ids[ids.len() - 1..]))
        .collect();
    engine.step(&mut feeds).map_err(Error::Step)?;
    Ok(feeds
        .iter()
        .map(|feed| feed.next.unwrap_or_default())
        .collect())
}

/// Adds generating an answer and checking it, both from the prompt.
pub(super) fn verifying<'a>(
    subject: &'a Subject,
    threads: NonZeroUsize,
    all: &mut Vec<Contender<'a>>,
) -> Result<(), Error> {
    let engine = CpuEngine::new(subject.model.clone(), Kernels::detect(), threads);
    let prompt = subject.prompt(PROMPT);
    let go_on = &mut |_| ControlFlow::Continue(());
    let mut session = engine.session()?;
    let answer = generate(&mut *session, &prompt, ANSWER, go_on)?;
    let right = Verdict::Right {
        finish: answer.finish,
    };
    check(
        "verify a right answer",
        verify(&mut *session, &prompt, &answer.ids, ANSWER)?,
        right,
    )?;
    let middle = answer.ids.len() / 2;
    let mut altered = answer.ids.clone();
    altered[middle] ^= 1;
    let wrong = Verdict::Wrong {
        index: middle,
        expected: Some(answer.ids[middle]),
        claimed: Some(altered[middle]),
    };
    check(
        "verify a wrong answer",
        verify(&mut *session, &prompt, &altered, ANSWER)?,
        wrong,
    )?;

    let work = Work {
        tokens: answer.ids.len() as f64,
        bytes: 0.0,
        operations: 0.0,
    };
    let (ids, asked) = (answer.ids.clone(), prompt.clone());
    let mut generating = engine.session()?;
    all.push(Contender::new(
        key(subject, What::Generate, threads, ANSWER),
        work,
        move |watch| {
            let go_on = &mut |_| ControlFlow::Continue(());
            let found = watch.time(|| generate(&mut *generating, &asked, ANSWER, go_on))?;
            check("generate", &found.ids, &ids)
        },
    ));
    all.push(Contender::new(
        key(subject, What::Verify, threads, ANSWER),
        work,
        move |watch| {
            let found = watch.time(|| verify(&mut *session, &prompt, &answer.ids, ANSWER))?;
            check("verify", found, right)
        },
    ));
    Ok(())
}

/// Adds hashing a blob file, by the engine's hasher and by a plain one, and loading it, all on the same threads.
pub(super) fn loading<'a>(
    subject: &'a Subject,
    blob: &'a Path,
    threads: NonZeroUsize,
    all: &mut Vec<Contender<'a>>,
) -> Result<(), Error> {
    let (file, len) = subject::open(blob)?;
    let file = Rc::new(file);
    let work = Work {
        tokens: 0.0,
        bytes: len as f64,
        operations: 0.0,
    };
    let expected = subject.model.commitment();
    let unreadable = |error: std::io::Error| Error::File {
        path: blob.to_owned(),
        error,
    };
    let key = |what| key(subject, what, threads, (len / 1_000_000) as usize);
    let source = file.clone();
    all.push(Contender::new(key(What::Hash), work, move |watch| {
        let tree = watch.time(|| {
            let tree = Tree::read(&*source, len, threads, |_| ());
            tree.map(|tree| tree.commitment())
        });
        let found = tree.map_err(|e| unreadable(std::io::Error::new(e.kind, e)))?;
        check("hash", found, expected)
    }));
    let source = file.clone();
    all.push(Contender::new(key(What::HashPlain), work, move |watch| {
        let found = watch.time(|| plain::commitment(&*source, len, threads));
        check("plain hash", found.map_err(unreadable)?, expected)
    }));
    all.push(Contender::new(key(What::Load), work, move |watch| {
        let loader = || Loader::new().pages(Pages::Huge).expect(expected);
        let model = watch.time(|| subject::load(&subject.name, loader(), &*file, len, threads))?;
        check("load", model.commitment(), expected)
    }));
    Ok(())
}
