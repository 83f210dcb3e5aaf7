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

/// A model that is wanted.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// Length of its blob, where the chain says it.
    pub(super) len: Option<u64>,
    /// Blocks until it can be active.
    pub(super) left: u64,
}

struct Job {
    progress: Progress,
    running: bool,
    /// Ends what runs, as soon as it hears of it.
    stop: Arc<AtomicBool>,
    /// Before this, nobody tries again.
    not_before: Instant,
}

type Table = Arc<Mutex<BTreeMap<Commitment, Job>>>;

/// What is being prepared. Dropping it ends the threads soon.
pub(super) struct Jobs {
    resident: Arc<Resident>,
    retry: Duration,
    table: Table,
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
        }
    }

    /// Ends and forgets what is not wanted, and begins what is and is not ready: first what is active soonest.
    pub(super) fn want(&self, models: &BTreeMap<Commitment, Wanted>) {
        let mut table = lock(&self.table);
        table.retain(|commitment, job| {
            let wanted = models.contains_key(commitment);
            job.stop.store(!wanted, Ordering::Relaxed);
            job.running || wanted
        });
        let now = Instant::now();
        let mut order: Vec<_> = models.iter().collect();
        order.sort_by_key(|(_, wanted)| wanted.left);
        for (&commitment, wanted) in order {
            let job = table.entry(commitment).or_insert_with(|| Job {
                progress: Progress::Waiting,
                running: false,
                stop: Arc::default(),
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
                self.begin(&mut table, commitment, wanted.len);
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
        let Some(job) = table.get_mut(&commitment) else {
            return;
        };
        let task = Task {
            commitment,
            len,
            resident: Arc::clone(&self.resident),
            table: Arc::clone(&self.table),
            stop: Arc::clone(&job.stop),
        };
        let retry = self.retry;
        let started = std::thread::Builder::new()
            .name("blue-prepare".into())
            .spawn(move || task.run(retry));
        match started {
            Ok(_) => job.running = true,
            Err(error) => job.progress = Progress::Failed(format!("no thread: {error}")),
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for job in lock(&self.table).values() {
            job.stop.store(true, Ordering::Relaxed);
        }
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
            // One line, for logs and probes.
            Ok(Err(reason)) => Progress::Failed(reason.replace("\n  ", "; ").replace('\n', "; ")),
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
