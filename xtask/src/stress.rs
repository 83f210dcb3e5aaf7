//! A checkpoint with function-preserving outliers.

use anyhow::{Context, Result};
use std::path::Path;

/// Loads `source`, injects the outliers of [`exporter::stress`], and writes a Hugging Face folder.
pub(crate) fn run(source: &Path, out: &Path, seed: u64) -> Result<()> {
    let _ = (source, out, seed);
    Err(anyhow::anyhow!("not built")).context("stress")
}
