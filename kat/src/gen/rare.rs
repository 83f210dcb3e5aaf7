//! Cases found by search: few inputs out of many tell the specified function from one that rounds elsewhere.

use int_reference as spec;

use super::chain::{check, deep};
use super::{Cases, I31, fill, int, list};
use crate::op::Value;

/// Results that depend on the last bit of the root, of its reciprocal or of the normalised value (spec 1.11).
pub(super) fn head_norm(cases: &mut Cases) {
    for (name, x, gain) in [
        (
            "the reciprocal is floored",
            [-1350, -1547],
            [1_070_223_766, 1_070_332_737],
        ),
        (
            "the reciprocal is floored, small values",
            [541, 1487],
            [1_070_705_920, 1_072_666_788],
        ),
        (
            "the normalised value is rounded, first",
            [-1700, 727],
            [1_072_787_553, 1_070_665_598],
        ),
        (
            "the normalised value is rounded, second",
            [283, 127],
            [1_071_299_182, 1_070_277_828],
        ),
        (
            "two roundings",
            [-1397, -1361],
            [1_072_260_010, 1_070_239_643],
        ),
        (
            "two roundings, one channel near the limit",
            [-979, -93],
            [1_069_804_250, 1_072_799_589],
        ),
        (
            "the root has 31 bits",
            [-5_356_484, 2_912_149],
            [771_221_677, -687_443_683],
        ),
    ] {
        cases.add(name, vec![list(&x), list(&gain)]);
    }
}

/// Angles that depend on the low bits of a frequency (spec 1.9): just past the half between two angles.
pub(super) fn rope_angle(cases: &mut Cases) {
    let half = 3u64 << 45;
    for position in [7u64, 11, 13, 32_767] {
        let phase = half.div_ceil(position);
        let positions = list(&[position as i64 - 1, position as i64]);
        cases.add(
            format!("past a half at {position}"),
            vec![int(phase), positions],
        );
    }
}

/// Two keys, one value channel for each.
fn two_keys(
    cases: &mut Cases,
    name: &str,
    second: i64,
    mk: i64,
    (mq, mult, shift): (i64, i64, i64),
) {
    cases.add(
        name,
        vec![
            list(&[127, 127]),
            int(mq),
            list(&[127, 127, 127, second]),
            list(&[mk, mk]),
            list(&[127, 0, 0, 127]),
            list(&[32_767, 32_767]),
            int(mult),
            int(shift),
        ],
    );
}

/// Scores of the smallest query, and of the largest beyond their limit (spec 1.14).
pub(super) fn attend(cases: &mut Cases) {
    // The query's factor is 1024.5 before its rounding.
    two_keys(
        cases,
        "the query's factor is rounded",
        0,
        1000,
        (1, (1 << 30) + (1 << 19), 12),
    );
    two_keys(
        cases,
        "both scores at the limit",
        100,
        32_767,
        (32_767, I31, 14),
    );
    two_keys(
        cases,
        "the larger score at the limit",
        0,
        32_767,
        (32_767, I31, 15),
    );
}

/// Two to six keys with the scores given, one value channel a key: the results show every weight (spec 8).
pub(super) fn toy_attend(cases: &mut Cases) {
    for (name, scores) in [
        ("negative scores", &[-65, -60, -121][..]),
        ("negative scores, four", &[-16, -45, -91, -73]),
        (
            "negative scores, the last is the largest",
            &[-116, -118, -80],
        ),
        ("half of an odd total", &[122, 96, 114, 63, 93, 110]),
        (
            "half of an odd total, negative",
            &[-14, -49, -52, -25, -19, -72],
        ),
        ("half of an odd total, five", &[13, -14, -21, -42, -36]),
    ] {
        // 8 * 64 * score, shifted by 9, is the score.
        let keys: Vec<i64> = scores.iter().flat_map(|&s| [s; 8]).collect();
        let mut values = vec![0; keys.len()];
        (0..scores.len()).for_each(|i| values[9 * i] = 127);
        cases.add(name, vec![fill(64, 8), list(&keys), list(&values)]);
    }
}

/// A last chunk that is full, and a proof that is longer at the leaf (spec 5.1, 5.3).
pub(super) fn chunks(cases: &mut Cases) {
    for (chunks, index) in [(2u64, 0), (2, 1), (5, 0), (9, 0)] {
        let total = 1024 + (chunks - 1) * 65536;
        let name = format!("chunk {index} of {chunks}, the last one full");
        check(cases, name, deep(total, index));
    }
    let mut p = deep(1024 + 2 * 65536 + 9, 0);
    p.proof.insert(0, [3; 32]);
    check(cases, "a hash more at the leaf".into(), p);
}

/// A commitment to a tree with a leaf of another size, and to a record alone (spec 5.3): hashes that fit do not
/// suffice.
pub(super) fn forged_chunks(cases: &mut Cases) {
    let seal = |total_len: u64, root: spec::Hash| {
        let total = total_len.to_be_bytes();
        spec::keccak256(&[&[2], &b"blue.commitment.v1"[..], &total, &root].concat())
    };
    let leaf = |chunk: &[u8]| spec::keccak256(&[&[0], chunk].concat());
    let sibling = [7; 32];
    for (name, size) in [("less", 1023), ("more", 1025)] {
        let chunk = vec![5u8; size];
        let root = spec::keccak256(&[&[1], &leaf(&chunk)[..], &sibling].concat());
        let total_len = 1024 + 9;
        cases.add(
            format!("a record of a byte {name} in its own tree"),
            vec![
                Value::Digest(seal(total_len, root)),
                int(total_len),
                int(0),
                fill(5, size),
                Value::Digests(vec![sibling]),
            ],
        );
    }
    let root = leaf(&[5; 1024]);
    cases.add(
        "a record alone",
        vec![
            Value::Digest(seal(1024, root)),
            int(1024),
            int(0),
            fill(5, 1024),
            Value::Digests(Vec::new()),
        ],
    );
}
