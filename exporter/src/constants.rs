//! Real scales as the integers of a blob (spec 4.5).

use crate::report::StaticSite;
use int_engine::ops::fixed::bit_length_64;
use int_engine::ops::hadamard::headroom;

/// A positive real factor as `mult / 2^31 * 2^-shift`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Multiplier {
    /// In [2^30, 2^31).
    pub(crate) mult: i32,
    /// In [-64, 64].
    pub(crate) shift: i32,
}

impl Multiplier {
    /// The multiplier of an output that is zero whatever it is multiplied by.
    pub(crate) const OF_ZERO: Self = Self {
        mult: 1 << 30,
        shift: 0,
    };
    /// The smallest factor, 2^-65.
    const SMALLEST: Self = Self {
        mult: 1 << 30,
        shift: 64,
    };

    /// The multiplier nearest to `c >= 0`; `None` when c is not finite, or 2^64 or more.
    ///
    /// A factor below 2^-65, the smallest that a blob can hold, becomes that one: either maps every accumulator of a
    /// real model to 0. Factor 0 belongs to a row of zero weights.
    pub(crate) fn of(c: f64) -> Option<Self> {
        if c == 0.0 {
            return Some(Self::OF_ZERO);
        }
        if !(c > 0.0 && c.is_finite()) {
            return None;
        }
        // c = fraction * 2^exponent, fraction in [0.5, 1).
        let (fraction, mut exponent) = libm::frexp(c);
        let mut mult = libm::rint(libm::ldexp(fraction, 31)) as i64;
        if mult == 1 << 31 {
            mult = 1 << 30;
            exponent += 1;
        }
        match -exponent {
            ..-64 => None,
            65.. => Some(Self::SMALLEST),
            shift => Some(Self {
                mult: mult as i32,
                shift,
            }),
        }
    }
}

/// Smallest calibrated maximum that a scale is made from; a site that never exceeds it carries nothing.
const FLOOR: f64 = 1.0 / (1 << 20) as f64;

/// Unit of a q or k row without q/k norm, from the largest value after rope and before the head rotation.
pub(crate) fn qk_unit(max: f64) -> f64 {
    2.0 * max.max(FLOOR) / 32767.0
}

/// Unit of a normalised q or k row, from the largest gain.
pub(crate) fn qk_norm_unit(max_gain: f64, head_dim: usize) -> f64 {
    max_gain.max(FLOOR) * libm::sqrt(head_dim as f64) / 32767.0
}

/// Unit of a v row, from the largest value after the head rotation.
pub(crate) fn v_unit(max: f64) -> f64 {
    4.0 * max.max(FLOOR) / 32767.0
}

/// Unit of the residual: the power of two that puts the largest value at 1/32 to 1/16 of int32, or
/// the smallest one for which the eps of the blob stays below 2^53.
pub(crate) fn residual_unit(max: f64, hidden: usize, rms_eps: f64) -> f64 {
    // max = fraction * 2^exponent: ceil(log2 max) is exponent, or one less for a power of two.
    let (fraction, exponent) = libm::frexp(max.max(FLOOR));
    let ceil_log2 = if fraction == 0.5 {
        exponent - 1
    } else {
        exponent
    };
    let mut unit = libm::ldexp(1.0, ceil_log2 + 4 - 31);
    while hidden as f64 * rms_eps / (unit * unit) >= libm::ldexp(1.0, 53) {
        unit *= 2.0;
    }
    unit
}

/// Addend of the residual's sums of squares, in squared units: below 2^53 by the choice of the unit.
pub(crate) fn residual_eps(unit: f64, hidden: usize, rms_eps: f64) -> u64 {
    let eps = libm::rint(hidden as f64 * rms_eps / (unit * unit));
    (eps as u64).min((1 << 53) - 1)
}

/// Gains of a normalised q or k head in Q15 of int16: `round(g / max|g| * 32767 * 2^15)`.
pub(crate) fn head_gain(gain: &[f64]) -> Vec<i32> {
    let max = max_abs(gain).max(FLOOR);
    let to = 32767.0 * 32768.0;
    gain.iter()
        .map(|g| libm::rint(g / max * to) as i32)
        .collect()
}

/// Gains of the final norm: `round(g / max|g| * 32767)`, and max|g|.
pub(crate) fn final_gain(gain: &[f64]) -> (Vec<i16>, f64) {
    let max = max_abs(gain);
    if max == 0.0 {
        return (vec![0; gain.len()], 0.0);
    }
    let codes = gain.iter().map(|g| libm::rint(g / max * 32767.0) as i16);
    (codes.collect(), max)
}

/// Largest magnitude; 0 of nothing.
pub(crate) fn max_abs(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |m, v| m.max(v.abs()))
}

