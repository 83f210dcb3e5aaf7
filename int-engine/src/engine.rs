//! Engines and sessions: the seam between the function and the devices that compute it.

use std::any::Any;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use sha3::{Digest, Keccak256};

use crate::commitment::Commitment;
use crate::config::Config;
use crate::halt::{Error, Fault, Halt, StepError, try_reserve};
use crate::kernels::Kernels;
use crate::model::Model;
use crate::pool::Pool;
use crate::probe::ProbeSink;
pub use crate::session::PrefixStats;
use crate::session::{CpuSession, Plan, PrefixCache};

mod batch;
mod draft;
mod speculate;
mod verify;

pub use batch::{Batch, Report, RequestId};
pub use draft::{DraftStats, Drafter};
pub use speculate::{continue_speculative, generate_speculative};
pub use verify::{Verdict, verify};

/// A model on a device, ready to start sessions.
pub trait Engine: Send + Sync {
    /// The model's configuration.
    fn config(&self) -> &Config;
    /// The commitment of the model's blob.
    fn commitment(&self) -> Commitment;
    /// What computes: the kernels' or the device's name.
    fn backend(&self) -> &str;
    /// A new session at position 0.
    ///
    /// # Errors
    /// When the machine lacks the memory or the device fails.
    fn session(&self) -> Result<Box<dyn Session>, Fault>;

    /// Feeds several sessions of this engine, and answers the greedy ids that are asked for.
    ///
    /// The same for every session as [`Session::feed`] and [`Session::greedy`] of its own. An engine that can computes
    /// the tokens of all together, so that the weights are read once for many of them.
    ///
    /// # Errors
    /// [`StepError`], with every session as it was, except that a failing device may lose them, and that an engine
    /// without a step of its own has fed the sessions before the one that failed. All tokens are checked before anything
    /// changes.
    fn step(&self, feeds: &mut [Feed<'_>]) -> Result<(), StepError> {
        for (index, feed) in feeds.iter().enumerate() {
            check_tokens(self.config(), feed.session.position(), feed.tokens)
                .map_err(|halt| StepError::Refused { index, halt })?;
        }
        for (index, feed) in feeds.iter_mut().enumerate() {
            let failed = |error| StepError::of(index, error);
            feed.session.feed(feed.tokens).map_err(failed)?;
            feed.next = match feed.greedy {
                true => feed.session.try_greedy().map_err(|e| failed(e.into()))?,
                false => None,
            };
        }
        Ok(())
    }
}

/// What one session takes part in [`Engine::step`] with.
pub struct Feed<'a> {
    /// A session of the engine.
    pub session: &'a mut dyn Session,
    /// The tokens to append; none are a no-op, as in [`Session::feed`].
    pub tokens: &'a [u32],
    /// Whether the greedy id after the tokens is wanted.
    pub greedy: bool,
    /// The greedy id, set by the step: `None` when it is not wanted or there are no logits.
    pub next: Option<u32>,
}

impl<'a> Feed<'a> {
    /// Appends `tokens` to `session` and asks for the greedy id after them.
    pub fn new(session: &'a mut dyn Session, tokens: &'a [u32]) -> Self {
        Self {
            session,
            tokens,
            greedy: true,
            next: None,
        }
    }
}

/// Receives (position, the `vocab` Q16 logits of the position).
pub type LogitsSink<'a> = &'a mut dyn FnMut(usize, &[i32]);

/// Receives (position, the greedy id after it) and may break off.
pub type GreedySink<'a> = &'a mut dyn FnMut(usize, u32) -> ControlFlow<()>;

/// Receives (stage, position, the `hidden` residual values): stage 0 is the embedding, stage i + 1 follows layer i.
pub type TraceSink<'a> = &'a mut dyn FnMut(usize, usize, &[i32]);

/// One sequence of tokens and its KV cache.
///
/// Every call that takes tokens checks all of them before anything changes: an error leaves the session as it was,
/// except that a failing device may lose it. Chunking never changes a result.
pub trait Session: Send {
    /// The model's configuration.
    fn config(&self) -> &Config;

    /// Tokens fed so far.
    fn position(&self) -> usize;

