//! `Engine::step` and `Batch`: each session as if it were alone.

use super::greedy::Plain;
use super::*;
use int_engine::commitment::Commitment;
use int_engine::engine::{Batch, Feed, Finish, RequestId};
use int_engine::halt::{Error, Fault, Halt, StepError};
use std::collections::BTreeMap;

/// An engine with nothing but what it must bring.
struct PlainEngine(CpuEngine);

impl Engine for PlainEngine {
    fn config(&self) -> &Config {
        self.0.config()
    }
    fn commitment(&self) -> Commitment {
        self.0.commitment()
    }
    fn backend(&self) -> &str {
        "plain"
    }
    fn session(&self) -> Result<Box<dyn Session>, Fault> {
        Ok(Box::new(Plain::new(self.0.session()?)))
    }
}

/// Steps of (session, tokens, greedy) over rows of tokens, a session for each.
fn steps(engine: &dyn Engine, rows: &[Vec<u32>], want: &[(Vec<u32>, Vec<[u8; 32]>)]) {
    let mut sessions: Vec<_> = rows.iter().map(|_| engine.session().unwrap()).collect();
    let mut turn = 0;
    while sessions
        .iter()
        .zip(rows)
        .any(|(s, row)| s.position() < row.len())
    {
        let mut feeds = Vec::new();
        for (i, (session, row)) in sessions.iter_mut().zip(rows).enumerate() {
            let start = session.position();
            let len = [1, 3, 64, 1, 130, 2, 1][(turn + i) % 7].min(row.len() - start);
            // Some sessions sit a step out, and some of these take part with no tokens.
            let (idle, absent) = (start > 0 && (turn + i) % 5 == 0, (turn + i) % 3 == 0);
            if idle && absent {
                continue;
            }
            let mut feed = Feed::new(&mut **session, &row[start..][..if idle { 0 } else { len }]);
            feed.greedy = (turn + i) % 4 != 0;
            feeds.push((i, feed));
        }
        let (who, mut feeds): (Vec<_>, Vec<_>) = feeds.into_iter().unzip();
        engine.step(&mut feeds).unwrap();
        let next: Vec<_> = feeds.iter().map(|f| (f.greedy, f.next)).collect();
        for (i, (greedy, next)) in who.into_iter().zip(next) {
            let session = &mut *sessions[i];
            let last = session.position() - 1;
            let (ids, digests) = &want[i];
            assert_eq!(next, greedy.then(|| ids[last]), "session {i} at {last}");
            if turn % 2 == 0 {
                assert_eq!(session.greedy(), Some(ids[last]));
                assert_eq!(digest(session), digests[last]);
            }
        }
        turn += 1;
    }
}

#[test]
fn a_step_is_the_feeds_of_its_sessions() {
    let model = model(dims());
    let rows: Vec<_> = [200, 1, 65, 131, 7]
        .into_iter()
        .zip(0..)
        .map(|(len, seed)| tokens(len, seed))
        .collect();
    let want: Vec<_> = rows.iter().map(|row| every(&model, row)).collect();
    for engine in engines(&model) {
        steps(&engine, &rows, &want);
    }
    steps(
        &PlainEngine(engine(&model, Kernels::detect(), 2)),
        &rows,
        &want,
    );
}

#[test]
fn a_step_that_is_refused_changes_nothing() {
    let model = model(Dims {
        max_context: 6,
        ..dims()
    });
    let (one, other) = (
        engine(&model, Kernels::detect(), 2),
        engine(&model, Kernels::detect(), 2),
    );
    let mut sessions = [(); 3].map(|()| one.session().unwrap());
    let mut foreign = other.session().unwrap();
    one.step(&mut []).unwrap();
    for session in &mut sessions {
        session.feed(&[1, 2]).unwrap();
    }
    foreign.feed(&[1, 2]).unwrap();
    let before = digest(&mut *foreign);
    let [a, b, c] = &mut sessions;
    let mut run = |tokens: [&[u32]; 3], last: Option<&mut dyn Session>| {
        let last = last.unwrap_or(&mut **c);
        let mut feeds = [
            Feed::new(&mut **a, tokens[0]),
            Feed::new(&mut **b, tokens[1]),
            Feed::new(last, tokens[2]),
        ];
        one.step(&mut feeds)
    };
    let halt = Halt::TokenOutOfRange {
        position: 3,
        id: 120,
        accepted: 120,
    };
    let refused = StepError::Refused { index: 1, halt };
    assert_eq!(run([&[3], &[3, 120], &[3]], None), Err(refused));
    let halt = Halt::ContextExceeded { len: 7, max: 6 };
    let refused = StepError::Refused { index: 2, halt };
    assert_eq!(run([&[3], &[3], &[500; 5]], None), Err(refused));
    let refused = Err(StepError::Foreign { index: 2 });
    assert_eq!(run([&[3], &[3], &[3]], Some(&mut *foreign)), refused);
    let mut plain = Plain::new(one.session().unwrap());
    assert_eq!(run([&[3], &[3], &[3]], Some(&mut plain)), refused);
    for session in sessions.iter_mut().chain([&mut foreign]) {
        assert_eq!((session.position(), digest(&mut **session)), (2, before));
    }
    // An empty first feed.
    let mut fresh = one.session().unwrap();
    let refused = StepError::Refused {
        index: 0,
        halt: Halt::EmptyPrompt,
    };
    let mut feeds = [Feed::new(&mut *fresh, &[])];
    assert_eq!(one.step(&mut feeds), Err(refused.clone()));
    let plain = PlainEngine(engine(&model, Kernels::detect(), 1));
    let (mut fed, mut fresh) = (plain.session().unwrap(), plain.session().unwrap());
    let mut feeds = [Feed::new(&mut *fed, &[1]), Feed::new(&mut *fresh, &[])];
    let refused = StepError::Refused {
        index: 1,
        halt: Halt::EmptyPrompt,
    };
    assert_eq!(plain.step(&mut feeds), Err(refused));
    assert_eq!(fed.position(), 0);
}

