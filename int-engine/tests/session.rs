//! Sessions: the same logits for every backend, thread count and chunking, and the contract of each call.

mod small;

use std::ops::ControlFlow;
use std::sync::Arc;

use int_engine::config::{Dims, Scheme};
use int_engine::engine::{
    CpuEngine, Engine, Finish, Session, argmax, continue_greedy, generate, logits_digest,
};
use int_engine::halt::{Error, Halt};
use int_engine::kernels::Kernels;
use small::{backends, dims, engine, model, tokens};

/// Digests of every position, fed whole.
fn digests(engine: &CpuEngine, tokens: &[u32]) -> Vec<[u8; 32]> {
    let mut all = Vec::new();
    let mut session = engine.session().unwrap();
    session
        .feed_all_logits(tokens, &mut |position, logits| {
            assert_eq!(position, all.len());
            all.push(logits_digest(logits));
        })
        .unwrap();
    assert_eq!(
        logits_digest(session.logits().unwrap()),
        *all.last().unwrap()
    );
    all
}

/// One token takes a way of its own through attention, a probed one another: all shapes of heads, over borders of pages.
#[test]
fn a_token_alone_is_as_in_a_run() {
    for (heads, kv_heads, head_dim) in [(3, 3, 18), (2, 1, 6), (5, 1, 10), (8, 4, 4), (12, 2, 64)] {
        let model = model(Dims {
            heads,
            kv_heads,
            head_dim,
            qk_norm: head_dim > 10,
            ..dims()
        });
        let tokens = tokens(131, 2);
        let want = digests(&engine(&model, Kernels::scalar(), 1), &tokens);
        for kernels in backends() {
            for threads in [1, 3] {
                let engine = engine(&model, kernels, threads);
                for probed in [false, true] {
                    let mut session = engine.session().unwrap();
                    for (i, (token, want)) in tokens.iter().zip(&want).enumerate() {
                        // Probed, every third: the others read what it wrote, and it what they wrote.
                        if probed && i % 3 == 0 {
                            session.feed_probed(&[*token], &mut |_| ()).unwrap();
                        } else {
                            session.feed(&[*token]).unwrap();
                        }
                        let found = logits_digest(session.logits().unwrap());
                        assert_eq!(
                            found, *want,
                            "{} {heads} {kv_heads} {head_dim} {threads} {probed} {i}",
                            kernels.name
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn logits_do_not_depend_on_backend_threads_or_chunks() {
    for (qk_norm, scheme) in [
        (false, Scheme::Dynamic),
        (true, Scheme::Dynamic),
        (true, Scheme::Static),
    ] {
        let model = model(Dims {
            scheme,
            qk_norm,
            tied: !qk_norm,
            ..dims()
        });
        // Two lanes of 96 tokens and a rest, with two threads.
        let tokens = tokens(230, 0);
        let want = digests(&engine(&model, Kernels::scalar(), 1), &tokens);
        assert!(want.windows(2).all(|w| w[0] != w[1]), "positions differ");
        for kernels in backends() {
            for threads in [1, 2, 5] {
                let engine = engine(&model, kernels, threads);
                assert_eq!(engine.backend(), kernels.name);
                assert_eq!(
                    digests(&engine, &tokens),
                    want,
                    "{} whole, {threads} threads",
                    kernels.name
                );
                for chunk in [1, 3, 64, 97, tokens.len()] {
                    let mut session = engine.session().unwrap();
                    for (i, ids) in tokens.chunks(chunk).enumerate() {
                        session.feed(ids).unwrap();
                        let position = i * chunk + ids.len();
                        assert_eq!(session.position(), position);
                        assert_eq!(
                            logits_digest(session.logits().unwrap()),
                            want[position - 1],
                            "{}, {threads} threads, chunks of {chunk}, position {position}",
                            kernels.name
                        );
                    }
                    if chunk > 1 {
                        let mut at = 0;
                        session.reset();
                        for ids in tokens.chunks(chunk) {
                            session
                                .feed_all_logits(ids, &mut |position, logits| {
                                    assert_eq!((position, logits_digest(logits)), (at, want[at]));
                                    at += 1;
                                })
                                .unwrap();
                        }
                        assert_eq!(at, tokens.len());
                    }
                }
            }
        }
    }
}

#[test]
fn truncated_sessions_continue_like_fresh_ones() {
    let model = model(dims());
    let engine = engine(&model, Kernels::detect(), 2);
    let tokens = tokens(100, 0);
    let want = digests(&engine, &tokens);
    let mut session = engine.session().unwrap();
    assert_eq!(session.logits(), None);
    assert_eq!(session.greedy(), None);
    session.feed(&tokens).unwrap();
    for len in [200, 100] {
        session.truncate(len);
        assert_eq!(
            (session.position(), session.logits().is_some()),
            (100, true)
        );
    }
    for len in [70, 64, 1, 0] {
        session.truncate(len);
        assert_eq!((session.position(), session.logits()), (len, None));
        session.feed(&tokens[len..80]).unwrap();
        assert_eq!(logits_digest(session.logits().unwrap()), want[79]);
    }
    session.feed(&[]).unwrap();
    assert_eq!(
        logits_digest(session.logits().unwrap()),
        want[79],
        "no tokens change nothing"
    );
    // Other tokens than those cut off, so that no key or value of them may remain.
    for len in [70, 64, 1, 0] {
        let other: Vec<u32> = tokens[len..].iter().map(|id| (id + 1) % 120).collect();
        let mut fresh = engine.session().unwrap();
        fresh.feed(&[&tokens[..len], &other].concat()).unwrap();
        session.truncate(0);
        session.feed(&tokens).unwrap();
        session.truncate(len);
        session.feed(&other).unwrap();
        assert_eq!(session.logits(), fresh.logits(), "cut at {len}");
        assert_ne!(logits_digest(fresh.logits().unwrap()), want[99]);
    }
}

#[test]
fn traces_do_not_depend_on_threads() {
    let model = model(dims());
    let tokens = tokens(11, 0);
    let trace = |threads| {
        let engine = engine(&model, Kernels::detect(), threads);
        let mut seen = Vec::new();
        let mut session = engine.session().unwrap();
        session
            .feed_traced(&tokens, &mut |stage, position, x| {
                seen.push((stage, position, x.to_vec()))
            })
            .unwrap();
        seen
    };
    let seen = trace(1);
    let order: Vec<_> = (0..3)
        .flat_map(|stage| (0..11).map(move |position| (stage, position)))
        .collect();
    assert_eq!(seen.iter().map(|s| (s.0, s.1)).collect::<Vec<_>>(), order);
    assert!(seen.iter().all(|s| s.2.len() == 60));
    assert_eq!(seen, trace(4));
}

#[test]
fn refused_input_changes_nothing() {
    let model = model(Dims {
        max_context: 5,
        ..dims()
    });
    let engine = engine(&model, Kernels::detect(), 1);
    let mut session = engine.session().unwrap();
    assert_eq!(session.feed(&[]), Err(Error::Halt(Halt::EmptyPrompt)));
    session.feed(&[1, 2, 3]).unwrap();
    let before = logits_digest(session.logits().unwrap());
    let out_of_range = |position, id| {
        Err(Error::Halt(Halt::TokenOutOfRange {
            position,
            id,
            accepted: 120,
        }))
    };
    assert_eq!(session.feed(&[1, 120]), out_of_range(4, 120));
    assert_eq!(
        session.feed_all_logits(&[130], &mut |_, _| panic!("no logits")),
        out_of_range(3, 130)
    );
    assert_eq!(
        session.feed_traced(&[u32::MAX], &mut |_, _, _| panic!("no trace")),
        out_of_range(3, u32::MAX)
    );
    // The length is checked before the ids.
    assert_eq!(
        session.feed(&[0, 0, 999]),
        Err(Error::Halt(Halt::ContextExceeded { len: 6, max: 5 }))
    );
    assert_eq!(
        (session.position(), logits_digest(session.logits().unwrap())),
        (3, before)
    );
    session.feed(&[119, 0]).unwrap();
    assert_eq!(
        session.feed(&[0]),
        Err(Error::Halt(Halt::ContextExceeded { len: 6, max: 5 }))
    );
}

#[test]
fn generation_ends_as_specified() {
    let run = |dims: Dims, prompt: &[u32], max_new, stop_after: usize| {
        let model = model(dims);
        let engine = engine(&model, Kernels::detect(), 1);
        let mut session = engine.session().unwrap();
        let mut seen = Vec::new();
        let result = generate(&mut *session, prompt, max_new, &mut |id| {
            seen.push(id);
            if seen.len() == stop_after {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if let Ok(g) = &result {
            assert_eq!(g.ids, seen);
        }
        result.map(|g| (g.ids, g.finish))
    };
    let (free, finish) = run(dims(), &[5, 9], 8, 99).unwrap();
    assert_eq!((free.len(), finish), (8, Finish::Length));
    // By hand: argmax of the accepted ids, fed back.
    let model = model(dims());
    let engine = engine(&model, Kernels::scalar(), 1);
    let mut session = engine.session().unwrap();
    session.feed(&[5, 9]).unwrap();
    for &id in &free {
        assert_eq!(argmax(&session.logits().unwrap()[..120]), id);
        session.feed(&[id]).unwrap();
    }
    assert_eq!(
        run(dims(), &[5, 9], 0, 99).unwrap(),
        (vec![], Finish::Length)
    );
    assert_eq!(
        run(dims(), &[5, 9], 8, 3).unwrap(),
        (free[..3].to_vec(), Finish::Interrupted)
    );
    let first = free.iter().position(|id| *id == free[4]).unwrap();
    let stop = run(
        Dims {
            stop_ids: vec![free[4]],
            ..dims()
        },
        &[5, 9],
        8,
        99,
    )
    .unwrap();
    assert_eq!(stop, (free[..=first].to_vec(), Finish::Stop));
    let short = |max_context| Dims {
        max_context,
        ..dims()
    };
    assert_eq!(
        run(short(6), &[5, 9], 8, 99).unwrap(),
        (free[..4].to_vec(), Finish::Context)
    );
    assert_eq!(
        run(short(6), &[5, 9], 4, 99).unwrap(),
        (free[..4].to_vec(), Finish::Length)
    );
    assert_eq!(
        run(short(2), &[5, 9], 8, 99).unwrap(),
        (vec![], Finish::Context)
    );
    assert_eq!(run(dims(), &[], 8, 99), Err(Error::Halt(Halt::EmptyPrompt)));
    assert_eq!(
        run(short(2), &[5, 9, 500], 0, 99),
        Err(Error::Halt(Halt::ContextExceeded { len: 3, max: 2 }))
    );
    let refused = Halt::TokenOutOfRange {
        position: 1,
        id: 120,
        accepted: 120,
    };
    assert_eq!(run(dims(), &[5, 120], 0, 99), Err(Error::Halt(refused)));
}

/// Receives ids as they are generated.
type OnToken<'a> = &'a mut dyn FnMut(u32) -> ControlFlow<()>;

#[test]
fn a_fed_session_continues_like_generate() {
    let free = {
        let model = model(dims());
        let mut session = engine(&model, Kernels::scalar(), 1).session().unwrap();
        let go_on = &mut |_| ControlFlow::Continue(());
        generate(&mut *session, &[5, 9, 7], 8, go_on).unwrap().ids
    };
    for (max_context, stop_ids) in [
        (300, vec![]),
        (300, vec![free[3]]),
        (6, vec![]),
        (3, vec![]),
    ] {
        let model = model(Dims {
            max_context,
            stop_ids,
            ..dims()
        });
        let engine = engine(&model, Kernels::detect(), 2);
        for max_new in [0, 1, 3, 4, 8] {
            for stop_after in [2, 99] {
                let run = |f: &mut dyn FnMut(OnToken<'_>)| {
                    let mut left = stop_after;
                    f(&mut |_| {
                        left -= 1;
                        if left == 0 {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        }
                    });
                };
                let mut session = engine.session().unwrap();
                let mut want = None;
                run(&mut |on_token| {
                    want = generate(&mut *session, &[5, 9, 7], max_new, on_token).ok();
                });
                let want = want.unwrap();
                // The prompt in chunks, and after a longer conversation that was cut.
                for cut in [0, 2] {
                    session.truncate(cut);
                    for id in &[5, 9, 7][cut..] {
                        session.feed(&[*id]).unwrap();
                    }
                    let mut got = None;
                    run(&mut |on_token| {
                        got = continue_greedy(&mut *session, max_new, on_token).ok();
                    });
                    let got = got.unwrap();
                    assert_eq!(got, want, "{max_context} {max_new} {stop_after}");
                    // All but the last id are in the session.
                    let fed = got.ids.len().saturating_sub(1);
                    assert_eq!(session.position(), 3 + fed);
                }
            }
        }
    }
}

#[test]
fn the_next_turn_of_a_conversation_needs_no_second_prefill() {
    let model = model(dims());
    let engine = engine(&model, Kernels::detect(), 1);
    let go_on = &mut |_| ControlFlow::Continue(());
    let mut session = engine.session().unwrap();
    assert_eq!(
        continue_greedy(&mut *session, 4, go_on),
        Err(Error::Halt(Halt::EmptyPrompt))
    );
    session.feed(&[5, 9]).unwrap();
    let first = continue_greedy(&mut *session, 4, go_on).unwrap().ids;
    session.feed(&[first[3], 17, 3]).unwrap();
    let second = continue_greedy(&mut *session, 4, go_on).unwrap();
    let mut fresh = engine.session().unwrap();
    let whole = [&[5, 9][..], &first, &[17, 3]].concat();
    assert_eq!(generate(&mut *fresh, &whole, 4, go_on), Ok(second));
}

#[test]
#[should_panic(expected = "a fed session has logits")]
fn a_cut_session_is_fed_before_it_continues() {
    let model = model(dims());
    let mut session = engine(&model, Kernels::scalar(), 1).session().unwrap();
    session.feed(&[5, 9]).unwrap();
    session.truncate(1);
    let _ = continue_greedy(&mut *session, 1, &mut |_| ControlFlow::Continue(()));
}

#[test]
fn engines_and_sessions_cross_threads() {
    fn shared<T: Send + Sync + ?Sized>(_: &T) {}
    let model = model(dims());
    let engine: Arc<dyn Engine> = Arc::new(engine(&model, Kernels::detect(), 2));
    shared(&*engine);
    let tokens = tokens(40, 0);
    let want = {
        let mut session = engine.session().unwrap();
        session.feed(&tokens).unwrap();
        logits_digest(session.logits().unwrap())
    };
    let sessions: Vec<Box<dyn Session>> = (0..3).map(|_| engine.session().unwrap()).collect();
    assert_eq!(engine.commitment(), model.commitment());
    drop(engine);
    std::thread::scope(|scope| {
        for mut session in sessions {
            let tokens = &tokens;
            scope.spawn(move || {
                for id in tokens {
                    session.feed(&[*id]).unwrap();
                }
                assert_eq!(logits_digest(session.logits().unwrap()), want);
            });
        }
    });
}
