//! A run: the contenders that its options ask for, their samples, the record.

mod limits;
mod model;

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::figures::Key;
use crate::machine::{self, Machine};
use crate::quiet;
use crate::record::Record;
use crate::rounds::{Contender, Rounds, interleave};
use crate::subject::Subject;
use crate::{Error, synthetic};

/// Parts of a run that may be asked for alone; the limits are always measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Decode at several contexts.
    Decode,
    /// Prefill of several lengths.
    Prefill,
    /// Every set of kernels.
    Kernels,
    /// Other numbers of threads.
    Threads,
}

impl Group {
    /// All parts with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("decode", Self::Decode),
        ("prefill", Self::Prefill),
        ("kernels", Self::Kernels),
        ("threads", Self::Threads),
    ];
}

/// A blob to measure besides, or instead of, the random one.
#[derive(Clone, Debug)]
pub struct Blob {
    /// What tables call it.
    pub name: String,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

/// What a run measures.
#[derive(Clone, Debug)]
pub struct Options {
    /// Less than a minute: limits, decode, prefill of one model.
    pub quick: bool,
    /// The parts.
    pub groups: Vec<Group>,
    /// Threads of every figure that says nothing else.
    pub threads: NonZeroUsize,
    /// Undisturbed samples of every figure.
    pub samples: usize,
    /// A model of the user.
    pub blob: Option<Blob>,
}

impl Options {
    /// Whether a part is wanted.
    fn wants(&self, group: Group) -> bool {
        self.groups.contains(&group)
    }
}

/// What a run tells while it works.
pub enum Progress<'a> {
    /// A step of the preparation begins.
    Prepare(&'a str),
    /// A sample begins, in a round counted from 0.
    Sample(usize, &'a Key),
}

/// Measures.
///
/// # Errors
/// See [`Error`]; above all, every contender's work is checked.
pub fn run(options: Options, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Record, Error> {
    let load_before = quiet::load_average();
    let subjects = subjects(&options, progress)?;
    progress(Progress::Prepare("a buffer larger than the caches"));
    let limits = limits::Limits::new()?;
    let mut contenders: Vec<Contender<'_>> = limits.contenders(options.threads)?;
    for subject in &subjects {
        model::contenders(subject, &options, progress, &mut contenders)?;
    }
    let rounds = Rounds {
        samples: options.samples,
        budget: if options.quick {
            Duration::from_secs(25)
        } else {
            Duration::from_secs(1800)
        },
    };
    let series = interleave(&mut contenders, &[], rounds, &mut |round, key| {
        progress(Progress::Sample(round, key));
    })?;
    Ok(Record {
        machine: Machine::here(),
        threads: options.threads.get(),
        cores: machine::cores(),
        load_before,
        load_after: quiet::load_average(),
        series,
    })
}

/// The random model, unless a quick run has a blob of the user, and the user's.
fn subjects(
    options: &Options,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<Subject>, Error> {
    let mut subjects = Vec::new();
    if !options.quick || options.blob.is_none() {
        progress(Progress::Prepare("random weights of the Qwen3-0.6B shape"));
        let blob = synthetic::qwen3_blob()?;
        progress(Progress::Prepare("loading them"));
        subjects.push(Subject::new(synthetic::NAME, &blob)?);
    }
    if let Some(blob) = &options.blob {
        progress(Progress::Prepare("loading the blob"));
        subjects.push(Subject::new(&blob.name, &blob.bytes)?);
    }
    Ok(subjects)
}
