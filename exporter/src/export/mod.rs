//! The export: layer by layer from the float model, then the tables, then the file.

mod layers;
mod tables;
mod write;

use crate::calibration;
use crate::compute::Compute;
use crate::emit::residual_constants;
use crate::error::ExportError;
use crate::lower::Rotations;
use crate::partial::Partial;
use crate::phase::rope_phases;
use crate::report::Report;
use float_engine::source::Checkpoint;
use int_engine::config::{Config, Dims, Scheme};
use sha2::{Digest, Sha256};
use std::num::NonZeroUsize;
use std::path::Path;
use write::Contents;

/// Largest context of an integer model.
const MAX_CONTEXT: usize = 32768;

/// The revision of the export's arithmetic: two exporters of one revision make one blob of the same checkpoint, tokenizer,
/// calibration and scheme. It goes up when, and only when, weights or constants come out otherwise.
pub const REVISION: u32 = 1;

/// What to export, and how.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// Threads; any number gives the same bytes.
    pub threads: NonZeroUsize,
    /// How the inputs of the matrix products are scaled.
    pub scheme: Scheme,
    /// Most tokens of prompt and output; the checkpoint's, at most 32768, when `None`.
    pub max_context: Option<u32>,
    /// Ids that the tokenizer can produce; later rows of the vocabulary are padding.
    pub accepted_ids: u32,
    /// Ids that end generation, in any order.
    pub stop_ids: Vec<u32>,
    /// Keccak-256 of the tokenizer file, zeros if none.
    pub tokenizer_digest: [u8; 32],
    /// Windows of tokens that activations are measured on, each a sequence of its own.
    pub calibration: Vec<Vec<u32>>,
    /// Further metadata of the blob, facts about the model only.
    pub metadata: Vec<(String, String)>,
}

impl ExportOptions {
    /// Options for dynamic scales, without tokenizer, stop ids and metadata.
    #[must_use]
    pub fn new(threads: NonZeroUsize, accepted_ids: u32, calibration: Vec<Vec<u32>>) -> Self {
        Self {
            threads,
            scheme: Scheme::Dynamic,
            max_context: None,
            accepted_ids,
            stop_ids: Vec::new(),
            tokenizer_digest: [0; 32],
            calibration,
            metadata: Vec::new(),
        }
    }
}

/// Told how an export advances. `()` ignores it.
pub trait Progress {
    /// A stage of `steps` steps begins.
    fn stage(&mut self, name: &str, steps: u64);
    /// A step of the stage is done.
    fn step(&mut self);
}

impl Progress for () {
    fn stage(&mut self, _name: &str, _steps: u64) {}
    fn step(&mut self) {}
}

/// Exports a checkpoint to the blob `out`.
///
/// Finished layers are kept in the folder `out` + `.partial`; an export that is started again with the same checkpoint,
/// calibration and scheme by an exporter of the same [`REVISION`] goes on from there and gives the same bytes. The folder is removed
/// at the end, and `out` appears whole or not at all.
///
/// # Errors
/// See [`ExportError`]. The work folder is left for another attempt.
pub fn export(
    checkpoint: &Checkpoint,
    out: &Path,
    options: &ExportOptions,
    progress: &mut dyn Progress,
) -> Result<Report, ExportError> {
    let compute = Compute::detect(options.threads);
    export_with(checkpoint, out, options, compute, progress)
}

