//! Attention of one query head (spec 1.13, 1.14), split at its two dot products.
//!
//! 1. dots_s = q8 . k8_s, at most 256 * 127^2 < 2^22;
//! 2. [`QueryScale::log_scores`]: base-2 logarithms of the weights, Q8;
//! 3. [`softmax_weights`]: unnormalised weights times the value scales, narrowed to 16 bits;
//! 4. n_i = sum_s w_s * v8_{s,i};
//! 5. [`Normalizer::output`].

use super::fixed::{bit_length, bit_length_64, rdbpot};
use super::proven::{ATTENTION_OUTPUT, Columns, DEN, Proven, WEIGHTED_VALUES};
use crate::tables;
use crate::tiles::GROUP;

/// The largest magnitude of a score.
const SCORE_LIMIT: i64 = (1 << 30) - 1;

/// 2^(-d/256) in Q15, 0 to 32768 (spec 1.13).
#[inline(always)]
pub fn exp2_weight(d: u32) -> u32 {
    let n = d >> 8;
    if n > 30 {
        return 0;
    }
    // At most 32768 + 2^29.
    (u32::from(tables::EXP2[(d & 255) as usize]) + ((1 << n) >> 1)) >> n
}

/// What turns a query's dot products into scores.
#[derive(Clone, Copy, Debug)]
pub struct QueryScale {
    /// round(mq * score_mult / 2^20) <= 2^26.
    pub rm: i32,
    /// 1 + score_shift, 1 to 62.
    pub rs: u32,
}

impl QueryScale {
    /// Domain: mq <= 32767, score_mult in [2^30, 2^31), score_shift in [0, 61].
    pub fn new(mq: u16, score_mult: i32, score_shift: u32) -> Self {
        // 32767 * 2^31 + 2^19 < 2^47, and its quotient is at most 2^26.
        Self {
            rm: ((i64::from(mq) * i64::from(score_mult) + (1 << 19)) >> 20) as i32,
            rs: 1 + score_shift,
        }
    }

    /// The score of one key, in [-(2^30 - 1), 2^30 - 1].
    ///
    /// Domain: |dot| <= 256 * 127^2, mk <= 32767.
    #[inline(always)]
    pub fn log_score(self, dot: i32, mk: u16) -> i32 {
        // |dot * mk| < 2^37, |a| < 2^27, |a * rm| < 2^53 and the addend is at most 2^61.
        let a = rdbpot(i64::from(dot) * i64::from(mk), 10);
        let z = (a * i64::from(self.rm) + (1 << (self.rs - 1))) >> self.rs;
        z.clamp(-SCORE_LIMIT, SCORE_LIMIT) as i32
    }

    /// Replaces dot products by scores and returns the largest score (`i32::MIN` for none).
    #[inline(always)]
    pub fn log_scores(self, dots: &mut [i32], mk: &[u16]) -> i32 {
        assert_eq!(dots.len(), mk.len(), "one scale per key");
        let mut top = i32::MIN;
        for (dot, &mk) in dots.iter_mut().zip(mk) {
            *dot = self.log_score(*dot, mk);
            top = top.max(*dot);
        }
        top
    }
}

/// What divides the weighted sum of values by the sum of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Normalizer {
    /// The sum of the Q15 weights, 2^15 to 2^30.
    pub den: u32,
    /// The right shift that the weights took, 0 to 15.
    pub c: u32,
}

/// Products p_s * mv_s in place of scores whose largest is `top`; returns the sum of the weights p_s and the
/// largest product. At most 32768 keys, mv_s <= 32767.
#[inline(always)]
pub fn raw_weights(z: &mut [i32], top: i32, mv: &[u16]) -> (u32, i32) {
    assert_eq!(z.len(), mv.len(), "one scale per key");
    let (mut den, mut largest) = (Proven::<u32>::zero(), 0i32);
    for (z, &mv) in z.iter_mut().zip(mv) {
        // top - z < 2^31; p <= 2^15, so 32768 of them sum to at most 2^30, and p * mv < 2^30.
        let p = exp2_weight(top.wrapping_sub(*z) as u32);
        den = den.plus(p);
        *z = (p * u32::from(mv)) as i32;
        largest = largest.max(*z);
    }
    (den.value(&DEN, mv.len()), largest)
}

/// Products shifted right by c, half up: at most 2^15 for the c of [`Normalizer::new`].
#[inline(always)]
pub fn narrow_weights(products: &[i32], c: u32, w: &mut [u16]) {
    assert_eq!(products.len(), w.len(), "one weight per product");
    let half = (1 << c) >> 1;
    for (w, &z) in w.iter_mut().zip(products) {
        *w = ((z + half) >> c) as u16;
    }
}

/// Weights from scores whose largest is `top`: w_s = exp2_weight(top - z_s) * mv_s, shifted to at most 2^15.
///
/// `z` is overwritten. At least one key; at most 32768; mv_s <= 32767.
pub fn softmax_weights(z: &mut [i32], top: i32, mv: &[u16], w: &mut [u16]) -> Normalizer {
    let (den, largest) = raw_weights(z, top, mv);
    let normalizer = Normalizer::new(den, largest);
    narrow_weights(z, normalizer.c, w);
    normalizer
}

