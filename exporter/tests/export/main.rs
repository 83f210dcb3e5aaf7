//! Whole exports of small checkpoints: the same bytes however they are made, awkward weights, quality.

mod awkward;
mod options;
mod quality;
mod residual;
mod same_bytes;

use exporter::{ExportError, ExportOptions, calibration, export};
use float_engine::source::Checkpoint;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Qwen3, tied; Qwen3, own head, hidden 80 = 20 * 4; Llama, own head, hidden 96 = 12 * 8.
const A: &str = "golden/a_qwen3_tied_bf16";
const B: &str = "golden/b_qwen3_untied_f32_sharded";
const C: &str = "golden/c_llama_untied_f16";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../models")
        .join(name)
}

fn open(name: &str) -> Checkpoint {
    Checkpoint::open(&folder(name)).unwrap()
}

fn options(c: &Checkpoint, threads: usize) -> ExportOptions {
    let vocab = c.config().vocab;
    let windows = calibration::random_windows(1, vocab, 3, 40);
    ExportOptions::new(NonZeroUsize::new(threads).unwrap(), vocab as u32, windows)
}

/// The blob of an export into a fresh folder.
fn bytes(c: &Checkpoint, options: &ExportOptions) -> Result<Vec<u8>, ExportError> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model.blob");
    let report = export(c, &out, options, &mut ())?;
    let blob = std::fs::read(&out).unwrap();
    assert_eq!(report.blob_len, blob.len() as u64);
    let commitment = int_engine::commitment::commitment(&blob);
    assert_eq!(report.commitment, commitment.to_string());
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 1, "only the blob is left");
    Ok(blob)
}

/// The reference's model, after the engine's loader accepted the blob too.
fn load(blob: &[u8]) -> int_reference::Model {
    int_engine::model::Model::from_bytes(blob).unwrap();
    int_reference::Model::from_blob(blob).unwrap()
}
