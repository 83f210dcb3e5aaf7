//! `blue bench`: how fast this machine runs a model, as shares of what it can do at most.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use blue_bench::figures::{CANDLE, LLAMA_NATIVE, LLAMA_PLAIN};
use blue_bench::peers::Peer;
use blue_bench::record::Record;
use blue_bench::run::{
    Blob, Group, Options, PROBE_CONTEXT, Progress as Step, TEXTS, run as measure,
};
use blue_bench::{goals, memory, page, plots, table};

use float_engine::tokenizer::Tokenizer;

use crate::failure::{Code, Context, Failure, Outcome};
use crate::loaded::{parse_threads, threads};
use crate::measure::failed;
use crate::output;
use crate::progress::Progress;
use crate::{bundle, ids};

const HELP: &str = "\
Examples:
  blue bench --quick
  blue bench --quick --blob model.blob
  blue bench --only decode,kernels --json
  blue bench --llama ./blue-peer-llama --gguf qwen3-0.6b-random.Q8_0.gguf --record benches/records

Measures what memory and multiplication of this machine can do at most, and in the same run, sample by sample in
turns, random weights of the Qwen3-0.6B shape and BLOB. Every sample's result is checked; a wrong one ends the run
with exit code 3. Decode is compared with reading weights, keys and values once at the fastest streaming read;
prefill with the fastest int8 products of registers alone. Samples that other processes disturbed are left out.
--quick takes less than a minute and measures BLOB alone when it is given. Speed is a reason to fail only with
--assert: exit code 3 when a goal is missed or was not measured. benches/peers builds the other engines' programs.

--json prints one line: date, machine, threads, peers, load_before, load_after, memory, series (key, work, samples).";

/// Measure this machine's speed against its limits and other engines.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Limits, decode and prefill only, in less than a minute
    #[arg(long)]
    quick: bool,
    /// A blob to measure beside the random model; with --quick, in place of it
    #[arg(long, value_name = "FILE")]
    blob: Option<PathBuf>,
    /// Parts to measure [default: all]: decode, prefill, kernels, threads, products, batch, verify, load, memory, drafts
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = parse_group, conflicts_with = "quick")]
    only: Vec<Group>,
    /// Undisturbed samples of every figure
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u8).range(1..=100))]
    samples: u8,
    /// Longest context and prompt of this engine's figures
    #[arg(long, value_name = "TOKENS", default_value = "4096", value_parser = clap::value_parser!(u32).range(16..))]
    max_context: u32,
    /// Threads [default: all]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// llama.cpp's program, to compare with: as built for this machine, and without repacking of weights
    #[arg(long, value_name = "PROGRAM")]
    llama: Option<PathBuf>,
    /// candle's program, to compare with
    #[arg(long, value_name = "PROGRAM")]
    candle: Option<PathBuf>,
    /// A model of the Qwen3-0.6B shape for them
    #[arg(long, value_name = "FILE")]
    gguf: Option<PathBuf>,
    /// BLOB's model for them
    #[arg(long, value_name = "FILE", requires = "blob")]
    blob_gguf: Option<PathBuf>,
    /// Write every sample to DIR/DATE-MACHINE.json
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Measure nothing: take the samples from a record
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "blob", "only", "threads", "llama", "candle", "gguf", "blob_gguf", "record", "samples", "max_context"])]
    from: Option<PathBuf>,
    /// Write decode.svg, prefill.svg, batch.svg and threads.svg to DIR
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Put the figures into a Markdown page, between its marks
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Exit with code 3 when a goal is missed or was not measured
    #[arg(long)]
    assert: bool,
    /// Print one line of JSON in place of tables
    #[arg(long)]
    json: bool,
    /// Load this blob, run it, print this process's peak memory
    #[arg(long, value_name = "FILE", hide = true)]
    probe_memory: Option<PathBuf>,
}

fn parse_group(text: &str) -> Result<Group, String> {
    let found = Group::ALL.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, group)| group).ok_or_else(|| {
        let names = Group::ALL.map(|(name, _)| name).join(", ");
        format!("parts are {names}")
    })
}

