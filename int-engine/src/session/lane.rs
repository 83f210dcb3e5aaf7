//! One thread's run of consecutive tokens on its way through a layer (spec 3.3).

use super::attend::{self, Queries, attend, grow};
use super::cache::HeadCache;
use super::{Matrix, Plan};
use crate::halt::Fault;
use crate::model::Layer;
use crate::ops::dynq::{clamp_from, clamp_wide, max_abs};
use crate::ops::fixed::{I16, I31, bit_length_64};
use crate::ops::hadamard::Direction;
use crate::ops::head_norm::head_norm;
use crate::ops::ratio::{TokenScale, norm_scale, ratio, root_fraction};
use crate::ops::requantize::requantize;
use crate::ops::rms::{alignment, root};
use crate::ops::rope::{rope, rope_angle};
use crate::pool::Pool;
use crate::probe::{Op, Recorder};

/// Q and k without q/k norm saturate here.
const QK_LIMIT: i32 = 1 << 22;
/// Gate and up saturate here.
const MLP_LIMIT: i32 = 1 << 26;

/// The state and the memory of a lane. Each buffer may be longer than its shape.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Position of the first token.
    pub(super) first: usize,
    /// Tokens in the lane.
    pub(super) tokens: usize,
    /// The residual, `[tokens][hidden]`.
    pub(super) x: Vec<i32>,
    /// The quantised input of a matrix product, `[tokens][cols]`.
    input: Vec<i8>,
    /// Its token scales.
    scales: Vec<TokenScale>,
    /// Queries, gate, or a product on its way to the residual, `[tokens][width]`.
    a: Vec<i32>,
    /// Keys or up, `[tokens][width]`.
    b: Vec<i32>,
    /// Values, `[tokens][kv_width]`.
    c: Vec<i32>,
    /// One row of the gated activation.
    h: Vec<i64>,
    /// `[tokens][head_dim / 2]`.
    angles: Vec<(i32, i32)>,
    /// `[tokens][heads][head_dim]` and `[tokens][heads]`.
    q8: Vec<i8>,
    mq: Vec<u16>,
    /// `[tokens][kv_heads][head_dim]` and `[tokens][kv_heads]`, bound for the cache.
    k8: Vec<i8>,
    mk: Vec<u16>,
    v8: Vec<i8>,
    mv: Vec<u16>,
    /// One for each part that attention is split into.
    attention: Vec<attend::Scratch>,
    /// What a probed pass leaves of one layer.
    pub(super) recorder: Recorder,
}

impl Lane {
    /// Makes room for `tokens` tokens that see at most `keys` keys, attention in `parts` parts.
    pub(super) fn reserve(
        &mut self,
        plan: &Plan,
        tokens: usize,
        keys: usize,
        parts: usize,
    ) -> Result<(), Fault> {
        let c = plan.model.config();
        let (n, ff, qw, kw) = (c.hidden(), c.intermediate(), c.q_width(), c.kv_width());
        let what = "activations";
        grow(&mut self.x, tokens * n, what)?;
        grow(&mut self.input, tokens * n.max(ff).max(qw), what)?;
        grow(&mut self.scales, tokens, what)?;
        grow(&mut self.a, tokens * n.max(ff).max(qw), what)?;
        grow(&mut self.b, tokens * ff.max(kw), what)?;
        grow(&mut self.c, tokens * kw, what)?;
        grow(&mut self.h, ff, what)?;
        grow(&mut self.angles, tokens * c.head_dim() / 2, what)?;
        grow(&mut self.q8, tokens * qw, what)?;
        grow(&mut self.mq, tokens * c.heads(), what)?;
        for (codes, scales) in [(&mut self.k8, &mut self.mk), (&mut self.v8, &mut self.mv)] {
            grow(codes, tokens * kw, what)?;
            grow(scales, tokens * c.kv_heads(), what)?;
        }
        if self.attention.len() < parts {
            self.attention.resize_with(parts, Default::default);
        }
        for scratch in &mut self.attention[..parts] {
            scratch.reserve(plan, tokens, keys)?;
        }
        Ok(())
    }

    /// The residual of one of the lane's tokens.
    pub(super) fn residual(&self, plan: &Plan, token: usize) -> &[i32] {
        let n = plan.model.config().hidden();
        &self.x[token * n..][..n]
    }

