//! The frozen tables (spec 2): decoded at compile time from the only copy of their bytes.

/// Bytes of `exp2.bin`.
pub const EXP2_BYTES: &[u8; 512] = include_bytes!("../tables/exp2.bin");
/// Bytes of `sigmoid.bin`.
pub const SIGMOID_BYTES: &[u8; 4100] = include_bytes!("../tables/sigmoid.bin");
/// Bytes of `rope.bin`.
pub const ROPE_BYTES: &[u8; 10240] = include_bytes!("../tables/rope.bin");

/// Keccak-256 of `exp2.bin`, as a record names it.
pub const EXP2_DIGEST: [u8; 32] =
    digest(b"8da51de79047aacee79721349cb001def560f23a9aca96037d5ca2b8ba1c7b5f");
/// Keccak-256 of `sigmoid.bin`, as a record names it.
pub const SIGMOID_DIGEST: [u8; 32] =
    digest(b"6458519d667f356a6644e6a75c98069bc7457e55c76dafd1dfb748dbb281fcea");
/// Keccak-256 of `rope.bin`, as a record names it.
pub const ROPE_DIGEST: [u8; 32] =
    digest(b"1523853c1a6fd045f5e78c5e6e45f8522cd338a975a1376ab50f5977042e9d0e");

/// round(2^15 * 2^(-i/256)), Q15.
pub static EXP2: [u16; 256] = exp2();
/// round(2^24 / (1 + exp(-i/64))), Q24.
pub static SIGMOID: [u32; 1025] = sigmoid();
/// (cos, sin) of h / 2^8 turns, Q30.
pub static ROPE_COARSE: [(i32, i32); 256] = rope(0);
/// (cos, sin) of l / 2^18 turns, Q30.
pub static ROPE_FINE: [(i32, i32); 1024] = rope(256);

const fn word(b: &[u8], index: usize) -> u32 {
    let o = 4 * index;
    u32::from_le_bytes([b[o], b[o + 1], b[o + 2], b[o + 3]])
}

const fn exp2() -> [u16; 256] {
    let mut t = [0; 256];
    let mut i = 0;
    while i < t.len() {
        t[i] = u16::from_le_bytes([EXP2_BYTES[2 * i], EXP2_BYTES[2 * i + 1]]);
        i += 1;
    }
    t
}

const fn sigmoid() -> [u32; 1025] {
    let mut t = [0; 1025];
    let mut i = 0;
    while i < t.len() {
        t[i] = word(SIGMOID_BYTES, i);
        i += 1;
    }
    t
}

const fn rope<const N: usize>(first: usize) -> [(i32, i32); N] {
    let mut t = [(0, 0); N];
    let mut i = 0;
    while i < N {
        let at = 2 * (first + i);
        t[i] = (word(ROPE_BYTES, at) as i32, word(ROPE_BYTES, at + 1) as i32);
        i += 1;
    }
    t
}

const fn digest(hex: &[u8; 64]) -> [u8; 32] {
    const fn nibble(c: u8) -> u8 {
        match c {
            b'0'..=b'9' => c - b'0',
            b'a'..=b'f' => c - b'a' + 10,
            _ => panic!("a digest is lowercase hexadecimal"),
        }
    }
    let mut d = [0; 32];
    let mut i = 0;
    while i < 32 {
        d[i] = nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]);
        i += 1;
    }
    d
}

#[cfg(test)]
pub(crate) mod enclosure {
    //! Intervals of fixed-point numbers that contain a real number for certain. A rounded entry is proved when both
    //! ends round to it, which also proves that it is no tie.

    const FRACTION: u32 = 60;
    const ONE: i128 = 1 << FRACTION;