/// `(score_mult, score_shift)` of a layer: the factor from `q8 . k8 * mq * mk` to base-2 scores in Q8.
///
/// `head_block` is the block of the head rotation and 2^r3 its output's divisor (spec 3.3). `None` when the factor is 1 or more.
/// A factor below 2^-61 becomes about that: no score can then differ from 0.
pub(crate) fn score_multiplier(
    q_unit: f64,
    k_unit: f64,
    head_dim: usize,
    head_block: usize,
) -> Option<(i32, i32)> {
    let r3 = (usize::BITS - (head_block - 1).leading_zeros()).div_ceil(2) as i32;
    let c = q_unit * k_unit / libm::sqrt(head_dim as f64)
        * std::f64::consts::LOG2_E
        * libm::ldexp(1.0, 8 + 2 * r3)
        / (127.0 * 127.0)
        / head_block as f64;
    let m = Multiplier::of(c)?;
    match m.shift {
        ..0 => None,
        0..=61 => Some((m.mult, m.shift)),
        _ => Some((1 << 30, 61)),
    }
}

/// The smallest of the values that at least nine tenths of them do not exceed; 0 of nothing.
///
/// With N values in ascending order it is number ceil(9 N / 10), counted from 1: one of the values, never a mixture.
pub(crate) fn ninth_decile(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (9 * values.len()).div_ceil(10);
    rank.checked_sub(1).map_or(0.0, |i| values[i])
}

/// Largest magnitude that a static scale may have.
const STATIC_MAX: f64 = i32::MAX as f64;

/// `value` rounded to an integer of 1 ..= 2^31 - 1.
fn magnitude(value: f64) -> i32 {
    libm::rint(value).clamp(1.0, STATIC_MAX) as i32
}

