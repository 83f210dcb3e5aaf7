//! Vectors of f64 whose lanes are independent outputs.

/// A vector extension, as a value that exists only where the processor has it.
///
/// Every operation rounds each lane as the scalar operation does.
pub(crate) trait Simd: Copy {
    /// A vector of [`Simd::WIDTH`] lanes.
    type Vector: Copy;
    /// Lanes.
    const WIDTH: usize;
    /// The same value in every lane.
    fn splat(self, v: f64) -> Self::Vector;
    /// The first values of a slice; panics if it holds fewer than `WIDTH`.
    fn load(self, v: &[f64]) -> Self::Vector;
    /// Writes the first values of a slice; panics if it holds fewer than `WIDTH`.
    fn store(self, v: Self::Vector, out: &mut [f64]);
    /// Lane by lane.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Lane by lane.
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
}

/// Four lanes in plain Rust.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plain;

impl Simd for Plain {
    type Vector = [f64; 4];
    const WIDTH: usize = 4;
    #[inline(always)]
    fn splat(self, v: f64) -> [f64; 4] {
        [v; 4]
    }
    #[inline(always)]
    fn load(self, v: &[f64]) -> [f64; 4] {
        [v[0], v[1], v[2], v[3]]
    }
    #[inline(always)]
    fn store(self, v: [f64; 4], out: &mut [f64]) {
        out[..4].copy_from_slice(&v);
    }
    #[inline(always)]
    fn add(self, a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn mul(self, a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
        std::array::from_fn(|i| a[i] * b[i])
    }
}

/// Defines an extension whose only constructor detects it.
#[cfg(target_arch = "x86_64")]
macro_rules! x86_extension {
    ($(#[$doc:meta])* $name:ident, $feature:tt, $raw:ident, $width:literal, $splat:ident, $load:ident, $store:ident, $add:ident, $mul:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) struct $name(());

        impl $name {
            /// The extension, if this processor has it.
            pub(super) fn detect() -> Option<Self> {
                std::arch::is_x86_feature_detected!($feature).then_some(Self(()))
            }
        }

        impl Simd for $name {
            type Vector = std::arch::x86_64::$raw;
            const WIDTH: usize = $width;
            #[inline(always)]
            fn splat(self, v: f64) -> Self::Vector {
                // SAFETY: the processor has the extension: `self` comes from `detect`.
                unsafe { std::arch::x86_64::$splat(v) }
            }
            #[inline(always)]
            fn load(self, v: &[f64]) -> Self::Vector {
                let v = &v[..$width];
                // SAFETY: as for `splat`; the slice holds a whole vector, and the load needs no alignment.
                unsafe { std::arch::x86_64::$load(v.as_ptr()) }
            }
            #[inline(always)]
            fn store(self, v: Self::Vector, out: &mut [f64]) {
                let out = &mut out[..$width];
                // SAFETY: as for `splat`; the slice holds a whole vector, and the store needs no alignment.
                unsafe { std::arch::x86_64::$store(out.as_mut_ptr(), v) }
            }
            #[inline(always)]
            fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                // SAFETY: as for `splat`.
                unsafe { std::arch::x86_64::$add(a, b) }
            }
            #[inline(always)]
            fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                // SAFETY: as for `splat`.
                unsafe { std::arch::x86_64::$mul(a, b) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
x86_extension!(
    /// x86-64 with avx2: four lanes.
    Avx2, "avx2", __m256d, 4, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_add_pd, _mm256_mul_pd
);
#[cfg(target_arch = "x86_64")]
x86_extension!(
    /// x86-64 with avx512f: eight lanes.
    Avx512, "avx512f", __m512d, 8, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_add_pd, _mm512_mul_pd
);
