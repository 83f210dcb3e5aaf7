//! One suite for every backend, the scalar one included: each kernel against the formulas of the specification, stated
//! a second time in wide integers.

mod heads;
mod letter;
mod linear;
mod operations;
mod softmax;
mod sums;

use super::Kernels;
use super::operands::{BLOCK, Form, Inputs, Out};
use crate::ops::fixed::I31;
use crate::ops::ratio::TokenScale;
use crate::ops::requantize::Channels;
use crate::seeded::Rng;
use crate::tiles::Tiles;
use heads::rotate_heads;
use linear::linear;
use operations::{attention_output, head_norm, head_rows, rope};
use softmax::softmax;
use sums::weighted_sum;

/// Equality of a kernel's row and the formula's.
fn same<T: Copy + Into<i128>>(got: &[T], want: &[i128], context: &str) {
    assert_eq!(got.len(), want.len(), "{context}");
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        assert_eq!(got.into(), want, "{context}, element {i}");
    }
}

/// Around one and two steps (16), one and two register loads of 32, a cache line (64), the softmax's int32
/// limit of keys (512), and the longest row of the target models (3072).
const LENGTHS: [usize; 21] = [
    1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 127, 128, 129, 576, 3072,
];

/// The fillings of an int8 operand.
fn patterns(n: usize, rng: &mut Rng) -> Vec<Vec<i8>> {
    vec![
        vec![127; n],
        vec![-127; n],
        (0..n)
            .map(|i| if i % 2 == 0 { 127 } else { -127 })
            .collect(),
        (0..n).map(|i| i8::from(i == n - 1)).collect(),
        rng.bytes(n),
    ]
}

/// Elements before and after an output: one more than a tile's rows.
const GUARD: usize = 17;
const UNTOUCHED: i32 = 0x5555_5555;

pub(super) fn gemm(k: &Kernels) {
    let mut rng = Rng(1);
    let check = |weights: &[i8], cols: usize, x: &[i8]| {
        let (rows, tokens) = (weights.len() / cols, x.len() / cols);
        if rows * tokens == 0 {
            return k.multiply(weights, cols, x, &mut []);
        }
        let tiles = Tiles::pack(weights, cols);
        let form = (k.form)(tokens);
        let mut packed = vec![0x33; form.len(tokens, cols)];
        let inputs = Inputs::pack(x, cols, form, &mut packed);
        // Elements around those of the product, which it must not touch.
        let stride = rows + 2 * GUARD;
        let mut memory = vec![UNTOUCHED; stride * tokens];
        let mut out = Out::new(&mut memory, stride);
        (k.gemm)(tiles.view(), inputs, out.part(GUARD..GUARD + rows));
        for (t, memory) in memory.chunks(stride).enumerate() {
            let context = format!("{}: {rows}x{cols}, {tokens} tokens", k.name);
            let (before, rest) = memory.split_at(GUARD);
            let (out, after) = rest.split_at(rows);
            assert!(
                before.iter().chain(after).all(|&v| v == UNTOUCHED),
                "{context}: writes beyond token {t}"
            );
            for (r, &out) in out.iter().enumerate() {
                let dot = letter::dot(&weights[r * cols..][..cols], &x[t * cols..][..cols]);
                assert_eq!(i128::from(out), dot, "{context}, ({t}, {r})");
            }
        }
    };
    for cols in LENGTHS {
        for x in patterns(cols, &mut rng) {
            for weights in patterns(cols, &mut rng) {
                check(&weights, cols, &x);
            }
        }
        // Rows around one to four tiles of 16, tokens around the block of 8 and twice it, and none.
        for rows in [0, 1, 15, 16, 17, 31, 33, 47, 48, 49, 64, 65] {
            for tokens in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17] {
                let (weights, x) = (rng.bytes(rows * cols), rng.bytes(tokens * cols));
                check(&weights, cols, &x);
            }
        }
    }
    // The longest row: 65536 * 127^2 < 2^30.
    check(&vec![127; 5 * 65536], 65536, &vec![127; 65536]);
    check(&vec![127; 65536], 65536, &vec![-127; 65536]);
    // Lengths below it that fill no register.
    for cols in [65535, 65519, 8191] {
        let (weights, x) = (rng.bytes(5 * cols), rng.bytes(4 * cols));
        check(&weights, cols, &x);
    }
}

