//! The report of a verification (spec 7.8).

use std::fmt::Write as _;

use crate::file::Listed;
use crate::json::Json;

/// What a file says about a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every case is equal.
    Pass,
    /// A case differs.
    Fail,
    /// The target was not asked.
    Skip,
}

impl Verdict {
    /// `PASS`, `FAIL` or `SKIP`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Skip => "SKIP",
        }
    }
}

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Path below the set's folder.
    pub file: String,
    /// The file's level.
    pub level: String,
    /// The target's name.
    pub target: String,
    /// The verdict.
    pub result: Verdict,
    /// Cases of the file.
    pub cases: u64,
    /// For FAIL the first difference, for SKIP the reason.
    pub detail: String,
}

impl Outcome {
    /// A difference.
    #[must_use]
    pub fn fail(file: &str, level: &str, target: &str, cases: u64, detail: String) -> Self {
        Self {
            file: file.into(),
            level: level.into(),
            target: target.into(),
            result: Verdict::Fail,
            cases,
            detail,
        }
    }

    pub(super) fn of(entry: &Listed, target: &str, checked: Result<(), String>) -> Self {
        let (result, detail) = match checked {
            Ok(()) => (Verdict::Pass, String::new()),
            Err(detail) => (Verdict::Fail, detail),
        };
        Self {
            file: entry.file.clone(),
            level: entry.level.clone(),
            target: target.into(),
            result,
            cases: entry.cases,
            detail,
        }
    }

    pub(super) fn skip(entry: &Listed, target: &str, reason: &str) -> Self {
        let mut outcome = Self::of(entry, target, Err(reason.into()));
        outcome.result = Verdict::Skip;
        outcome
    }
}

/// How many lines have each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Lines with PASS.
    pub pass: usize,
    /// Lines with FAIL.
    pub fail: usize,
    /// Lines with SKIP.
    pub skip: usize,
}

impl Totals {
    /// Counts the lines of a report.
    #[must_use]
    pub fn of(outcomes: &[Outcome]) -> Self {
        let count = |v: Verdict| outcomes.iter().filter(|o| o.result == v).count();
        Self {
            pass: count(Verdict::Pass),
            fail: count(Verdict::Fail),
            skip: count(Verdict::Skip),
        }
    }
}

/// One line for each file and target, and a line of totals.
#[must_use]
pub fn to_text(outcomes: &[Outcome]) -> String {
    let width = |f: &dyn Fn(&Outcome) -> usize| outcomes.iter().map(f).max().unwrap_or(0);
    let (file, target) = (width(&|o| o.file.len()), width(&|o| o.target.len()));
    let mut text = String::new();
    for o in outcomes {
        let line = format!(
            "{}  {:<target$}  {:<file$}  {}",
            o.result.name(),
            o.target,
            o.file,
            o.detail
        );
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let Totals { pass, fail, skip } = Totals::of(outcomes);
    let _ = writeln!(text, "{pass} PASS, {fail} FAIL, {skip} SKIP");
    text
}

/// The report as a list of objects.
#[must_use]
pub fn to_json(outcomes: &[Outcome]) -> Json {
    let one = |o: &Outcome| {
        Json::object([
            ("file", Json::text(&o.file)),
            ("level", Json::text(&o.level)),
            ("target", Json::text(&o.target)),
            ("result", Json::text(o.result.name())),
            ("cases", Json::integer(o.cases.into())),
            ("detail", Json::text(&o.detail)),
        ])
    };
    Json::List(outcomes.iter().map(one).collect())
}
