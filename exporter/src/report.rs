//! What an export did to a model, in numbers.

use crate::gptq::Quantized;
use serde::Serialize;
use std::fmt::Write as _;

/// Rounding of one matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TensorReport {
    /// Name in the blob, such as `layers.0.q`.
    pub name: String,
    /// Output channels.
    pub rows: u32,
    /// Inputs.
    pub cols: u32,
    /// `|Wq - W| / |W|`, Frobenius, in the rotated basis.
    pub weight_error: f64,
    /// `sqrt(tr(E H E^T) / tr(W H W^T))` over the calibration inputs; 0 without a Hessian.
    pub output_error: f64,
    /// Share of the weights that were clamped to the largest code.
    pub clipped: f64,
    /// Rows that hold only zeros.
    pub zero_rows: u32,
    /// Smallest scale of a row that is not zero.
    pub scale_min: f64,
    /// Largest scale of a row.
    pub scale_max: f64,
    /// Up to three rows with the largest relative error (of the output, or without a Hessian of the weights).
    pub worst: Vec<WorstRow>,
}

/// A row with a large error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WorstRow {
    /// The row.
    pub row: u32,
    /// Its relative error.
    pub error: f64,
}

fn relative(error: f64, signal: f64) -> f64 {
    if signal > 0.0 {
        libm::sqrt(error / signal)
    } else {
        0.0
    }
}

impl TensorReport {
    pub(crate) fn of(name: String, q: &Quantized, with_hessian: bool) -> Self {
        let sum =
            |f: &dyn Fn(&crate::gptq::RowError) -> f64| q.errors.iter().fold(0.0, |s, e| s + f(e));
        let mut worst: Vec<WorstRow> = q
            .errors
            .iter()
            .enumerate()
            .map(|(row, e)| WorstRow {
                row: row as u32,
                error: if with_hessian {
                    relative(e.output_error, e.output)
                } else {
                    relative(e.weight_error, e.weight)
                },
            })
            .collect();
        worst.sort_by(|a, b| b.error.total_cmp(&a.error).then(a.row.cmp(&b.row)));
        worst.truncate(3);
        let used = || q.scales.iter().copied().filter(|&s| s > 0.0);
        Self {
            name,
            rows: q.rows as u32,
            cols: q.cols as u32,
            weight_error: relative(sum(&|e| e.weight_error), sum(&|e| e.weight)),
            output_error: relative(sum(&|e| e.output_error), sum(&|e| e.output)),
            clipped: sum(&|e| f64::from(e.clipped)) / (q.rows * q.cols) as f64,
            zero_rows: (q.rows - used().count()) as u32,
            scale_min: if used().count() == 0 {
                0.0
            } else {
                used().fold(f64::INFINITY, f64::min)
            },
            scale_max: used().fold(0.0, f64::max),
            worst,
        }
    }
}

/// Largest calibrated magnitudes of a layer, in the basis of the integer engine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SiteMaxima {
    /// Residual before the layer and between attention and MLP.
    pub residual: f64,
    /// Queries after rope.
    pub q: f64,
    /// Keys after rope.
    pub k: f64,
    /// Values.
    pub v: f64,
    /// Input of o.
    pub o_in: f64,
    /// Input of down, with the transform's factor B not divided out.
    pub down_in: f64,
}

/// What the static scales of a layer are made from, besides its [`SiteMaxima`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StaticSite {
    /// The value of max|x| / root that nine tenths of the tokens do not exceed, at the norm before attention.
    pub attn_norm: f64,
    /// The same at the norm before the MLP.
    pub mlp_norm: f64,
    /// Largest gated activation before its rotation.
    pub gated: f64,
}

/// What an export did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// How activations are scaled: `dynamic` or `static`.
    pub scheme: String,
    /// Every matrix, in the order of the blob.
    pub tensors: Vec<TensorReport>,
    /// Every layer.
    pub sites: Vec<SiteMaxima>,
    /// Every layer with static scales; none with dynamic ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub static_sites: Vec<StaticSite>,
    /// Largest residual of any layer, in the rotated basis.
    pub residual_max: f64,
    /// The residual's unit.
    pub residual_unit: f64,
    /// Calibration tokens.
    pub calibration_tokens: u64,
    /// SHA-256 of the calibration windows, in hexadecimal.
    pub calibration_digest: String,
    /// The checkpoint's fingerprint, in hexadecimal.
    pub source_fingerprint: String,
    /// Length of the blob in bytes.
    pub blob_len: u64,
    /// The blob's commitment, in hexadecimal.
    pub commitment: String,
}

impl Report {
    /// The report as a table for people.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut s = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_text(&mut s);
        s
    }

    fn write_text(&self, s: &mut String) -> std::fmt::Result {
        writeln!(
            s,
            "{:<18} {:>13} {:>9} {:>9} {:>8} {:>23}  worst rows",
            "tensor", "shape", "weight", "output", "clipped", "scales"
        )?;
        for t in &self.tensors {
            let worst: Vec<String> = t
                .worst
                .iter()
                .map(|w| format!("{}:{:.4}", w.row, w.error))
                .collect();
            writeln!(
                s,
                "{:<18} {:>13} {:>9.5} {:>9.5} {:>7.3}% {:>11.3e} {:>11.3e}  {}",
                t.name,
                format!("{}x{}", t.rows, t.cols),
                t.weight_error,
                t.output_error,
                t.clipped * 100.0,
                t.scale_min,
                t.scale_max,
                worst.join(" ")
            )?;
        }
        writeln!(
            s,
            "\n{:<6} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}",
            "layer", "residual", "q", "k", "v", "o input", "down input"
        )?;
        for (i, m) in self.sites.iter().enumerate() {
            writeln!(
                s,
                "{i:<6} {:>11.4} {:>11.4} {:>11.4} {:>11.4} {:>11.4} {:>11.4}",
                m.residual, m.q, m.k, m.v, m.o_in, m.down_in
            )?;
        }
        if !self.static_sites.is_empty() {
            writeln!(
                s,
                "\n{:<6} {:>11} {:>11} {:>11}",
                "layer", "attn norm", "MLP norm", "gated"
            )?;
            for (i, m) in self.static_sites.iter().enumerate() {
                writeln!(
                    s,
                    "{i:<6} {:>11.4} {:>11.4} {:>11.4}",
                    m.attn_norm, m.mlp_norm, m.gated
                )?;
            }
        }
        writeln!(
            s,
            "\nlargest residual    {:.4}, unit {:e}",
            self.residual_max, self.residual_unit
        )?;
        writeln!(
            s,
            "calibration         {} tokens, {}",
            self.calibration_tokens, self.calibration_digest
        )?;
        writeln!(s, "source              {}", self.source_fingerprint)?;
        writeln!(s, "scheme              {}", self.scheme)?;
        writeln!(s, "blob                {} bytes", self.blob_len)?;
        writeln!(s, "commitment          {}", self.commitment)
    }
}
