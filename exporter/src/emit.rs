//! From pieces to the blob: the constants of spec 3.2 and the file.

use crate::constants::{
    Multiplier, final_gain, head_gain, qk_norm_unit, qk_unit, residual_eps, residual_unit,
    score_multiplier, static_scales, v_unit,
};
use crate::error::ExportError;
use crate::gptq::Quantized;
use crate::piece::{LayerFacts, LayerPiece, MATRICES};
use int_engine::blob::Writer;
use int_engine::commitment::Commitment;
use int_engine::config::Config;
use int_engine::model::pre_shift;
use std::io::Write;

/// Bytes handed to the writer at a time.
const CHUNK: usize = 1 << 20;

/// The units of a layer's q, k and v rows, and its score multiplier.
pub(crate) struct Units {
    q: f64,
    k: f64,
    v: f64,
    score: (i32, i32),
}

impl Units {
    pub(crate) fn of(
        layer: usize,
        f: &LayerFacts,
        head_dim: usize,
        block: usize,
    ) -> Result<Self, ExportError> {
        let max = |g: &[f64]| crate::constants::max_abs(g);
        let (q, k) = match &f.gains {
            Some((q, k)) => (
                qk_norm_unit(max(q), head_dim),
                qk_norm_unit(max(k), head_dim),
            ),
            None => (qk_unit(f.maxima.q), qk_unit(f.maxima.k)),
        };
        let score = score_multiplier(q, k, head_dim, block).ok_or(ExportError::Scores {
            layer,
            q: f.maxima.q,
            k: f.maxima.k,
        })?;
        Ok(Self {
            q,
            k,
            v: v_unit(f.maxima.v),
            score,
        })
    }
}

/// The residual's unit and the blob's eps.
pub(crate) fn residual_constants(max: f64, hidden: usize, rms_eps: f64) -> (f64, u64) {
    let unit = residual_unit(max, hidden, rms_eps);
    (unit, residual_eps(unit, hidden, rms_eps))
}

/// A blob being written.
pub(crate) struct Emitter<W: Write> {
    writer: Writer<W>,
    config: Config,
    residual_unit: f64,
}

impl<W: Write> Emitter<W> {
    pub(crate) fn new(
        sink: W,
        config: &Config,
        residual_unit: f64,
        tokenizer_digest: [u8; 32],
        metadata: Vec<(String, String)>,
    ) -> Result<Self, ExportError> {
        let writer = Writer::new(sink, config, tokenizer_digest, metadata)?;
        Ok(Self {
            writer,
            config: config.clone(),
            residual_unit,
        })
    }

    fn weight(&mut self, name: &str, codes: &[i8]) -> Result<(), ExportError> {
        self.writer.begin(&format!("{name}.weight"))?;
        for part in codes.chunks(CHUNK) {
            let bytes: Vec<u8> = part.iter().map(|&c| c as u8).collect();
            self.writer.append(&bytes)?;
        }
        Ok(())
    }

    /// Multipliers and shifts of `factor * scale` per row.
    fn channel(&mut self, name: &str, scales: &[f64], factor: f64) -> Result<(), ExportError> {
        let (mut mults, mut shifts) = (Vec::new(), Vec::new());
        for (row, &scale) in scales.iter().enumerate() {
            let value = scale * factor;
            let tensor = || name.to_owned();
            let m = Multiplier::of(value).ok_or_else(|| ExportError::Scale {
                tensor: tensor(),
                row,
                value,
            })?;
            mults.extend_from_slice(&m.mult.to_le_bytes());
            shifts.push(m.shift as i8 as u8);
        }
        self.writer.tensor(&format!("{name}.mult"), &mults)?;
        self.writer.tensor(&format!("{name}.shift"), &shifts)?;
        Ok(())
    }

    fn i32s(&mut self, name: &str, values: &[i32]) -> Result<(), ExportError> {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Ok(self.writer.tensor(name, &bytes)?)
    }

