//! What one decoded token costs besides the matrix products, on one thread: each row operation of a layer of a Qwen3-0.6B at
//! a context of 256, for each backend. The shortest of many runs.
//!
//! `cargo run --release -p int-engine --example phases [backend,...]`

use std::hint::black_box;
use std::time::Instant;

use int_engine::kernels::Kernels;
use int_engine::kernels::operands::{Inputs, Out};
use int_engine::ops::attention::{Normalizer, QueryScale};
use int_engine::ops::ratio::TokenScale;
use int_engine::ops::requantize::Channels;
use int_engine::ops::rope::rope_angle;
use int_engine::tiles::{Tiles, group_values};

const HIDDEN: usize = 1024;
const HEADS: usize = 16;
const KV_HEADS: usize = 8;
const HEAD: usize = 128;
const FF: usize = 3072;
const KEYS: usize = 256;
const PAGE: usize = 64;
const VOCAB: usize = 151_936;
/// Outputs of a layer's products.
const OUTPUTS: usize = 4096 + HIDDEN + 2 * FF + HIDDEN;
const LAYERS: f64 = 28.0;

/// Nanoseconds of one run, the shortest of many.
fn best(mut f: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..3000 {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best * 1e9
}

fn values(n: usize, limit: i32) -> Vec<i32> {
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((state >> 33) as i64 % (2 * i64::from(limit) + 1) - i64::from(limit)) as i32
    };
    (0..n).map(|_| next()).collect()
}

fn bytes(n: usize) -> Vec<i8> {
    values(n, 127).into_iter().map(|v| v as i8).collect()
}

