//! Mistakes planted in the kernels of each backend, one at a time, and which tests of the conformance suite notice.

mod list;
mod plant;

use super::{mutant::Mutant, report, workspace};
use crate::cross::{self, MACHINES, Machine, Toolchain};
use crate::{child, progress::Progress};
use anyhow::{Context, Result, bail, ensure};
use int_engine::kernels::Kernels;
use list::BACKENDS;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long the suite may take on one mutant before it counts as noticed.
const TIMEOUT: Duration = Duration::from_secs(300);
const MEMBERS: &str = "members = [\"int-engine\"]";
/// The backend that an emulated machine has where this one is x86-64.
const EMULATED: &str = "neon";

/// How the suite ends with a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// Every test passes.
    Missed,
    /// Tests that fail.
    Failed(Vec<String>),
    /// The process died or hung.
    Died,
}

/// A mutant of a backend and how the suite ends with it.
struct Scored {
    backend: &'static str,
    mutant: Mutant,
    end: End,
}

/// Every mutant with its backend and its number, from 1.
fn all() -> Vec<(usize, &'static str, &'static Mutant)> {
    let of = |&(backend, mutants): &(&'static str, &'static [&'static [Mutant]])| {
        let mutants = mutants.iter().copied().flatten();
        mutants.map(move |mutant| (backend, mutant))
    };
    let flat = BACKENDS.iter().flat_map(of);
    (1..).zip(flat).map(|(n, (b, m))| (n, b, m)).collect()
}

/// The planted text of every file that has mutants, by its path below `int-engine/src`.
fn planted(root: &Path) -> Result<BTreeMap<&'static str, String>> {
    let mut files: BTreeMap<&'static str, Vec<(usize, &Mutant)>> = BTreeMap::new();
    for (number, _, mutant) in all() {
        files
            .entry(mutant.place)
            .or_default()
            .push((number, mutant));
    }
    let plant = |(file, mutants): (&'static str, Vec<(usize, &Mutant)>)| {
        let path = root.join("int-engine/src").join(file);
        let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let text = plant::plant(&source, &mutants).map_err(anyhow::Error::msg)?;
        Ok((file, text))
    };
    files.into_iter().map(plant).collect()
}

/// Copies the files of a folder, those in `changed` with their new text.
fn copy(from: &Path, to: &Path, below: &Path, changed: &BTreeMap<&str, String>) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        let name = path.strip_prefix(below)?;
        if path.is_dir() {
            copy(&path, to, below, changed)?;
            continue;
        }
        let text = match name.to_str().and_then(|name| changed.get(name)) {
            Some(text) => text.clone(),
            None => fs::read_to_string(&path)?,
        };
        workspace::write(&to.join(name), &text)?;
    }
    Ok(())
}

/// A workspace of the engine alone, with every mistake planted.
fn workspace_of(root: &Path) -> Result<PathBuf> {
    let copy_root = root.join("target/kernel-mutants");
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    workspace::write(
        &copy_root.join("Cargo.toml"),
        &workspace::manifest(&manifest, MEMBERS)?,
    )?;
    fs::copy(root.join("Cargo.lock"), copy_root.join("Cargo.lock"))?;
    let engine = copy_root.join("int-engine");
    workspace::link(&root.join("int-engine"), &engine, &["src", "reference"])?;
    fs::create_dir_all(&copy_root)?;
    workspace::link(
        root,
        &copy_root,
        &["int-engine", "Cargo.toml", "Cargo.lock", "target", ".git"],
    )?;
    let mut changed = planted(root)?;
    let lib = fs::read_to_string(root.join("int-engine/src/lib.rs"))?;
    changed.insert("lib.rs", lib + plant::SELECTION);
    let source = root.join("int-engine/src");
    copy(&source, &engine.join("src"), &source, &changed)?;
    Ok(copy_root)
}

/// Builds the tests of the planted engine. Neither overflow checks nor debug assertions: the suite itself must notice.
fn build(mut cargo: Command, workspace: &Path, target: &str) -> Result<PathBuf> {
    cargo
        .args(["--package", "int-engine", "--lib", "--no-run"])
        .current_dir(workspace)
        .env("CARGO_TARGET_DIR", workspace.join(target))
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "2")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "false")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "false")
        .env("RUSTFLAGS", "-A warnings");
    cross::executable(&mut cargo).context("the mutated kernels do not compile")
}

