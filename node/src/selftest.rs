//! Is this machine right? The known answers of spec 7, on the backend that will answer.

use int_engine::buffer::Pages;
use kat::target::Setting;
use kat::verify::{Conclusion, INDEX_TARGET, Verdict, Verify, VerifyError};
use std::num::NonZeroUsize;
use std::path::Path;
use std::{fs, io};

/// Paths below the repository's root, and contents, of the files that the answers are in.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/answers.rs"));

/// Where the set lies below the root.
const SET: &str = "kat/vectors/v1-draft";

/// What a self-test comes to when nothing differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// Files of answers.
    pub files: usize,
    /// Answers compared.
    pub cases: u64,
}

/// Why a machine must not answer.
#[derive(Debug, thiserror::Error)]
pub enum SelfTestError {
    /// An answer differs.
    #[error("{file}: {backend} is wrong: {what}. Do not let this machine vote")]
    Differs {
        /// The file.
        file: String,
        /// The backend.
        backend: String,
        /// The first difference.
        what: String,
    },
    /// The machine lacks the backend.
    #[error("this machine lacks the backend {0}")]
    Absent(String),
    /// The answers cannot be verified.
    #[error("the known answers cannot be verified: {0}")]
    Verify(#[from] VerifyError),
    /// The files cannot be laid out in a temporary folder.
    #[error("cannot write the known answers to a temporary folder: {0}")]
    Io(#[from] io::Error),
}

/// Verifies every known answer, which this library holds, on a backend by its name with so many threads.
///
/// It takes a few seconds and writes to a temporary folder, which it removes.
///
/// # Errors
/// The first difference, or why the machine cannot be judged.
pub fn run(backend: &str, threads: NonZeroUsize) -> Result<Passed, SelfTestError> {
    let folder = tempfile::tempdir()?;
    // What marks the root of paths in the answers.
    fs::create_dir(folder.path().join("spec"))?;
    for (path, bytes) in FILES {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
        fs::write(path, bytes)?;
    }
    verify(&folder.path().join(SET), backend, threads)
}

/// The same for a set on disk.
///
/// # Errors
/// As [`run`].
pub fn verify(set: &Path, backend: &str, threads: NonZeroUsize) -> Result<Passed, SelfTestError> {
    let verify = Verify {
        dir: Some(set.into()),
        backends: vec![backend.into()],
        require: vec![backend.into()],
        levels: vec![],
        setting: Setting {
            threads,
            pages: Pages::Huge,
        },
    };
    let report = verify.run()?;
    if let Some(failed) = report.outcomes.iter().find(|o| o.result == Verdict::Fail) {
        return Err(SelfTestError::Differs {
            file: failed.file.clone(),
            backend: failed.target.clone(),
            what: failed.detail.clone(),
        });
    }
    match report.conclusion() {
        Conclusion::Passed => {
            let passed = report.outcomes.iter();
            let passed = passed.filter(|o| o.result == Verdict::Pass && o.target != INDEX_TARGET);
            Ok(
                passed.fold(Passed { files: 0, cases: 0 }, |sum, outcome| Passed {
                    files: sum.files + 1,
                    cases: sum.cases + outcome.cases,
                }),
            )
        }
        _ => Err(SelfTestError::Absent(backend.into())),
    }
}
