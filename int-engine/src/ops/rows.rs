//! Element-wise rows between the operations that have a section of their own.

/// x_i = sat(rdbpot(x_i, r), limit) in place (`rotate_head` of spec 3.3), |x_i| <= 2^31 - 1, r <= 31, limit >= 0.
///
/// Nearest with ties away from zero is half up on magnitudes: |x_i| + 2^(r-1) < 2^32.
#[inline(always)]
pub fn round_shift(x: &mut [i32], r: u32, limit: i32) {
    let half = (1u32 << r) >> 1;
    for x in x {
        let m = ((x.unsigned_abs() + half) >> r).min(limit as u32) as i32;
        *x = if *x < 0 { -m } else { m };
    }
}

/// out_i = y_i * gain_i (the head of spec 3.4), |y_i| <= 2^31 - 1; returns the largest magnitude, below 2^46.
#[inline(always)]
pub fn apply_gain(y: &[i32], gain: &[i16], out: &mut [i64]) -> u64 {
    assert!(
        y.len() == gain.len() && y.len() == out.len(),
        "rows of one width"
    );
    let mut largest = 0;
    for ((out, &y), &gain) in out.iter_mut().zip(y).zip(gain) {
        *out = i64::from(y) * i64::from(gain);
        largest = largest.max(out.unsigned_abs());
    }
    largest
}

/// The largest value; -2^31 for an empty row.
#[inline(always)]
pub fn largest(x: &[i32]) -> i32 {
    x.iter().fold(i32::MIN, |m, &v| m.max(v))
}

#[cfg(test)]
mod tests {
    use super::super::fixed::I31;
    use super::*;

    #[test]
    fn ends() {
        let mut x = [I31, -I31, 3, -3, 1, 0];
        round_shift(&mut x, 1, I31);
        assert_eq!(x, [1 << 30, -(1 << 30), 2, -2, 1, 0]);
        round_shift(&mut x, 31, I31);
        assert_eq!(x, [1, -1, 0, 0, 0, 0]);
        let mut x = [9, -9, 1];
        round_shift(&mut x, 0, 5);
        assert_eq!(x, [5, -5, 1]);
        let mut out = [0; 2];
        assert_eq!(
            apply_gain(&[I31, -2], &[-32767, 7], &mut out),
            32767 * ((1 << 31) - 1)
        );
        assert_eq!(out, [-32767 * ((1 << 31) - 1), -14]);
        assert_eq!((largest(&[]), largest(&[-3, -2, -9])), (i32::MIN, -2));
    }
}
