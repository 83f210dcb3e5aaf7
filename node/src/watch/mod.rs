//! Models made ready before they are active, and blobs kept as long as they are needed.
//!
//! A [`Watch`] is shown every block's state: it learns which commitments are active or wait for activation, fetches and loads
//! what is missing on threads of its own, and tells what is not ready. When an activation comes, the model is in memory
//! already: nothing is switched, calls ask for another commitment.

mod archive;
mod jobs;

pub use archive::Archive;
pub use jobs::Progress;

use crate::models::Resident;
use crate::names;
use archive::Ends;
use int_engine::commitment::Commitment;
use jobs::Jobs;
use precompile::Fault;
use precompile::registry::Event;
use precompile::registry::state::{self, Storage};
use precompile::word::Word;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Activations of the end of the list that are read again in every block: more than a reorganisation can exchange.
const RECENT: u64 = 64;

/// How a node watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Blocks before an activation from which on a model that is not ready is an alarm.
    pub alarm: u64,
    /// Which blobs stay on disk.
    pub archive: Archive,
    /// Time between a failed attempt to get or load a blob and the next one.
    pub retry: Duration,
}

impl Default for Options {
    /// An alarm an hour of 12-second blocks ahead, every blob kept, attempts every 15 seconds.
    fn default() -> Self {
        Self {
            alarm: 300,
            archive: Archive::All,
            retry: Duration::from_secs(15),
        }
    }
}

/// A model that is active or will be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Readiness {
    /// The name.
    pub name: Word,
    /// The commitment.
    pub commitment: Commitment,
    /// The first block in which it can be activated; `None` when it is active.
    pub activation: Option<u64>,
    /// How far its preparation is.
    pub progress: Progress,
    /// Whether it should be ready by now and is not.
    pub alarm: bool,
}

/// Keeps the models of a chain ready.
pub struct Watch {
    resident: Arc<Resident>,
    options: Options,
    names: BTreeSet<Word>,
    /// Activations that have been read.
    read: u64,
    jobs: Jobs,
    ends: Ends,
    /// Commitments whose alarm has been told.
    told: BTreeSet<Commitment>,
}

impl Watch {
    /// Nothing is known yet. After a start, [`Watch::log`] is given the registry's logs of at least the last `delay` blocks
    /// ([`state::governance`]): a name that waits for its first activation is in no list of the state.
    #[must_use]
    pub fn new(resident: Arc<Resident>, options: Options) -> Self {
        Self {
            jobs: Jobs::new(Arc::clone(&resident), options.retry),
            resident,
            options,
            names: BTreeSet::new(),
            read: 0,
            ends: Ends::default(),
            told: BTreeSet::new(),
        }
    }

    /// Learns names from a log of the registry, of any block on any fork.
    pub fn log(&mut self, topics: &[Word], data: &[u8]) {
        if let Some(Event::Passed { name, .. } | Event::Activated { name, .. }) =
            Event::parse(topics, data)
        {
            self.names.insert(name);
        }
    }

    /// Looks at the state after block `block`: begins what has to be got or loaded, lets go of what is not needed, and tells
    /// how far all are. It waits for no blob.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn observe<S: Storage + ?Sized>(
        &mut self,
        block: u64,
        state: &mut S,
    ) -> Result<Vec<Readiness>, Fault> {
        self.learn(state)?;
        let mut models = Vec::new();
        let mut lens = BTreeMap::new();
        for name in &self.names {
            let served = state::served(state, name)?.map(|commitment| (commitment, None));
            let pending = state::pending(state, name)?;
            let pending = (pending.version != 0)
                .then_some((Commitment(pending.commitment), Some(pending.block)));
            for (commitment, activation) in served.into_iter().chain(pending) {
                lens.insert(commitment, state::blob_len(state, &commitment)?);
                models.push((*name, commitment, activation));
            }
        }
        let needed: BTreeSet<Commitment> = lens.keys().copied().collect();
        self.resident.keep(needed.clone());
        self.jobs.want(&lens);
        let found = models.into_iter().map(|(name, commitment, activation)| {
            let progress = self.jobs.progress(commitment);
            let left = activation.map_or(0, |first| first.saturating_sub(block));
            Readiness {
                name,
                commitment,
                activation,
                alarm: !progress.is_ready() && left <= self.options.alarm,
                progress,
            }
        });
        let found: Vec<_> = found.collect();
        self.tell(block, &found);
        self.ends.observe(
            block,
            &needed,
            self.options.archive,
            self.resident.library().as_ref(),
        );
        Ok(found)
    }

    /// Names and ends from the list of activations.
    fn learn<S: Storage + ?Sized>(&mut self, state: &mut S) -> Result<(), Fault> {
        let count = state::activation_count(state)?;
        let from = self.read.min(count.saturating_sub(RECENT));
        for index in from..count {
            let activation = state::activation(state, index)?;
            self.names.insert(activation.name);
            self.ends.activated(&activation);
        }
        self.read = count;
        Ok(())
    }

    fn tell(&mut self, block: u64, models: &[Readiness]) {
        let alarms = models.iter().filter(|model| model.alarm).count();
        metrics::gauge!(names::ALARM).set(alarms as f64);
        for model in models {
            let labels = [("model", model.commitment.to_string())];
            let ready = f64::from(u8::from(model.progress.is_ready()));
            metrics::gauge!(names::READY, &labels).set(ready);
            let left = model
                .activation
                .map_or(0, |first| first.saturating_sub(block));
            metrics::gauge!(names::BLOCKS_LEFT, &labels).set(left as f64);
            if !model.alarm {
                self.told.remove(&model.commitment);
            } else if model.progress != Progress::Waiting && self.told.insert(model.commitment) {
                tracing::error!(
                    commitment = %model.commitment,
                    progress = %model.progress,
                    blocks_left = left,
                    "a model is not ready: the node stops at the first call of it"
                );
            }
        }
    }
}
