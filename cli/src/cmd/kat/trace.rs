//! `blue kat trace`: every operation of a pass, in a file.

use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use kat::trace::{Header, Run, RunError, Writer};

use crate::backend::refused;
use crate::failure::{Code, Failure, Outcome};
use crate::files;
use crate::ids::{self, TokenList};
use crate::loaded::{Loaded, RunArgs};
use crate::progress::Progress;

const HELP: &str = "\
Examples:
  blue kat trace --tokens 1,7,13 -o mine.trace
  blue kat trace model.blob --tokens 1,7,13 --backend scalar --chunk 64 -o - | zstd > scalar.trace.zst

A trace is JSON lines, spec 7.10: a header, then for each position every operation from the embedding to
the last layer with the digest of its values, and those of the head after the last position of each chunk.
Compare two with `blue kat bisect`.";

/// Write the digest of every operation of a pass over a prompt.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The blob [default: the embedded model]
    blob: Option<PathBuf>,
    /// The prompt as token ids between commas
    #[arg(
        long,
        visible_alias = "ids",
        value_name = "1,2,3",
        allow_hyphen_values = true
    )]
    tokens: TokenList,
    #[command(flatten)]
    run: RunArgs,
    /// Tokens that are fed at once: more than one takes the path of prefill
    #[arg(long, value_name = "N", default_value = "1")]
    chunk: NonZeroUsize,
    /// Keep the values too, not only their digests
    #[arg(long)]
    values: bool,
    /// The trace file, or - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let loaded = Loaded::open(args.blob.as_deref(), &args.run, Progress::new(false))?;
    let prompt = &args.tokens.0;
    ids::check(prompt, loaded.model.config())?;
    let chunk = args.chunk.get();
    let header = header(&loaded, prompt, args.run.threads(), chunk);
    let run = Run::new(&*loaded.engine, prompt, chunk, args.values).map_err(cannot_run)?;
    let mut failed = None;
    let fill = |out: &mut dyn Write| -> io::Result<()> {
        let mut writer = Writer::new(out, &header)?;
        for entry in run {
            match entry {
                Ok(entry) => writer.entry(&entry)?,
                Err(e) => {
                    failed = Some(e);
                    return Err(io::Error::other("the pass ended early"));
                }
            }
        }
        Ok(())
    };
    let written = if args.output == Path::new("-") {
        let mut out = BufWriter::new(io::stdout().lock());
        fill(&mut out)
            .and_then(|()| out.flush())
            .map_err(Failure::stdout)
    } else {
        files::write(&args.output, fill)
    };
    match failed {
        Some(e) => Err(cannot_run(e)),
        None => written,
    }
}

fn header(loaded: &Loaded, prompt: &[u32], threads: NonZeroUsize, chunk: usize) -> Header {
    Header {
        commitment: loaded.model.commitment().0,
        prompt: prompt.to_vec(),
        target: loaded.engine.backend().to_owned(),
        machine: machine(threads, chunk),
    }
}

/// Where and how this program runs.
pub(super) fn machine(threads: NonZeroUsize, chunk: usize) -> String {
    let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
    format!("{arch}-{os}, threads {threads}, chunks of {chunk}")
}

pub(super) fn cannot_run(e: RunError) -> Failure {
    match e {
        RunError::Engine(e) => refused(e),
        e => Failure::new(
            Code::Input,
            anyhow::Error::new(e).context("cannot make the trace"),
        ),
    }
}