fn export_with(
    checkpoint: &Checkpoint,
    out: &Path,
    options: &ExportOptions,
    compute: Compute,
    progress: &mut dyn Progress,
) -> Result<Report, ExportError> {
    let c = checkpoint.config();
    calibration::check(&options.calibration, c)?;
    let phases = rope_phases(c.rope_theta, c.head_dim).ok_or(ExportError::Theta(c.rope_theta))?;
    // Everything but eps is known now: refuse before the work.
    config(checkpoint, options, 0)?;
    progress.stage("fingerprint", 1);
    let fingerprint = checkpoint.fingerprint()?;
    progress.step();
    let digest = calibration::digest(&options.calibration);
    let key = Sha256::new()
        .chain_update(REVISION.to_le_bytes())
        .chain_update(fingerprint)
        .chain_update(digest)
        .chain_update(key_suffix(options.scheme))
        .finalize();
    let partial = Partial::open(out, key.into())?;
    let rotations = Rotations::new(c, options.scheme);
    let run = Run {
        checkpoint,
        options,
        compute,
        partial,
        rotations,
    };

    let facts = run.layers(progress)?;
    let residual_max = run.tables(progress)?;
    let residual_max = facts
        .iter()
        .fold(residual_max, |m, f| m.max(f.maxima.residual));
    let (unit, eps) = residual_constants(residual_max, c.hidden, c.rms_eps);
    let config = config(checkpoint, options, eps)?;

    let mut metadata = options.metadata.clone();
    metadata.extend([
        ("calibration.sha256".into(), hex(&digest)),
        ("exporter.revision".into(), REVISION.to_string()),
        ("rms.eps".into(), format!("{}", c.rms_eps)),
        ("rope.theta".into(), format!("{}", c.rope_theta)),
        ("source.family".into(), c.family.name().into()),
        ("source.fingerprint".into(), hex(&fingerprint)),
    ]);
    metadata.sort();
    let contents = Contents {
        config,
        metadata,
        residual_unit: unit,
        phases,
        facts: &facts,
    };
    let written = run.write(out, contents, progress)?;
    run.partial.remove()?;
    Ok(Report {
        scheme: options.scheme.to_string(),
        tensors: written.tensors,
        sites: facts.iter().map(|f| f.maxima).collect(),
        static_sites: facts.iter().filter_map(|f| f.static_site).collect(),
        residual_max,
        residual_unit: unit,
        calibration_tokens: options.calibration.iter().map(|w| w.len() as u64).sum(),
        calibration_digest: hex(&digest),
        source_fingerprint: hex(&fingerprint),
        blob_len: written.len,
        commitment: written.commitment.to_string(),
    })
}

/// What the key of an export's pieces ends with: nothing for dynamic scales.
fn key_suffix(scheme: Scheme) -> &'static [u8] {
    match scheme {
        Scheme::Dynamic => b"",
        Scheme::Static => b"static",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The blob's configuration; a dimension past u32 becomes one that the check refuses.
fn config(
    checkpoint: &Checkpoint,
    options: &ExportOptions,
    eps: u64,
) -> Result<Config, ExportError> {
    let c = checkpoint.config();
    let small = |v: usize| u32::try_from(v).unwrap_or(u32::MAX);
    let mut stop_ids = options.stop_ids.clone();
    stop_ids.sort_unstable();
    stop_ids.dedup();
    Ok(Config::new(Dims {
        hidden: small(c.hidden),
        layers: small(c.layers),
        heads: small(c.heads),
        kv_heads: small(c.kv_heads),
        head_dim: small(c.head_dim),
        intermediate: small(c.intermediate),
        vocab: small(c.vocab),
        accepted_ids: options.accepted_ids,
        max_context: options
            .max_context
            .unwrap_or(small(c.max_context.min(MAX_CONTEXT))),
        qk_norm: c.qk_norm,
        tied: c.tied,
        eps,
        stop_ids,
        scheme: options.scheme,
    })?)
}

/// An export under way.
struct Run<'a> {
    checkpoint: &'a Checkpoint,
    options: &'a ExportOptions,
    compute: Compute,
    partial: Partial,
    rotations: Rotations,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::random_windows;
    use crate::linalg::Isa;
    use float_engine::forward::Kernels;

    #[test]
    fn every_vector_extension_gives_the_same_blob() {
        let folder = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../models/golden/b_qwen3_untied_f32_sharded"
        );
        let checkpoint = Checkpoint::open(Path::new(folder)).unwrap();
        let vocab = checkpoint.config().vocab;
        let threads = NonZeroUsize::MIN;
        let options = ExportOptions::new(threads, vocab as u32, random_windows(1, vocab, 2, 48));
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("model.blob");
        let mut first: Option<Vec<u8>> = None;
        let kernels: Vec<Kernels> = Kernels::all().into_iter().filter_map(|(_, k)| k).collect();
        for isa in Isa::available() {
            for &kernels in &kernels {
                let compute = Compute {
                    threads,
                    isa,
                    kernels,
                };
                export_with(&checkpoint, &out, &options, compute, &mut ()).unwrap();
                let blob = std::fs::read(&out).unwrap();
                assert!(
                    first.get_or_insert_with(|| blob.clone()) == &blob,
                    "{isa:?} {}",
                    kernels.name()
                );
            }
        }
    }
}
