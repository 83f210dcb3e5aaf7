//! The one table: every file of known answers on every implementation and machine.

use crate::child;
use crate::cross::{self, MACHINES, Toolchain};
use anyhow::{Context, Result, bail, ensure};
use int_engine::kernels::Kernels;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What to verify, and where.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder of the vector files
    #[arg(long, default_value = "kat/vectors/v1-draft")]
    vectors: PathBuf,
    /// Columns of the table, every one required; all by default
    #[arg(long, value_delimiter = ',')]
    columns: Vec<String>,
    /// The table as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cross: cross::Options,
}

/// A verifier that runs once and reports on its targets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Runner {
    /// kat-verify, optimised, on this machine.
    Native,
    /// kat-verify with overflow checks and debug assertions.
    Checked,
    /// The second implementation.
    Oracle,
    /// kat-verify on a machine of `MACHINES`.
    Emulated(usize),
}

/// A column: a target of a verifier. A checked column stands for every implementation of the build.
struct Column {
    name: &'static str,
    runner: Runner,
    targets: &'static [&'static str],
}

const fn column(name: &'static str, runner: Runner, targets: &'static [&'static str]) -> Column {
    Column {
        name,
        runner,
        targets,
    }
}

/// In the order of the table. `index` holds what the index says of a file: its digest, length and count.
static COLUMNS: [Column; 15] = [
    column("index", Runner::Native, &["index"]),
    column("reference", Runner::Native, &["reference"]),
    column("scalar", Runner::Native, &["scalar"]),
    column("avx2", Runner::Native, &["avx2"]),
    column("avxvnni", Runner::Native, &["avxvnni"]),
    column("avx512", Runner::Native, &["avx512"]),
    column(AMX, Runner::Native, &["amx"]),
    column(
        "x86-64 checked",
        Runner::Checked,
        &["reference", "scalar", "avx2", "avxvnni", "avx512"],
    ),
    column("amx checked", Runner::Checked, &["amx"]),
    column("oracle", Runner::Oracle, &["oracle"]),
    column("arm64 reference", Runner::Emulated(0), &["reference"]),
    column("arm64 scalar", Runner::Emulated(0), &["scalar"]),
    column("arm64 neon", Runner::Emulated(0), &["neon"]),
    column("s390x reference", Runner::Emulated(1), &["reference"]),
    column("s390x scalar", Runner::Emulated(1), &["scalar"]),
];

/// Backends of x86-64.
const KERNELS: &str = "scalar,avx2,avxvnni,avx512,amx";
/// The backend that few machines have: its columns are required by name only, or where the machine has it.
const AMX: &str = "amx";

/// Threads and pages with which the engine verifies everything on this machine, besides one thread and huge pages. A
/// column's cell passes when all settings do.
const SETTINGS: [(&str, &str); 5] = [
    ("1", "small"),
    ("2", "huge"),
    ("2", "small"),
    ("5", "huge"),
    ("5", "small"),
];

/// What one file says of one column.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cell {
    Pass,
    Fail(String),
    /// No verdict: the reason of a SKIP, or that there is no line.
    Missing(String),
}

impl Cell {
    fn word(&self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail(_) => "FAIL",
            Self::Missing(_) => "-",
        }
    }

    /// One verdict for several targets: the first that does not pass.
    fn both(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Fail(_), _) | (_, Self::Pass) => self,
            _ => other,
        }
    }
}

/// The report of a verifier: file and target to the line.
#[derive(Default)]
struct Report {
    /// Level and number of cases of each file.
    files: BTreeMap<String, (String, u64)>,
    cells: BTreeMap<(String, String), Cell>,
}

impl Report {
    /// Adds another report: a line passes when it passes in both.
    fn add(&mut self, mut other: Self) {
        for key in self.cells.keys() {
            if KERNELS.split(',').any(|backend| backend == key.1) {
                let none = || Cell::Missing("no line".into());
                other.cells.entry(key.clone()).or_insert_with(none);
            }
        }
        for (key, cell) in other.cells {
            let cell = match self.cells.remove(&key) {
                Some(before) => before.both(cell),
                None => cell,
            };
            self.cells.insert(key, cell);
        }
    }

