//! What is asked of a verification, as commands take it.

use std::path::PathBuf;

use super::{INDEX_TARGET, Outcome, Verdict, legacy, run_levels};
use crate::file::LEVELS;
use crate::set::{self, SetError};
use crate::target::{Setting, Target};

/// Which set, on which targets, which levels.
#[derive(Clone, Debug, Default)]
pub struct Verify {
    /// The set's folder; the current set above the current folder if not given.
    pub dir: Option<PathBuf>,
    /// The targets by name; all if empty.
    pub backends: Vec<String>,
    /// Targets whose absence is a failure; they are verified too.
    pub require: Vec<String>,
    /// The levels of files; all if empty.
    pub levels: Vec<String>,
    /// How the engine runs.
    pub setting: Setting,
}

/// The outcome of a verification.
#[derive(Clone, Debug)]
pub struct Report {
    /// A line for each file and target.
    pub outcomes: Vec<Outcome>,
    /// Required targets that this machine lacks.
    pub absent: Vec<&'static str>,
}

impl Report {
    fn new(outcomes: Vec<Outcome>, required: &[Target]) -> Self {
        let absent = required.iter().filter(|t| matches!(t, Target::Absent(_)));
        Self {
            outcomes,
            absent: absent.map(|t| t.name()).collect(),
        }
    }

    /// What the report comes to. Lines of the index alone verify nothing.
    #[must_use]
    pub fn conclusion(&self) -> Conclusion {
        let mut targets = self.outcomes.iter().filter(|o| o.target != INDEX_TARGET);
        if self.outcomes.iter().any(|o| o.result == Verdict::Fail) {
            Conclusion::Failed
        } else if !self.absent.is_empty() {
            Conclusion::Absent
        } else if targets.any(|o| o.result == Verdict::Pass) {
            Conclusion::Passed
        } else {
            Conclusion::Nothing
        }
    }
}

/// What a report comes to; of several that apply, the first in the order failed, absent, nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// Nothing failed, and a target passed.
    Passed,
    /// A line is FAIL.
    Failed,
    /// A required target is absent.
    Absent,
    /// No target verified a file: none was chosen that this machine has, or no file.
    Nothing,
}

/// Why a verification does not begin.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// No target has the name.
    #[error("no backend is named {name:?}; there are {known}")]
    Backend {
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// No level has the name.
    #[error("no level is named {name:?}; there are {known}", known = LEVELS.join(", "))]
    Level {
        /// The name.
        name: String,
    },
    /// The set cannot be read.
    #[error(transparent)]
    Set(#[from] SetError),
}

fn targets(names: &[String]) -> Result<Vec<Target>, VerifyError> {
    let one = |name: &String| {
        Target::by_name(name).ok_or_else(|| VerifyError::Backend {
            name: name.clone(),
            known: Target::all()
                .iter()
                .map(|t| t.name())
                .collect::<Vec<_>>()
                .join(", "),
        })
    };
    let mut targets: Vec<Target> = Vec::new();
    for name in names {
        let target = one(name)?;
        if targets.iter().all(|t| t.name() != target.name()) {
            targets.push(target);
        }
    }
    Ok(targets)
}

impl Verify {
    /// The targets to verify, and those that are required.
    fn targets(&self) -> Result<(Vec<Target>, Vec<Target>), VerifyError> {
        let required = targets(&self.require)?;
        let mut targets = targets(&self.backends)?;
        if targets.is_empty() {
            targets = Target::all();
        }
        for target in &required {
            if targets.iter().all(|t| t.name() != target.name()) {
                targets.push(*target);
            }
        }
        let targets = targets.into_iter().map(|t| t.on(self.setting));
        Ok((targets.collect(), required))
    }

    /// Verifies.
    ///
    /// # Errors
    /// An unknown name, or a set that cannot be read.
    pub fn run(&self) -> Result<Report, VerifyError> {
        let (targets, required) = self.targets()?;
        if let Some(name) = self.levels.iter().find(|l| !LEVELS.contains(&l.as_str())) {
            return Err(VerifyError::Level { name: name.clone() });
        }
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => {
                let here = std::env::current_dir().map_err(|source| SetError::Io {
                    path: PathBuf::from("."),
                    source,
                })?;
                set::find(&here)?
            }
        };
        let wanted = |level: &str| self.levels.is_empty() || self.levels.iter().any(|l| l == level);
        let outcomes = run_levels(&dir, &set::root_of(&dir), &targets, &wanted)?;
        Ok(Report::new(outcomes, &required))
    }

    /// Verifies one file of packed calls (spec 7.9), called `name` in the report.
    ///
    /// # Errors
    /// An unknown name.
    pub fn run_legacy(&self, name: &str, bytes: &[u8]) -> Result<Report, VerifyError> {
        let (targets, required) = self.targets()?;
        Ok(Report::new(legacy(name, bytes, &targets), &required))
    }
}