#[test]
fn a_truncated_session_without_tokens_has_no_next_id() {
    let model = model(dims());
    let engine = engine(&model, Kernels::detect(), 2);
    let (mut a, mut b) = (engine.session().unwrap(), engine.session().unwrap());
    a.feed(&[1, 2]).unwrap();
    a.truncate(1);
    let mut feeds = [Feed::new(&mut *a, &[]), Feed::new(&mut *b, &[1, 2])];
    engine.step(&mut feeds).unwrap();
    let (none, next) = (feeds[0].next, feeds[1].next);
    assert_eq!(none, None);
    assert_eq!(next, Some(every(&model, &[1, 2]).0[1]));
}

/// Requests that join at given steps.
fn run_batch(
    engine: Arc<dyn Engine>,
    budget: usize,
    requests: &[(usize, Vec<u32>, usize)],
) -> Vec<Generation> {
    let mut batch = Batch::new(engine, NonZeroUsize::new(budget).unwrap());
    let mut answers: BTreeMap<RequestId, (usize, Vec<u32>, Option<Finish>)> = BTreeMap::new();
    let (mut step, mut open) = (0, requests.len());
    while open > 0 {
        for (i, (_, prompt, max_new)) in requests.iter().enumerate().filter(|(_, r)| r.0 == step) {
            let id = batch.join(prompt, *max_new).unwrap();
            assert!(answers.insert(id, (i, vec![], None)).is_none(), "distinct");
        }
        for report in batch.step().unwrap() {
            let (_, ids, finish) = answers.get_mut(&report.request).unwrap();
            assert_eq!(*finish, None, "no report after the last");
            ids.extend(report.id);
            *finish = report.finish;
            open -= usize::from(finish.is_some());
        }
        step += 1;
        assert!(step < 5000, "the batch stands still");
    }
    assert!(batch.is_empty());
    assert_eq!(batch.step().unwrap(), []);
    let mut all: Vec<_> = answers.into_values().collect();
    all.sort_by_key(|a| a.0);
    all.into_iter()
        .map(|(_, ids, finish)| Generation {
            ids,
            finish: finish.unwrap(),
        })
        .collect()
}

#[test]
fn requests_come_and_go() {
    let free = answer(&model(dims()), &tokens(5, 1), 12).ids;
    let model = model(Dims {
        max_context: 150,
        stop_ids: vec![free[6]],
        ..dims()
    });
    let requests: Vec<_> = [
        (0, 100, 20),
        (0, 5, 12),
        (1, 150, 3),
        (1, 149, 9),
        (2, 3, 0),
        (2, 140, 99),
        (7, 1, usize::MAX),
        (40, 64, 30),
    ]
    .into_iter()
    .zip(0..)
    .map(|((step, len, max_new), seed)| (step, tokens(len, seed), max_new))
    .collect();
    let want: Vec<_> = requests
        .iter()
        .map(|(_, prompt, max_new)| answer(&model, prompt, *max_new))
        .collect();
    let finishes: Vec<_> = want.iter().map(|g| g.finish).collect();
    for finish in [Finish::Length, Finish::Stop, Finish::Context] {
        assert!(finishes.contains(&finish), "{finishes:?}");
    }
    for engine in engines(&model) {
        let engine: Arc<dyn Engine> = Arc::new(engine);
        for budget in [1, 2, 7, 128, 1000] {
            let got = run_batch(Arc::clone(&engine), budget, &requests);
            assert_eq!(got, want, "{} budget {budget}", engine.backend());
        }
    }
    let plain = PlainEngine(engine(&model, Kernels::detect(), 2));
    assert_eq!(run_batch(Arc::new(plain), 50, &requests), want);
}

#[test]
fn requests_that_are_refused_or_leave() {
    let model = model(Dims {
        max_context: 20,
        ..dims()
    });
    let engine: Arc<dyn Engine> = Arc::new(engine(&model, Kernels::detect(), 1));
    let mut batch = Batch::new(engine, NonZeroUsize::new(8).unwrap());
    assert_eq!(batch.join(&[], 3), Err(Error::Halt(Halt::EmptyPrompt)));
    let long = Halt::ContextExceeded { len: 21, max: 20 };
    assert_eq!(batch.join(&[0; 21], 3), Err(Error::Halt(long)));
    assert!(batch.join(&[0, 120], 0).is_err());
    assert!(batch.is_empty());
    let (stays, leaves) = (
        batch.join(&[5, 9], 6).unwrap(),
        batch.join(&[7], 6).unwrap(),
    );
    let empty = batch.join(&[1], 0).unwrap();
    let nothing = Generation {
        ids: vec![],
        finish: Finish::Length,
    };
    assert_eq!(
        (batch.leave(empty), batch.leave(empty)),
        (Some(nothing), None)
    );
    for _ in 0..2 {
        assert_eq!(batch.step().unwrap().len(), 2);
    }
    assert_eq!(batch.len(), 2);
    let left = batch.leave(leaves).unwrap();
    assert_eq!(left.finish, Finish::Interrupted);
    assert_eq!(left.ids, answer(&model, &[7], 2).ids);
    let mut ids = answer(&model, &[5, 9], 2).ids;
    while !batch.is_empty() {
        for report in batch.step().unwrap() {
            assert_eq!(report.request, stays);
            ids.extend(report.id);
        }
    }
    assert_eq!(ids, answer(&model, &[5, 9], 6).ids);
    assert_eq!(batch.leave(stays), None);
}
