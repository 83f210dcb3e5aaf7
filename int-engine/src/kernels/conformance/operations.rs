//! The operations that every backend shares, against the formulas of the specification.

use super::{letter, same};
use crate::ops::attention::{Normalizer, QueryScale};
use crate::ops::dynq::dynq;
use crate::ops::head_norm::head_norm;
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

#[test]
fn attention_outputs() {
    let mut rng = Rng(8);
    for round in 0..20_000 {
        let den = ((1u64 << 15) << (rng.next() % 15)) + rng.next() % (1 << 15);
        let c = (rng.next() % 16) as u32;
        // What den and c allow: each value at most 127, each scale at most 32767.
        let limit = ((den * 127 * 32767) >> c).min((1 << 37) - 1) as i64;
        let n: Vec<i64> = (0..9)
            .map(|i| (rng.within(limit) >> (i % 5)) | 1)
            .map(|n| n.clamp(-limit, limit))
            .collect();
        let mut out = [0; 9];
        let den = den as u32;
        Normalizer { den, c }.output(&n, &mut out);
        let context = format!("round {round}: den {den}, c {c}");
        same(&out, &letter::attention_output(&n, den, c), &context);
    }
}

#[test]
fn head_norms() {
    const GAIN: i64 = 32767 << 15;
    let mut rng = Rng(9);
    for len in [2, 3, 16, 80, 128, 256] {
        for round in 0..500 {
            let limit = [1, 9, 1 << 12, 1 << 24, i64::from(i32::MAX)][round % 5];
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
                head_norm(&mut got, &gain);
                let context = format!("{len} values up to {limit}, round {round}");
                same(&got, &letter::head_norm(&x, &gain), &context);
            }
        }
    }
}
