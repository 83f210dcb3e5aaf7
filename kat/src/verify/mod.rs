//! What files of known answers say about implementations (spec 7.8).

mod answers;
mod models;
mod options;
mod report;
mod toy;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::file::{self, File, FileError, Listed};
use crate::precompiles::{self, Chain};
use crate::set::{self, SetError};
use crate::target::{Implementation, Target};

pub(crate) use models::{blob as model_blob, edited};
pub(crate) use toy::outcome;

pub use options::{Conclusion, Report, Verify, VerifyError};
pub use report::{Outcome, Totals, Verdict, to_json, to_text};

/// Name of the index of a set.
pub const INDEX: &str = "index.json";
/// The target that stands for the index in a report.
pub const INDEX_TARGET: &str = "index";

/// The first difference of a file, in words, or nothing.
pub(crate) type Checked = Result<(), String>;

/// Which levels of files are verified.
pub type Levels<'a> = &'a dyn Fn(&str) -> bool;

/// Verifies every file of the set in `dir` on every target; `root` is the folder that paths of blobs start from.
///
/// The index comes first: a file that is missing, not listed or of another digest fails under the target `index`, and
/// its answers are compared all the same.
///
/// # Errors
/// When the folder or its index cannot be read.
pub fn run(dir: &Path, root: &Path, targets: &[Target]) -> Result<Vec<Outcome>, SetError> {
    run_levels(dir, root, targets, &|_| true)
}

/// As [`run`], for the files of some levels.
///
/// # Errors
/// As [`run`].
pub fn run_levels(
    dir: &Path,
    root: &Path,
    targets: &[Target],
    levels: Levels<'_>,
) -> Result<Vec<Outcome>, SetError> {
    let mut outcomes = Vec::new();
    let index = set::read_file(dir, INDEX)?;
    let listed = match file::parse(&index) {
        Ok(File::Index(files)) => files,
        Ok(other) => {
            let why = format!("the level is {}, must be index", other.level());
            return Ok(vec![Outcome::fail(INDEX, "index", INDEX_TARGET, 0, why)]);
        }
        Err(e) => {
            return Ok(vec![Outcome::fail(
                INDEX,
                "index",
                INDEX_TARGET,
                0,
                e.to_string(),
            )]);
        }
    };
    for name in set::list(dir)? {
        let known = listed
            .binary_search_by(|f| f.file.as_str().cmp(&name))
            .is_ok();
        if !known && name != INDEX {
            let why = "not listed in index.json".to_owned();
            outcomes.push(Outcome::fail(&name, "", INDEX_TARGET, 0, why));
        }
    }
    for entry in listed.iter().filter(|entry| levels(&entry.level)) {
        match set::read_file(dir, &entry.file) {
            Ok(bytes) => one(entry, &bytes, dir, root, targets, &mut outcomes),
            Err(e) => {
                outcomes.push(Outcome::of(entry, INDEX_TARGET, Err(e.to_string())));
            }
        }
    }
    Ok(outcomes)
}

fn one(
    entry: &Listed,
    bytes: &[u8],
    dir: &Path,
    root: &Path,
    targets: &[Target],
    out: &mut Vec<Outcome>,
) {
    out.push(Outcome::of(entry, INDEX_TARGET, listed(entry, bytes)));
    if entry.level == "legacy" {
        out.extend(legacy(&entry.file, bytes, targets));
        return;
    }
    if entry.level == precompiles::LEVEL {
        let chain = Chain::read(dir, root);
        for &target in targets {
            out.push(target_outcome(entry, target, |_| {
                let chain = chain.as_ref().map_err(Clone::clone)?;
                match entry.file == precompiles::STATES {
                    true => chain.check(target),
                    false => precompiles::verify(&entry.file, bytes, chain, target),
                }
            }));
        }
        return;
    }
    match file::parse(bytes) {
        Ok(file) => {
            if file.level() != entry.level {
                let why = format!(
                    "the level is {}, the index says {}",
                    file.level(),
                    entry.level
                );
                out.push(Outcome::of(entry, INDEX_TARGET, Err(why)));
            }
            let prepared = Prepared::new(&file, root);
            for target in targets {
                out.push(target_outcome(entry, *target, |t| prepared.check(t)));
            }
        }
        Err(e) => {
            for target in targets {
                out.push(target_outcome(entry, *target, |_| Err(refused(&e))));
            }
        }
    }
}

