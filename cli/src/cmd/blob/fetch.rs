//! `blue blob fetch`: a blob from sources that nobody has to trust.

use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::ControlFlow;
use std::time::Duration;

use blue_node::fetch::{FetchError, Options, Report, fetch};
use blue_node::store::{Store, What};
use int_engine::commitment::Commitment;
use serde_json::json;

use super::bars::Bars;
use super::{StoreArg, sources_json, sources_table, unfetched};
use crate::failure::Outcome;
use crate::loaded::{parse_threads, threads};
use crate::output;
use crate::progress::Progress;
use crate::store::{failure, sources};
use crate::values;

const HELP: &str = "\
Examples:
  blue blob fetch 0x… --store blobs --from http://127.0.0.1:9000
  blue blob fetch 0x… --store blobs --from https://a.example.org/blobs --from /mnt/blobs --json

Every chunk of 64 KiB is checked before it is written, so sources need no trust: one that sends other bytes is not asked
again, and the chunk comes from another. A fetch that broke off goes on when the command is run again.
Exit code 3: the sources offer only other bytes. Exit code 1: the network or the disk.";

/// Fetch a blob into a store.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The blob's commitment: 0x and 64 hexadecimal digits
    #[arg(value_name = "0x…")]
    commitment: Commitment,
    #[command(flatten)]
    store: StoreArg,
    /// A source: an address that begins with http:// or https://, or a folder; may be given several times
    #[arg(long, value_name = "URL|DIR", required = true)]
    from: Vec<String>,
    #[command(flatten)]
    how: How,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// How to fetch.
#[derive(clap::Args)]
pub(super) struct How {
    /// Connections to each source
    #[arg(long, value_name = "N", default_value = "4", value_parser = values::count::<NonZeroUsize>)]
    connections: NonZeroUsize,
    /// Failures in a row after which a source is given up
    #[arg(long, value_name = "N", default_value = "4", value_parser = values::count::<NonZeroU32>)]
    tries: NonZeroU32,
    /// Seconds without a byte after which a request has failed
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = values::whole::<u64>(1..=3600))]
    stall: u64,
    /// The longest blob that is taken, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Options::default().max_blob_len, value_parser = values::whole::<u64>(1..=u64::MAX))]
    max_len: u64,
    /// Do not take the disk space for the whole blob at once
    #[arg(long)]
    no_reserve: bool,
    /// Threads that hash; the result does not depend on it [default: all]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(super) threads: Option<NonZeroUsize>,
}

impl How {
    pub(super) fn options(&self) -> Options {
        Options {
            connections: self
                .connections
                .min(NonZeroUsize::new(64).unwrap_or(NonZeroUsize::MIN)),
            tries: self.tries,
            stall: Duration::from_secs(self.stall),
            max_blob_len: self.max_len,
            reserve: !self.no_reserve,
            threads: threads(self.threads),
            ..Options::default()
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let from = sources(&args.from)?;
    let store = args.store.open()?;
    let there = store.contains(args.commitment).map_err(failure)?;
    let mut bars = Bars::new(Progress::new(args.json));
    let fetched = fetch(
        &store,
        args.commitment,
        &from,
        &args.how.options(),
        &mut |step| {
            bars.fetching(step);
            ControlFlow::Continue(())
        },
    );
    bars.clear();
    match fetched {
        Ok(report) => tell(args, &store, &report, there),
        Err(error) => {
            if args.json {
                output::json(&refused(args, &error))?;
            }
            Err(unfetched(error))
        }
    }
}

fn refused(args: &Args, error: &FetchError) -> serde_json::Value {
    let (missing, sources) = match error {
        FetchError::Exhausted {
            missing, sources, ..
        } => (*missing, sources_json(sources)),
        _ => (None, json!([])),
    };
    json!({
        "published": false,
        "commitment": args.commitment.to_string(),
        "reason": error.to_string(),
        "missing_chunks": missing,
        "sources": sources,
    })
}

fn tell(args: &Args, store: &Store, report: &Report, there: bool) -> Outcome {
    let path = store.path(report.commitment, What::Blob);
    if args.json {
        return output::json(&json!({
            "published": true,
            "commitment": report.commitment.to_string(),
            "file": path.to_string_lossy(),
            "len": report.len,
            "kept": report.kept,
            "fetched": report.len - report.kept,
            "sources": sources_json(&report.sources),
        }));
    }
    let said = match report.kept {
        _ if there => "was there already".to_string(),
        0 => "fetched".to_string(),
        kept => format!("fetched, {} of it in an earlier run", output::bytes(kept)),
    };
    let mut text = output::pairs(&[
        (
            "blob".into(),
            format!("{}, {said}", output::bytes(report.len)),
        ),
        ("commitment".into(), report.commitment.to_string()),
        ("file".into(), path.display().to_string()),
    ]);
    if !there {
        text.push('\n');
        text.push_str(&sources_table(&report.sources));
    }
    output::text(&text)
}
