//! The CPU session: prefill, decode and logits over one KV cache (spec 3.3, 3.4).

mod attend;
mod cache;
mod head;
mod heads;
mod pass;
mod plan;
mod prefix;
mod step;

use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;

use self::attend::grow;
use self::cache::{KvCache, PAGE};
use self::pass::{PASS_TOKENS, Pass, Run, Trace};
pub(crate) use self::plan::Plan;
pub(crate) use self::prefix::PrefixCache;
pub use self::prefix::PrefixStats;
pub(crate) use self::step::step;
use crate::config::Config;
use crate::engine::{GreedySink, LogitsSink, Session, TraceSink, argmax, check_tokens};
use crate::halt::{Error, Fault, try_reserve};
use crate::probe::{Op, ProbeSink};

/// Tokens that share one pass over the head when every position's logits are wanted.
const HEAD_TOKENS: usize = 16;

/// Most tokens that share one pass over the head when greedy ids are asked for.
const GREEDY_TOKENS: usize = 64;

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
    /// The greedy id of the last row, when it is known.
    next: Option<u32>,
    /// Pages that sessions of the engine share.
    prefix: Option<Arc<PrefixCache>>,
    /// The tokens fed so far, with a prefix cache only.
    held: Vec<u32>,
    /// Whole pages that the prefix cache has seen.
    recorded: usize,
}

/// What a feed needs, made before the session changes.
struct Prepared {
    /// In place of the session's own, when it begins with more shared pages.
    cache: Option<KvCache>,
    /// Tokens that these pages spare.
    reused: usize,
}

impl CpuSession {
    pub(crate) fn new(plan: Arc<Plan>, prefix: Option<Arc<PrefixCache>>) -> Result<Self, Fault> {
        let config = plan.model.config();
        let mut residual = Vec::new();
        grow(&mut residual, config.hidden(), "the residual")?;
        Ok(Self {
            cache: KvCache::new(config),
            position: 0,
            last: Last::None,
            residual,
            logits: Vec::new(),
            next: None,
            prefix,
            held: Vec::new(),
            recorded: 0,
            plan,
        })
    }

    /// Makes the cache ready for checked tokens. Of the first `reusable` nothing but keys and values is wanted.
    fn prepare(&mut self, tokens: &[u32], reusable: usize) -> Result<Prepared, Fault> {
        let (position, end) = (self.position, self.position + tokens.len());
        if let Some(prefix) = &self.prefix {
            try_reserve(&mut self.held, end, "the tokens of a session")?;
            if let Some(pages) = prefix.find(&self.held, &tokens[..reusable])? {
                let first = pages.len() * PAGE;
                let mut cache = self.cache.sharing(pages);
                cache.reserve(first, end)?;
                return Ok(Prepared {
                    cache: Some(cache),
                    reused: first - position,
                });
            }
        }
        self.cache.reserve(position, end)?;
        Ok(Prepared {
            cache: None,
            reused: 0,
        })
    }

