//! `blue kat gen`: makes the files of the current set anew.

use std::path::{Path, PathBuf};

use kat::generate::{self, GenerateError};
use kat::set::{self, SetError};

use crate::failure::{Code, Failure, Outcome};
use crate::output;

const HELP: &str = "\
Examples:
  blue kat gen
  blue kat gen --check

Runs in the repository: the default model's blob is one of the inputs. The same version writes the same bytes. Only a
folder whose name ends in -draft is written; other sets are released and never change. --check compares and ends with
exit code 3 where a file differs, with 2 where the folder cannot be read.";

/// Make the files of known answers anew, or compare them.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Folder to write; kat/vectors/v1-draft of the repository if not given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write nothing; compare with what would be written
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let root = set::root_above(Path::new(".")).ok_or_else(|| {
        Failure::input("this folder is not in the repository of blue")
            .hint("the default model's blob, models/default/blue-tiny.blob, is needed")
    })?;
    let dir = args.out.clone().unwrap_or_else(|| root.join(set::CURRENT));
    if args.check {
        let differences = generate::differences(&root, &dir);
        let differences = differences.map_err(|e| Failure::new(Code::Input, e))?;
        if differences.is_empty() {
            return output::text("every file is the one that would be written\n");
        }
        let lines = differences
            .iter()
            .map(|(file, how)| format!("{file}: {how}"));
        return Err(
            Failure::mismatch(lines.collect::<Vec<_>>().join("; ")).hint("run: blue kat gen")
        );
    }
    let written = generate::write(&root, &dir).map_err(failed)?;
    output::text(&format!("{written} files in {}\n", dir.display()))
}

fn failed(e: GenerateError) -> Failure {
    let code = match &e {
        GenerateError::Set(SetError::Io { .. }) => Code::Runtime,
        _ => Code::Input,
    };
    Failure::new(code, e)
}