/// A line for each target on one file of packed calls.
fn legacy(name: &str, bytes: &[u8], targets: &[Target]) -> Vec<Outcome> {
    let entry = Listed {
        file: name.into(),
        level: "legacy".into(),
        cases: crate::legacy::parse(bytes).map_or(0, |calls| calls.len()) as u64,
        bytes: bytes.len() as u64,
        keccak256: [0; 32],
    };
    let one = |target: &Target| {
        target_outcome(&entry, *target, |implementation| {
            crate::legacy::verify(bytes, implementation).map(|_| ())
        })
    };
    targets.iter().map(one).collect()
}

fn refused(e: &FileError) -> String {
    format!("the file is refused: {e}")
}

/// The index's facts about a file.
fn listed(entry: &Listed, bytes: &[u8]) -> Checked {
    let digest = int_engine::commitment::keccak256(bytes);
    if digest != entry.keccak256 {
        let (want, got) = (
            crate::hex::encode(&entry.keccak256),
            crate::hex::encode(&digest),
        );
        return Err(format!(
            "keccak256 of the file: expected {want}, found {got}"
        ));
    }
    if entry.bytes != bytes.len() as u64 {
        return Err(format!(
            "bytes: expected {}, found {}",
            entry.bytes,
            bytes.len()
        ));
    }
    let cases = match entry.level.as_str() {
        "legacy" => crate::legacy::parse(bytes).map_or(0, |calls| calls.len()),
        precompiles::LEVEL if entry.file != precompiles::STATES => {
            precompiles::parse(bytes).map_or(0, |calls| calls.len())
        }
        _ => file::parse(bytes).map_or(0, |f| f.cases()),
    };
    if entry.cases != cases as u64 {
        return Err(format!("cases: expected {}, found {cases}", entry.cases));
    }
    Ok(())
}

fn target_outcome(
    entry: &Listed,
    target: Target,
    check: impl Fn(&dyn Implementation) -> Checked,
) -> Outcome {
    match target.implementation() {
        Some(implementation) => {
            let checked = guarded(|| check(&*implementation));
            Outcome::of(entry, target.name(), checked)
        }
        None => Outcome::skip(entry, target.name(), "this machine lacks the backend"),
    }
}

/// A panic of an implementation is a difference.
fn guarded(check: impl Fn() -> Checked) -> Checked {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("without a message")))
    })
}

/// A file with what all targets need of it.
struct Prepared<'a> {
    file: &'a File,
    blob: Result<Vec<u8>, String>,
}

impl<'a> Prepared<'a> {
    fn new(file: &'a File, root: &Path) -> Self {
        let blob = match file {
            File::Model(model) => models::blob(model, root),
            _ => Ok(Vec::new()),
        };
        Self { file, blob }
    }

    fn check(&self, target: &dyn Implementation) -> Checked {
        match self.file {
            File::Index(_) => Err("an index inside a set".into()),
            File::Op(file) => answers::check(file, target),
            File::Model(file) => models::check(file, self.blob.as_deref(), target),
            File::Toy(file) => toy::check(file, target),
            File::States(_) => Err("states are verified with their set".into()),
        }
    }
}

/// Verifies one file on an implementation that need not be of this repository.
///
/// # Errors
/// The first difference: the case, the index, what was expected and what was found.
pub fn check(file: &File, root: &Path, target: &dyn Implementation) -> Result<(), String> {
    let prepared = Prepared::new(file, root);
    guarded(|| prepared.check(target))
}
