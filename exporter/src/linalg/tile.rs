//! The one inner kernel, and its instantiation for the vector width of the machine.

/// Width of a packed strip: columns of one strip are contiguous for each summation index.
pub(crate) const LANES: usize = 16;

/// `acc[i][j] += sum over t of a[t * ta + i] * b[t * tb + j]`, t ascending.
///
/// `a` and `b` are cut into rows of `ta` and `tb` values; the shorter of the two, and `terms`, bound t. The last row may be
/// cut short after its first MR (NR) values.
#[inline(always)]
pub(crate) fn micro<const MR: usize, const NR: usize>(
    acc: &mut [[f64; NR]; MR],
    (a, ta): (&[f64], usize),
    (b, tb): (&[f64], usize),
    terms: usize,
) {
    let mut sum = *acc;
    for (ar, br) in a.chunks(ta).zip(b.chunks(tb)).take(terms) {
        let (Some(ar), Some(br)) = (ar.first_chunk::<MR>(), br.first_chunk::<NR>()) else {
            break;
        };
        for i in 0..MR {
            for j in 0..NR {
                sum[i][j] += ar[i] * br[j];
            }
        }
    }
    *acc = sum;
}

/// Defines a function that runs `$body::<MR, NR>` with the register tile that suits the machine.
///
/// The body is `#[inline(always)]` and generic over the tile; each instantiation is compiled for its own vector
/// extension. Tile sizes decide only which outputs are held in registers together.
macro_rules! dispatch {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$doc])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f")]
                fn avx512($($arg: $ty),*) $(-> $ret)? {
                    $body::<8, 16>($($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    $body::<4, 8>($($arg),*)
                }
                if std::arch::is_x86_feature_detected!("avx512f") {
                    // SAFETY: the processor has avx512f, checked on the line above.
                    return unsafe { avx512($($arg),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has avx2, checked on the line above.
                    return unsafe { avx2($($arg),*) };
                }
            }
            $body::<4, 4>($($arg),*)
        }
    };
}
pub(crate) use dispatch;

#[cfg(test)]
mod tests {
    use super::*;

    fn value(seed: u64) -> f64 {
        let x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        (x >> 40) as f64 / 4096.0 - 2048.0
    }

    #[test]
    fn all_register_tiles_give_the_same_bits() {
        // 16 x 16 outputs, 33 terms: every tile shape divides 16.
        let a: Vec<f64> = (0..33 * 16).map(value).collect();
        let b: Vec<f64> = (0..33 * 16).map(|i| value(i + 7777)).collect();
        fn by<const MR: usize, const NR: usize>(a: &[f64], b: &[f64]) -> Vec<u64> {
            let mut out = vec![0u64; 256];
            for i in (0..16).step_by(MR) {
                for j in (0..16).step_by(NR) {
                    let mut acc = [[0.5; NR]; MR];
                    micro(&mut acc, (&a[i..], 16), (&b[j..], 16), 33);
                    for r in 0..MR {
                        for c in 0..NR {
                            out[(i + r) * 16 + j + c] = acc[r][c].to_bits();
                        }
                    }
                }
            }
            out
        }
        let mut naive = vec![0u64; 256];
        for i in 0..16 {
            for j in 0..16 {
                let s = (0..33).fold(0.5, |s, t| s + a[t * 16 + i] * b[t * 16 + j]);
                naive[i * 16 + j] = f64::to_bits(s);
            }
        }
        assert_eq!(by::<1, 1>(&a, &b), naive);
        assert_eq!(by::<4, 4>(&a, &b), naive);
        assert_eq!(by::<4, 8>(&a, &b), naive);
        assert_eq!(by::<8, 16>(&a, &b), naive);
    }
}
