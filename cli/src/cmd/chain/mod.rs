//! `blue chain`: what goes onto a chain, what it costs there, and whether this machine is fast enough (spec 6).

mod bench;
mod call;
mod gas;
mod genesis;
mod name;
mod propose;

use std::path::Path;

use int_engine::blob::Record;

use crate::blob_file;
use crate::embedded;
use crate::failure::{Context, Outcome};

const HELP: &str = "\
Examples:
  blue chain genesis --admin 0xa1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 \
    --admin 0xb0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0 --admin 0xc4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4 --quorum 2
  blue chain name assistant
  blue chain propose model.blob --model-version 1
  blue chain gas model.blob
  blue chain call --tokens 1,2,3 --max-new 8
  blue chain bench";

/// The precompiles: genesis state, proposals, prices, calls, and whether this machine is fast enough.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Genesis(genesis::Args),
    Name(name::Args),
    Propose(propose::Args),
    Gas(gas::Args),
    Call(call::Args),
    Bench(bench::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.action {
        Action::Genesis(args) => genesis::run(args),
        Action::Name(args) => name::run(&args),
        Action::Propose(args) => propose::run(&args),
        Action::Gas(args) => gas::run(&args),
        Action::Call(args) => call::run(&args),
        Action::Bench(args) => bench::run(&args),
    }
}

/// The record of a blob file, or of the embedded model.
fn record(blob: Option<&Path>) -> Outcome<Record> {
    let Some(path) = blob else {
        return Record::parse(embedded::BLOB).or_runtime("the embedded model's record");
    };
    Record::parse(&blob_file::head(path)?)
        .or_input(format!("{} has no valid record", path.display()))
}
