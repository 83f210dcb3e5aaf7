//! The engine against the reference: every backend, several thread counts and chunkings, equal to the last bit.

#[path = "../../int-engine/tests/golden/cases.rs"]
mod cases;
#[path = "common/random_blob.rs"]
mod random_blob;
#[path = "../../int-engine/tests/sample/mod.rs"]
mod sample;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use int_engine::engine::{CpuEngine, Engine, Session, generate};
use int_engine::halt::{Error, Halt};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use proptest::prelude::*;
use random_blob::{Rng, Shape, Style, build, shapes};

/// One engine a backend that this machine has, with the given number of threads.
fn engines(model: &Arc<Model>, threads: usize) -> Vec<CpuEngine> {
    let threads = NonZeroUsize::new(threads).expect("at least one thread");
    Kernels::all()
        .into_iter()
        .filter_map(|(name, kernels)| {
            if kernels.is_none() {
                println!("SKIP {name}: this machine lacks it");
            }
            kernels
        })
        .map(|kernels| CpuEngine::new(Arc::clone(model), kernels, threads))
        .collect()
}

/// Feeds `tokens` in chunks of the given lengths, in turn, and compares the logits of every position.
fn compare_logits(
    context: &str,
    session: &mut dyn Session,
    tokens: &[u32],
    chunks: &[usize],
    want: &[Vec<i32>],
) {
    let (mut at, mut turn) = (0, 0);
    while at < tokens.len() {
        let end = (at + chunks[turn % chunks.len()]).min(tokens.len());
        // Every other chunk takes the path that computes the last position's logits alone.
        if turn % 2 == 0 {
            let mut next = at;
            session
                .feed_all_logits(&tokens[at..end], &mut |position, logits| {
                    assert_eq!(position, next, "{context}");
                    assert_eq!(logits, want[position], "{context}, position {position}");
                    next += 1;
                })
                .unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_eq!(next, end, "{context}");
        } else {
            session
                .feed(&tokens[at..end])
                .unwrap_or_else(|e| panic!("{context}: {e}"));
        }
        assert_eq!(
            session.logits(),
            Some(&want[end - 1][..]),
            "{context}, position {end}"
        );
        (at, turn) = (end, turn + 1);
    }
}

/// A result of either side in one form.
type Outcome = Result<(Vec<u32>, String), String>;

fn reference_outcome(model: &int_reference::Model, prompt: &[u32], max_new: usize) -> Outcome {
    model
        .generate(prompt, max_new)
        .map(|(ids, finish)| (ids, format!("{finish:?}")))
        .map_err(|halt| format!("{halt:?}"))
}

fn engine_outcome(session: &mut dyn Session, prompt: &[u32], max_new: usize) -> Outcome {
    match generate(session, prompt, max_new, &mut |_| ControlFlow::Continue(())) {
        Ok(generation) => Ok((generation.ids, format!("{:?}", generation.finish))),
        Err(Error::Halt(Halt::EmptyPrompt)) => Err("EmptyPrompt".into()),
        Err(Error::Halt(Halt::ContextExceeded { .. })) => Err("ContextExceeded".into()),
        Err(Error::Halt(Halt::TokenOutOfRange { position, id, .. })) => Err(format!(
            "TokenOutOfRange {{ position: {position}, id: {id} }}"
        )),
        Err(Error::Fault(fault)) => panic!("{fault}"),
    }
}

