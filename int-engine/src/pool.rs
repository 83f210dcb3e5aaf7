//! Worker threads for one engine: a count given by the caller, no global state.
//!
//! Work is a number of independent parts that threads claim in any order. Parts write disjoint data,
//! so results never depend on the number of threads or on who did what.
#![allow(unsafe_code)]

use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Polls before a waiting thread gives up its processor: a few operations of a decode step.
const SPINS: usize = 1000;

type Task<'a> = &'a (dyn Fn(usize) + Sync);

/// A fixed set of persistent workers.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// One job at a time.
    turn: Mutex<()>,
}

struct Job {
    task: Task<'static>,
    parts: usize,
}

struct State {
    /// The job that workers may join; `None` once every part is claimed.
    job: Option<Job>,
    stop: bool,
    /// Workers that wait for a notification.
    sleepers: usize,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Changes with every job, under the lock; read without it by idle workers that poll.
    epoch: AtomicUsize,
    /// For each thread, the next of its own parts to claim.
    next: Box<[Counter]>,
    /// Workers inside the job. Raised under the lock while the job is there.
    active: AtomicUsize,
    panicked: AtomicBool,
}

/// A counter on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicUsize);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// The states behind the locks stay valid when a holder panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// `threads` threads in all: the caller of each job and `threads - 1` workers.
    ///
    /// Fewer when the system refuses to start one; results do not depend on it.
    #[must_use]
    pub(crate) fn new(threads: NonZeroUsize) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                job: None,
                stop: false,
                sleepers: 0,
            }),
            wake: Condvar::new(),
            epoch: AtomicUsize::new(0),
            next: (0..threads.get()).map(|_| Counter::default()).collect(),
            active: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
        });
        let workers = (1..threads.get())
            .map_while(|thread| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name("int-engine".into())
                    .spawn(move || shared.work(thread))
                    .ok()
            })
            .collect();
        Self {
            shared,
            workers,
            turn: Mutex::new(()),
        }
    }

    /// Threads that take part in a job, the caller included.
    #[must_use]
    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Which of `parts` parts a thread takes before those of others: each thread has as many as the others, or one less.
    #[must_use]
    pub(crate) fn own(&self, thread: usize, parts: usize) -> Range<usize> {
        self.shared.first(thread, parts)..self.shared.first(thread + 1, parts)
    }

    /// Calls `f(i, chunk)` once for the i-th chunk of `data`; all but the last are `len` long.
    ///
    /// # Panics
    /// If `len` is 0 or a call panics. A call must not use the pool itself.
    pub(crate) fn chunks_mut<T: Send>(
        &self,
        data: &mut [T],
        len: usize,
        f: impl Fn(usize, &mut [T]) + Sync,
    ) {
        if self.workers.is_empty() || data.len() <= len {
            for (i, chunk) in data.chunks_mut(len).enumerate() {
                f(i, chunk);
            }
            return;
        }
        // Each part is claimed once, so no lock is ever contended.
        let parts: Vec<_> = data.chunks_mut(len).map(Mutex::new).collect();
        self.run(parts.len(), &|i| f(i, &mut lock(&parts[i])));
    }

    /// Calls `f(i, part)` once for every part; a thread takes consecutive parts, those of its own first.
    ///
    /// # Panics
    /// If a call panics. A call must not use the pool itself.
    pub(crate) fn each<T: Send>(&self, parts: &mut [T], f: impl Fn(usize, &mut T) + Sync) {
        self.chunks_mut(parts, 1, |i, part| f(i, &mut part[0]));
    }

    /// Calls `main` once; meanwhile other threads may call `help(thread, done)`, which returns soon after `done`.
    ///
    /// # Panics
    /// If a call panics. Neither may give work to the pool.
    pub(crate) fn alongside(
        &self,
        main: impl FnOnce() + Send,
        help: impl Fn(usize, &AtomicBool) + Sync,
    ) {
        if self.workers.is_empty() {
            return main();
        }
        struct Done<'a>(&'a AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let (main, done) = (Mutex::new(Some(main)), AtomicBool::new(false));
        self.run(self.threads(), &|part| {
            if part > 0 {
                return help(part, &done);
            }
            let _done = Done(&done);
            if let Some(main) = lock(&main).take() {
                main();
            }
        });
    }

    fn run(&self, parts: usize, task: Task<'_>) {
        let turn = lock(&self.turn);
        // SAFETY: only the lifetime changes. Workers reach the task only through the job in `state` and only
        // while counted in `active`. Below, the job is withdrawn and `active` awaited at zero before this
        // function returns or unwinds: the code between cannot unwind, as the task's panics are caught.
        let task: Task<'static> = unsafe { std::mem::transmute::<Task<'_>, Task<'static>>(task) };
        let shared = &*self.shared;
        for (thread, next) in shared.next.iter().enumerate() {
            next.0.store(shared.first(thread, parts), Ordering::Relaxed);
        }
        shared.publish(|state| state.job = Some(Job { task, parts }));
        let outcome = catch_unwind(AssertUnwindSafe(|| shared.claim(task, parts, 0)));
        lock(&shared.state).job = None;
        let mut spins = 0;
        // Acquire: what the workers wrote is visible once their count is seen to fall.
        while shared.active.load(Ordering::Acquire) != 0 {
            wait_a_little(&mut spins);
        }
        let panicked = shared.panicked.swap(false, Ordering::Relaxed);
        drop(turn);
        if let Err(payload) = outcome {
            resume_unwind(payload);
        }
        assert!(!panicked, "a part of a parallel job panicked");
    }
}

