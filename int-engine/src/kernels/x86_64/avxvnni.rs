//! AVX2 with VNNI in its encoding for registers of 256 bits.
#![allow(unsafe_code)]
// Compilers before 1.89 do not build for x86-64 with these kernels: their intrinsics are younger than the crate's
// declared version, which the other targets keep.
#![allow(clippy::incompatible_msrv)]

mod dots;

use super::super::Kernels;
use super::super::operands::Form;
use super::avx2;

/// The table, if this CPU has the features. The functions of the table are reachable through it alone.
pub(crate) fn kernels() -> Option<&'static Kernels> {
    (std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("avxvnni"))
        .then_some(&KERNELS)
}

static KERNELS: Kernels = Kernels {
    name: "avxvnni",
    form: |_| Form::Blocks { flip: 0x80 },
    gemm: dots::gemm,
    weighted_sum: dots::weighted_sum,
    ..avx2::TABLE
};
