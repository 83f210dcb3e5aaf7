//! Every reservation of memory fails once: always a fault, never a panic, and nothing is lost.

#[path = "../tests/small/mod.rs"]
pub(crate) mod small;

use self::small::{backends, blob, dims, engine, model, tokens};
use crate::blob::{LoadError, Loader};
use crate::config::Dims;
use crate::engine::{
    Batch, CpuEngine, Drafter, Engine, Feed, Finish, Generation, Session, continue_greedy,
    generate, generate_speculative, logits_digest, verify,
};
use crate::halt::{Error, Fault, StepError, lack};
use crate::kernels::Kernels;
use crate::model::Model;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

type GoOn<'a> = &'a mut dyn FnMut(u32) -> ControlFlow<()>;

fn tiny_dims() -> Dims {
    Dims {
        hidden: 12,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 4,
        intermediate: 20,
        ..dims()
    }
}

fn tiny() -> Arc<Model> {
    model(tiny_dims())
}

fn small_engine(model: &Arc<Model>) -> CpuEngine {
    engine(model, Kernels::detect(), 2).with_prefix_cache(usize::MAX)
}

fn digest(session: &mut dyn Session) -> [u8; 32] {
    logits_digest(session.logits().expect("logits"))
}

fn answer(model: &Arc<Model>, prompt: &[u32], max_new: usize) -> Generation {
    let mut session = small_engine(model).session().unwrap();
    generate(&mut *session, prompt, max_new, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap()
}

/// Calls `f(n)` with n from 0 on, in which the n-th reservation fails, until there are none left; `f` is given whether
/// there was one.
fn each(mut f: impl FnMut(usize) -> bool) {
    let count = (0..).find(|&n| !f(n)).unwrap_or(0);
    assert!(count > 0, "nothing was reserved");
}

/// Ways to feed tokens.
type Way = fn(&mut dyn Session, &[u32]) -> Result<(), Error>;

#[test]
fn sessions() {
    let ways: [(&str, Way); 7] = [
        ("feed", |s, t| s.feed(t)),
        ("traced", |s, t| s.feed_traced(t, &mut |_, _, _| {})),
        ("probed", |s, t| s.feed_probed(t, &mut |_| {})),
        ("logits", |s, t| s.feed_all_logits(t, &mut |_, _| {})),
        ("greedy", |s, t| {
            s.feed_greedy(t, 100, &mut |_, _| ControlFlow::Continue(()))
        }),
        ("next", |s, t| {
            s.feed(t)?;
            assert!(s.try_greedy()?.is_some());
            Ok(())
        }),
        ("reuse", |s, t| {
            let reused = s.reuse(t)?;
            s.feed(&t[reused..])
        }),
    ];
    let model = tiny();
    let all = tokens(230, 0);
    let mut other = all[..150].to_vec();
    other.extend(tokens(80, 1));
    let want = {
        let mut session = engine(&model, Kernels::scalar(), 1).session().unwrap();
        session.feed(&all).unwrap();
        digest(&mut *session)
    };
    for (name, way) in ways {
        for shared in [false, true] {
            each(|n| {
                let engine = small_engine(&model);
                if shared {
                    engine.session().unwrap().feed(&other).unwrap();
                }
                let mut session = engine.session().unwrap();
                session.feed(&all[..10]).unwrap();
                let (result, struck) = lack::after(n, || way(&mut *session, &all[10..]));
                if !struck {
                    result.unwrap();
                } else {
                    let context = format!("{name} {n} {result:?}");
                    assert!(
                        matches!(result, Err(Error::Fault(Fault::OutOfMemory { .. }))),
                        "{context}"
                    );
                    // As it was, or fed before what failed.
                    let at = session.position();
                    match name {
                        "next" => assert!([10, 230].contains(&at), "{context}"),
                        "reuse" => assert!([10, 128].contains(&at), "{context}"),
                        _ => {
                            assert_eq!(at, 10, "{context}");
                            assert!(session.logits().is_some());
                        }
                    }
                    session.feed(&all[at..]).unwrap();
                }
                assert_eq!(digest(&mut *session), want, "{name} {n}");
                struck
            });
        }
    }
}

#[test]
fn generations() {
    let model = tiny();
    let prompt = tokens(70, 0);
    let want = answer(&model, &prompt, 20);
    type Way = fn(&mut dyn Session, &[u32], &Generation) -> Result<(), Error>;
    // The last one begins with a fed session.
    let ways: [Way; 4] = [
        |s, prompt, want| {
            let go_on: GoOn<'_> = &mut |_| ControlFlow::Continue(());
            assert_eq!(&generate(s, prompt, 20, go_on)?, want);
            Ok(())
        },
        |s, prompt, want| {
            let (go_on, drafter): (GoOn<'_>, _) =
                (&mut |_| ControlFlow::Continue(()), &mut Drafter::new());
            let got = generate_speculative(s, drafter, prompt, 20, go_on)?;
            assert_eq!(&got, want);
            Ok(())
        },
        |s, prompt, want| verify(s, prompt, &want.ids, 20).map(|_| ()),
        |s, _, want| {
            let go_on: GoOn<'_> = &mut |_| ControlFlow::Continue(());
            assert_eq!(&continue_greedy(s, 20, go_on)?, want);
            Ok(())
        },
    ];
    for (i, way) in ways.into_iter().enumerate() {
        each(|n| {
            let mut session = small_engine(&model).session().unwrap();
            if i == 3 {
                session.feed(&prompt).unwrap();
            }
            let (result, struck) = lack::after(n, || way(&mut *session, &prompt, &want));
            let fault = matches!(result, Err(Error::Fault(Fault::OutOfMemory { .. })));
            assert_eq!(fault, struck, "{n} {result:?}");
            session.reset();
            session.feed(&prompt).unwrap();
            way(&mut *session, &prompt, &want).unwrap();
            struck
        });
    }
}

#[test]
fn steps() {
    let model = tiny();
    let rows = [200, 5, 90].map(|len| tokens(len, len as u32));
    let want = rows.each_ref().map(|row| answer(&model, row, 1).ids);
    let mut blamed = BTreeSet::new();
    for kernels in backends() {
        each(|n| {
            let engine = engine(&model, kernels, 2);
            let mut sessions = [(); 3].map(|()| engine.session().unwrap());
            let mut step = |n| {
                let mut feeds: Vec<_> = sessions
                    .iter_mut()
                    .zip(&rows)
                    .map(|(session, row)| {
                        let start = session.position();
                        Feed::new(&mut **session, &row[start..])
                    })
                    .collect();
                let (result, struck) = lack::after(n, || engine.step(&mut feeds));
                let next: Vec<_> = feeds.iter().map(|feed| feed.next).collect();
                (result, struck, next)
            };
            let (result, struck, _) = step(n);
            match result {
                Ok(()) => assert!(!struck),
                Err(StepError::Fault { index, .. }) => {
                    blamed.insert(index);
                    let (result, _, next) = step(usize::MAX);
                    result.unwrap();
                    for (next, want) in next.iter().zip(&want) {
                        assert_eq!(next.as_ref(), want.first());
                    }
                }
                Err(other) => panic!("{other}"),
            }
            for (session, row) in sessions.iter().zip(&rows) {
                assert_eq!(session.position(), row.len());
            }
            struck
        });
    }
    assert_eq!(blamed, BTreeSet::from([None, Some(0), Some(1), Some(2)]));
}

#[test]
fn batches() {
    let model = tiny();
    let prompts = [200, 5, 90].map(|len| tokens(len, len as u32));
    let want = prompts.each_ref().map(|p| answer(&model, p, 6));
    let (mut left, mut common) = (0, 0);
    for budget in [8, 1000] {
        each(|n| {
            let engine: Arc<dyn Engine> = Arc::new(small_engine(&model));
            let mut batch = Batch::new(engine, NonZeroUsize::new(budget).unwrap());
            let ids = prompts.each_ref().map(|p| batch.join(p, 6).unwrap());
            let mut got: BTreeMap<_, (Vec<u32>, Option<Finish>)> = BTreeMap::new();
            let ((), struck) = lack::after(n, || {
                while !batch.is_empty() {
                    let Ok(reports) = batch.step() else {
                        common += 1;
                        continue;
                    };
                    for report in reports {
                        let (ids, finish) = got.entry(report.request).or_default();
                        ids.extend(report.id);
                        *finish = report.finish;
                        left += usize::from(report.fault.is_some());
                    }
                }
            });
            let mut whole = 0;
            for (id, want) in ids.iter().zip(&want) {
                let (ids, finish) = &got[id];
                match finish {
                    Some(Finish::Interrupted) => assert!(want.ids.starts_with(ids)),
                    _ => {
                        whole += 1;
                        assert_eq!((ids, *finish), (&want.ids, Some(want.finish)));
                    }
                }
            }
            assert!(whole >= if struck { 2 } else { 3 }, "{budget} {n}");
            struck
        });
    }
    assert!(left > 0 && common > 0, "{left} {common}");
}

#[test]
fn loads() {
    // Constants in more than one piece, and metadata.
    let bytes = blob(Dims {
        vocab: 20_000,
        ..tiny_dims()
    });
    let len = bytes.len() as u64;
    let push = |size: usize| {
        let mut loader = Loader::new();
        let pushed = bytes.chunks(size).try_for_each(|piece| loader.push(piece));
        match pushed {
            Ok(()) => loader.finish(),
            Err(error) => {
                assert_eq!(loader.push(&[0]), Err(error.clone()));
                assert_eq!(loader.finish().unwrap_err(), error);
                Err(error)
            }
        }
    };
    let load = || {
        let one = NonZeroUsize::MIN;
        Loader::new()
            .chunks_at_a_time(one)
            .load(&bytes[..], len, one, |_| {})
    };
    let want = push(bytes.len()).unwrap();
    let ways: [&dyn Fn() -> Result<Model, LoadError>; 3] =
        [&|| push(bytes.len()), &|| push(50_000), &load];
    for way in ways {
        each(|n| {
            let (result, struck) = lack::after(n, way);
            match result {
                Ok(model) => assert!(!struck && model == want, "{n}"),
                Err(error) => {
                    let fault = matches!(error, LoadError::Fault(Fault::OutOfMemory { .. }));
                    assert!(struck && fault, "{n} {error}");
                }
            }
            struck
        });
    }
}
