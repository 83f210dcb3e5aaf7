//! Families 16, 17 and 18: extreme codes and lengths, halves of both signs, and rotary pairs.

use crate::engines::{backends, engines, model, session};
use crate::random_blob::{Rng, Shape, Style, build};
use int_engine::blob::{BlobError, LoadError};
use int_engine::commitment::keccak256;
use int_engine::model::Model;
use int_engine::ops::dynq::dynq;
use int_engine::ops::fixed::{rdbpot, srdhm};
use int_engine::ops::ratio::TokenScale;
use int_engine::ops::requantize::Channels;
use int_engine::ops::rope::{rope, rope_angle};

/// Lengths around every lane, and those of real models.
const LENGTHS: [usize; 22] = [
    1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 576, 1023, 1025, 3072,
    3073,
];

#[test]
fn family_16_extreme_codes_of_every_length() {
    type Code = fn(usize, &mut Rng) -> i8;
    let patterns: [(&str, Code); 6] = [
        ("127", |_, _| 127),
        ("-127", |_, _| -127),
        ("alternating", |i, _| if i % 2 == 0 { 127 } else { -127 }),
        ("random signs", |_, rng| rng.pick(&[127, -127])),
        ("one at the end", |i, _| if i % 3073 == 0 { 127 } else { 0 }),
        ("any", |_, rng| rng.range(-127, 127) as i8),
    ];
    for kernels in backends() {
        for cols in LENGTHS {
            for (rows, tokens) in [(1, 1), (3, 1), (4, 2), (9, 5)] {
                for (a, weight) in patterns {
                    for (b, code) in patterns {
                        let mut rng = Rng(cols as u64);
                        let w: Vec<i8> = (0..rows * cols).map(|i| weight(i, &mut rng)).collect();
                        let x: Vec<i8> = (0..tokens * cols).map(|i| code(i, &mut rng)).collect();
                        let mut out = vec![-1; tokens * rows];
                        kernels.multiply(&w, cols, &x, &mut out);
                        for t in 0..tokens {
                            for r in 0..rows {
                                let pairs =
                                    w[r * cols..][..cols].iter().zip(&x[t * cols..][..cols]);
                                let sum: i64 =
                                    pairs.map(|(&w, &x)| i64::from(w) * i64::from(x)).sum();
                                assert_eq!(
                                    i64::from(out[t * rows + r]),
                                    sum,
                                    "{}: {a} * {b}, K = {cols}",
                                    kernels.name
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The widest row that a model may have, at both ends of the sum.
#[test]
fn family_16_the_longest_row() {
    for kernels in backends() {
        for cols in [65_535usize, 65_536] {
            for (w, x) in [(127i8, 127i8), (127, -127), (-127, -127)] {
                let mut out = [0; 2];
                kernels.multiply(&vec![w; 2 * cols], cols, &vec![x; cols], &mut out);
                let sum = cols as i32 * i32::from(w) * i32::from(x);
                assert_eq!(out, [sum; 2], "{}, K = {cols}", kernels.name);
            }
        }
    }
}

/// -128 is no code: no weight of a blob is one, and no activation becomes one.
#[test]
fn family_16_minus_128_is_refused_and_never_made() {
    let shape = Shape {
        qk_norm: true,
        tied: false,
        layers: 1,
        ctx: 4,
        ..Shape::default()
    };
    let blob = build(&shape, Style::Plausible, 16);
    let mut named = 0;
    for t in blob.tensors.iter().filter(|t| t.name.ends_with(".weight")) {
        for index in [0, 1, t.length / 2, t.length - 1] {
            let mut bytes = blob.bytes.clone();
            bytes[t.offset + index] = 0x80;
            let error = BlobError::OutOfRange {
                tensor: t.name.clone(),
                index: index as u64,
                value: -128,
                min: -127,
                max: 127,
            };
            assert_eq!(
                Model::from_bytes(&bytes).unwrap_err(),
                LoadError::Blob(error)
            );
            assert!(int_reference::Model::from_blob(&bytes).is_err());
            named += 1;
        }
    }
    assert_eq!(named, 4 * 9, "embedding, seven matrices, head");
    for m in [
        1u32,
        126,
        127,
        128,
        255,
        32767,
        1 << 24,
        (1 << 24) + 1,
        (1 << 30) - 1,
        1 << 30,
        i32::MAX as u32,
    ] {
        let m = m as i32;
        let row: Vec<i32> = (0..67)
            .map(|i| [m, -m, m - 1, 1 - m, m / 2, -(m / 2), 0, i32::min(1, m)][i % 8])
            .collect();
        let expected = int_reference::dynq(&row.iter().map(|&v| i64::from(v)).collect::<Vec<_>>());
        assert!(
            expected.0.contains(&127) && expected.0.contains(&-127) && !expected.0.contains(&-128)
        );
        let mut codes = vec![0; row.len()];
        assert_eq!(
            (i64::from(dynq(&row, &mut codes)), &codes),
            (expected.1, &expected.0)
        );
        for kernels in backends() {
            assert_eq!((kernels.max_abs)(&row), m as u32);
            let mut codes = vec![0; row.len()];
            (kernels.quantize)(&row, m as u32, &mut codes);
            assert_eq!(codes, expected.0, "{}, m = {m}", kernels.name);
        }
    }
}

#[test]
fn family_16_whole_models_of_awkward_widths() {
    for (hidden, intermediate) in [
        (1, 1),
        (31, 33),
        (32, 31),
        (33, 32),
        (64, 3072),
        (65, 63),
        (96, 1),
    ] {
        let shape = Shape {
            hidden,
            intermediate,
            layers: 1,
            ctx: 4,
            qk_norm: hidden % 2 == 1,
            static_scheme: intermediate % 2 == 1,
            ..Shape::default()
        };
        for style in [Style::Extreme, Style::Plausible] {
            for seed in 0..3 {
                let (blob, reference) = model(&shape, style, seed);
                let tokens = Rng(seed).tokens(4, shape.accepted);
                let expected = reference.all_logits(&tokens).unwrap();
                for (name, engine) in engines(&blob.bytes) {
                    let mut session = session(&engine);
                    session.feed(&tokens).unwrap();
                    assert_eq!(
                        session.logits(),
                        Some(&expected[3][..]),
                        "{name}, {hidden} and {intermediate}, {style:?}"
                    );
                }
            }
        }
    }
}

/// gemmlowp's RoundingDivideByPOT: to nearest, ties away from zero.
fn half_away(x: i128, e: u32) -> i128 {
    if e == 0 {
        return x;
    }
    let magnitude = (x.abs() + (1 << (e - 1))) >> e;
    if x < 0 { -magnitude } else { magnitude }
}

/// gemmlowp's SaturatingRoundingDoublingHighMul, by its nudge and truncating division.
fn doubling_high(a: i32, b: i32) -> i32 {
    if a == i32::MIN && b == i32::MIN {
        return i32::MAX;
    }
    let product = i128::from(a) * i128::from(b);
    let nudge = if product >= 0 { 1 << 30 } else { 1 - (1 << 30) };
    ((product + nudge) / (1 << 31)) as i32
}

#[test]
fn family_17_halves_of_both_signs() {
    for e in (0..=31).chain([32, 40, 55, 61]) {
        let unit = 1i64 << e;
        for n in [0, 1, 2, 3, 4, 5, 1000, (1 << 30) - 1] {
            let Some(base) = i64::checked_mul(n, unit).filter(|b| *b < 1 << 61) else {
                continue;
            };
            for part in [0, 1, unit / 2 - 1, unit / 2, unit / 2 + 1, unit - 1] {
                for x in [base + part.max(0), -(base + part.max(0))] {
                    let expected = half_away(i128::from(x), e);
                    assert_eq!(i128::from(rdbpot(x, e)), expected, "{x} / 2^{e}");
                    assert_eq!(
                        i128::from(int_reference::rdbpot(x, e)),
                        expected,
                        "{x} / 2^{e}"
                    );
                }
            }
        }
    }
    for (x, e, y) in [
        (1, 1, 1),
        (-1, 1, -1),
        (3, 1, 2),
        (-3, 1, -2),
        (1, 2, 0),
        (-2, 2, -1),
        (1 << 30, 31, 1),
        (-(1 << 30), 31, -1),
    ] {
        assert_eq!(
            (rdbpot(x, e), int_reference::rdbpot(x, e)),
            (y, y),
            "{x} / 2^{e}"
        );
    }
    let ends = [
        i32::MIN,
        i32::MIN + 1,
        -(1 << 30) - 1,
        -(1 << 30),
        -3,
        -1,
        0,
        1,
        3,
        (1 << 30) - 1,
        1 << 30,
        i32::MAX - 1,
        i32::MAX,
    ];
    let mut rng = Rng(17);
    let random: Vec<i32> = (0..200).map(|_| rng.word() as i32).collect();
    for &a in ends.iter().chain(&random) {
        for &b in ends.iter().chain(&random[..40]) {
            let expected = doubling_high(a, b);
            assert_eq!(
                (srdhm(a, b), int_reference::srdhm(a, b)),
                (expected, expected),
                "{a} * {b}"
            );
        }
    }
}

#[test]
fn family_17_requantisation_at_the_ends_of_the_shift() {
    let mults = [1 << 30, (1 << 30) + 1, 1_500_000_000, i32::MAX];
    let scales = [
        None,
        Some((1 << 30, 0)),
        Some((i32::MAX, -31)),
        Some((i32::MAX, 5)),
        Some((1 << 30, 31)),
        Some((0, 0)),
    ];
    for left in [0u32, 1, 4, 5] {
        let limit = (1i64 << (31 - left)) - 1;
        let mut accs: Vec<i64> = vec![
            0,
            1,
            2,
            3,
            5,
            7,
            127,
            128,
            255,
            256,
            1 << 20,
            limit / 2,
            limit / 2 + 1,
            limit - 1,
            limit,
        ];
        accs.extend((0..26).map(|e| 3i64 << e));
        accs.retain(|a| *a <= limit);
        let negative: Vec<i64> = accs.iter().map(|a| -a).collect();
        accs.extend(negative);
        for shift in [
            -64i8, -32, -31, -30, -1, 0, 1, 2, 15, 30, 31, 32, 62, 63, 64,
        ] {
            for mult in mults {
                for scale in scales {
                    for out_limit in [i32::MAX, 32767, 1 << 22] {
                        let expected: Vec<i64> = accs
                            .iter()
                            .map(|&a| {
                                let scale = scale.map(|(t, e)| (i64::from(t), i64::from(e)));
                                int_reference::requantize(
                                    a,
                                    -i64::from(left),
                                    scale,
                                    mult.into(),
                                    shift.into(),
                                    out_limit.into(),
                                )
                            })
                            .collect();
                        for kernels in backends() {
                            let mut row: Vec<i32> = accs.iter().map(|&a| a as i32).collect();
                            let scale =
                                scale.map(|(mantissa, exponent)| TokenScale { mantissa, exponent });
                            let (mult, shift) = (vec![mult; row.len()], vec![shift; row.len()]);
                            (kernels.requantize)(
                                &mut row,
                                scale,
                                Channels {
                                    mult: &mult,
                                    shift: &shift,
                                    left,
                                    limit: out_limit,
                                },
                            );
                            let found: Vec<i64> = row.iter().map(|&v| v.into()).collect();
                            assert_eq!(
                                found, expected,
                                "{}, left {left}, shift {}, {scale:?}",
                                kernels.name, shift[0]
                            );
                        }
                    }
                }
            }
        }
    }
    // Halves that the double rounding meets: acc * 2^30 / 2^31 = acc / 2, ties up, then ties away from zero.
    for (acc, shift, y) in [
        (1, 0, 1),
        (-1, 0, 0),
        (3, 0, 2),
        (-3, 0, -1),
        (2, 1, 1),
        (-2, 1, -1),
        (5, 1, 2),
        (-5, 1, -1),
        (-6, 1, -2),
    ] {
        assert_eq!(
            int_reference::requantize(acc, 0, None, 1 << 30, shift, 1000),
            y,
            "{acc} >> {shift}"
        );
    }
}

#[test]
fn family_18_pairs_are_the_halves_of_a_head() {
    for half in [1usize, 2, 3, 16, 64] {
        let phases: Vec<u64> = (0..half).map(|i| 2_935_890_503_282_001_226 >> i).collect();
        for position in [0u32, 1, 2, 31, 32, 1000, 32767] {
            let angles: Vec<(i32, i32)> = phases.iter().map(|&p| rope_angle(p, position)).collect();
            for (i, &(c, s)) in angles.iter().enumerate() {
                assert_eq!(
                    int_reference::rope_angle(phases[i], position.into()),
                    (c.into(), s.into())
                );
                // A unit vector at i turns towards i + half, and no other value changes.
                let mut x = vec![0i32; 2 * half];
                x[i] = 1 << 14;
                rope(&mut x, &angles);
                let mut expected = vec![0; 2 * half];
                (expected[i], expected[i + half]) = (c, s);
                assert_eq!(x, expected, "pair {i} of {half} at {position}");
                let mut x = vec![0i32; 2 * half];
                x[i + half] = 1 << 14;
                rope(&mut x, &angles);
                let mut expected = vec![0; 2 * half];
                (expected[i], expected[i + half]) = (-s, c);
                assert_eq!(x, expected, "pair {i} of {half} at {position}");
            }
        }
        // Position 0 turns nothing; position 1 tells half-split pairs from interleaved ones.
        let row: Vec<i64> = (0..2 * half as i64).map(|i| 1000 * i - 700).collect();
        let turned = |position| {
            let angles: Vec<(i64, i64)> = phases
                .iter()
                .map(|&p| int_reference::rope_angle(p, position))
                .collect();
            int_reference::rope(&row, &angles)
        };
        assert_eq!(turned(0), row);
        assert_ne!(turned(1), row);
        if half > 1 {
            let angles: Vec<(i64, i64)> = phases
                .iter()
                .map(|&p| int_reference::rope_angle(p, 1))
                .collect();
            let mut interleaved = vec![0; 2 * half];
            for (i, &(c, s)) in angles.iter().enumerate() {
                let (a, b) = (row[2 * i], row[2 * i + 1]);
                interleaved[2 * i] = int_reference::rdbpot(a * c - b * s, 14);
                interleaved[2 * i + 1] = int_reference::rdbpot(b * c + a * s, 14);
            }
            assert_ne!(turned(1), interleaved);
        }
    }
}

/// The tables are data of the specification, and the frequencies are data of the blob.
#[test]
fn family_18_tables_and_frequencies_are_data() {
    let rope = include_bytes!("../../../int-engine/tables/rope.bin");
    assert_eq!(rope.len(), 8 * (256 + 1024));
    let text: String = keccak256(rope).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        text,
        "1523853c1a6fd045f5e78c5e6e45f8522cd338a975a1376ab50f5977042e9d0e"
    );
    for (turn, angle) in [
        (0, (1 << 14, 0)),
        (1 << 62, (0, 1 << 14)),
        (1 << 63, (-(1 << 14), 0)),
        (3 << 62, (0, -(1 << 14))),
    ] {
        assert_eq!(rope_angle(turn, 1), angle, "{turn:#x}");
    }
    // A frequency shows from the second token on, where a key stands at another position than the query.
    for qk_norm in [false, true] {
        let shape = Shape {
            qk_norm,
            layers: 1,
            ctx: 8,
            ..Shape::default()
        };
        let blob = build(&shape, Style::Plausible, 18);
        let tokens = [5, 6, 7];
        let base = int_reference::Model::from_blob(&blob.bytes)
            .unwrap()
            .all_logits(&tokens)
            .unwrap();
        for pair in 0..shape.head_dim / 2 {
            let mut bytes = blob.bytes.clone();
            let at = blob.range("rope.phase").start + 8 * pair;
            // A quarter of a turn more at each position.
            bytes[at + 7] ^= 0x40;
            let changed = int_reference::Model::from_blob(&bytes)
                .unwrap()
                .all_logits(&tokens)
                .unwrap();
            assert_eq!(changed[0], base[0], "pair {pair}");
            assert_ne!(changed[1..], base[1..], "pair {pair}");
            for (name, engine) in engines(&bytes) {
                let mut session = session(&engine);
                session.feed(&tokens).unwrap();
                assert_eq!(
                    session.logits(),
                    Some(&changed[2][..]),
                    "{name}, pair {pair}"
                );
            }
        }
    }
}
