//! The `blue` command: export a checkpoint to an integer blob, check it, run it.
//!
//! Each subcommand is one file under `cmd`. Results go to standard output, progress and errors to
//! standard error. Exit codes are those of [`failure::Code`].

#![forbid(unsafe_code)]

mod backend;
mod blob_file;
mod bundle;
mod cmd;
mod contract;
mod deployed;
mod embedded;
mod failure;
mod files;
mod ids;
mod loaded;
mod measure;
mod names;
mod output;
mod progress;
mod reference;
mod rpc;
mod selftest;
mod signals;
mod sniff;
mod source_file;
mod store;
mod values;
mod wallet;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  runtime failure (output, network, memory, a required backend that is absent)
  2  usage error or bad input (a missing, unreadable or malformed file, an id outside the model's range)
  3  verification mismatch (commitment, digest, or two backends that differ)

Example:
  blue demo";

/// A language model in integers: the same bits on every machine.
#[derive(Parser)]
#[command(name = "blue", version = cmd::version(), after_help = EXIT_CODES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(cmd::demo::Args),
    Model(cmd::model::Args),
    Export(cmd::export::Args),
    Inspect(cmd::inspect::Args),
    Commit(cmd::commit::Args),
    Verify(cmd::verify::Args),
    VerifyAnswer(cmd::verify_answer::Args),
    Generate(cmd::generate::Args),
    Chat(cmd::chat::Args),
    Eval(cmd::eval::Args),
    Logits(cmd::logits::Args),
    Kat(cmd::kat::Args),
    Bench(cmd::bench::Args),
    Chain(cmd::chain::Args),
    Node(cmd::node::Args),
    Call(cmd::call::Args),
    Ask(cmd::ask::Args),
    Devnet(cmd::devnet::Args),
    Blob(cmd::blob::Args),
}

fn main() -> ExitCode {
    // A panic is a defect of this program, never of its input: one line, no backtrace. Those that become errors of a
    // database's file are told as such.
    std::panic::set_hook(Box::new(|info| {
        if blue_devnet::database::is_guarded() {
            return;
        }
        let _ = writeln!(
            io::stderr(),
            "error: internal error: {info}\nhint: this is a defect in blue; please report the command and its input"
        );
    }));
    let cli = Cli::parse();
    let outcome = std::panic::catch_unwind(|| match cli.command {
        Command::Demo(args) => cmd::demo::run(args),
        Command::Export(args) => cmd::export::run(args),
        Command::Inspect(args) => cmd::inspect::run(args),
        Command::Commit(args) => cmd::commit::run(args),
        Command::Verify(args) => cmd::verify::run(args),
        Command::VerifyAnswer(args) => cmd::verify_answer::run(args),
        Command::Generate(args) => cmd::generate::run(args),
        Command::Chat(args) => cmd::chat::run(args),
        Command::Eval(args) => cmd::eval::run(args),
        Command::Logits(args) => cmd::logits::run(args),
        Command::Model(args) => cmd::model::run(args),
        Command::Kat(args) => cmd::kat::run(args),
        Command::Bench(args) => cmd::bench::run(args),
        Command::Chain(args) => cmd::chain::run(args),
        Command::Node(args) => cmd::node::run(args),
        Command::Call(args) => cmd::call::run(&args),
        Command::Ask(args) => cmd::ask::run(&args),
        Command::Devnet(args) => cmd::devnet::run(args),
        Command::Blob(args) => cmd::blob::run(args),
    });
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => failure.report(),
        Err(_) => ExitCode::from(failure::Code::Runtime as u8),
    }
}
