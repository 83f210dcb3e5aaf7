//! Cases of attention (spec 1.14).

use super::{Cases, I31, drawn, fill, int, list};
use crate::op::Value;
use crate::row::{Row, Stream};

const MULT: (i64, i64) = (1 << 30, I31);

/// The inputs in the order of the operation.
struct Head {
    q8: Value,
    mq: i64,
    k8: Value,
    mk: Value,
    v8: Value,
    mv: Value,
    mult: i64,
    shift: i64,
}

fn add(cases: &mut Cases, name: impl Into<String>, h: Head) {
    cases.add(
        name,
        vec![
            h.q8,
            int(h.mq),
            h.k8,
            h.mk,
            h.v8,
            h.mv,
            int(h.mult),
            int(h.shift),
        ],
    );
}

/// Values that show every weight by itself: key s has 127 in channel s and nothing elsewhere.
fn each(keys: usize) -> Value {
    let mut v8 = vec![0; keys * keys];
    (0..keys).for_each(|s| v8[s * keys + s] = 127);
    Value::Row(Row::List(v8))
}

/// A head of one key channel and as many value channels as keys: the score of key s is `k[s] * mk[s]`, scaled.
fn scored(
    name: &str,
    cases: &mut Cases,
    k: &[i64],
    mk: &[i64],
    mv: &[i64],
    (mq, mult, shift): (i64, i64, i64),
) {
    let keys = k.len();
    // Only the first channel of the query is not zero.
    let mut q8 = vec![0; keys];
    q8[0] = 1;
    let mut k8 = vec![0; keys * keys];
    (0..keys).for_each(|s| k8[s * keys] = k[s]);
    let h = Head {
        q8: list(&q8),
        mq,
        k8: list(&k8),
        mk: list(mk),
        v8: each(keys),
        mv: list(mv),
        mult,
        shift,
    };
    add(cases, name, h);
}

/// With mq = 1 and mult = 2^30 the query's scale is 1024: at shift 9 a score is the rounded product itself.
const UNIT: (i64, i64, i64) = (1, 1 << 30, 9);

fn weights(cases: &mut Cases) {
    // mk = 1024 j makes the product k * j exactly; distances from the top reach every shift of the exponential.
    let mut s = Stream::new(70);
    for (name, shift) in [
        ("fine distances", 9),
        ("distances of two", 8),
        ("distances of eight", 6),
        ("distances of 128", 2),
    ] {
        for part in 0..3 {
            let keys = 20;
            let k: Vec<i64> = (0..keys)
                .map(|i| if i == 3 { 127 } else { s.draw(-127, 127) })
                .collect();
            let mk: Vec<i64> = (0..keys)
                .map(|i| if i == 3 { 31 * 1024 } else { s.draw(0, 32767) })
                .collect();
            scored(
                &format!("{name} {part}"),
                cases,
                &k,
                &mk,
                &[32767; 20],
                (1, 1 << 30, shift),
            );
        }
    }
    // Exact distances: 127 * 31 = 3937 at the top, at shift 8 twice that; cuts at 30 and 31 octaves.
    let top = 127 * 31 * 2;
    let octaves: Vec<i64> = [
        0, 1, 255, 256, 257, 511, 512, 3840, 3968, 4096, 7424, 7679, 7680, 7681, 7935, 7936, 7937,
        8192, 15748,
    ]
    .into_iter()
    .filter(|d| (top - d) % 2 == 0 || *d < 256)
    .collect();
    let (mut k, mut mk) = (vec![127], vec![31 * 1024]);
    for d in octaves {
        // The product nearest to the wanted score: k * mk / 1024.
        let wanted = (top - d) / 2;
        k.push(if wanted < 0 { -127 } else { 127 });
        mk.push((wanted.abs() * 1024 + 63) / 127);
    }
    let mv = vec![32767; k.len()];
    scored("around 30 octaves", cases, &k, &mk, &mv, (1, 1 << 30, 8));
    scored("around 15 octaves", cases, &k, &mk, &mv, UNIT);
    // Far scores of saturating distance: weight zero, and the one at the top alone counts.
    scored(
        "far below",
        cases,
        &[127, -127, 126, 0],
        &[32767; 4],
        &[1, 32767, 32767, 32767],
        (32767, I31, 0),
    );
}

