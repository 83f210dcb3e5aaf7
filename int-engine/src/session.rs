//! The CPU session: prefill, decode and logits over one KV cache (spec 3.3, 3.4).

mod attend;
mod cache;
mod head;
mod heads;
mod pass;
mod plan;

use std::sync::Arc;

use self::attend::grow;
use self::cache::KvCache;
use self::pass::{PASS_TOKENS, Pass, Run, Trace};
pub(crate) use self::plan::Plan;
use crate::config::Config;
use crate::engine::{LogitsSink, Session, TraceSink, check_tokens};
use crate::halt::{Error, Fault};
use crate::probe::{Op, ProbeSink};

/// Tokens that share one pass over the head when every position's logits are wanted.
const HEAD_TOKENS: usize = 16;

/// What the last residual row has been turned into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Last {
    /// Nothing fed, or forgotten.
    None,
    /// The row itself.
    Residual,
    /// The row and its logits.
    Logits,
}

/// A session of [`crate::engine::CpuEngine`].
#[derive(Debug)]
pub(crate) struct CpuSession {
    plan: Arc<Plan>,
    cache: KvCache,
    position: usize,
    last: Last,
    residual: Vec<i32>,
    logits: Vec<i32>,
}

impl CpuSession {
    pub(crate) fn new(plan: Arc<Plan>) -> Result<Self, Fault> {
        let config = plan.model.config();
        let mut residual = Vec::new();
        grow(&mut residual, config.hidden(), "the residual")?;
        Ok(Self {
            cache: KvCache::new(config),
            position: 0,
            last: Last::None,
            residual,
            logits: Vec::new(),
            plan,
        })
    }

    /// Checks the tokens and makes all room that feeding them needs.
    fn admit(&mut self, tokens: &[u32], pass: &mut Pass) -> Result<(), Error> {
        check_tokens(self.plan.model.config(), self.position, tokens)?;
        let end = self.position + tokens.len();
        self.cache.reserve(self.position, end)?;
        pass.reserve(&self.plan, tokens.len().min(PASS_TOKENS), end)?;
        Ok(())
    }

    /// Feeds admitted tokens pass by pass; `after` sees the residual rows of each, the first one's position before them.
    fn feed_passes<const PROBED: bool>(
        &mut self,
        pass: &mut Pass,
        tokens: &[u32],
        mut trace: Option<Trace<'_>>,
        probe: ProbeSink<'_>,
        mut after: impl FnMut(&mut Pass, usize, usize),
    ) {
        let plan = Arc::clone(&self.plan);
        let n = plan.model.config().hidden();
        for ids in tokens.chunks(PASS_TOKENS) {
            let run = Run {
                cache: &mut self.cache,
                first: self.position,
                ids,
            };
            let trace = trace.as_mut().map(|t| &mut **t as Trace<'_>);
            pass.forward::<PROBED>(&plan, &mut [run], trace, probe);
            let rows = pass.residual(&plan, ids.len());
            self.residual.copy_from_slice(&rows[rows.len() - n..]);
            after(pass, self.position, ids.len());
            self.position += ids.len();
            self.last = Last::Residual;
        }
    }

    /// Runs `f` with a pass's memory.
    fn with_pass<R>(&mut self, f: impl FnOnce(&mut Self, &mut Pass) -> R) -> R {
        let mut pass = self.plan.take_pass();
        let result = f(self, &mut pass);
        self.plan.give_back(pass);
        result
    }

    /// The logits of the last residual row.
    fn compute_logits<const PROBED: bool>(
        &mut self,
        pass: &mut Pass,
        probe: ProbeSink<'_>,
    ) -> Result<(), Fault> {
        let plan = Arc::clone(&self.plan);
        let config = plan.model.config();
        grow(&mut self.logits, config.vocab(), "logits")?;
        let position = self.position - 1;
        pass.head.begin(config, 1)?;
        if PROBED {
            pass.head.recorder.reserve(config, 1)?;
        }
        pass.head.push::<PROBED>(&plan, position, &self.residual);
        pass.head.logits(&plan, &mut self.logits);
        if PROBED {
            let recorder = &mut pass.head.recorder;
            recorder.rows(position, Op::Logits, &self.logits, config.vocab());
            recorder.drain(None, probe);
        }
        self.last = Last::Logits;
        Ok(())
    }
}

impl Session for CpuSession {
    fn config(&self) -> &Config {
        self.plan.model.config()
    }

