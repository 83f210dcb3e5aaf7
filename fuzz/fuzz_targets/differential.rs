//! The backends against the reference on random models: any shape, chunking, number of threads, truncation.
#![no_main]

#[path = "../../tests/suite/common/random_blob.rs"]
mod random_blob;

use arbitrary::{Result, Unstructured};
use int_engine::engine::{CpuEngine, Engine, Session, generate};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use libfuzzer_sys::fuzz_target;
use random_blob::{Rng, Shape, Style, build};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What is done to a session, in turn.
enum Step {
    Feed(u8),
    AllLogits(u8),
    Traced(u8),
    Truncate(u8),
    Generate(u8, u8),
    /// A token that is refused, or more tokens than the context.
    Refused(bool),
}

fn any_step(u: &mut Unstructured<'_>) -> Result<Step> {
    Ok(match u.int_in_range(0..=5)? {
        0 => Step::Feed(u.arbitrary()?),
        1 => Step::AllLogits(u.arbitrary()?),
        2 => Step::Traced(u.arbitrary()?),
        3 => Step::Truncate(u.arbitrary()?),
        4 => Step::Generate(u.arbitrary()?, u.arbitrary()?),
        _ => Step::Refused(u.arbitrary()?),
    })
}

struct Case {
    shape: Shape,
    style: Style,
    seed: u64,
    threads: NonZeroUsize,
    steps: Vec<Step>,
}

fn case(u: &mut Unstructured<'_>) -> Result<Case> {
    let kv_heads = u.int_in_range(1..=3)?;
    let vocab = u.int_in_range(1..=40)?;
    let accepted = u.int_in_range(1..=vocab)?;
    let mut stop_ids: Vec<u32> = Vec::new();
    for _ in 0..u.int_in_range(0..=2)? {
        stop_ids.push(u.int_in_range(0..=accepted as u32 - 1)?);
    }
    stop_ids.sort_unstable();
    stop_ids.dedup();
    let shape = Shape {
        // Widths around the lanes and blocks of the kernels, and any other.
        hidden: if u.arbitrary()? {
            *u.choose(&[1, 12, 31, 32, 33, 63, 64, 65, 80, 96])?
        } else {
            u.int_in_range(1..=100)?
        },
        layers: u.int_in_range(1..=2)?,
        heads: kv_heads * u.int_in_range(1..=3)?,
        kv_heads,
        head_dim: 2 * u.int_in_range(1..=17)?,
        intermediate: if u.arbitrary()? {
            *u.choose(&[1, 31, 32, 33, 48, 64, 65, 96, 160])?
        } else {
            u.int_in_range(1..=130)?
        },
        vocab,
        accepted,
        ctx: u.int_in_range(1..=16)?,
        static_scheme: u.arbitrary()?,
        qk_norm: u.arbitrary()?,
        tied: u.arbitrary()?,
        eps: None,
        stop_ids,
        ..Shape::default()
    };
    let style = *u.choose(&[
        Style::Plausible,
        Style::Plausible,
        Style::Extreme,
        Style::Zero,
    ])?;
    let threads = NonZeroUsize::new(*u.choose(&[1, 1, 2, 5])?).expect("not 0");
    let (seed, mut steps) = (u.arbitrary()?, Vec::new());
    while !u.is_empty() && steps.len() < 8 {
        steps.push(any_step(u)?);
    }
    Ok(Case {
        shape,
        style,
        seed,
        threads,
        steps,
    })
}

/// What the reference computes for the tokens fed so far.
struct Expected<'a> {
    model: &'a int_reference::Model,
    /// The cache after each number of tokens, none first.
    caches: Vec<int_reference::Cache>,
    residuals: Vec<Vec<i64>>,
    logits: Vec<Vec<i32>>,
}

impl<'a> Expected<'a> {
    fn new(model: &'a int_reference::Model) -> Self {
        Self {
            model,
            caches: vec![model.new_cache()],
            residuals: vec![],
            logits: vec![],
        }
    }

    fn len(&self) -> usize {
        self.logits.len()
    }

    fn extend(&mut self, tokens: &[u32]) {
        for &token in tokens {
            let mut cache = self.caches[self.len()].clone();
            let x = self.model.step(&mut cache, token);
            self.logits.push(self.model.logits(&x));
            self.residuals.push(x);
            self.caches.push(cache);
        }
    }

    fn truncate(&mut self, len: usize) {
        self.caches.truncate(len + 1);
        self.residuals.truncate(len);
        self.logits.truncate(len);
    }
}

/// Generated ids and why they end.
type Generated = (Vec<u32>, String);

/// A step with what it asks for, drawn once for all backends.
enum Drawn {
    Feed(Vec<u32>),
    AllLogits(Vec<u32>),
    Traced(Vec<u32>),
    Truncate(usize),
    Generate(Vec<u32>, usize, Generated),
    Refused(Vec<u32>),
}