/// Everything that both sides compute from one blob.
fn compare(context: &str, shape: &Shape, style: Style, seed: u64, chunks: &[usize]) {
    let blob = build(shape, style, seed).bytes;
    let reference =
        int_reference::Model::from_blob(&blob).unwrap_or_else(|e| panic!("{context}: {e}"));
    let model = Arc::new(Model::from_bytes(&blob).unwrap_or_else(|e| panic!("{context}: {e}")));
    assert_eq!(
        model.commitment().0,
        int_reference::commitment(&blob),
        "{context}: commitment"
    );
    let mut rng = Rng(seed);
    let tokens = rng.tokens(shape.ctx, shape.accepted);
    let want = reference
        .all_logits(&tokens)
        .expect("accepted ids within the context");
    let prompt = &tokens[..rng.range(1, shape.ctx as i64) as usize];
    let max_new = rng.range(0, 8) as usize;
    let mut refused = tokens.clone();
    refused[rng.range(0, shape.ctx as i64 - 1) as usize] = shape.accepted as u32;
    let too_long = vec![u32::MAX; shape.ctx + 1];
    let prompts = [prompt, &refused, &too_long, &[]];
    let outcomes = prompts.map(|prompt| reference_outcome(&reference, prompt, max_new));
    assert!(
        outcomes[0].is_ok() && outcomes[1..].iter().all(Result::is_err),
        "{context}"
    );
    for threads in [1, 2, 5] {
        for engine in engines(&model, threads) {
            let context = format!("{context}, {}, {threads} threads", engine.backend());
            let mut session = engine.session().expect("memory");
            compare_logits(&context, &mut *session, &tokens, chunks, &want);
            for (prompt, outcome) in prompts.iter().zip(&outcomes) {
                assert_eq!(
                    &engine_outcome(&mut *session, prompt, max_new),
                    outcome,
                    "{context}"
                );
            }
        }
    }
}

/// The known answers of the engine's own test are the reference's.
#[test]
fn known_answers() {
    for case in cases::cases() {
        let model = int_reference::Model::from_blob(&case.blob).unwrap();
        let logits = model.all_logits(&case.tokens).unwrap();
        let digests = logits.iter().map(|l| int_reference::logits_digest(l));
        let digests: Vec<[u8; 32]> = digests.collect();
        assert_eq!(cases::digest(&digests), case.digest, "{}", case.name);
    }
}

#[test]
fn shapes_by_mechanism() {
    for (name, shape) in shapes() {
        for style in [Style::Plausible, Style::Extreme, Style::Zero] {
            for seed in [1, 2] {
                let context = format!("{name}, {style:?}, seed {seed}");
                compare(&context, &shape, style, seed, &[1, 3, 1, 7]);
            }
        }
    }
}

/// Tokens one by one and in runs over the borders of pages of keys.
#[test]
fn single_tokens_over_pages() {
    for (head_dim, group, kv_heads) in [(6, 1, 3), (18, 5, 1), (64, 8, 1), (256, 2, 1), (10, 3, 2)]
    {
        let shape = Shape {
            layers: 2,
            ctx: 135,
            heads: group * kv_heads,
            kv_heads,
            head_dim,
            qk_norm: group != 5,
            ..Shape::default()
        };
        let context = format!("{kv_heads} x {group} heads of {head_dim}");
        let chunks = [62, 1, 1, 1, 61, 1, 1, 1];
        compare(&context, &shape, Style::Plausible, 4, &chunks);
    }
}

/// More than one block of tokens and more keys than any backend adds up in int32 (512).
#[test]
fn a_long_context() {
    let shape = Shape {
        layers: 1,
        ctx: 600,
        ..Shape::default()
    };
    for (style, qk_norm) in [(Style::Plausible, true), (Style::Extreme, false)] {
        let shape = Shape {
            qk_norm,
            ..shape.clone()
        };
        compare(&format!("long, {style:?}"), &shape, style, 3, &[97, 1, 400]);
    }
}

/// A shape within small limits, every field free.
fn any_shape() -> impl Strategy<Value = Shape> {
    let widths = (1usize..=130, 1usize..=130, 1usize..=40);
    let heads = (1usize..=3, 1usize..=3, 1usize..=20);
    (
        widths,
        heads,
        1usize..=2,
        any::<[bool; 3]>(),
        1usize..=40,
        any::<u64>(),
    )
        .prop_map(
            |((hidden, intermediate, vocab), (group, kv_heads, half), layers, flags, ctx, seed)| {
                let mut rng = Rng(seed);
                let accepted = rng.range(1, vocab as i64) as usize;
                let mut stop_ids = rng.tokens(rng.clone().range(0, 2) as usize, accepted);
                stop_ids.sort_unstable();
                stop_ids.dedup();
                Shape {
                    static_scheme: flags[2],
                    hidden,
                    layers,
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
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_small_model(
        shape in any_shape(),
        extreme: bool,
        seed: u64,
        chunks in proptest::collection::vec(1usize..=33, 1..4),
    ) {
        let style = if extreme { Style::Extreme } else { Style::Plausible };
        compare(&format!("{shape:?}, {style:?}, seed {seed}, {chunks:?}"), &shape, style, seed, &chunks);
    }
}
