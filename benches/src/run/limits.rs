//! The machine's limits as contenders.

use std::num::NonZeroUsize;

use crate::Error;
use crate::figures::{Key, MACHINE, What, Work};
use crate::limits::{DISTANCES, StreamRead, Unit};
use crate::machine::Machine;
use crate::rounds::Contender;

/// Seconds that a sample of the products takes, about.
const PEAK_SECONDS: f64 = 0.03;

/// Rounds from whose time their number is chosen.
const TRIAL: u32 = 1 << 16;

/// What the limits are measured with.
pub(super) struct Limits {
    read: StreamRead,
}

impl Limits {
    pub(super) fn new() -> Result<Self, Error> {
        let read = StreamRead::new(Machine::largest_cache(), Machine::free_memory())?;
        Ok(Self { read })
    }

    /// Every way of reading and every unit, on one thread and on `threads`.
    pub(super) fn contenders(&self, threads: NonZeroUsize) -> Result<Vec<Contender<'_>>, Error> {
        let mut counts = vec![1, threads.get()];
        counts.dedup();
        let mut all = Vec::new();
        for &threads in &counts {
            for size in DISTANCES {
                let key = Key {
                    what: What::StreamRead,
                    subject: String::new(),
                    engine: MACHINE.into(),
                    threads,
                    size,
                };
                let work = Work {
                    bytes: self.read.bytes() as f64,
                    ..Work::default()
                };
                all.push(Contender::new(key, work, move |watch| {
                    watch.measure(|| match self.read.seconds(threads, size) {
                        Ok(seconds) => (seconds, Ok(())),
                        Err(error) => (0.0, Err(error)),
                    })
                }));
            }
            for unit in Unit::ALL.into_iter().filter(|unit| unit.here()) {
                let (seconds, _) = unit.seconds(1, TRIAL)?;
                let rounds = (f64::from(TRIAL) * PEAK_SECONDS / seconds).clamp(1.0, 1e9) as u32;
                let (_, operations) = unit.seconds(threads, rounds)?;
                let key = Key {
                    what: What::Peak,
                    subject: String::new(),
                    engine: unit.name().into(),
                    threads,
                    size: 0,
                };
                let work = Work {
                    operations,
                    ..Work::default()
                };
                all.push(Contender::new(key, work, move |watch| {
                    watch.measure(|| match unit.seconds(threads, rounds) {
                        Ok((seconds, _)) => (seconds, Ok(())),
                        Err(error) => (0.0, Err(error)),
                    })
                }));
            }
        }
        Ok(all)
    }
}
