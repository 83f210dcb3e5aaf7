//! Widening of 16-bit floats to `f32` by bit manipulation: the same bits on every machine.

/// Widens an IEEE 754 binary16 value given by its bits.
///
/// Exact for every finite value, subnormals included, and for ±0 and ±inf. A NaN keeps its sign and
/// all bits of its payload (the hardware conversions F16C and FCVT would set the quiet bit).
#[must_use]
#[inline]
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff) << 13;
    let exponent = bits & 0x7c00;
    let widened = if exponent == 0x7c00 {
        magnitude | 0x7f80_0000
    } else if exponent == 0 {
        // (1 + m/2^10)·2^-14 − 2^-14 = m·2^-24; both operands and the result are normal in f32.
        const TWO_POW_MINUS_14: u32 = 113 << 23;
        (f32::from_bits(magnitude + TWO_POW_MINUS_14) - f32::from_bits(TWO_POW_MINUS_14)).to_bits()
    } else {
        // The exponent's bias grows from 15 to 127.
        magnitude + (112 << 23)
    };
    f32::from_bits(sign | widened)
}

/// Widens a bfloat16 value given by its bits: the upper half of an `f32`, NaN bits included.
#[must_use]
#[inline]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every one of the 2^16 patterns against the definition, in f64 where each value is exact.
    #[test]
    fn f16_is_exact_for_every_pattern() {
        for bits in 0..=u16::MAX {
            let got = f16_to_f32(bits);
            let sign = if bits & 0x8000 == 0 { 1.0f64 } else { -1.0 };
            let exponent = i32::from(bits >> 10 & 31);
            let mantissa = f64::from(bits & 0x3ff);
            let want = match exponent {
                31 if mantissa == 0.0 => sign * f64::INFINITY,
                31 => {
                    assert!(got.is_nan());
                    let payload = u32::from(bits & 0x3ff) << 13;
                    assert_eq!(got.to_bits() & 0x007f_ffff, payload, "{bits:#06x}");
                    assert_eq!(got.to_bits() >> 31, u32::from(bits >> 15), "{bits:#06x}");
                    continue;
                }
                0 => sign * mantissa * 2f64.powi(-24),
                _ => sign * (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
            };
            assert_eq!(f64::from(got).to_bits(), want.to_bits(), "{bits:#06x}");
        }
    }

    #[test]
    fn f16_landmarks() {
        assert_eq!(f16_to_f32(0x0001), 2f32.powi(-24));
        assert_eq!(f16_to_f32(0x03ff), 1023.0 * 2f32.powi(-24));
        assert_eq!(f16_to_f32(0x0400), 2f32.powi(-14));
        assert_eq!(f16_to_f32(0x7bff), 65504.0);
        assert_eq!(f16_to_f32(0x8000).to_bits(), 0x8000_0000);
        assert_eq!(f16_to_f32(0xfc00), f32::NEG_INFINITY);
    }

    #[test]
    fn bf16_is_the_upper_half_of_f32() {
        for bits in 0..=u16::MAX {
            assert_eq!(bf16_to_f32(bits).to_bits(), u32::from(bits) << 16);
        }
    }
}
