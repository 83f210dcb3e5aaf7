//! Models made ready before they are active, and blobs kept as long as they are needed.
//!
//! A [`Watch`] is shown every block's state: it learns which commitments are active or wait for activation, fetches and loads
//! what is missing on threads of its own, and tells what is not ready. When an activation comes, the model is in memory
//! already: nothing is switched, calls ask for another commitment.

mod archive;
mod jobs;
mod known;

pub use archive::Archive;
pub use jobs::Progress;

use crate::metric_names as names;
use crate::models::Resident;
use archive::Ends;
use int_engine::commitment::Commitment;
use jobs::{Jobs, Wanted};
use known::Known;
use precompile::Fault;
use precompile::registry::Event;
use precompile::registry::state::{self, Activation, Storage};
use precompile::word::Word;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Activations that are compared at a time to find where a reorganisation has changed the list.
const RUN: usize = 64;

/// How a node watches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Blocks before an activation from which on a model that is not ready is an alarm.
    pub alarm: u64,
    /// Which blobs stay on disk.
    pub archive: Archive,
    /// Time between a failed attempt to get or load a blob and the next one.
    pub retry: Duration,
    /// A file that keeps the names of the registry that the node has seen. An adoption waits for its activation without a
    /// limit, and a name that was never active is in no list of the state: without the file, [`Watch::log`] must be given
    /// every `Passed` event since the registry began after each start.
    pub names: Option<PathBuf>,
}

impl Default for Options {
    /// An alarm an hour of 12-second blocks ahead, every blob kept, attempts every 15 seconds, no file of names.
    fn default() -> Self {
        Self {
            alarm: 300,
            archive: Archive::All,
            retry: Duration::from_secs(15),
            names: None,
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

/// Blocks from `block` on until a model can be active, 0 for one that is.
fn blocks_left(activation: Option<u64>, block: u64) -> u64 {
    activation.map_or(0, |first| first.saturating_sub(block))
}

/// Keeps the models of a chain ready.
pub struct Watch {
    resident: Arc<Resident>,
    options: Options,
    known: Known,
    /// The list of activations as it was read last.
    list: Vec<Activation>,
    jobs: Jobs,
    ends: Ends,
    /// Commitments whose alarm has been told.
    told: BTreeSet<Commitment>,
    /// Commitments whose gauges have been set.
    shown: BTreeSet<Commitment>,
}

impl Watch {
    /// Knows the names of [`Options::names`].
    ///
    /// # Errors
    /// When that file cannot be read, or holds something else.
    pub fn new(resident: Arc<Resident>, options: Options) -> io::Result<Self> {
        Ok(Self {
            jobs: Jobs::new(Arc::clone(&resident), options.retry),
            resident,
            known: Known::open(options.names.clone())?,
            options,
            list: Vec::new(),
            ends: Ends::default(),
            told: BTreeSet::new(),
            shown: BTreeSet::new(),
        })
    }

    /// Learns names from a log of the registry, of any block on any fork.
    pub fn log(&mut self, topics: &[Word], data: &[u8]) {
        if let Some(Event::Passed { name, .. } | Event::Activated { name, .. }) =
            Event::parse(topics, data)
        {
            self.known.insert(name);
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
        if let Err(error) = self.known.save() {
            tracing::error!(%error, "the names of the registry cannot be kept");
        }
        let mut models = Vec::new();
        let mut wanted = BTreeMap::new();
        for name in self.known.iter() {
            let served = state::served(state, name)?.map(|commitment| (commitment, None));
            let pending = state::pending(state, name)?;
            let pending = (pending.version != 0)
                .then_some((Commitment(pending.commitment), Some(pending.block)));
            for (commitment, activation) in served.into_iter().chain(pending) {
                let left = blocks_left(activation, block);
                let len = state::blob_len(state, &commitment)?;
                let want = wanted.entry(commitment).or_insert(Wanted { len, left });
                want.left = want.left.min(left);
                models.push((*name, commitment, activation));
            }
        }
        let needed: BTreeSet<Commitment> = wanted.keys().copied().collect();
        self.resident.keep(needed.clone());
        self.jobs.want(&wanted);
        let found = models.into_iter().map(|(name, commitment, activation)| {
            let progress = self.jobs.progress(commitment);
            let left = blocks_left(activation, block);
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

    /// Names and ends from the list of activations, of which a reorganisation may have changed the end.
    fn learn<S: Storage + ?Sized>(&mut self, state: &mut S) -> Result<(), Fault> {
        let count = state::activation_count(state)?;
        let damaged = |_| Fault::State(format!("the registry counts {count} activations"));
        let count = u32::try_from(count).map_err(damaged)? as usize;
        self.list.truncate(count);
        let mut same = self.list.len();
        while same > 0 {
            let first = same.saturating_sub(RUN);
            let mut equal = true;
            for index in first..same {
                equal &= state::activation(state, index as u64)? == self.list[index];
            }
            if equal {
                break;
            }
            same = first;
        }
        self.list.truncate(same);
        for index in same..count {
            let activation = state::activation(state, index as u64)?;
            self.known.insert(activation.name);
            self.ends.activated(&activation);
            self.list.push(activation);
        }
        Ok(())
    }

    fn tell(&mut self, block: u64, models: &[Readiness]) {
        let alarms = models.iter().filter(|model| model.alarm).count();
        metrics::gauge!(names::ALARM).set(alarms as f64);
        let now: BTreeSet<_> = models.iter().map(|model| model.commitment).collect();
        for commitment in std::mem::take(&mut self.shown).difference(&now) {
            let labels = [("model", commitment.to_string())];
            metrics::gauge!(names::READY, &labels).set(0.0);
            metrics::gauge!(names::BLOCKS_LEFT, &labels).set(0.0);
        }
        self.shown = now;
        for model in models {
            let labels = [("model", model.commitment.to_string())];
            let ready = f64::from(u8::from(model.progress.is_ready()));
            metrics::gauge!(names::READY, &labels).set(ready);
            let left = blocks_left(model.activation, block);
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
