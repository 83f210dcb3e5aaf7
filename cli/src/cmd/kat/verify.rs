//! `blue kat verify`: files of known answers on the backends of this machine.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use int_engine::buffer::Pages;
use kat::legacy;
use kat::target::{Setting, Target};
use kat::verify::{
    Conclusion, Outcome as Line, Report, Verdict, Verify, VerifyError, to_json, to_text,
};

use crate::failure::{Context, Failure, Outcome};
use crate::{files, output};

const HELP: &str = "\
Examples:
  blue kat verify
  blue kat verify --require scalar,avx2
  blue kat verify kat/vectors/v1-draft --level op,toy --backend reference
  blue kat verify --legacy kat/vectors/v1-draft/legacy/toy_packed.json

Prints a line for each file and backend: PASS; FAIL with the first case and index that differ, what was expected and
what was found; SKIP with the reason. A file whose bytes differ from index.json is a FAIL of `index`. The files
and the report are those of spec 7.

Exit codes: 0 everything passed, 3 something failed, 1 a required backend is absent, 2 nothing could be verified.";

/// Verify files of known answers on every backend.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Folder with an index.json; kat/vectors/v1-draft here or in a folder above if not given
    dir: Option<PathBuf>,
    /// Backends to verify, with commas between: reference, scalar, avx2, …; all if not given
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    backend: Vec<String>,
    /// Backends whose absence is a failure
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    require: Vec<String>,
    /// Levels of files to verify: op, model, toy, legacy, precompile; all if not given
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    level: Vec<String>,
    /// Verify one file of packed calls of the toy model instead: an array with Input, Expected, Name, Gas
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dir", "level"])]
    legacy: Option<PathBuf>,
    /// Threads of the engine
    #[arg(long, default_value = "1")]
    threads: NonZeroUsize,
    /// Pages of the weights' memory
    #[arg(long, value_enum, default_value_t = PageKind::Huge)]
    pages: PageKind,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Pages of the weights' memory.
#[derive(Clone, Copy, clap::ValueEnum)]
enum PageKind {
    Huge,
    Small,
}

pub(crate) fn run(args: Args) -> Outcome {
    let json = args.json;
    let options = Verify {
        dir: args.dir,
        backends: args.backend,
        require: args.require,
        levels: args.level,
        setting: Setting {
            threads: args.threads,
            pages: match args.pages {
                PageKind::Huge => Pages::Huge,
                PageKind::Small => Pages::Small,
            },
        },
    };
    let report = match &args.legacy {
        Some(file) => {
            let bytes = files::read(file)?;
            legacy::parse(&bytes).or_input(format!("{} is refused", file.display()))?;
            let name = file.display().to_string();
            options.run_legacy(&name, &bytes)
        }
        None => options.run(),
    };
    match report {
        Ok(report) => finish(&report, json),
        Err(e @ VerifyError::Set(_)) => Err(Failure::input(e)
            .hint("name the folder that holds index.json, as in: blue kat verify DIR")),
        Err(e) => Err(Failure::input(e)),
    }
}

fn finish(report: &Report, json: bool) -> Outcome {
    if json {
        output::text(&format!("{}\n", to_json(&report.outcomes)))?;
    } else {
        output::text(&to_text(&report.outcomes))?;
    }
    match report.conclusion() {
        Conclusion::Passed => Ok(()),
        Conclusion::Failed => Err(different(&report.outcomes)),
        Conclusion::Absent => {
            let name = report.absent.join(", ");
            Err(Failure::runtime(format!(
                "the required backend {name} is absent on this machine"
            ))
            .hint(here()))
        }
        Conclusion::Nothing => {
            Err(Failure::input("no backend of this machine verified a file").hint(here()))
        }
    }
}

fn different(outcomes: &[Line]) -> Failure {
    let failed = |o: &&Line| o.result == Verdict::Fail;
    let first = outcomes.iter().find(failed);
    let what = |o: &Line| format!("{} on {}: {}", o.file, o.target, o.detail);
    Failure::mismatch(format!(
        "{} of {} lines are FAIL; the first: {}",
        outcomes.iter().filter(failed).count(),
        outcomes.len(),
        first.map_or(String::new(), what)
    ))
}

/// The backends of this machine, in words.
fn here() -> String {
    let present = Target::all()
        .into_iter()
        .filter(|t| !matches!(t, Target::Absent(_)));
    let names: Vec<_> = present.map(Target::name).collect();
    format!("this machine has {}", names.join(", "))
}