    /// Reads the lines of spec 7.8.
    fn parse(text: &str) -> Result<Self> {
        let lines: Vec<Value> = serde_json::from_str(text).context("not a report")?;
        let mut report = Self::default();
        for line in &lines {
            let text = |member: &str| {
                let value = line[member].as_str().map(str::to_owned);
                value.with_context(|| format!("no {member} in {line}"))
            };
            let (file, detail) = (text("file")?, text("detail")?);
            let cell = match text("result")?.as_str() {
                "PASS" => Cell::Pass,
                "FAIL" => Cell::Fail(detail),
                "SKIP" => Cell::Missing(detail),
                other => bail!("the result {other} of {file}"),
            };
            let target = text("target")?;
            // What passes as the index itself is no file of answers.
            if target != "index" || cell != Cell::Pass {
                let known = report.files.entry(file.clone()).or_default();
                *known = (
                    text("level")?,
                    known.1.max(line["cases"].as_u64().unwrap_or(0)),
                );
            }
            let key = (file, target);
            let cell = match report.cells.remove(&key) {
                Some(before) => before.both(cell),
                None => cell,
            };
            report.cells.insert(key, cell);
        }
        Ok(report)
    }

    /// The verdict on a file for all `targets`, and for the file's digest as this verifier found it.
    fn cell(&self, file: &str, targets: &[&str]) -> Cell {
        let of = |target: &str| {
            self.cells
                .get(&(file.to_owned(), target.to_owned()))
                .cloned()
        };
        let index = of("index").unwrap_or(Cell::Pass);
        targets
            .iter()
            .map(|target| {
                of(target).unwrap_or_else(|| Cell::Missing(format!("no line for {target}")))
            })
            .fold(index, Cell::both)
    }
}

/// The table: one row a file.
struct Table<'a> {
    columns: Vec<&'a Column>,
    rows: Vec<(String, String, u64, Vec<Cell>)>,
}

impl<'a> Table<'a> {
    /// From the reports of the columns' runners. A file that only one report names is a row too.
    fn new(columns: Vec<&'a Column>, reports: &BTreeMap<Runner, Report>) -> Self {
        let mut files: BTreeMap<&str, (&str, u64)> = BTreeMap::new();
        for report in reports.values() {
            for (file, (level, cases)) in &report.files {
                let known = files.entry(file).or_insert((level, 0));
                known.1 = known.1.max(*cases);
            }
        }
        let cell = |file: &str, column: &&Column| match reports.get(&column.runner) {
            Some(report) => report.cell(file, column.targets),
            None => Cell::Missing("the column did not run".into()),
        };
        let rows = files.into_iter().map(|(file, (level, cases))| {
            let cells = columns.iter().map(|column| cell(file, column)).collect();
            (file.to_owned(), level.to_owned(), cases, cells)
        });
        let rows = rows.collect();
        Self { columns, rows }
    }

    fn count(&self, word: &str) -> usize {
        let cells = self.rows.iter().flat_map(|(.., cells)| cells);
        cells.filter(|cell| cell.word() == word).count()
    }

    /// Every file passes in every column that covers its level, and there are files.
    fn holds(&self) -> bool {
        let passes = |level: &str, column: &Column, cell: &Cell| {
            let covered = column.runner != Runner::Oracle || level != kat::precompiles::LEVEL;
            *cell == Cell::Pass || !covered && matches!(cell, Cell::Missing(_))
        };
        let mut rows = self.rows.iter();
        !self.rows.is_empty()
            && rows.all(|(_, level, _, cells)| {
                let mut cells = self.columns.iter().zip(cells);
                cells.all(|(column, cell)| passes(level, column, cell))
            })
    }

    fn totals(&self) -> String {
        let (pass, fail, missing) = (self.count("PASS"), self.count("FAIL"), self.count("-"));
        let cases: u64 = self.rows.iter().map(|(_, _, cases, _)| cases).sum();
        format!(
            "{} files of {cases} cases on {} columns: {pass} PASS, {fail} FAIL, {missing} missing",
            self.rows.len(),
            self.columns.len()
        )
    }

    fn text(&self) -> String {
        let width = self.rows.iter().map(|(file, ..)| file.len()).max();
        let width = width.unwrap_or(0).max(4);
        // Names of two words take two lines.
        let names = self.columns.iter().map(|c| {
            let (first, second) = c.name.split_once(' ').unwrap_or(("", c.name));
            (first, second, first.len().max(second.len()).max(4))
        });
        let names: Vec<(&str, &str, usize)> = names.collect();
        let line = |head: &str, count: &str, cells: Vec<&str>| {
            let mut line = format!("{head:<width$} {count:>5}");
            for (cell, (.., width)) in cells.into_iter().zip(&names) {
                line += &format!("  {cell:<width$}");
            }
            line.trim_end().to_owned() + "\n"
        };
        let mut text = line("", "", names.iter().map(|n| n.0).collect());
        text += &line("file", "cases", names.iter().map(|n| n.1).collect());
        for (file, _, cases, cells) in &self.rows {
            text += &line(
                file,
                &cases.to_string(),
                cells.iter().map(Cell::word).collect(),
            );
        }
        for (file, _, _, cells) in &self.rows {
            for (cell, column) in cells.iter().zip(&self.columns) {
                match cell {
                    Cell::Pass => {}
                    Cell::Fail(detail) | Cell::Missing(detail) => {
                        text += &format!("{} {file} {}: {detail}\n", cell.word(), column.name);
                    }
                }
            }
        }
        text + &self.totals() + "\n"
    }

