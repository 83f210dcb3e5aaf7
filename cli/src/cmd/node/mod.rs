//! `blue node`: what a validator's operator asks of a machine.

mod check;

use crate::failure::Outcome;

const HELP: &str = "\
Examples:
  blue node check
  blue node check model.blob --assert";

/// Validators: is this machine right, large and fast enough?
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Check(check::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.action {
        Action::Check(args) => check::run(&args),
    }
}
