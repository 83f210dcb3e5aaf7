//! Requantisation of an accumulator (spec 1.8).

use super::fixed::{I31, rdbpot, sat, srdhm};
use super::proven::SHIFTED;
use super::ratio::TokenScale;

/// One accumulator to its destination: the gemmlowp double rounding by mult / 2^31 * 2^-shift and,
/// if given, by the token scale, saturated to `[-limit, limit]`.
///
/// Domain: |acc| * 2^left < 2^31, left in 0..=5 (minus the matrix's psh), mult in [2^30, 2^31),
/// shift in [-64, 64].
#[inline(always)]
pub fn requantize(
    acc: i32,
    left: u32,
    scale: Option<TokenScale>,
    mult: i32,
    shift: i8,
    limit: i32,
) -> i32 {
    SHIFTED.within(i64::from(acc) << left);
    let mut a = acc << left;
    let mut e = i32::from(shift);
    if let Some(scale) = scale {
        a = srdhm(a, scale.mantissa);
        e += scale.exponent;
    }
    let a = i64::from(srdhm(a, mult));
    let a = if e >= 0 {
        rdbpot(a, e as u32)
    } else {
        // |a| < 2^31 shifted by at most 31 fits int64; beyond that every non-zero value saturates,
        // as it does at 31.
        i64::from(sat(a << (-e).min(31), I31))
    };
    sat(a, limit)
}

/// The constants that requantise a row of outputs (spec 1.8, 3.2).
#[derive(Clone, Copy, Debug)]
pub struct Channels<'a> {
    /// Per output, in [2^30, 2^31).
    pub mult: &'a [i32],
    /// Per output, in [-64, 64].
    pub shift: &'a [i8],
    /// Minus the matrix's psh, 0 to 5.
    pub left: u32,
    /// Where the destination saturates.
    pub limit: i32,
}

impl Channels<'_> {
    /// The constants of the outputs in `range`.
    pub fn part(self, range: std::ops::Range<usize>) -> Self {
        Self {
            mult: &self.mult[range.clone()],
            shift: &self.shift[range],
            ..self
        }
    }
}

/// Requantises a row of accumulators in place.
#[inline(always)]
pub fn requantize_row(row: &mut [i32], scale: Option<TokenScale>, channels: Channels<'_>) {
    let Channels {
        mult,
        shift,
        left,
        limit,
    } = channels;
    assert!(
        row.len() == mult.len() && row.len() == shift.len(),
        "one multiplier and shift per output"
    );
    for ((v, &mult), &shift) in row.iter_mut().zip(mult).zip(shift) {
        *v = requantize(*v, left, scale, mult, shift, limit);
    }
}

/// `add_residual` of spec 3.3: x_i = sat(x_i + y_i, 2^31 - 1). Inputs are at least -(2^31 - 1).
#[inline(always)]
pub fn add_residual(x: &mut [i32], y: &[i32]) {
    assert_eq!(x.len(), y.len(), "rows of one width");
    for (x, &y) in x.iter_mut().zip(y) {
        *x = x.saturating_add(y).max(-I31);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Option<TokenScale> = None;

    #[test]
    fn gemmlowp_answers() {
        assert_eq!(requantize(7984, 0, NONE, 1583594044, 9, I31), 12);
        assert_eq!(requantize(1, 0, NONE, 1 << 30, 1, I31), 1);
        assert_eq!(requantize(5, 0, NONE, 1 << 30, 1, I31), 2);
        assert_eq!(requantize(-1, 0, NONE, 1 << 30, 0, I31), 0);
        assert_eq!(requantize(-3, 0, NONE, 1 << 30, 1, I31), -1);
        assert_eq!(
            requantize(-966241705, 0, NONE, 1373157221, 0, I31),
            -617840222
        );
    }

    /// Spec 1.8 word for word, in integers that never overflow.
    fn by_the_letter(acc: i32, scale: Option<TokenScale>, mult: i32, shift: i8, limit: i32) -> i32 {
        let mut a = i128::from(acc);
        let mut e = i32::from(shift);
        if let Some(s) = scale {
            a = (a * i128::from(s.mantissa) + (1 << 30)) >> 31;
            e += s.exponent;
        }
        a = (a * i128::from(mult) + (1 << 30)) >> 31;
        a = match e {
            63.. => 0,
            0..=62 => {
                let mask = (1i128 << e) - 1;
                (a >> e) + i128::from(a & mask > (mask >> 1) + i128::from(a < 0))
            }
            -31..=-1 => (a << -e).clamp(-i128::from(I31), i128::from(I31)),
            _ => a.signum() * i128::from(I31),
        };
        a.clamp(-i128::from(limit), i128::from(limit)) as i32
    }

    #[test]
    fn every_exponent_is_defined() {
        for shift in [-64i8, -33, -32, -31, -30, -1, 0, 1, 30, 31, 32, 62, 63, 64] {
            for exponent in [-108, -31, 0, 37, 108] {
                for mantissa in [0, 1 << 30, I31] {
                    let scale = Some(TokenScale { mantissa, exponent });
                    for acc in [0, 1, -1, 12345, I31, -I31] {
                        for mult in [1 << 30, I31] {
                            let y = requantize(acc, 0, scale, mult, shift, I31);
                            assert_eq!(
                                y,
                                by_the_letter(acc, scale, mult, shift, I31),
                                "{acc} {scale:?} {mult} {shift}"
                            );
                            if acc == 0 || mantissa == 0 {
                                assert_eq!(y, 0);
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(requantize(2, 0, NONE, 1 << 30, -30, I31), 1 << 30);
        assert_eq!(requantize(2, 0, NONE, 1 << 30, -31, I31), I31);
        assert_eq!(requantize(-2, 0, NONE, 1 << 30, -64, I31), -I31);
        assert_eq!(requantize(-2, 0, NONE, 1 << 30, -64, 32767), -32767);
    }

    #[test]
    fn pre_shift_comes_first() {
        // 1 << 5 = 32, half of it 16.
        assert_eq!(requantize(1, 5, NONE, 1 << 30, 0, I31), 16);
    }

    #[test]
    fn residual_saturates_symmetrically() {
        let mut x = [I31, -I31, -I31, 5];
        add_residual(&mut x, &[1, -1, -I31, -7]);
        assert_eq!(x, [I31, -I31, -I31, -2]);
    }
}
