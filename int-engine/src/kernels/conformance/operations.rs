//! The operations on heads, and what every backend shares, against the formulas of the specification.

use super::{Kernels, letter, same};
use crate::ops::attention::{Normalizer, QueryScale};
use crate::ops::dynq::dynq;
use crate::ops::fixed::{I16, I31};
use crate::ops::rope::rope_angle;
use crate::seeded::Rng;

#[test]
fn the_factor_of_a_query_rounds_half_up() {
    assert_eq!(QueryScale::new(1, (1 << 30) + (1 << 19), 0).rm, 1025);
    assert_eq!(QueryScale::new(1, (1 << 30) + (1 << 19) - 1, 0).rm, 1024);
}

#[test]
fn exact_halves_of_a_code_go_away_from_zero() {
    let mut q = [0i8; 3];
    for k in 1..31 {
        // The reciprocal of a power of two is exact: 127 / 2 = 63.5.
        let row = [1 << k, 1 << (k - 1), -(1 << (k - 1))];
        dynq(&row, &mut q);
        assert_eq!(q, [127, 64, -64], "2^{k}");
        same(&q, &letter::dynq(&row), "a power of two");
    }
}

pub(super) fn attention_output(k: &Kernels) {
    let mut rng = Rng(8);
    for round in 0..5000 {
        let den = ((1u64 << 15) << (rng.next() % 15)) + rng.next() % (1 << 15);
        let c = (rng.next() % 16) as u32;
        // What den and c allow: each value at most 127, each scale at most 32767.
        let limit = ((den * 127 * 32767) >> c).min((1 << 37) - 1) as i64;
        // Around one and two steps of each backend.
        let len = [1, 7, 8, 9, 15, 16, 17, 33, 128][round % 9];
        let n: Vec<i64> = (0..len)
            .map(|i| (rng.within(limit) >> (i % 5)) | 1)
            .map(|n| n.clamp(-limit, limit))
            .collect();
        let mut out = vec![0; len];
        let den = den as u32;
        (k.attention_output)(Normalizer { den, c }, &n, &mut out);
        let context = format!("{}: round {round}: den {den}, c {c}", k.name);
        same(&out, &letter::attention_output(&n, den, c), &context);
    }
}

pub(super) fn head_norm(k: &Kernels) {
    const GAIN: i64 = 32767 << 15;
    let mut rng = Rng(9);
    for len in [2, 3, 16, 80, 128, 256] {
        for round in 0..200 {
            let limit = [1, 9, 1 << 12, 1 << 24, i64::from(I31)][round % 5];
            let x: Vec<i32> = (0..len).map(|_| rng.wide(limit) as i32).collect();
            let random: Vec<i32> = (0..len).map(|_| rng.wide(GAIN) as i32).collect();
            // The smallest gain that reaches a half of the output: one unit less of t falls short of it.
            let units = letter::head_units(&x);
            let edge = units.iter().map(|t| {
                let t = t.abs().max(1);
                let halves = (t * i128::from(GAIN)) >> 45;
                let k = i128::from(rng.next() % (halves as u64 + 1));
                (((2 * k + 1) << 44) + t - 1) / t
            });
            let edge: Vec<i32> = edge.map(|g| g.min(GAIN.into()) as i32).collect();
            // And the largest that falls short of it by one unit of the gain.
            let short: Vec<i32> = edge.iter().map(|g| (g - 1).max(0)).collect();
            for gain in [random, edge, short] {
                let mut got = x.clone();
                (k.head_norm)(&mut got, &gain);
                let context = format!("{}: {len} values up to {limit}, round {round}", k.name);
                same(&got, &letter::head_norm(&x, &gain), &context);
            }
        }
    }
}

pub(super) fn rope(k: &Kernels) {
    let mut rng = Rng(10);
    // Pairs around one and two steps of each backend, and those of the longest head.
    for pairs in [1, 7, 8, 9, 15, 16, 17, 31, 33, 64, 128] {
        for round in 0..60 {
            let (bound, limit) = [(I16, I16), (1 << 22, I31), (1 << 22, I16), (1, I16)][round % 4];
            let x: Vec<i32> = (0..2 * pairs)
                .map(|_| rng.wide(bound.into()) as i32)
                .collect();
            let angles: Vec<(i32, i32)> = (0..pairs as u32)
                .map(|i| match round % 3 {
                    0 => [(1 << 14, 0), (0, -(1 << 14)), (11585, 11585)][i as usize % 3],
                    _ => rope_angle(rng.next(), i),
                })
                .collect();
            let mut got = x.clone();
            (k.rope)(&mut got, &angles, limit);
            let context = format!("{}: {pairs} pairs, round {round}", k.name);
            same(&got, &letter::rope(&x, &angles, limit), &context);
        }
    }
}

pub(super) fn head_rows(k: &Kernels) {
    let mut rng = Rng(11);
    for len in super::LENGTHS {
        for limit in [0, 1, 32767, 1 << 24, i64::from(I31)] {
            let context = format!("{}: {len} values up to {limit}", k.name);
            let x: Vec<i32> = (0..len).map(|_| rng.wide(limit) as i32).collect();
            for (r, limit) in [
                (0, I31),
                (1, I31),
                (4, I16),
                (5, I16),
                (11, I31),
                (31, I31),
                (2, 1),
            ] {
                let mut got = x.clone();
                (k.round_shift)(&mut got, r, limit);
                let want = x.iter().map(|&x| letter::round_shift(x, r, limit));
                let want: Vec<i128> = want.collect();
                same(&got, &want, &format!("{context}: round_shift by {r}"));
            }
            let gain: Vec<i16> = (0..len).map(|_| rng.wide(32767) as i16).collect();
            let mut got = vec![1; len];
            let m = (k.apply_gain)(&x, &gain, &mut got);
            let products = x.iter().zip(&gain);
            let want: Vec<i128> = products
                .map(|(&x, &g)| i128::from(x) * i128::from(g))
                .collect();
            same(&got, &want, &format!("{context}: apply_gain"));
            let largest = want.iter().map(|v| v.abs()).max();
            assert_eq!(Some(i128::from(m)), largest, "{context}: largest product");
            let largest = (k.largest)(&x);
            assert_eq!(Some(&largest), x.iter().max(), "{context}: largest");
        }
    }
    assert_eq!((k.largest)(&[]), i32::MIN);
    assert_eq!((k.largest)(&[i32::MIN, -7]), -7);
    assert_eq!((k.apply_gain)(&[], &[], &mut []), 0);
}
