//! The layers, and the residual that runs through them.

use super::Run;
use crate::collect::{self, Site};
use crate::compute::Compute;
use crate::constants::ninth_decile;
use crate::error::ExportError;
use crate::export::Progress;
use crate::gptq::{Factor, Quantized, quantize};
use crate::lower::{Equalisation, Mat, lower};
use crate::piece::{LayerFacts, LayerPiece, MATRICES, decode_residual, encode_residual};
use crate::report::{SiteMaxima, StaticSite, TensorReport};
use float_engine::forward::embed_tokens;
use float_engine::source::LayerWeights;
use int_engine::config::Scheme;

const RESIDUAL: &str = "residual";

pub(super) fn layer_file(i: usize) -> String {
    format!("layer-{i:03}")
}

impl Run<'_> {
    pub(super) fn load_layer(&self, i: usize) -> Option<LayerPiece> {
        let (index, bytes) = self.partial.load(&layer_file(i))?;
        (index == i as u64)
            .then(|| LayerPiece::decode(&bytes, self.options.scheme))
            .flatten()
    }

    /// Quantises every layer that is not yet in the work folder.
    pub(super) fn layers(
        &self,
        progress: &mut dyn Progress,
    ) -> Result<Vec<LayerFacts>, ExportError> {
        let c = self.checkpoint.config();
        let mut facts: Vec<Option<LayerFacts>> = (0..c.layers)
            .map(|i| self.load_layer(i).map(|p| p.facts))
            .collect();
        let done = facts.iter().take_while(|f| f.is_some()).count();
        let (start, mut residual) = self.residual(done)?;
        progress.stage("layers", c.layers as u64);
        (0..start).for_each(|_| progress.step());
        for (i, known) in facts.iter_mut().enumerate().skip(start) {
            let weights = self.checkpoint.layer(i)?;
            if known.is_some() {
                collect::advance(c, &weights, &mut residual, &self.compute)?;
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

    /// The calibration windows after the last layer.
    pub(super) fn last_residual(&self) -> Result<Vec<Vec<f32>>, ExportError> {
        let c = self.checkpoint.config();
        let (start, mut residual) = self.residual(c.layers)?;
        for i in start..c.layers {
            let weights = self.checkpoint.layer(i)?;
            collect::advance(c, &weights, &mut residual, &self.compute)?;
        }
        Ok(residual)
    }

    /// The calibration windows as they enter a layer, and that layer: the stored one if it is at most `last`, else the first.
    fn residual(&self, last: usize) -> Result<(usize, Vec<Vec<f32>>), ExportError> {
        let c = self.checkpoint.config();
        let windows = &self.options.calibration;
        let lengths: Vec<usize> = windows.iter().map(|w| w.len() * c.hidden).collect();
        let stored = self.partial.load(RESIDUAL).and_then(|(index, bytes)| {
            let index = usize::try_from(index).ok().filter(|&i| i <= last)?;
            Some((index, decode_residual(&bytes, &lengths)?))
        });
        if let Some(stored) = stored {
            return Ok(stored);
        }
        let embed = self.checkpoint.embed()?;
        let embedded: Result<_, _> = windows.iter().map(|w| embed_tokens(c, &embed, w)).collect();
        Ok((0, embedded?))
    }

    fn layer(
        &self,
        i: usize,
        weights: &LayerWeights,
        residual: &mut [Vec<f32>],
    ) -> Result<LayerPiece, ExportError> {
        let (c, r, compute) = (self.checkpoint.config(), &self.rotations, &self.compute);
        let seen = collect::capture(c, i, weights, residual, compute)?;
        let eq = Equalisation::of(r, &seen.maxima, weights);
        let w = lower(r, &eq, weights);
        let mut matrices = Vec::new();
        let mut quantise = |site: Site, inputs: &str, group: &[&Mat]| {
            let factor = self.factor(&site, || format!("the {inputs} of layer {i}"))?;
            matrices.extend(group.iter().map(|m| quantise_mat(m, &factor, compute)));
            Ok::<_, ExportError>(Measured {
                max: site.max,
                peak: ninth_decile(site.peaks),
                unrotated: site.unrotated,
            })
        };
        let attention = seen.attention_input(r, c.rms_eps, compute);
        let before = quantise(attention, "attention input", &[&w.q, &w.k, &w.v])?;
        let o_in = quantise(seen.o_input(r, &eq, compute), "input of o", &[&w.o])?;
        let mlp = seen.mlp_input(r, c.rms_eps, compute);
        let middle = quantise(mlp, "MLP input", &[&w.gate, &w.up])?;
        let down_in = quantise(
            seen.down_input(r, &eq, compute),
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
            residual: before.max.max(middle.max),
            q: pair_max(&seen.maxima.q, &|c| eq.pair_of(r, group, c)),
            k: pair_max(&seen.maxima.k, &|c| 1.0 / eq.pair_of(r, 1, c)),
            v: seen.value_max(r, &eq, compute),
            o_in: o_in.max,
            down_in: down_in.max,
        };
        let static_site = match self.options.scheme {
            Scheme::Dynamic => None,
            Scheme::Static => Some(StaticSite {
                attn_norm: before.peak,
                mlp_norm: middle.peak,
                gated: down_in.unrotated,
            }),
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
                static_site,
                gains,
                reports,
            },
            matrices,
        })
    }

    pub(super) fn factor(
        &self,
        site: &Site,
        name: impl Fn() -> String,
    ) -> Result<Factor, ExportError> {
        Factor::new(&site.gram, &self.compute).map_err(|e| ExportError::Hessian {
            site: name(),
            row: e.row,
        })
    }
}

/// What remains of a site when its Hessian is spent.
struct Measured {
    max: f64,
    /// The ninth decile of the tokens' peaks.
    peak: f64,
    unrotated: f64,
}

fn quantise_mat(m: &Mat, f: &Factor, compute: &Compute) -> Quantized {
    quantize(m.rows, m.cols, Some(f), compute, |o, row| {
        row.copy_from_slice(m.row(o))
    })
}
