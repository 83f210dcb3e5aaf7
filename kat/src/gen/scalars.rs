//! Cases of the elementwise operations on integers (spec 1.1 to 1.4, 1.7, 1.12, 1.13, 3.3).

use super::{Cases, I31, drawn, int, list, powers, signed, spread};
use crate::op::Value;
use crate::row::Stream;

pub(super) fn isqrt(cases: &mut Cases) {
    let end = (1i64 << 62) - 1;
    let mut n = powers(62);
    n.retain(|&v| v <= end);
    cases.add_pieces("powers of two and their neighbours", &[n], &[]);
    // The root changes at squares.
    let roots = [
        2,
        3,
        181,
        46340,
        46341,
        65535,
        65536,
        1 << 24,
        (1 << 30) - 1,
        1 << 30,
        I31,
    ];
    let squares = roots
        .iter()
        .flat_map(|&r| [r * r - 1, r * r, r * r + 1, r * (r + 1)]);
    let squares: Vec<i64> = squares.filter(|&v| v <= end).collect();
    cases.add_pieces("squares and their neighbours", &[squares], &[]);
    let mut s = Stream::new(1);
    let random = spread(&mut s, 96, 62)
        .iter()
        .map(|v| v.abs().min(end))
        .collect();
    cases.add_pieces("every magnitude", &[random], &[]);
}

pub(super) fn rdbpot(cases: &mut Cases) {
    let limit = 1i64 << 62;
    for e in [
        0u32,
        1,
        2,
        7,
        10,
        14,
        24,
        30,
        31,
        32,
        33,
        45,
        46,
        60,
        61,
        62,
        63,
        64,
        65,
        100,
        u32::MAX,
    ] {
        let mut x = vec![
            0,
            1,
            2,
            3,
            limit,
            limit - 1,
            1 << 61,
            (1 << 61) - 1,
            (1 << 61) + 1,
        ];
        if (1..=61).contains(&e) {
            // Ties, and what is just below and above them.
            let half = 1i64 << (e - 1);
            for k in [0i64, 1, 2, 3, 5, 1 << 16] {
                let tie = (k.checked_shl(e).unwrap_or(0) | half).min(limit);
                x.extend([tie - 1, tie, tie + 1, (tie + half).min(limit)]);
            }
        }
        x.retain(|v| (0..=limit).contains(v));
        let mut s = Stream::new(e.into());
        let mut row = signed(&x);
        row.extend(spread(&mut s, 16, 62));
        cases.add_pieces(&format!("shift {e}"), &[row], &[int(e)]);
    }
    // Results within int32, where vector kernels narrow: |x| <= 2^52.
    for e in [0u32, 1, 5, 13, 21, 22, 23, 30, 31, 32, 33, 38, 39] {
        let mut s = Stream::new(100 + u64::from(e));
        let top = 1i64 << (e + 30).min(52);
        let mut x: Vec<i64> = (0..20).map(|_| s.draw(-top, top)).collect();
        if e > 0 {
            let tie = |_| (s.draw(-top, top - 1) >> e << e) + (1 << (e - 1));
            x.extend((0..16).map(tie));
        }
        x.extend([top, -top, 0, -1]);
        x.iter_mut().for_each(|v| *v = (*v).clamp(-top, top));
        cases.add(format!("narrowed by {e}"), vec![list(&x), int(e)]);
    }
}

pub(super) fn srdhm(cases: &mut Cases) {
    let low = -(1i64 << 31);
    let ends = [
        low,
        low + 1,
        -(1 << 30),
        -1,
        0,
        1,
        (1 << 30) - 1,
        1 << 30,
        I31 - 1,
        I31,
    ];
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for x in ends {
        for y in ends {
            a.push(x);
            b.push(y);
        }
    }
    cases.add_pieces("ends of int32", &[a, b], &[]);
    // Ties of both signs: an odd number times 2^30.
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for k in [0, 1, 7, 15, 23, 29] {
        for odd in [1i64, 3, -1, -3, 12345, -12345] {
            for near in [-1, 0, 1] {
                let x = (odd << k) + near;
                if x.abs() <= I31 {
                    a.push(x);
                    b.push(1 << (30 - k));
                }
            }
        }
    }
    cases.add_pieces("ties and their neighbours", &[a, b], &[]);
    let known: [(i64, i64); 7] = [
        (7984, 1583594044),
        (1, 1 << 30),
        (5, 1 << 30),
        (-1, 1 << 30),
        (-3, 1 << 30),
        (I31, I31),
        (-966241705, 1373157221),
    ];
    let (a, b): (Vec<_>, Vec<_>) = known.into_iter().unzip();
    cases.add("published values", vec![list(&a), list(&b)]);
    let mut s = Stream::new(3);
    let a: Vec<i64> = spread(&mut s, 96, 31)
        .iter()
        .map(|v| v.clamp(&low, &I31).to_owned())
        .collect();
    let b: Vec<i64> = spread(&mut s, 96, 31)
        .iter()
        .map(|v| v.clamp(&low, &I31).to_owned())
        .collect();
    cases.add_pieces("every magnitude", &[a, b], &[]);
    cases.add(
        "many pairs",
        vec![drawn(4, 3000, low, I31), drawn(5, 3000, low, I31)],
    );
}

fn magnitudes() -> Vec<i64> {
    let mut m = powers(31);
    m.retain(|&v| v <= I31);
    let mut s = Stream::new(6);
    m.extend(spread(&mut s, 40, 31).iter().map(|v| v.abs().min(I31)));
    m
}

