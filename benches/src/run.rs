//! A run: the contenders that its options ask for, their samples, the record.

mod drafting;
mod inside;
mod limits;
mod model;
mod peers;
mod products;
mod serving;

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use int_engine::blob::Loader;
use tempfile::NamedTempFile;

use crate::figures::Key;
use crate::machine::Machine;
use crate::memory::{self, Memory};
use crate::peers::{Peer, Running};
use crate::quiet;
use crate::record::Record;
use crate::rounds::{Contender, Rounds, interleave};
use crate::subject::{self, Subject};
use crate::{Error, date, synthetic};

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
    /// The products with the weights alone.
    Products,
    /// Several sessions together.
    Batch,
    /// An answer generated and checked.
    Verify,
    /// A blob hashed and loaded.
    Load,
    /// Peak memory of a process.
    Memory,
    /// Generation with drafts and without.
    Drafts,
}

impl Group {
    /// All parts with their names.
    pub const ALL: [(&'static str, Self); 10] = [
        ("decode", Self::Decode),
        ("prefill", Self::Prefill),
        ("kernels", Self::Kernels),
        ("threads", Self::Threads),
        ("products", Self::Products),
        ("batch", Self::Batch),
        ("verify", Self::Verify),
        ("load", Self::Load),
        ("memory", Self::Memory),
        ("drafts", Self::Drafts),
    ];
}

/// Texts that drafts are measured on: one that its continuation repeats, one whose drafts are mostly wrong.
pub const TEXTS: [&str; 2] = [drafting::COPY, drafting::NEW];

/// A blob to measure besides, or instead of, the random one.
#[derive(Clone, Debug)]
pub struct Blob {
    /// What tables call it.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The ids of [`TEXTS`], where its tokenizer is known.
    pub texts: Option<[Vec<u32>; 2]>,
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
    /// Longest context and prompt.
    pub max_context: usize,
    /// A model of the user.
    pub blob: Option<Blob>,
    /// Other engines on the random model's shape.
    pub peers: Vec<Peer>,
    /// Other engines on the user's model.
    pub blob_peers: Vec<Peer>,
    /// A program and its arguments that runs [`crate::memory::probe`] on the file named after them.
    pub probe: Option<(PathBuf, Vec<&'static str>)>,
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

/// Positions that the process whose memory is measured feeds.
pub const PROBE_CONTEXT: usize = 1024;

/// A model and the other engines that run it.
struct Entrant {
    /// The user's, not the random one.
    is_users: bool,
    subject: Subject,
    /// The random model's blob, where its file is measured.
    file: Option<NamedTempFile>,
    peers: Vec<Running>,
}

/// Measures.
///
/// # Errors
/// See [`Error`]; above all, every contender's work is checked.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Record, Error> {
    let load_before = quiet::load_average();
    // What was asked for and is missing ends the run before anything is measured.
    let entrants = entrants(options, progress)?;
    let memory = memory(options, &entrants, progress)?;
    progress(Progress::Prepare("a buffer larger than the caches"));
    let limits = limits::Limits::new()?;
    let mut contenders: Vec<Contender<'_>> = limits.contenders(options.threads)?;
    for entrant in &entrants {
        add(entrant, options, progress, &mut contenders)?;
    }
    let rounds = Rounds {
        samples: options.samples,
        always: if options.quick { 1 } else { options.samples },
        budget: Duration::from_secs(if options.quick { 25 } else { 300 }),
    };
    let peers: Vec<&Running> = entrants.iter().flat_map(|e| &e.peers).collect();
    let pids: Vec<u32> = peers.iter().map(|peer| peer.pid()).collect();
    let series = interleave(&mut contenders, &pids, rounds, &mut |round, key| {
        progress(Progress::Sample(round, key));
    })?;
    let mut names: Vec<(String, String)> = peers
        .iter()
        .map(|peer| (peer.name().to_owned(), peer.version()))
        .collect();
    names.sort();
    names.dedup();
    Ok(Record {
        date: date::today(),
        machine: Machine::here(),
        threads: options.threads.get(),
        peers: names,
        load_before,
        load_after: quiet::load_average(),
        memory,
        series,
    })
}

/// Adds everything that is measured of one model.
fn add<'a>(
    entrant: &'a Entrant,
    options: &Options,
    progress: &mut dyn FnMut(Progress<'_>),
    all: &mut Vec<Contender<'a>>,
) -> Result<(), Error> {
    let (subject, threads) = (&entrant.subject, options.threads);
    model::contenders(subject, options, progress, all)?;
    for peer in &entrant.peers {
        peers::contenders(&subject.name, peer, threads.get(), &options.groups, all);
    }
    let texts = options.blob.as_ref().and_then(|blob| blob.texts.as_ref());
    if let Some(texts) = texts.filter(|_| entrant.is_users && options.wants(Group::Drafts)) {
        progress(Progress::Prepare("answers to draft"));
        drafting::contenders(subject, texts, threads, all)?;
    }
    // The rest is about the engine, not about a model: the random one stands for all.
    if entrant.is_users {
        return Ok(());
    }
    if options.wants(Group::Products) {
        progress(Progress::Prepare("expected products"));
        products::contenders(subject, threads, all)?;
        inside::contenders(subject, threads, all)?;
    }
    if options.wants(Group::Batch) {
        progress(Progress::Prepare("expected ids of several sessions"));
        serving::batch(subject, threads, all)?;
    }
    if options.wants(Group::Verify) {
        progress(Progress::Prepare("an answer to verify"));
        serving::verifying(subject, threads, all)?;
    }
    if let Some(file) = entrant.file.as_ref().filter(|_| options.wants(Group::Load)) {
        serving::loading(subject, file.path(), threads, all)?;
    }
    Ok(())
}

/// The random model, unless a quick run has a blob of the user, and the user's.
fn entrants(
    options: &Options,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<Entrant>, Error> {
    let mut all = options.peers.iter().chain(&options.blob_peers);
    all.try_for_each(Peer::check)?;
    let mut start = |peers: &[Peer]| -> Result<Vec<Running>, Error> {
        let mut running = Vec::new();
        for peer in peers {
            progress(Progress::Prepare(&format!("starting {}", peer.name)));
            running.push(peer.start(options.threads.get(), peers::MAX_CONTEXT)?);
        }
        Ok(running)
    };
    let mut entrants = Vec::new();
    let random = !options.quick || options.blob.is_none();
    let running = if random {
        start(&options.peers)?
    } else {
        Vec::new()
    };
    let blob_running = start(&options.blob_peers)?;
    if random {
        progress(Progress::Prepare("random weights of the Qwen3-0.6B shape"));
        let blob = synthetic::qwen3_blob()?;
        progress(Progress::Prepare("loading them"));
        entrants.push(Entrant {
            is_users: false,
            subject: Subject::new(synthetic::NAME, &blob)?,
            file: (options.wants(Group::Load) || options.wants(Group::Memory))
                .then(|| file_of(&blob))
                .transpose()?,
            peers: running,
        });
    }
    if let Some(blob) = &options.blob {
        progress(Progress::Prepare("loading the blob"));
        entrants.push(Entrant {
            is_users: true,
            subject: Subject::of(
                &blob.name,
                subject::load_file(&blob.path, Loader::new(), options.threads)?,
            ),
            file: None,
            peers: blob_running,
        });
    }
    Ok(entrants)
}

/// A file of the temporary folder that goes with the value.
fn file_of(blob: &[u8]) -> Result<NamedTempFile, Error> {
    let written = NamedTempFile::new().and_then(|mut file| {
        file.write_all(blob)?;
        file.flush()?;
        Ok(file)
    });
    written.map_err(|error| Error::File {
        path: std::env::temp_dir(),
        error,
    })
}

fn memory(
    options: &Options,
    entrants: &[Entrant],
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Option<Memory>, Error> {
    let file = entrants.iter().find_map(|e| e.file.as_ref());
    let (Some((program, args)), Some(file)) = (&options.probe, file) else {
        return Ok(None);
    };
    if !options.wants(Group::Memory) {
        return Ok(None);
    }
    progress(Progress::Prepare("peak memory of a process"));
    memory::of_program(program, args, file.path()).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{OUTSIDE, What, figures};
    use crate::synthetic::{blob, tests::small};

    #[test]
    fn every_part_runs_on_a_small_model_and_is_compared() {
        let _alone = inside::ALONE.lock().unwrap();
        let bytes = blob(&small(true, true)).unwrap();
        let file = file_of(&bytes).unwrap();
        let subject = Subject::new("small", &bytes).unwrap();
        let options = Options {
            quick: false,
            groups: Group::ALL.map(|(_, group)| group).to_vec(),
            threads: NonZeroUsize::new(2).unwrap(),
            samples: 1,
            max_context: 4096,
            blob: None,
            peers: vec![],
            blob_peers: vec![],
            probe: None,
        };
        let entrant = Entrant {
            is_users: false,
            subject,
            file: Some(file),
            peers: vec![],
        };
        let mut contenders = Vec::new();
        add(&entrant, &options, &mut |_| (), &mut contenders).unwrap();
        let rounds = Rounds {
            samples: 1,
            always: 1,
            budget: Duration::ZERO,
        };
        let series = interleave(&mut contenders, &[], rounds, &mut |_, _| ()).unwrap();
        assert!(series.iter().all(|s| s.samples.len() == 1));
        let all = figures(&series);
        let of = |what| {
            let mut found = all.iter().filter(|f| f.key.what == what);
            found.next().unwrap()
        };
        let shares = [What::Verify, What::HashPlain, What::Load];
        for what in shares.into_iter().chain(OUTSIDE) {
            assert!(of(what).compared.unwrap().0 > 0.0, "{what:?}");
        }
        let (outside, whole) = (of(What::OutsideWeightsMean), of(What::Decode));
        assert!(outside.seconds > 0.0 && outside.key.size == inside::CONTEXT);
        assert!(whole.tokens_per_s().is_some() && outside.tokens_per_s().is_none());
    }
}
