//! Cases of the toy model and its operations (spec 8).

use int_reference::toy;

use super::{Cases, drawn, fill, int, list};
use crate::file::{Call, HaltCase, ToyFile, ToyLogits, ToyTokens};
use crate::legacy::call;
use crate::row::{Row, Stream};
use crate::target::{Models, ReferenceTarget};
use precompile::packed::gas;

pub(super) fn gemm(cases: &mut Cases) {
    for (i, (rows, cols)) in [
        (1usize, 1usize),
        (3, 8),
        (48, 32),
        (32, 64),
        (5, 31),
        (7, 33),
    ]
    .into_iter()
    .enumerate()
    {
        let seed = 4000 + 2 * i as u64;
        cases.add(
            format!("{rows} x {cols}"),
            vec![
                drawn(seed, rows * cols, -128, 127),
                drawn(seed + 1, cols, -128, 127),
                int(9),
            ],
        );
    }
    // The shift rounds towards minus infinity; the result saturates at both ends, which differ.
    let x = [1, 1];
    let weight = [
        -1, 0, 1, 0, 127, 1, -128, -1, -128, -128, 127, 127, -3, 0, 3, 0,
    ];
    for shift in [0, 1, 2, 9, 31] {
        cases.add(
            format!("shift {shift}"),
            vec![list(&weight), list(&x), int(shift)],
        );
    }
    cases.add(
        "-128 everywhere",
        vec![fill(-128, 64), fill(-128, 64), int(12)],
    );
}

pub(super) fn norm(cases: &mut Cases) {
    for (mult, eps) in [(8, 0), (5, 16), (1, 1), (1 << 16, 0)] {
        cases.add(
            format!("eights, mult {mult}, eps {eps}"),
            vec![fill(80, 4), list(&[1, 2, -1, -2]), int(mult), int(eps)],
        );
        cases.add(
            format!("zeros, mult {mult}, eps {eps}"),
            vec![fill(0, 4), fill(127, 4), int(mult), int(eps)],
        );
        cases.add(
            format!("one, mult {mult}, eps {eps}"),
            vec![list(&[1, 0, 0, -1]), fill(-128, 4), int(mult), int(eps)],
        );
        for (name, x, w) in [
            (
                "wide",
                drawn(4100, 32, -128, 127),
                drawn(4101, 32, -128, 127),
            ),
            ("small", drawn(4102, 32, -3, 3), drawn(4103, 32, -128, 127)),
            (
                "small gains",
                drawn(4104, 32, -128, 127),
                drawn(4105, 32, -9, 9),
            ),
        ] {
            cases.add(
                format!("{name}, mult {mult}, eps {eps}"),
                vec![x, w, int(mult), int(eps)],
            );
        }
    }
    // Roots just below and at a whole number, and quotients that truncate towards zero.
    for n in [8i64, 9, 10, 15, 16, 17, 24, 25, 26] {
        let ones = Row::Join(vec![
            Row::Fill {
                value: 1,
                count: n as usize,
            },
            Row::Fill {
                value: 0,
                count: 32 - n as usize,
            },
        ]);
        let gains: Vec<i64> = (0..32).map(|i| 3 * i - 50).collect();
        cases.add(
            format!("sum of squares {n}"),
            vec![crate::op::Value::Row(ones), list(&gains), int(5), int(0)],
        );
    }
    cases.add(
        "-128 everywhere",
        vec![fill(-128, 32), fill(-128, 32), int(5), int(16)],
    );
}

