//! Cases of rotary angles, rotary embedding and Hadamard rotations (spec 1.9, 1.10, 2.4).

use int_reference as spec;

use super::{Cases, drawn, fill, int, list};
use crate::op::Value;
use crate::row::{Row, Stream};

/// One radian in turns.
const RADIAN: u64 = 2_935_890_503_282_001_226;

pub(super) fn rope_angle(cases: &mut Cases) {
    let all = |end: i64| list(&(0..end).collect::<Vec<_>>());
    cases.add("every fine entry", vec![int(1u64 << 46), all(1024)]);
    cases.add("every coarse entry", vec![int(1u64 << 56), all(256)]);
    cases.add(
        "every coarse entry, backwards",
        vec![int(0u64.wrapping_sub(1 << 56)), all(256)],
    );
    cases.add("three fine steps", vec![int(3u64 << 46), all(90)]);
    let ends: Vec<i64> = vec![
        0, 1, 2, 3, 4, 5, 255, 256, 1023, 1024, 16383, 16384, 16385, 32766, 32767,
    ];
    // Half a step before an angle rounds up to it, one unit less does not; past the last angle it is a whole turn.
    let half = 1u64 << 45;
    let phases = [
        0,
        1,
        half - 1,
        half,
        half + 1,
        3 * half - 1,
        3 * half,
        (1 << 56) - half - 1,
        (1 << 56) - half,
        (1 << 62) - 1,
        1 << 62,
        (1 << 62) + 1,
        1 << 63,
        3 << 62,
        0u64.wrapping_sub(half),
        0u64.wrapping_sub(half + 1),
        u64::MAX,
        u64::MAX - 1,
    ];
    for phase in phases {
        cases.add(format!("phase {phase:#x}"), vec![int(phase), list(&ends)]);
    }
    let mut s = Stream::new(50);
    for i in 0..32u32 {
        let phase = if i < 16 {
            (RADIAN >> i) ^ (s.word() >> 20)
        } else {
            s.word()
        };
        let mut positions = ends.clone();
        positions.extend((0..24).map(|_| s.draw(0, 32767)));
        cases.add(format!("frequency {i}"), vec![int(phase), list(&positions)]);
    }
    cases.add(
        "a long context",
        vec![int(RADIAN / 3), drawn(51, 8192, 0, 32767)],
    );
}

fn angles(seed: u64, pairs: usize) -> Vec<i64> {
    let mut s = Stream::new(seed);
    (0..pairs)
        .flat_map(|_| {
            let (c, t) = spec::rope_angle(s.word(), 1);
            [c, t]
        })
        .collect()
}

pub(super) fn rope(cases: &mut Cases) {
    let top = 1i64 << 22;
    for n in [2usize, 4, 6, 10, 16, 32, 62, 64, 66, 80, 96, 128, 256] {
        for (name, x) in [
            ("small", drawn(800 + n as u64, n, -300, 300)),
            ("int16", drawn(801 + n as u64, n, -32767, 32767)),
            ("wide", drawn(802 + n as u64, n, -top, top)),
            ("largest", fill(top, n)),
            ("smallest", fill(-top, n)),
        ] {
            cases.add(
                format!("{n} values, {name}"),
                vec![x, list(&angles(900 + n as u64, n / 2))],
            );
        }
    }
    let quarter = [(16384, 0), (0, 16384), (-16384, 0), (0, -16384)];
    for (i, (c, t)) in quarter.into_iter().enumerate() {
        cases.add(
            format!("quarter turns {i}"),
            vec![list(&[1, 2, 3, 40, 50, 60]), list(&[c, t, c, t, c, t])],
        );
    }
    // cos or sin of a half: odd values are ties of both signs.
    let x: Vec<i64> = (-6..6).map(|v| 2 * v + 1).collect();
    for (name, c, t) in [
        ("cos", 8192, 0),
        ("sin", 0, 8192),
        ("-cos", -8192, 0),
        ("-sin", 0, -8192),
        ("both", 8192, 16384),
    ] {
        let pairs: Vec<i64> = (0..6).flat_map(|_| [c, t]).collect();
        cases.add(format!("ties of {name}"), vec![list(&x), list(&pairs)]);
        for near in [-1, 1] {
            let pairs: Vec<i64> = pairs
                .iter()
                .map(|v| (v + near).clamp(-16384, 16384))
                .collect();
            cases.add(
                format!("beside ties of {name}, {near:+}"),
                vec![list(&x), list(&pairs)],
            );
        }
    }
    // Every pair turned differently: an interleaved pairing or a swapped sign shows at once.
    cases.add(
        "pairs by position",
        vec![
            list(&[1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000]),
            list(&[16384, 0, 11585, 11585, 0, 16384, -11585, 11585]),
        ],
    );
}

pub(super) fn blocks(cases: &mut Cases) {
    cases.add("up to 96", vec![list(&(1..=96).collect::<Vec<_>>())]);
    let sizes = [
        100, 120, 144, 160, 192, 208, 240, 256, 288, 320, 336, 400, 480, 496, 512, 576, 768, 800,
        864, 896, 960, 1024, 1536, 2048, 2304, 2560, 2880, 3072, 4096, 4161, 4864, 5120, 6144,
        6400, 8192, 8960, 11008, 14336, 18432, 28672, 65535, 65536,
    ];
    cases.add("sizes of models", vec![list(&sizes)]);
    cases.add("up to 4096", vec![list(&(1..=4096).collect::<Vec<_>>())]);
}

pub(super) fn hadamard(cases: &mut Cases) {
    for b in [
        1usize, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 144, 160, 240, 256, 400, 480,
        800, 1024, 3072,
    ] {
        let limit = 1i64 << spec::headroom(b);
        for blocks in [1usize, 3] {
            if b * blocks > 3072 {
                continue;
            }
            let seed = 1000 + b as u64;
            cases.add(
                format!("blocks of {b}, {blocks}"),
                vec![drawn(seed, b * blocks, -limit, limit), int(b as i64)],
            );
        }
        // A unit vector is a row of the matrix: its place in the block, and every sign, are seen.
        for at in [0, 1, b / 2, b.saturating_sub(1)] {
            if b > 400
                || at >= b
                || (at == 1 && b <= 2)
                || (at == b / 2 && at <= 1)
                || (at == b - 1 && at <= 1 && b <= 2 && at == 0)
            {
                continue;
            }
            let mut x = vec![0; b];
            x[at] = 1;
            let name = format!("row {at} of {b}");
            if cases.file.cases.iter().all(|c| c.name != name) {
                cases.add(name, vec![list(&x), int(b as i64)]);
            }
        }
        cases.add(
            format!("largest, blocks of {b}"),
            vec![fill(limit, b), int(b as i64)],
        );
        cases.add(
            format!("smallest, blocks of {b}"),
            vec![fill(-limit, b), int(b as i64)],
        );
    }
    let steps = Value::Row(Row::List((0..36).map(|i| i * i - 300).collect()));
    cases.add("three blocks of 12, squares", vec![steps.clone(), int(12)]);
    cases.add("nine blocks of 4, squares", vec![steps.clone(), int(4)]);
    cases.add("36 blocks of 1, squares", vec![steps, int(1)]);
}