fn main() {
    let names = std::env::args().nth(1);
    let names: Vec<String> = match &names {
        Some(names) => names.split(',').map(str::to_owned).collect(),
        None => Kernels::all()
            .into_iter()
            .filter_map(|(name, here)| here.map(|_| name.to_owned()))
            .collect(),
    };
    for name in names {
        let k = Kernels::by_name(&name).unwrap_or_else(|e| panic!("{e}"));
        let mut sum = 0.0;
        // `times` uses of it a layer.
        let mut row = |what: &str, times: f64, ns: f64| {
            sum += times * ns;
            println!(
                "{name:8} {what:34} {ns:9.0} ns, {:8.0} ns a layer",
                times * ns
            );
        };
        let x = values(HIDDEN, 1 << 20);
        let mut codes = vec![0i8; FF];
        row(
            "max_abs 1024",
            2.0,
            best(|| {
                let _ = black_box((k.max_abs)(black_box(&x)));
            }),
        );
        row(
            "sum_squares 1024",
            2.0,
            best(|| {
                let _ = black_box((k.sum_squares)(black_box(&x), 0));
            }),
        );
        row(
            "quantize 1024",
            2.0,
            best(|| (k.quantize)(black_box(&x), 1 << 20, &mut codes[..HIDDEN])),
        );
        let mut y = x.clone();
        row(
            "add_residual 1024",
            2.0,
            best(|| (k.add_residual)(black_box(&mut y), &x)),
        );

        let (mult, shift) = (vec![1_500_000_000; VOCAB], vec![7i8; VOCAB]);
        let mut acc = values(VOCAB, 1 << 22);
        let source = acc.clone();
        let scale = Some(TokenScale {
            mantissa: 1_700_000_000,
            exponent: 3,
        });
        let channels = |n: usize| Channels {
            mult: &mult[..n],
            shift: &shift[..n],
            left: 2,
            limit: i32::MAX,
        };
        row(
            "requantize 1024",
            OUTPUTS as f64 / 1024.0,
            best(|| {
                acc[..1024].copy_from_slice(&source[..1024]);
                (k.requantize)(&mut acc[..1024], scale, channels(1024));
            }),
        );
        row(
            "requantize 48",
            0.0,
            best(|| {
                (k.requantize)(black_box(&mut acc[..48]), scale, channels(48));
            }),
        );

        let (gain, angles): (Vec<i32>, Vec<(i32, i32)>) = (
            values(HEAD, 32767 << 15),
            (0..HEAD as u64 / 2)
                .map(|i| rope_angle(i << 50, 100))
                .collect(),
        );
        let heads = (HEADS + KV_HEADS) as f64;
        let mut head = values(HEAD, 1 << 20);
        let source = head.clone();
        row(
            "head_norm 128",
            heads,
            best(|| {
                head.copy_from_slice(&source);
                (k.head_norm)(&mut head, &gain);
            }),
        );
        let mut head = values(HEAD, 32767);
        row(
            "rope 128",
            heads,
            best(|| (k.rope)(black_box(&mut head), &angles, 32767)),
        );
        row(
            "butterflies 128",
            heads,
            best(|| {
                head.copy_from_slice(&source);
                (k.butterflies)(black_box(&mut head), HEAD);
            }),
        );
        row(
            "round_shift 128",
            heads,
            best(|| (k.round_shift)(black_box(&mut head), 4, 32767)),
        );
        row(
            "max_abs and quantize 128",
            heads + KV_HEADS as f64,
            best(|| {
                let m = (k.max_abs)(black_box(&source));
                (k.quantize)(&source, m, &mut codes[..HEAD]);
            }),
        );

        let keys = Tiles::pack(&bytes(PAGE * HEAD), HEAD);
        let group = HEADS / KV_HEADS;
        let q = bytes(group * HEAD);
        let mut packed = vec![0; q.len()];
        let mut dots = vec![0; group * PAGE];
        row(
            "dots of 2 heads, 64 keys",
            (KV_HEADS * KEYS / PAGE) as f64,
            best(|| {
                let inputs = Inputs::pack(&q, HEAD, (k.form)(q.len() / HEAD), &mut packed);
                (k.gemm)(keys.view(), inputs, Out::new(&mut dots, PAGE));
            }),
        );
        let scales = vec![12345u16; KEYS];
        let mut z = values(KEYS, 1 << 20);
        let source = z.clone();
        let mut w = vec![0u16; KEYS];
        row(
            "log_scores 256",
            HEADS as f64,
            best(|| {
                z.copy_from_slice(&source);
                black_box((k.log_scores)(
                    QueryScale::new(20_000, 1 << 30, 22),
                    &mut z,
                    &scales,
                ));
            }),
        );
        let scores = values(KEYS, 2000);
        row(
            "softmax_weights 256",
            HEADS as f64,
            best(|| {
                z.copy_from_slice(&scores);
                black_box((k.softmax_weights)(&mut z, 2000, &scales, &mut w));
            }),
        );
        let v = group_values(&bytes(PAGE * HEAD), HEAD);
        let mut n = vec![0i64; HEAD];
        row(
            "weighted_sum 64 keys",
            (HEADS * KEYS / PAGE) as f64,
            best(|| {
                (k.weighted_sum)(black_box(&w[..PAGE]), &v, &mut n);
            }),
        );
        n.iter_mut().for_each(|n| *n %= 1 << 36);
        let mut out = vec![0; HEAD];
        let normalizer = Normalizer { den: 1 << 22, c: 7 };
        row(
            "attention_output 128",
            HEADS as f64,
            best(|| (k.attention_output)(normalizer, black_box(&n), &mut out)),
        );
        let o = values(2048, 1 << 24);
        row(
            "max_abs and quantize 2048",
            1.0,
            best(|| {
                let m = (k.max_abs)(black_box(&o));
                (k.quantize)(&o, m, &mut codes[..2048]);
            }),
        );

        let (g, u) = (values(FF, 30_000), values(FF, 1 << 20));
        let mut h = vec![0i64; FF];
        row(
            "swiglu 3072",
            1.0,
            best(|| {
                let _ = black_box((k.swiglu)(black_box(&g), &u, &mut h));
            }),
        );
        let mut x = vec![0; FF];
        row(
            "narrow 3072",
            1.0,
            best(|| (k.narrow)(black_box(&h), 20, &mut x)),
        );
        let source = values(FF, 1 << 20);
        row(
            "butterflies 3 x 1024",
            1.0,
            best(|| {
                x.copy_from_slice(&source);
                (k.butterflies)(black_box(&mut x), 1024);
            }),
        );
        row(
            "max_abs and quantize 3072",
            1.0,
            best(|| {
                let m = (k.max_abs)(black_box(&x));
                (k.quantize)(&x, m, &mut codes);
            }),
        );
        println!(
            "{name:8} all rows of a layer {:.1} us, of {LAYERS} layers {:.0} us",
            sum * 1e-3,
            sum * 1e-3 * LAYERS
        );
        let logits = best(|| (k.requantize)(black_box(&mut acc), scale, channels(VOCAB)));
        let largest = best(|| {
            let _ = black_box((k.largest)(black_box(&acc)));
        });
        println!("{name:8} of the head: requantize {logits:.0} ns, largest {largest:.0} ns\n");
    }
}
