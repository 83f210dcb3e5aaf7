//! Cases of argmax, Keccak-256, commitments and proofs (spec 3.5, 5).

use int_reference as spec;

use super::{Cases, I31, drawn, fill, int, list};
use crate::op::Value;
use crate::row::{Row, Stream};

pub(super) fn argmax(cases: &mut Cases) {
    cases.add("one", vec![list(&[-7]), int(1)]);
    cases.add("all equal", vec![fill(5, 40), int(40)]);
    cases.add("all smallest", vec![fill(-I31, 40), int(40)]);
    cases.add(
        "ascending",
        vec![list(&(0..35).collect::<Vec<_>>()), int(35)],
    );
    cases.add(
        "descending",
        vec![list(&(0..35).rev().collect::<Vec<_>>()), int(35)],
    );
    // The largest value twice, at places that vector lanes, halves of them and blocks tell apart.
    for (a, b) in [
        (0usize, 1usize),
        (0, 47),
        (1, 9),
        (7, 8),
        (8, 15),
        (15, 16),
        (3, 35),
        (31, 32),
        (46, 47),
        (17, 25),
    ] {
        let mut values: Vec<i64> = (0..48).map(|i| i % 7 - 20).collect();
        (values[a], values[b]) = (100, 100);
        cases.add(
            format!("equal at {a} and {b}"),
            vec![list(&values), int(48)],
        );
        values[b] += 1;
        cases.add(
            format!("larger at {b} than at {a}"),
            vec![list(&values), int(48)],
        );
    }
    let mut values: Vec<i64> = (0..48).map(|i| -i).collect();
    (values[30], values[40]) = (5, 9);
    for accepted in [1, 30, 31, 40, 41, 48] {
        cases.add(
            format!("{accepted} accepted"),
            vec![list(&values), int(accepted)],
        );
    }
    cases.add("ends", vec![list(&[-I31, 0, I31, I31, -I31]), int(5)]);
    cases.add(
        "padding is larger",
        vec![list(&[-3, -2, -2, 1 << 30]), int(3)],
    );
    cases.add(
        "a vocabulary",
        vec![drawn(80, 5000, -(1 << 20), 1 << 20), int(4990)],
    );
    cases.add(
        "a vocabulary of few values",
        vec![drawn(81, 5000, -3, 3), int(5000)],
    );
}

pub(super) fn keccak(cases: &mut Cases) {
    cases.add("nothing", vec![list(&[])]);
    cases.add("abc", vec![list(&[97, 98, 99])]);
    for n in [
        1usize, 8, 31, 32, 33, 71, 72, 134, 135, 136, 137, 200, 271, 272, 273, 408, 1024, 5000,
    ] {
        cases.add(format!("{n} bytes"), vec![drawn(90 + n as u64, n, 0, 255)]);
    }
    cases.add("136 zeros", vec![fill(0, 136)]);
    cases.add("135 bytes of 255", vec![fill(255, 135)]);
}

/// Lengths at which the number of chunks or the shape of the tree changes.
const LENGTHS: [usize; 8] = [
    1025,
    1024 + 65535,
    1024 + 65536,
    1024 + 65537,
    1024 + 2 * 65536,
    1024 + 2 * 65536 + 1,
    1024 + 4 * 65536 + 77,
    1024 + 6 * 65536,
];

fn blob(length: usize) -> Row {
    // Few drawn values, so that a blob is made quickly; every chunk differs.
    let mut parts = vec![Row::drawn(length as u64, 1000, 0, 255)];
    let mut at = 1000;
    while at < length {
        let count = (length - at).min(65_000);
        parts.push(Row::Fill {
            value: (at % 251) as i64,
            count,
        });
        at += count;
    }
    Row::Join(parts)
}

pub(super) fn commitment(cases: &mut Cases) {
    for length in LENGTHS {
        cases.add(format!("{length} bytes"), vec![Value::Row(blob(length))]);
    }
    cases.add("1026 zeros", vec![fill(0, 1026)]);
    cases.add("1027 zeros", vec![fill(0, 1027)]);
}

pub(super) fn prove_chunk(cases: &mut Cases) {
    for length in [
        1025,
        1024 + 65537,
        1024 + 2 * 65536 + 1,
        1024 + 5 * 65536 + 9,
    ] {
        for index in 0..spec::chunk_count(length as u64) {
            cases.add(
                format!("chunk {index} of {length} bytes"),
                vec![Value::Row(blob(length)), int(index)],
            );
        }
    }
}

/// What is done to a right proof.
type Change = fn(&mut Proof);

/// The inputs of one verification.
#[derive(Clone)]
pub(super) struct Proof {
    commitment: spec::Hash,
    total_len: u64,
    index: u64,
    chunk: Row,
    pub(super) proof: Vec<spec::Hash>,
}

