//! The matrix unit (AMX) for products of more than four tokens and weighted sums of as many rows; everything else as
//! `avx512`.
//!
//! `tdpbssd` adds to each int32 of a tile the sums of four products of signed bytes, and wraps: nothing saturates on the
//! way, so a sum is exact whenever its value fits int32, in any order: |sum| <= 65536 * 127^2 < 2^30. Its second operand
//! is 16 groups of four columns of 16 rows, which is a kilobyte of a matrix in tiles as it lies in memory; its first is
//! 16 tokens by 64 columns, a kilobyte of inputs in tiles ([`Form::Tiles`]).
//!
//! The unit's state belongs to a thread and is zero outside of a call of these kernels: each configures it and releases
//! it.
#![allow(unsafe_code)]
// As in `avx512`.
#![allow(clippy::incompatible_msrv)]

mod product;
mod sums;

use super::super::operands::{Form, INPUT_TILE, Inputs, Out};
use super::super::{Kernels, linear_by_panels, scalar};
use super::avx512;
use crate::ops::ratio::TokenScale;
use crate::ops::requantize::Channels;
use crate::tiles::{GROUP, LINE, TILE, View};
use core::arch::asm;
use product::{PLAIN, Product, SCALED, SUMS};

/// Tokens of a tile of inputs, and columns.
const TOKENS: usize = INPUT_TILE[0];
const COLS: usize = INPUT_TILE[1];
/// Groups of a step: a tile of weights in the unit.
const GROUPS: usize = COLS / GROUP;
/// Bytes of a tile.
const BYTES: usize = GROUPS * LINE;

/// The table, if this CPU has the unit and the system lets this process use it. The functions of the table are reachable
/// through it alone.
pub(crate) fn kernels() -> Option<&'static Kernels> {
    static KERNELS: std::sync::OnceLock<Option<Kernels>> = std::sync::OnceLock::new();
    let make = || {
        let base = avx512::kernels()?;
        (has_unit() && permitted()).then_some(Kernels {
            name: "amx",
            form: |tokens| match tokens {
                0..=4 => (avx512::KERNELS.form)(tokens),
                _ => Form::Tiles,
            },
            gemm,
            linear,
            weighted_sum: sums::weighted_sum,
            ..*base
        })
    };
    KERNELS.get_or_init(make).as_ref()
}

/// Whether the CPU has tiles and their products of int8.
fn has_unit() -> bool {
    // SAFETY: every x86-64 CPU has the instruction.
    #[allow(unused_unsafe)]
    let [most, features] = unsafe {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        [__cpuid(0).eax, __cpuid_count(7, 0).edx]
    };
    most >= 7 && features >> 24 & 3 == 3
}

/// Asks the system for the unit's state, which Linux gives to a process that asks for it.
fn permitted() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_ulong = 18;
        // SAFETY: the call takes two numbers and changes nothing but the permission.
        unsafe {
            libc::syscall(
                libc::SYS_arch_prctl,
                ARCH_REQ_XCOMP_PERM,
                XFEATURE_XTILEDATA,
            ) == 0
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

/// Eight tiles of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static CONFIG: Config = Config {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

fn gemm(weights: View<'_>, inputs: Inputs<'_>, out: Out<'_>) {
    if inputs.form() != Form::Tiles {
        return (avx512::KERNELS.gemm)(weights, inputs, out);
    }
    let channels = Channels {
        mult: &[],
        shift: &[],
        left: 0,
        limit: 0,
    };
    multiply::<SUMS>(weights, inputs, &[], channels, out);
}

fn linear(
    kernels: &Kernels,
    weights: View<'_>,
    inputs: Inputs<'_>,
    scales: Option<&[TokenScale]>,
    channels: Channels<'_>,
    out: Out<'_>,
) {
    if inputs.form() != Form::Tiles {
        return linear_by_panels(kernels, weights, inputs, scales, channels, out);
    }
    let rows = weights.rows();
    assert!(
        channels.mult.len() == rows && channels.shift.len() == rows,
        "one multiplier and shift per output"
    );
    match scales {
        Some(scales) => {
            assert_eq!(scales.len(), inputs.tokens(), "one scale per token");
            multiply::<SCALED>(weights, inputs, scales, channels, out);
        }
        None => multiply::<PLAIN>(weights, inputs, &[], channels, out),
    }
}

/// `END`: what becomes of the sums, for which `scales` and `channels` have what it takes.
fn multiply<const END: u8>(
    weights: View<'_>,
    inputs: Inputs<'_>,
    scales: &[TokenScale],
    channels: Channels<'_>,
    mut out: Out<'_>,
) {
    scalar::check(weights, inputs, &out, Form::Tiles);
    let tiles = weights.rows().div_ceil(TILE);
    let (groups, width) = (weights.groups(), weights.cols().next_multiple_of(COLS));
    assert!(
        weights.data().len() == tiles * groups * LINE
            && inputs.data().len() == inputs.tokens().next_multiple_of(TOKENS) * width,
        "whole tiles"
    );
    let product = Product {
        tiles: weights.data().as_ptr(),
        groups,
        rows: weights.rows(),
        inputs: inputs.data().as_ptr(),
        width,
        tokens: inputs.tokens(),
        scales,
        channels,
        out: out.as_mut_ptr(),
        stride: out.stride(),
    };
    // SAFETY: `kernels` hands out the table only where the unit and the features of `avx512` may be used; the pointers are
    // those of slices of whole tiles and of an exclusive output with one element per row and token.
    unsafe {
        configured(|| product.run::<END>());
    }
}

/// Clears tmm0 to tmm3.
///
/// # Safety
/// The unit is configured.
#[inline]
unsafe fn clear() {
    // SAFETY: the caller's.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            out("tmm0") _,
            out("tmm1") _,
            out("tmm2") _,
            out("tmm3") _,
            options(nostack, nomem, preserves_flags)
        );
    }
}

/// Calls `f` with the unit configured.
///
/// # Safety
/// The unit may be used.
unsafe fn configured(f: impl FnOnce()) {
    // SAFETY: the caller's.
    unsafe {
        asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack, readonly, preserves_flags));
    }
    f();
    // SAFETY: the caller's.
    unsafe {
        asm!("tilerelease", options(nostack, nomem, preserves_flags));
    }
}
