//! `Session::feed_greedy`: the ids of single steps, and a session that stands where the sink broke off.

use super::*;
use int_engine::engine::{GreedySink, LogitsSink, TraceSink};
use int_engine::halt::{Error, Fault, Halt};
use int_engine::probe::ProbeSink;

/// A session with nothing but what an engine must bring, over one of the CPU.
pub(crate) struct Plain {
    session: Box<dyn Session>,
    fails: Option<Fails>,
}

/// A device that fails for a session: from this position on.
#[derive(Clone, Copy)]
pub(crate) enum Fails {
    Feed(usize),
    Logits(usize),
}

impl Plain {
    pub(crate) fn new(session: Box<dyn Session>) -> Self {
        Self::failing(session, None)
    }

    pub(crate) fn failing(session: Box<dyn Session>, fails: Option<Fails>) -> Self {
        Self { session, fails }
    }

    /// What fails at position `at`, of feeds or of logits.
    fn check(&self, fails: fn(usize) -> Fails, at: usize) -> Result<(), Fault> {
        match (self.fails, fails(at)) {
            (Some(Fails::Feed(from)), Fails::Feed(at))
            | (Some(Fails::Logits(from)), Fails::Logits(at))
                if at >= from =>
            {
                Err(Fault::Device(format!("fails at {from}")))
            }
            _ => Ok(()),
        }
    }
}

impl Session for Plain {
    fn config(&self) -> &Config {
        self.session.config()
    }
    fn position(&self) -> usize {
        self.session.position()
    }
    fn feed(&mut self, tokens: &[u32]) -> Result<(), Error> {
        self.check(Fails::Feed, self.position() + tokens.len())?;
        self.session.feed(tokens)
    }
    fn feed_traced(&mut self, tokens: &[u32], sink: TraceSink<'_>) -> Result<(), Error> {
        self.session.feed_traced(tokens, sink)
    }
    fn feed_probed(&mut self, tokens: &[u32], sink: ProbeSink<'_>) -> Result<(), Error> {
        self.session.feed_probed(tokens, sink)
    }
    fn feed_all_logits(&mut self, tokens: &[u32], sink: LogitsSink<'_>) -> Result<(), Error> {
        self.session.feed_all_logits(tokens, sink)
    }
    fn logits(&mut self) -> Option<&[i32]> {
        self.check(Fails::Logits, self.position()).ok()?;
        self.session.logits()
    }
    fn logits_probed(&mut self, sink: ProbeSink<'_>) -> Result<Option<&[i32]>, Fault> {
        self.check(Fails::Logits, self.position())?;
        self.session.logits_probed(sink)
    }
    fn truncate(&mut self, len: usize) {
        self.session.truncate(len);
    }
}

/// Feeds all but the first `held` tokens and checks every id; the sink breaks off at position `until`.
fn check(
    session: &mut dyn Session,
    tokens: &[u32],
    (held, from, until): (usize, usize, usize),
    (ids, digests): &(Vec<u32>, Vec<[u8; 32]>),
) {
    session.reset();
    if held > 0 {
        session.feed(&tokens[..held]).unwrap();
    }
    let mut at = held + from;
    let sink: GreedySink<'_> = &mut |position, id| {
        assert_eq!((position, id), (at, ids[at]));
        at += 1;
        if position == until {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    session.feed_greedy(&tokens[held..], from, sink).unwrap();
    let seen = until >= held + from && until < tokens.len();
    let end = if seen { until + 1 } else { tokens.len() };
    assert_eq!(session.position(), end);
    assert_eq!(session.greedy(), Some(ids[end - 1]));
    assert_eq!(digest(session), digests[end - 1]);
    assert_eq!(session.greedy(), Some(ids[end - 1]));
    // What was fed and dropped leaves no trace.
    if end < tokens.len() {
        session.feed(&tokens[end..]).unwrap();
        assert_eq!(digest(session), digests[tokens.len() - 1]);
    }
}

#[test]
fn greedy_ids_and_breaking_off() {
    let model = model(dims());
    let tokens = tokens(230, 0);
    let want = every(&model, &tokens);
    for engine in engines(&model) {
        let mut session = engine.session().unwrap();
        for (held, from) in [(0, 0), (0, 100), (0, 229), (70, 0), (63, 129), (1, 228)] {
            for until in [0, 163, 229, 70, 99, 999, 100, 193, 228]
                .into_iter()
                .step_by(STEP)
            {
                check(&mut *session, &tokens, (held, from, until), &want);
            }
        }
    }
    let engine = engine(&model, Kernels::detect(), 2);
    let mut session = Plain::new(engine.session().unwrap());
    for (held, from, until) in [(0, 0, 3), (0, 100, 99), (70, 10, 81), (70, 160, 0)] {
        check(&mut session, &tokens, (held, from, until), &want);
    }
}

#[test]
fn hostile_feeds() {
    let model = model(Dims {
        max_context: 70,
        ..dims()
    });
    let engine = engine(&model, Kernels::detect(), 2);
    let plain: Box<dyn Session> = Box::new(Plain::new(engine.session().unwrap()));
    for mut session in [engine.session().unwrap(), plain] {
        let never: GreedySink<'_> = &mut |_, _| panic!("no id is asked for");
        for from in [0, 9] {
            let refused = session.feed_greedy(&[], from, never);
            assert_eq!(refused, Err(Error::Halt(Halt::EmptyPrompt)));
        }
        session.feed(&tokens(66, 0)).unwrap();
        let before = digest(&mut *session);
        session.feed_greedy(&[], 0, never).unwrap();
        let refused = Halt::TokenOutOfRange {
            position: 67,
            id: 120,
            accepted: 120,
        };
        // Refused though the sink would break off before it.
        let result = session.feed_greedy(&[1, 120, 2], 0, never);
        assert_eq!(result, Err(Error::Halt(refused)));
        let refused = Halt::ContextExceeded { len: 71, max: 70 };
        let result = session.feed_greedy(&[1, 2, 3, 4, 500], 0, never);
        assert_eq!(result, Err(Error::Halt(refused)));
        assert_eq!((session.position(), digest(&mut *session)), (66, before));
        // More is skipped than there is: a plain feed.
        session
            .feed_greedy(&[1, 2, 3, 4], usize::MAX, never)
            .unwrap();
        assert_eq!(session.position(), 70);
        assert!(session.greedy().is_some());
    }
}
