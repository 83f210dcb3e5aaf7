//! Verifies a set of known answers and prints the report: what runs where the `blue` command does not.
//!
//! `kat-verify [DIR] [--backend LIST] [--require LIST] [--level LIST] [--json]`

#![forbid(unsafe_code)]

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use kat::verify::{Verify, to_json, to_text};

const USAGE: &str =
    "usage: kat-verify [DIR] [--backend LIST] [--require LIST] [--level LIST] [--json]";

fn options(mut args: impl Iterator<Item = String>) -> Result<(Verify, bool), String> {
    let (mut options, mut json) = (Verify::default(), false);
    while let Some(arg) = args.next() {
        let mut list = || -> Result<Vec<String>, String> {
            let value = args.next().ok_or(format!("{arg} needs a list"))?;
            Ok(value.split(',').map(str::to_owned).collect())
        };
        match arg.as_str() {
            "--backend" => options.backends = list()?,
            "--require" => options.require = list()?,
            "--level" => options.levels = list()?,
            "--json" => json = true,
            _ if arg.starts_with('-') || options.dir.is_some() => return Err(USAGE.into()),
            _ => options.dir = Some(PathBuf::from(arg)),
        }
    }
    Ok((options, json))
}

fn main() -> ExitCode {
    let report = options(std::env::args().skip(1))
        .and_then(|(options, json)| Ok((options.run().map_err(|e| e.to_string())?, json)));
    match report {
        Ok((report, json)) => {
            let text = if json {
                format!("{}\n", to_json(&report.outcomes))
            } else {
                to_text(&report.outcomes)
            };
            if let Err(e) = std::io::stdout().write_all(text.as_bytes()) {
                eprintln!("error: cannot write to standard output: {e}");
                return ExitCode::from(2);
            }
            for name in &report.absent {
                eprintln!("error: the required backend {name} is absent");
            }
            if report.passed() {
                ExitCode::SUCCESS
            } else if report.absent.is_empty() {
                ExitCode::from(3)
            } else {
                ExitCode::FAILURE
            }
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}
