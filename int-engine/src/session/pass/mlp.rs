//! The MLP half of a layer.

use super::{MLP_LIMIT, Pass, grain, with_scratch};
use crate::kernels::operands::Out;
use crate::model::Layer;
use crate::ops::dynq::clamp_wide;
use crate::ops::fixed::{I31, bit_length_64};
use crate::ops::hadamard::Direction;
use crate::ops::ratio::{TokenScale, norm_scale};
use crate::pool::lock;
use crate::probe::{Op, Recorder};
use crate::session::plan::{Matrix, Plan, Product};
use std::sync::Mutex;

impl Pass {
    /// The products of the normalised input with gate and up.
    pub(super) fn gate_and_up(&mut self, plan: &Plan, layer: &Layer, tokens: usize) {
        let config = plan.model.config();
        let (n, ff) = (config.hidden(), config.intermediate());
        let inputs = plan.pack(&self.codes[..tokens * n], n, self.packed.bytes_mut());
        let scales = Some(&self.scales[..tokens]);
        let product = |w, out, limit| Product {
            matrix: Matrix::of(w),
            scales,
            limit,
            out: Out::new(out, ff),
        };
        plan.products(
            inputs,
            [
                product(&layer.gate, &mut self.a[..tokens * ff], MLP_LIMIT),
                product(&layer.up, &mut self.b[..tokens * ff], MLP_LIMIT),
            ],
        );
    }

    /// The gated activation, rotated and quantised.
    pub(super) fn gate<const PROBED: bool>(&mut self, plan: &Plan, layer: &Layer, tokens: usize) {
        let ff = plan.model.config().intermediate();
        let grain = grain(plan, tokens);
        let (scratch, recorder) = (&self.scratch, &self.recorder);
        let mut items: Vec<_> = self.a[..tokens * ff]
            .chunks_mut(grain * ff)
            .zip(self.b.chunks(grain * ff))
            .zip(self.codes.chunks_mut(grain * ff))
            .zip(self.scales.chunks_mut(grain))
            .zip(self.positions.chunks(grain))
            .collect();
        plan.pool.each(&mut items, |_, item| {
            let ((((gate, up), codes), scales), positions) = item;
            let rows = gate
                .chunks_exact_mut(ff)
                .zip(up.chunks_exact(ff))
                .zip(codes.chunks_exact_mut(ff));
            with_scratch(scratch, |scratch| {
                let h = &mut scratch.wide[..ff];
                for ((((gate, up), codes), scale), &position) in
                    rows.zip(&mut **scales).zip(*positions)
                {
                    if PROBED {
                        lock(recorder).rows(position, Op::Gate, gate, ff);
                        lock(recorder).rows(position, Op::Up, up, ff);
                    }
                    *scale = gated::<PROBED>(plan, layer, gate, up, h, codes, position, recorder);
                }
            });
        });
    }

    /// The product of the down projection, left in `a`.
    pub(super) fn down(&mut self, plan: &Plan, layer: &Layer, tokens: usize) {
        let config = plan.model.config();
        let (n, ff) = (config.hidden(), config.intermediate());
        let inputs = plan.pack(&self.codes[..tokens * ff], ff, self.packed.bytes_mut());
        plan.products(
            inputs,
            [Product {
                matrix: Matrix::of(&layer.down),
                scales: Some(&self.scales[..tokens]),
                limit: I31,
                out: Out::new(&mut self.a[..tokens * n], n),
            }],
        );
    }
}

/// The gated activation of one token, rotated and quantised: codes and their scale. `gate` is overwritten.
#[allow(clippy::too_many_arguments)]
fn gated<const PROBED: bool>(
    plan: &Plan,
    layer: &Layer,
    gate: &mut [i32],
    up: &[i32],
    h: &mut [i64],
    codes: &mut [i8],
    position: usize,
    recorder: &Mutex<Recorder>,
) -> TokenScale {
    let m = (plan.kernels.swiglu)(gate, up, h);
    if PROBED {
        lock(recorder).record(position, Op::Swiglu, h.iter().copied());
    }
    // |h| <= 2^52 and the headroom is at least 14, so c <= 39; the narrowed values leave room for the rotation.
    let headroom = plan.mlp_hadamard.headroom();
    let c = match layer.static_scales {
        None => bit_length_64(m).saturating_sub(headroom),
        Some(s) => {
            // rdbpot is monotone and maps 2^(headroom + c) to 2^headroom: to clamp before it is to clamp after.
            let limit = 1u64 << (headroom + s.down_shift).min(52);
            if m > limit {
                clamp_wide(h, limit);
            }
            s.down_shift
        }
    };
    (plan.kernels.narrow)(h, c, gate);
    plan.mlp_hadamard
        .apply(gate, Direction::Forward, plan.kernels.butterflies);
    if PROBED {
        lock(recorder).rows(position, Op::MlpRotate, gate, gate.len());
    }
    let fixed = layer.static_scales.map(|s| s.down);
    let mut scale = norm_scale(plan.quantize_input(gate, fixed, codes));
    scale.exponent -= c as i32;
    if PROBED {
        lock(recorder).codes(position, Op::MlpQuant, codes, scale);
    }
    scale
}