    fn json(&self) -> Value {
        let row = |(file, level, cases, cells): &(String, String, u64, Vec<Cell>)| {
            let cells = cells.iter().zip(&self.columns).map(|(cell, column)| {
                let value = match cell {
                    Cell::Pass => json!({"result": "PASS"}),
                    Cell::Fail(detail) => json!({"result": "FAIL", "detail": detail}),
                    Cell::Missing(detail) => json!({"result": "MISSING", "detail": detail}),
                };
                (column.name.to_owned(), value)
            });
            let cells: serde_json::Map<String, Value> = cells.collect();
            json!({"file": file, "level": level, "cases": cases, "columns": cells})
        };
        json!({
            "columns": self.columns.iter().map(|c| c.name).collect::<Vec<_>>(),
            "files": self.rows.iter().map(row).collect::<Vec<_>>(),
            "pass": self.count("PASS"),
            "fail": self.count("FAIL"),
            "missing": self.count("-"),
            "holds": self.holds(),
        })
    }
}

/// The chosen columns, in the table's order.
fn chosen(names: &[String]) -> Result<Vec<&'static Column>> {
    for name in names {
        ensure!(
            COLUMNS.iter().any(|c| c.name == name),
            "column `{name}` is unknown, must be one of {}",
            COLUMNS.iter().map(|c| c.name).collect::<Vec<_>>().join(",")
        );
    }
    let all = names.is_empty();
    let amx = Kernels::by_name(AMX).is_ok();
    if all && !amx {
        eprintln!("vectors: no column of amx, which this machine lacks");
    }
    let by_default = |c: &Column| amx || !c.targets.contains(&AMX);
    let columns = COLUMNS
        .iter()
        .filter(|c| (all && by_default(c)) || names.iter().any(|n| n == c.name));
    Ok(columns.collect())
}

/// Prints the table; fails unless every file passes in every column.
pub(crate) fn run(options: &Options) -> Result<()> {
    let columns = chosen(&options.columns)?;
    let wants = |runner| columns.iter().any(|c| c.runner == runner);
    let vectors = child::root().join(&options.vectors);
    let mut reports = BTreeMap::new();
    // The interpreter takes one core while the compiler takes the other.
    let mut reported = |runner, report: Result<Report>| {
        report
            .map(|report| reports.insert(runner, report))
            .map(|_| ())
    };
    std::thread::scope(|scope| -> Result<()> {
        let oracle = wants(Runner::Oracle).then(|| {
            let mut command = Command::new("python3");
            command.arg(child::root().join("kat/oracle")).arg("verify");
            scope.spawn(|| report("oracle", command, &vectors))
        });
        for (runner, release) in [(Runner::Native, true), (Runner::Checked, false)] {
            if wants(runner) {
                let verifier =
                    verifier(cross::cargo("build").args(release.then_some("--release")))?;
                let name = if release { "native" } else { "checked" };
                let mut all = report(name, Command::new(&verifier), &vectors)?;
                for (threads, pages) in SETTINGS {
                    let name = format!("{name}, threads {threads}, {pages} pages");
                    let mut command = Command::new(&verifier);
                    command.args(["--backend", KERNELS, "--threads", threads, "--pages", pages]);
                    all.add(report(&name, command, &vectors)?);
                }
                reported(runner, Ok(all))?;
            }
        }
        if (0..MACHINES.len()).any(|at| wants(Runner::Emulated(at))) {
            let toolchain = Toolchain::set_up(&options.cross)?;
            for (at, machine) in MACHINES.iter().enumerate() {
                if wants(Runner::Emulated(at)) {
                    let verifier = verifier(&mut toolchain.cargo(machine, "build"))?;
                    let command = machine.run(&verifier)?;
                    reported(
                        Runner::Emulated(at),
                        report(machine.name, command, &vectors),
                    )?;
                }
            }
        }
        if let Some(oracle) = oracle {
            let report = oracle.join();
            reported(
                Runner::Oracle,
                report.unwrap_or_else(|_| bail!("the oracle's thread")),
            )?;
        }
        Ok(())
    })?;
    let table = Table::new(columns, &reports);
    if options.json {
        println!("{:#}", table.json());
    } else {
        print!("{}", table.text());
    }
    ensure!(table.holds(), "{}", table.totals());
    Ok(())
}

