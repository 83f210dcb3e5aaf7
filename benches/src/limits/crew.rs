//! Threads that start together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A barrier for `threads` threads that never give up their processors, as the threads of a decode step do not.
pub struct Crew {
    threads: usize,
    arrived: AtomicUsize,
}

impl Crew {
    /// A barrier for `threads` threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            arrived: AtomicUsize::new(0),
        }
    }

    /// Returns when every thread has called this as often as the caller.
    pub fn meet(&self) {
        // AcqRel: what each wrote before is visible to all after.
        let mine = self.arrived.fetch_add(1, Ordering::AcqRel);
        let all = (mine / self.threads + 1) * self.threads;
        let mut polls = 0u32;
        while self.arrived.load(Ordering::Acquire) < all {
            std::hint::spin_loop();
            polls = polls.wrapping_add(1);
            // With more threads than processors the missing one may need this one's.
            if polls.is_multiple_of(4096) {
                std::thread::yield_now();
            }
        }
    }
}

/// Calls `work(t)` on `threads` threads that start together. Returns the seconds from the first start to the last end,
/// and the results in the order of t.
///
/// # Panics
/// When a call panics.
pub fn together<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> (f64, Vec<T>) {
    let crew = Crew::new(threads);
    let run = |t: usize| {
        crew.meet();
        let start = Instant::now();
        let result = work(t);
        (start, Instant::now(), result)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|t| {
                let run = &run;
                scope.spawn(move || run(t))
            })
            .collect();
        let first = run(0);
        let others = others
            .into_iter()
            .map(|thread| thread.join().expect("the work does not panic"));
        std::iter::once(first).chain(others).collect()
    });
    let start = results.iter().map(|r| r.0).min();
    let end = results.iter().map(|r| r.1).max();
    let seconds = match (start, end) {
        (Some(start), Some(end)) => (end - start).as_secs_f64(),
        _ => 0.0,
    };
    (seconds, results.into_iter().map(|r| r.2).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_meetings_hold() {
        let crew = Crew::new(3);
        let met = AtomicUsize::new(0);
        let (seconds, results) = together(3, |t| {
            for round in 0..100 {
                met.fetch_add(1, Ordering::Relaxed);
                crew.meet();
                assert_eq!(met.load(Ordering::Relaxed), 3 * (round + 1));
                crew.meet();
            }
            t * t
        });
        assert!(seconds > 0.0);
        assert_eq!(results, [0, 1, 4]);
    }
}
