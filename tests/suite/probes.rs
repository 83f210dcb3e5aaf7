//! What the engine computes on its way is what the reference computes, operation by operation (spec 7.10).

#[path = "common/random_blob.rs"]
mod random_blob;

use std::num::NonZeroUsize;
use std::sync::Arc;

use int_engine::engine::{CpuEngine, Engine, Session};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use int_engine::probe::{Op, Probe};
use random_blob::{Rng, Style, build, shapes};

/// (layer, op, values) in the order of one position.
type Seen = Vec<(Option<usize>, &'static str, Vec<i64>)>;

/// Every position's operations up to the last layer, and the head's at the last position.
#[derive(Debug, PartialEq)]
struct Trace {
    positions: Vec<Seen>,
    head: Seen,
}

fn reference(blob: &[u8], tokens: &[u32]) -> Trace {
    let model = int_reference::Model::from_blob(blob).expect("a valid blob");
    let mut cache = model.new_cache();
    let mut residual = Vec::new();
    let step = |&token: &u32| {
        let mut seen = Seen::new();
        residual = model.step_probed(&mut cache, token, &mut |layer, op, values| {
            seen.push((layer, op, values.to_vec()));
        });
        seen
    };
    let positions = tokens.iter().map(step).collect();
    let mut head = Seen::new();
    model.logits_probed(&residual, &mut |layer, op, values| {
        head.push((layer, op, values.to_vec()));
    });
    Trace { positions, head }
}

fn engine(session: &mut dyn Session, tokens: &[u32], chunk: usize) -> Trace {
    let mut positions = vec![Seen::new(); tokens.len()];
    let mut last = None;
    for tokens in tokens.chunks(chunk) {
        session
            .feed_probed(tokens, &mut |p: Probe<'_>| {
                // Layer by layer, positions ascending, operations in order.
                let place = (p.layer, p.position, p.op);
                assert!(
                    last < Some(place) || p.op == Op::Embed,
                    "{place:?} after {last:?}"
                );
                last = Some(place);
                positions[p.position].push((p.layer, p.op.name(), p.values.to_vec()));
            })
            .expect("accepted ids");
    }
    let mut head = Seen::new();
    let logits = session
        .logits_probed(&mut |p: Probe<'_>| {
            assert_eq!((p.position, p.layer), (tokens.len() - 1, None));
            head.push((p.layer, p.op.name(), p.values.to_vec()));
        })
        .expect("memory")
        .expect("a fed session has logits")
        .to_vec();
    assert_eq!(session.logits(), Some(&logits[..]));
    Trace { positions, head }
}

fn assert_equal(context: &str, got: &Trace, want: &Trace) {
    let rows = |t: &Trace| -> Vec<Seen> { t.positions.iter().chain([&t.head]).cloned().collect() };
    for (position, (got, want)) in rows(got).iter().zip(&rows(want)).enumerate() {
        for (got, want) in got.iter().zip(want) {
            let place = format!("{context}, position {position}, {:?} {}", want.0, want.1);
            assert_eq!(got, want, "{place}");
        }
        assert_eq!(got.len(), want.len(), "{context}, position {position}");
    }
    assert_eq!(got, want, "{context}");
}

/// Single tokens, a part of a block, more than a block, and everything at once.
#[test]
fn every_operation_equals_the_reference() {
    for (name, mut shape) in shapes() {
        shape.ctx = 7;
        for style in [Style::Plausible, Style::Extreme, Style::Zero] {
            let blob = build(&shape, style, 11).bytes;
            let tokens = Rng(5).tokens(shape.ctx, shape.accepted);
            let want = reference(&blob, &tokens);
            let model = Arc::new(Model::from_bytes(&blob).expect("a valid blob"));
            for (position, seen) in want.positions.iter().enumerate() {
                for (_, op, values) in seen {
                    let op = Op::from_name(op).expect("an operation of the page");
                    assert_eq!(
                        values.len(),
                        op.len(model.config()),
                        "{name}, {position}, {op}"
                    );
                }
            }
            let layer_ops = Op::ALL
                .iter()
                .filter(|op| op.in_layer() && op.len(model.config()) > 0);
            assert_eq!(
                want.positions[0].len(),
                1 + shape.layers * layer_ops.count()
            );
            assert_eq!(want.head.len(), 5);
            for kernels in Kernels::all()
                .into_iter()
                .filter_map(|(_, kernels)| kernels)
            {
                for threads in [1, 2] {
                    let engine_of = |threads| {
                        let threads = NonZeroUsize::new(threads).expect("a thread");
                        CpuEngine::new(Arc::clone(&model), kernels, threads)
                    };
                    let mut session = engine_of(threads).session().expect("memory");
                    for chunk in [1, 3, tokens.len()] {
                        session.reset();
                        let context = format!(
                            "{name}, {style:?}, {}, {threads} threads, chunks of {chunk}",
                            kernels.name
                        );
                        assert_equal(&context, &engine(&mut *session, &tokens, chunk), &want);
                    }
                }
            }
        }
    }
}

/// More tokens than one block of the lanes holds.
#[test]
fn several_blocks_are_seen() {
    let shape = random_blob::Shape {
        ctx: 250,
        layers: 2,
        qk_norm: true,
        ..Default::default()
    };
    let blob = build(&shape, Style::Plausible, 3).bytes;
    let tokens = Rng(9).tokens(shape.ctx, shape.accepted);
    let want = reference(&blob, &tokens);
    let model = Arc::new(Model::from_bytes(&blob).expect("a valid blob"));
    for threads in [1, 2] {
        let threads = NonZeroUsize::new(threads).expect("a thread");
        let engine_ = CpuEngine::new(Arc::clone(&model), Kernels::detect(), threads);
        let mut session = engine_.session().expect("memory");
        let got = engine(&mut *session, &tokens, tokens.len());
        assert_equal(&format!("{threads} threads"), &got, &want);
    }
}

/// A probed pass refuses what a plain one refuses, shows nothing then, and leaves the same state.
#[test]
fn probing_changes_nothing() {
    let shape = random_blob::Shape::default();
    let model = Arc::new(
        Model::from_bytes(&build(&shape, Style::Plausible, 1).bytes).expect("a valid blob"),
    );
    let engine = CpuEngine::new(model, Kernels::detect(), NonZeroUsize::MIN);
    let mut session = engine.session().expect("memory");
    let nothing = &mut |_: Probe<'_>| panic!("nothing is computed");
    assert_eq!(session.logits_probed(nothing), Ok(None));
    assert_eq!(session.feed_probed(&[], nothing), session.feed(&[]));
    let refused = [1, shape.accepted as u32];
    assert_eq!(
        session.feed_probed(&refused, nothing),
        session.feed(&refused)
    );
    assert_eq!(session.position(), 0);
    session.feed(&[1, 2, 3]).expect("accepted ids");
    let want = session.logits().expect("fed").to_vec();
    session.reset();
    session
        .feed_probed(&[1, 2], &mut |_| {})
        .expect("accepted ids");
    session.feed(&[3]).expect("accepted ids");
    assert_eq!(session.logits(), Some(&want[..]));
}
