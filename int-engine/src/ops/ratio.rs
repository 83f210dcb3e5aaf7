//! Token scales (spec 1.4, 1.7).

use super::fixed::{bit_length, bit_length_64};

/// The pair `(t, e)` for the real number t / 2^31 * 2^-e, 0 <= t < 2^31 (spec 1.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenScale {
    /// The mantissa t: zero, or in [2^30, 2^31).
    pub mantissa: i32,
    /// The exponent e; larger is smaller.
    pub exponent: i32,
}

/// The scale of the integer m < 2^31 (spec 1.4). The exponent is in [-31, 0].
pub fn norm_scale(m: u32) -> TokenScale {
    debug_assert!(m < 1 << 31, "norm_scale domain: m < 2^31");
    if m == 0 {
        return TokenScale::default();
    }
    let b = bit_length(m);
    TokenScale {
        mantissa: (m << (31 - b)) as i32,
        exponent: -(b as i32),
    }
}

/// The scale of m / (r * 2^-e), rounded down (spec 1.7): the token scale of a normalised row.
///
/// Domain: m < 2^31, 2^30 <= r < 2^31. With e of [`super::rms::rms`] the exponent is in [-31, 37].
pub fn ratio(m: u32, r: u32, e: i32) -> TokenScale {
    debug_assert!(
        m < 1 << 31 && (1 << 30..1 << 31).contains(&r),
        "ratio domain"
    );
    if m == 0 {
        return TokenScale::default();
    }
    let b = bit_length(m);
    // The numerator is in [2^61, 2^62), hence 2^30 <= d < 2^32.
    let d = (u64::from(m) << (62 - b)) / u64::from(r);
    let bd = bit_length_64(d);
    let t = if bd == 31 { d } else { d >> 1 };
    TokenScale {
        mantissa: t as i32,
        exponent: 62 - b as i32 - bd as i32 - e,
    }
}

/// The static scheme's largest magnitude of a row before a norm (spec 3.3): the fraction c / 2^16 of the row's root
/// r * 2^-e, rounded down, in 1 ..= 2^31 - 1.
///
/// Domain: c <= 2^16, r < 2^31, -7 <= e <= 30: r * c < 2^47 and the shift is in [9, 46].
#[inline]
pub fn root_fraction(c: u32, r: u32, e: i32) -> u32 {
    debug_assert!(
        c <= 1 << 16 && r < 1 << 31 && (-7..=30).contains(&e),
        "root_fraction domain"
    );
    let m = (u64::from(r) * u64::from(c)) >> (16 + e);
    m.clamp(1, (1 << 31) - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::fixed::I31;
    use crate::seeded::Rng;

    #[test]
    fn norm_scale_ends() {
        assert_eq!(
            norm_scale(0),
            TokenScale {
                mantissa: 0,
                exponent: 0
            }
        );
        assert_eq!(
            norm_scale(1),
            TokenScale {
                mantissa: 1 << 30,
                exponent: -1
            }
        );
        assert_eq!(
            norm_scale((1 << 31) - 1),
            TokenScale {
                mantissa: i32::MAX,
                exponent: -31
            }
        );
    }

    #[test]
    fn root_fraction_ends() {
        let (least, most) = (1u32 << 30, (1u32 << 31) - 1);
        // The root 2^30 * 2^-e itself, and its least fraction.
        for e in -7i32..=30 {
            let root = 1u64 << (30 - e);
            let want = |m: u64| m.clamp(1, most.into()) as u32;
            assert_eq!(root_fraction(1 << 16, least, e), want(root), "{e}");
            assert_eq!(root_fraction(1, least, e), want(root >> 16), "{e}");
        }
        assert_eq!(root_fraction(1 << 16, most, 0), most);
        assert_eq!(root_fraction(1 << 16, most, -1), most);
        assert_eq!(root_fraction((1 << 16) - 1, most, 0), most - (1 << 15));
    }

    #[test]
    fn ratio_is_the_floor() {
        let mut rng = Rng(3);
        for round in 0..50_000 {
            let m = match round % 8 {
                0 => I31 as u32,
                1 => 1 << rng.between(0, 30),
                _ => ((rng.between(1, (1 << 31) - 1) as u32) >> rng.between(0, 30)).max(1),
            };
            let r = match round % 5 {
                0 => 1 << 30,
                1 => I31 as u32,
                _ => rng.between(1 << 30, (1 << 31) - 1) as u32,
            };
            let e = rng.between(-7, 30) as i32;
            let got = ratio(m, r, e);
            assert!(got.mantissa >= 1 << 30, "{m} / {r}");
            // t = floor(2^31 * m * 2^(e + exponent) / r), the exponent chosen so that t has 31 bits.
            let k = 31 + e + got.exponent;
            assert!((0..=62).contains(&k), "{m} / {r}");
            let want = (u128::from(m) << k) / u128::from(r);
            assert_eq!(u128::from(got.mantissa as u32), want, "{m} / {r}");
            assert!((-31..=37).contains(&got.exponent), "{m} / {r}, {e}");
        }
    }
}
