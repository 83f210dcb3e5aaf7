//! Cases of the operations on whole rows (spec 1.5, 1.6, 1.11, 3.3).

use int_reference as spec;

use super::{Cases, I31, drawn, fill, first_at_least, int, list, powers, signed, spread};
use crate::op::Value;
use crate::row::{Row, Stream};

/// Largest magnitudes at which something changes: around the 24-bit alignment, powers of two, ends.
const MAGNITUDES: [i64; 22] = [
    1,
    2,
    3,
    4,
    6,
    126,
    127,
    128,
    254,
    255,
    32767,
    1 << 20,
    (1 << 23) - 1,
    1 << 23,
    (1 << 24) - 1,
    1 << 24,
    (1 << 24) + 1,
    (1 << 25) - 1,
    1 << 30,
    (1 << 30) + 1,
    I31 - 1,
    I31,
];

/// Values where the code of a row with largest magnitude `m` changes, and the ones before.
fn steps(m: i64) -> Vec<i64> {
    let code = |u: i64| i64::from(spec::quantize(&[u], m)[0]);
    let wanted = [1, 2, 3, 31, 32, 63, 64, 65, 95, 100, 126, 127];
    let at = wanted.iter().filter_map(|&k| first_at_least(0, m, k, code));
    let mut out: Vec<i64> = at.flat_map(|u| [u, (u - 1).max(0)]).collect();
    out.extend([m / 2, (m + 1) / 2, m]);
    out.sort_unstable();
    out.dedup();
    out
}

pub(super) fn quantize(cases: &mut Cases) {
    for m in MAGNITUDES {
        let mut u = signed(&steps(m));
        u.extend(signed(&[
            (m + 1).min(I31),
            m.saturating_mul(2).min(I31),
            I31,
        ]));
        cases.add(format!("magnitude {m}"), vec![list(&u), int(m)]);
    }
    let mut s = Stream::new(20);
    for i in 0..24 {
        let m = spread(&mut s, 1, 31)[0].abs().clamp(1, I31);
        let mut u = signed(&steps(m));
        u.truncate(40);
        u.extend((0..20).map(|_| s.draw(-m, m)));
        u.extend((0..4).map(|_| s.draw(-I31, I31)));
        cases.add(format!("steps {i}"), vec![list(&u), int(m)]);
    }
    for n in [1usize, 31, 32, 33, 95, 3072] {
        let seed = 80 + n as u64;
        let m = 1_000_003;
        cases.add(
            format!("{n} values"),
            vec![drawn(seed, n, -2 * m, 2 * m), int(m)],
        );
    }
}

/// A row of drawn values with one larger value at `at`.
fn with_peak(seed: u64, n: usize, range: i64, at: usize, peak: i64) -> Value {
    let mut parts = Vec::new();
    if at > 0 {
        parts.push(Row::drawn(seed, at, -range, range));
    }
    parts.push(Row::List(vec![peak]));
    if at + 1 < n {
        parts.push(Row::drawn(seed + 1, n - at - 1, -range, range));
    }
    Value::Row(Row::Join(parts))
}

pub(super) fn dynq(cases: &mut Cases) {
    for m in MAGNITUDES {
        let mut u = signed(&steps(m));
        cases.add(format!("largest {m}"), vec![list(&u)]);
        // The largest magnitude is negative and last.
        u.retain(|v| *v != m && *v != -m);
        u.push(-m);
        cases.add(format!("largest {m}, negative, last"), vec![list(&u)]);
    }
    cases.add("one zero", vec![list(&[0])]);
    cases.add("zeros", vec![fill(0, 70)]);
    cases.add("one value", vec![list(&[-5])]);
    cases.add("-127 everywhere", vec![fill(-127, 64)]);
    cases.add("the smallest everywhere", vec![fill(-I31, 33)]);
    let mut s = Stream::new(21);
    for i in 0..16 {
        let m = spread(&mut s, 1, 31)[0].abs().clamp(1, I31);
        let mut u = signed(&steps(m));
        u.extend((0..20).map(|_| s.draw(-m, m)));
        cases.add(format!("steps {i}"), vec![list(&u)]);
    }
    for n in [
        2usize, 7, 8, 9, 31, 32, 33, 63, 64, 65, 96, 3072, 8192, 65536,
    ] {
        for (at, name) in [(0, "first"), (n / 2, "middle"), (n - 1, "last")] {
            if n > 96 && at > 0 && at + 1 < n {
                continue;
            }
            let seed = 200 + 3 * n as u64 + at as u64;
            let peak = if at % 2 == 0 { 77_777_777 } else { -77_777_777 };
            cases.add(
                format!("{n} values, largest {name}"),
                vec![with_peak(seed, n, 50_000_000, at, peak)],
            );
        }
    }
}

