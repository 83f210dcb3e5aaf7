//! Verifies a set of known answers and prints the report: what runs where the `blue` command does not.
//!
//! `kat-verify [DIR] [--backend LIST] [--require LIST] [--level LIST] [--threads N] [--pages huge|small] [--json]`

#![forbid(unsafe_code)]

use std::io::{ErrorKind, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use int_engine::buffer::Pages;
use kat::verify::{Conclusion, Verify, to_json, to_text};

const USAGE: &str = "usage: kat-verify [DIR] [--backend LIST] [--require LIST] [--level LIST] [--threads N] \
     [--pages huge|small] [--json]";
const HELP: &str = "
DIR             folder with an index.json; kat/vectors/v1-draft here or in a folder above if not given
--backend LIST  only these, with commas between: reference, scalar, avx2, avxvnni, avx512, amx, neon
--require LIST  a backend of the list that this machine lacks is a failure
--level LIST    only files of these levels: op, model, toy, legacy, precompile
--threads N     threads of the engine, 1 if not given
--pages KIND    pages of the weights' memory: huge, if not given, or small
--json          one line of JSON (spec 7.8)

Exit codes: 0 everything passed; 3 something failed; 1 a required backend is absent; 2 nothing could be verified.
";

/// What a command line asks for.
enum Asked {
    Help,
    Verify(Verify, bool),
}

fn asked(mut args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let (mut options, mut json) = (Verify::default(), false);
    while let Some(arg) = args.next() {
        let mut argument = |what: &str| args.next().ok_or(format!("{arg} needs {what}"));
        let mut list = || -> Result<Vec<String>, String> {
            Ok(argument("a list")?.split(',').map(str::to_owned).collect())
        };
        match arg.as_str() {
            "--help" | "-h" => return Ok(Asked::Help),
            "--backend" => options.backends.extend(list()?),
            "--require" => options.require.extend(list()?),
            "--level" => options.levels.extend(list()?),
            "--threads" => {
                let n = argument("a number")?;
                let threads = n.parse().ok().filter(|n: &NonZeroUsize| n.get() <= 1024);
                options.setting.threads =
                    threads.ok_or(format!("{n} threads, must be 1 to 1024"))?;
            }
            "--pages" => {
                options.setting.pages = match &*argument("a kind")? {
                    "huge" => Pages::Huge,
                    "small" => Pages::Small,
                    other => return Err(format!("there are no {other} pages: huge or small")),
                }
            }
            "--json" => json = true,
            _ if arg.starts_with('-') => return Err(format!("there is no option {arg}\n{USAGE}")),
            _ if options.dir.is_some() => {
                return Err(format!("{arg} is one folder too many\n{USAGE}"));
            }
            _ => options.dir = Some(PathBuf::from(arg)),
        }
    }
    Ok(Asked::Verify(options, json))
}

/// The text for standard output, the lines for standard error and the exit code.
fn answer(asked: &Asked) -> Result<(String, Vec<String>, u8), String> {
    let (options, json) = match asked {
        Asked::Help => return Ok((format!("{USAGE}\n{HELP}"), Vec::new(), 0)),
        Asked::Verify(options, json) => (options, *json),
    };
    let report = options.run().map_err(|e| e.to_string())?;
    let text = if json {
        format!("{}\n", to_json(&report.outcomes))
    } else {
        to_text(&report.outcomes)
    };
    let absent = report.absent.iter();
    let mut errors: Vec<String> = absent
        .map(|name| format!("the required backend {name} is absent"))
        .collect();
    let code = match report.conclusion() {
        Conclusion::Passed => 0,
        Conclusion::Failed => 3,
        Conclusion::Absent => 1,
        Conclusion::Nothing => {
            errors.push("no backend of this machine verified a file".into());
            2
        }
    };
    Ok((text, errors, code))
}

fn main() -> ExitCode {
    let (text, errors, code) = match asked(std::env::args().skip(1)).and_then(|a| answer(&a)) {
        Ok(answer) => answer,
        Err(e) => (String::new(), vec![e], 2),
    };
    let mut out = std::io::stdout();
    if let Err(e) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Who closed the pipe has read enough; the exit code still tells.
        if e.kind() != ErrorKind::BrokenPipe {
            eprintln!("error: cannot write to standard output: {e}");
            return ExitCode::FAILURE;
        }
    }
    for error in errors {
        eprintln!("error: {error}");
    }
    ExitCode::from(code)
}
