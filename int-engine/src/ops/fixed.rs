//! Fixed-point primitives: saturation, bit lengths and the two gemmlowp roundings (spec 0.2, 0.3,
//! 1.2, 1.3).

/// The largest stored int32 magnitude, 2^31 - 1.
pub const I31: i32 = i32::MAX;
/// The largest stored int16 magnitude, 2^15 - 1.
pub const I16: i32 = i16::MAX as i32;

/// `sat(x, limit)` of spec 0.3: clamps to `[-limit, limit]`, `limit >= 0`.
#[inline(always)]
pub fn sat(x: i64, limit: i32) -> i32 {
    let limit = i64::from(limit);
    // In [-limit, limit], so the narrowing is exact.
    x.clamp(-limit, limit) as i32
}

/// The bit length of a 32-bit magnitude; 0 for 0 (spec 0.6).
#[inline(always)]
pub const fn bit_length(x: u32) -> u32 {
    u32::BITS - x.leading_zeros()
}

/// The bit length of a 64-bit magnitude; 0 for 0 (spec 0.6).
#[inline(always)]
pub const fn bit_length_64(x: u64) -> u32 {
    u64::BITS - x.leading_zeros()
}

/// floor(sqrt(n)) for n < 2^62 (spec 1.1). The result is below 2^31.
#[inline]
pub fn isqrt(n: u64) -> u32 {
    debug_assert!(n < 1 << 62, "isqrt domain: n < 2^62");
    n.isqrt() as u32
}

/// gemmlowp's RoundingDivideByPOT (spec 1.2): x / 2^e to nearest, ties away from zero.
///
/// Domain: |x| <= 2^62, any e; e > 62 gives 0.
///
/// Nearest with ties away from zero is symmetric in the sign, so the magnitude is rounded half up:
/// |x| + 2^(e-1) <= 2^62 + 2^61 < 2^63.
#[inline(always)]
pub fn rdbpot(x: i64, e: u32) -> i64 {
    if e > 62 {
        return 0;
    }
    let half = (1u64 << e) >> 1;
    let magnitude = ((x.unsigned_abs() + half) >> e) as i64;
    if x < 0 { -magnitude } else { magnitude }
}

/// gemmlowp's SaturatingRoundingDoublingHighMul (spec 1.3) for every pair of int32 values.
///
/// |a * b| + 2^30 <= 2^62 + 2^30 < 2^63. Only (-2^31, -2^31) leaves int32, and saturates.
#[inline(always)]
pub fn srdhm(a: i32, b: i32) -> i32 {
    if a == i32::MIN && b == i32::MIN {
        return i32::MAX;
    }
    ((i64::from(a) * i64::from(b) + (1 << 30)) >> 31) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::Rng;

    /// The published formulation, kept apart from the one in use.
    fn gemmlowp_rdbpot(x: i64, e: u32) -> i64 {
        let mask = (1i64 << e) - 1;
        let remainder = x & mask;
        let threshold = (mask >> 1) + i64::from(x < 0);
        (x >> e) + i64::from(remainder > threshold)
    }

    fn gemmlowp_srdhm(a: i32, b: i32) -> i32 {
        if a == i32::MIN && b == i32::MIN {
            return i32::MAX;
        }
        let product = i64::from(a) * i64::from(b);
        let nudge = if product >= 0 { 1 << 30 } else { 1 - (1 << 30) };
        ((product + nudge) / (1 << 31)) as i32
    }

    #[test]
    fn rdbpot_answers() {
        for (x, want) in [(-5, -3), (-3, -2), (-1, -1), (1, 1), (3, 2), (5, 3)] {
            assert_eq!(rdbpot(x, 1), want, "rdbpot({x}, 1)");
        }
        for (x, want) in [
            (-6, -2),
            (-5, -1),
            (-2, -1),
            (-1, 0),
            (1, 0),
            (2, 1),
            (6, 2),
        ] {
            assert_eq!(rdbpot(x, 2), want, "rdbpot({x}, 2)");
        }
        assert_eq!(rdbpot(-77, 0), -77);
        assert_eq!(rdbpot(1 << 62, 62), 1);
        assert_eq!(rdbpot(1 << 61, 62), 1);
        assert_eq!(rdbpot(-(1 << 61), 62), -1);
        assert_eq!(rdbpot((1 << 61) - 1, 62), 0);
        assert_eq!(rdbpot(1 << 62, 63), 0);
        assert_eq!(rdbpot(-(1 << 62), u32::MAX), 0);
    }

    #[test]
    fn srdhm_then_rdbpot_answers() {
        let double = |x: i32, m: i32, right: u32| rdbpot(i64::from(srdhm(x, m)), right);
        // A single rounding would give 11 for the first.
        assert_eq!(double(7984, 1583594044, 9), 12);
        assert_eq!(double(1, 1 << 30, 1), 1);
        assert_eq!(double(5, 1 << 30, 1), 2);
        assert_eq!(double(-1, 1 << 30, 0), 0);
        assert_eq!(double(-3, 1 << 30, 1), -1);
        assert_eq!(double(i32::MIN, i32::MIN, 0), 2147483647);
        assert_eq!(double(i32::MAX, i32::MAX, 0), 2147483646);
        assert_eq!(double(-966241705, 1373157221, 0), -617840222);
    }

    #[test]
    fn isqrt_is_the_floor() {
        for n in (0..2000).chain((0..62).flat_map(|k| [(1u64 << k) - 1, 1 << k])) {
            let r = u64::from(isqrt(n));
            assert!(r * r <= n && n < (r + 1) * (r + 1), "isqrt({n}) = {r}");
        }
        assert_eq!(isqrt((1 << 62) - 1), i32::MAX as u32);
    }

    #[test]
    fn rdbpot_equals_gemmlowp() {
        let mut rng = Rng(1);
        for round in 0..20_000 {
            let x = rng.between(-(1 << 62), 1 << 62) >> rng.between(0, 61);
            // Every shift in turn, with values of every magnitude, and the ties around each.
            let e = round % 63;
            let half = (1i64 << e) >> 1;
            let tie = (x >> e << e).clamp(-(1 << 61), 1 << 61) + half;
            for x in [x, tie, tie - 1, -tie, 1 - tie] {
                assert_eq!(rdbpot(x, e), gemmlowp_rdbpot(x, e), "{x} by {e}");
            }
        }
    }

    #[test]
    fn srdhm_equals_gemmlowp() {
        let mut rng = Rng(2);
        let ends = [i32::MIN, -I31, -1, 0, 1, 1 << 30, -(1 << 30), I31];
        for _ in 0..20_000 {
            let pair = [0; 2].map(|_| (rng.next() as i32) >> rng.between(0, 31));
            let end = ends[rng.next() as usize % ends.len()];
            for (a, b) in [(pair[0], pair[1]), (pair[0], end), (end, pair[1])] {
                assert_eq!(srdhm(a, b), gemmlowp_srdhm(a, b), "{a} and {b}");
            }
        }
        for (a, b) in ends.iter().flat_map(|a| ends.map(|b| (*a, b))) {
            assert_eq!(srdhm(a, b), gemmlowp_srdhm(a, b), "{a} and {b}");
        }
    }

    #[test]
    fn srdhm_ties() {
        // a * 2^k is a tie where it is an odd multiple of 2^30, of either sign: every int16 at every power.
        for a in i16::MIN..=i16::MAX {
            for k in 0..31 {
                let (a, b) = (i32::from(a), 1 << k);
                assert_eq!(srdhm(a, b), gemmlowp_srdhm(a, b), "{a} and {b}");
            }
        }
    }
}
