//! Threads that get blobs and load models.

use crate::models::Resident;
use int_engine::commitment::Commitment;
use precompile::Lookup;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Models that are prepared at the same time.
const MOST: usize = 4;

/// How far a model's preparation is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It waits for its turn.
    Waiting,
    /// Its blob is being fetched.
    Fetching {
        /// Bytes that are there.
        done: u64,
        /// Bytes in all, 0 while unknown.
        total: u64,
    },
    /// Its blob is being loaded and compared.
    Loading,
    /// In memory: calls are answered.
    Ready,
    /// Its blob is refused by section 4: calls are answered, with BadModel.
    Refused,
    /// Not now: why, and another attempt follows.
    Failed(String),
}

impl Progress {
    const fn of(lookup: &Lookup) -> Self {
        match lookup {
            Lookup::Ready(_) => Self::Ready,
            Lookup::Refused => Self::Refused,
        }
    }

    /// Whether calls are answered.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        matches!(self, Self::Ready | Self::Refused)
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => f.write_str("waiting"),
            Self::Fetching { done, total } => write!(f, "fetching, {done} of {total} bytes"),
            Self::Loading => f.write_str("loading"),
            Self::Ready => f.write_str("ready"),
            Self::Refused => f.write_str("refused by its format's rules"),
            Self::Failed(reason) => write!(f, "failed: {reason}"),
        }
    }
}

struct Job {
    progress: Progress,
    running: bool,
    /// Before this, nobody tries again.
    not_before: Instant,
}

type Table = Arc<Mutex<BTreeMap<Commitment, Job>>>;

/// What is being prepared. Dropping it ends the threads soon.
pub(super) struct Jobs {
    resident: Arc<Resident>,
    retry: Duration,
    table: Table,
    stop: Arc<AtomicBool>,
}

fn lock(table: &Table) -> MutexGuard<'_, BTreeMap<Commitment, Job>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Jobs {
    pub(super) fn new(resident: Arc<Resident>, retry: Duration) -> Self {
        Self {
            resident,
            retry,
            table: Table::default(),
            stop: Arc::default(),
        }
    }

    /// Forgets what is not wanted and does not run, and begins what is wanted and not ready; the lengths are those of the
    /// blobs, where they are known.
    pub(super) fn want(&self, models: &BTreeMap<Commitment, Option<u64>>) {
        let mut table = lock(&self.table);
        table.retain(|commitment, job| job.running || models.contains_key(commitment));
        let now = Instant::now();
        for (&commitment, &len) in models {
            let job = table.entry(commitment).or_insert_with(|| Job {
                progress: Progress::Waiting,
                running: false,
                not_before: now,
            });
            if job.running {
                continue;
            }
            // A model that was let go of is loaded again.
            if let Some(found) = self.resident.found(commitment) {
                job.progress = Progress::of(&found);
                continue;
            }
            if now < job.not_before {
                continue;
            }
            if !matches!(job.progress, Progress::Failed(_)) {
                job.progress = Progress::Waiting;
            }
            if table.values().filter(|job| job.running).count() < MOST {
                self.begin(&mut table, commitment, len);
            }
        }
    }

    pub(super) fn progress(&self, commitment: Commitment) -> Progress {
        let table = lock(&self.table);
        let found = table.get(&commitment).map(|job| job.progress.clone());
        found.unwrap_or(Progress::Waiting)
    }

    fn begin(
        &self,
        table: &mut BTreeMap<Commitment, Job>,
        commitment: Commitment,
        len: Option<u64>,
    ) {
        let task = Task {
            commitment,
            len,
            resident: Arc::clone(&self.resident),
            table: Arc::clone(&self.table),
            stop: Arc::clone(&self.stop),
        };
        let retry = self.retry;
        let started = std::thread::Builder::new()
            .name("blue-prepare".into())
            .spawn(move || task.run(retry));
        let Some(job) = table.get_mut(&commitment) else {
            return;
        };
        match started {
            Ok(_) => job.running = true,
            Err(error) => job.progress = Progress::Failed(format!("no thread: {error}")),
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Task {
    commitment: Commitment,
    len: Option<u64>,
    resident: Arc<Resident>,
    table: Table,
    stop: Arc<AtomicBool>,
}

impl Task {
    fn set(&self, progress: Progress) {
        if let Some(job) = lock(&self.table).get_mut(&self.commitment) {
            job.progress = progress;
        }
    }

    fn run(&self, retry: Duration) {
        let done = catch_unwind(AssertUnwindSafe(|| self.prepare()));
        let progress = match done {
            Ok(Ok(lookup)) => Progress::of(&lookup),
            Ok(Err(reason)) => Progress::Failed(reason),
            Err(_) => Progress::Failed("the preparation panicked".into()),
        };
        if let Progress::Failed(reason) = &progress {
            tracing::warn!(commitment = %self.commitment, reason, "a model is not ready yet");
        }
        if let Some(job) = lock(&self.table).get_mut(&self.commitment) {
            job.running = false;
            job.not_before = match progress {
                Progress::Failed(_) => Instant::now() + retry,
                _ => Instant::now(),
            };
            job.progress = progress;
        }
    }

    fn prepare(&self) -> Result<Lookup, String> {
        let library = self.resident.library();
        let there = library.open(self.commitment).map_err(|e| e.to_string())?;
        if there.is_none() {
            self.set(Progress::Fetching { done: 0, total: 0 });
            library.fetch(self.commitment, self.len, &|done, total| {
                self.set(Progress::Fetching { done, total });
                match self.stop.load(Ordering::Relaxed) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })?;
        }
        drop(there);
        self.set(Progress::Loading);
        let lookup = self.resident.prepare(self.commitment);
        lookup.map_err(|fault| fault.to_string())
    }
}