pub(super) fn check(cases: &mut Cases, name: String, p: Proof) {
    cases.add(
        name,
        vec![
            Value::Digest(p.commitment),
            int(p.total_len),
            int(p.index),
            Value::Row(p.chunk),
            Value::Digests(p.proof),
        ],
    );
}

/// The chunk of a tree whose other leaves are zero hashes: proofs of any depth without their file.
pub(super) fn deep(total_len: u64, index: u64) -> Proof {
    let count = spec::chunk_count(total_len);
    let size = if index == 0 {
        1024
    } else {
        (total_len - 1024 - (index - 1) * 65536).min(65536) as usize
    };
    let mut parts = vec![Row::List([1, 2, 3][..size.min(3)].to_vec())];
    if size > 3 {
        parts.push(Row::Fill {
            value: 9,
            count: size - 3,
        });
    }
    let chunk = Row::Join(parts);
    let bytes: Vec<u8> = chunk.expand().iter().map(|&v| v as u8).collect();
    let mut hash = spec::keccak256(&[&[0], &bytes[..]].concat());
    let (mut proof, mut path) = (Vec::new(), Vec::new());
    let (mut i, mut m) = (index, count);
    while m > 1 {
        let k = 1u64 << (63 - (m - 1).leading_zeros());
        path.push(i < k);
        (i, m) = if i < k { (i, k) } else { (i - k, m - k) };
    }
    let mut s = Stream::new(total_len ^ index);
    for left in path.into_iter().rev() {
        let sibling: spec::Hash = std::array::from_fn(|_| s.word() as u8);
        let pair = if left {
            [hash, sibling]
        } else {
            [sibling, hash]
        };
        hash = spec::keccak256(&[&[1], &pair[0][..], &pair[1]].concat());
        proof.push(sibling);
    }
    let seal = [
        &[2],
        &b"blue.commitment.v1"[..],
        &total_len.to_be_bytes(),
        &hash,
    ]
    .concat();
    Proof {
        commitment: spec::keccak256(&seal),
        total_len,
        index,
        chunk,
        proof,
    }
}

pub(super) fn verify_chunk(cases: &mut Cases) {
    let file = |chunks: u64, last: u64| 1024 + (chunks - 2) * 65536 + last;
    for (chunks, last) in [
        (2u64, 1u64),
        (2, 65536),
        (3, 5),
        (4, 7),
        (5, 100),
        (6, 1),
        (7, 3),
        (9, 2),
        (33, 11),
        (1 << 20, 4),
    ] {
        let total = file(chunks, last);
        for index in [0, 1, chunks / 2, chunks - 2, chunks - 1] {
            let name = format!("chunk {index} of {chunks}");
            // Whole chunks are long: a few of them suffice.
            let whole = index != 0 && index + 1 < chunks;
            let known = cases.file.cases.iter().any(|c| c.name == name);
            if known
                || (whole && index != chunks / 2)
                || (index == 1 && chunks == 2 && last > 1000 && whole)
            {
                continue;
            }
            check(cases, name, deep(total, index));
        }
    }
    let good = deep(file(6, 100), 5);
    let wrong: [(&str, Change); 12] = [
        ("another commitment", |p| p.commitment[31] ^= 1),
        ("another length, same chunks", |p| p.total_len += 1),
        ("a length without chunks", |p| p.total_len = 1024),
        ("no length", |p| p.total_len = 0),
        ("another index", |p| p.index = 4),
        ("an index past the end", |p| p.index = 6),
        ("a changed byte", |p| {
            p.chunk = Row::Join(vec![
                Row::List(vec![1, 2, 4]),
                Row::Fill {
                    value: 9,
                    count: 97,
                },
            ])
        }),
        ("a byte less", |p| {
            p.chunk = Row::Join(vec![
                Row::List(vec![1, 2, 3]),
                Row::Fill {
                    value: 9,
                    count: 96,
                },
            ])
        }),
        ("a changed sibling", |p| p.proof[0][0] ^= 128),
        ("a proof without its end", |p| p.proof.truncate(1)),
        ("a proof and a hash more", |p| p.proof.push([0; 32])),
        ("no proof", |p| p.proof.clear()),
    ];
    for (name, change) in wrong {
        let mut p = good.clone();
        change(&mut p);
        check(cases, name.into(), p);
    }
    // Deeper trees: siblings in another order, a chunk at the place of its neighbour.
    let mut p = deep(file(9, 2), 0);
    p.proof.swap(0, 1);
    check(cases, "siblings swapped".into(), p);
    let mut p = deep(file(9, 2), 3);
    p.index = 4;
    check(cases, "the neighbour's index".into(), p);
    let mut p = deep(file(7, 3), 6);
    p.proof.reverse();
    check(cases, "siblings reversed".into(), p);
}