pub(super) fn norm_scale(cases: &mut Cases) {
    cases.add_pieces("powers of two and their neighbours", &[magnitudes()], &[]);
}

pub(super) fn ratio(cases: &mut Cases) {
    for (name, r) in [
        ("smallest root", 1i64 << 30),
        ("next root", (1 << 30) + 1),
        ("largest root", I31),
    ] {
        let m = magnitudes();
        let mut s = Stream::new(7);
        let e = m.iter().map(|_| s.draw(-7, 30)).collect();
        let r = vec![r; m.len()];
        cases.add_pieces(name, &[m, r, e], &[]);
    }
    // The quotient has 31 or 32 bits: the border is where the mantissas of m and r meet.
    let mut s = Stream::new(8);
    let (mut m, mut r, mut e) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..48 {
        let root = s.draw(1 << 30, I31);
        for near in [-1, 0, 1] {
            m.push((root + near).clamp(1 << 30, I31) >> (i % 20));
            r.push(root);
            e.push(s.draw(-8, 31));
        }
    }
    cases.add_pieces("equal mantissas", &[m, r, e], &[]);
    let count = 2000;
    cases.add(
        "many",
        vec![
            drawn(9, count, 0, I31),
            drawn(10, count, 1 << 30, I31),
            drawn(11, count, -31, 37),
        ],
    );
    cases.add(
        "ends of the exponent",
        vec![
            list(&[1, 1, 0, 0, I31, I31]),
            list(&[I31; 6]),
            list(&[-128, 128, -128, 128, -128, 128]),
        ],
    );
}

pub(super) fn exp2_weight(cases: &mut Cases) {
    cases.add_pieces("every entry", &[(0..256).collect()], &[]);
    let mut d = Vec::new();
    for n in 0..34 {
        d.extend([0, 1, 2, 127, 128, 254, 255].map(|f| 256 * n + f));
    }
    cases.add_pieces("every shift", &[d], &[]);
    // Shifts that a narrow or a masked shift count would confuse with small ones.
    let far = [
        32i64,
        33,
        48,
        62,
        63,
        64,
        65,
        96,
        127,
        128,
        256,
        1 << 22,
        (1 << 23) - 1,
    ];
    let mut d: Vec<i64> = far.iter().flat_map(|n| [256 * n, 256 * n + 255]).collect();
    d.extend([I31, I31 - 1, 1 << 30]);
    d.retain(|v| *v <= I31);
    cases.add("far below", vec![list(&d)]);
    cases.add("all up to 8192", vec![list_range(8192)]);
}

/// 0 up to `end`, as drawn values would not be: a row of every value.
fn list_range(end: i64) -> Value {
    list(&(0..end).collect::<Vec<_>>())
}

pub(super) fn swiglu(cases: &mut Cases) {
    // Odd gates below 32 are ties of rdbpot; the entry changes at 32 + 64 k; the table ends at 2^16.
    let mut gates: Vec<i64> = (0..40).collect();
    gates.extend([
        63, 64, 65, 95, 96, 97, 4095, 4096, 4097, 65471, 65472, 65503, 65504, 65505,
    ]);
    gates.extend([
        65534,
        65535,
        65536,
        65537,
        65568,
        1 << 17,
        (1 << 26) - 1,
        1 << 26,
    ]);
    for (name, up) in [
        ("up of 1", 1i64),
        ("up of -3", -3),
        ("largest up", 1 << 26),
        ("smallest up", -(1 << 26)),
    ] {
        let g = signed(&gates);
        let u = vec![up; g.len()];
        cases.add_pieces(name, &[g, u], &[]);
    }
    let steps: Vec<i64> = (0..1025).map(|i| 64 * i).collect();
    for (name, sign, near) in [
        ("every entry", 1, 0),
        ("every negative entry", -1, 0),
        ("before every entry", 1, 31),
    ] {
        let g: Vec<i64> = steps.iter().map(|v| sign * (v + near)).collect();
        cases.add(name, vec![list(&g), super::fill(1, g.len())]);
    }
    let mut s = Stream::new(12);
    let (g, u) = (spread(&mut s, 144, 26), spread(&mut s, 144, 26));
    cases.add_pieces("every magnitude", &[g, u], &[]);
    let top = 1 << 26;
    cases.add(
        "a wide row",
        vec![drawn(13, 3072, -80_000, 80_000), drawn(14, 3072, -top, top)],
    );
    for n in [1usize, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33] {
        let seed = 40 + n as u64;
        cases.add(
            format!("{n} values"),
            vec![
                drawn(seed, n, -70_000, 70_000),
                drawn(seed + 1, n, -top, top),
            ],
        );
    }
}

pub(super) fn add_residual(cases: &mut Cases) {
    let ends = [
        -I31,
        -I31 + 1,
        -(1 << 30) - 1,
        -(1 << 30),
        -1,
        0,
        1,
        1 << 30,
        (1 << 30) + 1,
        I31 - 1,
        I31,
    ];
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for a in ends {
        for b in ends {
            x.push(a);
            y.push(b);
        }
    }
    cases.add_pieces("ends", &[x, y], &[]);
    for n in [1usize, 7, 8, 9, 15, 16, 17, 31, 32, 33, 3072] {
        let seed = 60 + n as u64;
        cases.add(
            format!("{n} values"),
            vec![drawn(seed, n, -I31, I31), drawn(seed + 1, n, -I31, I31)],
        );
    }
}
