//! The export: layer by layer from the float model, then the constants, then the file.

use crate::calibration;
use crate::collect::{self, Site};
use crate::emit::{Emitter, Units, residual_constants};
use crate::error::ExportError;
use crate::gptq::{Factor, Quantized, quantize};
use crate::lower::{Equalisation, Mat, Rotations, lower};
use crate::partial::{Partial, sync_folder};
use crate::phase::rope_phases;
use crate::piece::{
    LayerFacts, LayerPiece, MATRICES, TablePiece, decode_residual, encode_residual,
};
use crate::report::{Report, SiteMaxima, TensorReport};
use float_engine::forward::embed_tokens;
use float_engine::source::{Checkpoint, LayerWeights, Matrix};
use int_engine::config::{Config, Dims, had_block};
use sha2::{Digest, Sha256};
use std::num::NonZeroUsize;
use std::path::Path;

/// Largest context of an integer model.
const MAX_CONTEXT: usize = 32768;
/// Raised whenever the bytes of an export change.
const REVISION: u32 = 1;

/// What to export, and how.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// Threads; any number gives the same bytes.
    pub threads: NonZeroUsize,
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
    /// Options without tokenizer, stop ids and metadata.
    #[must_use]
    pub fn new(threads: NonZeroUsize, accepted_ids: u32, calibration: Vec<Vec<u32>>) -> Self {
        Self {
            threads,
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
/// Finished layers are kept in the folder `out` + `.partial`; an export that is started again with the same checkpoint and
/// calibration goes on from there and gives the same bytes. The folder is removed at the end, and `out` appears whole or
/// not at all.
///
/// # Errors
/// See [`ExportError`]. The work folder is left for another attempt.
pub fn export(
    checkpoint: &Checkpoint,
    out: &Path,
    options: &ExportOptions,
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
        .chain_update(env!("CARGO_PKG_VERSION"))
        .chain_update(fingerprint)
        .chain_update(digest)
        .finalize();
    let partial = Partial::open(out, key.into())?;
    let rotations = Rotations::new(c);
    let run = Run {
        checkpoint,
        options,
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
        ("exporter.version".into(), env!("CARGO_PKG_VERSION").into()),
        ("rms.eps".into(), format!("{}", c.rms_eps)),
        ("rope.theta".into(), format!("{}", c.rope_theta)),
        ("source.family".into(), c.family.name().into()),
        ("source.fingerprint".into(), hex(&fingerprint)),
    ]);
    metadata.sort();
    let (commitment, blob_len, reports) =
        run.write(out, &config, unit, &phases, &facts, metadata, progress)?;
    run.partial.remove()?;
    Ok(Report {
        tensors: reports,
        sites: facts.iter().map(|f| f.maxima).collect(),
        residual_max,
        residual_unit: unit,
        calibration_tokens: options.calibration.iter().map(|w| w.len() as u64).sum(),
        calibration_digest: hex(&digest),
        source_fingerprint: hex(&fingerprint),
        blob_len,
        commitment,
    })
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
    })?)
}

struct Run<'a> {
    checkpoint: &'a Checkpoint,
    options: &'a ExportOptions,
    partial: Partial,
    rotations: Rotations,
}

fn layer_file(i: usize) -> String {
    format!("layer-{i:03}")
}

const RESIDUAL: &str = "residual";
const EMBED: &str = "embed";
const HEAD: &str = "head";