/// Draws the tokens of a step and computes what must follow from it.
fn draw(step: &Step, want: &mut Expected<'_>, rng: &mut Rng) -> Drawn {
    let c = want.model.config();
    let (accepted, context, start) = (c.accepted_ids, c.max_context, want.len());
    let mut next = |length: u8| {
        let length = (usize::from(length) % 7).min(context - start);
        let tokens = rng.tokens(length, accepted);
        want.extend(&tokens);
        tokens
    };
    match *step {
        Step::Feed(length) => Drawn::Feed(next(length)),
        Step::AllLogits(length) => Drawn::AllLogits(next(length)),
        Step::Traced(length) => Drawn::Traced(next(length)),
        Step::Truncate(length) => {
            let length = usize::from(length) % (context + 2);
            want.truncate(length);
            Drawn::Truncate(length)
        }
        Step::Generate(length, new) => {
            let prompt = rng.tokens((usize::from(length) % 6).clamp(1, context), accepted);
            let new = usize::from(new) % 5;
            want.truncate(0);
            let (ids, finish) = want
                .model
                .generate(&prompt, new)
                .expect("an accepted prompt");
            Drawn::Generate(prompt, new, (ids, format!("{finish:?}")))
        }
        Step::Refused(true) => Drawn::Refused(vec![0; context - start + 1]),
        Step::Refused(false) => Drawn::Refused(vec![accepted as u32]),
    }
}

/// Takes the step on a backend and compares.
fn take(drawn: &Drawn, session: &mut dyn Session, want: &Expected<'_>) {
    let (start, last) = (session.position(), session.config().layers());
    let fed = match drawn {
        Drawn::Feed(tokens) | Drawn::AllLogits(tokens) | Drawn::Traced(tokens)
            if tokens.is_empty() =>
        {
            false
        }
        Drawn::Feed(tokens) => {
            session
                .feed(tokens)
                .expect("accepted ids within the context");
            true
        }
        Drawn::AllLogits(tokens) => {
            let mut at = start;
            let sink = &mut |position: usize, logits: &[i32]| {
                assert_eq!(position, at);
                assert_eq!(logits, want.logits[position], "position {position}");
                at += 1;
            };
            session
                .feed_all_logits(tokens, sink)
                .expect("accepted ids within the context");
            assert_eq!(at, start + tokens.len());
            true
        }
        Drawn::Traced(tokens) => {
            let mut seen = 0;
            let sink = &mut |stage: usize, position: usize, x: &[i32]| {
                if stage == last {
                    let residual = &want.residuals[position];
                    let equal = x.iter().map(|&v| i64::from(v)).eq(residual.iter().copied());
                    assert!(equal, "position {position}");
                    seen += 1;
                }
            };
            session
                .feed_traced(tokens, sink)
                .expect("accepted ids within the context");
            assert_eq!(seen, tokens.len());
            true
        }
        Drawn::Truncate(length) => {
            session.truncate(*length);
            false
        }
        Drawn::Generate(prompt, new, expected) => {
            let go_on = &mut |_| ControlFlow::Continue(());
            let found = generate(session, prompt, *new, go_on).expect("an accepted prompt");
            assert_eq!(&(found.ids, format!("{:?}", found.finish)), expected);
            session.reset();
            false
        }
        Drawn::Refused(tokens) => {
            assert!(session.feed(tokens).is_err());
            false
        }
    };
    assert_eq!(session.position(), want.len());
    if fed {
        let expected = want.logits.last().expect("fed");
        assert_eq!(session.logits().expect("fed"), expected);
        assert_eq!(session.greedy(), Some(want.model.argmax(expected)));
    }
}

fuzz_target!(|input: &[u8]| {
    let Ok(case) = case(&mut Unstructured::new(input)) else {
        return;
    };
    let blob = build(&case.shape, case.style, case.seed).bytes;
    let reference = int_reference::Model::from_blob(&blob).expect("a valid blob");
    let model = Arc::new(Model::from_bytes(&blob).expect("a valid blob"));
    let kernels = Kernels::all()
        .into_iter()
        .filter_map(|(_, kernels)| kernels);
    let engines: Vec<CpuEngine> = kernels
        .map(|kernels| CpuEngine::new(Arc::clone(&model), kernels, case.threads))
        .collect();
    let mut sessions: Vec<_> = engines
        .iter()
        .map(|e| e.session().expect("memory"))
        .collect();
    let (mut want, mut rng) = (Expected::new(&reference), Rng(case.seed));
    for step in &case.steps {
        let drawn = draw(step, &mut want, &mut rng);
        for session in &mut sessions {
            take(&drawn, &mut **session, &want);
        }
    }
});
