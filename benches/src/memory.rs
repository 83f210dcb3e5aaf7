//! Peak memory of a process that loads a blob and runs it.

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;

use int_engine::blob::Loader;
use int_engine::engine::{CpuEngine, Engine};
use int_engine::kernels::Kernels;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::subject::{self, Subject};

/// Positions of a page of the KV cache.
const PAGE: usize = 64;

/// Bytes at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Largest resident size of the process.
    pub peak: u64,
    /// The same when the blob was loaded, before anything else.
    pub loaded: u64,
    /// The blob's length: the weights and their scales.
    pub blob: u64,
    /// Keys and values of the positions, in whole pages.
    pub kv: u64,
    /// Positions.
    pub context: usize,
}

impl Memory {
    /// What is neither weights nor keys and values.
    #[must_use]
    pub fn beside(&self) -> i64 {
        self.peak as i64 - self.blob as i64 - self.kv as i64
    }

    /// What a load takes that is no weights.
    #[must_use]
    pub fn beside_load(&self) -> i64 {
        self.loaded as i64 - self.blob as i64
    }
}

/// Loads the blob, feeds `context` tokens, or as many as the model has room for, and decodes one more. To be called in a process that has done nothing else.
///
/// # Errors
/// The loader's and the session's; [`Error::NoCounter`] where the system does not tell the peak.
pub fn probe(blob: &Path, context: usize, threads: NonZeroUsize) -> Result<Memory, Error> {
    let model = subject::load_file(blob, Loader::new(), threads)?;
    let loaded = peak().ok_or(Error::NoCounter)?;
    let context = context
        .min(model.config().max_context().saturating_sub(1))
        .max(1);
    let subject = Subject::of("probe", model);
    let engine = CpuEngine::new(subject.model.clone(), Kernels::detect(), threads);
    let mut session = engine.session()?;
    session.feed(&subject.prompt(context))?;
    let id = session.greedy().unwrap_or_default();
    session.feed(&[id])?;
    let _ = session.greedy();
    Ok(Memory {
        peak: peak().ok_or(Error::NoCounter)?,
        loaded,
        blob: subject.model.blob_len(),
        kv: (subject.kv_bytes() as u64) * ((context + 1).next_multiple_of(PAGE) as u64),
        context,
    })
}

/// Largest resident size of this process so far.
fn peak() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib << 10)
}

/// Runs `program ARGS BLOB`, which prints what [`probe`] returns.
///
/// # Errors
/// [`Error::Probe`] when the program fails.
pub fn of_program(program: &Path, args: &[&str], blob: &Path) -> Result<Memory, Error> {
    let failed = |reason: String| Error::Probe { reason };
    let output = Command::new(program)
        .args(args)
        .arg(blob)
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| failed(e.to_string()))
}