impl Run<'_> {
    fn load_layer(&self, i: usize) -> Option<LayerPiece> {
        let (index, bytes) = self.partial.load(&layer_file(i))?;
        (index == i as u64)
            .then(|| LayerPiece::decode(&bytes))
            .flatten()
    }

    fn load_table(&self, name: &str) -> Option<TablePiece> {
        TablePiece::decode(&self.partial.load(name)?.1)
    }

    /// Quantises every layer that is not yet in the work folder.
    fn layers(&self, progress: &mut dyn Progress) -> Result<Vec<LayerFacts>, ExportError> {
        let c = self.checkpoint.config();
        let mut facts: Vec<Option<LayerFacts>> = (0..c.layers)
            .map(|i| self.load_layer(i).map(|p| p.facts))
            .collect();
        let done = facts.iter().take_while(|f| f.is_some()).count();
        let lengths: Vec<usize> = self
            .options
            .calibration
            .iter()
            .map(|w| w.len() * c.hidden)
            .collect();
        // The stored residual is the input of the layer of its index.
        let stored = self.partial.load(RESIDUAL).and_then(|(index, bytes)| {
            let index = usize::try_from(index).ok().filter(|&i| i <= done)?;
            Some((index, decode_residual(&bytes, &lengths)?))
        });
        let (start, mut residual) = match stored {
            Some(s) => s,
            None => (0, self.embedded()?),
        };
        progress.stage("layers", c.layers as u64);
        (0..start).for_each(|_| progress.step());
        for (i, known) in facts.iter_mut().enumerate().skip(start) {
            let weights = self.checkpoint.layer(i)?;
            if known.is_some() {
                collect::advance(c, &weights, &mut residual, self.options.threads)?;
            } else {
                let piece = self.layer(i, &weights, &mut residual)?;
                self.partial
                    .store(&layer_file(i), i as u64, &piece.encode())?;
                *known = Some(piece.facts);
            }
            let after = encode_residual(&residual);
            self.partial.store(RESIDUAL, i as u64 + 1, &after)?;
            progress.step();
        }
        Ok(facts.into_iter().flatten().collect())
    }

    fn embedded(&self) -> Result<Vec<Vec<f32>>, ExportError> {
        let embed = self.checkpoint.embed()?;
        let rows = |ids: &Vec<u32>| embed_tokens(self.checkpoint.config(), &embed, ids);
        Ok(self
            .options
            .calibration
            .iter()
            .map(rows)
            .collect::<Result<_, _>>()?)
    }

    fn layer(
        &self,
        i: usize,
        weights: &LayerWeights,
        residual: &mut [Vec<f32>],
    ) -> Result<LayerPiece, ExportError> {
        let (c, r, threads) = (
            self.checkpoint.config(),
            &self.rotations,
            self.options.threads,
        );
        let seen = collect::capture(c, i, weights, residual, threads)?;
        let eq = Equalisation::of(r, &seen.maxima, weights);
        let w = lower(r, &eq, weights);
        let mut matrices = Vec::new();
        let mut quantise = |site: Site, inputs: &str, group: &[&Mat]| {
            let factor = self.factor(&site, || format!("the {inputs} of layer {i}"))?;
            matrices.extend(group.iter().map(|m| quantise_mat(m, &factor, threads)));
            Ok::<f64, ExportError>(site.max)
        };
        let attention = seen.attention_input(r, c.rms_eps, threads);
        let before = quantise(attention, "attention input", &[&w.q, &w.k, &w.v])?;
        let o_in = quantise(seen.o_input(r, &eq, threads), "input of o", &[&w.o])?;
        let mlp = seen.mlp_input(r, c.rms_eps, threads);
        let middle = quantise(mlp, "MLP input", &[&w.gate, &w.up])?;
        let down_in = quantise(
            seen.down_input(r, &eq, threads),
            "input of down",
            &[&w.down],
        )?;
        let pair_max = |max: &[f64], factor: &dyn Fn(usize) -> f64| {
            max.iter()
                .enumerate()
                .fold(0.0f64, |m, (c, v)| m.max(v * factor(c)))
        };
        let group = r.heads / r.kv_heads;
        let maxima = SiteMaxima {
            residual: before.max(middle),
            q: pair_max(&seen.maxima.q, &|c| eq.pair_of(r, group, c)),
            k: pair_max(&seen.maxima.k, &|c| 1.0 / eq.pair_of(r, 1, c)),
            v: seen.value_max(r, &eq, threads),
            o_in,
            down_in,
        };
        let name = |n: &str| format!("layers.{i}.{n}");
        let reports = MATRICES.iter().zip(&matrices);
        let reports = reports
            .map(|(n, q)| TensorReport::of(name(n), q, true))
            .collect();
        let gains = w.q_gain.clone().zip(w.k_gain.clone());
        Ok(LayerPiece {
            facts: LayerFacts {
                maxima,
                gains,
                reports,
            },
            matrices,
        })
    }

    fn factor(&self, site: &Site, name: impl Fn() -> String) -> Result<Factor, ExportError> {
        Factor::new(&site.gram, self.options.threads).map_err(|e| ExportError::Hessian {
            site: name(),
            row: e.row,
        })
    }

    /// Quantises the embedding and the head; returns the largest residual after the last layer.
    fn tables(&self, progress: &mut dyn Progress) -> Result<f64, ExportError> {
        let (c, threads) = (self.checkpoint.config(), self.options.threads);
        let logits_table = if c.tied { EMBED } else { HEAD };
        progress.stage("tables", if c.tied { 1 } else { 2 });
        if !c.tied {
            if self.load_table(EMBED).is_none() {
                let piece = self.table(EMBED, &self.checkpoint.embed()?, None, 0.0);
                self.partial.store(EMBED, 0, &piece.encode())?;
            }
            progress.step();
        }
        let max = match self.load_table(logits_table) {
            Some(piece) => piece.residual_max,
            None => {
                let lengths: Vec<usize> = self
                    .options
                    .calibration
                    .iter()
                    .map(|w| w.len() * c.hidden)
                    .collect();
                let stored = self
                    .partial
                    .load(RESIDUAL)
                    .filter(|(i, _)| *i == c.layers as u64);
                let stored = stored.and_then(|(_, bytes)| decode_residual(&bytes, &lengths));
                let residual = match stored {
                    Some(r) => r,
                    None => self.replay()?,
                };
                let norm = self.checkpoint.final_norm()?;
                let site =
                    collect::head_site(&self.rotations, &residual, &norm, c.rms_eps, threads);
                drop(residual);
                let factor = self.factor(&site, || "the head's input".into())?;
                let table = match self.checkpoint.lm_head()? {
                    Some(head) => head,
                    None => self.checkpoint.embed()?,
                };
                let piece = self.table(logits_table, &table, Some(&factor), site.max);
                self.partial.store(logits_table, 0, &piece.encode())?;
                piece.residual_max
            }
        };
        progress.step();
        Ok(max)
    }

    /// The residual after the last layer, from the start.
    fn replay(&self) -> Result<Vec<Vec<f32>>, ExportError> {
        let c = self.checkpoint.config();
        let mut residual = self.embedded()?;
        for i in 0..c.layers {
            collect::advance(
                c,
                &self.checkpoint.layer(i)?,
                &mut residual,
                self.options.threads,
            )?;
        }
        Ok(residual)
    }

    fn table(&self, name: &str, m: &Matrix, f: Option<&Factor>, residual_max: f64) -> TablePiece {
        let matrix = quantize(m.rows, m.cols, f, self.options.threads, |o, row| {
            row.iter_mut()
                .zip(m.row(o))
                .for_each(|(r, &v)| *r = f64::from(v));
            self.rotations.rotate_residual(row);
        });
        let report = TensorReport::of(name.into(), &matrix, f.is_some());
        TablePiece {
            matrix,
            report,
            residual_max,
        }
    }

    /// Reads a piece that this export stored or found whole.
    fn need<T>(&self, piece: Option<T>, name: &str) -> Result<T, ExportError> {
        piece.ok_or_else(|| {
            let kind = std::io::ErrorKind::InvalidData;
            let error = std::io::Error::new(kind, "a finished piece changed during the export");
            ExportError::io(Path::new(name))(error)
        })
    }

    /// Writes the blob beside `out`, syncs and renames it.
    #[allow(clippy::too_many_arguments)]
    fn write(
        &self,
        out: &Path,
        config: &Config,
        unit: f64,
        phases: &[u64],
        facts: &[LayerFacts],
        metadata: Vec<(String, String)>,
        progress: &mut dyn Progress,
    ) -> Result<(String, u64, Vec<TensorReport>), ExportError> {
        let c = self.checkpoint.config();
        let mut beside = out.as_os_str().to_owned();
        beside.push(".tmp");
        let beside = Path::new(&beside);
        let sink = std::fs::File::create(beside).map_err(ExportError::io(beside))?;
        let sink = std::io::BufWriter::with_capacity(1 << 20, sink);
        progress.stage("blob", c.layers as u64 + 2);
        let mut emit = Emitter::new(sink, config, unit, self.options.tokenizer_digest, metadata)?;
        let embed = self.need(self.load_table(EMBED), EMBED)?;
        emit.embed(&embed.matrix, phases)?;
        let mut reports = vec![embed.report.clone()];
        let tied = c.tied.then_some(embed);
        progress.step();
        for (i, f) in facts.iter().enumerate() {
            let piece = self.need(self.load_layer(i), &layer_file(i))?;
            let units = Units::of(i, f, c.head_dim, had_block(c.head_dim))?;
            emit.layer(i, &piece, &units)?;
            reports.extend(f.reports.iter().cloned());
            progress.step();
        }
        let head = match tied {
            Some(embed) => embed,
            None => {
                let head = self.need(self.load_table(HEAD), HEAD)?;
                reports.push(head.report.clone());
                head
            }
        };
        let (sink, commitment) = emit.head(&self.checkpoint.final_norm()?, &head.matrix)?;
        let finish = || -> std::io::Result<u64> {
            let file = sink
                .into_inner()
                .map_err(std::io::IntoInnerError::into_error)?;
            file.sync_all()?;
            let len = file.metadata()?.len();
            std::fs::rename(beside, out)?;
            sync_folder(out.parent().unwrap_or(Path::new(".")))?;
            Ok(len)
        };
        let len = finish().map_err(ExportError::io(out))?;
        progress.step();
        Ok((commitment.to_string(), len, reports))
    }
}

fn quantise_mat(m: &Mat, f: &Factor, threads: NonZeroUsize) -> Quantized {
    quantize(m.rows, m.cols, Some(f), threads, |o, row| {
        row.copy_from_slice(m.row(o))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::random_windows;
    use crate::linalg::isa;

    #[test]
    fn every_vector_extension_gives_the_same_blob() {
        let folder = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../models/golden/b_qwen3_untied_f32_sharded"
        );
        let checkpoint = Checkpoint::open(Path::new(folder)).unwrap();
        let vocab = checkpoint.config().vocab;
        let options = ExportOptions::new(
            NonZeroUsize::MIN,
            vocab as u32,
            random_windows(1, vocab, 2, 48),
        );
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("model.blob");
        let mut first: Option<Vec<u8>> = None;
        isa::test::with_each(|isa| {
            export(&checkpoint, &out, &options, &mut ()).unwrap();
            let blob = std::fs::read(&out).unwrap();
            assert!(
                first.get_or_insert_with(|| blob.clone()) == &blob,
                "{isa:?}"
            );
        });
    }
}
