//! `blue bench`: how fast this machine runs a model, as shares of what it can do at most.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use blue_bench::run::{Blob, Group, Options, Progress as Step, run as measure};
use blue_bench::{Error, table};

use crate::failure::{Code, Failure, Outcome};
use crate::loaded::{parse_threads, threads};
use crate::output;
use crate::progress::Progress;

const HELP: &str = "\
Examples:
  blue bench --quick
  blue bench --quick --blob model.blob
  blue bench --only decode,kernels --json

Measures what memory and multiplication of this machine can do at most, and in the same run, sample by sample in
turns, decode and prefill of random weights of the Qwen3-0.6B shape and of BLOB. Every sample's result is checked.
Decode is compared with reading weights, keys and values once at the fastest streaming read; prefill with the
fastest int8 products of registers alone. Samples that other processes disturbed are left out. --quick takes less
than a minute and measures BLOB alone when it is given. Speed is never a reason to fail.

--json prints one line: machine, threads, cores, load_before, load_after, series (key, work, samples).";

/// Measure this machine's speed against its limits.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Limits, decode and prefill only, in less than a minute
    #[arg(long)]
    quick: bool,
    /// A blob to measure
    #[arg(long, value_name = "FILE")]
    blob: Option<PathBuf>,
    /// Parts to measure [default: all]: decode, prefill, kernels, threads
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = parse_group, conflicts_with = "quick")]
    only: Vec<Group>,
    /// Undisturbed samples of every figure [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    samples: Option<u8>,
    /// Threads [default: all]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// Print one line of JSON in place of tables
    #[arg(long)]
    json: bool,
}

fn parse_group(text: &str) -> Result<Group, String> {
    let found = Group::ALL.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, group)| group).ok_or_else(|| {
        let names = Group::ALL.map(|(name, _)| name).join(", ");
        format!("parts are {names}")
    })
}

pub(crate) fn run(args: Args) -> Outcome {
    let progress = Progress::new(args.json);
    let blob = args.blob.as_ref().map(|path| {
        crate::sniff::expect_blob(path)?;
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let bytes = std::fs::read(path).map_err(|e| Failure::file(path, e))?;
        Ok::<_, Failure>(Blob { name, bytes })
    });
    let groups = if args.quick {
        vec![Group::Decode, Group::Prefill]
    } else if args.only.is_empty() {
        Group::ALL.map(|(_, group)| group).to_vec()
    } else {
        args.only
    };
    let options = Options {
        quick: args.quick,
        groups,
        threads: threads(args.threads),
        samples: args.samples.map_or(5, usize::from),
        blob: blob.transpose()?,
    };
    let spinner = progress.spinner("measuring");
    let mut last = None;
    let measured = measure(options, &mut |step| match step {
        Step::Prepare(what) => {
            spinner.set_message(what.to_owned());
            if progress == Progress::Plain {
                progress.note(what);
            }
        }
        Step::Sample(round, key) => {
            spinner.set_message(format!("round {}: {key}", round + 1));
            if progress == Progress::Plain && last != Some(round) {
                last = Some(round);
                progress.note(&format!("round {}", round + 1));
            }
        }
    });
    spinner.finish_and_clear();
    let record = measured.map_err(failed)?;
    if args.json {
        return output::json(&record);
    }
    let mut text = String::new();
    for line in table::limit_lines(&record) {
        text.push_str(&line);
        text.push('\n');
    }
    text.push('\n');
    text.push_str(&output::table(&table::models(&record)));
    text.push('\n');
    text.push_str(&table::quietness(&record));
    text.push('\n');
    output::text(&text)
}

fn failed(error: Error) -> Failure {
    let code = match error {
        Error::Wrong { .. } => Code::Mismatch,
        Error::Load { .. } | Error::Halt(_) => Code::Input,
        Error::Memory { .. } | Error::Write(_) | Error::Fault(_) => Code::Runtime,
    };
    Failure::new(code, error)
}