/// Runs the tests of a backend with one mutant.
fn suite(mut tests: Command, backend: &str, number: usize) -> Result<End> {
    let mut child = tests
        // The second filter is the other table of a backend that has two.
        .args([
            format!("kernels::conformance::{backend}::"),
            format!("kernels::conformance::{backend}_"),
        ])
        .env(plant::VARIABLE, number.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("{tests:?}"))?;
    let mut pipe = child.stdout.take().context("a piped output")?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut pipe, &mut text).map(|_| text)
    });
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if start.elapsed() > TIMEOUT {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = reader
        .join()
        .map_err(|_| anyhow::anyhow!("the reader panicked"))??;
    let text = String::from_utf8_lossy(&text);
    ensure!(
        !text.contains("running 0 tests"),
        "no test of {backend} is named kernels::conformance::{backend}"
    );
    Ok(ended(status.and_then(|s| s.code()), &text))
}

/// How a test run ends, by its exit code, if it has one, and its output.
fn ended(code: Option<i32>, text: &str) -> End {
    let failed = text.lines().filter_map(|line| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.rsplit("::").next().unwrap_or(name).to_owned())
    });
    let mut failed: Vec<String> = failed.collect();
    failed.sort();
    match code {
        Some(0) => End::Missed,
        Some(_) if !failed.is_empty() => End::Failed(failed),
        _ => End::Died,
    }
}

/// Where a backend's tests run.
enum Place {
    Here,
    Emulated,
    Absent,
}

fn place(backend: &str, required: bool) -> Place {
    if Kernels::by_name(backend).is_ok() {
        Place::Here
    } else if backend == EMULATED && required && cfg!(target_arch = "x86_64") {
        Place::Emulated
    } else {
        Place::Absent
    }
}

fn emulated_machine() -> Result<&'static Machine> {
    let mut machines = MACHINES.iter();
    machines
        .find(|m| m.name == "arm64")
        .context("a machine with NEON")
}

/// Plants every mistake, runs the suite of its backend on each, and prints which tests notice.
pub(super) fn run(options: &super::Options) -> Result<()> {
    let root = child::root();
    let required = |backend: &str| options.require.iter().any(|name| name == backend);
    for name in &options.require {
        ensure!(
            BACKENDS.iter().any(|(backend, _)| backend == name),
            "no mistakes are known for a backend `{name}`"
        );
    }
    let chosen: Vec<_> = all()
        .into_iter()
        .filter(|(_, backend, mutant)| {
            let name = format!("{backend}/{}", mutant.id);
            options.only.is_empty() || options.only.contains(&name)
        })
        .collect();
    ensure!(
        options.only.is_empty() || chosen.len() == options.only.len(),
        "--only takes names as backend/mistake"
    );
    let workspace = workspace_of(&root)?;
    // The lock file without the packages that the copy does not have.
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let metadata = Command::new(&cargo)
        .args(["metadata", "--format-version", "1"])
        .current_dir(&workspace)
        .stdout(Stdio::null())
        .status()?;
    ensure!(metadata.success(), "the copied workspace is not one");
    let mut test = cross::cargo("test");
    let here = build(
        {
            test.arg("--release");
            test
        },
        &workspace,
        "target",
    )?;
    let mut emulated = None;
    let mut scored = Vec::new();
    let mut skipped = Vec::new();
    let progress = Progress::new("kernel mutants", chosen.len() as u64, options.json);
    for (backend, _) in BACKENDS {
        let numbers: Vec<_> = chosen.iter().filter(|(_, b, _)| *b == backend).collect();
        if numbers.is_empty() {
            continue;
        }
        let place = place(backend, required(backend));
        match place {
            Place::Absent => {
                ensure!(
                    !required(backend),
                    "backend `{backend}` is required and cannot run here"
                );
                skipped.push(backend);
                continue;
            }
            Place::Emulated if emulated.is_none() => {
                let toolchain = Toolchain::set_up(&options.cross)?;
                let test = toolchain.cargo(emulated_machine()?, "test");
                emulated = Some(build(test, &workspace, "target-emulated")?);
            }
            _ => {}
        }
        let tests = || match (&place, &emulated) {
            (Place::Emulated, Some(tests)) => emulated_machine()?.run(tests),
            _ => Ok(Command::new(&here)),
        };
        let sound = suite(tests()?, backend, 0)?;
        ensure!(
            sound == End::Missed,
            "{backend} without a mistake fails: {sound:?}"
        );
        for (number, _, mutant) in numbers {
            let end = suite(tests()?, backend, *number)?;
            scored.push(Scored {
                backend,
                mutant: **mutant,
                end,
            });
            progress.inc(1);
        }
    }
    drop(progress);
    if options.json {
        println!("{:#}", json_of(&scored, &skipped));
    } else {
        print!("{}\n{}", table(&scored), totals(&scored));
        skipped
            .iter()
            .for_each(|backend| println!("SKIP {backend}: this machine lacks it"));
    }
    if options.write {
        if !skipped.is_empty() {
            bail!(
                "the page lists every backend; {} did not run",
                skipped.join(", ")
            );
        }
        report::write_section(&root, None, Some(&section(&scored)))?;
    }
    let missed = scored.iter().filter(|s| s.end == End::Missed);
    let missed: Vec<String> = missed
        .map(|s| format!("{}/{}", s.backend, s.mutant.id))
        .collect();
    ensure!(
        missed.is_empty(),
        "{} of {} mistakes are noticed by no test: {}",
        missed.len(),
        scored.len(),
        missed.join(", ")
    );
    Ok(())
}

