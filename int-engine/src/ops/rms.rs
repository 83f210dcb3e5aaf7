//! Root of a row's sum of squares (spec 1.6).

use super::fixed::{bit_length, bit_length_64, isqrt};
use super::proven::{self, RMS_SUM};

/// The right shift that brings a magnitude m to at most 24 bits, before rounding.
#[inline(always)]
pub fn alignment(m: u32) -> u32 {
    bit_length(m).saturating_sub(24)
}

/// The sum of rdbpot(x_i, sh)^2 for `sh = alignment(max |x_i|)`.
///
/// Each rounded magnitude is at most 2^24, so 8192 of them sum to at most 2^61.
#[inline(always)]
pub fn sum_squares(x: &[i32], sh: u32) -> u64 {
    let half = (1u32 << sh) >> 1;
    let squares = x.iter().map(|v| {
        // |v| + half < 2^31 + 2^6.
        let a = u64::from((v.unsigned_abs() + half) >> sh);
        a * a
    });
    proven::sum(&RMS_SUM, squares)
}

/// Finishes the root from the sum of squares: `(r, e)` with root r * 2^-e, 2^30 <= r < 2^31, -7 <= e <= 30.
///
/// Domain: sum <= 2^61, sh <= 7, eps < 2^53.
pub fn root(sum: u64, sh: u32, eps: u64) -> (u32, i32) {
    debug_assert!(eps < 1 << 53 && sum <= 1 << 61, "rms domain");
    let s = (sum + (eps >> (2 * sh))).max(1);
    // s < 2^62, so up >= 0, and s << 2up has 61 or 62 bits.
    let up = (62 - bit_length_64(s)) / 2;
    (isqrt(s << (2 * up)), up as i32 - sh as i32)
}

/// The root of `sum x_i^2 + eps` for at most 8192 values |x_i| <= m <= 2^31 - 1, m the largest magnitude.
pub fn rms(x: &[i32], m: u32, eps: u64) -> (u32, i32) {
    let sh = alignment(m);
    root(sum_squares(x, sh), sh, eps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        // All zero and eps = 0: s = 1, up = 30.
        assert_eq!(rms(&[0, 0], 0, 0), (1 << 30, 30));
        // 3^2 + 4^2 = 25 (5 bits): up = 28, root 5 * 2^28.
        assert_eq!(rms(&[3, -4], 4, 0), (5 << 28, 28));
        assert_eq!(rms(&[3], 3, 16), (5 << 28, 28));
        // The longest row of the largest values: |v| rounds to 2^24 at sh = 7, s = 2^61.
        let x = vec![-i32::MAX; 8192];
        assert_eq!(
            rms(&x, i32::MAX as u32, 0),
            (((1u64 << 61).isqrt()) as u32, -7)
        );
        let (r, e) = rms(&x, i32::MAX as u32, (1 << 53) - 1);
        assert!(r >= 1 << 30 && e == -7);
    }
}
