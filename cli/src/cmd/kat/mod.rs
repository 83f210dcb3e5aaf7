//! `blue kat`: known answers and traces (spec 7).

mod bisect;
mod generate;
mod list;
mod trace;
mod verify;

use crate::failure::Outcome;

const HELP: &str = "\
Examples:
  blue kat verify --require scalar
  blue kat list
  blue kat trace --tokens 1,7,13 -o mine.trace
  blue kat bisect mine.trace theirs.trace";

/// Known answers: verify them, find out where two machines part.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Verify(verify::Args),
    List(list::Args),
    Gen(generate::Args),
    Trace(trace::Args),
    Bisect(bisect::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.action {
        Action::Verify(args) => verify::run(args),
        Action::List(args) => list::run(&args),
        Action::Gen(args) => generate::run(&args),
        Action::Trace(args) => trace::run(&args),
        Action::Bisect(args) => bisect::run(&args),
    }
}
