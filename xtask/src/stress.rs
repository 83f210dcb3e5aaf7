//! A checkpoint with function-preserving outliers.

use anyhow::Result;
use float_engine::source::{Checkpoint, SaveOptions};
use float_engine::tokenizer::Tokenizer;
use std::fs;
use std::path::Path;

/// Loads `source`, injects the outliers of [`exporter::stress`], and writes a Hugging Face folder with the tokenizer.
pub(crate) fn run(source: &Path, out: &Path, seed: u64) -> Result<()> {
    let checkpoint = exporter::stress::inject(&Checkpoint::open(source)?, seed)?;
    checkpoint.save_hf(out, &SaveOptions::default())?;
    fs::write(
        out.join("tokenizer.json"),
        Tokenizer::open(source)?.to_json()?,
    )?;
    eprintln!("wrote {}", out.display());
    Ok(())
}
