//! Weighted sums of values of several rows with `tdpbusd`, which adds products of an unsigned and a signed byte.
//!
//! A weight, 0 to 2^15, is 256 * high + low. The sums of both halves fit int32, and so does their combination for [`RUN`]
//! keys: 512 * 2^15 * 127 < 2^31. The first operand is the halves of the weights of 16 rows for a page of keys; the
//! second is 16 channels of the page as it lies in memory.

#![allow(unsafe_code)]
// As in `avx512`.
#![allow(clippy::incompatible_msrv)]
// Register-only intrinsics are safe inside a function with the feature.
#![allow(unused_unsafe)]

use super::super::avx512;
use super::super::avx512::sums::SPLIT;
use super::{clear, configured};
use crate::kernels::operands::{PAGE, Values};
use crate::tiles::{GROUP, LINE, TILE};
use core::arch::asm;
use core::arch::x86_64::*;
use core::mem::MaybeUninit;

/// Fewest rows for which the unit is used.
const FEWEST: usize = 5;
/// Rows of a tile of weights.
const ROWS: usize = 16;
/// A tile in memory.
#[repr(C, align(64))]
struct Tile<T, const N: usize>([T; N]);

/// Keys whose weighted sum is taken in int32: whole pages, and 512 * 2^15 * 127 < 2^31.
const RUN: usize = 512;
/// Pages of a run.
const PAGES: usize = RUN / PAGE;

/// The low and the high bytes of the weights of 16 rows for a page of keys.
type Halves = [Tile<u8, { ROWS * PAGE }>; 2];
/// Sums of 16 rows for 16 channels with the low and with the high bytes.
type Sums = [Tile<i32, { ROWS * TILE }>; 2];

pub(super) fn weighted_sum(w: &[u16], values: Values<'_>, n: &mut [i64]) {
    let rows = values.rows(w, n);
    let (keys, width) = (values.keys(), values.width());
    if rows < FEWEST || width % TILE != 0 || keys == 0 {
        return (avx512::KERNELS.weighted_sum)(w, values, n);
    }
    n.fill(0);
    // SAFETY: the table that holds this function is handed out only where the unit may be used.
    unsafe {
        configured(|| {
            for (w, n) in w
                .chunks(2 * ROWS * keys)
                .zip(n.chunks_mut(2 * ROWS * width))
            {
                let (w0, w1) = w.split_at(w.len().min(ROWS * keys));
                let (n0, n1) = n.split_at_mut(n.len().min(ROWS * width));
                block([w0, w1], values, [n0, n1]);
            }
        });
    }
}

/// The sums of at most 16 rows each, added to `n`; the second may be empty.
///
/// # Safety
/// The unit is configured; `w` `[rows][keys]`, `n` `[rows][width]`, whole tiles of channels.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn block(w: [&[u16]; 2], values: Values<'_>, n: [&mut [i64]; 2]) {
    let (keys, width) = (values.keys(), values.width());
    let [n0, n1] = n;
    let two = !n1.is_empty();
    // Rows that there are not are never written; nor are their sums read.
    let mut halves = [const { [const { MaybeUninit::<Halves>::uninit() }; 2] }; PAGES];
    let mut sums = [const { [const { Tile([0; ROWS * TILE]) }; 2] }; 2];
    let mut whole = Tile([0; PAGE / GROUP * LINE]);
    for (run, pages) in values.pages().chunks(PAGES).enumerate() {
        let first = run * RUN;
        for (p, halves) in halves.iter_mut().enumerate().take(pages.len()) {
            let start = first + p * PAGE;
            for (w, halves) in w.iter().zip(halves) {
                for (r, w) in w.chunks_exact(keys).enumerate() {
                    // SAFETY: at most 16 rows.
                    unsafe { split(&w[start..keys.min(start + PAGE)], r, halves.as_mut_ptr()) };
                }
            }
        }
        for at in (0..width).step_by(TILE) {
            // SAFETY: the unit is configured; each page holds the channels, or is the last and is copied.
            unsafe {
                clear();
                for (page, halves) in pages.iter().zip(&halves) {
                    let (values, stride) = if page.len() >= PAGE * width {
                        (page[at * GROUP..].as_ptr(), width * GROUP)
                    } else {
                        let lines = page.chunks_exact(width * GROUP);
                        for (to, line) in whole.0.chunks_exact_mut(LINE).zip(lines) {
                            to.copy_from_slice(&line[at * GROUP..][..LINE]);
                        }
                        (whole.0.as_ptr(), LINE)
                    };
                    add(halves, two, values, stride);
                }
                store(&mut sums, two);
            }
            for (sums, n) in sums.iter().zip([&mut *n0, &mut *n1]) {
                combine(sums, n, width, at);
            }
        }
    }
}

