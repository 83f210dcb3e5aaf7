//! Matrix products of each backend on the weights of a Qwen3-0.6B, on one thread, beside what bounds them in the same run: a
//! plain read of the same memory for few tokens, the multiplier's peak for many.
//!
//! Every 1536 rows are timed by themselves, and their shortest time of all rounds counts, so that another process on the
//! machine does not show.
//!
//! `cargo run --release -p int-engine --example limits [rounds] [tokens,...] [backend,...]`
#![allow(unsafe_code, clippy::incompatible_msrv)]

use std::hint::black_box;
use std::time::Instant;

use int_engine::buffer::Buffer;
use int_engine::kernels::Kernels;
use int_engine::kernels::operands::{Inputs, Out};
use int_engine::tiles::View;

/// Rows and columns of a layer's matrices, those with one input together.
const LAYER: [(usize, usize); 4] = [(4096, 1024), (1024, 2048), (6144, 1024), (1024, 3072)];
const LAYERS: usize = 28;
const HEAD: (usize, usize) = (151_936, 1024);
/// Rows that are timed together.
const PART: usize = 1536;
/// Rows of a panel that several tokens share.
const PANEL: usize = 48;

/// The matrices one after another, the layers' and the head, in parts.
fn matrices<'a>(data: &'a [i8], sums: &'a [i32], head: bool) -> Vec<View<'a>> {
    let mut at = 0;
    let mut shapes: Vec<_> = (0..LAYERS).flat_map(|_| LAYER).collect();
    shapes.extend(head.then_some(HEAD));
    let next = |(rows, cols): (usize, usize)| {
        let view = View::new(rows, cols, &data[at..], sums);
        at += rows * cols;
        let part = move |first| view.part(first..rows.min(first + PART));
        (0..rows).step_by(PART).map(part)
    };
    shapes.into_iter().flat_map(next).collect()
}

fn product(kernels: &Kernels, view: View<'_>, tokens: usize, packed: &[i8], out: &mut [i32]) {
    let inputs = Inputs::packed(tokens, view.cols(), (kernels.form)(tokens), packed);
    let mut out = Out::new(&mut out[..tokens * view.rows()], view.rows());
    let panel = if tokens == 1 { view.rows() } else { PANEL };
    for first in (0..view.rows()).step_by(panel) {
        let range = first..view.rows().min(first + panel);
        (kernels.gemm)(view.part(range.clone()), inputs, out.part(range));
    }
}

#[cfg(target_arch = "x86_64")]
mod bound {
    use core::arch::x86_64::*;

    /// Reads every byte once; lines are requested 4 KB ahead.
    #[target_feature(enable = "avx512f")]
    pub(crate) fn read(data: &[i8]) -> i64 {
        let mut acc = [_mm512_setzero_si512(); 4];
        for lines in data.chunks_exact(256) {
            for (i, acc) in acc.iter_mut().enumerate() {
                // SAFETY: a line of the chunk; a request of any address is harmless.
                unsafe {
                    let line = lines.as_ptr().add(64 * i);
                    _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(4096));
                    *acc = _mm512_or_si512(*acc, _mm512_loadu_si512(line.cast()));
                }
            }
        }
        let [a, b, c, d] = acc;
        _mm512_reduce_or_epi64(_mm512_or_si512(
            _mm512_or_si512(a, b),
            _mm512_or_si512(c, d),
        ))
    }

    /// `steps` times 24 independent `vpdpbusd` of 64 products.
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(crate) fn peak(steps: usize) -> i32 {
        let x = _mm512_set1_epi32(std::hint::black_box(0x0102_0304));
        let mut acc = [_mm512_setzero_si512(); 24];
        for _ in 0..steps {
            for acc in &mut acc {
                *acc = _mm512_dpbusd_epi32(*acc, x, x);
            }
        }
        let sum = acc.into_iter().reduce(|a, b| _mm512_add_epi32(a, b));
        _mm512_reduce_add_epi32(sum.expect("24 of them"))
    }

    pub(crate) fn here() -> bool {
        is_x86_feature_detected!("avx512vnni")
    }
}

/// Seconds of `f` on all of the items: the sum of each one's shortest.
fn timed<T>(rounds: usize, items: &[T], mut f: impl FnMut(&T)) -> f64 {
    let mut best = vec![f64::INFINITY; items.len()];
    for _ in 0..rounds {
        for (item, best) in items.iter().zip(&mut best) {
            let start = Instant::now();
            f(item);
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    best.iter().sum()
}

/// GB/s of reading what the views hold, and GOP/s of the multiplier.
fn bounds(rounds: usize, views: &[View<'_>], bytes: f64) -> (f64, f64) {
    #[cfg(target_arch = "x86_64")]
    if bound::here() {
        let read = timed(rounds, views, |view| {
            // SAFETY: `here` has found the features.
            black_box(unsafe { bound::read(view.data()) });
        });
        let peak = timed(100, &[20_000], |&steps| {
            // SAFETY: as above.
            black_box(unsafe { bound::peak(steps) });
        });
        return (1e-9 * bytes / read, 2e-9 * 64.0 * 24.0 * 20_000.0 / peak);
    }
    let _ = (rounds, views, bytes);
    (f64::NAN, f64::NAN)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let list = |i: usize, default: &str| -> Vec<String> {
        let text = args.get(i).cloned().unwrap_or(default.into());
        text.split(',').map(str::to_owned).collect()
    };
    let number = |text: &String| -> usize { text.parse().expect("a number") };
    let rounds = number(&list(0, "7")[0]);
    let tokens: Vec<usize> = list(1, "1,2,4,8,16,32,128").iter().map(number).collect();
    let backends = list(2, Kernels::detect().name);

    let layers: usize = LAYERS * LAYER.iter().map(|(r, c)| r * c).sum::<usize>();
    let bytes = layers + HEAD.0 * HEAD.1;
    let mut memory = Buffer::default();
    memory.grow(bytes, "weights").expect("memory");
    let mut state = 1u32;
    for line in memory.bytes_mut().chunks_exact_mut(64) {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        for (b, shift) in line.iter_mut().zip((0..24).cycle()) {
            *b = ((state >> shift) as i8).max(-127);
        }
    }
    let data = &memory.bytes()[..bytes];
    let sums = vec![0; HEAD.0];
    let (read, peak) = bounds(rounds, &matrices(data, &sums, true), bytes as f64);
    println!("read {read:.2} GB/s, vpdpbusd in registers {peak:.1} GOP/s");

    for name in backends {
        let kernels = Kernels::by_name(&name).unwrap_or_else(|e| panic!("{e}"));
        for &tokens in &tokens {
            let few = tokens <= 8;
            let bytes = if few { bytes } else { layers } as f64;
            let packed = vec![-3; Inputs::room(tokens, 3072)];
            let mut out = vec![0; tokens * if few { HEAD.0 } else { 6144 }];
            let seconds = timed(rounds, &matrices(data, &sums, few), |&view| {
                product(kernels, view, tokens, &packed, &mut out);
            });
            let (gb, gop) = (1e-9 * bytes, 2e-9 * tokens as f64 * bytes);
            println!(
                "{name:8} {tokens:4} tokens {:8.2} GB/s, {:.3} of the read {:8.1} GOP/s, {:.3} of the peak",
                gb / seconds,
                gb / seconds / read,
                gop / seconds,
                gop / seconds / peak
            );
        }
    }
}
