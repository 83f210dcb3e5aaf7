//! Matrix products of each backend on the weights of a Qwen3-0.6B, beside what bounds them in the same run: a plain read of
//! the same memory for one token, the multiplier's peak for many.
//!
//! `cargo run --release -p int-engine --example limits [rounds] [threads] [tokens,...] [backend,...]`
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
/// Rows of a panel that several tokens share.
const PANEL: usize = 48;

/// The matrices one after another: the layers', and the head.
fn matrices<'a>(data: &'a [i8], sums: &'a [i32], head: bool) -> Vec<View<'a>> {
    let mut at = 0;
    let mut shapes: Vec<_> = (0..LAYERS).flat_map(|_| LAYER).collect();
    shapes.extend(head.then_some(HEAD));
    let next = |(rows, cols): (usize, usize)| {
        let view = View::new(rows, cols, &data[at..], sums);
        at += rows * cols;
        view
    };
    shapes.into_iter().map(next).collect()
}

/// A part of every matrix for one of `threads`, whole panels.
fn part<'a>(all: &[View<'a>], thread: usize, threads: usize) -> Vec<View<'a>> {
    let range = |rows: usize| {
        let len = rows.div_ceil(threads).next_multiple_of(PANEL);
        (thread * len).min(rows)..((thread + 1) * len).min(rows)
    };
    all.iter().map(|v| v.part(range(v.rows()))).collect()
}

fn product(kernels: &Kernels, views: &[View<'_>], tokens: usize, packed: &[i8], out: &mut [i32]) {
    for view in views {
        let inputs = Inputs::packed(tokens, view.cols(), packed);
        let mut out = Out::new(&mut out[..tokens * view.rows()], view.rows());
        let panel = if tokens == 1 { view.rows() } else { PANEL };
        for first in (0..view.rows()).step_by(panel) {
            let range = first..view.rows().min(first + panel);
            (kernels.gemm)(view.part(range.clone()), inputs, out.part(range));
        }
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

/// Seconds of `f` on each of `threads` threads at once.
fn timed(threads: usize, f: impl Fn(usize) + Sync) -> f64 {
    let barrier = std::sync::Barrier::new(threads);
    let run = |thread| {
        barrier.wait();
        let start = Instant::now();
        f(thread);
        start.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let run = &run;
        let all: Vec<_> = (0..threads).map(|t| scope.spawn(move || run(t))).collect();
        let times = all.into_iter().map(|t| t.join().expect("a thread"));
        times.fold(0.0, f64::max)
    })
}

fn best_and_middle(times: &mut [f64]) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() / 2])
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: usize| {
        args.get(i)
            .map_or(default, |a| a.parse().expect("a number"))
    };
    let (rounds, threads) = (number(0, 5), number(1, 1));
    let list = |i: usize, default: &str| -> Vec<String> {
        let text = args.get(i).cloned().unwrap_or(default.into());
        text.split(',').map(str::to_owned).collect()
    };
    let tokens: Vec<usize> = list(2, "1,2,4,8,128")
        .iter()
        .map(|t| t.parse().expect("a number of tokens"))
        .collect();
    let backends = list(3, "avx512");

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

    #[cfg(target_arch = "x86_64")]
    let (read, peak) = {
        let share = data.len() / threads;
        let mut times: [Vec<f64>; 2] = Default::default();
        for _ in 0..if bound::here() { rounds } else { 0 } {
            times[0].push(timed(threads, |t| {
                // SAFETY: `here` has found the features.
                black_box(unsafe { bound::read(&data[t * share..][..share]) });
            }));
            times[1].push(timed(threads, |_| {
                // SAFETY: as above.
                black_box(unsafe { bound::peak(2_000_000) });
            }));
        }
        if bound::here() {
            let [read, peak] = times.each_mut().map(|t| best_and_middle(t));
            let work = 2.0 * 64.0 * 24.0 * 2e6 * threads as f64;
            let [gb, gop] = [bytes as f64 * 1e-9, work * 1e-9];
            println!("{threads} thread(s)    best (middle of {rounds})");
            println!(
                "read                    {:8.2} ({:.2}) GB/s",
                gb / read.0,
                gb / read.1
            );
            println!(
                "vpdpbusd in registers   {:8.1} ({:.1}) GOP/s",
                gop / peak.0,
                gop / peak.1
            );
            (gb / read.0, gop / peak.0)
        } else {
            (f64::NAN, f64::NAN)
        }
    };
    #[cfg(not(target_arch = "x86_64"))]
    let (read, peak) = (f64::NAN, f64::NAN);

    for name in backends {
        let kernels = Kernels::by_name(&name).unwrap_or_else(|e| panic!("{e}"));
        for &tokens in &tokens {
            let few = tokens <= 8;
            let views = matrices(data, &sums, few);
            let packed = vec![-3; tokens * 3072];
            let mut outs = vec![vec![0; tokens * if few { HEAD.0 } else { 6144 }]; threads];
            let outs: Vec<_> = outs.iter_mut().map(std::sync::Mutex::new).collect();
            let mut times: Vec<f64> = (0..rounds)
                .map(|_| {
                    timed(threads, |t| {
                        let views = part(&views, t, threads);
                        let mut out = outs[t].lock().expect("no panic");
                        // As long inputs as a pass takes together.
                        let mut left = tokens;
                        while left > 0 {
                            let now = left.min(128);
                            product(kernels, &views, now, &packed, &mut out);
                            left -= now;
                        }
                    })
                })
                .collect();
            let (best, middle) = best_and_middle(&mut times);
            if few {
                let gb = bytes as f64 * 1e-9;
                println!(
                    "{name:8} {tokens:4} tokens    {:8.2} ({:.2}) GB/s, {:.3} of the read",
                    gb / best,
                    gb / middle,
                    gb / best / read
                );
            } else {
                let gop = 2e-9 * tokens as f64 * layers as f64;
                println!(
                    "{name:8} {tokens:4} tokens    {:8.1} ({:.1}) GOP/s, {:.3} of the peak",
                    gop / best,
                    gop / middle,
                    gop / best / peak
                );
            }
        }
    }
}
