//! What the threads of a fetch share: which source may be asked, and for what.

use super::queue::{Queue, Run};
use super::report::{Fault, MOST_FAULTS, SourceReport, Trouble};
use super::source::{Request, Source, SourceError};
use super::{MOST_BACKOFF, Options};
use crate::store::What;
use int_engine::commitment::Commitment;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread sleeps at most before it looks again.
const LOOK: Duration = Duration::from_millis(100);

pub(super) struct Board {
    pub(super) commitment: Commitment,
    pub(super) sources: Vec<Arc<dyn Source>>,
    pub(super) options: Options,
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    seats: Vec<Seat>,
    queue: Queue,
    proved: bool,
    stopped: bool,
}

impl State {
    fn credit(&mut self, source: usize, bytes: u64) {
        if let Some(seat) = self.seats.get_mut(source) {
            seat.report.chunks += 1;
            seat.report.bytes += bytes;
            seat.failures = 0;
            let name = seat.report.name.clone();
            metrics::counter!(crate::metric_names::FETCH_BYTES, "source" => name).increment(bytes);
        }
    }
}

/// What is known of a source.
struct Seat {
    report: SourceReport,
    /// Failed rounds since it last gave something.
    failures: u32,
    /// Counts rounds: failures of requests that were made before the last failure are not counted again.
    round: u64,
    retry_at: Instant,
}

/// The round in which a request was made.
#[derive(Clone, Copy)]
pub(super) struct Round(u64);

impl Board {
    pub(super) fn new(
        commitment: Commitment,
        sources: &[Arc<dyn Source>],
        options: &Options,
    ) -> Self {
        let seat = |source: &Arc<dyn Source>| Seat {
            report: SourceReport {
                name: source.name().to_string(),
                ..SourceReport::default()
            },
            failures: 0,
            round: 0,
            retry_at: Instant::now(),
        };
        Self {
            commitment,
            sources: sources.to_vec(),
            options: options.clone(),
            state: Mutex::new(State {
                seats: sources.iter().map(seat).collect(),
                queue: Queue::new(vec![]),
                proved: false,
                stopped: false,
            }),
            wake: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All threads end as soon as their requests do; nothing that they bring is taken.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.wake.notify_all();
    }

    /// The first proof has been found; `false` when there was one before.
    pub(super) fn prove(&self) -> bool {
        let mut state = self.lock();
        !std::mem::replace(&mut state.proved, true)
    }

    pub(super) fn is_proved(&self) -> bool {
        let state = self.lock();
        state.proved || state.stopped
    }

    /// Sets what is missing.
    pub(super) fn want(&self, held: &[bool]) {
        self.lock().queue = Queue::new(held.to_vec());
    }

    pub(super) fn reports(&self) -> Vec<SourceReport> {
        let state = self.lock();
        state.seats.iter().map(|s| s.report.clone()).collect()
    }

    /// Asks a source; a panic in it is its fault.
    pub(super) fn ask(
        &self,
        source: usize,
        what: What,
        range: Range<u64>,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Trouble> {
        let bytes = range.end.saturating_sub(range.start);
        let request = Request {
            commitment: self.commitment,
            what,
            range,
            stall: self.options.stall,
            limit: self.options.limit(bytes),
        };
        let Some(source) = self.sources.get(source) else {
            return Err(SourceError::Absent.into());
        };
        match catch_unwind(AssertUnwindSafe(|| source.read(&request, take))) {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Trouble::Panicked),
        }
    }

    /// Waits until the source may be asked; `None` when it is never again.
    pub(super) fn turn(&self, source: usize) -> Option<Round> {
        let mut state = self.lock();
        loop {
            let seat = state.seats.get(source)?;
            if state.stopped || seat.report.given_up {
                return None;
            }
            let wait = seat.retry_at.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Some(Round(seat.round));
            }
            state = self.sleep(state, wait);
        }
    }

