//! Every kernel of every backend on one thread, operands in the caches: `cargo bench -p blue-bench`.
//!
//! Each result is compared with the portable backend's before it is timed. Operations that work in place copy their
//! input first, with every backend alike.

use std::fmt::Debug;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use int_engine::kernels::Kernels;
use int_engine::kernels::operands::{Inputs, Out, PAGE, Values};
use int_engine::ops::attention::{Normalizer, QueryScale};
use int_engine::ops::ratio::TokenScale;
use int_engine::ops::requantize::Channels;
use int_engine::tiles::{Tiles, group_values};

/// Rows and columns of the matrix, and the length of a row.
const ROWS: usize = 512;
const COLS: usize = 1024;
/// Width of a head, and keys that it attends to.
const HEAD: usize = 128;
const KEYS: usize = 512;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Values in `min ..= max`.
    fn values(&mut self, count: usize, min: i64, max: i64) -> Vec<i64> {
        let range = (max - min + 1) as u64;
        (0..count)
            .map(|_| min + (self.next() % range) as i64)
            .collect()
    }

    fn int8(&mut self, count: usize) -> Vec<i8> {
        self.values(count, -127, 127)
            .into_iter()
            .map(|v| v as i8)
            .collect()
    }

    fn int32(&mut self, count: usize, limit: i64) -> Vec<i32> {
        self.values(count, -limit, limit)
            .into_iter()
            .map(|v| v as i32)
            .collect()
    }
}

/// Times `run`, which writes all of its output, with every backend of this machine.
fn operation<T: Clone + PartialEq + Debug>(
    c: &mut Criterion,
    name: &str,
    throughput: Throughput,
    output: T,
    run: impl Fn(&Kernels, &mut T),
) {
    let mut expected = output.clone();
    run(Kernels::scalar(), &mut expected);
    let mut group = c.benchmark_group(name);
    group.throughput(throughput);
    for kernels in Kernels::all()
        .into_iter()
        .filter_map(|(_, kernels)| kernels)
    {
        let mut found = output.clone();
        run(kernels, &mut found);
        assert!(
            found == expected,
            "{name}, {}: another result than scalar's",
            kernels.name
        );
        group.bench_function(kernels.name, |b| {
            b.iter(|| run(kernels, black_box(&mut found)))
        });
    }
    group.finish();
}

fn products(c: &mut Criterion) {
    let mut random = Random(1);
    let tiles = Tiles::pack(&random.int8(ROWS * COLS), COLS);
    for tokens in [1, 8, 128] {
        let codes = random.int8(tokens * COLS);
        let mut memory = vec![0i8; Inputs::room(tokens, COLS)];
        let operations = Throughput::Elements((2 * tokens * ROWS * COLS) as u64);
        let name = format!("gemm {ROWS} x {COLS}, tokens {tokens}");
        // Packing is part of neither the product nor the comparison, but differs between backends.
        let mut group = c.benchmark_group(&name);
        group.throughput(operations);
        let mut expected = vec![0i32; tokens * ROWS];
        for kernels in Kernels::all()
            .into_iter()
            .filter_map(|(_, kernels)| kernels)
        {
            let inputs = Inputs::pack(&codes, COLS, (kernels.form)(tokens), &mut memory);
            let mut out = vec![0i32; tokens * ROWS];
            (kernels.gemm)(tiles.view(), inputs, Out::new(&mut out, ROWS));
            if kernels.name == "scalar" {
                expected.clone_from(&out);
            }
            assert!(
                out == expected,
                "{name}, {}: another result than scalar's",
                kernels.name
            );
            group.bench_function(kernels.name, |b| {
                b.iter(|| {
                    (kernels.gemm)(tiles.view(), inputs, Out::new(black_box(&mut out), ROWS))
                });
            });
        }
        group.finish();
    }
}