    /// Takes accepted ids at `first` and on: embeddings and rotary angles.
    pub(super) fn embed<const PROBED: bool>(&mut self, plan: &Plan, first: usize, ids: &[u32]) {
        let (config, embed) = (plan.model.config(), plan.model.embed());
        (self.first, self.tokens) = (first, ids.len());
        let n = config.hidden();
        for (x, &id) in self.x.chunks_exact_mut(n).zip(ids) {
            let id = id as usize;
            for (x, &w) in x.iter_mut().zip(&embed.weight[id * n..][..n]) {
                // |w| * 2^24 < 2^31.
                *x = requantize(
                    i32::from(w) << 24,
                    0,
                    None,
                    embed.mult[id],
                    embed.shift[id],
                    I31,
                );
            }
        }
        if PROBED {
            let x = &self.x[..ids.len() * n];
            self.recorder.rows(first, Op::Embed, x, n);
        }
        let angles = self.angles.chunks_exact_mut(config.head_dim() / 2);
        for (position, angles) in (first..first + ids.len()).zip(angles) {
            for (angle, &phase) in angles.iter_mut().zip(plan.model.rope_phase()) {
                *angle = rope_angle(phase, position as u32);
            }
        }
    }

    /// From the residual to rotated, quantised queries, keys and values.
    pub(super) fn project<const PROBED: bool>(
        &mut self,
        plan: &Plan,
        layer: &Layer,
        pool: Option<&Pool>,
    ) {
        let config = plan.model.config();
        let (t, n, hd) = (self.tokens, config.hidden(), config.head_dim());
        let (qw, kw) = (config.q_width(), config.kv_width());
        let fraction = layer.static_scales.map(|s| s.attn_norm);
        self.norm::<PROBED>(plan, fraction, Op::AttnNorm);
        let (input, scales) = (&self.input[..t * n], &self.scales[..t]);
        let (q, k, v) = (
            &mut self.a[..t * qw],
            &mut self.b[..t * kw],
            &mut self.c[..t * kw],
        );
        let qk = |w, out: &mut [i32]| {
            if config.qk_norm() {
                plan.linear(&Matrix::of(w), input, None, I31, out, pool);
            } else {
                plan.linear(&Matrix::of(w), input, Some(scales), QK_LIMIT, out, pool);
            }
        };
        qk(&layer.q, q);
        qk(&layer.k, k);
        plan.linear(&Matrix::of(&layer.v), input, Some(scales), I16, v, pool);
        let (first, recorder) = (self.first, &mut self.recorder);
        if PROBED {
            recorder.rows(first, Op::Q, q, qw);
            recorder.rows(first, Op::K, k, kw);
            recorder.rows(first, Op::V, v, kw);
        }
        for (row, gain, codes, largest, width, ops) in [
            (q, &layer.q_gain, &mut self.q8, &mut self.mq, qw, Q_OPS),
            (k, &layer.k_gain, &mut self.k8, &mut self.mk, kw, K_OPS),
        ] {
            for (position, ((row, angles), (codes, largest))) in (first..).zip(
                row.chunks_exact_mut(width)
                    .zip(self.angles.chunks_exact(hd / 2))
                    .zip(
                        codes
                            .chunks_exact_mut(width)
                            .zip(largest.chunks_exact_mut(width / hd)),
                    ),
            ) {
                rotate_heads(plan, row, gain.as_deref(), angles, |stage, row| {
                    if PROBED {
                        recorder.rows(position, ops[stage], row, width);
                    }
                });
                quantize_heads(plan, row, codes, largest);
                if PROBED {
                    recorder.heads(position, ops[QUANT], codes, largest);
                }
            }
        }
        for (position, (row, (codes, largest))) in (first..).zip(
            v.chunks_exact(kw).zip(
                self.v8
                    .chunks_exact_mut(kw)
                    .zip(self.mv.chunks_exact_mut(kw / hd)),
            ),
        ) {
            quantize_heads(plan, row, codes, largest);
            if PROBED {
                recorder.heads(position, Op::VQuant, codes, largest);
            }
        }
    }

    /// Appends the lane's keys and values to the cache, which has room for them.
    pub(super) fn append_to(&self, cache: &mut [HeadCache], head_dim: usize) {
        let kv_heads = cache.len();
        for (g, head) in cache.iter_mut().enumerate() {
            for t in 0..self.tokens {
                let at = t * kv_heads + g;
                head.k8
                    .extend_from_slice(&self.k8[at * head_dim..][..head_dim]);
                head.v8
                    .extend_from_slice(&self.v8[at * head_dim..][..head_dim]);
                head.mk.push(self.mk[at]);
                head.mv.push(self.mv[at]);
            }
        }
    }

