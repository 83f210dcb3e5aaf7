//! GPTQ against rounding to nearest, against the textbook update, and against itself.

use super::*;
use crate::linalg::{Isa, Plain};
use crate::test_support::uniform;
use std::num::NonZeroUsize;
use std::sync::LazyLock;

static ONE: LazyLock<Compute> = LazyLock::new(|| Compute::detect(NonZeroUsize::MIN));

/// Correlated inputs: neighbouring columns share most of their signal.
fn inputs(k: usize, rows: usize) -> Vec<f64> {
    let mut x = uniform(k as u64 * 31 + 1, rows * k);
    for row in x.chunks_mut(k) {
        for i in 1..k {
            row[i] = 0.9 * row[i - 1] + 0.3 * row[i] * (1.0 + (i % 7) as f64);
        }
    }
    x
}

fn gram(k: usize, x: &[f64]) -> Gram {
    let mut g = Gram::new(k);
    g.add_rows(x.len() / k, &ONE, |t, row| {
        row.copy_from_slice(&x[t * k..][..k])
    });
    g
}

fn output_error(q: &Quantized, w: &[f64], x: &[f64]) -> f64 {
    let k = q.cols;
    let mut total = 0.0;
    for xr in x.chunks(k) {
        for o in 0..q.rows {
            let e: f64 = (0..k)
                .map(|i| {
                    let code = f64::from(q.codes[o * k + i]);
                    xr[i] * (code * q.scales[o] - w[o * k + i])
                })
                .sum();
            total += e * e;
        }
    }
    total
}

#[test]
fn beats_rounding_to_nearest_under_the_hessian() {
    // Around the block (64), the strip (16), the register tile (4, 8) and the tile of rows (64).
    for (k, rows) in [
        (1, 1),
        (3, 17),
        (16, 15),
        (63, 64),
        (64, 65),
        (65, 3),
        (130, 70),
        (197, 16),
    ] {
        let (w, x) = (uniform(k as u64, rows * k), inputs(k, 3 * k));
        let f = Factor::new(&gram(k, &x), &ONE).unwrap();
        let fill = |o: usize, row: &mut [f64]| row.copy_from_slice(&w[o * k..][..k]);
        let nearest = quantize(rows, k, None, &ONE, fill);
        let gptq = quantize(rows, k, Some(&f), &ONE, fill);
        let (en, eg) = (output_error(&nearest, &w, &x), output_error(&gptq, &w, &x));
        assert!(eg <= en * 1.0001, "k {k}: {eg} against {en}");
        if k >= 63 {
            assert!(eg < 0.7 * en, "k {k}: {eg} against {en}");
        }
        // The reported errors are the measured ones.
        let reported: f64 = gptq.errors.iter().map(|e| e.output_error).sum();
        assert!(
            (reported - eg).abs() <= 1e-6 * eg + 1e-9,
            "{reported} against {eg}"
        );
        let signal: f64 = gptq.errors.iter().map(|e| e.output).sum();
        let zero = Quantized {
            codes: vec![0; rows * k],
            ..gptq.clone()
        };
        let measured = output_error(&zero, &w, &x);
        assert!(
            (signal - measured).abs() <= 1e-6 * measured,
            "{signal} against {measured}"
        );
        for threads in [2, 5] {
            let t = &Compute::detect(NonZeroUsize::new(threads).unwrap());
            let f = Factor::new(&gram(k, &x), t).unwrap();
            assert_eq!(quantize(rows, k, Some(&f), t, fill), gptq);
        }
    }
}

/// The textbook algorithm: Hinv's upper Cholesky factor, one column at a time.
#[test]
fn gives_the_codes_of_the_update_through_the_inverse() {
    let (k, rows) = (70, 9);
    let (w, x) = (uniform(3, rows * k), inputs(k, 400));
    let g = gram(k, &x);
    let f = Factor::new(&g, &ONE).unwrap();
    let h =
        |i: usize, j: usize| g.get(f.order[i], f.order[j]) + if i == j { f.damping } else { 0.0 };
    // Inverse by Gauss-Jordan.
    let mut m: Vec<Vec<f64>> = (0..k)
        .map(|i| {
            (0..k)
                .map(|j| h(i, j))
                .chain((0..k).map(|j| f64::from(u8::from(i == j))))
                .collect()
        })
        .collect();
    for c in 0..k {
        let p = m[c][c];
        m[c].iter_mut().for_each(|v| *v /= p);
        for r in (0..k).filter(|&r| r != c) {
            let factor = m[r][c];
            let pivot = m[c].clone();
            for (v, p) in m[r].iter_mut().zip(pivot) {
                *v -= factor * p;
            }
        }
    }
    let mut inverse: Vec<f64> = m.iter().flat_map(|r| r[k..].to_vec()).collect();
    cholesky(&mut inverse, k, &ONE).unwrap();
    let u = |i: usize, j: usize| inverse[j * k + i];
    let got = quantize(rows, k, Some(&f), &ONE, |o, row| {
        row.copy_from_slice(&w[o * k..][..k])
    });
    for o in 0..rows {
        let s = got.scales[o];
        let mut v: Vec<f64> = f.order.iter().map(|&c| w[o * k + c]).collect();
        for i in 0..k {
            let q = (v[i] / s).round().clamp(-127.0, 127.0);
            assert_eq!(
                q,
                f64::from(got.codes[o * k + f.order[i]]),
                "row {o} column {i}"
            );
            let e = (v[i] - q * s) / u(i, i);
            for (j, v) in v.iter_mut().enumerate().skip(i + 1) {
                *v -= e * u(i, j);
            }
        }
    }
}