    /// The embedding table and the rotary frequencies.
    pub(crate) fn embed(&mut self, q: &Quantized, phases: &[u64]) -> Result<(), ExportError> {
        self.weight("embed", &q.codes)?;
        // c = s_E / s_res * 2^-24
        self.channel(
            "embed",
            &q.scales,
            libm::ldexp(1.0 / self.residual_unit, -24),
        )?;
        let bytes: Vec<u8> = phases.iter().flat_map(|v| v.to_le_bytes()).collect();
        Ok(self.writer.tensor("rope.phase", &bytes)?)
    }

    /// One layer.
    pub(crate) fn layer(&mut self, i: usize, p: &LayerPiece, u: &Units) -> Result<(), ExportError> {
        let root = libm::sqrt(self.config.hidden() as f64);
        let shifts: Vec<i32> = p
            .matrices
            .iter()
            .map(|m| pre_shift(&m.codes, m.cols))
            .collect();
        let consts = [&shifts[..], &[u.score.0, u.score.1]].concat();
        self.i32s(&format!("layers.{i}.consts"), &consts)?;
        if let Some(site) = &p.facts.static_site {
            let (m, block) = (&p.facts.maxima, self.config.mlp_block());
            let scales = static_scales(site, m.o_in, m.down_in, u.v, block);
            self.i32s(&format!("layers.{i}.static"), &scales)?;
        }
        for ((name, m), psh) in MATRICES.iter().zip(&p.matrices).zip(&shifts) {
            let full = format!("layers.{i}.{name}");
            // The factor from accumulator to output unit, but for the row's own scale.
            let c = match (*name, &p.facts.gains) {
                ("q" | "k", Some(_)) => {
                    // The norm cancels the unit: the largest row gets factor 1.
                    let max = crate::constants::max_abs(&m.scales);
                    if max > 0.0 { 1.0 / max } else { 1.0 }
                }
                ("q", None) => root / 127.0 / u.q,
                ("k", None) => root / 127.0 / u.k,
                ("v", _) => root / 127.0 / u.v,
                ("o", _) => u.v / (256.0 * 127.0) / 127.0 / self.residual_unit,
                ("gate" | "up", _) => root / 127.0 * 4096.0,
                _ => libm::ldexp(1.0, -24) / 127.0 / self.residual_unit,
            };
            let scaled = !(matches!(*name, "q" | "k") && p.facts.gains.is_some());
            let c = if scaled { libm::ldexp(c, *psh) } else { c };
            self.weight(&full, &m.codes)?;
            self.channel(&full, &m.scales, c)?;
            if let (Some((q, k)), "v") = (&p.facts.gains, *name) {
                self.i32s(&format!("layers.{i}.q_norm.gain"), &head_gain(q))?;
                self.i32s(&format!("layers.{i}.k_norm.gain"), &head_gain(k))?;
            }
        }
        Ok(())
    }

    /// Final norm and head; ends the file. `head` is the table that the logits are made with.
    pub(crate) fn head(
        mut self,
        gain: &[f32],
        head: &Quantized,
    ) -> Result<(W, Commitment), ExportError> {
        let gain: Vec<f64> = gain.iter().map(|&g| f64::from(g)).collect();
        let (codes, max) = final_gain(&gain);
        let bytes: Vec<u8> = codes.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.writer.tensor("final_norm.gain", &bytes)?;
        let psh = pre_shift(&head.codes, head.cols);
        self.i32s("head.consts", &[psh])?;
        if !self.config.tied() {
            self.weight("head", &head.codes)?;
        }
        // c = s * gF * sqrt(n) / (32767 * B * 127) * 2^16 * 2^psh
        let root = libm::sqrt(self.config.hidden() as f64);
        let block = self.config.hidden_block() as f64;
        let c = max * root / (32767.0 * block * 127.0);
        self.channel("head", &head.scales, libm::ldexp(c, 16 + psh))?;
        Ok(self.writer.finish()?)
    }
}