/// A product with no tokens writes nothing, and inputs of another backend's form are refused.
pub(super) fn operands(k: &Kernels) {
    let tiles = Tiles::pack(&[1; 64], 4);
    let none = Inputs::pack(&[], 4, (k.form)(0), &mut []);
    (k.gemm)(tiles.view(), none, Out::new(&mut [], 16));
    let forms = [0, 0x80].map(|flip| Form::Blocks { flip });
    for form in forms.into_iter().chain([Form::Tiles]) {
        // The matrix unit takes a single token as the vector unit does.
        if [1, 2, BLOCK].iter().any(|&tokens| form == (k.form)(tokens)) {
            continue;
        }
        let refused = std::panic::catch_unwind(|| {
            let mut memory = vec![0; Inputs::room(2, 4)];
            let inputs = Inputs::pack(&[1; 8], 4, form, &mut memory);
            (k.gemm)(tiles.view(), inputs, Out::new(&mut [0; 32], 16));
        });
        assert!(refused.is_err(), "{}: {form:?}", k.name);
    }
}

pub(super) fn rows(k: &Kernels) {
    let mut rng = Rng(3);
    for len in LENGTHS {
        for limit in [
            0,
            1,
            127,
            32767,
            (1 << 24) - 1,
            1 << 24,
            1 << 26,
            i64::from(I31),
        ] {
            let context = format!("{}: {len} values up to {limit}", k.name);
            let u: Vec<i32> = (0..len).map(|_| rng.wide(limit) as i32).collect();
            let m = (k.max_abs)(&u);
            assert_eq!(i128::from(m), letter::max_abs(&u), "{context}: max_abs");
            let mut got = vec![1i8; len];
            (k.quantize)(&u, m, &mut got);
            same(&got, &letter::dynq(&u), &format!("{context}: quantize"));
            let (sh, sum) = letter::sum_squares(&u);
            let got = (k.sum_squares)(&u, sh as u32);
            assert_eq!(i128::from(got), sum, "{context}: sum_squares");
            let y: Vec<i32> = (0..len).map(|_| rng.wide(i64::from(I31)) as i32).collect();
            let mut got = u.clone();
            (k.add_residual)(&mut got, &y);
            let sums = u.iter().zip(&y).map(|(&x, &y)| letter::add_residual(x, y));
            let want: Vec<i128> = sums.collect();
            same(&got, &want, &format!("{context}: add_residual"));
        }
    }
    // Halves of a code: the reciprocal of a power of two is exact, 127 / 2 = 63.5.
    for len in LENGTHS {
        for b in 1..31 {
            let sign = |i: usize| if i % 3 == 0 { -1 } else { 1 };
            let mut u: Vec<i32> = (0..len).map(|i| sign(i) << (b - 1)).collect();
            u[len - 1] = 1 << b;
            let mut got = vec![1i8; len];
            (k.quantize)(&u, 1 << b, &mut got);
            let context = format!("{}: {len} halves of 2^{b}", k.name);
            same(&got, &letter::dynq(&u), &context);
        }
    }
    assert_eq!((k.max_abs)(&[]), 0);
    (k.quantize)(&[], 5, &mut []);
    // The longest row of the largest values: 8192 * 2^48.
    assert_eq!((k.sum_squares)(&vec![-I31; 8192], 7), 1 << 61);
}

pub(super) fn requantization(k: &Kernels) {
    let mut rng = Rng(4);
    let limits = [32767, 1 << 22, 1 << 26, I31];
    for len in [1, 7, 8, 9, 15, 16, 17, 576] {
        for round in 0..400 {
            let left = (rng.next() % 6) as u32;
            let bound = i64::from(I31) >> left;
            let scale = match rng.next() % 4 {
                0 => None,
                1 => Some(TokenScale {
                    mantissa: 0,
                    exponent: 0,
                }),
                // The forward pass gives exponents in [-73, 37] (spec 1.8).
                _ => Some(TokenScale {
                    mantissa: ((1 << 30) + rng.next() % (1 << 30)) as i32,
                    exponent: rng.within(108) as i32,
                }),
            };
            // Shifts near the steps of each case half of the time.
            let near = [-64, -32, -31, -30, -1, 0, 1, 30, 31, 32, 33, 62, 63, 64];
            let shift: Vec<i8> = (0..len)
                .map(|_| {
                    if rng.next() % 2 == 0 {
                        near[rng.next() as usize % near.len()]
                    } else {
                        rng.within(64) as i8
                    }
                })
                .collect();
            let mult: Vec<i32> = (0..len)
                .map(|_| match rng.next() % 4 {
                    0 => I31,
                    // A half for every odd accumulator.
                    1 => 1 << 30,
                    _ => ((1 << 30) + rng.next() % (1 << 30)) as i32,
                })
                .collect();
            let row: Vec<i32> = (0..len).map(|_| rng.wide(bound) as i32).collect();
            let limit = limits[rng.next() as usize % 4];
            let mut got = row.clone();
            let channels = Channels {
                mult: &mult,
                shift: &shift,
                left,
                limit,
            };
            (k.requantize)(&mut got, scale, channels);
            let pair = scale.map(|s| (s.mantissa, s.exponent));
            let values = row.iter().zip(&mult).zip(&shift);
            let want: Vec<i128> = values
                .map(|((&acc, &mult), &shift)| {
                    letter::requantize(acc, left, pair, mult, shift, limit)
                })
                .collect();
            let context = format!("{}: requantize {len}, round {round}", k.name);
            same(&got, &want, &context);
        }
    }
}

