//! Vectors of f64 whose lanes are independent outputs.

/// A vector; every operation rounds each lane as the scalar operation does.
pub(crate) trait Vector: Copy {
    /// Lanes.
    const WIDTH: usize;
    /// The same value in every lane.
    fn splat(v: f64) -> Self;
    /// The first values of a slice of at least `WIDTH`.
    fn load(v: &[f64]) -> Self;
    /// Writes the first values of a slice of at least `WIDTH`.
    fn store(self, out: &mut [f64]);
    /// Lane by lane.
    fn add(self, b: Self) -> Self;
    /// Lane by lane.
    fn mul(self, b: Self) -> Self;
}

/// Four lanes in plain Rust.
#[derive(Clone, Copy)]
pub(crate) struct Plain([f64; 4]);

impl Vector for Plain {
    const WIDTH: usize = 4;
    #[inline(always)]
    fn splat(v: f64) -> Self {
        Self([v; 4])
    }
    #[inline(always)]
    fn load(v: &[f64]) -> Self {
        Self([v[0], v[1], v[2], v[3]])
    }
    #[inline(always)]
    fn store(self, out: &mut [f64]) {
        out[..4].copy_from_slice(&self.0);
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + b.0[i]))
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] * b.0[i]))
    }
}

/// Defines a vector type over intrinsics that may only run where `dispatch` has detected the extension.
#[cfg(target_arch = "x86_64")]
macro_rules! x86_vector {
    ($(#[$doc:meta])* $name:ident, $raw:ident, $width:literal, $splat:ident, $load:ident, $store:ident, $add:ident, $mul:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name(std::arch::x86_64::$raw);

        impl Vector for $name {
            const WIDTH: usize = $width;
            #[inline(always)]
            fn splat(v: f64) -> Self {
                // SAFETY: only functions that run after detection of the extension are instantiated with this type.
                Self(unsafe { std::arch::x86_64::$splat(v) })
            }
            #[inline(always)]
            fn load(v: &[f64]) -> Self {
                let v = &v[..$width];
                // SAFETY: as for `splat`; the slice holds a whole vector, and the load needs no alignment.
                Self(unsafe { std::arch::x86_64::$load(v.as_ptr()) })
            }
            #[inline(always)]
            fn store(self, out: &mut [f64]) {
                let out = &mut out[..$width];
                // SAFETY: as for `splat`; the slice holds a whole vector, and the store needs no alignment.
                unsafe { std::arch::x86_64::$store(out.as_mut_ptr(), self.0) }
            }
            #[inline(always)]
            fn add(self, b: Self) -> Self {
                // SAFETY: as for `splat`.
                Self(unsafe { std::arch::x86_64::$add(self.0, b.0) })
            }
            #[inline(always)]
            fn mul(self, b: Self) -> Self {
                // SAFETY: as for `splat`.
                Self(unsafe { std::arch::x86_64::$mul(self.0, b.0) })
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
x86_vector!(
    /// Four lanes; needs avx2.
    Avx2, __m256d, 4, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_add_pd, _mm256_mul_pd
);
#[cfg(target_arch = "x86_64")]
x86_vector!(
    /// Eight lanes; needs avx512f.
    Avx512, __m512d, 8, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_add_pd, _mm512_mul_pd
);
