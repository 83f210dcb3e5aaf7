//! Head normalisation of models with q/k norm (spec 1.11).

use super::dynq::max_abs;
use super::fixed::{I16, bit_length_64, isqrt, rdbpot, sat};
use super::rms::{alignment, sum_squares};

/// Normalises one head row in place to int16 values.
///
/// Domain: at most 256 values |x_i| <= 2^31 - 1, as many gains |g_i| <= 32767 * 2^15.
pub fn head_norm(x: &mut [i32], gain: &[i32]) {
    assert_eq!(x.len(), gain.len(), "one gain per channel");
    let sh = alignment(max_abs(x));
    // s <= 1 + 256 * 2^48 < 2^57; the one keeps the all-zero row at zero.
    let s = 1 + sum_squares(x, sh);
    let up = (62 - bit_length_64(s)) / 2;
    let r = isqrt(s << (2 * up));
    // 2^30 <= r < 2^31, so rr is in (2^30, 2^31].
    let rr = ((1u64 << 61) / u64::from(r)) as i64;
    for (x, &g) in x.iter_mut().zip(gain) {
        let v = rdbpot(i64::from(*x), sh);
        // |v << up| <= r and r * rr <= 2^61, so |t| <= 2^30.
        let t = rdbpot((v << up) * rr, 31);
        *x = sat(rdbpot(t * i64::from(g), 45), I16);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixed::I31;
    use super::*;

    #[test]
    fn one_channel_carries_all() {
        let gain = [32767 << 15; 4];
        let mut x = [0; 4];
        head_norm(&mut x, &gain);
        assert_eq!(x, [0; 4]);
        for large in [1 << 12, 1 << 20, I31] {
            let mut x = [0, -large, 0, 0];
            head_norm(&mut x, &gain);
            assert_eq!(x, [0, -32767, 0, 0], "{large}");
        }
        // Four equal channels: half each, and signs of gains count.
        let mut x = [I31, -I31, I31, I31];
        head_norm(&mut x, &[32767 << 15, 32767 << 15, -(32767 << 15), 0]);
        assert_eq!(x, [16384, -16384, -16384, 0]);
    }

    #[test]
    fn the_unit_is_visible_in_tiny_rows() {
        // 1 / sqrt(1 + 1) of 32767.
        let mut x = [1, 0];
        head_norm(&mut x, &[32767 << 15; 2]);
        assert_eq!(x, [23170, 0]);
    }
}