/// The static scales of a layer (spec 3.2): c_attn_norm, c_mlp_norm, m_o, c_down, m_down.
///
/// `o_in` and `down_in` are the largest inputs of o and down, `v_unit` the unit of v, `block` that of the rotation before down.
pub(crate) fn static_scales(
    site: &StaticSite,
    o_in: f64,
    down_in: f64,
    v_unit: f64,
    block: usize,
) -> [i32; 5] {
    let share = |peak: f64| libm::rint(peak * 65536.0).clamp(1.0, 65536.0) as i32;
    // Attention sums int8 codes of v with weights of 2^8.
    let m_o = magnitude(o_in / (v_unit / (256.0 * 127.0)));
    // The gated activation has the unit 2^-24, and swiglu ends at 2^52.
    let gated = libm::rint(libm::ldexp(site.gated, 24)).clamp(0.0, libm::ldexp(1.0, 52)) as u64;
    let c_down = bit_length_64(gated).saturating_sub(headroom(block)) as i32;
    let m_down = magnitude(libm::ldexp(down_in, 24 - c_down));
    [
        share(site.attn_norm),
        share(site.mlp_norm),
        m_o,
        c_down,
        m_down,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_multiplier_reads_back_to_32_bits(fraction in 0.5f64..1.0, exponent in -64i32..=64) {
            let c = libm::ldexp(fraction, exponent);
            if let Some(m) = Multiplier::of(c) {
                prop_assert!(m.mult >= 1 << 30);
                prop_assert!((-64..=64).contains(&m.shift));
                let back = f64::from(m.mult) / 2f64.powi(31) * 2f64.powi(-m.shift);
                prop_assert!((back - c).abs() <= c * 2f64.powi(-31));
            } else {
                prop_assert!(exponent == 64);
            }
        }

        #[test]
        fn any_scale_is_accepted_or_refused(bits in any::<u64>()) {
            let c = f64::from_bits(bits);
            match Multiplier::of(c) {
                Some(m) => prop_assert!(c >= 0.0 && m.mult >= 1 << 30 && (-64..=64).contains(&m.shift)),
                None => prop_assert!(c.is_nan() || c < 0.0 || c >= 2f64.powi(63)),
            }
        }
    }

    #[test]
    fn multiplier_at_the_borders() {
        let at = |c| Multiplier::of(c).map(|m| (m.mult, m.shift));
        assert_eq!(at(0.0), Some((1 << 30, 0)));
        assert_eq!(at(0.5), Some((1 << 30, 0)));
        assert_eq!(at(1.0), Some((1 << 30, -1)));
        // Rounds up to the next power of two.
        assert_eq!(at(1.0 - 2f64.powi(-40)), Some((1 << 30, -1)));
        assert_eq!(at(2f64.powi(-65)), Some((1 << 30, 64)));
        assert_eq!(at(f64::MIN_POSITIVE), Some((1 << 30, 64)));
        assert_eq!(at(5e-324), Some((1 << 30, 64)));
        assert_eq!(at(2f64.powi(63)), Some((1 << 30, -64)));
        assert_eq!(at(2f64.powi(64)), None);
        assert_eq!(at(f64::INFINITY), None);
        assert_eq!(at(f64::NAN), None);
    }

    #[test]
    fn residual_units() {
        // 1411 < 2^11: 2^(11 + 4 - 31).
        assert_eq!(residual_unit(1411.0, 576, 1e-5), 2f64.powi(-16));
        assert_eq!(residual_unit(1024.0, 576, 1e-5), 2f64.powi(-17));
        assert_eq!(residual_eps(2f64.powi(-16), 576, 1e-5), 24_739_012);
        // Tiny residuals: eps decides.
        let unit = residual_unit(0.0, 8192, 1e-5);
        assert!(residual_eps(unit, 8192, 1e-5) < 1 << 53);
        assert!(residual_eps(unit / 2.0, 8192, 1e-5) == (1 << 53) - 1);
    }

    #[test]
    fn score_factors() {
        // head_dim 64: C = s_q s_k / 8 * log2(e) * 2^8 / 127^2 * 2^6 / 64.
        let (mult, shift) = score_multiplier(0.001, 0.002, 64, 64).unwrap();
        let c = f64::from(mult) / 2f64.powi(31) * 2f64.powi(-shift);
        let expected = 0.001 * 0.002 / 8.0 * std::f64::consts::LOG2_E * 256.0 / 16129.0;
        assert!((c / expected - 1.0).abs() < 1e-9);
        assert_eq!(score_multiplier(1e-30, 1e-30, 64, 64), Some((1 << 30, 61)));
        assert_eq!(score_multiplier(1e10, 1e10, 64, 64), None);
        // r3: the smallest r with 4^r >= block.
        let ratio = |block| {
            let (m, s) = score_multiplier(0.001, 0.001, 64, block).unwrap();
            f64::from(m) * 2f64.powi(-s)
        };
        assert!((ratio(128) / ratio(64) - 2.0).abs() < 1e-6);
        assert!((ratio(2) / ratio(1) - 2.0).abs() < 1e-6);
    }

    #[test]
    fn units_leave_the_stated_headroom() {
        assert_eq!(qk_unit(1.0), 2.0 / 32767.0);
        assert_eq!(v_unit(1.0), 4.0 / 32767.0);
        assert_eq!(qk_norm_unit(3.0, 64), 24.0 / 32767.0);
        assert_eq!(qk_unit(0.0), 2.0 * FLOOR / 32767.0);
    }

    #[test]
    fn the_ninth_decile_is_one_of_the_values() {
        let of = |n: u32| ninth_decile((1..=n).rev().map(f64::from).collect());
        let found = [0, 1, 2, 9, 10, 11, 20, 1000].map(of);
        assert_eq!(found, [0.0, 1.0, 2.0, 9.0, 9.0, 10.0, 18.0, 900.0]);
    }

    #[test]
    fn static_scales_are_in_their_ranges() {
        let site = |attn_norm, mlp_norm, gated| StaticSite {
            attn_norm,
            mlp_norm,
            gated,
        };
        // o: 1 in units of 2^-20. down: 3 * 2^24 has 26 bits, and a block of 512 leaves 21: shifted by 5.
        let unit = libm::ldexp(256.0 * 127.0, -20);
        let found = static_scales(&site(0.25, 0.5, 3.0), 1.0, 24.0, unit, 512);
        assert_eq!(found, [1 << 14, 1 << 15, 1 << 20, 5, 24 << 19]);
        // A power of two more does not fit the bits; one value less does.
        let shift = |gated| static_scales(&site(0.0, 0.0, gated), 0.0, 0.0, 1.0, 3072)[3];
        let (below, at) = (
            libm::ldexp(1.0, -5) - libm::ldexp(1.0, -24),
            libm::ldexp(1.0, -5),
        );
        assert_eq!((shift(below), shift(at), shift(0.0)), (0, 1, 0));
        assert_eq!(
            static_scales(&site(0.0, 0.0, 0.0), 0.0, 0.0, 1.0, 1),
            [1, 1, 1, 0, 1]
        );
        let huge = static_scales(&site(2.0, 1.0, 1e300), 1e300, 1e300, 1e-9, 65536);
        assert_eq!(huge, [65536, 65536, i32::MAX, 39, i32::MAX]);
    }

    #[test]
    fn gains() {
        assert_eq!(final_gain(&[1.0, -2.0, 0.0]), (vec![16384, -32767, 0], 2.0));
        assert_eq!(final_gain(&[0.0, -0.0]), (vec![0, 0], 0.0));
        assert_eq!(head_gain(&[0.0; 2]), [0, 0]);
        assert_eq!(head_gain(&[-3.0, 1.5])[0], -32767 * 32768);
    }
}