    /// Attention over the cache, which holds the lane's own positions, and the MLP.
    pub(super) fn finish<const PROBED: bool>(
        &mut self,
        plan: &Plan,
        layer: &Layer,
        cache: &[HeadCache],
        pool: Option<&Pool>,
    ) {
        self.attention(plan, layer, cache, pool);
        let config = plan.model.config();
        let (t, n, qw, ff) = (
            self.tokens,
            config.hidden(),
            config.q_width(),
            config.intermediate(),
        );
        let scales = layer.static_scales;
        if PROBED {
            let out = &self.a[..t * qw];
            self.recorder.rows(self.first, Op::Attend, out, qw);
        }
        for ((row, codes), scale) in self.a[..t * qw]
            .chunks_exact_mut(qw)
            .zip(self.input.chunks_exact_mut(qw))
            .zip(&mut self.scales)
        {
            *scale = norm_scale(plan.quantize_input(row, scales.map(|s| s.o), codes));
        }
        self.record_input::<PROBED>(Op::OQuant, qw);
        let o = Matrix::of(&layer.o);
        self.add_product::<PROBED>(plan, &o, pool, [Op::O, Op::AttnResidual]);

        self.norm::<PROBED>(plan, scales.map(|s| s.mlp_norm), Op::MlpNorm);
        let (input, token_scales) = (&self.input[..t * n], &self.scales[..t]);
        plan.linear(
            &Matrix::of(&layer.gate),
            input,
            Some(token_scales),
            MLP_LIMIT,
            &mut self.a[..t * ff],
            pool,
        );
        plan.linear(
            &Matrix::of(&layer.up),
            input,
            Some(token_scales),
            MLP_LIMIT,
            &mut self.b[..t * ff],
            pool,
        );
        let recorder = &mut self.recorder;
        if PROBED {
            recorder.rows(self.first, Op::Gate, &self.a[..t * ff], ff);
            recorder.rows(self.first, Op::Up, &self.b[..t * ff], ff);
        }
        let rows = self.a[..t * ff]
            .chunks_exact_mut(ff)
            .zip(self.b.chunks_exact(ff));
        let rows = rows
            .zip(self.input.chunks_exact_mut(ff))
            .zip(&mut self.scales);
        for (position, (((gate, up), codes), scale)) in (self.first..).zip(rows) {
            let h = &mut self.h[..ff];
            let m = (plan.kernels.swiglu)(gate, up, h);
            if PROBED {
                recorder.record(position, Op::Swiglu, h.iter().copied());
            }
            // |h| <= 2^52 and the headroom is at least 14, so c <= 39; the narrowed values leave room for the rotation.
            let headroom = plan.mlp_hadamard.headroom();
            let c = match scales {
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
                recorder.rows(position, Op::MlpRotate, gate, ff);
            }
            *scale = norm_scale(plan.quantize_input(gate, scales.map(|s| s.down), codes));
            scale.exponent -= c as i32;
        }
        self.record_input::<PROBED>(Op::MlpQuant, ff);
        let down = Matrix::of(&layer.down);
        self.add_product::<PROBED>(plan, &down, pool, [Op::Down, Op::MlpResidual]);
    }

    /// Leaves the attention output in `a`, `[tokens][q_width]`.
    fn attention(&mut self, plan: &Plan, layer: &Layer, cache: &[HeadCache], pool: Option<&Pool>) {
        let config = plan.model.config();
        let (qw, heads, width) = (
            config.q_width(),
            config.heads(),
            config.group() * config.head_dim(),
        );
        let (q8, mq) = (
            &self.q8[..self.tokens * qw],
            &self.mq[..self.tokens * heads],
        );
        let tile = attend::tile(config.group());
        let copy = |a: &mut [i32], g: usize, out: &[i32]| {
            for (row, out) in a.chunks_exact_mut(qw).zip(out.chunks_exact(width)) {
                row[g * width..][..width].copy_from_slice(out);
            }
        };
        if let (1, Some(pool)) = (self.tokens, pool) {
            let queries = Queries {
                first: self.first,
                q8,
                mq,
            };
            let parts = &mut self.attention[..cache.len()];
            pool.chunks_mut(parts, 1, |g, scratch| {
                attend(plan, layer, &cache[g], g, queries, &mut scratch[0]);
            });
            for (g, scratch) in parts.iter().enumerate() {
                copy(&mut self.a[..qw], g, &scratch.out);
            }
            return;
        }
        let scratch = &mut self.attention[0];
        for (g, cache) in cache.iter().enumerate() {
            for t in (0..self.tokens).step_by(tile) {
                let end = (t + tile).min(self.tokens);
                let queries = Queries {
                    first: self.first + t,
                    q8: &q8[t * qw..end * qw],
                    mq: &mq[t * heads..end * heads],
                };
                attend(plan, layer, cache, g, queries, scratch);
                copy(&mut self.a[t * qw..end * qw], g, &scratch.out);
            }
        }
    }

