//! The table of mutants and its totals.

use super::levels::{LEVELS, Notice, Notices};
use super::mutant::Mutant;
use anyhow::Result;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Where the table is kept, below the repository's root.
pub(super) const PAGE: &str = "docs/MUTATIONS.md";

/// Where the section of the kernels begins.
pub(super) const KERNELS: &str = "## Mistakes in the kernels\n";

const INTRODUCTION: &str = "\
# Mutation score of the known answers

How much do the files of `kat/vectors/` notice? Each line below is a plausible mistake of an implementer, planted in the reference as an edit of its source text. Every mistake is asked at every level of the files: an operation's cases, layer digests, logits digests, tokens, a blob's bytes with its commitment, refused edits and refused prompts, and the toy model. A mistake that no level notices is an error of the files.

In a column, `x` means that an answer differs, `!` that there is none (a panic, a refused blob or prompt), `-` that nothing is noticed. For operations the column names the operation whose cases notice, and how many others do.

`cargo xtask mutants` makes this page with `--write`. It plants the mistakes, compiles them all, runs each, and fails when one is noticed nowhere, or no longer fits the source.
";

/// A mutant and who notices it.
pub(super) struct Caught {
    pub(super) mutant: Mutant,
    pub(super) notices: Notices,
}

impl Caught {
    /// Whether no level notices.
    pub(super) fn missed(&self) -> bool {
        self.notices.iter().all(Option::is_none)
    }

    /// The operation that the mutant's function is, as spec 7.4 names it.
    fn operation(&self) -> String {
        let function = self.mutant.function.replace("toy::rms_norm", "toy::norm");
        function.replace("toy::", "toy_")
    }

    fn cell(&self, notice: Option<&Notice>) -> String {
        let Some(notice) = notice else {
            return "-".into();
        };
        let mark = if notice.stopped { "!" } else { "x" };
        let own = self.operation();
        let named = notice.files.iter().find(|f| **f == own);
        match named.or(notice.files.first()) {
            Some(name) if !name.ends_with(".json") => match notice.files.len() {
                1 => format!("{mark} {name}"),
                n => format!("{mark} {name} +{}", n - 1),
            },
            _ => mark.into(),
        }
    }
}

/// The Markdown table.
pub(super) fn table(caught: &[Caught]) -> String {
    let mut text = format!("| mistake | spec | in | what | {} |\n", LEVELS.join(" | "));
    text += "|---|---|---|---|";
    text += &"---|".repeat(LEVELS.len());
    text += "\n";
    for c in caught {
        let m = &c.mutant;
        let cells: Vec<String> = c.notices.iter().map(|n| c.cell(n.as_ref())).collect();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | `{}` | {} | {} |",
            m.id,
            m.place,
            m.function,
            m.what,
            cells.join(" | ")
        );
    }
    text
}

/// How many mutants satisfy a condition on the levels that notice.
fn count(caught: &[Caught], f: impl Fn(&[bool; LEVELS.len()]) -> bool) -> usize {
    caught
        .iter()
        .filter(|c| f(&c.notices.each_ref().map(Option::is_some)))
        .count()
}

/// What the totals say, as (words, number).
fn lines(caught: &[Caught]) -> Vec<(String, usize)> {
    let mut lines = vec![(
        "noticed at some level".to_owned(),
        count(caught, |l| l.contains(&true)),
    )];
    for (i, level) in LEVELS.iter().enumerate() {
        lines.push((
            format!("noticed by the level {level}, were it the only one"),
            count(caught, |l| l[i]),
        ));
    }
    lines.push((
        "noticed by logits or tokens".into(),
        count(caught, |l| l[2] || l[3]),
    ));
    lines.push((
        "noticed by operations and by no other level".into(),
        count(caught, |l| *l == [true, false, false, false, false, false]),
    ));
    lines
}

/// The totals, one line each.
pub(super) fn totals(caught: &[Caught]) -> String {
    let all = caught.len();
    let lines = lines(caught);
    lines
        .iter()
        .map(|(words, n)| format!("{words}: {n} of {all}\n"))
        .collect()
}

/// The page.
pub(super) fn page(caught: &[Caught]) -> String {
    let totals: String = totals(caught)
        .lines()
        .map(|line| format!("- {line}\n"))
        .collect();
    format!(
        "{INTRODUCTION}\n## Totals\n{totals}\n## Mistakes\n{}",
        table(caught)
    )
}

/// Writes the page with a new first part, or with a new section of the kernels, the other part as it was.
pub(super) fn write_section(root: &Path, first: Option<&str>, kernels: Option<&str>) -> Result<()> {
    let path = root.join(PAGE);
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let (old_first, old_kernels) = match old.find(KERNELS) {
        Some(at) => old.split_at(at),
        None => (old.as_str(), ""),
    };
    let first = first.unwrap_or(old_first).trim_end();
    let page = format!("{first}\n\n{}", kernels.unwrap_or(old_kernels));
    kat::set::write(&path, format!("{}\n", page.trim_end()).as_bytes())?;
    Ok(())
}

/// Every notice in full.
pub(super) fn details(caught: &[Caught]) -> String {
    let mut text = String::new();
    for c in caught {
        for (level, notice) in LEVELS.iter().zip(&c.notices) {
            if let Some(n) = notice {
                let files = n.files.join(", ");
                let _ = writeln!(text, "{} {level}: {files}: {}", c.mutant.id, n.detail);
            }
        }
    }
    text
}

/// The table and the totals.
pub(super) fn json(caught: &[Caught]) -> Value {
    let mutants: Vec<Value> = caught
        .iter()
        .map(|c| {
            let m = &c.mutant;
            let levels = LEVELS.iter().zip(&c.notices).map(|(level, notice)| {
                let notice = notice
                    .as_ref()
                    .map(|n| json!({"files": n.files, "stopped": n.stopped, "detail": n.detail}));
                ((*level).to_owned(), json!(notice))
            });
            json!({
                "id": m.id, "spec": m.place, "function": m.function, "what": m.what,
                "noticed": levels.collect::<serde_json::Map<_, _>>(),
            })
        })
        .collect();
    let totals = lines(caught)
        .into_iter()
        .map(|(words, n)| (words, n.into()));
    json!({
        "mutants": mutants, "count": caught.len(),
        "totals": totals.collect::<serde_json::Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::list;

    #[test]
    fn the_page_lists_exactly_the_mutants_and_misses_none() {
        let page = std::fs::read_to_string(crate::child::root().join(PAGE)).unwrap();
        let first = page.split(KERNELS).next().unwrap();
        let rows: Vec<&str> = first.lines().filter(|l| l.starts_with("| `")).collect();
        let listed: Vec<String> = rows
            .iter()
            .map(|row| row.split(" | ").take(4).collect::<Vec<_>>().join(" | "))
            .collect();
        let known: Vec<String> = list::all()
            .iter()
            .map(|m| format!("| `{}` | {} | `{}` | {}", m.id, m.place, m.function, m.what))
            .collect();
        assert_eq!(listed, known, "cargo xtask mutants --write makes the page");
        assert!(
            rows.iter()
                .all(|row| !row.ends_with("| - | - | - | - | - | - |"))
        );
    }
}