    /// Takes what was prepared; returns the tokens that are left to compute.
    fn commit<'t>(&mut self, prepared: Prepared, tokens: &'t [u32]) -> &'t [u32] {
        let (reused, rest) = tokens.split_at(prepared.reused);
        if let Some(cache) = prepared.cache {
            self.cache = cache;
            self.position += reused.len();
            self.recorded = self.position / PAGE;
            self.held.extend_from_slice(reused);
        }
        rest
    }

    /// Checks the tokens and makes all room that feeding them needs, and `greedy` ids of them; returns those that are
    /// left to compute.
    fn admit<'t>(
        &mut self,
        pass: &mut Pass,
        tokens: &'t [u32],
        reusable: usize,
        greedy: usize,
    ) -> Result<&'t [u32], Error> {
        check_tokens(self.plan.model.config(), self.position, tokens)?;
        let prepared = self.prepare(tokens, reusable)?;
        let end = self.position + tokens.len();
        pass.reserve(&self.plan, tokens.len().min(PASS_TOKENS), end)?;
        if greedy > 0 {
            pass.head.reserve_greedy(&self.plan, greedy)?;
        }
        Ok(self.commit(prepared, tokens))
    }

    /// Counts computed tokens, of which `row` is the last residual row.
    fn advance(&mut self, ids: &[u32], row: &[i32]) {
        self.residual.copy_from_slice(row);
        self.position += ids.len();
        self.last = Last::Residual;
        self.next = None;
        if self.prefix.is_some() {
            self.held.extend_from_slice(ids);
        }
    }

    /// Shows new whole pages to the prefix cache.
    fn record(&mut self) {
        let pages = self.cache.whole_pages(self.position);
        if pages.len() > self.recorded {
            self.recorded = pages.len();
            if let Some(prefix) = &self.prefix {
                prefix.record(&self.held, pages);
            }
        }
    }

    /// Feeds admitted tokens pass by pass; `after` sees each pass, its first position and its number of tokens.
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
            after(pass, self.position, ids.len());
            let rows = pass.residual(&plan, ids.len());
            self.advance(ids, &rows[rows.len() - n..]);
        }
        self.record();
    }

    /// Feeds admitted tokens and shows the greedy id after each from index `from` on to `sink`, until it breaks off.
    fn feed_greedy_passes(
        &mut self,
        pass: &mut Pass,
        tokens: &[u32],
        from: usize,
        sink: GreedySink<'_>,
    ) {
        let plan = Arc::clone(&self.plan);
        let n = plan.model.config().hidden();
        let (mut start, mut flow) = (0, ControlFlow::Continue(()));
        for ids in tokens.chunks(PASS_TOKENS) {
            let run = Run {
                cache: &mut self.cache,
                first: self.position,
                ids,
            };
            pass.forward::<false>(&plan, &mut [run], None, &mut |_| {});
            let wanted = from.saturating_sub(start).min(ids.len());
            let (mut kept, mut next) = (ids.len(), None);
            for first in (wanted..ids.len()).step_by(GREEDY_TOKENS) {
                let rows = first..ids.len().min(first + GREEDY_TOKENS);
                pass.head_inputs(&plan, self.position, rows.clone());
                for (row, &id) in rows.zip(pass.head.greedy(&plan)) {
                    flow = sink(self.position + row, id);
                    next = Some(id);
                    if flow.is_break() {
                        kept = row + 1;
                        break;
                    }
                }
                if flow.is_break() {
                    break;
                }
            }
            let row = &pass.residual(&plan, kept)[(kept - 1) * n..];
            self.advance(&ids[..kept], row);
            self.next = next;
            if flow.is_break() {
                break;
            }
            start += kept;
        }
        self.record();
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

    fn as_any_mut(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn feed(&mut self, tokens: &[u32]) -> Result<(), Error> {
        self.with_pass(|this, pass| {
            // The last token is computed in any case: the next id follows from its residual.
            let rest = this.admit(pass, tokens, tokens.len().saturating_sub(1), 0)?;
            this.feed_passes::<false>(pass, rest, None, &mut |_| {}, |_, _, _| {});
            Ok(())
        })
    }

    fn feed_traced(&mut self, tokens: &[u32], sink: TraceSink<'_>) -> Result<(), Error> {
        self.with_pass(|this, pass| {
            this.admit(pass, tokens, 0, 0)?;
            this.feed_passes::<false>(pass, tokens, Some(sink), &mut |_| {}, |_, _, _| {});
            Ok(())
        })
    }

    fn feed_probed(&mut self, tokens: &[u32], sink: ProbeSink<'_>) -> Result<(), Error> {
        self.with_pass(|this, pass| {
            let most = tokens.len().min(PASS_TOKENS);
            pass.reserve_probes(this.plan.model.config(), most)?;
            this.admit(pass, tokens, 0, 0)?;
            this.feed_passes::<true>(pass, tokens, None, sink, |_, _, _| {});
            Ok(())
        })
    }

    fn feed_all_logits(&mut self, tokens: &[u32], sink: LogitsSink<'_>) -> Result<(), Error> {
        self.with_pass(|this, pass| {
            let plan = Arc::clone(&this.plan);
            let vocab = plan.model.config().vocab();
            let most = HEAD_TOKENS.min(tokens.len());
            check_tokens(plan.model.config(), this.position, tokens)?;
            let mut logits = Vec::new();
            grow(&mut logits, most * vocab, "logits")?;
            pass.head.begin(plan.model.config(), most)?;
            this.admit(pass, tokens, 0, 0)?;
            this.feed_passes::<false>(pass, tokens, None, &mut |_| {}, |pass, first, len| {
                for start in (0..len).step_by(HEAD_TOKENS) {
                    let rows = start..len.min(start + HEAD_TOKENS);
                    pass.head_inputs(&plan, first, rows.clone());
                    let logits = &mut logits[..rows.len() * vocab];
                    pass.head.logits(&plan, logits);
                    for (i, logits) in rows.zip(logits.chunks_exact(vocab)) {
                        sink(first + i, logits);
                    }
                }
            });
            Ok(())
        })
    }

    fn feed_greedy(
        &mut self,
        tokens: &[u32],
        from: usize,
        sink: GreedySink<'_>,
    ) -> Result<(), Error> {
        self.with_pass(|this, pass| {
            let reusable = from.min(tokens.len().saturating_sub(1));
            let greedy = tokens.len().saturating_sub(from).min(GREEDY_TOKENS);
            let rest = this.admit(pass, tokens, reusable, greedy)?;
            let from = from.saturating_sub(tokens.len() - rest.len());
            this.feed_greedy_passes(pass, rest, from, sink);
            Ok(())
        })
    }

    fn reuse(&mut self, tokens: &[u32]) -> Result<usize, Error> {
        check_tokens(self.config(), self.position, tokens)?;
        let Some(prefix) = &self.prefix else {
            return Ok(0);
        };
        let end = self.position + tokens.len();
        try_reserve(&mut self.held, end, "the tokens of a session")?;
        let reusable = &tokens[..tokens.len().saturating_sub(1)];
        let Some(pages) = prefix.find(&self.held, reusable)? else {
            return Ok(0);
        };
        let reused = pages.len() * PAGE - self.position;
        let cache = Some(self.cache.sharing(pages));
        self.commit(Prepared { cache, reused }, tokens);
        (self.last, self.next) = (Last::None, None);
        Ok(reused)
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
        self.try_greedy().ok().flatten()
    }

    fn try_greedy(&mut self) -> Result<Option<u32>, Fault> {
        self.next = match (self.last, self.next) {
            (Last::None, _) => None,
            (_, Some(id)) => Some(id),
            (Last::Logits, None) => Some(argmax(&self.logits[..self.config().accepted_ids()])),
            (Last::Residual, None) => self.with_pass(|this, pass| {
                pass.head.reserve_greedy(&this.plan, 1)?;
                pass.head
                    .push::<false>(&this.plan, this.position - 1, &this.residual);
                Ok(Some(pass.head.greedy(&this.plan)[0]))
            })?,
        };
        Ok(self.next)
    }

    fn truncate(&mut self, len: usize) {
        if len < self.position {
            self.cache.truncate(len);
            self.position = len;
            self.last = Last::None;
            self.next = None;
            self.held.truncate(len);
            self.recorded = self.recorded.min(len / PAGE);
        }
    }
}