/// Rows that reach every alignment, parity and end of the root.
fn root_rows() -> Vec<(String, Value)> {
    let mut rows: Vec<(String, Value)> = vec![
        ("zero".into(), list(&[0])),
        ("zeros".into(), fill(0, 96)),
        ("one".into(), list(&[1])),
        ("largest".into(), list(&[I31])),
        ("8192 largest".into(), fill(I31, 8192)),
        ("8192 smallest".into(), fill(-I31, 8192)),
        ("8192 at 24 bits".into(), fill((1 << 24) - 1, 8192)),
    ];
    for m in powers(31)
        .into_iter()
        .filter(|m| *m > 1 && *m <= I31 && m.leading_zeros() < 46)
    {
        // A peak fixes the alignment; the others are ties of it, of both signs, large enough to show.
        let sh = (64 - m.leading_zeros()).saturating_sub(24);
        let half = (1i64 << sh) >> 1;
        let near = |k: i64| ((m >> 1) >> sh << sh) - (k << sh) + half;
        let row: Vec<i64> = vec![
            m,
            near(1),
            -near(2),
            near(3),
            -near(4),
            near(5) + 1,
            -near(6) - 1,
        ];
        rows.push((format!("ties below {m}"), list(&row)));
    }
    for k in 0..31 {
        rows.push((format!("peak 2^{k}"), list(&[3, -(1 << k), 1])));
    }
    for n in [
        2usize, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1024, 3072, 8192,
    ] {
        for (name, top) in [("small", 300), ("24 bits", 1 << 24), ("wide", I31)] {
            let seed = 300 + n as u64;
            rows.push((format!("{n} values, {name}"), drawn(seed, n, -top, top)));
        }
    }
    rows
}

const EPS_MAX: i64 = (1 << 53) - 1;

pub(super) fn rms(cases: &mut Cases) {
    for (name, x) in root_rows() {
        cases.add(format!("{name}, eps 0"), vec![x.clone(), int(0)]);
    }
    let mut s = Stream::new(22);
    for (i, (name, x)) in root_rows().into_iter().enumerate() {
        let eps = match i % 3 {
            0 => s.draw(1, 1 << 20),
            1 => s.draw(1 << 30, EPS_MAX),
            _ => EPS_MAX,
        };
        cases.add(format!("{name}, eps {eps}"), vec![x, int(eps)]);
    }
    // eps is shifted down with the squares: what is lost must be lost.
    for (sh, peak) in [(1, 1i64 << 24), (2, 1 << 25), (7, 1 << 30), (7, I31)] {
        for eps in [
            (1i64 << (2 * sh)) - 1,
            1 << (2 * sh),
            (1 << 52) + (1 << (2 * sh)) - 1,
            EPS_MAX,
        ] {
            cases.add(
                format!("eps {eps} at alignment {sh}, peak {peak}"),
                vec![list(&[peak, 5]), int(eps)],
            );
        }
    }
    for eps in powers(53).into_iter().filter(|e| *e <= EPS_MAX).step_by(5) {
        cases.add(
            format!("three zeros, eps {eps}"),
            vec![list(&[0, 0, 0]), int(eps)],
        );
    }
}

pub(super) fn norm(cases: &mut Cases) {
    for (name, x) in root_rows() {
        cases.add(format!("{name}, eps 0"), vec![x.clone(), int(0)]);
        cases.add(format!("{name}, eps"), vec![x, int(40_000_001)]);
    }
}