/// n_i += sum_s w_s * v8_{s,i}: at most 32768 weights w_s <= 2^15, `values` in groups of four keys,
/// `[keys / 4][n.len()][4]`, whole groups.
///
/// |n_i| <= 32768 * 2^15 * 127 < 2^37.
#[inline(always)]
pub fn weighted_sum(w: &[u16], values: &[i8], n: &mut [i64]) {
    assert_eq!(
        values.len(),
        w.len().div_ceil(GROUP) * GROUP * n.len(),
        "whole groups of values, one value per weight and channel"
    );
    if n.is_empty() {
        return;
    }
    let mut proof = Columns::zero(n.len());
    for (w, values) in w.chunks(GROUP).zip(values.chunks_exact(GROUP * n.len())) {
        for (s, &w) in w.iter().enumerate() {
            proof.plus(
                values
                    .chunks_exact(GROUP)
                    .map(|v| i64::from(w) * i64::from(v[s])),
            );
        }
        let mut weights = [0i64; GROUP];
        for (to, &w) in weights.iter_mut().zip(w) {
            *to = w.into();
        }
        for (n, v) in n.iter_mut().zip(values.chunks_exact(GROUP)) {
            *n += (0..GROUP)
                .map(|s| weights[s] * i64::from(v[s]))
                .sum::<i64>();
        }
    }
    proof.hold(&WEIGHTED_VALUES, w.len());
}

impl Normalizer {
    /// From the sum of weights and the largest product of a weight and its value's scale, below 2^30.
    pub fn new(den: u32, largest: i32) -> Self {
        Self {
            den,
            c: bit_length(largest as u32).saturating_sub(15),
        }
    }

    /// The head's output in units of s_v / (256 * 127), |out| <= 2,130,641,408.
    #[inline(always)]
    pub fn output(self, n: &[i64], out: &mut [i32]) {
        assert_eq!(n.len(), out.len(), "one output per channel");
        let bd = bit_length(self.den);
        // In (2^30, 2^31].
        let rd = ((1u64 << (bd + 30)) / u64::from(self.den)) as u32;
        let largest = n.iter().fold(0, |m, v| m.max(v.unsigned_abs()));
        // |n| < 2^37: sn <= 6; bd in [16, 31] and c <= 15: f in [17, 53].
        let sn = bit_length_64(largest).saturating_sub(31);
        let f = bd + 22 - sn - self.c;
        let half = 1u64 << (f - 1);
        for (out, &n) in out.iter_mut().zip(n) {
            // |n| >> sn < 2^31, times rd <= 2^62.
            let y = (u64::from((n.unsigned_abs() >> sn) as u32) * u64::from(rd) + half) >> f;
            let y = ATTENTION_OUTPUT.within(y as i64) as i32;
            *out = if n < 0 { -y } else { y };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attend(
        scale: QueryScale,
        q8: &[i8],
        k8: &[i8],
        mk: &[u16],
        v8: &[i8],
        mv: &[u16],
    ) -> Vec<i32> {
        let dots = k8.chunks_exact(q8.len()).map(|k| {
            k.iter()
                .zip(q8)
                .map(|(&a, &b)| i32::from(a) * i32::from(b))
                .sum()
        });
        let mut z: Vec<i32> = dots.collect();
        let top = scale.log_scores(&mut z, mk);
        let mut w = vec![0; z.len()];
        let normalizer = softmax_weights(&mut z, top, mv, &mut w);
        let mut n = vec![0; q8.len()];
        weighted_sum(&w, &crate::tiles::group_values(v8, n.len()), &mut n);
        let mut out = vec![0; q8.len()];
        normalizer.output(&n, &mut out);
        out
    }

    #[test]
    fn exp2_weight_ends() {
        assert_eq!(exp2_weight(0), 32768);
        assert_eq!(exp2_weight(256), 16384);
        assert_eq!(exp2_weight(15 * 256), 1);
        assert_eq!(exp2_weight(16 * 256), 1);
        assert_eq!(exp2_weight(16 * 256 + 1), 0);
        assert_eq!(exp2_weight(30 * 256), 0);
        assert_eq!(exp2_weight(u32::MAX >> 1), 0);
    }

    #[test]
    fn one_key_returns_its_value() {
        let scale = QueryScale::new(5, 1 << 30, 20);
        let one = |v8: &[i8], mv| attend(scale, &[1, 2], &[3, 4], &[6], v8, &[mv]);
        // out = v8 * mv * 256.
        assert_eq!(
            one(&[127, -127], 32767),
            [127 * 32767 * 256, -127 * 32767 * 256]
        );
        assert_eq!(one(&[127, -1], 1), [32512, -256]);
        let zero = QueryScale::new(0, 1 << 30, 61);
        assert_eq!(attend(zero, &[0, 0], &[0, 0], &[0], &[0, 0], &[0]), [0, 0]);
    }

    #[test]
    fn the_longest_context_of_largest_values_fits() {
        let keys = 32768;
        let scale = QueryScale::new(32767, i32::MAX, 0);
        let largest = vec![32767; keys];
        for k in [127i8, -127] {
            let out = attend(
                scale,
                &[127; 2],
                &vec![k; 2 * keys],
                &largest,
                &vec![-127; 2 * keys],
                &largest,
            );
            assert_eq!(
                out,
                [-127 * 32767 * 256; 2],
                "equal weights return the common value"
            );
        }
    }

    #[test]
    fn a_narrowed_weight_may_round_up_to_two_to_fifteen() {
        let mut z = [0];
        let mut w = [0];
        // p * mv = 2^15 * 1: bit length 16, c = 1, half of it.
        assert_eq!(
            softmax_weights(&mut z, 0, &[1], &mut w),
            Normalizer { den: 32768, c: 1 }
        );
        assert_eq!(w, [1 << 14]);
        // 32765 / 32768 of mv = 32767 and so on never exceed 2^15.
        let mut z = [-1, 0];
        let mut w = [0; 2];
        softmax_weights(&mut z, 0, &[32767, 3], &mut w);
        assert!(w[0] <= 1 << 15);
    }
}