fn wait_a_little(spins: &mut usize) {
    if *spins < SPINS {
        *spins += 1;
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

impl Shared {
    /// The first part of a thread's own: each has as many as the others, or one less.
    fn first(&self, thread: usize, parts: usize) -> usize {
        parts * thread / self.next.len()
    }

    /// Takes the thread's own parts, and then those that others have not come to.
    fn claim(&self, task: Task<'_>, parts: usize, thread: usize) {
        let threads = self.next.len();
        for owner in (thread..threads).chain(0..thread) {
            let end = self.first(owner + 1, parts);
            loop {
                let part = self.next[owner].0.fetch_add(1, Ordering::Relaxed);
                if part >= end {
                    break;
                }
                task(part);
            }
        }
    }

    /// Changes the state and wakes every worker. The epoch moves under the lock: a worker that found the old one
    /// holds the lock until it waits, so no notification falls between its look and its wait.
    fn publish(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        self.epoch.fetch_add(1, Ordering::Release);
        let asleep = state.sleepers > 0;
        drop(state);
        if asleep {
            self.wake.notify_all();
        }
    }

    fn work(&self, thread: usize) {
        let mut seen = 0;
        loop {
            let mut spins = 0;
            while self.epoch.load(Ordering::Acquire) == seen && spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            }
            let mut state = lock(&self.state);
            while !state.stop && self.epoch.load(Ordering::Acquire) == seen {
                state.sleepers += 1;
                state = self
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.sleepers -= 1;
            }
            if state.stop {
                return;
            }
            seen = self.epoch.load(Ordering::Acquire);
            let Some(Job { task, parts }) = state.job else {
                continue;
            };
            self.active.fetch_add(1, Ordering::Relaxed);
            drop(state);
            if catch_unwind(AssertUnwindSafe(|| self.claim(task, parts, thread))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.active.fetch_sub(1, Ordering::Release);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.publish(|state| state.stop = true);
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its tasks, so there is nothing to learn from the result.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(threads: usize) -> Pool {
        Pool::new(NonZeroUsize::new(threads).unwrap())
    }

    #[test]
    fn every_chunk_once_for_any_thread_count() {
        for threads in [1, 2, 3, 8] {
            let pool = pool(threads);
            assert_eq!(pool.threads(), threads);
            for len in [0usize, 1, 2, 63, 64, 65, 1000] {
                for chunk in [1, 7, 64, 2000] {
                    let mut data = vec![0usize; len];
                    pool.chunks_mut(&mut data, chunk, |i, part| {
                        for (j, v) in part.iter_mut().enumerate() {
                            *v += i * chunk + j + 1;
                        }
                    });
                    assert!(
                        data.iter().enumerate().all(|(i, &v)| v == i + 1),
                        "{threads} {len} {chunk}"
                    );
                }
            }
        }
    }

    #[test]
    fn many_short_jobs_from_several_callers() {
        let pool = pool(3);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 0..2000u64 {
                        let mut data = [round; 5];
                        pool.chunks_mut(&mut data, 1, |i, part| part[0] += i as u64);
                        assert_eq!(data, [0, 1, 2, 3, 4].map(|i| round + i));
                    }
                });
            }
        });
    }

    #[test]
    fn helpers_end_with_the_main_work() {
        for threads in [1, 2, 5] {
            let pool = pool(threads);
            for round in 0..2000u64 {
                let mut value = 0;
                let helped = AtomicUsize::new(0);
                pool.alongside(
                    || value = round,
                    |thread, done| {
                        assert!((1..threads).contains(&thread));
                        while !done.load(Ordering::Acquire) {
                            std::hint::spin_loop();
                        }
                        helped.fetch_add(1, Ordering::Relaxed);
                    },
                );
                assert_eq!((value, helped.into_inner()), (round, threads - 1));
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.alongside(
                    || panic!("main"),
                    |_, done| {
                        while !done.load(Ordering::Acquire) {
                            std::hint::spin_loop();
                        }
                    },
                );
            }));
            assert!(outcome.is_err());
        }
    }

    /// What a worker sees between its look at the epoch and its wait: nothing moves.
    #[test]
    fn the_epoch_stands_still_under_the_lock() {
        let pool = pool(1);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    pool.shared.publish(|_| {});
                }
            });
            let moved = (0..2000).any(|_| {
                let state = lock(&pool.shared.state);
                let before = pool.shared.epoch.load(Ordering::Acquire);
                for _ in 0..2 * SPINS {
                    std::hint::spin_loop();
                }
                let moved = pool.shared.epoch.load(Ordering::Acquire) != before;
                drop(state);
                std::thread::yield_now();
                moved
            });
            stop.store(true, Ordering::Relaxed);
            assert!(!moved, "a notification may come before the wait");
        });
    }

    /// Both parts of a job are done only when both threads are in it, so one lost wake-up fails the test.
    #[test]
    fn every_job_wakes_a_sleeping_worker() {
        let pool = pool(2);
        for round in 0..30_000u32 {
            // Pauses around the time at which the worker stops polling and goes to sleep.
            for _ in 0..round % (4 * SPINS as u32) {
                std::hint::spin_loop();
            }
            let inside = AtomicUsize::new(0);
            pool.chunks_mut(&mut [(); 2], 1, |_, _| {
                inside.fetch_add(1, Ordering::Relaxed);
                let start = std::time::Instant::now();
                while inside.load(Ordering::Relaxed) < 2 {
                    assert!(start.elapsed().as_secs() < 20, "round {round}: alone");
                    std::thread::yield_now();
                }
            });
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        let pool = pool(2);
        for bad in 0..8 {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.chunks_mut(&mut [0; 8], 1, |i, _| assert_ne!(i, bad, "part"));
            }));
            assert!(outcome.is_err());
            let mut data = [0; 8];
            pool.chunks_mut(&mut data, 1, |i, part| part[0] = i);
            assert_eq!(data, [0, 1, 2, 3, 4, 5, 6, 7]);
        }
    }
}
