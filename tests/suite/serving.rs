//! Batches, checked answers, drafts and shared prefixes against the reference and against plain sessions, on random
//! models and in random order.

#[path = "common/random_blob.rs"]
mod random_blob;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use int_engine::engine::{
    Batch, CpuEngine, Drafter, Engine, Feed, Finish, Generation, Session, Verdict,
    generate_speculative, verify,
};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use proptest::prelude::*;
use proptest::sample::Index;
use random_blob::{Rng, Shape, Style, build};

fn engine(model: &Arc<Model>, which: Index, threads: usize) -> CpuEngine {
    let here: Vec<&'static Kernels> = Kernels::all().iter().filter_map(|(_, k)| *k).collect();
    let threads = NonZeroUsize::new(threads).expect("at least one thread");
    CpuEngine::new(Arc::clone(model), here[which.index(here.len())], threads)
}

fn threads() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1), Just(2), Just(5)]
}

/// A small model and the same for the reference. Few ids, so that answers repeat themselves and stop ids come up.
fn models() -> impl Strategy<Value = (Arc<Model>, Arc<int_reference::Model>)> {
    let widths = (1usize..=40, 1usize..=50, 1usize..=12);
    let heads = (1usize..=2, 1usize..=2, 1usize..=6);
    let ctx = prop_oneof![1usize..=12, 64usize..=200];
    (widths, heads, any::<[bool; 3]>(), ctx, any::<u64>()).prop_map(
        |((hidden, intermediate, vocab), (group, kv_heads, half), flags, ctx, seed)| {
            let mut rng = Rng(seed);
            let accepted = rng.range(1, vocab as i64) as usize;
            let mut stop_ids = rng.tokens(rng.clone().range(0, 1) as usize, accepted);
            stop_ids.dedup();
            let shape = Shape {
                static_scheme: flags[2],
                hidden,
                layers: 1,
                heads: group * kv_heads,
                kv_heads,
                head_dim: 2 * half,
                intermediate,
                vocab,
                accepted,
                ctx,
                qk_norm: flags[0],
                tied: flags[1],
                eps: None,
                stop_ids,
            };
            let blob = build(&shape, Style::Plausible, seed).bytes;
            let reference = int_reference::Model::from_blob(&blob).expect("a valid blob");
            let model = Model::from_bytes(&blob).expect("a valid blob");
            (Arc::new(model), Arc::new(reference))
        },
    )
}

/// The reference's answer.
fn answer(reference: &int_reference::Model, prompt: &[u32], max_new: usize) -> Generation {
    let (ids, finish) = reference.generate(prompt, max_new).expect("a valid prompt");
    let finish = match finish {
        int_reference::Finish::Length => Finish::Length,
        int_reference::Finish::Stop => Finish::Stop,
        int_reference::Finish::Context => Finish::Context,
    };
    Generation { ids, finish }
}

fn prompt(model: &Model, seed: u64, len: Index) -> Vec<u32> {
    let config = model.config();
    let len = 1 + len.index(config.max_context());
    Rng(seed).tokens(len, config.accepted_ids())
}

/// What is done with one of three sessions, which feed one of three texts that begin alike.
#[derive(Clone, Debug)]
enum Deed {
    Feed(usize),
    Greedy(usize, Index),
    Step(usize),
    Truncate(Index),
    Reset,
    /// Another text from here on.
    Turn(usize),
}

fn deeds() -> impl Strategy<Value = Vec<(usize, Deed)>> {
    let deed = prop_oneof![
        4 => (1usize..=150).prop_map(Deed::Feed),
        2 => ((1usize..=150), any::<Index>()).prop_map(|(n, from)| Deed::Greedy(n, from)),
        2 => (0usize..=100).prop_map(Deed::Step),
        2 => any::<Index>().prop_map(Deed::Truncate),
        1 => Just(Deed::Reset),
        1 => (0usize..3).prop_map(Deed::Turn),
    ];
    proptest::collection::vec((0usize..3, deed), 1..40)
}