    /// `norm` of spec 3.3 for every token: codes in `input`, scales in `scales`. `fraction` is the static scheme's
    /// constant; `a` holds clamped rows.
    fn norm<const PROBED: bool>(&mut self, plan: &Plan, fraction: Option<u32>, op: Op) {
        let config = plan.model.config();
        let n = config.hidden();
        let rows = self.x[..self.tokens * n]
            .chunks_exact(n)
            .zip(self.input.chunks_exact_mut(n));
        for ((x, codes), scale) in rows.zip(&mut self.scales) {
            let largest = (plan.kernels.max_abs)(x);
            let sh = alignment(largest);
            let (r, e) = root((plan.kernels.sum_squares)(x, sh), sh, config.eps());
            let m = fraction.map_or(largest, |c| root_fraction(c, r, e));
            let x = if largest <= m {
                x
            } else {
                clamp_from(x, m, &mut self.a[..n]);
                &self.a[..n]
            };
            (plan.kernels.quantize)(x, m, codes);
            *scale = ratio(m, r, e);
        }
        self.record_input::<PROBED>(op, n);
    }

    /// Records the quantised input, `[tokens][cols]`, and its scales.
    fn record_input<const PROBED: bool>(&mut self, op: Op, cols: usize) {
        if PROBED {
            let rows = self.input.chunks_exact(cols).zip(&self.scales);
            for (i, (codes, &scale)) in rows.take(self.tokens).enumerate() {
                self.recorder.codes(self.first + i, op, codes, scale);
            }
        }
    }

    /// Adds the product of `matrix` and the quantised input to the residual; `ops` name the product and the sum.
    fn add_product<const PROBED: bool>(
        &mut self,
        plan: &Plan,
        matrix: &Matrix<'_>,
        pool: Option<&Pool>,
        ops: [Op; 2],
    ) {
        let t = self.tokens;
        let (input, out) = (
            &self.input[..t * matrix.cols],
            &mut self.a[..t * matrix.mult.len()],
        );
        plan.linear(matrix, input, Some(&self.scales[..t]), I31, out, pool);
        let (x, n) = (&mut self.x[..out.len()], matrix.mult.len());
        (plan.kernels.add_residual)(x, out);
        if PROBED {
            self.recorder.rows(self.first, ops[0], out, n);
            self.recorder.rows(self.first, ops[1], x, n);
        }
    }
}

/// The stages of a q or k head: indices of [`Q_OPS`] and [`K_OPS`].
const NORM: usize = 0;
const ROPE: usize = 1;
const ROTATE: usize = 2;
const QUANT: usize = 3;
const Q_OPS: [Op; 4] = [Op::QNorm, Op::QRope, Op::QRotate, Op::QQuant];
const K_OPS: [Op; 4] = [Op::KNorm, Op::KRope, Op::KRotate, Op::KQuant];

/// `rotate_head` of spec 3.3 up to its quantisation, for one token's heads; `seen` gets the row after each stage.
fn rotate_heads(
    plan: &Plan,
    row: &mut [i32],
    gain: Option<&[i32]>,
    angles: &[(i32, i32)],
    mut seen: impl FnMut(usize, &[i32]),
) {
    let hd = 2 * angles.len();
    if let Some(gain) = gain {
        for head in row.chunks_exact_mut(hd) {
            head_norm(head, gain);
        }
        seen(NORM, row);
    }
    for head in row.chunks_exact_mut(hd) {
        rope(head, angles);
        if gain.is_some() {
            for v in &mut *head {
                *v = (*v).clamp(-I16, I16);
            }
        }
    }
    seen(ROPE, row);
    // |v| <= 5,931,893 and at most 256 values a block: below 2^31.
    plan.head_hadamard
        .apply(row, Direction::Forward, plan.kernels.butterflies);
    let (r3, half) = (plan.head_shift, (1u32 << plan.head_shift) >> 1);
    for v in &mut *row {
        // sat(rdbpot(v, r3)): nearest with ties away from zero is half up on magnitudes.
        let m = ((v.unsigned_abs() + half) >> r3).min(I16 as u32) as i32;
        *v = if *v < 0 { -m } else { m };
    }
    seen(ROTATE, row);
}

