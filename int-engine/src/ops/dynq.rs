//! Quantisation of a row to int8 by its largest magnitude or by a constant (spec 1.5).

use super::fixed::bit_length;

/// The largest magnitude of a row of |u_i| <= 2^31 - 1; 0 for an empty row.
#[inline(always)]
pub fn max_abs(u: &[i32]) -> u32 {
    u.iter().fold(0, |m, v| m.max(v.unsigned_abs()))
}

/// The reciprocal and the alignment of a row whose largest magnitude is m (spec 1.5).
#[derive(Clone, Copy, Debug)]
pub struct Reciprocal {
    /// floor(127 * 2^(b+23) / m) <= 127 * 2^24 < 2^31, b the bit length of m.
    pub r: u32,
    /// Left shift that aligns magnitudes to 24 bits; zero if `right` is not.
    pub left: u32,
    /// Right shift that aligns magnitudes to 24 bits.
    pub right: u32,
}

impl Reciprocal {
    /// Domain: 1 <= m < 2^31. The numerator is at most 127 * 2^54 < 2^61.
    #[inline(always)]
    pub fn new(m: u32) -> Self {
        let b = bit_length(m);
        Self {
            r: ((127u64 << (b + 23)) / u64::from(m)) as u32,
            left: 24u32.saturating_sub(b),
            right: b.saturating_sub(24),
        }
    }

    /// One element, |u| <= m; the result is in [-127, 127].
    ///
    /// The aligned magnitude a is at most m * 2^(24-b) < 2^24, so a * r + 2^46 <= 127 * 2^47 + 2^46 < 2^54.
    #[inline(always)]
    pub fn quantize(self, u: i32) -> i8 {
        let a = u.unsigned_abs() << self.left >> self.right;
        let y = ((u64::from(a) * u64::from(self.r) + (1 << 46)) >> 47) as i32;
        (if u < 0 { -y } else { y }) as i8
    }
}

/// Quantises a row of magnitudes at most m (all zeros for m = 0); `q` has the row's length.
#[inline(always)]
pub fn quantize(u: &[i32], m: u32, q: &mut [i8]) {
    assert_eq!(u.len(), q.len(), "one code per value");
    if m == 0 {
        q.fill(0);
        return;
    }
    let reciprocal = Reciprocal::new(m);
    for (q, &u) in q.iter_mut().zip(u) {
        *q = reciprocal.quantize(u);
    }
}

/// Clamps a row to [-m, m], 0 <= m < 2^31: with [`quantize`] after it, `quantize` of spec 1.5 for every row.
#[inline(always)]
pub fn clamp(u: &mut [i32], m: u32) {
    let m = m as i32;
    for u in u {
        *u = (*u).clamp(-m, m);
    }
}

/// As [`clamp`], from one row to another of its length.
#[inline(always)]
pub fn clamp_from(u: &[i32], m: u32, out: &mut [i32]) {
    let m = m as i32;
    assert_eq!(u.len(), out.len(), "rows of one width");
    for (out, &u) in out.iter_mut().zip(u) {
        *out = u.clamp(-m, m);
    }
}

/// Clamps a row to [-m, m], m < 2^63.
#[inline(always)]
pub fn clamp_wide(u: &mut [i64], m: u64) {
    let m = m as i64;
    for u in u {
        *u = (*u).clamp(-m, m);
    }
}

/// Quantises a row and returns its largest magnitude m; u_i is about q_i * m / 127.
pub fn dynq(u: &[i32], q: &mut [i8]) -> u32 {
    let m = max_abs(u);
    quantize(u, m, q);
    m
}

#[cfg(test)]
mod tests {
    use super::super::fixed::I31;
    use super::*;
    use crate::seeded::Rng;

    #[test]
    fn ends() {
        let mut q = [1i8; 3];
        assert_eq!(dynq(&[0, 0, 0], &mut q), 0);
        assert_eq!(q, [0, 0, 0]);
        for m in (0..31).flat_map(|k| [1i32 << k, ((1i64 << (k + 1)) - 1) as i32]) {
            assert_eq!(dynq(&[m, -m, 0], &mut q), m as u32);
            assert_eq!(q, [127, -127, 0], "m = {m}");
        }
        // 127 / 2 = 63.5: away from zero where the reciprocal is exact, below the half where its floor is not.
        let mut q = [0i8; 2];
        dynq(&[4, 2], &mut q);
        assert_eq!(q, [127, 64]);
        dynq(&[6, 3], &mut q);
        assert_eq!(q, [127, 63]);
    }

    #[test]
    fn clamped_rows() {
        let (mut q, mut out) = ([0i8; 5], [0; 5]);
        for m in [1u32, 2, 127, 1 << 24, I31 as u32] {
            let k = m as i32;
            let mut u = [I31, -I31, 0, k, 1 - k];
            clamp_from(&u, m, &mut out);
            clamp(&mut u, m);
            assert_eq!(u, out);
            quantize(&u, m, &mut q);
            assert_eq!(q[..4], [127, -127, 0, 127], "m = {m}");
            let mut wide = [1i64 << 52, -(1 << 52), 0, i64::from(m), -i64::from(m) - 1];
            clamp_wide(&mut wide, m.into());
            let m = i64::from(m);
            assert_eq!(wide, [m, -m, 0, m, -m]);
        }
    }

    #[test]
    fn within_one_of_exact_division() {
        let mut rng = Rng(4);
        for _ in 0..20_000 {
            let down = rng.between(0, 30);
            let len = rng.between(1, 19);
            let u: Vec<i32> = (0..len)
                .map(|_| (rng.within(i64::from(i32::MAX)) >> down) as i32)
                .collect();
            let mut q = vec![0i8; u.len()];
            let m = i64::from(dynq(&u, &mut q));
            for (&x, &q) in u.iter().zip(&q) {
                assert!(q != i8::MIN, "{u:?}");
                // |q * m - 127 u| <= m/2 plus the reciprocal's error, below m/2 again.
                let error = (i64::from(q) * m - 127 * i64::from(x)).abs();
                assert!(error <= m, "{x} of {u:?}");
            }
        }
    }
}
