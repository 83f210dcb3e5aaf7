//! The one inner kernel, and its instantiation for the vector width of the machine.

use super::vector::Vector;

/// Width of a packed strip: columns of one strip are contiguous for each summation index.
pub(crate) const LANES: usize = 16;

/// `acc[i][j] += sum over t of a[t * ta + i] * b[t * tb + j]` for j below `NV * V::WIDTH`, t ascending.
///
/// `a` and `b` are cut into rows of `ta` and `tb` values; the shorter of the two, and `terms`, bound t. The last row may be
/// cut short after the values that are read.
#[inline(always)]
pub(crate) fn micro<V: Vector, const MR: usize, const NV: usize>(
    acc: &mut [[f64; LANES]; MR],
    (a, ta): (&[f64], usize),
    (b, tb): (&[f64], usize),
    terms: usize,
) {
    let mut sum = [[V::splat(0.0); NV]; MR];
    for (s, row) in sum.iter_mut().zip(acc.iter()) {
        for (v, s) in s.iter_mut().enumerate() {
            *s = V::load(&row[v * V::WIDTH..]);
        }
    }
    for (ar, br) in a.chunks(ta).zip(b.chunks(tb)).take(terms) {
        let (Some(ar), true) = (ar.first_chunk::<MR>(), br.len() >= NV * V::WIDTH) else {
            break;
        };
        let mut right = [V::splat(0.0); NV];
        for (v, r) in right.iter_mut().enumerate() {
            *r = V::load(&br[v * V::WIDTH..]);
        }
        for i in 0..MR {
            let left = V::splat(ar[i]);
            for v in 0..NV {
                sum[i][v] = sum[i][v].add(left.mul(right[v]));
            }
        }
    }
    for (s, row) in sum.iter().zip(acc) {
        for (v, s) in s.iter().enumerate() {
            s.store(&mut row[v * V::WIDTH..]);
        }
    }
}

/// Defines a function that runs `$body::<V, MR, NV>` with the register tile that suits the machine.
///
/// The body is `#[inline(always)]` and generic over the tile; each instantiation is compiled for its own vector
/// extension. Tile sizes decide only which outputs are held in registers together.
macro_rules! dispatch {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$doc])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                use crate::linalg::vector::{Avx2, Avx512};
                #[target_feature(enable = "avx512f")]
                fn avx512($($arg: $ty),*) $(-> $ret)? {
                    $body::<Avx512, 8, 2>($($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    $body::<Avx2, 4, 2>($($arg),*)
                }
                match crate::linalg::isa::choose() {
                    // SAFETY: `choose` names only what the processor has.
                    crate::linalg::isa::Isa::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    crate::linalg::isa::Isa::Avx2 => return unsafe { avx2($($arg),*) },
                    crate::linalg::isa::Isa::Plain => {}
                }
            }
            $body::<crate::linalg::vector::Plain, 4, 2>($($arg),*)
        }
    };
}
pub(crate) use dispatch;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::vector::Plain;

    fn value(seed: u64) -> f64 {
        let x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        (x >> 40) as f64 / 4096.0 - 2048.0
    }

    /// 16 x 16 outputs, 33 terms; every tile shape divides 16.
    #[inline(always)]
    fn all<V: Vector, const MR: usize, const NV: usize>(a: &[f64], b: &[f64]) -> Vec<u64> {
        let mut out = vec![0u64; 256];
        let nr = NV * V::WIDTH;
        for i in (0..16).step_by(MR) {
            for j in (0..16).step_by(nr) {
                let mut acc = [[0.5; LANES]; MR];
                micro::<V, MR, NV>(&mut acc, (&a[i..], 16), (&b[j..], 16), 33);
                for (r, acc) in acc.iter().enumerate() {
                    for c in 0..nr {
                        out[(i + r) * 16 + j + c] = acc[c].to_bits();
                    }
                }
            }
        }
        out
    }

    dispatch! {
        fn detected(a: &[f64], b: &[f64]) -> Vec<u64> = all
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
        assert_eq!(all::<Plain, 1, 1>(&a, &b), naive);
        assert_eq!(all::<Plain, 4, 2>(&a, &b), naive);
        assert_eq!(all::<Plain, 8, 4>(&a, &b), naive);
        crate::linalg::isa::test::with_each(|isa| assert_eq!(detected(&a, &b), naive, "{isa:?}"));
    }
}
