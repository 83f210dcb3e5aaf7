//! Running the `blue` binary and measuring it, on Unix.
#![allow(
    unsafe_code,
    reason = "wait4 is the one way to a child's own peak memory"
)]

use crate::cross;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What one finished child printed and used.
pub(crate) struct Finished {
    /// Standard output.
    pub(crate) stdout: String,
    /// Peak resident memory in bytes.
    pub(crate) peak_bytes: u64,
    /// Wall time in seconds.
    pub(crate) seconds: f64,
}

impl Finished {
    /// The standard output as JSON.
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("not JSON: {}", self.stdout))
    }
}

/// The workspace root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Builds `blue` in release mode and returns its path.
pub(crate) fn build_blue() -> Result<PathBuf> {
    cross::executable(cross::cargo("build").args(["--release", "--package", "blue-cli"]))
}

/// Runs a command to its end; its standard error goes to ours. Fails unless it exits with 0.
pub(crate) fn run(command: &mut Command) -> Result<Finished> {
    eprintln!("$ {command:?}");
    let start = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?}"))?;
    let mut stdout = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut stdout)?;
    }
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value of this plain C struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let pid = libc::pid_t::try_from(child.id())?;
    // SAFETY: pid is our own child, not yet waited for, and both pointers are to live locals.
    let waited = unsafe { libc::wait4(pid, &mut status, 0, &mut usage) };
    ensure!(
        waited == pid,
        "wait4 failed: {}",
        std::io::Error::last_os_error()
    );
    ensure!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "{command:?} failed (status {status}): {stdout}"
    );
    Ok(Finished {
        stdout,
        // Kilobytes on Linux.
        peak_bytes: u64::try_from(usage.ru_maxrss)? * 1024,
        seconds: start.elapsed().as_secs_f64(),
    })
}