fn ties(cases: &mut Cases) {
    // Products that are ties of the division by 2^10, of both signs: +-512 + 1024 j.
    let k: Vec<i64> = [1, -1, 1, -1, 1, -1, 3, -3, 5, -5].to_vec();
    let mk: Vec<i64> = vec![512, 512, 1536, 1536, 511, 513, 512, 512, 512, 2560];
    for shift in [0, 1, 3] {
        scored(
            &format!("product ties, shift {shift}"),
            cases,
            &k,
            &mk,
            &[32767; 10],
            (1, 1 << 30, shift),
        );
    }
    // Scores that are ties of their own shift: halves towards plus infinity.
    let k: Vec<i64> = vec![1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 7, -7];
    for shift in [10, 11, 12] {
        scored(
            &format!("score ties, shift {shift}"),
            cases,
            &k,
            &[1024; 12],
            &[32767; 12],
            (1, 1 << 30, shift),
        );
        scored(
            &format!("score ties by 31, shift {shift}"),
            cases,
            &k,
            &[31 * 1024; 12],
            &[32767; 12],
            (1, 1 << 30, shift),
        );
    }
    // The query's scale is itself rounded: halves up at 2^19.
    for (mq, mult) in [
        (1, (1 << 30) + (1 << 19)),
        (1, (1 << 30) + (1 << 19) - 1),
        (3, (1 << 30) + (1 << 18)),
        (32767, I31),
        (2, MULT.0 + 262_144),
    ] {
        scored(
            &format!("query scale of {mq} and {mult}"),
            cases,
            &[127, 126, 125, 120, 1, 0, -1, -127],
            &[32767; 8],
            &[32767; 8],
            (mq, mult, 14),
        );
    }
}

fn narrowing(cases: &mut Cases) {
    // Weights shifted by c = 0 ... 15: equal scores, value magnitudes of every bit length; halves round up.
    for bits in 0..15u32 {
        let m = (1i64 << bits).min(32767);
        let mv = [
            m,
            (m - 1).max(0),
            m / 2,
            m / 3,
            1,
            0,
            (m + 1).min(32767),
            (2 * m - 1).min(32767),
        ];
        scored(
            &format!("value magnitudes around 2^{bits}"),
            cases,
            &[0; 8],
            &[0; 8],
            &mv,
            UNIT,
        );
        let k = [0, -1, -2, -3, -5, -9, -17, -33];
        scored(
            &format!("value magnitudes around 2^{bits}, weights apart"),
            cases,
            &k,
            &[20_000; 8],
            &mv,
            (1, 1 << 30, 7),
        );
    }
    scored("no values", cases, &[1, 2, 3], &[5000; 3], &[0; 3], UNIT);
    scored(
        "one value of three",
        cases,
        &[1, 2, 3],
        &[5000; 3],
        &[0, 1, 0],
        UNIT,
    );
}

/// Drawn inputs; magnitudes as given.
fn random(
    cases: &mut Cases,
    name: String,
    seed: u64,
    (keys, hd): (usize, usize),
    ranges: (i64, i64),
    score: (i64, i64, i64),
) {
    let h = Head {
        q8: drawn(seed, hd, -127, 127),
        mq: score.0,
        k8: drawn(seed + 1, keys * hd, -127, 127),
        mk: drawn(seed + 2, keys, ranges.0, ranges.1),
        v8: drawn(seed + 3, keys * hd, -127, 127),
        mv: drawn(seed + 4, keys, ranges.0, ranges.1),
        mult: score.1,
        shift: score.2,
    };
    add(cases, name, h);
}

