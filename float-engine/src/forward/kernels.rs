//! The kernels of one instruction set as a value.

use super::gemm::{self, Gemm};
use super::lanes::{Lanes, Portable};
use super::rows;

/// Plain functions compiled for one instruction set; all sets give the same bits.
#[derive(Clone, Copy)]
pub struct Kernels {
    name: &'static str,
    /// Rows of a GEMM tile.
    pub(super) tile_rows: usize,
    pub(super) gemm: fn(&Gemm<'_>, &mut [f32]),
    pub(super) softmax_unscaled: fn(&mut [f32], usize, f32) -> f32,
    pub(super) silu_mul: fn(&mut [f32], &[f32]),
    pub(super) rms_norm: fn(&[f32], &[f32], f32, &mut [f32]),
    /// `e^x` of each value.
    #[cfg(test)]
    pub(super) exp: fn(&mut [f32; 16]),
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Kernels").field(&self.name).finish()
    }
}

/// Instantiates every kernel for a vector type, under the target features that it needs.
macro_rules! kernels {
    ($module:ident, $lanes:ty, $name:literal $(, $feature:literal)?) => {
        mod $module {
            use super::*;

            type L = $lanes;

            pub(super) const KERNELS: Kernels = Kernels {
                name: $name,
                tile_rows: <L as Lanes>::TILE_ROWS,
                // SAFETY: `KERNELS` is handed out only where the CPU has the feature.
                gemm: |g, out| unsafe { gemm(g, out) },
                // SAFETY: as above.
                softmax_unscaled: |row, valid, scale| unsafe { softmax_unscaled(row, valid, scale) },
                // SAFETY: as above.
                silu_mul: |gate, up| unsafe { silu_mul(gate, up) },
                // SAFETY: as above.
                rms_norm: |x, gain, eps, out| unsafe { rms_norm(x, gain, eps, out) },
                // SAFETY: as above; the array holds 16 values.
                #[cfg(test)]
                exp: |x| unsafe { exp(x) },
            };

            $(#[target_feature(enable = $feature)])?
            unsafe fn gemm(g: &Gemm<'_>, out: &mut [f32]) {
                // SAFETY: the feature is enabled here.
                unsafe { gemm::gemm::<L, { <L as Lanes>::TILE_ROWS }>(g, out) }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn softmax_unscaled(row: &mut [f32], valid: usize, scale: f32) -> f32 {
                // SAFETY: the feature is enabled here.
                unsafe { rows::softmax_unscaled::<L>(row, valid, scale) }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn silu_mul(gate: &mut [f32], up: &[f32]) {
                // SAFETY: the feature is enabled here.
                unsafe { rows::silu_mul::<L>(gate, up) }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn rms_norm(x: &[f32], gain: &[f32], eps: f32, out: &mut [f32]) {
                // SAFETY: the feature is enabled here.
                unsafe { rows::rms_norm::<L>(x, gain, eps, out) }
            }

            #[cfg(test)]
            $(#[target_feature(enable = $feature)])?
            unsafe fn exp(x: &mut [f32; 16]) {
                // SAFETY: the feature is enabled here, and the array holds 16 values.
                unsafe { rows::exp(L::load(x.as_ptr())).store(x.as_mut_ptr()) }
            }
        }
    };
}

kernels!(portable, Portable, "portable");
#[cfg(target_arch = "x86_64")]
kernels!(avx2, super::super::lanes::x86::Avx2, "avx2", "avx2");
#[cfg(target_arch = "x86_64")]
kernels!(
    avx512,
    super::super::lanes::x86::Avx512,
    "avx512f",
    "avx512f"
);

impl Kernels {
    /// Every instruction set known to this build, with `None` where the CPU lacks it.
    pub fn all() -> Vec<(&'static str, Option<Kernels>)> {
        let mut all = vec![("portable", Some(portable::KERNELS))];
        #[cfg(target_arch = "x86_64")]
        {
            all.push((
                "avx2",
                is_x86_feature_detected!("avx2").then_some(avx2::KERNELS),
            ));
            all.push((
                "avx512f",
                is_x86_feature_detected!("avx512f").then_some(avx512::KERNELS),
            ));
        }
        all
    }

    /// Kernels that run everywhere.
    pub fn portable() -> Kernels {
        portable::KERNELS
    }

    /// The fastest kernels that this CPU runs.
    pub fn detect() -> Kernels {
        Self::all()
            .into_iter()
            .rev()
            .find_map(|(_, k)| k)
            .unwrap_or(portable::KERNELS)
    }

    /// The instruction set's name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, n: usize) -> Vec<f32> {
        let mut s = seed;
        let mut next = || {
            s = s
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (s >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..n).map(|_| next()).collect()
    }

    fn others() -> impl Iterator<Item = (&'static str, Kernels)> {
        Kernels::all()
            .into_iter()
            .filter_map(|(n, k)| Some((n, k?)))
    }

    /// The documented summation order, written down plainly.
    fn gemm_reference(g: &Gemm<'_>) -> Vec<f32> {
        let mut out = vec![0.0; g.rows * g.cols];
        for r in 0..g.rows {
            for c in 0..g.cols {
                let weight = |k: usize| g.panels[(c / 16 * g.k + k) * 16 + c % 16];
                let mut blocks = (0..g.k).step_by(256).map(|k0| {
                    (k0..(k0 + 256).min(g.k))
                        .fold(0.0f32, |s, k| s + g.x[r * g.ldx + k] * weight(k))
                });
                let first = blocks.next().unwrap();
                out[r * g.cols + c] = blocks.fold(first, |s, b| s + b);
            }
        }
        out
    }

    #[test]
    fn gemm_has_the_documented_order_on_every_instruction_set() {
        // rows around the tiles of 1, 2, 4, 6 and 12; inputs around the block of 256; outputs around 16 and 64
        for rows in [1, 2, 5, 7, 13, 25] {
            for k in [1, 16, 255, 256, 257, 513] {
                for cols in [1usize, 15, 16, 17, 63, 64, 65, 80] {
                    let (ldx, ldo) = (k + 3, cols + 5);
                    let x = noise(1, rows * ldx);
                    let panels = noise(2, cols.div_ceil(16) * 16 * k);
                    let g = Gemm {
                        x: &x,
                        ldx,
                        rows,
                        k,
                        panels: &panels,
                        cols,
                        ldo,
                    };
                    let expected = gemm_reference(&g);
                    for (name, kernels) in others() {
                        let mut out = vec![7.0; rows * ldo];
                        (kernels.gemm)(&g, &mut out);
                        for (r, row) in out.chunks(ldo).enumerate() {
                            assert_eq!(
                                row[..cols],
                                expected[r * cols..][..cols],
                                "{name} {rows} {k} {cols}"
                            );
                            assert!(
                                row[cols..].iter().all(|&v| v == 7.0),
                                "{name} wrote past its columns"
                            );
                        }
                    }
                }
            }
        }
        // more rows than a row block
        let (rows, k, cols) = (390, 3, 17);
        let (x, panels) = (noise(3, rows * k), noise(4, 32 * k));
        let g = Gemm {
            x: &x,
            ldx: k,
            rows,
            k,
            panels: &panels,
            cols,
            ldo: cols,
        };
        for (name, kernels) in others() {
            let mut out = vec![0.0; rows * cols];
            (kernels.gemm)(&g, &mut out);
            assert_eq!(out, gemm_reference(&g), "{name}");
        }
    }

    #[test]
    fn exp_is_within_two_units_and_equal_everywhere() {
        let mut worst = 0.0f64;
        let mut inputs: Vec<f32> = (0..175 * 4096).map(|i| -87.0 + i as f32 / 4096.0).collect();
        inputs.extend([
            -87.0,
            88.0,
            0.0,
            -0.0,
            1e-40,
            -1e-40,
            f32::MIN_POSITIVE,
            1.0,
            -1.0,
            0.346_573_6,
            -0.346_573_6,
        ]);
        inputs.resize(inputs.len().next_multiple_of(16), 0.0);
        for chunk in inputs.as_chunks::<16>().0 {
            let mut expected = *chunk;
            (Kernels::portable().exp)(&mut expected);
            for (name, kernels) in others() {
                let mut y = *chunk;
                (kernels.exp)(&mut y);
                assert_eq!(y.map(f32::to_bits), expected.map(f32::to_bits), "{name}");
            }
            for (&x, &y) in chunk.iter().zip(&expected) {
                let truth = libm::exp(f64::from(x));
                let ulp = f64::from(f32::from_bits((truth as f32).to_bits() + 1))
                    - f64::from(truth as f32);
                worst = worst.max((f64::from(y) - truth).abs() / ulp);
            }
        }
        assert!(worst < 2.0, "{worst} units in the last place");
        let mut extremes = [
            f32::NEG_INFINITY,
            f32::INFINITY,
            -1e30,
            1e30,
            -87.5,
            89.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
        ];
        (Kernels::portable().exp)(&mut extremes);
        assert_eq!(extremes[0], extremes[4]);
        assert_eq!(extremes[1], extremes[5]);
        assert!(extremes[..6].iter().all(|x| x.is_finite() && *x > 0.0));
        assert_eq!(extremes[6], 1.0);
    }

    #[test]
    fn row_operations_are_equal_on_every_instruction_set_and_near_f64() {
        for n in [1, 2, 15, 16, 17, 31, 32, 33, 64, 100] {
            let x: Vec<f32> = noise(5, n).iter().map(|v| v * 20.0).collect();
            let gain = noise(6, n);
            let run = |k: &Kernels| {
                let mut norm = vec![0.0; n];
                (k.rms_norm)(&x, &gain, 1e-5, &mut norm);
                let mut silu = x.clone();
                (k.silu_mul)(&mut silu, &gain);
                let mut soft = x.clone();
                soft.extend([5.0; 3]);
                let sum = (k.softmax_unscaled)(&mut soft, n, 0.25);
                (norm, silu, soft, sum)
            };
            let p = run(&Kernels::portable());
            for (name, k) in others() {
                assert_eq!(run(&k), p, "{name} {n}");
            }
            let (norm, silu, soft, sum) = p;
            let ms = x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / n as f64
                + f64::from(1e-5f32);
            let top = x
                .iter()
                .map(|&v| f64::from(v) * 0.25)
                .fold(f64::MIN, f64::max);
            let exps: Vec<f64> = x
                .iter()
                .map(|&v| libm::exp(f64::from(v) * 0.25 - top))
                .collect();
            for i in 0..n {
                let (v, g) = (f64::from(x[i]), f64::from(gain[i]));
                let near = |a: f32, b: f64| (f64::from(a) - b).abs() <= 1e-6 * b.abs() + 1e-9;
                assert!(near(norm[i], v / ms.sqrt() * g));
                assert!(near(silu[i], v / (1.0 + libm::exp(-v)) * g));
                assert!(near(soft[i], exps[i]));
            }
            assert!((f64::from(sum) / exps.iter().sum::<f64>() - 1.0).abs() < 1e-6);
            assert_eq!(soft[n..], [0.0; 3]);
        }
    }
}
