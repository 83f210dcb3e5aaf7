//! Shared prefixes: sessions with and without them cannot be told apart.

use super::*;
use int_engine::engine::{Batch, Feed, PrefixStats, Verdict, verify};
use int_engine::halt::{Error, Halt};

/// Bytes of a page of the model, its key included.
fn page(model: &Arc<Model>) -> usize {
    let engine = engine(model, Kernels::scalar(), 1).with_prefix_cache(usize::MAX);
    engine.session().unwrap().feed(&tokens(64, 0)).unwrap();
    let stats = engine.prefix_stats().unwrap();
    assert_eq!((stats.pages, stats.hits), (1, 0));
    stats.bytes
}

fn stats(engine: &CpuEngine) -> PrefixStats {
    engine.prefix_stats().expect("a prefix cache")
}

#[test]
fn whole_pages_are_reused_and_the_last_token_is_computed() {
    let model = model(dims());
    let tokens = tokens(256, 0);
    let (_, want) = every(&model, &tokens);
    for engine in engines(&model) {
        assert_eq!(engine.prefix_stats(), None);
        let engine = engine.with_prefix_cache(usize::MAX);
        let mut first = engine.session().unwrap();
        first.feed(&tokens).unwrap();
        assert_eq!(stats(&engine).pages, 4);
        for (len, reused) in [(64, 0), (65, 64), (128, 64), (200, 192), (256, 192)] {
            let before = stats(&engine);
            let mut session = engine.session().unwrap();
            session.feed(&tokens[..len]).unwrap();
            assert_eq!(digest(&mut *session), want[len - 1]);
            assert_eq!(stats(&engine).positions - before.positions, reused);
            assert_eq!(stats(&engine).pages, before.pages, "nothing new");
            // What is shared is never written.
            session.truncate(len - 20);
            session.feed(&[1; 30]).unwrap();
            session.truncate(len - 20);
            session.feed(&tokens[len - 20..len]).unwrap();
            assert_eq!(digest(&mut *session), want[len - 1]);
        }
        // In the middle of a text.
        let mut session = engine.session().unwrap();
        for (held, len, reused) in [(10, 150, 118), (64, 130, 64), (100, 128, 0)] {
            session.reset();
            let prefix = &tokens[..held];
            prefix.iter().for_each(|id| session.feed(&[*id]).unwrap());
            let before = stats(&engine);
            session.feed(&tokens[held..len]).unwrap();
            assert_eq!(session.position(), len);
            assert_eq!(digest(&mut *session), want[len - 1]);
            assert_eq!(stats(&engine).positions - before.positions, reused);
        }
        first.feed(&[3]).unwrap();
        first.truncate(256);
        assert_eq!(first.logits(), None);
    }
}

#[test]
fn every_way_to_feed() {
    let model = model(dims());
    let tokens = tokens(200, 1);
    let (ids, want) = every(&model, &tokens);
    let engine = engine(&model, Kernels::detect(), 2).with_prefix_cache(usize::MAX);
    engine.session().unwrap().feed(&tokens).unwrap();
    let before = stats(&engine);
    let mut session = engine.session().unwrap();
    // Those that show every position compute every position.
    let mut at = 0;
    let all = &mut |position: usize, logits: &[i32]| {
        assert_eq!((position, logits_digest(logits)), (at, want[at]));
        at += 1;
    };
    session.feed_all_logits(&tokens, all).unwrap();
    session.reset();
    let mut traced = 0;
    session
        .feed_traced(&tokens, &mut |_, _, _| traced += 1)
        .unwrap();
    session.reset();
    let mut probed = 0;
    session.feed_probed(&tokens, &mut |_| probed += 1).unwrap();
    assert_eq!((at, traced), (200, 600));
    assert!(probed > 200);
    assert_eq!(digest(&mut *session), want[199]);
    session.reset();
    assert_eq!(stats(&engine), before);
    // Greedy ids from some position on.
    for (from, reused) in [
        (0, 0),
        (63, 0),
        (64, 64),
        (130, 128),
        (199, 192),
        (999, 192),
    ] {
        session.reset();
        let (before, mut next) = (stats(&engine).positions, from);
        let sink = &mut |position: usize, id: u32| {
            assert_eq!((position, id), (next, ids[next]));
            next += 1;
            ControlFlow::Continue(())
        };
        session.feed_greedy(&tokens, from, sink).unwrap();
        assert_eq!(digest(&mut *session), want[199]);
        assert_eq!(stats(&engine).positions - before, reused);
    }
    // Steps of several sessions.
    let mut others = [(); 3].map(|()| engine.session().unwrap());
    let [a, b, c] = &mut others;
    let before = stats(&engine);
    let mut feeds = [
        Feed::new(&mut **a, &tokens),
        Feed::new(&mut **b, &tokens[..70]),
        Feed::new(&mut **c, &[9, 8]),
    ];
    engine.step(&mut feeds).unwrap();
    assert_eq!(
        (feeds[0].next, feeds[1].next),
        (Some(ids[199]), Some(ids[69]))
    );
    assert_eq!(feeds[2].next, Some(every(&model, &[9, 8]).0[1]));
    let after = stats(&engine);
    assert_eq!(
        (after.hits - before.hits, after.positions - before.positions),
        (2, 256)
    );
    let right = answer(&model, &tokens[..150], 20);
    let verdict = verify(&mut **a, &tokens[..150], &right.ids, 20).unwrap();
    let finish = right.finish;
    assert_eq!(verdict, Verdict::Right { finish });
    assert_eq!(stats(&engine).hits, after.hits + 1);
}

