//! Rotary frequencies as 64-bit fractions of a turn (spec 1.9), in double-double arithmetic.
//!
//! f64 alone carries 53 bits, and 2^64 times a sixth of a turn needs 62. A double-double holds a value as an unevaluated
//! sum of two f64, about 106 bits (Dekker 1971; Knuth, TAOCP 4.2.2); exp is a Taylor series after argument reduction, log one
//! Newton step from the f64 logarithm.

/// An unevaluated sum `hi + lo`, |lo| at most half a unit in the last place of hi.
#[derive(Debug, Clone, Copy)]
struct Dd {
    hi: f64,
    lo: f64,
}

const LN_2: Dd = Dd {
    hi: f64::from_bits(0x3fe6_2e42_fefa_39ef),
    lo: f64::from_bits(0x3c7a_bc9e_3b39_803f),
};
/// 1 / (2 pi).
const TURNS_PER_RADIAN: Dd = Dd {
    hi: f64::from_bits(0x3fc4_5f30_6dc9_c883),
    lo: f64::from_bits(0xbc66_b01e_c541_7056),
};

impl Dd {
    fn from(hi: f64) -> Self {
        Self { hi, lo: 0.0 }
    }

    /// Exact a + b, for any a and b.
    fn two_sum(a: f64, b: f64) -> Self {
        let hi = a + b;
        let t = hi - a;
        Self {
            hi,
            lo: (a - (hi - t)) + (b - t),
        }
    }

    /// Exact a * b; `libm::fma` rounds once on every machine.
    fn two_product(a: f64, b: f64) -> Self {
        let hi = a * b;
        Self {
            hi,
            lo: libm::fma(a, b, -hi),
        }
    }

    fn add(self, b: Self) -> Self {
        let s = Self::two_sum(self.hi, b.hi);
        let t = Self::two_sum(self.lo, b.lo);
        let u = Self::two_sum(s.hi, s.lo + t.hi);
        Self::two_sum(u.hi, u.lo + t.lo)
    }

    fn mul(self, b: Self) -> Self {
        let p = Self::two_product(self.hi, b.hi);
        Self::two_sum(p.hi, p.lo + (self.hi * b.lo + self.lo * b.hi))
    }

    fn div(self, b: Self) -> Self {
        let q = self.hi / b.hi;
        let r = self.add(b.mul(Self::from(-q)));
        let q2 = r.hi / b.hi;
        let r2 = r.add(b.mul(Self::from(-q2)));
        Self::two_sum(q, q2).add(Self::from(r2.hi / b.hi))
    }

    fn neg(self) -> Self {
        Self {
            hi: -self.hi,
            lo: -self.lo,
        }
    }

    /// Exact multiplication by 2^e.
    fn scale(self, e: i32) -> Self {
        Self {
            hi: libm::ldexp(self.hi, e),
            lo: libm::ldexp(self.lo, e),
        }
    }

    fn exp(self) -> Self {
        // x = k ln 2 + 2^6 r, |r| <= 0.0055: 2^-106 is reached after 14 terms.
        let k = libm::rint(self.hi / LN_2.hi);
        let r = self.add(LN_2.mul(Self::from(-k))).scale(-6);
        let mut sum = Self::from(1.0);
        for n in (1..=16).rev() {
            sum = Self::from(1.0).add(r.mul(sum).div(Self::from(f64::from(n))));
        }
        for _ in 0..6 {
            sum = sum.mul(sum);
        }
        sum.scale(k as i32)
    }

    fn ln(self) -> Self {
        // One Newton step doubles the 53 bits of the f64 logarithm.
        let y = Self::from(libm::log(self.hi));
        y.add(self.mul(y.neg().exp())).add(Self::from(-1.0))
    }
}

/// `phase[i] = round(2^64 * theta^(-2i / head_dim) / (2 pi))` for i below head_dim / 2.
///
/// `None` unless 1 <= theta <= 1e30.
pub(crate) fn rope_phases(theta: f64, head_dim: usize) -> Option<Vec<u64>> {
    if !(1.0..=1e30).contains(&theta) {
        return None;
    }
    let ln = Dd::from(theta).ln();
    Some(
        (0..head_dim / 2)
            .map(|i| {
                let exponent = ln
                    .mul(Dd::from(-2.0 * i as f64))
                    .div(Dd::from(head_dim as f64));
                let turns = exponent.exp().mul(TURNS_PER_RADIAN).scale(64);
                // Below 2^62: the integer part of hi is exact in i64, and the rest is small.
                let whole = libm::floor(turns.hi);
                let rest = libm::rint((turns.hi - whole) + turns.lo);
                (whole as i64 + rest as i64) as u64
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_values_of_sixty_digit_arithmetic() {
        // theta, head_dim, phases; made with Python's decimal at 60 digits.
        let cases: &[(f64, usize, &[u64])] = include!("../data/rope_phases.in");
        for (theta, head_dim, expected) in cases {
            assert_eq!(
                rope_phases(*theta, *head_dim).unwrap(),
                *expected,
                "{theta} {head_dim}"
            );
        }
    }

    #[test]
    fn a_base_below_one_is_refused() {
        for theta in [0.5, 0.0, -1.0, f64::NAN, f64::INFINITY, 1e31] {
            assert_eq!(rope_phases(theta, 64), None);
        }
        assert_eq!(rope_phases(1.0, 4).unwrap(), [2_935_890_503_282_001_226; 2]);
    }
}
