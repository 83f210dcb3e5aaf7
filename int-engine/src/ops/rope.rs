//! Rotary position embedding (spec 1.9).

use super::fixed::{I31, rdbpot, sat};
use crate::tables;

/// Cosine and sine (Q14) of an angle.
pub type CosSin = (i32, i32);

/// Cosine and sine (Q14) of one pair's angle at a position below 32768 (spec 1.9).
pub fn rope_angle(phase: u64, position: u32) -> CosSin {
    // Angles count turns in 64-bit fractions: the product is meant modulo one turn.
    let turn = phase.wrapping_mul(u64::from(position));
    // The nearest 18-bit angle; the addition may complete a turn.
    let index = (turn.wrapping_add(1 << 45) >> 46) as usize;
    let (ch, sh) = tables::ROPE_COARSE[index >> 10];
    let (cl, sl) = tables::ROPE_FINE[index & 1023];
    let [ch, sh, cl, sl] = [ch, sh, cl, sl].map(i64::from);
    // Entries are at most 2^30 in magnitude: each sum of two products is at most 2^61.
    (
        rdbpot(ch * cl - sh * sl, 46) as i32,
        rdbpot(sh * cl + ch * sl, 46) as i32,
    )
}

/// Rotates the half-split pairs (i, i + hd/2) of one head row in place.
///
/// Domain: |x_i| <= 2^22 and Q14 `cos_sin` of hd/2 entries. Products fit int64 (2^37); outputs are at most
/// 5,931,893 in magnitude.
pub fn rope(x: &mut [i32], cos_sin: &[CosSin]) {
    rope_within(x, cos_sin, I31);
}

/// As [`rope`], the outputs saturated to `[-limit, limit]`.
#[inline(always)]
pub fn rope_within(x: &mut [i32], cos_sin: &[CosSin], limit: i32) {
    let (low, high) = x.split_at_mut(cos_sin.len());
    assert_eq!(low.len(), high.len(), "hd/2 angles for a row of hd values");
    for ((a, b), &(c, s)) in low.iter_mut().zip(high).zip(cos_sin) {
        let [x, y, c, s] = [*a, *b, c, s].map(i64::from);
        *a = sat(rdbpot(x * c - y * s, 14), limit);
        *b = sat(rdbpot(y * c + x * s, 14), limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarter_turns() {
        let quarter = 1u64 << 62;
        let want = [(16384, 0), (0, 16384), (-16384, 0), (0, -16384)];
        for position in 0..8 {
            assert_eq!(rope_angle(quarter, position), want[position as usize % 4]);
        }
        // Half an 18-bit step below a whole turn rounds up to it.
        assert_eq!(rope_angle(u64::MAX - (1 << 45) + 1, 1), (16384, 0));
        assert_eq!(rope_angle(u64::MAX, 32767), (16384, 0));
    }

    #[test]
    fn angles_stay_near_the_circle() {
        for position in (0..32768).step_by(7) {
            let (c, s) = rope_angle(0x9E37_79B9_7F4A_7C15, position);
            assert!(c.abs() <= 16384 && s.abs() <= 16384);
            let norm = i64::from(c) * i64::from(c) + i64::from(s) * i64::from(s);
            assert!(norm <= 268_458_250, "position {position}: {norm}");
        }
    }

    #[test]
    fn rotation_of_pairs() {
        let mut x = [10, 20, 3, -4];
        rope(&mut x, &[(0, 16384), (16384, 0)]);
        assert_eq!(x, [-3, 20, 10, -4]);
        let mut x = [1 << 22, 1 << 22];
        rope(&mut x, &[(11585, -11585)]);
        assert!(x[0] <= 5_931_893 && x[0] > 5_931_000);
    }
}