#[test]
fn the_bound_holds_and_the_least_used_goes() {
    let model = model(dims());
    let page = page(&model);
    let rows: Vec<_> = (0..5).map(|seed| tokens(193, seed)).collect();
    let want: Vec<_> = rows.iter().map(|row| every(&model, row).1).collect();
    for capacity in [0, page - 1, page, 3 * page, 4 * page + page / 2, 100 * page] {
        let engine = engine(&model, Kernels::detect(), 1).with_prefix_cache(capacity);
        for turn in 0..12 {
            let (row, want) = (&rows[turn * 3 % 5], &want[turn * 3 % 5]);
            let mut session = engine.session().unwrap();
            for (at, len) in [(0, 65), (65, 100), (100, 193)] {
                session.feed(&row[at..len]).unwrap();
                assert_eq!(digest(&mut *session), want[len - 1]);
                assert!(stats(&engine).bytes <= capacity);
            }
        }
        let found = stats(&engine);
        assert_eq!(found.bytes, found.pages * page);
        match capacity / page {
            0 => assert_eq!(found, PrefixStats::default()),
            100 => assert_eq!((found.pages, found.evictions), (15, 0)),
            pages => assert_eq!((found.pages, found.evictions > 0), (pages, true)),
        }
    }
    // Of two texts the one that is used again stays.
    let engine = engine(&model, Kernels::detect(), 1).with_prefix_cache(7 * page);
    let feed = |row: &[u32]| {
        let before = stats(&engine).positions;
        engine.session().unwrap().feed(row).unwrap();
        stats(&engine).positions - before
    };
    assert_eq!([0, 1, 0].map(|i| feed(&rows[i])), [0, 0, 192]);
    assert_eq!(feed(&rows[2]), 0);
    // Row 1 lost two pages for the three of row 2: those at its end.
    assert_eq!([0, 2].map(|i| feed(&rows[i])), [192, 192]);
    assert_eq!(feed(&rows[1]), 64);
}

#[test]
fn a_text_longer_than_the_cache_drives_nothing_out() {
    let model = model(dims());
    let page = page(&model);
    let (short, long) = (tokens(129, 0), tokens(300, 1));
    let want = every(&model, &long).1;
    // Of the four pages of the long text none or one has room.
    for (capacity, kept) in [(2 * page, 0), (3 * page + page / 2, 1)] {
        let engine = engine(&model, Kernels::detect(), 1).with_prefix_cache(capacity);
        let feed = |row: &[u32]| {
            let before = stats(&engine).positions;
            let mut session = engine.session().unwrap();
            session.feed(row).unwrap();
            if row.len() == 300 {
                assert_eq!(digest(&mut *session), want[299]);
            }
            stats(&engine).positions - before
        };
        assert_eq!(
            [&short, &long, &short, &long].map(|row| feed(row)),
            [0, 0, 128, kept * 64]
        );
        let found = stats(&engine);
        assert_eq!((found.pages, found.evictions), (2 + kept as usize, 0));
    }
    // Four pages that are all the cache has take the place of two.
    let engine = engine(&model, Kernels::detect(), 1).with_prefix_cache(4 * page);
    for row in [&short, &long] {
        engine.session().unwrap().feed(row).unwrap();
    }
    assert_eq!((stats(&engine).pages, stats(&engine).evictions), (4, 2));
}

