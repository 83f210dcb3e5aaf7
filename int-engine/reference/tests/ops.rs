//! Operations 1.1 to 1.10 of the specification: published answers, independent formulas, and the corners of every domain.

use int_reference::*;

const LIMITS: [i64; 4] = [32767, 1 << 22, 1 << 26, I31];

fn word(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// int32 values at the edges of every width, and random ones.
fn int32_values() -> Vec<i32> {
    let mut out = vec![i32::MIN, i32::MAX, 0];
    for k in 0..31 {
        for v in [1i64 << k, (1 << k) - 1, (1 << k) + 1] {
            out.extend([v as i32, -v as i32]);
        }
    }
    let mut state = 1;
    out.extend((0..60).map(|_| word(&mut state) as i32));
    out
}

#[test]
fn isqrt_is_the_floor() {
    let mut roots = vec![0, 1, 2, 3, (1 << 31) - 1];
    roots.extend((2..31).flat_map(|k| [(1i64 << k) - 1, 1 << k, (1 << k) + 1]));
    for r in roots {
        assert_eq!(isqrt(r * r), r);
        assert_eq!(
            isqrt((r * r + 2 * r).min((1 << 62) - 1)),
            r,
            "just below the next square"
        );
        if r > 0 {
            assert_eq!(isqrt(r * r - 1), r - 1);
        }
    }
}

#[test]
fn rdbpot_published_answers() {
    for (x, want) in [(-5, -3), (-3, -2), (-1, -1), (1, 1), (3, 2), (5, 3)] {
        assert_eq!(rdbpot(x, 1), want, "rdbpot({x}, 1)");
    }
    for (x, want) in [
        (-6, -2),
        (-5, -1),
        (-2, -1),
        (-1, 0),
        (1, 0),
        (2, 1),
        (6, 2),
    ] {
        assert_eq!(rdbpot(x, 2), want, "rdbpot({x}, 2)");
    }
}

#[test]
fn rdbpot_is_nearest_ties_away() {
    let mut xs: Vec<i64> = (-70..=70).collect();
    xs.extend((0..=62).flat_map(|k| [1i64 << k, (1 << k) - 1, -(1 << k), 1 - (1 << k)]));
    for x in xs {
        assert_eq!(rdbpot(x, 0), x);
        for e in 0..=200u32 {
            let magnitude = match e {
                0 => i128::from(x.abs()),
                1..=62 => (i128::from(x.abs()) + (1 << (e - 1))) >> e,
                _ => 0,
            };
            assert_eq!(
                i128::from(rdbpot(x, e)),
                magnitude * i128::from(x.signum()),
                "rdbpot({x}, {e})"
            );
        }
        assert_eq!(rdbpot(x, u32::MAX), 0);
    }
}

/// gemmlowp's own formulation.
fn gemmlowp_srdhm(a: i32, b: i32) -> i32 {
    if a == b && a == i32::MIN {
        return i32::MAX;
    }
    let ab = i64::from(a) * i64::from(b);
    let nudge = if ab >= 0 { 1 << 30 } else { 1 - (1 << 30) };
    ((ab + nudge) / (1 << 31)) as i32
}

#[test]
fn srdhm_is_gemmlowps() {
    let values = int32_values();
    for &a in &values {
        for &b in &values {
            assert_eq!(srdhm(a, b), gemmlowp_srdhm(a, b), "srdhm({a}, {b})");
        }
    }
}

#[test]
fn double_rounding_published_answers() {
    let half = 1 << 30;
    for (x, multiplier, shift, want) in [
        (7984, 1583594044, 9, 12),
        (1, half, 1, 1),
        (5, half, 1, 2),
        (-1, half, 0, 0),
        (-3, half, 1, -1),
        (i32::MIN, i32::MIN, 0, 2147483647),
        (i32::MAX, i32::MAX, 0, 2147483646),
        (-966241705, 1373157221, 0, -617840222),
    ] {
        assert_eq!(
            rdbpot(i64::from(srdhm(x, multiplier)), shift),
            want,
            "{x} * {multiplier} >> {shift}"
        );
        if x > i32::MIN {
            assert_eq!(
                requantize(x.into(), 0, None, multiplier.into(), shift.into(), I31),
                want
            );
        }
    }
}

#[test]
fn norm_scale_is_exact() {
    assert_eq!(norm_scale(0), (0, 0));
    for m in (0..31)
        .flat_map(|k| [1i64 << k, (1 << k) + 1, (2 << k) - 1])
        .filter(|&m| m <= I31)
    {
        let (t, e) = norm_scale(m);
        assert!(
            (1 << 30..1 << 31).contains(&t) && (-31..=-1).contains(&e),
            "norm_scale({m}) = ({t}, {e})"
        );
        assert_eq!(i128::from(t) << -e, i128::from(m) << 31, "norm_scale({m})");
    }
}

#[test]
fn dynq_corners() {
    assert_eq!(dynq(&[0; 5]), (vec![0; 5], 0));
    assert_eq!(dynq(&[1]), (vec![127], 1));
    assert_eq!(dynq(&[-1, 0, 1]), (vec![-127, 0, 127], 1));
    assert_eq!(dynq(&[I31, -I31, 0]), (vec![127, -127, 0], I31));
    assert_eq!(
        dynq(&[127, -126, 64, 1]),
        (vec![127, -126, 64, 1], 127),
        "the identity at m = 127"
    );
    assert_eq!(
        dynq(&[2, 1, -1]),
        (vec![127, 64, -64], 2),
        "a tie, exact reciprocal: away from zero"
    );
    assert_eq!(
        dynq(&[6, 3, -3]),
        (vec![127, 63, -63], 6),
        "a tie, floored reciprocal: to zero"
    );
    // Against exact rounding: a difference is at most 1 and only next to a tie.
    let mut state = 3;
    for b in 1..=31 {
        let m = (1i64 << (b - 1)) + (word(&mut state) % (1 << (b - 1))) as i64;
        let row: Vec<i64> = (0..200)
            .map(|_| (word(&mut state) % (m as u64 + 1)) as i64)
            .chain([m, -m])
            .collect();
        let (q, got) = dynq(&row);
        assert_eq!(got, m);
        for (&u, &code) in row.iter().zip(&q) {
            let error = (i64::from(code) * m - u * 127).abs() * 2;
            assert!(
                error <= m + (m >> 15) + 2 && code != i8::MIN,
                "dynq: {u} of {m} gave {code}"
            );
        }
    }
}

#[test]
fn rms_corners() {
    assert_eq!(rms(&[0], 0), (1 << 30, 30), "s is at least 1");
    assert_eq!(rms(&[0; 8192], 1), (1 << 30, 30));
    assert_eq!(rms(&[3, 4], 0), (5 << 28, 28));
    for eps in [0, 1, (1 << 53) - 1] {
        for n in [1, 2, 3, 8191, 8192] {
            for v in [0, 1, -1, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, I31, -I31] {
                let (r, e) = rms(&vec![v; n], eps);
                assert!(
                    (1 << 30..1 << 31).contains(&r) && (-7..=30).contains(&e),
                    "rms of {n} times {v}: ({r}, {e})"
                );
                let sum = i128::from(v) * i128::from(v) * n as i128 + i128::from(eps);
                if sum > 0 {
                    // r^2 * 2^-2e ~ sum, within the 2^-22 of 24-bit mantissas.
                    let square = i128::from(r) * i128::from(r);
                    let (a, b) = if e >= 0 {
                        (square, sum << (2 * e))
                    } else {
                        (square << (-2 * e), sum)
                    };
                    assert!(
                        (a - b).abs() <= (b >> 22) + (1 << (14 + 2 * e.max(0)).min(34)),
                        "rms of {n} times {v}, eps {eps}"
                    );
                }
            }
        }
    }
}

#[test]
fn ratio_corners() {
    for e in [-7, 0, 30] {
        for r in [1 << 30, (1 << 30) + 1, 3 << 29, I31] {
            assert_eq!(ratio(0, r, e), (0, 0));
            for m in [1, 2, 3, 127, 1 << 30, (1 << 30) + 1, I31] {
                let (t, te) = ratio(m, r, e);
                assert!(
                    (1 << 30..1 << 31).contains(&t) && (-31..=37).contains(&te),
                    "ratio({m}, {r}, {e})"
                );
                // t / 2^31 * 2^-te <= m / (r * 2^-e) < (t + 1) / 2^31 * 2^-te
                let d = 31 + te + e; // t <= m * 2^d / r
                let exact = if d >= 0 {
                    (i128::from(m) << d) / i128::from(r)
                } else {
                    panic!("te is at least -31 - e")
                };
                assert_eq!(i128::from(t), exact, "ratio({m}, {r}, {e})");
            }
        }
    }
}

#[test]
fn requantize_is_total() {
    for limit in LIMITS {
        for acc in [0, 1, -1, 12345, I31, -I31] {
            for scale in [
                None,
                Some((0, 0)),
                Some((1 << 30, -31)),
                Some((I31, 37)),
                Some((I31, -108)),
                Some((1 << 30, 0)),
            ] {
                for mult in [1 << 30, I31] {
                    for shift in -64..=64 {
                        let y = requantize(acc, 0, scale, mult, shift, limit);
                        assert!(y.abs() <= limit, "outside the limit");
                        if acc == 0 || scale == Some((0, 0)) {
                            assert_eq!(y, 0);
                        }
                        assert!(y * acc >= 0, "the sign is kept");
                    }
                }
            }
        }
        for psh in -5..=0 {
            let largest = I31 >> -psh;
            for acc in [largest, -largest, 0] {
                assert_eq!(
                    requantize(acc, psh, None, I31, -64, limit),
                    acc.signum() * limit
                );
                assert_eq!(requantize(acc, psh, None, I31, 63, limit), 0, "E > 62");
            }
        }
    }
    // The three branches meet: E = 0, -1, -31, -32.
    assert_eq!(requantize(1000, 0, None, 1 << 30, 0, I31), 500);
    assert_eq!(requantize(1000, 0, None, 1 << 30, -1, I31), 1000);
    assert_eq!(requantize(2, 0, None, 1 << 30, -30, I31), 1 << 30);
    assert_eq!(requantize(2, 0, None, 1 << 30, -31, I31), I31);
    assert_eq!(requantize(-2, 0, None, 1 << 30, -32, I31), -I31);
    // A tie of srdhm goes up: 1 and -1 times one half.
    assert_eq!(
        requantize(1, 0, None, 1 << 30, -32, I31),
        I31,
        "1 * 0.5 rounds to 1"
    );
    assert_eq!(
        requantize(-1, 0, None, 1 << 30, -32, I31),
        0,
        "-1 * 0.5 rounds to 0"
    );
    // The token scale's exponent adds to the shift.
    assert_eq!(
        requantize(1000, 0, Some((1 << 30, 3)), 1 << 30, -5, I31),
        1000
    );
}

#[test]
fn rope_angles() {
    let quarter = 1u64 << 62;
    for (turns, want) in [
        (0, (16384, 0)),
        (1, (0, 16384)),
        (2, (-16384, 0)),
        (3, (0, -16384)),
        (4, (16384, 0)),
    ] {
        assert_eq!(rope_angle(quarter, turns), want, "{turns} quarter turns");
    }
    assert_eq!(
        rope_angle(u64::MAX, 1),
        (16384, 0),
        "just below a turn rounds to a whole one"
    );
    assert_eq!(rope_angle(u64::MAX, 32767), (16384, 0));
    assert_eq!(
        rope_angle(1 << 61, 1),
        (11585, 11585),
        "an eighth: 16384 / sqrt 2"
    );
    let mut state = 5;
    for _ in 0..20_000 {
        let (phase, position) = (word(&mut state), word(&mut state) % 32768);
        let (c, s) = rope_angle(phase, position);
        assert!(c.abs() <= 1 << 14 && s.abs() <= 1 << 14);
        // 16384 +- 0.72
        assert!(
            (268_411_860..=268_459_050).contains(&(c * c + s * s)),
            "{phase} {position}: {c} {s}"
        );
        // The negative phase is the mirrored angle, but at the half steps of the index.
        let (c2, s2) = rope_angle(phase.wrapping_neg(), position);
        assert!((c - c2).abs() <= 1 && (s + s2).abs() <= 1);
    }
}

#[test]
fn rope_rotates_half_split_pairs() {
    let x = [100, 200, 300, 400];
    assert_eq!(rope(&x, &[(16384, 0), (16384, 0)]), x);
    assert_eq!(
        rope(&x, &[(0, 16384), (-16384, 0)]),
        [-300, -200, 100, -400]
    );
    let edge = 1 << 22;
    for (a, b) in [(edge, edge), (edge, -edge), (-edge, -edge)] {
        for y in rope(&[a, b], &[(11585, 11586)]) {
            assert!(y.abs() < 5_931_910);
        }
    }
}

/// `H_n[j][i]` read out with unit rows; checks that the transpose is one.
fn matrix(n: usize) -> Vec<Vec<i64>> {
    let unit = |j: usize| (0..n).map(|i| i64::from(i == j)).collect::<Vec<_>>();
    let h: Vec<_> = (0..n).map(|j| had_forward(&unit(j), n)).collect();
    for j in 0..n {
        let column: Vec<i64> = h.iter().map(|row| row[j]).collect();
        assert_eq!(had_transpose(&unit(j), n), column);
    }
    h
}

#[test]
fn hadamard_matrices() {
    let names = [1, 2, 4, 12, 20, 24, 40, 48, 80, 96, 144, 192, 240, 400];
    for n in names {
        let h = matrix(n);
        for (i, a) in h.iter().enumerate() {
            assert!(a.iter().all(|v| v.abs() == 1));
            for (j, b) in h.iter().enumerate() {
                let dot: i64 = a.iter().zip(b).map(|(x, y)| x * y).sum();
                assert_eq!(
                    dot,
                    if i == j { n as i64 } else { 0 },
                    "H_{n} row {i} * row {j}"
                );
            }
        }
    }
    for (p, squares) in [
        (11, vec![1, 3, 4, 5, 9]),
        (19, vec![1, 4, 5, 6, 7, 9, 11, 16, 17]),
    ] {
        let h = matrix(p + 1);
        for (i, row) in h.iter().enumerate() {
            for (j, &entry) in row.iter().enumerate() {
                let plus = i == 0 || (j > 0 && (i == j || squares.contains(&((j + p - i) % p))));
                assert_eq!(entry, if plus { 1 } else { -1 }, "H_{} [{i}][{j}]", p + 1);
            }
        }
    }
    // The leftmost factor has the slowest index.
    for (n, a, b) in [
        (8, 4, 2),
        (24, 12, 2),
        (40, 20, 2),
        (144, 12, 12),
        (240, 12, 20),
        (400, 20, 20),
    ] {
        let (whole, left, right) = (matrix(n), matrix(a), matrix(b));
        for i in 0..n {
            for j in 0..n {
                assert_eq!(
                    whole[i][j],
                    left[i / b][j / b] * right[i % b][j % b],
                    "H_{n} [{i}][{j}]"
                );
            }
        }
    }
}

#[test]
fn hadamard_blocks_and_bounds() {
    for (n, had, pow2) in [
        (1, 1, 1),
        (2, 2, 2),
        (3, 1, 1),
        (6, 2, 2),
        (12, 12, 4),
        (18, 2, 2),
        (36, 12, 4),
        (63, 1, 1),
        (77, 1, 1),
        (80, 80, 16),
        (96, 96, 32),
        (100, 20, 4),
        (128, 128, 128),
        (144, 144, 16),
        (192, 192, 64),
        (200, 40, 8),
        (208, 16, 16),
        (576, 576, 64),
        (1024, 1024, 1024),
        (1536, 1536, 512),
        (3072, 3072, 1024),
        (8192, 8192, 8192),
    ] {
        assert_eq!((had_block(n), pow2_block(n)), (had, pow2), "blocks of {n}");
    }
    for b in [1, 2, 12, 20, 96, 192, 1024, 8192, 65536] {
        let edge = 1i64 << headroom(b);
        let y = had_transpose(&vec![edge; b], b);
        assert_eq!(
            y.iter().map(|v| v.abs()).max(),
            Some(edge * b as i64),
            "the first row adds all"
        );
        assert!(edge * (b as i64) <= I31, "the headroom of {b}");
    }
    // Consecutive blocks do not mix; forward then transpose multiplies by the size.
    let x: Vec<i64> = (0..36).map(|i| i * i - 300).collect();
    let y = had_forward(&x, 12);
    assert_eq!(y[12..24], had_forward(&x[12..24], 12));
    assert_eq!(
        had_transpose(&y, 12),
        x.iter().map(|v| v * 12).collect::<Vec<_>>()
    );
}
