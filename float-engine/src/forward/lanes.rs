//! Sixteen f32 lanes, the width in which every kernel is written.
//!
//! A lane is an independent output, or an independent partial sum whose final reduction has a fixed order.
//! Each operation is one IEEE operation per lane and none is fused, so that all implementations give the same bits.

/// Lanes in a vector, and outputs in a weight panel.
pub(super) const LANES: usize = 16;

/// A vector of [`LANES`] values.
///
/// # Safety
/// Every function may be called only on a CPU that has the instructions of the implementing type.
pub(super) trait Lanes: Copy {
    /// Token rows of a GEMM tile that keep all accumulators in registers.
    const TILE_ROWS: usize;

    unsafe fn splat(x: f32) -> Self;
    /// `p` is readable for [`LANES`] values.
    unsafe fn load(p: *const f32) -> Self;
    /// `p` is writable for [`LANES`] values.
    unsafe fn store(self, p: *mut f32);
    unsafe fn add(self, o: Self) -> Self;
    unsafe fn sub(self, o: Self) -> Self;
    unsafe fn mul(self, o: Self) -> Self;
    unsafe fn div(self, o: Self) -> Self;
    /// `self < o ? self : o`
    unsafe fn min(self, o: Self) -> Self;
    /// `self > o ? self : o`
    unsafe fn max(self, o: Self) -> Self;
    /// `2^n` where the value is `1.5 * 2^23 + n` and `-126 <= n <= 127`.
    unsafe fn exp2_of_biased(self) -> Self;
}

/// Plain Rust; the compiler may use whatever vectors the target has.
#[derive(Clone, Copy)]
pub(super) struct Portable([f32; LANES]);

impl Portable {
    #[inline(always)]
    fn zip(self, o: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Portable(std::array::from_fn(|i| f(self.0[i], o.0[i])))
    }
}

impl Lanes for Portable {
    const TILE_ROWS: usize = 2;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Portable([x; LANES])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller's pointer is readable for 16 values; arrays of f32 need no more alignment.
        unsafe { Portable(*p.cast::<[f32; LANES]>()) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller's pointer is writable for 16 values.
        unsafe { *p.cast::<[f32; LANES]>() = self.0 }
    }
    #[inline(always)]
    unsafe fn add(self, o: Self) -> Self {
        self.zip(o, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(self, o: Self) -> Self {
        self.zip(o, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(self, o: Self) -> Self {
        self.zip(o, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(self, o: Self) -> Self {
        self.zip(o, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn min(self, o: Self) -> Self {
        self.zip(o, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    unsafe fn max(self, o: Self) -> Self {
        self.zip(o, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn exp2_of_biased(self) -> Self {
        Portable(
            self.0
                .map(|x| f32::from_bits((x.to_bits() << 23).wrapping_add(127 << 23))),
        )
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    //! AVX2 as two registers, AVX-512F as one.

    use super::Lanes;
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub(in crate::forward) struct Avx2(__m256, __m256);

    macro_rules! avx2_op {
        ($name:ident, $op:ident) => {
            #[inline(always)]
            unsafe fn $name(self, o: Self) -> Self {
                // SAFETY: the CPU has the instructions, by the trait's contract.
                unsafe { Avx2($op(self.0, o.0), $op(self.1, o.1)) }
            }
        };
    }

    impl Lanes for Avx2 {
        const TILE_ROWS: usize = 6;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: the CPU has the instructions, by the trait's contract.
            unsafe { Avx2(_mm256_set1_ps(x), _mm256_set1_ps(x)) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self {
            // SAFETY: the CPU has the instructions; the caller's pointer is readable for 16 values.
            unsafe { Avx2(_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))) }
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f32) {
            // SAFETY: the CPU has the instructions; the caller's pointer is writable for 16 values.
            unsafe {
                _mm256_storeu_ps(p, self.0);
                _mm256_storeu_ps(p.add(8), self.1);
            }
        }
        avx2_op!(add, _mm256_add_ps);
        avx2_op!(sub, _mm256_sub_ps);
        avx2_op!(mul, _mm256_mul_ps);
        avx2_op!(div, _mm256_div_ps);
        avx2_op!(min, _mm256_min_ps);
        avx2_op!(max, _mm256_max_ps);
        #[inline(always)]
        unsafe fn exp2_of_biased(self) -> Self {
            // SAFETY: the CPU has the instructions, by the trait's contract.
            unsafe {
                let one = _mm256_set1_epi32(127 << 23);
                let half = |v| {
                    let n = _mm256_slli_epi32::<23>(_mm256_castps_si256(v));
                    _mm256_castsi256_ps(_mm256_add_epi32(n, one))
                };
                Avx2(half(self.0), half(self.1))
            }
        }
    }

    #[derive(Clone, Copy)]
    pub(in crate::forward) struct Avx512(__m512);

    macro_rules! avx512_op {
        ($name:ident, $op:ident) => {
            #[inline(always)]
            unsafe fn $name(self, o: Self) -> Self {
                // SAFETY: the CPU has the instructions, by the trait's contract.
                unsafe { Avx512($op(self.0, o.0)) }
            }
        };
    }

    impl Lanes for Avx512 {
        const TILE_ROWS: usize = 12;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: the CPU has the instructions, by the trait's contract.
            unsafe { Avx512(_mm512_set1_ps(x)) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self {
            // SAFETY: the CPU has the instructions; the caller's pointer is readable for 16 values.
            unsafe { Avx512(_mm512_loadu_ps(p)) }
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f32) {
            // SAFETY: the CPU has the instructions; the caller's pointer is writable for 16 values.
            unsafe { _mm512_storeu_ps(p, self.0) }
        }
        avx512_op!(add, _mm512_add_ps);
        avx512_op!(sub, _mm512_sub_ps);
        avx512_op!(mul, _mm512_mul_ps);
        avx512_op!(div, _mm512_div_ps);
        avx512_op!(min, _mm512_min_ps);
        avx512_op!(max, _mm512_max_ps);
        #[inline(always)]
        unsafe fn exp2_of_biased(self) -> Self {
            // SAFETY: the CPU has the instructions, by the trait's contract.
            unsafe {
                let n = _mm512_slli_epi32::<23>(_mm512_castps_si512(self.0));
                Avx512(_mm512_castsi512_ps(_mm512_add_epi32(
                    n,
                    _mm512_set1_epi32(127 << 23),
                )))
            }
        }
    }
}