fn rows(c: &mut Criterion) {
    let mut random = Random(2);
    let elements = Throughput::Elements(COLS as u64);
    let x = random.int32(COLS, 1 << 24);
    let y = random.int32(COLS, 1 << 24);
    operation(c, "max_abs", elements.clone(), 0, |k, out| {
        *out = (k.max_abs)(&x)
    });
    operation(c, "largest", elements.clone(), 0, |k, out| {
        *out = (k.largest)(&x)
    });
    operation(c, "sum_squares", elements.clone(), 0, |k, out| {
        *out = (k.sum_squares)(&x, 1)
    });
    let m = (Kernels::scalar().max_abs)(&x);
    operation(
        c,
        "quantize",
        elements.clone(),
        vec![0i8; COLS],
        |k, out| (k.quantize)(&x, m, out),
    );
    let mult: Vec<i32> = random
        .values(COLS, 1 << 30, (1 << 31) - 1)
        .into_iter()
        .map(|v| v as i32)
        .collect();
    let shift: Vec<i8> = random
        .values(COLS, 9, 12)
        .into_iter()
        .map(|v| v as i8)
        .collect();
    let scale = TokenScale {
        mantissa: 0x5555_5555,
        exponent: -3,
    };
    let channels = Channels {
        mult: &mult,
        shift: &shift,
        left: 5,
        limit: i32::MAX,
    };
    operation(
        c,
        "requantize",
        elements.clone(),
        vec![0i32; COLS],
        |k, out| {
            out.copy_from_slice(&x);
            (k.requantize)(out, Some(scale), channels);
        },
    );
    operation(
        c,
        "add_residual",
        elements.clone(),
        vec![0i32; COLS],
        |k, out| {
            out.copy_from_slice(&x);
            (k.add_residual)(out, &y);
        },
    );
    let small = random.int32(COLS, 1 << 20);
    operation(
        c,
        "butterflies",
        elements.clone(),
        vec![0i32; COLS],
        |k, out| {
            out.copy_from_slice(&small);
            (k.butterflies)(out, COLS);
        },
    );
    let (gate, up) = (random.int32(COLS, 1 << 19), random.int32(COLS, 1 << 19));
    operation(
        c,
        "swiglu",
        elements.clone(),
        (vec![0i64; COLS], 0),
        |k, (out, most)| {
            *most = (k.swiglu)(&gate, &up, out);
        },
    );
    let wide = random.values(COLS, -(1 << 45), 1 << 45);
    operation(c, "narrow", elements.clone(), vec![0i32; COLS], |k, out| {
        (k.narrow)(&wide, 20, out)
    });
    let gain: Vec<i16> = random
        .values(COLS, -32767, 32767)
        .into_iter()
        .map(|v| v as i16)
        .collect();
    operation(
        c,
        "apply_gain",
        elements.clone(),
        (vec![0i64; COLS], 0),
        |k, (out, most)| {
            *most = (k.apply_gain)(&x, &gain, out);
        },
    );
    operation(c, "round_shift", elements, vec![0i32; COLS], |k, out| {
        out.copy_from_slice(&x);
        (k.round_shift)(out, 5, 1 << 18);
    });
}

fn heads(c: &mut Criterion) {
    let mut random = Random(3);
    let elements = Throughput::Elements(HEAD as u64);
    let head = random.int32(HEAD, 1 << 22);
    let gain = random.int32(HEAD, 32767 << 15);
    operation(
        c,
        "head_norm",
        elements.clone(),
        vec![0i32; HEAD],
        |k, out| {
            out.copy_from_slice(&head);
            (k.head_norm)(out, &gain);
        },
    );
    let angles: Vec<_> = (0..HEAD as u64 / 2)
        .map(|i| int_engine::ops::rope::rope_angle(0x0123_4567_89ab_cdef >> i.min(40), 77))
        .collect();
    operation(c, "rope", elements, vec![0i32; HEAD], |k, out| {
        out.copy_from_slice(&head);
        (k.rope)(out, &angles, 1 << 22);
    });
}

fn attention(c: &mut Criterion) {
    let mut random = Random(4);
    let keys = Throughput::Elements(KEYS as u64);
    let dots = random.int32(KEYS, 1 << 20);
    let scales = |random: &mut Random| -> Vec<u16> {
        random
            .values(KEYS, 0, 32767)
            .into_iter()
            .map(|v| v as u16)
            .collect()
    };
    let (mk, mv) = (scales(&mut random), scales(&mut random));
    let query = QueryScale::new(20_000, 0x5555_5555, 31);
    operation(
        c,
        "log_scores",
        keys.clone(),
        (vec![0i32; KEYS], 0),
        |k, (out, top)| {
            out.copy_from_slice(&dots);
            *top = (k.log_scores)(query, out, &mk);
        },
    );
    let mut z = dots;
    let top = (Kernels::scalar().log_scores)(query, &mut z, &mk);
    let none = Normalizer { den: 0, c: 0 };
    operation(
        c,
        "softmax_weights",
        keys,
        (vec![0i32; KEYS], vec![0u16; KEYS], none),
        |k, (copy, w, normalizer)| {
            copy.copy_from_slice(&z);
            *normalizer = (k.softmax_weights)(copy, top, &mv, w);
            // What is left of the scores is a backend's own affair.
            copy.fill(0);
        },
    );
    let values = group_values(&random.int8(KEYS * HEAD), HEAD);
    let pages: Vec<&[i8]> = values.chunks(PAGE * HEAD).collect();
    for rows in [2, 32] {
        let weights: Vec<u16> = random
            .values(rows * KEYS, 0, 1 << 15)
            .into_iter()
            .map(|v| v as u16)
            .collect();
        operation(
            c,
            &format!("weighted_sum, rows {rows}"),
            Throughput::Elements((rows * KEYS) as u64),
            vec![0i64; rows * HEAD],
            |k, n| (k.weighted_sum)(&weights, Values::new(KEYS, HEAD, &pages), n),
        );
    }
    let sums = random.values(HEAD, -(1 << 35), 1 << 35);
    let normalizer = Normalizer { den: 1 << 28, c: 3 };
    let elements = Throughput::Elements(HEAD as u64);
    operation(
        c,
        "attention_output",
        elements,
        vec![0i32; HEAD],
        |k, out| {
            (k.attention_output)(normalizer, &sums, out);
        },
    );
}

criterion_group! {
    name = kernels;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(600));
    targets = products, rows, heads, attention
}
criterion_main!(kernels);
