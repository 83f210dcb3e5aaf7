//! A copy of the workspace's consensus crates in which the reference is another source text.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const RUNNER: &str = include_str!("runner.rs");
const LEVELS: &str = include_str!("levels.rs");
const RUNNER_MANIFEST: &str = "\
[package]
name = \"mutant-runner\"
version = \"0.0.0\"
edition.workspace = true
publish = false

[dependencies]
int-engine.workspace = true
int-reference.workspace = true
kat.workspace = true
serde_json.workspace = true
";
const MEMBERS: &str = "members = [\"int-engine\", \"int-engine/reference\", \"kat\", \"runner\"]";

/// Writes a file unless it has these bytes, so that its time tells cargo of changes.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Links everything in `from` but `except` into `to`.
pub(super) fn link(from: &Path, to: &Path, except: &[&str]) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let at = to.join(entry.file_name());
        let kept = except.iter().any(|name| entry.file_name() == *name);
        if !kept && fs::symlink_metadata(&at).is_err() {
            symlink(entry.path(), &at).with_context(|| at.display().to_string())?;
        }
    }
    Ok(())
}

/// The root manifest with other members.
pub(super) fn manifest(text: &str, members: &'static str) -> Result<String> {
    let lines = text.lines();
    let kept: Vec<&str> = lines
        .filter(|line| !line.starts_with("default-members"))
        .map(|line| {
            if line.starts_with("members") {
                members
            } else {
                line
            }
        })
        .collect();
    ensure!(
        kept.contains(&members),
        "Cargo.toml: `members` is one line of the manifest"
    );
    Ok(kept.join("\n") + "\n")
}

/// Builds the runner with `source` as the reference and returns its path.
///
/// The build has neither overflow checks nor debug assertions: answers must tell the mutants apart.
pub(super) fn build(root: &Path, source: &str) -> Result<PathBuf> {
    let copy = root.join("target/mutants");
    let root_manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    write(
        &copy.join("Cargo.toml"),
        &manifest(&root_manifest, MEMBERS)?,
    )?;
    fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock"))?;
    link(
        &root.join("int-engine"),
        &copy.join("int-engine"),
        &["reference"],
    )?;
    link(&root.join("kat"), &copy.join("kat"), &[])?;
    let reference = copy.join("int-engine/reference");
    link(&root.join("int-engine/reference"), &reference, &["src"])?;
    write(&reference.join("src/lib.rs"), source)?;
    write(&copy.join("runner/Cargo.toml"), RUNNER_MANIFEST)?;
    write(&copy.join("runner/src/main.rs"), RUNNER)?;
    write(&copy.join("runner/src/levels.rs"), LEVELS)?;
    let target = copy.join("target");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--release",
            "--package",
            "mutant-runner",
        ])
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "2")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "false")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "false")
        .env("RUSTFLAGS", "-A warnings")
        .status()?;
    ensure!(
        status.success(),
        "the mutated reference does not compile; the names in the errors above end in the mutant's id"
    );
    Ok(target.join("release/mutant-runner"))
}