/// Puts the bytes of a row's weights for a page into place, filled up with zeros.
///
/// # Safety
/// `halves` is writable; `row` below 16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn split(w: &[u16], row: usize, halves: *mut Halves) {
    debug_assert!(w.len() <= PAGE && row < ROWS);
    // SAFETY: a page is twice what `split` takes; the row lies in both tiles.
    unsafe {
        let [low, high] = [0, 1].map(|half| {
            let tile: *mut u8 = halves.cast::<Tile<u8, { ROWS * PAGE }>>().add(half).cast();
            tile.add(row * PAGE)
        });
        let (first, second) = w.split_at(w.len().min(SPLIT));
        for (i, w) in [first, second].into_iter().enumerate() {
            let bytes = avx512::sums::split(w);
            _mm256_storeu_si256(low.add(i * SPLIT).cast(), bytes[0]);
            _mm256_storeu_si256(high.add(i * SPLIT).cast(), bytes[1]);
        }
    }
}

/// Adds the sums of a run to 16 channels from `at` of `n`, `[rows][width]`.
#[inline(always)]
fn combine([low, high]: &Sums, n: &mut [i64], width: usize, at: usize) {
    let sums = low.0.chunks_exact(TILE).zip(high.0.chunks_exact(TILE));
    for (n, (low, high)) in n.chunks_exact_mut(width).zip(sums) {
        for (n, (low, high)) in n[at..at + TILE].iter_mut().zip(low.iter().zip(high)) {
            *n += i64::from(low.wrapping_add(high << 8));
        }
    }
}

/// Adds the products of a page: sums in tmm0 to tmm3, `[2 tiles of rows][low, high]`.
///
/// # Safety
/// The unit is configured; 16 groups of 16 channels lie `stride` bytes apart at `values`.
unsafe fn add(halves: &[MaybeUninit<Halves>; 2], two: bool, values: *const i8, stride: usize) {
    let [[low, high], [second_low, second_high]] = halves.each_ref().map(|halves| {
        let first = halves.as_ptr().cast::<Tile<u8, { ROWS * PAGE }>>();
        [first, first.wrapping_add(1)]
    });
    macro_rules! products {
        ($low_sums:tt, $high_sums:tt, $low:expr, $high:expr) => {
            asm!(
                "tileloadd tmm4, [{low} + {line}*1]",
                concat!("tdpbusd ", $low_sums, ", tmm4, tmm7"),
                "tileloadd tmm5, [{high} + {line}*1]",
                concat!("tdpbusd ", $high_sums, ", tmm5, tmm7"),
                low = in(reg) $low,
                high = in(reg) $high,
                line = in(reg) PAGE,
                out($low_sums) _,
                out($high_sums) _,
                out("tmm4") _,
                out("tmm5") _,
                options(nostack, readonly, preserves_flags)
            )
        };
    }
    // SAFETY: the caller's; the halves are whole tiles.
    unsafe {
        asm!(
            "tileloadd tmm7, [{values} + {stride}*1]",
            values = in(reg) values,
            stride = in(reg) stride,
            out("tmm7") _,
            options(nostack, readonly, preserves_flags)
        );
        products!("tmm0", "tmm1", low, high);
        if two {
            products!("tmm2", "tmm3", second_low, second_high);
        }
    }
}

/// Stores the sums.
///
/// # Safety
/// The unit is configured.
unsafe fn store(sums: &mut [Sums; 2], two: bool) {
    let [[low, high], [second_low, second_high]] = sums;
    macro_rules! store {
        ($tile:literal, $to:expr) => {
            asm!(
                concat!("tilestored [{to} + {line}*1], ", $tile),
                to = in(reg) $to,
                line = in(reg) TILE * size_of::<i32>(),
                options(nostack, preserves_flags)
            )
        };
    }
    // SAFETY: the caller's; whole tiles.
    unsafe {
        store!("tmm0", low);
        store!("tmm1", high);
        if two {
            store!("tmm2", second_low);
            store!("tmm3", second_high);
        }
    }
}