#[test]
fn a_prompt_that_is_fed_in_pieces_is_reused_whole() {
    let model = model(dims());
    let prompt = tokens(200, 2);
    let other = [&prompt[..150], &tokens(50, 3)[..]].concat();
    let (want, want_other) = (answer(&model, &prompt, 5), answer(&model, &other, 5));
    for budget in [1, 8, 63, 500] {
        let engine = engine(&model, Kernels::detect(), 1).with_prefix_cache(usize::MAX);
        let engine = Arc::new(engine);
        let budget = NonZeroUsize::new(budget).unwrap();
        let mut batch = Batch::new(Arc::clone(&engine) as Arc<dyn Engine>, budget);
        // The steps until all answers are there, and the positions that were not computed.
        let mut run = |prompts: &[&[u32]], want: &[&Generation]| {
            let before = stats(&engine).positions;
            let ids: Vec<_> = prompts.iter().map(|p| batch.join(p, 5).unwrap()).collect();
            let (mut answers, mut steps) = (vec![vec![]; ids.len()], 0);
            while !batch.is_empty() {
                steps += 1;
                for report in batch.step().unwrap() {
                    let i = ids.iter().position(|id| *id == report.request).unwrap();
                    answers[i].extend(report.id);
                }
            }
            let want: Vec<_> = want.iter().map(|g| g.ids.clone()).collect();
            assert_eq!(answers, want);
            (steps, stats(&engine).positions - before)
        };
        let whole = 200_usize.div_ceil(budget.get()) + 4;
        assert_eq!(run(&[&prompt], &[&want]), (whole, 0));
        let rest = 8_usize.div_ceil(budget.get()) + 4;
        assert_eq!(run(&[&prompt], &[&want]), (rest, 192));
        let rest = 72_usize.div_ceil(budget.get()) + 4;
        assert_eq!(run(&[&other], &[&want_other]), (rest, 128));
    }
    // Two that join together: the second begins when the first has been computed.
    let engine = Arc::new(engine(&model, Kernels::detect(), 1).with_prefix_cache(usize::MAX));
    let budget = NonZeroUsize::new(8).unwrap();
    let mut batch = Batch::new(Arc::clone(&engine) as Arc<dyn Engine>, budget);
    for _ in 0..2 {
        batch.join(&prompt, 5).unwrap();
    }
    let mut ids = vec![];
    while !batch.is_empty() {
        ids.extend(batch.step().unwrap().iter().filter_map(|report| report.id));
    }
    ids.sort_unstable();
    let mut twice = want.ids.repeat(2);
    twice.sort_unstable();
    assert_eq!((ids, stats(&engine).positions), (twice, 192));
}

#[test]
fn what_is_reused_need_not_be_fed() {
    let model = model(dims());
    let tokens = tokens(256, 2);
    let (ids, want) = every(&model, &tokens);
    let plain = engine(&model, Kernels::detect(), 1);
    let engine = engine(&model, Kernels::detect(), 1).with_prefix_cache(usize::MAX);
    let mut session = plain.session().unwrap();
    assert_eq!(session.reuse(&tokens), Ok(0));
    session = engine.session().unwrap();
    assert_eq!(session.reuse(&tokens), Ok(0));
    session.feed(&tokens).unwrap();
    for (held, len, reused) in [(0, 256, 192), (0, 257, 256), (70, 129, 58), (100, 128, 0)] {
        let mut session = engine.session().unwrap();
        for id in &tokens[..held] {
            session.feed(&[*id]).unwrap();
        }
        let next = [&tokens[held..], &[9]].concat();
        assert_eq!(session.reuse(&next[..len - held]), Ok(reused));
        let at = held + reused;
        let logits = if reused == 0 {
            held.checked_sub(1)
        } else {
            None
        };
        assert_eq!(
            (session.position(), session.greedy()),
            (at, logits.map(|i| ids[i]))
        );
        if at < 256 {
            session.feed(&tokens[at..]).unwrap();
            assert_eq!(digest(&mut *session), want[255]);
        }
    }
    let refused = Halt::ContextExceeded { len: 301, max: 300 };
    let mut session = engine.session().unwrap();
    assert_eq!(session.reuse(&[1; 301]), Err(Error::Halt(refused)));
    assert_eq!(session.reuse(&[]), Err(Error::Halt(Halt::EmptyPrompt)));
    assert_eq!(session.position(), 0);
}

#[test]
fn sessions_of_several_threads() {
    let model = model(dims());
    let page = page(&model);
    let rows: Vec<_> = (0..4)
        .map(|seed| [tokens(128, 0), tokens(80, seed)].concat())
        .collect();
    let want: Vec<_> = rows.iter().map(|row| every(&model, row).1).collect();
    let engine = engine(&model, Kernels::detect(), 2).with_prefix_cache(4 * page);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (engine, rows, want) = (&engine, &rows, &want);
            scope.spawn(move || {
                for turn in 0..12 {
                    let (row, want) = (&rows[(turn + thread) % 4], &want[(turn + thread) % 4]);
                    let mut session = engine.session().unwrap();
                    session.feed(&row[..140]).unwrap();
                    session.feed(&row[140..]).unwrap();
                    assert_eq!(digest(&mut *session), want[207]);
                    session.truncate(130);
                    session.feed(&row[130..150]).unwrap();
                    assert_eq!(digest(&mut *session), want[149]);
                }
            });
        }
    });
    assert!(stats(&engine).hits > 0);
}
