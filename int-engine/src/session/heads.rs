//! Queries, keys and values between their projection and the attention (`rotate_head` of spec 3.3).

use super::plan::Plan;
use crate::ops::dynq::max_abs;
use crate::ops::fixed::{I16, I31};
use crate::ops::hadamard::Direction;
use crate::ops::rotation::HeadRotation;
use crate::probe::Op;

/// The stages of a q or k head: indices of [`Q_OPS`] and [`K_OPS`].
const NORM: usize = 0;
const ROPE: usize = 1;
const ROTATE: usize = 2;
pub(super) const QUANT: usize = 3;
pub(super) const Q_OPS: [Op; 4] = [Op::QNorm, Op::QRope, Op::QRotate, Op::QQuant];
pub(super) const K_OPS: [Op; 4] = [Op::KNorm, Op::KRope, Op::KRotate, Op::KQuant];

/// `rotate_head` of spec 3.3 up to its quantisation, for one token's heads, stage by stage; `seen` gets the row after each stage.
pub(super) fn rotate_heads(
    plan: &Plan,
    row: &mut [i32],
    gain: Option<&[i32]>,
    angles: &[(i32, i32)],
    mut seen: impl FnMut(usize, &[i32]),
) {
    let hd = 2 * angles.len();
    if let Some(gain) = gain {
        for head in row.chunks_exact_mut(hd) {
            (plan.kernels.head_norm)(head, gain);
        }
        seen(NORM, row);
    }
    let limit = if gain.is_some() { I16 } else { I31 };
    for head in row.chunks_exact_mut(hd) {
        (plan.kernels.rope)(head, angles, limit);
    }
    seen(ROPE, row);
    // |v| <= 5,931,893 and at most 256 values a block: below 2^31.
    plan.head_hadamard
        .apply(row, Direction::Forward, plan.kernels.butterflies);
    (plan.kernels.round_shift)(row, plan.head_shift, I16);
    seen(ROTATE, row);
}

/// `rotate_head` of spec 3.3 with its quantisation, for one token's heads; the row is overwritten.
pub(super) fn rotate_and_quantize(
    plan: &Plan,
    row: &mut [i32],
    gain: Option<&[i32]>,
    angles: &[(i32, i32)],
    codes: &mut [i8],
    largest: &mut [u16],
) {
    let rotation = HeadRotation {
        gain,
        angles,
        hadamard: &plan.head_hadamard,
        shift: plan.head_shift,
    };
    (plan.kernels.rotate_heads)(row, rotation, codes, largest);
}

/// `dynq` of every head of one token's int16 values.
pub(super) fn quantize_heads(plan: &Plan, row: &[i32], codes: &mut [i8], largest: &mut [u16]) {
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
    use crate::ops::head_norm::head_norm;
    use crate::ops::rope::{rope, rope_angle};
    use crate::pool::Pool;
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
