//! Mistakes planted in the reference or in the kernels, one at a time, and what notices each: levels of the known
//! answers, or tests of the conformance suite.

mod kernels;
mod levels;
mod list;
mod mutant;
mod plant;
mod report;
mod workspace;

use crate::{child, progress::Progress};
use anyhow::{Context, Result, bail, ensure};
use levels::{LEVELS, Notice, Notices};
use mutant::Mutant;
use report::Caught;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long one mutant may take before it counts as noticed by every level.
const TIMEOUT: Duration = Duration::from_secs(180);

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run these mutants alone, by name
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write docs/MUTATIONS.md
    #[arg(long, conflicts_with = "only")]
    write: bool,
    /// Show the first difference that each level sees
    #[arg(long)]
    details: bool,
    /// Processes at once (default: one a processor)
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Plant mistakes in the kernels instead, and ask the conformance suite; --only then takes backend/mistake
    #[arg(long, conflicts_with_all = ["details", "jobs"])]
    kernels: bool,
    /// Fail unless the mistakes of these backends can be asked, on this machine or under emulation
    #[arg(long, value_delimiter = ',', requires = "kernels")]
    require: Vec<String>,
    #[command(flatten)]
    cross: crate::cross::Options,
}

/// A running process that answers for mutants in order.
struct Runner {
    child: Child,
    lines: Receiver<String>,
}

impl Runner {
    fn start(program: &Path, root: &Path, numbers: &[usize]) -> Result<Self> {
        let mut child = Command::new(program)
            .arg(root.join(kat::set::CURRENT))
            .arg(root)
            .args(numbers.iter().map(usize::to_string))
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| program.display().to_string())?;
        let (sender, lines) = channel();
        let pipe = child.stdout.take().context("a piped output")?;
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// The next mutant's notices; `None` when the process dies or hangs on it.
    fn next(&mut self) -> Result<Option<(usize, Notices)>> {
        match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => parse(&line).with_context(|| line.clone()).map(Some),
            Err(_) => Ok(None),
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // A process that has ended needs no signal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(line: &str) -> Result<(usize, Notices)> {
    let value: Value = serde_json::from_str(line)?;
    let (number, levels) = (value[0].as_u64(), value[1].as_array());
    let (number, levels) = (number.context("a number")?, levels.context("levels")?);
    ensure!(levels.len() == LEVELS.len(), "{} levels", levels.len());
    let mut notices = Notices::default();
    for (notice, value) in notices.iter_mut().zip(levels) {
        if !value.is_null() {
            let files = value[0].as_array().context("files")?;
            *notice = Some(Notice {
                files: files
                    .iter()
                    .filter_map(|f| f.as_str().map(str::to_owned))
                    .collect(),
                stopped: value[1].as_bool().context("whether it stopped")?,
                detail: value[2].as_str().context("a detail")?.to_owned(),
            });
        }
    }
    Ok((number as usize, notices))
}

/// A process that dies or hangs gives no level an answer.
fn no_answers() -> Notices {
    std::array::from_fn(|_| {
        Some(Notice {
            files: Vec::new(),
            stopped: true,
            detail: "the process died or hung".into(),
        })
    })
}

/// The notices of the mutants with these numbers, in their order.
fn run_all(
    program: &Path,
    root: &Path,
    numbers: &[usize],
    jobs: Option<NonZeroUsize>,
    progress: &Progress,
) -> Result<Vec<Notices>> {
    /// Mutants that a process is started for.
    const BATCH: usize = 12;
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        loop {
            let start = next.fetch_add(BATCH, Ordering::Relaxed);
            let Some(rest) = numbers.get(start..).filter(|rest| !rest.is_empty()) else {
                return Ok(());
            };
            let mut batch = &rest[..rest.len().min(BATCH)];
            while !batch.is_empty() {
                let mut runner = Runner::start(program, root, batch)?;
                while let Some((&number, after)) = batch.split_first() {
                    let answer = runner.next()?;
                    let died = answer.is_none();
                    let (got, notices) = answer.unwrap_or_else(|| (number, no_answers()));
                    ensure!(got == number, "mutant {got} answered for {number}");
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.push((number, notices));
                    progress.inc(1);
                    batch = after;
                    if died {
                        break;
                    }
                }
            }
        }
    };
    let jobs = jobs.or_else(|| std::thread::available_parallelism().ok());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.map_or(1, NonZeroUsize::get))
            .map(|_| scope.spawn(work))
            .collect();
        workers
            .into_iter()
            .try_for_each(|w| w.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?)
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(number, _)| *number);
    Ok(found.into_iter().map(|(_, notices)| notices).collect())
}