#[test]
fn rows_of_every_magnitude_round_equally_well() {
    let k = 40;
    let base = uniform(11, k);
    let x = inputs(k, 200);
    let f = Factor::new(&gram(k, &x), &ONE).unwrap();
    let magnitudes = [0.03, 0.4, 0.999, 1.0, 1.7, 1e-8, 1e-45, 3e38, 0.0];
    for factor in [None, Some(&f)] {
        let q = quantize(magnitudes.len(), k, factor, &ONE, |o, row| {
            row.iter_mut()
                .zip(&base)
                .for_each(|(r, b)| *r = b * magnitudes[o]);
        });
        for (o, m) in magnitudes.iter().enumerate() {
            let codes = &q.codes[o * k..][..k];
            if *m == 0.0 {
                assert!(codes.iter().all(|&c| c == 0) && q.scales[o] == 0.0);
                continue;
            }
            assert!(q.scales[o] > 0.0 && q.scales[o].is_finite());
            assert!(codes.iter().all(|&c| c != i8::MIN));
            let largest = codes.iter().map(|c| c.unsigned_abs()).max().unwrap();
            assert!(largest >= 100, "magnitude {m}: largest code {largest}");
            if factor.is_none() {
                assert_eq!(codes, &q.codes[..k], "magnitude {m}");
            }
        }
    }
}

#[test]
fn inputs_that_are_zero_give_the_nearest_codes() {
    let (k, rows) = (20, 5);
    let w = uniform(2, rows * k);
    let f = Factor::new(&Gram::new(k), &ONE).unwrap();
    let fill = |o: usize, row: &mut [f64]| row.copy_from_slice(&w[o * k..][..k]);
    let (a, b) = (
        quantize(rows, k, Some(&f), &ONE, fill),
        quantize(rows, k, None, &ONE, fill),
    );
    assert_eq!((a.codes, a.scales), (b.codes, b.scales));
}

#[test]
fn every_register_tile_gives_the_same_bits() {
    // Two blocks and a rest that no register tile divides.
    let (k, rows) = (2 * BLOCK + 7, TILE - 3);
    let (w, x) = (uniform(8, rows * k), inputs(k, 300));
    let f = Factor::new(&gram(k, &x), &ONE).unwrap();
    let by = |run: &dyn Fn(RoundWithFeedback<'_>)| {
        let mut tile = Tile::new(k);
        for (r, row) in w.chunks(k).enumerate() {
            tile.load(r, row, Some(&f), &mut RowError::default());
        }
        run(RoundWithFeedback(&mut tile, &f));
        let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        (
            bits(&tile.q),
            bits(&tile.feedback),
            bits(&tile.output_error),
            tile.clipped,
        )
    };
    let expected = by(&|k| k.run::<Plain, 1, 1>(Plain));
    assert!(expected == by(&|k| k.run::<Plain, 4, 2>(Plain)));
    assert!(expected == by(&|k| k.run::<Plain, 8, 4>(Plain)));
    for isa in Isa::available() {
        assert!(expected == by(&|k| isa.run(k)), "{isa:?}");
    }
}

#[test]
fn halves_go_to_the_even_code() {
    for (x, code) in [
        (0.5, 0.0),
        (-0.5, 0.0),
        (1.5, 2.0),
        (2.5, 2.0),
        (-2.5, -2.0),
        (0.500_000_1, 1.0),
        (126.5, 126.0),
        (127.5, 127.0),
        (-1e9, -127.0),
    ] {
        assert_eq!(nearest(x), code, "{x}");
    }
}