pub(super) fn attend(cases: &mut Cases) {
    let mut s = Stream::new(4200);
    for keys in [1usize, 2, 3, 4, 17, 256] {
        for (name, top) in [("wide", 127), ("small", 20)] {
            let dim = if keys > 4 { 8 } else { 32 };
            let seed = s.word();
            cases.add(
                format!("{keys} keys, {name}"),
                vec![
                    drawn(seed, dim, -top - 1, top),
                    drawn(seed ^ 1, keys * dim, -top - 1, top),
                    drawn(seed ^ 2, keys * dim, -128, 127),
                ],
            );
        }
    }
    // Equal scores: the halves of the weights round up, their sum may exceed 127.
    for keys in [2usize, 3, 5, 254, 255, 256] {
        cases.add(
            format!("{keys} equal keys"),
            vec![
                fill(0, 4),
                fill(1, 4 * keys),
                drawn(4300, 4 * keys, -128, 127),
            ],
        );
    }
    // Scores saturate at both ends: 255 steps apart, and no further.
    for (name, a, b) in [
        ("both ends", -128, 127),
        ("upper end", 127, 126),
        ("lower end", -128, -127),
        ("beyond the lower end", -100, -128),
    ] {
        let k: Vec<i64> = [a, b].iter().flat_map(|v| [*v; 8]).collect();
        let v: Vec<i64> = (0..16)
            .map(|i| if i < 8 { 127 - i } else { i - 120 })
            .collect();
        cases.add(name, vec![fill(127, 8), list(&k), list(&v)]);
        cases.add(
            format!("{name}, negative query"),
            vec![fill(-128, 8), list(&k), list(&v)],
        );
    }
    // All scores below zero: the running maximum starts at -128, not at 0.
    for (name, k) in [
        ("all negative", vec![-1i64, -2, -3, -4]),
        ("far negative", vec![-90, -91, -92, -127]),
    ] {
        let rows: Vec<i64> = k.iter().flat_map(|v| [*v; 4]).collect();
        let v: Vec<i64> = (0..16).map(|i| 8 * i - 60).collect();
        cases.add(name, vec![fill(100, 4), list(&rows), list(&v)]);
    }
    // One channel: scores step by one, so that every entry of the table up to 255 has its weight.
    for part in 0..8i64 {
        let k: Vec<i64> = (0..32)
            .map(|i| 127 - (32 * part + i))
            .flat_map(|v| [v, 0, 0, 0])
            .collect();
        let mut k = [vec![127, 0, 0, 0], k].concat();
        k.iter_mut().for_each(|v| *v = (*v).clamp(-128, 127));
        let n = k.len();
        // 4 * 128: one step of a key is one step of the score at shift 9 for a query of 512 in two channels.
        let doubled: Vec<i64> = k.chunks(4).flat_map(|r| [r[0]; 4]).collect();
        let v: Vec<i64> = (0..n as i64)
            .map(|i| {
                if i % 4 == 0 {
                    127
                } else {
                    (37 * i) % 255 - 127
                }
            })
            .collect();
        cases.add(
            format!("steps of one, {part}"),
            vec![fill(127, 4), list(&doubled), list(&v)],
        );
    }
}

pub(super) fn swiglu(cases: &mut Cases) {
    let all: Vec<i64> = (-128..128).collect();
    for up in [-128, -127, -1, 1, 63, 64, 127] {
        cases.add(
            format!("every gate, up {up}"),
            vec![list(&all), fill(up, 256)],
        );
    }
    for (i, at) in (0..256).step_by(64).enumerate() {
        cases.add(
            format!("gates from {}", at as i64 - 128),
            vec![
                list(&all[at..at + 64]),
                drawn(4400 + i as u64, 64, -128, 127),
            ],
        );
    }
}

fn words(selector: u32, count: u32, prompt: &[u32]) -> Vec<u8> {
    let all = [selector, count].into_iter().chain(prompt.iter().copied());
    all.flat_map(u32::to_be_bytes).collect()
}

const SELECTOR: u32 = 0x0100_0000;
/// The published prompt.
const PUBLISHED: [u32; 4] = [1, 7, 13, 2];

/// Packed calls: the published answer, others, and one for each check.
pub(super) fn calls() -> Vec<(&'static str, Vec<u8>)> {
    let prompt = |n: usize| vec![3; n];
    vec![
        ("published", words(SELECTOR, 10, &PUBLISHED)),
        ("no new tokens", words(SELECTOR, 0, &PUBLISHED)),
        ("one id", words(SELECTOR, 8, &[0])),
        ("three ids", words(SELECTOR, 16, &[5, 9, 2])),
        ("the last id", words(SELECTOR, 1, &[47])),
        ("as many as there may be", words(SELECTOR, 64, &[8, 1])),
        ("a full sequence", words(SELECTOR, 1, &prompt(255))),
        ("a full prompt", words(SELECTOR, 0, &prompt(256))),
        ("nothing", vec![]),
        ("part of a selector", vec![1, 0, 0]),
        ("another selector", words(0xd0bc_f0c2, 10, &PUBLISHED)),
        ("another selector, nothing else", vec![2, 0, 0, 0]),
        ("a selector alone", vec![1, 0, 0, 0]),
        ("no prompt", words(SELECTOR, 10, &[])),
        (
            "part of a first token",
            [&words(SELECTOR, 10, &[])[..], &[0, 0, 0]].concat(),
        ),
        (
            "part of a second token",
            [&words(SELECTOR, 10, &[1])[..], &[0]].concat(),
        ),
        (
            "part of a token and too many new",
            [&words(SELECTOR, 65, &[1])[..], &[0, 0]].concat(),
        ),
        ("one new token too many", words(SELECTOR, 65, &PUBLISHED)),
        ("the largest count", words(SELECTOR, u32::MAX, &PUBLISHED)),
        ("too many new and a bad id", words(SELECTOR, 65, &[48])),
        ("a sequence too long", words(SELECTOR, 2, &prompt(255))),
        ("a prompt too long", words(SELECTOR, 0, &prompt(257))),
        ("too long and a bad id", words(SELECTOR, 64, &[48; 193])),
        ("a bad id", words(SELECTOR, 1, &[48])),
        (
            "a bad id at the end",
            words(SELECTOR, 1, &[1, 7, 13, u32::MAX]),
        ),
        ("a bad id and no new tokens", words(SELECTOR, 0, &[1, 48])),
    ]
}

