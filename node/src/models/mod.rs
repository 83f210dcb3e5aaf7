//! Models that stay in memory, ready to answer (spec 6.9).
//!
//! [`Resident`] loads a blob once, by commitment, and keeps the model with an engine for blocks and another one for calls
//! from outside. Both share the weights, and an engine keeps the keys and values of prompts that begin like earlier ones:
//! the bytes of an answer never depend on it.
//!
//! Every model's logits are compared with those of the portable kernels before it answers ([`cross_check`]). A model whose
//! logits differ has a [`Fault`] until [`Resident::forgive`] or the process ends: whoever asks it would fork.
//!
//! What is pinned is never let go of: the models of [`Resident::keep`], or all that blocks have asked for where nobody said
//! what to keep. A model that does not fit beside the pinned ones is refused with a [`Fault`] that names the sizes, before
//! its activation where [`crate::watch`] prepares it; two models never push each other out in turn.

mod backend;
mod set;

pub use backend::{Backend, Cpu, CrossCheckError, Purpose, Started, cross_check};
pub use set::ModelStatus;

use crate::library::Library;
use crate::metric_names as names;
use int_engine::commitment::Commitment;
use int_engine::engine::PrefixStats;
use precompile::{Fault, Lookup, Models};
use set::{Claim, Set};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A loaded model with its engines.
struct Ready {
    blocks: Started,
    calls: Started,
}

impl Ready {
    fn engine(&self, purpose: Purpose) -> Lookup {
        let started = match purpose {
            Purpose::Blocks => &self.blocks,
            Purpose::Calls => &self.calls,
        };
        Lookup::Ready(Arc::clone(&started.engine))
    }
}

/// The models in memory.
pub struct Resident {
    library: Arc<dyn Library>,
    backend: Arc<dyn Backend>,
    load_threads: NonZeroUsize,
    set: Mutex<Set>,
    /// Rings when a load ends.
    ended: Condvar,
    /// Models whose gauges have been set.
    shown: Mutex<BTreeSet<Commitment>>,
}

impl Resident {
    /// No models yet, at most `memory` bytes of them: a model counts as long as its blob, and with what its engines take
    /// beside ([`Backend::beside_weights`]). Keys and values of running calls come on top.
    #[must_use]
    pub fn new(library: Arc<dyn Library>, backend: Arc<dyn Backend>, memory: u64) -> Self {
        let resident = Self {
            library,
            backend,
            load_threads: NonZeroUsize::MIN,
            set: Mutex::new(Set::new(memory)),
            ended: Condvar::new(),
            shown: Mutex::default(),
        };
        resident.report();
        resident
    }

    /// The same with so many threads for a load and its comparison, 1 if not set: they share the processor with blocks that
    /// are executed meanwhile.
    #[must_use]
    pub fn load_threads(self, threads: NonZeroUsize) -> Self {
        Self {
            load_threads: threads,
            ..self
        }
    }

    /// The library that blobs come from.
    #[must_use]
    pub fn library(&self) -> &Arc<dyn Library> {
        &self.library
    }

    /// The backend's name.
    #[must_use]
    pub fn backend(&self) -> &str {
        self.backend.name()
    }

    /// The models as a purpose sees them. Blocks load what is at hand and not in memory; calls from outside load nothing,
    /// so that nobody who asks about old blocks makes the node load models.
    #[must_use]
    pub fn models(self: &Arc<Self>, purpose: Purpose) -> Arc<dyn Models + Send + Sync> {
        Arc::new(Seen {
            resident: Arc::clone(self),
            purpose,
        })
    }

    /// Forgets that engines were wrong, once the machine is put right.
    pub fn forgive(&self) {
        self.set().forgive();
    }

    /// Says which models must stay: those that are active or wait for activation. All others stay as long as nobody needs
    /// their memory.
    pub fn keep(&self, commitments: BTreeSet<Commitment>) {
        self.set().keep(commitments);
        self.report();
    }

    /// What is in memory.
    #[must_use]
    pub fn status(&self) -> Vec<ModelStatus> {
        self.set().status()
    }

    /// The answer for blocks, if nothing has to be loaded for it.
    #[must_use]
    pub fn found(&self, commitment: Commitment) -> Option<Lookup> {
        self.set().found(commitment, Purpose::Blocks)
    }

    /// How the prefix cache of a model is used; `None` where there is none.
    #[must_use]
    pub fn prefix_stats(&self, commitment: Commitment, purpose: Purpose) -> Option<PrefixStats> {
        let ready = self.set().ready(commitment)?;
        match purpose {
            Purpose::Blocks => (ready.blocks.prefix)(),
            Purpose::Calls => (ready.calls.prefix)(),
        }
    }