/// Builds kat-verify.
fn verifier(build: &mut Command) -> Result<PathBuf> {
    cross::executable(build.args(["--package", "kat", "--bin", "kat-verify"]))
}

/// Runs a verifier on the files. It exits with 3 for a FAIL: the table tells.
fn report(name: &str, mut verifier: Command, vectors: &Path) -> Result<Report> {
    let start = Instant::now();
    let output = verifier
        .arg(vectors)
        .arg("--json")
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("{verifier:?}"))?;
    let parsed = Report::parse(&String::from_utf8_lossy(&output.stdout));
    let parsed = parsed.with_context(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        format!("{verifier:?} ({}): {}", output.status, stderr.trim())
    })?;
    eprintln!(
        "vectors: {name}: {} lines in {:.1} s",
        parsed.cells.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(file: &str, target: &str, result: &str) -> Value {
        json!({"file": file, "level": "op", "target": target, "result": result, "cases": 3, "detail": "case a"})
    }

    /// A native report with one line a given triple.
    fn table(lines: &[(&str, &str, &str)], columns: &[&str]) -> Table<'static> {
        let lines = lines
            .iter()
            .map(|(file, target, result)| line(file, target, result));
        let report = Report::parse(&Value::from_iter(lines).to_string()).unwrap();
        let columns: Vec<String> = columns.iter().map(|c| (*c).to_owned()).collect();
        Table::new(
            chosen(&columns).unwrap(),
            &[(Runner::Native, report)].into(),
        )
    }

    #[test]
    fn only_pass_everywhere_holds() {
        let pass = ("a", "scalar", "PASS");
        assert!(table(&[pass, ("a", "avx2", "PASS")], &["scalar", "avx2"]).holds());
        assert!(!table(&[pass, ("a", "avx2", "FAIL")], &["scalar", "avx2"]).holds());
        // A target that this machine lacks, a line that is not there, a verifier that did not run, and no file.
        assert!(!table(&[pass, ("a", "avx2", "SKIP")], &["scalar", "avx2"]).holds());
        assert!(!table(&[pass, ("b", "avx2", "PASS")], &["scalar"]).holds());
        assert!(!table(&[pass], &["scalar", "oracle"]).holds());
        assert!(!table(&[], &["scalar"]).holds());
        // The index is a line without a row, until it fails; then every column does.
        let index = ("index.json", "index", "PASS");
        assert!(table(&[pass, index], &["scalar"]).holds());
        let index = ("index.json", "index", "FAIL");
        assert!(!table(&[pass, index], &["scalar"]).holds());
        assert!(!table(&[pass, ("a", "index", "FAIL")], &["scalar"]).holds());
    }

    #[test]
    fn the_text_names_what_fails() {
        let table = table(
            &[
                ("ops/a.json", "scalar", "PASS"),
                ("ops/a.json", "avx2", "FAIL"),
            ],
            &["scalar", "avx2", "s390x scalar"],
        );
        let text = table.text();
        assert!(text.contains("FAIL ops/a.json avx2: case a"), "{text}");
        assert!(
            text.contains("- ops/a.json s390x scalar: the column did not run"),
            "{text}"
        );
        assert!(
            text.ends_with("1 files of 3 cases on 3 columns: 1 PASS, 1 FAIL, 1 missing\n"),
            "{text}"
        );
        assert_eq!(
            table.json()["files"][0]["columns"]["avx2"]["result"],
            "FAIL"
        );
    }

    #[test]
    fn one_fault_of_several_targets_shows() {
        let fail = || Cell::Fail("x".into());
        let missing = || Cell::Missing("y".into());
        assert_eq!(Cell::Pass.both(fail()), fail());
        assert_eq!(fail().both(Cell::Pass), fail());
        assert_eq!(fail().both(missing()), fail());
        assert_eq!(missing().both(fail()), fail());
        assert_eq!(missing().both(Cell::Pass), missing());
    }

    #[test]
    fn columns_are_known() {
        let without = if Kernels::by_name(AMX).is_ok() { 0 } else { 2 };
        assert_eq!(chosen(&[]).unwrap().len(), COLUMNS.len() - without);
        assert_eq!(chosen(&["amx".into()]).unwrap().len(), 1);
        assert!(chosen(&["gpu".into()]).is_err());
    }
}
