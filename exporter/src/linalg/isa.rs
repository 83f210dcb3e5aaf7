//! Running an inner loop on a vector extension of this machine.

#[cfg(target_arch = "x86_64")]
use super::vector::{Avx2, Avx512};
use super::vector::{Plain, Simd};

/// An inner loop that is compiled once for each vector extension.
pub(crate) trait Kernel {
    /// What it computes.
    type Output;
    /// Runs with a register tile of `MR` rows and `NV` vectors; must be `#[inline(always)]`.
    ///
    /// Extension and tile decide only which outputs are held in registers together, never a bit of them.
    fn run<S: Simd, const MR: usize, const NV: usize>(self, s: S) -> Self::Output;
}

/// A vector extension that this machine has, or plain Rust.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Isa {
    /// Plain Rust.
    Plain,
    /// Four lanes.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// Eight lanes.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Isa {
    /// Every extension that this machine has, the widest first; plain Rust is the last.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let vectors = [
            Avx512::detect().map(Isa::Avx512),
            Avx2::detect().map(Isa::Avx2),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let vectors = [None];
        vectors.into_iter().flatten().chain([Isa::Plain])
    }

    /// The widest extension of this machine.
    pub(crate) fn detect() -> Self {
        Self::available().next().unwrap_or(Isa::Plain)
    }

    /// Runs a kernel with the register tile that suits the extension.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Isa::Plain => kernel.run::<Plain, 4, 2>(Plain),
            // SAFETY: an `Avx2` exists only where the processor has avx2.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(s) => unsafe { avx2(kernel, s) },
            // SAFETY: an `Avx512` exists only where the processor has avx512f.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(s) => unsafe { avx512(kernel, s) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<K: Kernel>(kernel: K, s: Avx2) -> K::Output {
    kernel.run::<Avx2, 4, 2>(s)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512<K: Kernel>(kernel: K, s: Avx512) -> K::Output {
    kernel.run::<Avx512, 8, 2>(s)
}
