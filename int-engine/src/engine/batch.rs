//! Continuous batching: requests join and leave between steps, and every step computes all of them together.

use super::{Engine, Feed, Finish, Generation, Session, check_tokens};
use crate::halt::{Error, Fault, StepError};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Names a request of a [`Batch`]; no two requests of a batch have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(u64);

/// What a step did for a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The request.
    pub request: RequestId,
    /// The next id of its answer, when the step found one.
    pub id: Option<u32>,
    /// Why there are no more, with which the request has left the batch.
    pub finish: Option<Finish>,
    /// What failed for this request alone; it has left with [`Finish::Interrupted`], and may join again.
    pub fault: Option<Fault>,
}

/// Requests that are answered together.
///
/// The answer of each is that of [`super::generate`] with its prompt and `max_new`, whatever the others are and
/// whenever they join or leave. A prompt that begins like one the engine keeps ([`Session::reuse`]) is computed from
/// where they differ.
///
/// ```
/// # use int_engine::config::{Config, Dims};
/// # use int_engine::model::Model;
/// # mod sample { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sample/mod.rs")); }
/// # let config = Config::new(Dims {
/// #     scheme: Default::default(), hidden: 64, layers: 2, heads: 4, kv_heads: 2, head_dim: 16, intermediate: 96, vocab: 100, accepted_ids: 100,
/// #     max_context: 32, qk_norm: true, tied: true, eps: 1, stop_ids: vec![],
/// # })?;
/// # let model = std::sync::Arc::new(Model::from_bytes(&sample::sample(&config, 1))?);
/// use int_engine::engine::{Batch, CpuEngine};
/// use int_engine::kernels::Kernels;
/// use std::collections::BTreeMap;
/// use std::num::NonZeroUsize;
/// use std::sync::Arc;
///
/// let engine = CpuEngine::new(model, Kernels::detect(), NonZeroUsize::MIN);
/// // Each request adds one token to a step; the rest of the 128 are tokens of prompts.
/// let budget = NonZeroUsize::new(128).unwrap();
/// let mut batch = Batch::new(Arc::new(engine), budget);
/// let mut answers = BTreeMap::new();
/// for prompt in [&[1, 2, 3][..], &[4], &[5, 6]] {
///     answers.insert(batch.join(prompt, 8)?, Vec::new());
/// }
/// while !batch.is_empty() {
///     for report in batch.step()? {
///         // The last id of an answer comes with the reason why it is the last.
///         answers.get_mut(&report.request).unwrap().extend(report.id);
///     }
/// }
/// assert!(answers.values().all(|ids| ids.len() == 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batch {
    engine: Arc<dyn Engine>,
    budget: usize,
    /// In the order in which they joined.
    requests: Vec<Request>,
    /// Requests that have left, for the next step to report.
    done: Vec<Done>,
    joined: u64,
    /// The first of the requests that are generating to be served next.
    turn: usize,
}

/// The index of a request whose next id was asked for, and the id.
type Found = (usize, Option<u32>);

struct Done {
    report: Report,
    /// The answer so far.
    ids: Vec<u32>,
}

struct Request {
    id: RequestId,
    session: Box<dyn Session>,
    /// The prompt and the answer so far; the session holds a beginning of it.
    tokens: Vec<u32>,
    prompt: usize,
    max_new: usize,
}

impl Request {
    /// Tokens to feed before the next id follows.
    fn pending(&self) -> usize {
        self.tokens.len() - self.session.position()
    }

    /// Whether it waits for no more than its last id to be fed.
    fn generates(&self) -> bool {
        self.pending() <= 1
    }

    /// Before the first token of a prompt is computed: takes over what the engine has kept of it. What fails here is
    /// computed.
    fn reuse(&mut self) {
        if self.session.position() == 0 {
            let _ = self.session.reuse(&self.tokens);
        }
    }

    /// Takes the next id of the answer; why it is the last one, when it is.
    fn push(&mut self, id: u32) -> Option<Finish> {
        self.tokens.push(id);
        let config = self.session.config();
        if config.stop_ids().contains(&id) {
            Some(Finish::Stop)
        } else if self.tokens.len() - self.prompt == self.max_new {
            Some(Finish::Length)
        } else if self.tokens.len() == config.max_context() {
            Some(Finish::Context)
        } else {
            None
        }
    }
}

impl Batch {
    /// No requests yet. A step computes at most `budget` tokens.
    ///
    /// Requests that generate take one token each, in turn where they are more than the budget; what they leave of it
    /// goes to prompts, first come first served. A larger budget answers prompts sooner and makes steps longer.
    #[must_use]
    pub fn new(engine: Arc<dyn Engine>, budget: NonZeroUsize) -> Self {
        Self {
            engine,
            budget: budget.get(),
            requests: Vec::new(),
            done: Vec::new(),
            joined: 0,
            turn: 0,
        }
    }