    fn position(&self) -> usize {
        self.position
    }

    fn feed(&mut self, tokens: &[u32]) -> Result<(), Error> {
        self.with_pass(|this, pass| {
            this.admit(tokens, pass)?;
            this.feed_passes::<false>(pass, tokens, None, &mut |_| {}, |_, _, _| {});
            Ok(())
        })
    }

    fn feed_traced(&mut self, tokens: &[u32], sink: TraceSink<'_>) -> Result<(), Error> {
        self.with_pass(|this, pass| {
            this.admit(tokens, pass)?;
            this.feed_passes::<false>(pass, tokens, Some(sink), &mut |_| {}, |_, _, _| {});
            Ok(())
        })
    }

    fn feed_probed(&mut self, tokens: &[u32], sink: ProbeSink<'_>) -> Result<(), Error> {
        self.with_pass(|this, pass| {
            this.admit(tokens, pass)?;
            let most = tokens.len().min(PASS_TOKENS);
            pass.reserve_probes(this.plan.model.config(), most)?;
            this.feed_passes::<true>(pass, tokens, None, sink, |_, _, _| {});
            Ok(())
        })
    }

    fn feed_all_logits(&mut self, tokens: &[u32], sink: LogitsSink<'_>) -> Result<(), Error> {
        self.with_pass(|this, pass| {
            this.admit(tokens, pass)?;
            let plan = Arc::clone(&this.plan);
            let (n, vocab) = (plan.model.config().hidden(), plan.model.config().vocab());
            let most = HEAD_TOKENS.min(tokens.len());
            let mut logits = Vec::new();
            grow(&mut logits, most * vocab, "logits")?;
            pass.head.begin(plan.model.config(), most)?;
            let mut outcome = Ok(());
            this.feed_passes::<false>(pass, tokens, None, &mut |_| {}, |pass, first, len| {
                for start in (0..len).step_by(HEAD_TOKENS) {
                    let rows = start..len.min(start + HEAD_TOKENS);
                    outcome = outcome
                        .clone()
                        .and(pass.head_inputs(&plan, first, rows.clone()));
                    let logits = &mut logits[..rows.len() * vocab];
                    pass.head.logits(&plan, logits);
                    for (i, logits) in rows.zip(logits.chunks_exact(vocab)) {
                        sink(first + i, logits);
                    }
                }
            });
            debug_assert!(n > 0);
            Ok(outcome?)
        })
    }

    fn logits(&mut self) -> Option<&[i32]> {
        if self.last == Last::None {
            return None;
        }
        if self.last == Last::Residual {
            self.with_pass(|this, pass| this.compute_logits::<false>(pass, &mut |_| {}))
                .ok()?;
        }
        Some(&self.logits)
    }

    fn logits_probed(&mut self, sink: ProbeSink<'_>) -> Result<Option<&[i32]>, Fault> {
        if self.last == Last::None {
            return Ok(None);
        }
        self.with_pass(|this, pass| this.compute_logits::<true>(pass, sink))?;
        Ok(Some(&self.logits))
    }

    fn greedy(&mut self) -> Option<u32> {
        match self.last {
            Last::None => None,
            Last::Logits => {
                let accepted = self.config().accepted_ids();
                Some(crate::engine::argmax(&self.logits[..accepted]))
            }
            Last::Residual => self.with_pass(|this, pass| {
                let plan = &*this.plan;
                pass.head.begin(plan.model.config(), 1).ok()?;
                pass.head
                    .push::<false>(plan, this.position - 1, &this.residual);
                Some(pass.head.greedy(plan).ok()?[0])
            }),
        }
    }

    fn truncate(&mut self, len: usize) {
        if len < self.position {
            self.cache.truncate(len);
            self.position = len;
            self.last = Last::None;
        }
    }
}
