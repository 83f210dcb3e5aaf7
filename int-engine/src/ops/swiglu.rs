//! The gated activation (spec 1.12).

use super::fixed::rdbpot;
use super::proven::SWIGLU;
use crate::tables;

/// silu(g) * u for Q12 inputs |g|, |u| <= 2^26; Q24 result, |result| <= 2^52.
#[inline(always)]
pub fn swiglu(g: i32, u: i32) -> i64 {
    let a = g.unsigned_abs();
    // (a + 32) >> 6 <= 1024 for a < 2^16; from there on the table's limit 2^24.
    let sigmoid = if a >= 1 << 16 {
        1 << 24
    } else {
        i64::from(tables::SIGMOID[((a + 32) >> 6) as usize])
    };
    let sigmoid = if g < 0 { (1 << 24) - sigmoid } else { sigmoid };
    // |g * sigmoid| <= 2^50, |rdbpot| <= 2^26.
    SWIGLU.within(rdbpot(i64::from(g) * sigmoid, 24) * i64::from(u))
}

/// A row of [`swiglu`]; returns its largest magnitude.
#[inline(always)]
pub fn swiglu_row(g: &[i32], u: &[i32], h: &mut [i64]) -> u64 {
    assert!(
        g.len() == u.len() && g.len() == h.len(),
        "rows of one width"
    );
    let mut m = 0;
    for ((h, &g), &u) in h.iter_mut().zip(g).zip(u) {
        *h = swiglu(g, u);
        m = m.max(h.unsigned_abs());
    }
    m
}

/// rdbpot(h_i, c) of a row, for c such that the results fit int32 (spec 3.3); |h_i| <= 2^52, c <= 62.
#[inline(always)]
pub fn narrow_row(h: &[i64], c: u32, out: &mut [i32]) {
    assert!(h.len() == out.len() && c <= 62, "rows of one width");
    for (out, &h) in out.iter_mut().zip(h) {
        *out = rdbpot(h, c) as i32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        assert_eq!(swiglu(0, 1 << 26), 0);
        // Far on the positive side silu is the identity, far on the negative side zero.
        assert_eq!(swiglu(1 << 26, 1 << 26), 1 << 52);
        assert_eq!(swiglu(1 << 26, -(1 << 26)), -(1 << 52));
        assert_eq!(swiglu(-(1 << 26), 1 << 26), 0);
        // The last entries of the table.
        assert_eq!(
            swiglu(65535, 1),
            rdbpot(65535 * i64::from(tables::SIGMOID[1024]), 24)
        );
        assert_eq!(
            swiglu(-65535, 1),
            rdbpot(-65535 * (16777216 - i64::from(tables::SIGMOID[1024])), 24)
        );
        assert_eq!(swiglu(65536, 1), 65536);
        // silu(1) = 0.731058.
        assert_eq!(swiglu(4096, 1), 2994);
    }

    #[test]
    fn rows() {
        let mut h = [0; 3];
        assert_eq!(
            swiglu_row(&[4096, -4096, 65536], &[1, 2, -3], &mut h),
            196608
        );
        assert_eq!(h, [2994, -2204, -196608]);
        let mut out = [0; 3];
        narrow_row(&h, 1, &mut out);
        assert_eq!(out, [1497, -1102, -98304]);
    }
}
