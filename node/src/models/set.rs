//! Which models are in memory, and which may go.

use super::{CrossCheckError, Purpose, Ready};
use int_engine::commitment::Commitment;
use precompile::{Fault, Lookup};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of a commitment.
enum State {
    /// A thread loads it.
    Loading,
    /// In memory.
    Ready(Arc<Ready>),
    /// Its bytes are refused by section 4.
    Refused,
    /// This machine computes it wrongly.
    Wrong(Fault),
}

struct Entry {
    state: State,
    /// Bytes that count for it.
    bytes: u64,
    /// The time of the last use.
    used: u64,
    /// Loaded for a block while nobody had said what to keep.
    asked: bool,
}

/// What a thread that wants a model does.
pub(super) enum Claim {
    /// Takes it.
    Found(Lookup),
    /// Has this fault.
    Wrong(Fault),
    /// Waits for the thread that loads it.
    Wait,
    /// Loads it and ends with [`Set::end`].
    Yours,
}

/// A model in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelStatus {
    /// The commitment.
    pub commitment: Commitment,
    /// Bytes that count for it.
    pub bytes: u64,
    /// Whether it stays whatever else is needed.
    pub pinned: bool,
}

pub(super) struct Set {
    memory: u64,
    entries: BTreeMap<Commitment, Entry>,
    /// What must stay; `None` while nobody has said.
    kept: Option<BTreeSet<Commitment>>,
    /// Counts uses.
    time: u64,
}

impl Set {
    pub(super) fn new(memory: u64) -> Self {
        Self {
            memory,
            entries: BTreeMap::new(),
            kept: None,
            time: 0,
        }
    }

    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// Bytes that count for all models, those that are being loaded included.
    pub(super) fn taken(&self) -> u64 {
        self.entries.values().map(|entry| entry.bytes).sum()
    }

    fn pinned(&self, commitment: Commitment) -> bool {
        match &self.kept {
            Some(kept) => kept.contains(&commitment),
            None => self.entries.get(&commitment).is_some_and(|e| e.asked),
        }
    }

    pub(super) fn keep(&mut self, commitments: BTreeSet<Commitment>) {
        self.kept = Some(commitments);
    }

    pub(super) fn status(&self) -> Vec<ModelStatus> {
        let ready = |(&commitment, entry): (&Commitment, &Entry)| {
            matches!(entry.state, State::Ready(_)).then(|| ModelStatus {
                commitment,
                bytes: entry.bytes,
                pinned: self.pinned(commitment),
            })
        };
        self.entries.iter().filter_map(ready).collect()
    }

    pub(super) fn ready(&self, commitment: Commitment) -> Option<Arc<Ready>> {
        match &self.entries.get(&commitment)?.state {
            State::Ready(ready) => Some(Arc::clone(ready)),
            _ => None,
        }
    }

    /// Forgets which engines were wrong.
    pub(super) fn forgive(&mut self) {
        self.entries
            .retain(|_, entry| !matches!(entry.state, State::Wrong(_)));
    }

    /// The answer of a commitment that is no longer loading.
    pub(super) fn found(&mut self, commitment: Commitment, purpose: Purpose) -> Option<Lookup> {
        self.time += 1;
        let time = self.time;
        let entry = self.entries.get_mut(&commitment)?;
        entry.used = time;
        match &entry.state {
            State::Loading | State::Wrong(_) => None,
            State::Ready(ready) => Some(ready.engine(purpose)),
            State::Refused => Some(Lookup::Refused),
        }
    }

    pub(super) fn claim(&mut self, commitment: Commitment) -> Claim {
        if let Some(lookup) = self.found(commitment, Purpose::Blocks) {
            return Claim::Found(lookup);
        }
        match self.entries.get(&commitment).map(|entry| &entry.state) {
            Some(State::Wrong(fault)) => return Claim::Wrong(fault.clone()),
            Some(_) => return Claim::Wait,
            None => {}
        }
        let entry = Entry {
            state: State::Loading,
            bytes: 0,
            used: self.time,
            asked: self.kept.is_none(),
        };
        self.entries.insert(commitment, entry);
        Claim::Yours
    }

    /// Makes room for a model that is being loaded, by letting go of models that need not stay; they are handed back to be
    /// freed.
    pub(super) fn reserve(
        &mut self,
        commitment: Commitment,
        bytes: u64,
    ) -> Result<impl Sized + use<>, Fault> {
        let stays = |set: &Self, c: Commitment, entry: &Entry| {
            set.pinned(c) || matches!(entry.state, State::Loading)
        };
        let entries = self.entries.iter();
        let pinned: u64 = entries
            .filter(|&(&c, entry)| c != commitment && stays(self, c, entry))
            .map(|(_, entry)| entry.bytes)
            .sum();
        if pinned.saturating_add(bytes) > self.memory {
            return Err(Fault::Missing {
                commitment,
                reason: format!(
                    "it takes {bytes} bytes of memory; of {} for models {pinned} belong to models that must stay. \
                     Raise the limit",
                    self.memory
                ),
            });
        }
        let mut gone = Vec::new();
        while self.taken().saturating_add(bytes) > self.memory {
            let free = self.entries.iter();
            let free = free.filter(|&(&c, entry)| !stays(self, c, entry) && entry.bytes > 0);
            let Some((&oldest, _)) = free.min_by_key(|(_, entry)| entry.used) else {
                break;
            };
            tracing::info!(commitment = %oldest, "model let go of to make room");
            gone.extend(self.entries.remove(&oldest));
        }
        if let Some(entry) = self.entries.get_mut(&commitment) {
            entry.bytes = bytes;
        }
        Ok(gone)
    }

    /// The end of a load: what waiting threads find, and the answer of the loading one.
    pub(super) fn end(
        &mut self,
        commitment: Commitment,
        loaded: Result<Option<Ready>, CrossCheckError>,
    ) -> Result<Lookup, Fault> {
        let entry = self.entries.get_mut(&commitment);
        let Some(entry) = entry else {
            return Err(Fault::Panic("a load ends that nobody began".into()));
        };
        match loaded {
            Ok(Some(ready)) => {
                let ready = Arc::new(ready);
                entry.state = State::Ready(Arc::clone(&ready));
                Ok(ready.engine(Purpose::Blocks))
            }
            Ok(None) => {
                entry.state = State::Refused;
                entry.bytes = 0;
                Ok(Lookup::Refused)
            }
            Err(error @ CrossCheckError::Differs { .. }) => {
                let fault = Fault::from(error);
                entry.state = State::Wrong(fault.clone());
                entry.bytes = 0;
                Err(fault)
            }
            Err(CrossCheckError::Fault(fault)) => {
                self.entries.remove(&commitment);
                Err(fault)
            }
        }
    }
}