    /// A real number between `lo` and `hi` units of 2^-60.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Real {
        lo: i128,
        hi: i128,
    }

    impl Real {
        pub(crate) fn ratio(numerator: i128, denominator: i128) -> Self {
            let lo = (numerator * ONE).div_euclid(denominator);
            let exact = (numerator * ONE).rem_euclid(denominator) == 0;
            Self {
                lo,
                hi: lo + i128::from(!exact),
            }
        }

        pub(crate) fn int(n: i128) -> Self {
            Self::ratio(n, 1)
        }

        pub(crate) fn add(self, other: Self) -> Self {
            Self {
                lo: self.lo + other.lo,
                hi: self.hi + other.hi,
            }
        }

        pub(crate) fn neg(self) -> Self {
            Self {
                lo: -self.hi,
                hi: -self.lo,
            }
        }

        /// Magnitudes of both factors must be below 2^3, or the product of the magnitudes below 2^7.
        pub(crate) fn mul(self, other: Self) -> Self {
            let products = [
                self.lo * other.lo,
                self.lo * other.hi,
                self.hi * other.lo,
                self.hi * other.hi,
            ];
            let floor = products.iter().min().unwrap() >> FRACTION;
            let ceil = (products.iter().max().unwrap() >> FRACTION) + 1;
            Self {
                lo: floor,
                hi: ceil,
            }
        }

        /// Square root of a non-negative number below 2^7.
        pub(crate) fn sqrt(self) -> Self {
            Self {
                lo: (self.lo.max(0) << FRACTION).isqrt(),
                hi: (self.hi << FRACTION).isqrt() + 1,
            }
        }

        /// 1 / self for a number of at least 2^-6.
        pub(crate) fn recip(self) -> Self {
            assert!(self.lo > 0);
            let one = 1i128 << (2 * FRACTION);
            Self {
                lo: one / self.hi,
                hi: one / self.lo + 1,
            }
        }

        pub(crate) fn powers(self, count: usize) -> Vec<Self> {
            std::iter::successors(Some(Self::int(1)), |p| Some(p.mul(self)))
                .take(count)
                .collect()
        }

        /// exp(-1/n) for n >= 16: the partial sums of an alternating series of falling terms enclose it.
        pub(crate) fn exp_minus_reciprocal(n: i128) -> Self {
            let x = Self::ratio(1, n);
            let (mut sum, mut term, mut sums) = (Self::int(1), Self::int(1), Vec::new());
            for k in 1..=16 {
                term = term.mul(x).mul(Self::ratio(-1, k));
                sum = sum.add(term);
                sums.push(sum);
            }
            // The 15th and the 16th.
            Self {
                lo: sums[14].lo.min(sums[15].lo),
                hi: sums[14].hi.max(sums[15].hi),
            }
        }

        /// The nearest integer to self * 2^bits, halves away from zero; fails when the interval allows two.
        pub(crate) fn round(self, bits: u32) -> i64 {
            let nearest = |v: i128| {
                let half = 1i128 << (FRACTION - bits - 1);
                ((v.abs() + half) >> (FRACTION - bits)) as i64 * v.signum() as i64
            };
            assert_eq!(
                nearest(self.lo),
                nearest(self.hi),
                "the interval {self:?} is too wide"
            );
            nearest(self.lo)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::enclosure::Real;
    use super::*;
    use crate::commitment::keccak256;

    #[test]
    fn digests_are_those_of_the_files() {
        assert_eq!(keccak256(EXP2_BYTES), EXP2_DIGEST);
        assert_eq!(keccak256(SIGMOID_BYTES), SIGMOID_DIGEST);
        assert_eq!(keccak256(ROPE_BYTES), ROPE_DIGEST);
    }

    #[test]
    fn digests_are_those_of_the_specification() {
        let page = include_str!("../../spec/2-tables.md");
        for digest in [EXP2_DIGEST, SIGMOID_DIGEST, ROPE_DIGEST] {
            let hex = crate::commitment::Commitment(digest).to_string();
            assert!(page.contains(&format!("`{}`", &hex[2..])), "{hex}");
        }
    }

    #[test]
    fn landmarks() {
        assert_eq!((EXP2[0], EXP2[255]), (32768, 16428));
        assert_eq!((SIGMOID[0], SIGMOID[1024]), (1 << 23, 16_777_214));
        assert_eq!(
            (ROPE_COARSE[0], ROPE_COARSE[64]),
            ((1 << 30, 0), (0, 1 << 30))
        );
    }

    #[test]
    fn exp2_entry_by_entry() {
        // 2^(-1/256) is the eighth square root of 1/2.
        let step = (0..8).fold(Real::ratio(1, 2), |x, _| x.sqrt());
        for (i, power) in step.powers(256).into_iter().enumerate() {
            assert_eq!(i64::from(EXP2[i]), power.round(15), "{i}");
        }
    }

    #[test]
    fn sigmoid_entry_by_entry() {
        let step = Real::exp_minus_reciprocal(64);
        for (i, power) in step.powers(1025).into_iter().enumerate() {
            assert_eq!(
                i64::from(SIGMOID[i]),
                Real::int(1).add(power).recip().round(24),
                "{i}"
            );
        }
    }

    /// (cos, sin) of 2^-k turns for k >= 2, by halving a quarter turn.
    fn turn(k: u32) -> (Real, Real) {
        (2..k).fold((Real::int(0), Real::int(1)), |(c, s), _| {
            let half = Real::ratio(1, 2);
            let cos = Real::int(1).add(c).mul(half).sqrt();
            (cos, s.mul(half).mul(cos.recip()))
        })
    }

    fn check_angles(table: &[(i32, i32)], (c, s): (Real, Real)) {
        let (mut cos, mut sin) = (Real::int(1), Real::int(0));
        for (i, &(tc, ts)) in table.iter().enumerate() {
            assert_eq!(
                (i64::from(tc), i64::from(ts)),
                (cos.round(30), sin.round(30)),
                "{i}"
            );
            (cos, sin) = (cos.mul(c).add(sin.mul(s).neg()), sin.mul(c).add(cos.mul(s)));
        }
    }

    #[test]
    fn rope_entry_by_entry() {
        check_angles(&ROPE_COARSE, turn(8));
        check_angles(&ROPE_FINE, turn(18));
    }

    #[test]
    fn the_last_coarse_step_closes_the_circle() {
        let (cos, sin) = ROPE_COARSE[255];
        assert_eq!((cos, -sin), ROPE_COARSE[1]);
    }
}