/// The mutants chosen, with their numbers.
fn chosen(all: &[Mutant], only: &[String]) -> Result<Vec<(usize, Mutant)>> {
    for id in only {
        ensure!(all.iter().any(|m| m.id == id), "no mutant is named {id}");
    }
    let numbered = (1..).zip(all.iter().copied());
    Ok(numbered
        .filter(|(_, m)| only.is_empty() || only.iter().any(|id| id == m.id))
        .collect())
}

fn planted(root: &Path, all: &[Mutant]) -> Result<String> {
    let source = std::fs::read_to_string(root.join("int-engine/reference/src/lib.rs"))?;
    plant::plant(&source, all).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}", lines.join("\n"))
    })
}

/// The first level that notices something.
fn first_notice(notices: &Notices) -> Option<(&'static str, &Notice)> {
    LEVELS
        .into_iter()
        .zip(notices)
        .find_map(|(level, n)| Some((level, n.as_ref()?)))
}

/// Plants every mistake, asks every level, and prints who notices.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.kernels {
        return kernels::run(options);
    }
    let (root, all) = (child::root(), list::all());
    let chosen = chosen(&all, &options.only)?;
    if !options.json {
        eprintln!("compiling the reference with {} mistakes", all.len());
    }
    let program = workspace::build(&root, &planted(&root, &all)?)?;
    let progress = Progress::new("mutants", chosen.len() as u64, options.json);
    let set =
        levels::Set::read(&root.join(kat::set::CURRENT), &root).map_err(anyhow::Error::msg)?;
    let planted = run_all(&program, &root, &[0], None, &Progress::new("", 1, true))?;
    for sound in [&set.notices(), &planted[0]] {
        if let Some((level, n)) = first_notice(sound) {
            bail!(
                "the reference without a mistake fails at level {level}: {}: {}",
                n.files.join(", "),
                n.detail
            );
        }
    }
    let numbers: Vec<usize> = chosen.iter().map(|(number, _)| *number).collect();
    let notices = run_all(&program, &root, &numbers, options.jobs, &progress)?;
    drop(progress);
    let caught: Vec<Caught> = chosen
        .into_iter()
        .zip(notices)
        .map(|((_, mutant), notices)| Caught { mutant, notices })
        .collect();
    if options.json {
        println!("{:#}", report::json(&caught));
    } else {
        println!("{}", report::table(&caught));
        print!("{}", report::totals(&caught));
    }
    if options.details {
        eprint!("{}", report::details(&caught));
    }
    if options.write {
        report::write_section(&root, Some(&report::page(&caught)), None)?;
    }
    let missed: Vec<&str> = caught
        .iter()
        .filter(|c| c.missed())
        .map(|c| c.mutant.id)
        .collect();
    ensure!(
        missed.is_empty(),
        "{} of {} mistakes are noticed by no level: {}",
        missed.len(),
        caught.len(),
        missed.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_mutant_fits_the_reference_and_has_a_name_of_its_own() {
        let all = list::all();
        assert!(all.len() >= 60);
        let names: BTreeSet<_> = all.iter().map(|m| m.id).collect();
        assert_eq!(names.len(), all.len());
        if let Err(e) = planted(&child::root(), &all) {
            panic!("{e}");
        }
    }

    #[test]
    fn lines_of_the_runner_are_read() {
        let line = r#"[7, [[["rdbpot"], false, "case a"], null, null, null, [["m.json"], true, "panic"], null]]"#;
        let (number, notices) = parse(line).unwrap();
        assert_eq!(number, 7);
        let seen: Vec<bool> = notices.iter().map(Option::is_some).collect();
        assert_eq!(seen, [true, false, false, false, true, false]);
        assert!(
            notices[4]
                .as_ref()
                .is_some_and(|n| n.stopped && n.detail == "panic")
        );
        assert!(parse("[1, []]").is_err());
    }

    #[test]
    fn unknown_names_are_refused() {
        let all = list::all();
        assert!(chosen(&all, &["no-such".into()]).is_err());
        let one = chosen(&all, &["rdbpot-half-up".into()]).unwrap();
        assert_eq!(one.len(), 1);
        assert_eq!(all[one[0].0 - 1].id, "rdbpot-half-up");
    }
}