    /// Requests that have not left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len() + self.done.len()
    }

    /// Whether every request has left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a request for at most `max_new` ids after `prompt`.
    ///
    /// # Errors
    /// The [`crate::halt::Halt`]s of spec 3.5, or a [`Fault`]; then there is no request.
    pub fn join(&mut self, prompt: &[u32], max_new: usize) -> Result<RequestId, Error> {
        let config = self.engine.config();
        check_tokens(config, 0, prompt)?;
        let max_context = config.max_context();
        let id = RequestId(self.joined);
        let empty = if max_new == 0 {
            Some(Finish::Length)
        } else if prompt.len() == max_context {
            Some(Finish::Context)
        } else {
            None
        };
        if empty.is_some() {
            self.done.push(Done {
                report: Report {
                    request: id,
                    id: None,
                    finish: empty,
                    fault: None,
                },
                ids: Vec::new(),
            });
        } else {
            let mut tokens = Vec::new();
            let most = prompt.len().saturating_add(max_new).min(max_context);
            crate::halt::try_reserve(&mut tokens, most, "a request")?;
            tokens.extend_from_slice(prompt);
            self.requests.push(Request {
                id,
                session: self.engine.session()?,
                tokens,
                prompt: prompt.len(),
                max_new,
            });
        }
        self.joined += 1;
        Ok(id)
    }

    /// Takes a request out; what was generated for it, or `None` when it has left already.
    pub fn leave(&mut self, request: RequestId) -> Option<Generation> {
        if let Some(i) = self.done.iter().position(|d| d.report.request == request) {
            let Done { report, ids } = self.done.remove(i);
            return report.finish.map(|finish| Generation { ids, finish });
        }
        let i = self.requests.iter().position(|r| r.id == request)?;
        let request = self.remove(i);
        Some(Generation {
            ids: request.tokens[request.prompt..].to_vec(),
            finish: Finish::Interrupted,
        })
    }

    /// Computes the next tokens of the requests and reports what came of it, in the order in which they joined; nothing
    /// for requests whose prompts are still under way, or that had to wait for the budget.
    ///
    /// A request that this machine fails, for which it has no memory say, leaves with [`Report::fault`], and the step is
    /// that of the others.
    ///
    /// # Errors
    /// A [`Fault`] that is no single request's. No id is lost: a later step goes on.
    pub fn step(&mut self) -> Result<Vec<Report>, Fault> {
        let mut turn = self.turn;
        let found = loop {
            let shares = self.shares();
            match self.compute(&shares) {
                Ok(found) => break found,
                Err((index, fault)) => {
                    self.turn = turn;
                    match index {
                        Some(i) => self.fail(i, fault),
                        None if self.done.is_empty() => return Err(fault),
                        // Who has left hears of it now; the fault comes again.
                        None => break Vec::new(),
                    }
                    turn = self.turn;
                }
            }
        };
        let (mut reports, mut silent) = (Vec::new(), Vec::new());
        for (i, next) in found {
            let request = &mut self.requests[i];
            match next {
                Some(id) => reports.push(Report {
                    request: request.id,
                    id: Some(id),
                    finish: request.push(id),
                    fault: None,
                }),
                None => silent.push(request.id),
            }
        }
        for report in reports.iter().filter(|r| r.finish.is_some()) {
            if let Some(i) = self.requests.iter().position(|r| r.id == report.request) {
                self.remove(i);
            }
        }
        for id in silent {
            if let Some(i) = self.requests.iter().position(|r| r.id == id) {
                self.fail(i, super::no_greedy_id());
            }
        }
        reports.extend(self.done.drain(..).map(|done| done.report));
        reports.sort_by_key(|report| report.request);
        Ok(reports)
    }

    /// Feeds the requests their shares; the next id of each that has one now, or a fault and the index of the request whose
    /// it is.
    fn compute(&mut self, shares: &[Option<usize>]) -> Result<Vec<Found>, (Option<usize>, Fault)> {
        let (mut feeds, mut fed) = (Vec::new(), Vec::new());
        for (i, (request, share)) in self.requests.iter_mut().zip(shares).enumerate() {
            let Some(share) = *share else { continue };
            let start = request.session.position();
            let pending = &request.tokens[start..];
            fed.push(i);
            feeds.push(Feed {
                greedy: share == pending.len(),
                tokens: &pending[..share],
                session: &mut *request.session,
                next: None,
            });
        }
        if feeds.is_empty() {
            return Ok(Vec::new());
        }
        self.engine.step(&mut feeds).map_err(|error| {
            let what = error.to_string();
            let (index, fault) = match error {
                StepError::Fault { index, fault } => (index, fault),
                // The tokens were checked when their request joined, or are the engine's own.
                StepError::Refused { index, .. } | StepError::Foreign { index } => {
                    (Some(index), Fault::Device(what))
                }
            };
            (index.and_then(|index| fed.get(index).copied()), fault)
        })?;
        let feeds = fed.into_iter().zip(feeds);
        let found = feeds.filter(|(_, feed)| feed.greedy);
        Ok(found.map(|(i, feed)| (i, feed.next)).collect())
    }

    /// Takes out the request at `index` for a fault.
    fn fail(&mut self, index: usize, fault: Fault) {
        let request = self.remove(index);
        let report = Report {
            request: request.id,
            id: None,
            finish: Some(Finish::Interrupted),
            fault: Some(fault),
        };
        let ids = request.tokens[request.prompt..].to_vec();
        self.done.push(Done { report, ids });
    }

    /// How many tokens each request may compute now, none for those that wait.
    fn shares(&mut self) -> Vec<Option<usize>> {
        let mut shares = vec![None; self.requests.len()];
        let mut left = self.budget;
        let (before, after) = (0..self.turn, self.turn..self.requests.len());
        let mut served = None;
        for i in after.chain(before) {
            let Some(request) = self.requests.get(i) else {
                continue;
            };
            if request.generates() && left > 0 {
                left -= 1;
                shares[i] = Some(request.pending());
                served = Some(i);
            }
        }
        // When the budget is smaller than their number, the next step begins where this one ends.
        self.turn = if left == 0 {
            served.map_or(0, |i| i + 1)
        } else {
            0
        };
        for (share, request) in shares.iter_mut().zip(&mut self.requests) {
            if share.is_none() && !request.generates() && left > 0 {
                request.reuse();
                let most = request.pending().min(left);
                left -= most;
                *share = Some(most);
            }
        }
        shares
    }

    fn remove(&mut self, index: usize) -> Request {
        if index < self.turn {
            self.turn -= 1;
        }
        self.requests.remove(index)
    }
}