    /// Appends tokens (spec 3.4). No tokens are a no-op after the first one, and an empty prompt before.
    ///
    /// # Errors
    /// [`Halt`] in the order of spec 3.5, or a [`Fault`].
    fn feed(&mut self, tokens: &[u32]) -> Result<(), Error>;

    /// As [`Session::feed`], and hands every position's residual after every stage to `sink`: within a run of
    /// positions stage by stage, positions ascending.
    ///
    /// # Errors
    /// As [`Session::feed`].
    fn feed_traced(&mut self, tokens: &[u32], sink: TraceSink<'_>) -> Result<(), Error>;

    /// As [`Session::feed`], and hands the values of every operation up to the last layer to `sink` (spec 7.10).
    ///
    /// The tokens take the path that [`Session::feed`] takes for them. Within a run of positions the values come
    /// layer by layer; in each layer positions ascend, and the operations of a position come in order.
    ///
    /// # Errors
    /// As [`Session::feed`].
    fn feed_probed(&mut self, tokens: &[u32], sink: ProbeSink<'_>) -> Result<(), Error>;

    /// As [`Session::feed`], and hands the logits of every fed position to `sink`, positions ascending.
    ///
    /// # Errors
    /// As [`Session::feed`].
    fn feed_all_logits(&mut self, tokens: &[u32], sink: LogitsSink<'_>) -> Result<(), Error>;

    /// As [`Session::feed`], and hands the greedy id after each token from index `from` on to `sink`, positions ascending.
    ///
    /// When the sink breaks off, the session holds the tokens up to the position that it saw last, as if no later one
    /// had been given. In any case [`Session::greedy`] and [`Session::logits`] then are those of the last position.
    ///
    /// # Errors
    /// As [`Session::feed`]; all tokens are checked, whether the sink breaks off or not.
    fn feed_greedy(
        &mut self,
        tokens: &[u32],
        from: usize,
        sink: GreedySink<'_>,
    ) -> Result<(), Error> {
        check_tokens(self.config(), self.position(), tokens)?;
        let (before, rest) = tokens.split_at(from.min(tokens.len()));
        if !before.is_empty() {
            self.feed(before)?;
        }
        for &token in rest {
            self.feed(&[token])?;
            let id = self.try_greedy()?.ok_or_else(no_greedy_id)?;
            if sink(self.position() - 1, id).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The session itself, for an engine that looks for its own kind among the sessions of a step; `None` from kinds
    /// that no engine looks for.
    fn as_any_mut(&mut self) -> Option<&mut dyn Any> {
        None
    }

    /// Takes over what the engine has kept of `tokens`, which are fed next, in sessions that share it; returns for how many
    /// of them, from the first on, this does what feeding does. Never for all: the last one is always left to feed.
    ///
    /// A caller that feeds a long text in pieces asks once with all of it. Where tokens were taken over, logits are gone
    /// until the next feed. Engines that share nothing need not bring this.
    ///
    /// # Errors
    /// As [`Session::feed`].
    fn reuse(&mut self, tokens: &[u32]) -> Result<usize, Error> {
        check_tokens(self.config(), self.position(), tokens)?;
        Ok(0)
    }

    /// The `vocab` Q16 logits of the last fed position; `None` when the last call was not a feed that reached one, or when
    /// this machine fails, of which [`Session::logits_probed`] tells.
    fn logits(&mut self) -> Option<&[i32]>;

    /// As [`Session::logits`], computed again, with the values of the head's operations handed to `sink` (spec 7.10).
    ///
    /// # Errors
    /// When the machine lacks the memory or the device fails.
    fn logits_probed(&mut self, sink: ProbeSink<'_>) -> Result<Option<&[i32]>, Fault>;

    /// The accepted id with the largest logit of the last fed position, the lowest of equals; `None` as from
    /// [`Session::logits`], where [`Session::try_greedy`] tells of a failure.
    fn greedy(&mut self) -> Option<u32> {
        let accepted = self.config().accepted_ids();
        self.logits().map(|logits| argmax(&logits[..accepted]))
    }

    /// As [`Session::greedy`], where `None` means that there are no logits.
    ///
    /// # Errors
    /// When the machine lacks the memory or the device fails.
    fn try_greedy(&mut self) -> Result<Option<u32>, Fault> {
        if let Some(id) = self.greedy() {
            return Ok(Some(id));
        }
        let accepted = self.config().accepted_ids();
        let logits = self.logits_probed(&mut |_| {})?;
        Ok(logits.map(|logits| argmax(&logits[..accepted])))
    }

    /// Forgets the tokens from `len` on; a no-op when there are none. Logits are gone until the next feed.
    fn truncate(&mut self, len: usize);

    /// Forgets everything.
    fn reset(&mut self) {
        self.truncate(0);
    }
}

/// What to report when an engine has no greedy id after a feed.
fn no_greedy_id() -> Fault {
    Fault::Device("no greedy id after a feed".into())
}

/// The engine of this crate: the model in host memory, one set of kernels, a fixed number of threads.
#[derive(Debug)]
pub struct CpuEngine {
    plan: Arc<Plan>,
    prefix: Option<Arc<PrefixCache>>,
}

impl CpuEngine {
    /// An engine that computes with `kernels` on `threads` threads; sessions share them, one operation at a time.
    #[must_use]
    pub fn new(model: Arc<Model>, kernels: &'static Kernels, threads: NonZeroUsize) -> Self {
        Self {
            plan: Arc::new(Plan::new(model, kernels, Pool::new(threads))),
            prefix: None,
        }
    }

    /// The engine with a cache of at most `bytes` bytes of keys and values, which sessions made from now on share.
    ///
    /// A session whose tokens begin like those of an earlier one takes over what was computed for them, in whole pages
    /// of 64 positions; the least recently used pages are let go of. Results do not depend on it.
    #[must_use]
    pub fn with_prefix_cache(self, bytes: usize) -> Self {
        Self {
            prefix: Some(Arc::new(PrefixCache::new(bytes))),
            ..self
        }
    }

    /// How the prefix cache has been used; `None` without one.
    #[must_use]
    pub fn prefix_stats(&self) -> Option<PrefixStats> {
        self.prefix.as_ref().map(|prefix| prefix.stats())
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.plan.model
    }
}

impl Engine for CpuEngine {
    fn config(&self) -> &Config {
        self.plan.model.config()
    }

    fn commitment(&self) -> Commitment {
        self.plan.model.commitment()
    }

    fn backend(&self) -> &str {
        self.plan.kernels.name
    }

    fn session(&self) -> Result<Box<dyn Session>, Fault> {
        let session = CpuSession::new(Arc::clone(&self.plan), self.prefix.clone())?;
        Ok(Box::new(session))
    }

    fn step(&self, feeds: &mut [Feed<'_>]) -> Result<(), StepError> {
        crate::session::step(&self.plan, feeds)
    }
}

/// Why a generation ended (spec 3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish {
    /// `max_new` tokens were generated.
    Length,
    /// The last token is a stop id.
    Stop,
    /// Prompt and output fill the context.
    Context,
    /// The caller's `on_token` broke off, or the request left its [`Batch`].
    Interrupted,
}

/// The result of [`generate`] or [`continue_greedy`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Generation {
    /// The generated ids, a stop id included.
    pub ids: Vec<u32>,
    /// Why there are no more.
    pub finish: Finish,
}

/// The checks of spec 3.5 for `tokens` after `position` fed ones, in order.
///
/// # Errors
/// The first that fails. An empty prompt is refused at position 0 only.
pub fn check_tokens(config: &Config, position: usize, tokens: &[u32]) -> Result<(), Halt> {
    if position == 0 && tokens.is_empty() {
        return Err(Halt::EmptyPrompt);
    }
    let (len, max) = (position.saturating_add(tokens.len()), config.max_context());
    if len > max {
        return Err(Halt::ContextExceeded { len, max });
    }
    let accepted = config.accepted_ids();
    match tokens.iter().position(|&id| id as usize >= accepted) {
        Some(i) => Err(Halt::TokenOutOfRange {
            position: position + i,
            id: tokens[i],
            accepted,
        }),
        None => Ok(()),
    }
}

/// Greedy generation exactly as spec 3.5, from an empty context: `session` is reset first.
///
/// `on_token` sees each id as it is generated and may break off.
///
/// # Errors
/// The [`Halt`]s of spec 3.5, or a [`Fault`].
pub fn generate(
    session: &mut dyn Session,
    prompt: &[u32],
    max_new: usize,
    on_token: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<Generation, Error> {
    if let Some(answer) = begin(session, prompt, max_new)? {
        return Ok(answer);
    }
    continue_greedy(session, max_new, on_token)
}

/// Feeds the prompt to an empty session; the answer, when it is known to be empty without the prompt.
fn begin(
    session: &mut dyn Session,
    prompt: &[u32],
    max_new: usize,
) -> Result<Option<Generation>, Error> {
    session.reset();
    check_tokens(session.config(), 0, prompt)?;
    if max_new == 0 {
        return Ok(Some(Generation {
            ids: Vec::new(),
            finish: Finish::Length,
        }));
    }
    session.feed(prompt)?;
    Ok(None)
}

/// Greedy generation after the tokens that `session` already holds: spec 3.5 with these tokens as the prompt.
///
/// For a session that was fed a prompt, in any chunks, the result is that of [`generate`] with the prompt. Afterwards
/// the session holds the prompt and all generated ids but the last, whose successor was not asked for: a further turn
/// of a conversation feeds the last id and then its own tokens.
///
/// # Errors
/// [`Halt::EmptyPrompt`] when the session holds no token, or a [`Fault`]. The tokens that the session holds were
/// checked when they were fed.
///
/// # Panics
/// When `max_new` is not 0, the context is not full, and the session's last change was no feed but a
/// [`Session::truncate`]: the next id follows from logits that are gone.
pub fn continue_greedy(
    session: &mut dyn Session,
    max_new: usize,
    on_token: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<Generation, Error> {
    let prompt_len = session.position();
    if prompt_len == 0 {
        return Err(Halt::EmptyPrompt.into());
    }
    let max_context = session.config().max_context();
    let mut ids = Vec::new();
    if max_new == 0 {
        return Ok(Generation {
            ids,
            finish: Finish::Length,
        });
    }
    try_reserve(&mut ids, max_new.min(max_context - prompt_len), "an answer")?;
    let finish = loop {
        if prompt_len + ids.len() == max_context {
            break Finish::Context;
        }
        let id = session.try_greedy()?.expect("a fed session has logits");
        ids.push(id);
        let flow = on_token(id);
        if session.config().stop_ids().contains(&id) {
            break Finish::Stop;
        }
        if ids.len() == max_new {
            break Finish::Length;
        }
        if flow.is_break() {
            break Finish::Interrupted;
        }
        if prompt_len + ids.len() < max_context {
            session.feed(&[id])?;
        }
    };
    Ok(Generation { ids, finish })
}

/// The index of the largest value, the lowest of equals; 0 for no values.
#[must_use]
pub fn argmax(values: &[i32]) -> u32 {
    let mut best = 0;
    for (i, v) in values.iter().enumerate() {
        if *v > values[best] {
            best = i;
        }
    }
    best as u32
}

/// The logits digest of spec 3.5: keccak256 of the values as consecutive little-endian int32.
#[must_use]
pub fn logits_digest(logits: &[i32]) -> [u8; 32] {
    let mut hasher = Keccak256::new();
    let mut block = [0; 4096];
    for values in logits.chunks(block.len() / 4) {
        for (bytes, v) in block.chunks_exact_mut(4).zip(values) {
            bytes.copy_from_slice(&v.to_le_bytes());
        }
        hasher.update(&block[..4 * values.len()]);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argmax_takes_the_lowest_of_equals() {
        assert_eq!(argmax(&[]), 0);
        assert_eq!(argmax(&[-5, -3, -3, -9]), 1);
        assert_eq!(argmax(&[i32::MIN, i32::MIN + 1, i32::MAX, i32::MAX]), 2);
    }

    #[test]
    fn the_digest_is_keccak_of_little_endian_words() {
        assert_eq!(logits_digest(&[]), crate::commitment::keccak256(b""));
        // Around the block in which the words are handed over.
        for count in [1023, 1024, 1025, 2049] {
            let values = (0..count).map(|i: i32| i.wrapping_mul(0x0123_4567));
            let values: Vec<i32> = values.collect();
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            assert_eq!(logits_digest(&values), crate::commitment::keccak256(&bytes));
        }
        assert_eq!(
            logits_digest(&[1, -2]),
            crate::commitment::keccak256(&[1, 0, 0, 0, 254, 255, 255, 255])
        );
    }
}
