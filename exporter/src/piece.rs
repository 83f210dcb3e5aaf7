//! The finished pieces of an export, and their form in the work folder.

use crate::gptq::Quantized;
use crate::partial::{Decoder, Encoder};
use crate::report::{SiteMaxima, StaticSite, TensorReport, WorstRow};
use int_engine::config::Scheme;

/// The matrices of a layer, in the order of the blob.
pub(crate) const MATRICES: [&str; 7] = ["q", "k", "v", "o", "gate", "up", "down"];

/// What the constants of a layer are made from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerFacts {
    pub(crate) maxima: SiteMaxima,
    /// With static scales.
    pub(crate) static_site: Option<StaticSite>,
    /// Equalised gains of q and k heads.
    pub(crate) gains: Option<(Vec<f64>, Vec<f64>)>,
    /// Of [`MATRICES`].
    pub(crate) reports: Vec<TensorReport>,
}

/// A quantised layer.
pub(crate) struct LayerPiece {
    pub(crate) facts: LayerFacts,
    /// Of [`MATRICES`].
    pub(crate) matrices: Vec<Quantized>,
}

/// A quantised embedding or head table.
pub(crate) struct TablePiece {
    pub(crate) matrix: Quantized,
    pub(crate) report: TensorReport,
    /// Largest residual after the last layer, in the rotated basis.
    pub(crate) residual_max: f64,
}

fn put_report(e: &mut Encoder, r: &TensorReport) {
    e.bytes(r.name.as_bytes());
    for v in [r.rows, r.cols, r.zero_rows, r.worst.len() as u32] {
        e.uint(v.into());
    }
    for v in [
        r.weight_error,
        r.output_error,
        r.clipped,
        r.scale_min,
        r.scale_max,
    ] {
        e.float(v);
    }
    for w in &r.worst {
        e.uint(w.row.into());
        e.float(w.error);
    }
}

fn get_report(d: &mut Decoder<'_>) -> Option<TensorReport> {
    let name = String::from_utf8(d.bytes()?.to_vec()).ok()?;
    let mut small = || u32::try_from(d.uint()?).ok();
    let (rows, cols, zero_rows, worst) = (small()?, small()?, small()?, small()?);
    let mut report = TensorReport {
        name,
        rows,
        cols,
        weight_error: d.float()?,
        output_error: d.float()?,
        clipped: d.float()?,
        zero_rows,
        scale_min: d.float()?,
        scale_max: d.float()?,
        worst: Vec::new(),
    };
    for _ in 0..worst {
        report.worst.push(WorstRow {
            row: u32::try_from(d.uint()?).ok()?,
            error: d.float()?,
        });
    }
    Some(report)
}

impl LayerPiece {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::default();
        let m = &self.facts.maxima;
        for v in [m.residual, m.q, m.k, m.v, m.o_in, m.down_in] {
            e.float(v);
        }
        let (q, k) = self.facts.gains.clone().unwrap_or_default();
        e.uint(self.facts.gains.is_some().into());
        e.floats(&q);
        e.floats(&k);
        self.facts
            .reports
            .iter()
            .for_each(|r| put_report(&mut e, r));
        self.matrices.iter().for_each(|m| e.matrix(m));
        if let Some(s) = &self.facts.static_site {
            e.floats(&[s.attn_norm, s.mlp_norm, s.gated]);
        }
        e.0
    }

    /// Reads a layer of an export with the given scheme.
    pub(crate) fn decode(bytes: &[u8], scheme: Scheme) -> Option<Self> {
        let mut d = Decoder(bytes);
        let maxima = SiteMaxima {
            residual: d.float()?,
            q: d.float()?,
            k: d.float()?,
            v: d.float()?,
            o_in: d.float()?,
            down_in: d.float()?,
        };
        let normed = d.uint()? != 0;
        let gains = (d.floats()?, d.floats()?);
        let reports = MATRICES
            .iter()
            .map(|_| get_report(&mut d))
            .collect::<Option<_>>()?;
        let matrices = MATRICES.iter().map(|_| d.matrix()).collect::<Option<_>>()?;
        let static_site = match scheme {
            Scheme::Dynamic => None,
            Scheme::Static => {
                let [attn_norm, mlp_norm, gated] = d.floats()?.try_into().ok()?;
                Some(StaticSite {
                    attn_norm,
                    mlp_norm,
                    gated,
                })
            }
        };
        let facts = LayerFacts {
            maxima,
            static_site,
            gains: normed.then_some(gains),
            reports,
        };
        d.0.is_empty().then_some(Self { facts, matrices })
    }
}

impl TablePiece {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::default();
        e.float(self.residual_max);
        put_report(&mut e, &self.report);
        e.matrix(&self.matrix);
        e.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut d = Decoder(bytes);
        let residual_max = d.float()?;
        let report = get_report(&mut d)?;
        let matrix = d.matrix()?;
        d.0.is_empty().then_some(Self {
            matrix,
            report,
            residual_max,
        })
    }
}

/// The residuals of all windows.
pub(crate) fn encode_residual(windows: &[Vec<f32>]) -> Vec<u8> {
    let mut e = Encoder::default();
    e.uint(windows.len() as u64);
    for w in windows {
        e.uint(w.len() as u64);
        w.iter()
            .for_each(|v| e.0.extend_from_slice(&v.to_le_bytes()));
    }
    e.0
}

/// Reads [`encode_residual`], whose windows must have the given numbers of values.
pub(crate) fn decode_residual(bytes: &[u8], lengths: &[usize]) -> Option<Vec<Vec<f32>>> {
    let mut d = Decoder(bytes);
    if d.uint()? != lengths.len() as u64 {
        return None;
    }
    let mut windows = Vec::new();
    for &n in lengths {
        if d.uint()? != n as u64 {
            return None;
        }
        let (values, rest) = d.0.split_at_checked(n.checked_mul(4)?)?;
        d.0 = rest;
        let float = |b: &[u8]| Some(f32::from_le_bytes(b.try_into().ok()?));
        windows.push(values.chunks_exact(4).map(float).collect::<Option<_>>()?);
    }
    d.0.is_empty().then_some(windows)
}
