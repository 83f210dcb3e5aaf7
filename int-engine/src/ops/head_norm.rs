//! Head normalisation of models with q/k norm (spec 1.11).

use super::dynq::max_abs;
use super::fixed::{I16, bit_length_64, isqrt};
use super::rms::{alignment, sum_squares};

/// Normalises one head row in place to int16 values.
///
/// Domain: at most 256 values |x_i| <= 2^31 - 1, as many gains |g_i| <= 32767 * 2^15.
#[inline(always)]
pub fn head_norm(x: &mut [i32], gain: &[i32]) {
    assert_eq!(x.len(), gain.len(), "one gain per channel");
    let unit = HeadUnit::of(x);
    for (x, &g) in x.iter_mut().zip(gain) {
        *x = unit.normalize(*x, g);
    }
}

/// What turns the values of one head row into fractions of its root.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadUnit {
    /// Right shift that aligns magnitudes to 24 bits, at most 7.
    pub sh: u32,
    /// Left shift that aligns the root to 31 bits, at most 30.
    pub up: u32,
    /// The reciprocal of the root, in (2^30, 2^31].
    pub rr: u32,
}

impl HeadUnit {
    /// Domain: as [`head_norm`].
    #[inline(always)]
    pub fn of(x: &[i32]) -> Self {
        let sh = alignment(max_abs(x));
        Self::new(sum_squares(x, sh), sh)
    }

    /// From the sum of squares of the row aligned by `sh`.
    #[inline(always)]
    pub fn new(sum: u64, sh: u32) -> Self {
        // s <= 1 + 256 * 2^48 < 2^57; the one keeps the all-zero row at zero.
        let s = 1 + sum;
        let up = (62 - bit_length_64(s)) / 2;
        // 2^30 <= r < 2^31.
        let r = isqrt(s << (2 * up));
        Self {
            sh,
            up,
            rr: ((1u64 << 61) / u64::from(r)) as u32,
        }
    }

    /// One value with its gain. Every rounding is symmetric in the sign and is done on magnitudes, half up.
    #[inline(always)]
    pub fn normalize(self, x: i32, gain: i32) -> i32 {
        let half = (1u32 << self.sh) >> 1;
        // v << up <= r and r * rr <= 2^61, so t <= 2^30.
        let v = ((x.unsigned_abs() + half) >> self.sh) << self.up;
        let t = (u64::from(v) * u64::from(self.rr) + (1 << 30)) >> 31;
        let y = (u64::from(t as u32) * u64::from(gain.unsigned_abs()) + (1 << 44)) >> 45;
        let y = (y as i32).min(I16);
        if (x ^ gain) < 0 { -y } else { y }
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