pub(super) fn mlp(k: &Kernels) {
    let mut rng = Rng(5);
    for len in LENGTHS {
        for limit in [0, 1 << 12, 1 << 16, (1 << 16) + 1, 1 << 26] {
            let [g, u] =
                [0, 1].map(|_| (0..len).map(|_| rng.wide(limit) as i32).collect::<Vec<_>>());
            let context = format!("{}: {len} values up to {limit}", k.name);
            let mut h = vec![1i64; len];
            let m = (k.swiglu)(&g, &u, &mut h);
            let gated = g.iter().zip(&u).map(|(&g, &u)| letter::swiglu(g, u));
            let want: Vec<i128> = gated.collect();
            same(&h, &want, &format!("{context}: swiglu"));
            let largest = want.iter().map(|v| v.abs()).max();
            assert_eq!(Some(i128::from(m)), largest, "{context}: largest of swiglu");
            // The headrooms of every power of two up to 2^16.
            for headroom in 14..=30 {
                let c = (64 - m.leading_zeros()).saturating_sub(headroom);
                let mut got = vec![1i32; len];
                (k.narrow)(&h, c, &mut got);
                let want: Vec<i128> = h.iter().map(|&v| letter::narrow(v, c)).collect();
                same(&got, &want, &format!("{context}: narrow by {c}"));
            }
        }
    }
}

pub(super) fn butterflies(k: &Kernels) {
    let mut rng = Rng(7);
    // Every block that a configuration can have: the largest `intermediate` is 2^16.
    for size in (0..=16).map(|b| 1usize << b) {
        for runs in [0, 1, 3] {
            let bound = i64::from(I31) / size as i64;
            for case in 0..3 {
                let x: Vec<i32> = (0..runs * size)
                    .map(|_| match case {
                        0 => bound as i32,
                        1 => -bound as i32,
                        _ => rng.wide(bound) as i32,
                    })
                    .collect();
                let mut got = x.clone();
                (k.butterflies)(&mut got, size);
                let want: Vec<i128> = x.chunks(size).flat_map(letter::hadamard).collect();
                same(&got, &want, &format!("{}: butterflies {size}", k.name));
            }
        }
    }
}

/// The suite for one backend; an absent one says so instead of passing silently.
macro_rules! conformance {
    ($($backend:ident),*) => {
        $(mod $backend {
            use super::super::Kernels;

            fn with(suite: fn(&Kernels)) {
                match Kernels::by_name(stringify!($backend)) {
                    Ok(kernels) => suite(kernels),
                    Err(reason) => println!("SKIP {}: {reason}", stringify!($backend)),
                }
            }

            conformance!(
                @tests gemm, operands, linear, weighted_sum, rows, requantization, mlp, butterflies, softmax, attention_output, head_norm,
                rope, head_rows, rotate_heads
            );
        })*

        #[test]
        fn every_backend_has_the_suite() {
            assert_eq!(Kernels::all().map(|(name, _)| name), [$(stringify!($backend)),*]);
        }
    };
    (@tests $($suite:ident),*) => {
        $(#[test]
        fn $suite() {
            with(super::$suite);
        })*
    };
}

conformance!(scalar, avx2, avxvnni, avx512, amx, neon);

/// The `neon` table of a CPU with the dot product instructions has another product without them.
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
#[test]
fn neon_without_dotprod() {
    match super::aarch64::neon::without_dotprod() {
        Some(kernels) => gemm(kernels),
        None => println!("SKIP neon: this machine lacks it"),
    }
}

#[test]
fn names() {
    use super::BackendError;
    for (name, kernels) in Kernels::all() {
        match kernels {
            Some(kernels) => assert_eq!(kernels.name, name),
            None => assert_eq!(
                Kernels::by_name(name).err(),
                Some(BackendError::Absent(name))
            ),
        }
    }
    assert_eq!(
        Kernels::by_name("sse").err(),
        Some(BackendError::Unknown("sse".into()))
    );
    assert!(std::ptr::eq(
        Kernels::by_name("scalar").unwrap(),
        Kernels::scalar()
    ));
}
