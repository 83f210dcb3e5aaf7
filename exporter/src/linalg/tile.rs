//! The one inner kernel.

use super::vector::Simd;

/// Width of a packed strip: columns of one strip are contiguous for each summation index.
pub(crate) const LANES: usize = 16;

/// `acc[i][j] += sum over t of a[t * ta + i] * b[t * tb + j]` for j below `NV * S::WIDTH`, t ascending.
///
/// `a` and `b` are cut into rows of `ta` and `tb` values; the shorter of the two, and `terms`, bound t. The last row may be
/// cut short after the values that are read.
#[inline(always)]
pub(crate) fn micro<S: Simd, const MR: usize, const NV: usize>(
    simd: S,
    acc: &mut [[f64; LANES]; MR],
    (a, ta): (&[f64], usize),
    (b, tb): (&[f64], usize),
    terms: usize,
) {
    let mut sum = [[simd.splat(0.0); NV]; MR];
    for (s, row) in sum.iter_mut().zip(acc.iter()) {
        for (v, s) in s.iter_mut().enumerate() {
            *s = simd.load(&row[v * S::WIDTH..]);
        }
    }
    for (ar, br) in a.chunks(ta).zip(b.chunks(tb)).take(terms) {
        let (Some(ar), true) = (ar.first_chunk::<MR>(), br.len() >= NV * S::WIDTH) else {
            break;
        };
        let mut right = [simd.splat(0.0); NV];
        for (v, r) in right.iter_mut().enumerate() {
            *r = simd.load(&br[v * S::WIDTH..]);
        }
        for i in 0..MR {
            let left = simd.splat(ar[i]);
            for v in 0..NV {
                sum[i][v] = simd.add(sum[i][v], simd.mul(left, right[v]));
            }
        }
    }
    for (s, row) in sum.iter().zip(acc) {
        for (v, &s) in s.iter().enumerate() {
            simd.store(s, &mut row[v * S::WIDTH..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::{Isa, Kernel, Plain};

    fn value(seed: u64) -> f64 {
        let x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        (x >> 40) as f64 / 4096.0 - 2048.0
    }

    /// 16 x 16 outputs, 33 terms; every tile shape divides 16.
    struct All<'a>(&'a [f64], &'a [f64]);

    impl Kernel for All<'_> {
        type Output = Vec<u64>;
        #[inline(always)]
        fn run<S: Simd, const MR: usize, const NV: usize>(self, simd: S) -> Vec<u64> {
            let (a, b) = (self.0, self.1);
            let mut out = vec![0u64; 256];
            let nr = NV * S::WIDTH;
            for i in (0..16).step_by(MR) {
                for j in (0..16).step_by(nr) {
                    let mut acc = [[0.5; LANES]; MR];
                    micro::<S, MR, NV>(simd, &mut acc, (&a[i..], 16), (&b[j..], 16), 33);
                    for (r, acc) in acc.iter().enumerate() {
                        for c in 0..nr {
                            out[(i + r) * 16 + j + c] = acc[c].to_bits();
                        }
                    }
                }
            }
            out
        }
    }

    #[test]
    fn all_register_tiles_give_the_same_bits() {
        let a: Vec<f64> = (0..33 * 16).map(value).collect();
        let b: Vec<f64> = (0..33 * 16).map(|i| value(i + 7777)).collect();
        let mut naive = vec![0u64; 256];
        for i in 0..16 {
            for j in 0..16 {
                let s = (0..33).fold(0.5, |s, t| s + a[t * 16 + i] * b[t * 16 + j]);
                naive[i * 16 + j] = f64::to_bits(s);
            }
        }
        assert_eq!(All(&a, &b).run::<Plain, 1, 1>(Plain), naive);
        assert_eq!(All(&a, &b).run::<Plain, 4, 2>(Plain), naive);
        assert_eq!(All(&a, &b).run::<Plain, 8, 4>(Plain), naive);
        for isa in Isa::available() {
            assert_eq!(isa.run(All(&a, &b)), naive, "{isa:?}");
        }
    }
}