pub(super) fn attend(cases: &mut Cases) {
    weights(cases);
    ties(cases);
    narrowing(cases);
    for (i, mq) in [0, 1, 5, 32767].into_iter().enumerate() {
        for (hd, shift) in [(2usize, 61), (4, 30), (16, 0)] {
            let h = Head {
                q8: drawn(2000 + i as u64, hd, -127, 127),
                mq,
                k8: drawn(2001, hd, -127, 127),
                mk: list(&[32767]),
                v8: drawn(2002, hd, -127, 127),
                mv: list(&[[0, 1, 32767, 12_345][i]]),
                mult: MULT.1,
                shift,
            };
            add(cases, format!("one key, hd {hd}, mq {mq}"), h);
        }
    }
    let sizes = [
        (2usize, 2usize),
        (3, 6),
        (7, 16),
        (8, 16),
        (9, 32),
        (15, 33),
        (16, 64),
        (17, 80),
        (31, 64),
        (32, 64),
        (33, 96),
        (64, 128),
        (65, 16),
        (100, 256),
    ];
    for (i, (keys, hd)) in sizes.into_iter().enumerate() {
        // log2 of a typical score is about 15 + 15 + 7 + half of hd, less 10 and the shift.
        for (spread, shift) in [("sharp", 22), ("plausible", 26), ("flat", 32)] {
            let seed = 2100 + 20 * i as u64 + shift as u64;
            let score = (20_000 + i as i64, MULT.0 + 77_777 * i as i64, shift);
            random(
                cases,
                format!("{keys} keys of {hd}, {spread}"),
                seed,
                (keys, hd),
                (100, 32767),
                score,
            );
        }
    }
    random(
        cases,
        "small magnitudes".into(),
        2900,
        (40, 32),
        (0, 40),
        (17, MULT.1, 8),
    );
    random(
        cases,
        "scores saturate".into(),
        2910,
        (40, 64),
        (0, 32767),
        (32767, I31, 0),
    );
    // More keys than a 32-bit sum of full weights holds, and than one block of them.
    for (keys, hd, shift) in [
        (511usize, 4usize, 33),
        (512, 4, 33),
        (513, 8, 33),
        (600, 6, 28),
        (1100, 4, 33),
        (2100, 2, 33),
    ] {
        let seed = 3000 + keys as u64;
        random(
            cases,
            format!("{keys} keys of {hd}"),
            seed,
            (keys, hd),
            (20_000, 32767),
            (30_000, MULT.0, shift),
        );
    }
    for (keys, value) in [
        (515usize, 127),
        (516, 127),
        (517, -127),
        (600, -127),
        (1040, 127),
        (2080, -127),
        (4160, 127),
    ] {
        // Equal weights, values as large as they get: the sums pass 31 bits, and what is shifted out must be.
        let h = Head {
            q8: fill(0, 4),
            mq: 0,
            k8: fill(1, 4 * keys),
            mk: fill(1, keys),
            v8: Value::Row(Row::Join(vec![
                Row::Fill {
                    value,
                    count: 4 * (keys - 3),
                },
                Row::drawn(keys as u64, 12, -127, 127),
            ])),
            mv: Value::Row(Row::Join(vec![
                Row::Fill {
                    value: 32767,
                    count: keys - 3,
                },
                Row::List(vec![32766, 16384, 1]),
            ])),
            mult: MULT.0,
            shift: 40,
        };
        add(cases, format!("{keys} equal keys of value {value}"), h);
    }
    let h = Head {
        q8: fill(-127, 256),
        mq: 32767,
        k8: Value::Row(Row::Join(vec![
            Row::Fill {
                value: -127,
                count: 256,
            },
            Row::Fill {
                value: 127,
                count: 256,
            },
        ])),
        mk: fill(32767, 2),
        v8: fill(-127, 512),
        mv: fill(32767, 2),
        mult: I31,
        shift: 13,
    };
    add(cases, "-127 everywhere", h);
}
