//! `blue kat`: known answers and traces (spec 7).

mod bisect;
mod trace;

use crate::failure::Outcome;

const HELP: &str = "\
Examples:
  blue kat trace --tokens 1,7,13 -o mine.trace
  blue kat bisect mine.trace theirs.trace";

/// Find out whether and where two machines part.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Trace(trace::Args),
    Bisect(bisect::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.action {
        Action::Trace(args) => trace::run(&args),
        Action::Bisect(args) => bisect::run(&args),
    }
}