    fn sleep<'a>(&'a self, state: MutexGuard<'a, State>, wait: Duration) -> MutexGuard<'a, State> {
        let woken = self.wake.wait_timeout(state, wait.min(LOOK));
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for chunks that the source is to get; `None` when there will be none.
    pub(super) fn claim(&self, source: usize) -> Option<(Run, Round)> {
        loop {
            let round = self.turn(source)?;
            let mut state = self.lock();
            if state.queue.missing() == 0 {
                return None;
            }
            let (now, options) = (Instant::now(), &self.options);
            let able = state.seats.iter().filter(|s| !s.report.given_up).count();
            let workers = able * options.connections.get();
            let run = state
                .queue
                .take(source, workers, options.run_chunks(), now)
                .or_else(|| state.queue.take_over(source, options.patience, now));
            if let Some(run) = run {
                return Some((run, round));
            }
            drop(self.sleep(state, LOOK));
        }
    }

    /// Whether any of these chunks is still missing and anybody waits for it.
    pub(super) fn is_wanted(&self, mut chunks: Range<u64>) -> bool {
        let state = self.lock();
        !state.stopped && chunks.any(|index| !state.queue.is_got(index))
    }

    /// A right chunk has come; `false` when it was there already or nobody waits for it.
    pub(super) fn got(&self, source: usize, index: u64, bytes: u64) -> bool {
        let mut state = self.lock();
        if state.stopped || !state.queue.mark(index) {
            return false;
        }
        let all = state.queue.missing() == 0;
        state.credit(source, bytes);
        drop(state);
        if all {
            self.wake.notify_all();
        }
        true
    }

    /// Counts a chunk that came before the queue was made.
    pub(super) fn credit(&self, source: usize, bytes: u64) {
        self.lock().credit(source, bytes);
    }

    /// A run is over, well or not.
    pub(super) fn settle(&self, source: usize, run: &Run, round: Round, fault: Option<Fault>) {
        if let Some(fault) = fault {
            self.fault(source, round, fault);
        }
        self.lock().queue.settle(run);
        self.wake.notify_all();
    }

    /// Notes a fault. A source is given up at once for what asking again does not change, and after some rounds otherwise.
    pub(super) fn fault(&self, source: usize, round: Round, fault: Fault) {
        let mut state = self.lock();
        if state.stopped {
            return;
        }
        let Some(seat) = state.seats.get_mut(source) else {
            return;
        };
        let name = seat.report.name.clone();
        let kind = fault.trouble.kind();
        if fault.trouble == Trouble::Source(SourceError::Absent) {
            tracing::info!(source = name, commitment = %self.commitment, "{fault}");
        } else {
            tracing::warn!(source = name, commitment = %self.commitment, "{fault}");
        }
        metrics::counter!(crate::metric_names::FETCH_FAULTS, "source" => name, "kind" => kind)
            .increment(1);
        seat.report.fault_count += 1;
        if !fault.trouble.may_pass() {
            seat.report.given_up = true;
        } else if seat.round == round.0 {
            seat.round += 1;
            seat.failures += 1;
            seat.report.given_up |= seat.failures >= self.options.tries.get();
            let doublings = seat.failures.saturating_sub(1).min(16);
            let wait = self.options.backoff.saturating_mul(1 << doublings);
            seat.retry_at = Instant::now() + wait.min(MOST_BACKOFF);
        }
        if seat.report.faults.len() < MOST_FAULTS {
            seat.report.faults.push(fault);
        } else if fault.trouble.is_lie() {
            seat.report.faults.pop();
            seat.report.faults.push(fault);
        }
        drop(state);
        self.wake.notify_all();
    }

    /// Notes that a source has no leaves; it may still have the blob.
    pub(super) fn no_leaves(&self, source: usize) {
        if let Some(seat) = self.lock().seats.get_mut(source) {
            seat.report.fault_count += 1;
            seat.report.faults.push(Fault {
                chunk: None,
                trouble: Trouble::Source(SourceError::Absent),
            });
        }
    }
}
