//! `blue kat list`: what a set of known answers holds.

use std::path::PathBuf;

use kat::file::File;
use kat::{file, set};
use serde_json::json;

use crate::failure::{Context, Failure, Outcome};
use crate::output;

const HELP: &str = "\
Example:
  blue kat list";

/// List the files of a set of known answers.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Folder with an index.json; kat/vectors/v1-draft here or in a folder above if not given
    dir: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// The set that a command is given, or the current one.
pub(super) fn folder(dir: Option<&PathBuf>) -> Outcome<PathBuf> {
    match dir {
        Some(dir) => Ok(dir.clone()),
        None => {
            let here = std::env::current_dir().or_runtime("there is no current folder")?;
            set::find(&here)
                .map_err(|e| Failure::input(e).hint("name the folder that holds index.json"))
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let dir = folder(args.dir.as_ref())?;
    let path = dir.join(kat::verify::INDEX);
    let index = set::read_file(&dir, kat::verify::INDEX).or_input("no set of known answers")?;
    let index = file::parse(&index).or_input(format!("{} is refused", path.display()))?;
    let File::Index(files) = index else {
        return Err(Failure::input(format!("{} is no index", path.display())));
    };
    let mut rows = Vec::new();
    for f in &files {
        // What a file is about is in the file; packed calls have another form.
        let op = match set::read_file(&dir, &f.file).ok().map(|b| file::parse(&b)) {
            Some(Ok(file)) => file.subject().to_owned(),
            _ => String::new(),
        };
        rows.push((f, op));
    }
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(f, op)| json!({"file": f.file, "level": f.level, "op": op, "cases": f.cases, "bytes": f.bytes}))
            .collect();
        return output::json(&rows);
    }
    let head = ["file", "level", "op", "cases", "bytes"].map(str::to_owned);
    let mut table = vec![head.to_vec()];
    for (f, op) in &rows {
        let cells = [
            f.file.clone(),
            f.level.clone(),
            op.clone(),
            f.cases.to_string(),
            f.bytes.to_string(),
        ];
        table.push(cells.to_vec());
    }
    let sum =
        |of: &dyn Fn(&kat::file::Listed) -> u64| files.iter().map(of).sum::<u64>().to_string();
    table.push(vec![
        format!("{} files", files.len()),
        String::new(),
        String::new(),
        sum(&|f| f.cases),
        sum(&|f| f.bytes),
    ]);
    output::text(&output::table(&table))
}