fn row(ids: &[u32]) -> Row {
    Row::List(ids.iter().map(|&id| id.into()).collect())
}

/// `toy.json`
pub(super) fn file() -> ToyFile {
    let weights = toy::weights(toy::SEED);
    let mut file = ToyFile::default();
    let mut s = Stream::new(4500);
    let mut prompts: Vec<(String, Vec<u32>)> = vec![
        ("published".into(), PUBLISHED.to_vec()),
        ("one id".into(), vec![0]),
        ("three ids".into(), vec![5, 9, 2]),
        ("where eps shows".into(), vec![8, 1, 0, 46, 41, 6]),
        ("one id many times".into(), vec![47; 30]),
    ];
    prompts.extend(
        (0..48u32)
            .step_by(5)
            .map(|id| (format!("id {id}"), vec![id])),
    );
    for n in [2usize, 7, 16, 33, 64] {
        let ids = (0..n).map(|_| s.draw(0, 47) as u32).collect();
        prompts.push((format!("{n} ids"), ids));
    }
    for (name, ids) in &prompts {
        let logits = toy::logits(&weights, ids).expect("an accepted prompt");
        file.logits.push(ToyLogits {
            name: name.clone(),
            prompt: row(ids),
            logits,
        });
    }
    for (i, (name, ids)) in prompts.iter().enumerate() {
        let max_new = [10, 8, 16, 1, 24, 5][i % 6];
        let tokens = ReferenceTarget
            .toy_generate(ids, max_new)
            .expect("an accepted prompt");
        file.tokens.push(ToyTokens {
            name: name.clone(),
            prompt: row(ids),
            max_new,
            tokens,
        });
    }
    for (name, ids, max_new) in [
        ("the last position", vec![3; 255], 1),
        ("a full context", vec![3; 256], 0),
    ] {
        let tokens = ReferenceTarget
            .toy_generate(&ids, max_new)
            .expect("an accepted prompt");
        file.tokens.push(ToyTokens {
            name: name.into(),
            prompt: Row::Fill {
                value: 3,
                count: ids.len(),
            },
            max_new,
            tokens,
        });
    }
    let halts: [(&str, Row, u32); 8] = [
        ("empty", Row::List(vec![]), 1),
        ("empty, nothing wanted", Row::List(vec![]), 0),
        (
            "one too many",
            Row::Fill {
                value: 3,
                count: 255,
            },
            2,
        ),
        (
            "a prompt too long",
            Row::Fill {
                value: 3,
                count: 257,
            },
            0,
        ),
        ("the largest count", Row::List(vec![3]), u32::MAX),
        ("first id", Row::List(vec![48, 99]), 1),
        ("later id", Row::List(vec![0, 47, 4_294_967_295]), 0),
        (
            "too long before a bad id",
            Row::Fill {
                value: 48,
                count: 257,
            },
            0,
        ),
    ];
    for (name, prompt, max_new) in halts {
        let halt = ReferenceTarget
            .toy_generate(&crate::file::ids(&prompt), max_new)
            .expect_err("a refused prompt");
        file.halts.push(HaltCase {
            name: name.into(),
            prompt,
            max_new,
            halt: halt.name.into(),
            token: halt.token,
        });
    }
    for (name, input) in calls() {
        let price = gas(&input);
        let result = call(&input, price, &ReferenceTarget).map_err(|e| e.name().to_owned());
        file.calls.push(Call {
            name: name.into(),
            input,
            gas: price,
            result,
        });
    }
    file
}
