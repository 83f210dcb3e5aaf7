//! Samples in rounds: one of every contender, then the next of every contender.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::figures::{Key, Work};
use crate::quiet::{Counters, Noise};

/// Pause before a sample, in which threads of the one before stop polling for work.
const PAUSE: Duration = Duration::from_millis(10);

/// One timed run of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds that the work took.
    pub seconds: f64,
    /// What others did meanwhile.
    #[serde(flatten)]
    pub noise: Noise,
}

/// Takes the time of a part of a contender's turn.
pub struct Stopwatch<'a> {
    peers: &'a [u32],
    sample: Option<Sample>,
}

impl Stopwatch<'_> {
    /// Times `work`.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.measure(|| {
            let start = Instant::now();
            let result = work();
            (start.elapsed().as_secs_f64(), result)
        })
    }

    /// Runs `work`, which returns its seconds by a clock of its own.
    pub fn measure<T>(&mut self, work: impl FnOnce() -> (f64, T)) -> T {
        let before = Counters::now(self.peers);
        let (seconds, result) = work();
        let noise = before.noise_until(&Counters::now(self.peers));
        self.sample = Some(Sample { seconds, noise });
        result
    }
}

/// What a contender does in its turn: it prepares, times one piece of work, and checks its result.
type Turn<'a> = Box<dyn FnMut(&mut Stopwatch<'_>) -> Result<(), Error> + 'a>;

/// Something that is measured.
pub struct Contender<'a> {
    /// What it is.
    pub key: Key,
    /// What one turn times.
    pub work: Work,
    /// What it does.
    pub turn: Turn<'a>,
}

impl<'a> Contender<'a> {
    /// A contender that times one piece of work in each turn.
    pub fn new(
        key: Key,
        work: Work,
        turn: impl FnMut(&mut Stopwatch<'_>) -> Result<(), Error> + 'a,
    ) -> Self {
        Self {
            key,
            work,
            turn: Box::new(turn),
        }
    }
}

/// How many samples are taken.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Undisturbed samples wanted of every contender.
    pub samples: usize,
    /// Rounds that are made in any time.
    pub always: usize,
    /// No other round starts after this time.
    pub budget: Duration,
}

/// Samples of one contender in the order of the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What was measured.
    pub key: Key,
    /// What one sample does.
    pub work: Work,
    /// Its samples.
    pub samples: Vec<Sample>,
}

impl Series {
    fn quiet(&self) -> usize {
        self.samples.iter().filter(|s| !s.noise.disturbed).count()
    }
}

/// Takes the samples. Contenders that were disturbed go on, up to twice as many rounds and within the budget. `progress`
/// sees the number of the round and the contender.
///
/// # Errors
/// The first error of a contender.
pub fn interleave(
    contenders: &mut [Contender<'_>],
    peers: &[u32],
    rounds: Rounds,
    progress: &mut dyn FnMut(usize, &Key),
) -> Result<Vec<Series>, Error> {
    let mut all: Vec<Series> = contenders
        .iter()
        .map(|c| Series {
            key: c.key.clone(),
            work: c.work,
            samples: Vec::new(),
        })
        .collect();
    let start = Instant::now();
    for round in 0..2 * rounds.samples {
        if round >= rounds.always && start.elapsed() > rounds.budget {
            break;
        }
        let open: Vec<bool> = all.iter().map(|s| s.quiet() < rounds.samples).collect();
        if !open.contains(&true) {
            break;
        }
        for ((contender, series), _) in contenders
            .iter_mut()
            .zip(&mut all)
            .zip(&open)
            .filter(|(_, open)| **open)
        {
            progress(round, &contender.key);
            std::thread::sleep(PAUSE);
            let mut stopwatch = Stopwatch {
                peers,
                sample: None,
            };
            (contender.turn)(&mut stopwatch)?;
            series.samples.extend(stopwatch.sample);
        }
    }
    Ok(all)
}