pub(crate) fn run(args: Args) -> Outcome {
    if let Some(blob) = &args.probe_memory {
        let memory = memory::probe(blob, PROBE_CONTEXT, threads(args.threads)).map_err(failed)?;
        return output::json(&memory);
    }
    // What stands in the way of the results is said before they are measured.
    if let Some(page) = &args.page {
        page::check(page).map_err(|e| Failure::new(Code::Input, e))?;
    }
    for folder in [&args.record, &args.plot].into_iter().flatten() {
        std::fs::create_dir_all(folder)
            .map_err(|e| Failure::input(format!("{}: {e}", folder.display())))?;
    }
    let (record, name) = match &args.from {
        Some(path) => {
            let record = Record::read(path).map_err(|e| Failure::new(Code::Input, e))?;
            (record, file_name(path))
        }
        None => {
            let record = measured(&args)?;
            let written = args.record.as_ref().map(|folder| record.write(folder));
            let path = written.transpose().map_err(failed)?;
            (
                record,
                path.map_or("no file".into(), |path| file_name(&path)),
            )
        }
    };
    if let Some(folder) = &args.plot {
        plots::write(&record, folder).map_err(failed)?;
    }
    if let Some(path) = &args.page {
        page::rewrite(path, &name, &record).map_err(failed)?;
    }
    if args.json {
        output::json(&record)?;
    } else {
        output::text(&text(&record, args.quick))?;
    }
    let missed = goals::goals(&record)
        .iter()
        .filter(|goal| !goal.holds())
        .count();
    if args.assert && missed > 0 {
        return Err(Failure::mismatch(format!(
            "{missed} goals are missed or were not measured"
        )));
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The record for people.
fn text(record: &Record, quick: bool) -> String {
    let mut text = String::new();
    if !quick {
        text.push_str(&output::table(&table::limits(record)));
        text.push('\n');
    }
    text.push_str(&output::table(&table::models(record)));
    text.push('\n');
    if !quick {
        text.push_str(&output::table(&page::goal_rows(record)));
        text.push('\n');
    }
    for line in page::facts(record) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn measured(args: &Args) -> Outcome<Record> {
    let progress = Progress::new(args.json);
    let options = options(args)?;
    let spinner = progress.spinner("measuring");
    let mut last = None;
    let measured = measure(&options, &mut |step| match step {
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
    measured.map_err(failed)
}

fn options(args: &Args) -> Outcome<Options> {
    let blob = args.blob.as_ref().map(|path| {
        crate::sniff::expect_blob(path)?;
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let texts = texts(path)?;
        let path = path.clone();
        Ok::<_, Failure>(Blob { name, path, texts })
    });
    let groups = if args.quick {
        vec![Group::Decode, Group::Prefill]
    } else if args.only.is_empty() {
        Group::ALL.map(|(_, group)| group).to_vec()
    } else {
        args.only.clone()
    };
    let programs: [(&str, &str, &Option<PathBuf>, &[&str]); 3] = [
        (LLAMA_NATIVE, "llama.cpp", &args.llama, &["--repack", "on"]),
        (LLAMA_PLAIN, "llama.cpp", &args.llama, &["--repack", "off"]),
        (CANDLE, "candle", &args.candle, &[]),
    ];
    let peers = |model: &Option<PathBuf>| -> Vec<Peer> {
        let pairs = programs.iter().filter_map(|(name, engine, program, args)| {
            Some((name, engine, program.as_ref()?, args, model.as_ref()?))
        });
        pairs
            .map(|(name, engine, program, args, model)| Peer {
                name: (*name).to_owned(),
                engine: (*engine).to_owned(),
                program: program.clone(),
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
                model: model.clone(),
            })
            .collect()
    };
    let (has_program, has_model) = (
        args.llama.is_some() || args.candle.is_some(),
        args.gguf.is_some() || args.blob_gguf.is_some(),
    );
    if has_program != has_model {
        return Err(
            Failure::input("another engine needs its program and a model")
                .hint("give --llama or --candle, and --gguf or --blob-gguf"),
        );
    }
    let program = std::env::current_exe().or_runtime("cannot find this program")?;
    Ok(Options {
        quick: args.quick,
        groups,
        threads: threads(args.threads),
        samples: args.samples.into(),
        max_context: args.max_context as usize,
        blob: blob.transpose()?,
        peers: peers(&args.gguf),
        blob_peers: peers(&args.blob_gguf),
        probe: Some((program, vec!["bench", "--probe-memory"])),
    })
}

/// The ids of the texts for drafts, where the blob's tokenizer is beside it.
fn texts(blob: &Path) -> Outcome<Option<[Vec<u32>; 2]>> {
    let (header, _) = crate::blob_file::header(blob)?;
    let Some(json) = bundle::tokenizer(blob, header.tokenizer_digest)? else {
        return Ok(None);
    };
    let tokenizer =
        Tokenizer::from_json(&json).or_input("cannot read the tokenizer file beside the blob")?;
    let [copy, new] = TEXTS;
    Ok(Some([
        ids::encode(&tokenizer, copy)?,
        ids::encode(&tokenizer, new)?,
    ]))
}
