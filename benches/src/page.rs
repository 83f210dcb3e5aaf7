//! The figures of a record inside a page of the documentation, between two marks.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::Error;
use crate::figures::{figures, growth};
use crate::goals::{Bound, goals};
use crate::record::Record;
use crate::{plots, synthetic, table};

/// The line before the figures; the record's file name follows.
const BEGIN: &str = "<!-- figures of ";
/// The line after them.
const END: &str = "<!-- end of figures -->";

/// The name of no record, between the marks of a page that has still to get figures.
pub const NONE: &str = "none";

/// A table as Markdown.
fn markdown(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (i, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if i == 0 {
            let _ = writeln!(text, "|{}", "---|".repeat(row.len()));
        }
    }
    text
}

/// The goals as a table's rows.
#[must_use]
pub fn goal_rows(record: &Record) -> Vec<Vec<String>> {
    let mut rows = vec![["goal", "bound", "measured", ""].map(String::from).to_vec()];
    for goal in goals(record) {
        let bound = match goal.bound {
            Bound::AtLeast(bound) => format!("at least {bound:.3}"),
            Bound::AtMost(bound) => format!("at most {bound:.3}"),
            Bound::Shown => "shown".into(),
        };
        let state = match goal.value {
            None => "not measured",
            Some(_) if goal.bound == Bound::Shown => "",
            Some(_) if goal.holds() => "holds",
            Some(_) => "missed",
        };
        let value = goal
            .value
            .map_or(String::new(), |value| format!("{value:.3}"));
        rows.push(vec![goal.what, bound, value, state.into()]);
    }
    rows
}

/// Lines of facts: machine, limits, memory, growth, quietness.
#[must_use]
pub fn facts(record: &Record) -> Vec<String> {
    let machine = &record.machine;
    let mut lines = vec![
        format!(
            "machine: {}; {} cores, {}",
            machine.cpu,
            machine.cores,
            machine.caches.join(", ")
        ),
        format!(
            "kernel {}, huge pages {}; kernels {}",
            machine.kernel,
            machine.huge_pages,
            machine.kernel_sets.join(", ")
        ),
        format!(
            "{}, {}, commit {}",
            machine.rustc, machine.build, machine.commit
        ),
    ];
    lines.extend(
        record
            .peers
            .iter()
            .map(|(name, version)| format!("{name}: {version}")),
    );
    lines.extend(table::limit_lines(record));
    if let Some(memory) = record.memory {
        let mb = |bytes: i64| bytes as f64 / 1e6;
        lines.push(format!(
            "peak memory {:.1} MB at context {}: blob {:.1} MB, keys and values {:.1} MB, {:.1} MB beside them",
            mb(memory.peak as i64),
            memory.context,
            mb(memory.blob as i64),
            mb(memory.kv as i64),
            mb(memory.beside())
        ));
        lines.push(format!(
            "peak memory {:.1} MB when the blob was loaded: {:.1} MB beside it",
            mb(memory.loaded as i64),
            mb(memory.beside_load())
        ));
    }
    let best = machine.kernel_sets.last().map_or("", String::as_str);
    if let Some((slope, kv)) = growth(
        &figures(&record.series),
        best,
        synthetic::NAME,
        record.threads,
    ) {
        lines.push(format!(
            "decode takes {:.2} us longer for each token of context; its keys and values are read in {:.2} us",
            1e6 * slope,
            1e6 * kv
        ));
    }
    lines.push(table::quietness(record));
    lines
}

/// The figures of a record as Markdown, with its plots, which are files of the folder `plots` beside the page.
#[must_use]
pub fn section(record: &Record) -> String {
    let facts: String = facts(record)
        .into_iter()
        .map(|line| format!("* {line}\n"))
        .collect();
    let images: String = plots::TITLES
        .iter()
        .map(|(file, title)| format!("![{title}](plots/{file})\n\n"))
        .collect();
    format!(
        "Measured on {}.\n\n{facts}\n### Goals\n\n{}\n### Plots\n\n{images}### Models\n\n{}\n### Limits\n\n{}",
        record.date,
        markdown(&goal_rows(record)),
        markdown(&table::models(record)),
        markdown(&table::limits(record))
    )
}

/// The name of the record whose figures a page shows, or [`NONE`], and what stands between the marks.
#[must_use]
pub fn shown(page: &str) -> Option<(&str, &str)> {
    let (_, rest) = page.split_once(BEGIN)?;
    let (name, rest) = rest.split_once(" -->\n")?;
    let (figures, _) = rest.split_once(END)?;
    Some((name, figures))
}

/// `page` with the figures of `record`, which is the file `name`, in place of those that it shows; `None` when it has no
/// marks.
#[must_use]
pub fn with_figures(page: &str, name: &str, record: &Record) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!(
        "{before}{BEGIN}{name} -->\n{}{END}{after}",
        section(record)
    ))
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| Error::File {
        path: path.to_owned(),
        error,
    })
}

fn unmarked(path: &Path) -> Error {
    Error::Page {
        path: path.to_owned(),
        reason: format!("it needs a line {BEGIN}NAME --> and after it a line {END}"),
    }
}

/// Whether figures can be put into a page.
///
/// # Errors
/// [`Error::File`]; [`Error::Page`] when the page has no marks.
pub fn check(path: &Path) -> Result<(), Error> {
    let page = read(path)?;
    shown(&page).map(|_| ()).ok_or_else(|| unmarked(path))
}

/// Rewrites the figures of a page.
///
/// # Errors
/// As [`check`].
pub fn rewrite(path: &Path, name: &str, record: &Record) -> Result<(), Error> {
    let page = with_figures(&read(path)?, name, record).ok_or_else(|| unmarked(path))?;
    fs::write(path, page).map_err(|error| Error::File {
        path: path.to_owned(),
        error,
    })
}
