//! AVX-512 with VNNI.
#![allow(unsafe_code)]

mod dots;

use super::super::Kernels;
use super::avx2;

/// The table, if this CPU has every feature that its functions are compiled with. The functions of the table are
/// reachable through it alone.
pub(crate) fn kernels() -> Option<&'static Kernels> {
    (std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512dq")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512vnni"))
    .then_some(&KERNELS)
}

static KERNELS: Kernels = Kernels {
    name: "avx512",
    flip: 0x80,
    gemm: dots::gemm,
    weighted_sum: dots::weighted_sum,
    ..avx2::TABLE
};