    /// Brings the gauges of models up to date; a node does so before it answers a scrape.
    pub fn report(&self) {
        let set = self.set();
        let status = set.status();
        metrics::gauge!(names::RESIDENT).set(status.len() as f64);
        metrics::gauge!(names::RESIDENT_BYTES).set(set.taken() as f64);
        metrics::gauge!(names::RESIDENT_LIMIT).set(set.memory() as f64);
        drop(set);
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.extend(status.iter().map(|model| model.commitment));
        for &commitment in shown.iter() {
            for purpose in [Purpose::Blocks, Purpose::Calls] {
                let labels = [
                    ("model", commitment.to_string()),
                    ("for", purpose.name().to_owned()),
                ];
                let stats = self.prefix_stats(commitment, purpose);
                let bytes = stats.map_or(0, |stats| stats.bytes);
                metrics::gauge!(names::PREFIX_BYTES, &labels).set(bytes as f64);
                if let Some(stats) = stats {
                    metrics::counter!(names::PREFIX_HITS, &labels).absolute(stats.hits);
                    metrics::counter!(names::PREFIX_POSITIONS, &labels).absolute(stats.positions);
                }
            }
        }
        // A model that is gone has been set to 0.
        *shown = status.iter().map(|model| model.commitment).collect();
    }

    fn set(&self) -> MutexGuard<'_, Set> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer for blocks: the model is loaded by this thread, unless it is in memory or somebody else loads it now, who
    /// is waited for. A node prepares models ahead of their use.
    ///
    /// # Errors
    /// The blob is not at hand or damaged, there is no room, the engine is wrong.
    pub fn prepare(&self, commitment: Commitment) -> Result<Lookup, Fault> {
        let mut set = self.set();
        loop {
            match set.claim(commitment) {
                Claim::Found(lookup) => return Ok(lookup),
                Claim::Wrong(fault) => return Err(fault),
                Claim::Wait => {
                    set = self.ended.wait(set).unwrap_or_else(PoisonError::into_inner);
                }
                Claim::Yours => break,
            }
        }
        drop(set);
        let begun = Instant::now();
        let loaded = Fault::guard(|| self.load(commitment));
        let loaded = loaded.unwrap_or_else(|panic| Err(panic.into()));
        let seconds = begun.elapsed().as_secs_f64();
        match &loaded {
            Ok(Some(_)) => {
                metrics::histogram!(names::LOAD_SECONDS).record(seconds);
                tracing::info!(%commitment, seconds, backend = self.backend.name(), "model loaded");
            }
            Ok(None) => {
                tracing::error!(%commitment, "the blob is refused by its format's rules: calls revert with BadModel")
            }
            Err(error) => tracing::error!(%commitment, %error, "the model cannot be loaded"),
        }
        let result = self.set().end(commitment, loaded);
        self.ended.notify_all();
        self.report();
        result
    }

    /// The model from its blob, compared with the portable kernels; `None` when section 4 refuses the blob.
    fn load(&self, commitment: Commitment) -> Result<Option<Ready>, CrossCheckError> {
        let missing = |reason: String| Fault::Missing { commitment, reason };
        let open = self.library.open(commitment);
        let open = open.map_err(|error| missing(error.to_string()))?;
        let (source, len) = open.ok_or_else(|| missing("the library does not have it".into()))?;
        let beside = self.backend.beside_weights();
        let room = self.set().reserve(commitment, len.saturating_add(beside));
        // What was let go of is freed here, without the lock.
        drop(room?);
        let model = precompile::load(commitment, &*source, len, self.load_threads);
        if let Err(Fault::Missing { .. }) = &model {
            // Its bytes are not those of the commitment, or cannot be read: the next fetch gets what is wrong with it.
            if let Err(error) = self.library.damaged(commitment) {
                tracing::error!(%commitment, %error, "a damaged blob cannot be put aside");
            }
        }
        let Some(model) = model? else {
            return Ok(None);
        };
        let model = Arc::new(model);
        let blocks = self.backend.start(&model, Purpose::Blocks)?;
        cross_check(&*blocks.engine, &model, self.load_threads)?;
        let calls = self.backend.start(&model, Purpose::Calls)?;
        Ok(Some(Ready { blocks, calls }))
    }
}

/// The models as one purpose sees them.
struct Seen {
    resident: Arc<Resident>,
    purpose: Purpose,
}

impl Models for Seen {
    fn model(&self, commitment: Commitment) -> Result<Lookup, Fault> {
        let found = self.resident.set().found(commitment, self.purpose);
        let answer = match (found, self.purpose) {
            (Some(lookup), _) => Ok(lookup),
            (None, Purpose::Blocks) => self.resident.prepare(commitment),
            (None, Purpose::Calls) => Err(Fault::Missing {
                commitment,
                reason: "it is not in memory, and calls outside blocks load nothing".into(),
            }),
        };
        let result = match &answer {
            Ok(Lookup::Ready(_)) => "ready",
            Ok(Lookup::Refused) => "refused",
            Err(_) => "fault",
        };
        metrics::counter!(names::CALLS, "for" => self.purpose.name(), "result" => result)
            .increment(1);
        answer
    }
}