/// Does the same on both sides and compares everything that can be seen.
fn compare(deed: &Deed, text: &[u32], engine: &CpuEngine, both: [&mut dyn Session; 2]) {
    let [a, b] = both;
    let rest = &text[a.position().min(text.len())..];
    match deed {
        Deed::Feed(n) => {
            let tokens = &rest[..rest.len().min(*n)];
            assert_eq!(a.feed(tokens), b.feed(tokens));
        }
        Deed::Greedy(n, from) => {
            let tokens = &rest[..rest.len().min(*n)];
            let from = from.index(tokens.len() + 1);
            let mut seen = [vec![], vec![]];
            for (session, seen) in [&mut *a, &mut *b].into_iter().zip(&mut seen) {
                let sink = &mut |position, id| {
                    seen.push((position, id));
                    match id % 5 {
                        0 => ControlFlow::Break(()),
                        _ => ControlFlow::Continue(()),
                    }
                };
                let _ = session.feed_greedy(tokens, from, sink);
            }
            assert_eq!(seen[0], seen[1]);
        }
        Deed::Step(n) => {
            let tokens = &rest[..rest.len().min(*n)];
            let mut feeds = [Feed::new(&mut *a, tokens)];
            let result = engine.step(&mut feeds);
            let next = feeds[0].next;
            assert_eq!(result.is_ok(), b.feed(tokens).is_ok());
            assert_eq!(next, result.is_ok().then(|| b.greedy()).flatten());
        }
        Deed::Truncate(len) => {
            let len = len.index(a.position() + 1);
            a.truncate(len);
            b.truncate(len);
        }
        Deed::Reset => {
            a.reset();
            b.reset();
        }
        Deed::Turn(_) => {}
    }
    assert_eq!(a.position(), b.position());
    assert_eq!(a.greedy(), b.greedy());
    assert_eq!(a.logits(), b.logits());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_answers_as_the_reference(
        (model, reference) in models(),
        backend: Index,
        threads in threads(),
        budget in prop_oneof![1usize..=4, 1usize..=300],
        cache in prop_oneof![Just(0usize), Just(1 << 30)],
        requests in proptest::collection::vec((0usize..12, any::<u64>(), any::<Index>(), 0usize..30), 1..7),
    ) {
        let engine = Arc::new(engine(&model, backend, threads).with_prefix_cache(cache));
        let mut batch = Batch::new(engine, NonZeroUsize::new(budget).unwrap());
        let mut open = Vec::new();
        let mut left = requests.len();
        for step in 0.. {
            for (_, seed, len, max_new) in requests.iter().filter(|r| r.0 == step) {
                // A few texts only, so that prefixes are shared.
                let prompt = prompt(&model, seed % 2, *len);
                let want = answer(&reference, &prompt, *max_new);
                open.push((batch.join(&prompt, *max_new).unwrap(), Vec::new(), want));
            }
            for report in batch.step().unwrap() {
                let i = open.iter().position(|r| r.0 == report.request).expect("an open request");
                open[i].1.extend(report.id);
                if let Some(finish) = report.finish {
                    let (_, ids, want) = open.swap_remove(i);
                    prop_assert_eq!(Generation { ids, finish }, want);
                    left -= 1;
                }
            }
            prop_assert_eq!(batch.len(), open.len());
            if left == 0 {
                break;
            }
        }
    }

    #[test]
    fn answers_are_verified_and_drafted_as_the_reference(
        (model, reference) in models(),
        backend: Index,
        threads in threads(),
        seed: u64,
        len: Index,
        max_new in 0usize..150,
        change: Index,
        with: u32,
        cut: Index,
        history in proptest::collection::vec(0u32..14, 0..60),
    ) {
        let prompt = prompt(&model, seed, len);
        let want = answer(&reference, &prompt, max_new);
        let engine = engine(&model, backend, threads);
        let mut session = engine.session().unwrap();
        let mut drafter = Drafter::new();
        drafter.extend(&history);
        // The second time the answer is among what the drafter has seen.
        for _ in 0..2 {
            let mut seen = Vec::new();
            let on_token = &mut |id| {
                seen.push(id);
                ControlFlow::Continue(())
            };
            let got = generate_speculative(&mut *session, &mut drafter, &prompt, max_new, on_token);
            prop_assert_eq!(got.unwrap(), want.clone());
            prop_assert_eq!(&seen, &want.ids);
        }
        let ids = &want.ids;
        let mut changed = ids.clone();
        if !changed.is_empty() {
            let at = change.index(changed.len());
            changed[at] = with % (2 * model.config().vocab() as u32);
        }
        let longer = [&ids[..], &changed].concat();
        for claim in [&ids[..], &changed, &ids[..cut.index(ids.len() + 1)], &longer] {
            let verdict = verify(&mut *session, &prompt, claim, max_new).unwrap();
            let most = claim.len().max(ids.len());
            let expected = match (0..most).find(|&i| claim.get(i) != ids.get(i)) {
                None => Verdict::Right { finish: want.finish },
                Some(index) => Verdict::Wrong {
                    index,
                    expected: ids.get(index).copied(),
                    claimed: claim.get(index).copied(),
                },
            };
            prop_assert_eq!(verdict, expected);
        }
    }

    #[test]
    fn sessions_with_shared_prefixes_cannot_be_told_apart(
        (model, _) in models(),
        backend: Index,
        threads in threads(),
        capacity in prop_oneof![0usize..200_000, Just(usize::MAX)],
        alike in any::<[Index; 2]>(),
        seed: u64,
        deeds in deeds(),
    ) {
        let (ctx, accepted) = (model.config().max_context(), model.config().accepted_ids());
        let mut rng = Rng(seed);
        let mut texts = vec![rng.tokens(ctx, accepted)];
        for alike in alike {
            // One id more than the context takes.
            let same = alike.index(ctx + 1);
            let own = rng.tokens(ctx + 1 - same, accepted);
            texts.push([&texts[0][..same], &own].concat());
        }
        let plain = engine(&model, backend, threads);
        let shared = engine(&model, backend, threads).with_prefix_cache(capacity);
        let mut sessions = [(); 3].map(|()| (0, shared.session().unwrap(), plain.session().unwrap()));
        for (i, deed) in &deeds {
            let (text, a, b) = &mut sessions[*i];
            if let Deed::Turn(to) = deed {
                *text = *to;
            }
            compare(deed, &texts[*text], &shared, [&mut **a, &mut **b]);
            prop_assert!(shared.prefix_stats().unwrap().bytes <= capacity);
        }
    }
}
