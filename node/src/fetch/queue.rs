//! Which chunks are wanted, and who is getting which.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Sources that may get the same chunk at once.
const MOST_HOLDERS: u8 = 3;

/// A run of chunks that a source is getting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Run {
    id: u64,
    pub(super) chunks: Range<u64>,
}

/// As [`Run`], with who and since when.
struct Held {
    run: Run,
    source: usize,
    since: Instant,
}

/// The chunks that are missing. Each is wanted, held by one source or more, or got.
pub(super) struct Queue {
    wanted: VecDeque<Range<u64>>,
    held: Vec<Held>,
    got: Vec<bool>,
    holders: Vec<u8>,
    missing: u64,
    next_id: u64,
}

impl Queue {
    /// The chunks that are not `got`.
    pub(super) fn new(got: Vec<bool>) -> Self {
        let mut queue = Self {
            wanted: VecDeque::new(),
            held: vec![],
            holders: vec![0; got.len()],
            missing: got.iter().filter(|got| !**got).count() as u64,
            got,
            next_id: 0,
        };
        queue.want(0..queue.got.len() as u64);
        queue
    }

    /// Chunks that have not been got.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// The next chunks for `source`: at most `most`, fewer when little is left for `workers`.
    pub(super) fn take(
        &mut self,
        source: usize,
        workers: usize,
        most: u64,
        now: Instant,
    ) -> Option<Run> {
        let left: u64 = self.wanted.iter().map(|r| r.end - r.start).sum();
        let share = left
            .div_ceil(2 * workers.max(1) as u64)
            .clamp(1, most.max(1));
        let mut next = self.wanted.pop_front()?;
        let end = next.end.min(next.start + share);
        let chunks = next.start..end;
        next.start = end;
        if !next.is_empty() {
            self.wanted.push_front(next);
        }
        Some(self.hold(source, chunks, now))
    }

    /// Chunks that another source has held for longer than `patience`, the longest held first.
    pub(super) fn take_over(
        &mut self,
        source: usize,
        patience: Duration,
        now: Instant,
    ) -> Option<Run> {
        let mut others: Vec<&Held> = self
            .held
            .iter()
            .filter(|h| h.source != source && now.saturating_duration_since(h.since) >= patience)
            .collect();
        others.sort_by_key(|h| h.since);
        let free = |index: u64| {
            let mine = |h: &&Held| h.source == source && h.run.chunks.contains(&index);
            !self.is_got(index)
                && self.holders.get(index as usize) < Some(&MOST_HOLDERS)
                && !self.held.iter().any(|h| mine(&h))
        };
        let chunks = others.into_iter().find_map(|h| {
            let start = h.run.chunks.clone().find(|&i| free(i))?;
            let end = (start..h.run.chunks.end)
                .find(|&i| !free(i))
                .unwrap_or(h.run.chunks.end);
            Some(start..end)
        })?;
        Some(self.hold(source, chunks, now))
    }

    fn hold(&mut self, source: usize, chunks: Range<u64>, now: Instant) -> Run {
        self.next_id += 1;
        let run = Run {
            id: self.next_id,
            chunks,
        };
        for index in run.chunks.clone() {
            if let Some(n) = self.holders.get_mut(index as usize) {
                *n = n.saturating_add(1);
            }
        }
        self.held.push(Held {
            run: run.clone(),
            source,
            since: now,
        });
        run
    }

    /// Whether a chunk has been got.
    pub(super) fn is_got(&self, index: u64) -> bool {
        self.got.get(index as usize) != Some(&false)
    }

    /// Marks a chunk as got; `false` when it was already.
    pub(super) fn mark(&mut self, index: u64) -> bool {
        match self.got.get_mut(index as usize) {
            Some(got) if !*got => {
                *got = true;
                self.missing -= 1;
                true
            }
            _ => false,
        }
    }