fn words(end: &End) -> String {
    match end {
        End::Missed => "-".into(),
        End::Failed(tests) => tests.join(", "),
        End::Died => "! the process dies".into(),
    }
}

/// What identifies a row of the table.
fn row_start(backend: &str, m: &Mutant) -> String {
    format!("| {backend} | `{}` | `{}` | {} |", m.id, m.function, m.what)
}

fn table(scored: &[Scored]) -> String {
    let rows = scored.iter().map(|s| {
        let start = row_start(s.backend, &s.mutant);
        format!("{start} {} |\n", words(&s.end))
    });
    let head = "| backend | mistake | in | what | noticed by |\n|---|---|---|---|---|\n";
    head.to_owned() + &rows.collect::<String>()
}

fn totals(scored: &[Scored]) -> String {
    let of = |(backend, _): &(&str, &[&[Mutant]])| {
        let mine: Vec<_> = scored.iter().filter(|s| s.backend == *backend).collect();
        let noticed = mine.iter().filter(|s| s.end != End::Missed).count();
        (!mine.is_empty()).then(|| format!("{backend}: {noticed} of {} noticed\n", mine.len()))
    };
    BACKENDS.iter().filter_map(of).collect()
}

/// The section of the page.
fn section(scored: &[Scored]) -> String {
    let totals: String = totals(scored)
        .lines()
        .map(|line| format!("- {line}\n"))
        .collect();
    format!(
        "{}\n\
         Each line is a mistake in the kernels of one backend, planted as an edit of their source text, and the tests of the conformance suite (`int-engine/src/kernels/conformance/`) that fail with it, on the processor itself or under emulation. A mistake with which all pass is an error of the suite.\n\n\
         `cargo xtask mutants --kernels --require {}` makes this section with `--write`.\n\n{totals}\n{}",
        report::KERNELS,
        BACKENDS.map(|(backend, _)| backend).join(","),
        table(scored)
    )
}

fn json_of(scored: &[Scored], skipped: &[&str]) -> serde_json::Value {
    let rows = scored.iter().map(|s| {
        let tests = match &s.end {
            End::Failed(tests) => tests.clone(),
            _ => Vec::new(),
        };
        json!({
            "backend": s.backend, "id": s.mutant.id, "file": s.mutant.place, "function": s.mutant.function,
            "what": s.mutant.what, "noticed": s.end != End::Missed, "tests": tests,
        })
    });
    json!({"mutants": rows.collect::<Vec<_>>(), "skipped": skipped})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_mutant_fits_its_file_and_has_a_name_of_its_own() {
        planted(&child::root()).unwrap();
        let names: BTreeSet<_> = all().iter().map(|(_, b, m)| (*b, m.id)).collect();
        assert_eq!(names.len(), all().len());
        for (backend, mutants) in BACKENDS {
            let count: usize = mutants.iter().map(|some| some.len()).sum();
            assert!(count >= 8, "{backend}: {count}");
        }
    }

    #[test]
    fn the_page_lists_exactly_the_mutants_and_misses_none() {
        let page = fs::read_to_string(child::root().join(report::PAGE)).unwrap();
        let (_, section) = page
            .split_once(report::KERNELS)
            .expect("a section of kernels");
        let rows: Vec<&str> = section.lines().filter(|l| l.contains(" | `")).collect();
        let known = all();
        assert_eq!(
            rows.len(),
            known.len(),
            "cargo xtask mutants --kernels --write makes the section"
        );
        for (row, (_, backend, mutant)) in rows.iter().zip(known) {
            let rest = row.strip_prefix(&row_start(backend, mutant));
            assert!(rest.is_some_and(|noticed| noticed != " - |"), "{row}");
        }
    }

    #[test]
    fn ends_of_test_runs_are_read() {
        let text = "running 2 tests\ntest kernels::conformance::avx2::rows ... ok\n\
                    test kernels::conformance::avx2::gemm ... FAILED\n";
        assert_eq!(ended(Some(101), text), End::Failed(vec!["gemm".into()]));
        assert_eq!(ended(Some(0), "running 2 tests\n"), End::Missed);
        assert_eq!(ended(None, text), End::Died);
        assert_eq!(ended(Some(1), "running 2 tests\n"), End::Died);
    }
}