/// `dynq` of every head of one token's int16 values.
fn quantize_heads(plan: &Plan, row: &[i32], codes: &mut [i8], largest: &mut [u16]) {
    let hd = row.len() / largest.len();
    for ((head, codes), largest) in row
        .chunks_exact(hd)
        .zip(codes.chunks_exact_mut(hd))
        .zip(largest)
    {
        debug_assert!(max_abs(head) <= I16 as u32, "head values are int16");
        *largest = plan.dynq(head, codes) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::{Header, Writer};
    use crate::config::{Config, Dims, Scheme};
    use crate::kernels::Kernels;
    use crate::model::Model;
    use std::num::NonZeroUsize;
    use std::sync::Arc;

    /// A model of zero weights with heads of two channels and q/k norm.
    fn model() -> Model {
        let config = Config::new(Dims {
            scheme: Scheme::Dynamic,
            hidden: 2,
            layers: 1,
            heads: 1,
            kv_heads: 1,
            head_dim: 2,
            intermediate: 2,
            vocab: 2,
            accepted_ids: 2,
            max_context: 2,
            qk_norm: true,
            tied: true,
            eps: 1,
            stop_ids: vec![],
        })
        .unwrap();
        let mut writer = Writer::new(Vec::new(), &config, [0; 32], vec![]).unwrap();
        for entry in Header::new(&config, [0; 32], vec![]).unwrap().entries {
            let words: Vec<i32> = match entry.name.rsplit('.').next() {
                Some("mult") => vec![1 << 30; entry.elements() as usize],
                Some("consts") if entry.elements() == 9 => [&[-5; 7][..], &[1 << 30, 0]].concat(),
                Some("consts") => vec![-5],
                _ => vec![],
            };
            let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            bytes.resize(entry.length as usize, 0);
            writer.tensor(&entry.name, &bytes).unwrap();
        }
        Model::from_bytes(&writer.finish().unwrap().0).unwrap()
    }

    #[test]
    fn a_normalised_head_saturates_between_rope_and_rotation() {
        let pool = Pool::new(NonZeroUsize::MIN);
        let plan = Plan::new(Arc::new(model()), Kernels::scalar(), pool);
        let gain = [I16 << 15; 2];
        let mut seen = 0;
        for position in 0..32768 {
            // Turned back by the angle, so that the rotation puts all of it on the first channel.
            let (c, s) = rope_angle(0x9E37_79B9_7F4A_7C15, position);
            let row = [c << 10, -s << 10];
            let mut turned = row;
            head_norm(&mut turned, &gain);
            rope(&mut turned, &[(c, s)]);
            let [a, b] = turned;
            let want = |a: i32, b: i32| [a + b, a - b].map(|v| (v.abs() + 1) / 2 * v.signum());
            let mut got = row;
            rotate_heads(&plan, &mut got, Some(&gain), &[(c, s)], |_, _| {});
            assert_eq!(got, want(a.min(I16), b), "position {position}");
            seen += usize::from(want(a.min(I16), b) != want(a, b));
        }
        assert!(seen > 0, "rows whose saturation shows");
    }

    #[test]
    fn a_fixed_magnitude_clamps_to_itself() {
        let model = Arc::new(model());
        for kernels in Kernels::all()
            .into_iter()
            .filter_map(|(_, kernels)| kernels)
        {
            let pool = Pool::new(NonZeroUsize::MIN);
            let plan = Plan::new(Arc::clone(&model), kernels, pool);
            // Below 254 a step of one at the clamp is half a code or more.
            for m in (1..=300).chain([I31 - 1, I31]) {
                let mut row = [m, -m, 0, m.saturating_add(1), -I31, I31, -(m / 2), 1];
                let mut codes = [0; 8];
                let used = plan.quantize_input(&mut row, Some(m as u32), &mut codes);
                assert_eq!(used, m as u32);
                assert_eq!(row, [m, -m, 0, m, -m, m, -(m / 2), 1]);
                let mut small = [0; 2];
                (kernels.quantize)(&[-(m / 2), 1], m as u32, &mut small);
                let want = [127, -127, 0, 127, -127, 127, small[0], small[1]];
                assert_eq!(codes, want, "{} {m}", kernels.name);
            }
        }
    }
}
