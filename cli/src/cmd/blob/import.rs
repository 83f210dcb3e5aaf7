//! `blue blob import`: a file on this machine becomes a blob of a store.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use int_engine::commitment::Commitment;
use serde_json::json;

use super::StoreArg;
use super::bars::Bars;
use crate::failure::Outcome;
use crate::loaded::{parse_threads, threads};
use crate::progress::Progress;
use crate::store::failure;
use crate::{files, output};

const HELP: &str = "\
Examples:
  blue blob import model.blob --store blobs
  blue blob import model.blob --store blobs --commitment 0x…

The file is copied. With --commitment another blob is refused with exit code 3.";

/// Copy a blob into a store.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The blob
    file: PathBuf,
    #[command(flatten)]
    store: StoreArg,
    /// The commitment that it must have: 0x and 64 hexadecimal digits
    #[arg(long, value_name = "0x…")]
    commitment: Option<Commitment>,
    /// Threads; the result does not depend on it [default: all]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    // A file that is not there is bad input; the store would be made for nothing.
    files::open(&args.file)?;
    let store = args.store.open()?;
    let mut bars = Bars::new(Progress::new(args.json));
    let blob = store
        .import(
            &args.file,
            args.commitment,
            threads(args.threads),
            &mut |step| bars.importing(step),
        )
        .map_err(failure)?;
    bars.clear();
    if args.json {
        return output::json(&json!({
            "commitment": blob.commitment().to_string(),
            "file": blob.path().to_string_lossy(),
            "len": blob.len(),
        }));
    }
    output::text(&output::pairs(&[
        ("blob".into(), output::bytes(blob.len())),
        ("commitment".into(), blob.commitment().to_string()),
        ("file".into(), blob.path().display().to_string()),
    ]))
}