pub(super) fn norm_static(cases: &mut Cases) {
    let mut s = Stream::new(23);
    for (i, (name, x)) in root_rows().into_iter().enumerate() {
        let c = [
            1,
            2,
            1 << 10,
            (1 << 14) + 1,
            1 << 15,
            50_000,
            65_535,
            1 << 16,
        ][i % 8];
        let eps = [0, 40_000_001, EPS_MAX][i % 3];
        cases.add(
            format!("{name}, c {c}, eps {eps}"),
            vec![x, int(eps), int(c)],
        );
    }
    // The largest magnitude is at least 1 and at most 2^31 - 1.
    cases.add(
        "zeros, smallest magnitude",
        vec![list(&[0, 0]), int(0), int(1)],
    );
    cases.add(
        "ones, smallest magnitude",
        vec![list(&[1, -1, 1]), int(0), int(1)],
    );
    cases.add(
        "largest magnitude",
        vec![list(&[I31; 7]), int(EPS_MAX), int(1 << 16)],
    );
    cases.add("8192 largest", vec![fill(-I31, 8192), int(0), int(1 << 16)]);
    // Values at, just below and just above the clamp, and steps of the codes.
    for i in 0..12 {
        let n = 24;
        let mut x: Vec<i64> = (0..n)
            .map(|_| s.draw(-1 << (8 + 2 * i), 1 << (8 + 2 * i)))
            .collect();
        for c in [9_000, 17_000, 33_000] {
            let (r, e) = spec::rms(&x, 1000);
            let m = ((r * c) >> (16 + e)).clamp(1, I31);
            x[0] = m;
            x[1] = -m;
            x[2] = (m + 1).min(I31);
            x[3] = -(m + 1).min(I31);
            cases.add(
                format!("around the clamp {i}, c {c}"),
                vec![list(&x), int(1000), int(c)],
            );
        }
    }
}

const HEAD_GAIN: i64 = 32767 << 15;

pub(super) fn head_norm(cases: &mut Cases) {
    let mut s = Stream::new(24);
    cases.add("zeros", vec![fill(0, 128), fill(HEAD_GAIN, 128)]);
    cases.add("ones", vec![fill(1, 2), list(&[HEAD_GAIN, -HEAD_GAIN])]);
    cases.add(
        "one channel saturates",
        vec![list(&[I31, 0]), list(&[HEAD_GAIN, HEAD_GAIN])],
    );
    cases.add(
        "one channel, one value",
        vec![list(&[-1]), list(&[HEAD_GAIN])],
    );
    cases.add(
        "one channel, largest",
        vec![list(&[-I31]), list(&[HEAD_GAIN])],
    );
    cases.add("no gain", vec![drawn(25, 64, -I31, I31), fill(0, 64)]);
    cases.add("256 largest", vec![fill(I31, 256), fill(HEAD_GAIN, 256)]);
    for k in 0..31 {
        // Every alignment and parity of the sum; gains of every magnitude show every bit of the unit row.
        let top = 1i64 << k;
        let x: Vec<i64> = (0..12)
            .map(|_| s.draw(-top, top))
            .chain([top, -top])
            .collect();
        let g: Vec<i64> = x.iter().map(|_| s.draw(-HEAD_GAIN, HEAD_GAIN)).collect();
        cases.add(format!("up to 2^{k}"), vec![list(&x), list(&g)]);
    }
    for (m, name) in [
        ((1i64 << 24) - 1, "below 24 bits"),
        (1 << 24, "at 24 bits"),
        ((1 << 30) + 1, "at 31 bits"),
    ] {
        let sh = (64 - m.leading_zeros()).saturating_sub(24);
        let half = (1i64 << sh) >> 1;
        let near = |k: i64| ((m >> 1) >> sh << sh) - (k << sh) + half;
        let x: Vec<i64> = (1..24)
            .flat_map(|k| [near(k), -near(k + 30)])
            .chain([m])
            .collect();
        let g: Vec<i64> = x.iter().map(|_| s.draw(HEAD_GAIN / 2, HEAD_GAIN)).collect();
        cases.add(format!("ties {name}"), vec![list(&x), list(&g)]);
    }
    // A unit row of exact powers: gains chosen so that the result is a tie, of both signs.
    for k in [0, 4, 9, 20] {
        let x = [1i64 << k, 1 << k, -(1 << k), -(1 << k)];
        let g: Vec<i64> = [1i64, 3, 1, 3]
            .iter()
            .map(|o| (o << 15) + (1 << 15))
            .collect();
        cases.add(format!("round units of 2^{k}"), vec![list(&x), list(&g)]);
        for near in [-1, 1] {
            let g: Vec<i64> = g.iter().map(|g| g + near).collect();
            cases.add(
                format!("round units of 2^{k}, gains {near:+}"),
                vec![list(&x), list(&g)],
            );
        }
    }
    for n in [2usize, 6, 16, 31, 32, 33, 64, 80, 96, 128, 256] {
        for top in [900, 1 << 20, I31] {
            let seed = 400 + n as u64;
            cases.add(
                format!("{n} values up to {top}"),
                vec![
                    drawn(seed, n, -top, top),
                    drawn(seed + 1, n, -HEAD_GAIN, HEAD_GAIN),
                ],
            );
        }
    }
}