    /// A run is over: what of it nobody has got or holds is wanted again.
    pub(super) fn settle(&mut self, run: &Run) {
        self.held.retain(|h| h.run.id != run.id);
        for index in run.chunks.clone() {
            if let Some(n) = self.holders.get_mut(index as usize) {
                *n = n.saturating_sub(1);
            }
        }
        self.want(run.chunks.clone());
    }

    fn want(&mut self, chunks: Range<u64>) {
        let free = |i: &u64| !self.is_got(*i) && self.holders.get(*i as usize) == Some(&0);
        let mut ranges: Vec<Range<u64>> = vec![];
        for index in chunks.filter(free) {
            match ranges.last_mut() {
                Some(last) if last.end == index => last.end += 1,
                _ => ranges.push(index..index + 1),
            }
        }
        for range in ranges.into_iter().rev() {
            self.wanted.push_front(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    #[test]
    fn runs_shrink_towards_the_end() {
        let now = Instant::now();
        let mut queue = Queue::new(vec![false; 100]);
        let mut lens = vec![];
        while let Some(run) = queue.take(0, 2, 16, now) {
            lens.push(run.chunks.end - run.chunks.start);
            run.chunks.clone().for_each(|i| assert!(queue.mark(i)));
            queue.settle(&run);
        }
        assert_eq!(lens.iter().sum::<u64>(), 100);
        assert_eq!((lens[0], lens.last()), (16, Some(&1)));
        assert!(lens.is_sorted_by(|a, b| a >= b));
        assert_eq!(queue.missing(), 0);
    }

    #[test]
    fn a_slow_source_is_taken_over_from_by_others_only() {
        let now = Instant::now();
        let mut queue = Queue::new(vec![false; 4]);
        let slow = queue.take(0, 1, 16, now).unwrap();
        assert_eq!(slow.chunks, 0..2);
        assert!(queue.mark(0));
        let later = now + PATIENCE;
        assert_eq!(queue.take_over(1, PATIENCE, now), None);
        assert_eq!(queue.take_over(0, PATIENCE, later), None);
        let quick = queue.take_over(1, PATIENCE, later).unwrap();
        assert_eq!(quick.chunks, 1..2);
        assert_eq!(queue.take_over(1, PATIENCE, later), None);
        assert!(queue.mark(1) && !queue.mark(1));
        queue.settle(&quick);
        queue.settle(&slow);
        let rest = queue.take(1, 1, 16, now).unwrap();
        assert_eq!(rest.chunks, 2..3);
        queue.settle(&rest);
        assert_eq!(queue.take(2, 1, 16, now).unwrap().chunks, 2..3);
    }

    proptest! {
        /// Whatever sources do, every chunk is got once, and none is lost.
        #[test]
        fn no_chunk_is_lost(
            got in prop::collection::vec(any::<bool>(), 1..60),
            steps in prop::collection::vec((0usize..4, 0u64..20, 0u8..3), 1..200),
        ) {
            let now = Instant::now();
            let wanted = got.iter().filter(|g| !**g).count() as u64;
            let mut queue = Queue::new(got);
            let (mut held, mut marked) = (vec![], 0);
            for (source, n, action) in steps {
                match action {
                    0 => held.extend(queue.take(source, 3, n, now)),
                    1 => held.extend(queue.take_over(source, PATIENCE, now + PATIENCE)),
                    _ if held.is_empty() => {}
                    _ => {
                        let run: Run = held.swap_remove(n as usize % held.len());
                        let part = run.chunks.clone().take(n as usize);
                        marked += part.filter(|&i| queue.mark(i)).count() as u64;
                        queue.settle(&run);
                    }
                }
                prop_assert_eq!(queue.missing(), wanted - marked);
            }
            held.iter().for_each(|run| queue.settle(run));
            while let Some(run) = queue.take(9, 1, 7, now) {
                for i in run.chunks.clone() {
                    prop_assert!(queue.mark(i));
                    marked += 1;
                }
                queue.settle(&run);
            }
            prop_assert_eq!((queue.missing(), marked), (0, wanted));
        }
    }
}
