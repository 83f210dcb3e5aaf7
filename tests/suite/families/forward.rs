//! Families 13, 14 and 15: the cache, the company of other requests, and what a position sees.

use crate::engines::{all_logits, backends, engines, model, session};
use crate::random_blob::{Rng, Shape, Style, build};
use int_engine::kernels::Kernels;
use int_engine::ops::attention::QueryScale;

fn shapes() -> Vec<Shape> {
    let s = Shape {
        ctx: 70,
        layers: 2,
        ..Shape::default()
    };
    vec![
        s.clone(),
        Shape {
            qk_norm: true,
            ..s.clone()
        },
        Shape {
            qk_norm: true,
            heads: 6,
            kv_heads: 1,
            head_dim: 12,
            hidden: 80,
            intermediate: 77,
            ..s.clone()
        },
        Shape {
            static_scheme: true,
            qk_norm: true,
            ..s
        },
    ]
}

#[test]
fn family_13_the_cache_is_a_recomputation() {
    for shape in shapes() {
        for style in [Style::Plausible, Style::Extreme] {
            let (blob, reference) = model(&shape, style, 13);
            let tokens = Rng(13).tokens(17, shape.accepted);
            let expected = reference.all_logits(&tokens).unwrap();
            for (name, engine) in engines(&blob.bytes) {
                // 5 then 3, and every other division into two.
                for (first, second) in [
                    (5, 3),
                    (1, 7),
                    (3, 5),
                    (7, 1),
                    (1, 1),
                    (2, 1),
                    (16, 1),
                    (1, 16),
                ] {
                    let mut session = session(&engine);
                    session.feed(&tokens[..first]).unwrap();
                    assert_eq!(
                        session.logits(),
                        Some(&expected[first - 1][..]),
                        "{name}, {first} then {second}"
                    );
                    session.feed(&tokens[first..first + second]).unwrap();
                    assert_eq!(
                        session.logits(),
                        Some(&expected[first + second - 1][..]),
                        "{name}, {first} then {second}"
                    );
                }
                // Decoding one at a time, and from scratch for each length.
                let mut decoding = session(&engine);
                for (i, token) in tokens.iter().enumerate() {
                    decoding.feed(&[*token]).unwrap();
                    assert_eq!(
                        decoding.logits(),
                        Some(&expected[i][..]),
                        "{name}, position {i}"
                    );
                    let mut scratch = session(&engine);
                    scratch.feed(&tokens[..=i]).unwrap();
                    assert_eq!(
                        scratch.logits(),
                        Some(&expected[i][..]),
                        "{name}, {} from scratch",
                        i + 1
                    );
                }
            }
        }
    }
}

/// The gains of q and k act on scores: they do not show at position 0, whose only score has weight 1.
#[test]
fn family_13_two_tokens_show_the_norm_of_q_and_k() {
    let shape = Shape {
        qk_norm: true,
        layers: 1,
        ctx: 8,
        ..Shape::default()
    };
    let blob = build(&shape, Style::Plausible, 31);
    let base = int_reference::Model::from_blob(&blob.bytes)
        .unwrap()
        .all_logits(&[3, 9, 4])
        .unwrap();
    for gains in ["layers.0.q_norm.gain", "layers.0.k_norm.gain"] {
        let mut bytes = blob.bytes.clone();
        for gain in bytes[blob.range(gains)].chunks_mut(4) {
            let halved = i32::from_le_bytes([gain[0], gain[1], gain[2], gain[3]]) / 2;
            gain.copy_from_slice(&halved.to_le_bytes());
        }
        for (name, engine) in engines(&bytes) {
            let changed = all_logits(&mut *session(&engine), &[3, 9, 4], 3);
            assert_eq!(changed[0], base[0], "{name}, {gains}: position 0");
            assert_ne!(changed[1], base[1], "{name}, {gains}: position 1");
            assert_ne!(changed[2], base[2], "{name}, {gains}: position 2");
        }
    }
}

#[test]
fn family_14_chunks_and_threads() {
    for shape in shapes() {
        let (blob, reference) = model(&shape, Style::Plausible, 14);
        let tokens = Rng(14).tokens(67, shape.accepted);
        let expected = reference.all_logits(&tokens).unwrap();
        for (name, engine) in engines(&blob.bytes) {
            for chunk in [1, 3, 64] {
                let found = all_logits(&mut *session(&engine), &tokens, chunk);
                assert!(found == expected, "{name}, chunks of {chunk}");
            }
        }
    }
}

#[test]
fn family_14_alone_and_with_seven_others() {
    let shape = Shape {
        qk_norm: true,
        ctx: 24,
        layers: 2,
        ..Shape::default()
    };
    let (blob, reference) = model(&shape, Style::Plausible, 8);
    let prompts: Vec<Vec<u32>> = (0..8)
        .map(|i| Rng(100 + i).tokens(10 + i as usize, shape.accepted))
        .collect();
    let expected: Vec<_> = prompts
        .iter()
        .map(|p| reference.all_logits(p).unwrap())
        .collect();
    for (name, engine) in engines(&blob.bytes) {
        // Interleaved on one thread, in chunks of other lengths.
        let mut sessions: Vec<_> = prompts.iter().map(|_| session(&engine)).collect();
        let mut at = vec![0; prompts.len()];
        for round in 0.. {
            let mut left = false;
            for (i, session) in sessions.iter_mut().enumerate() {
                let end = (at[i] + 1 + (round + i) % 4).min(prompts[i].len());
                if at[i] < end {
                    session.feed(&prompts[i][at[i]..end]).unwrap();
                    assert_eq!(
                        session.logits(),
                        Some(&expected[i][end - 1][..]),
                        "{name}, request {i}"
                    );
                    (at[i], left) = (end, true);
                }
            }
            if !left {
                break;
            }
        }
        // At the same time, each from a thread of its own.
        std::thread::scope(|scope| {
            for (prompt, expected) in prompts.iter().zip(&expected) {
                let (engine, name) = (&engine, &name);
                scope.spawn(move || {
                    for chunk in [1, 3, 64] {
                        assert!(
                            all_logits(&mut *session(engine), prompt, chunk) == *expected,
                            "{name}"
                        );
                    }
                });
            }
        });
    }
}

/// Hits on a prefix: a session that keeps the shared part and forgets the rest.
#[test]
fn family_14_after_a_prefix_hit() {
    for shape in shapes() {
        let (blob, reference) = model(&shape, Style::Plausible, 41);
        let first = Rng(1).tokens(67, shape.accepted);
        for (name, engine) in engines(&blob.bytes) {
            let mut session = session(&engine);
            session.feed(&first).unwrap();
            // None, one, partial, at borders of 16, 32 and 64, and all of it.
            for kept in [67, 66, 65, 64, 63, 48, 33, 32, 31, 16, 7, 1, 0] {
                let mut tokens = first[..kept].to_vec();
                tokens.extend(Rng(kept as u64).tokens(3, shape.accepted));
                let expected = reference.all_logits(&tokens).unwrap();
                session.truncate(kept);
                assert_eq!(
                    (session.position(), session.logits()),
                    (
                        kept.min(67),
                        if kept == 67 {
                            session_logits(&reference, &first)
                        } else {
                            None
                        }
                        .as_deref()
                    ),
                    "{name}, {kept} kept"
                );
                session.feed(&tokens[kept..]).unwrap();
                assert_eq!(
                    session.logits(),
                    Some(&expected[kept + 2][..]),
                    "{name}, {kept} kept"
                );
            }
        }
    }
}

fn session_logits(reference: &int_reference::Model, tokens: &[u32]) -> Option<Vec<i32>> {
    reference.all_logits(tokens).unwrap().pop()
}

#[test]
fn family_15_what_comes_later_is_excluded() {
    // The suffix reaches the largest scores that there are; no earlier position changes by a bit.
    for style in [Style::Plausible, Style::Extreme] {
        for shape in shapes() {
            let (blob, _) = model(&shape, style, 15);
            let prefix = Rng(2).tokens(9, shape.accepted);
            for (name, engine) in engines(&blob.bytes) {
                let alone = all_logits(&mut *session(&engine), &prefix, 64);
                for seed in 0..4 {
                    let tokens =
                        [prefix.clone(), Rng(50 + seed).tokens(20, shape.accepted)].concat();
                    for chunk in [1, 3, 64] {
                        let found = all_logits(&mut *session(&engine), &tokens, chunk);
                        assert!(found[..9] == alone, "{name}, {style:?}, chunks of {chunk}");
                    }
                }
            }
        }
    }
}

/// One key head of rows `k8` and `v8`.
fn head(k8: Vec<Vec<i8>>, mk: Vec<i64>, v8: Vec<Vec<i8>>, mv: Vec<i64>) -> int_reference::KvHead {
    int_reference::KvHead { k8, mk, v8, mv }
}

#[test]
fn family_15_rows_without_weight_give_zeros() {
    let width = 8;
    let q = vec![127i8; width];
    // Values of magnitude zero, however large the scores.
    for keys in [1, 2, 31, 33, 600] {
        let zeros = head(
            vec![vec![127; width]; keys],
            vec![32767; keys],
            vec![vec![0; width]; keys],
            vec![0; keys],
        );
        assert_eq!(
            int_reference::attend(&q, 32767, &zeros, (1 << 31) - 1, 0),
            vec![0; width]
        );
        // Scales of zero with codes that are not: still nothing.
        let scaled = head(
            vec![vec![127; width]; keys],
            vec![0; keys],
            vec![vec![127; width]; keys],
            vec![0; keys],
        );
        assert_eq!(
            int_reference::attend(&q, 0, &scaled, 1 << 30, 61),
            vec![0; width]
        );
    }
    // A weight falls to 0 far below the top, and stays 0: it is excluded, not a small share.
    assert_eq!(int_reference::exp2_weight(0), 1 << 15);
    for d in [
        (31 << 8) - 1,
        31 << 8,
        1 << 20,
        (1 << 31) - 1,
        (1 << 31) - 2,
    ] {
        assert_eq!(int_reference::exp2_weight(d), 0, "{d}");
        assert_eq!(int_engine::ops::attention::exp2_weight(d as u32), 0, "{d}");
    }
    for d in 0..10_000 {
        let (a, b) = (
            int_reference::exp2_weight(d),
            int_engine::ops::attention::exp2_weight(d as u32),
        );
        assert_eq!(a, i64::from(b), "{d}");
    }
}

/// The largest score counts 2^15 at least, so that a sum of weights is never 0.
#[test]
fn family_15_the_sum_of_weights_is_never_zero() {
    for kernels in backends() {
        for keys in [1usize, 2, 7, 8, 9, 31, 32, 33, 600] {
            for (seed, low) in [(1, -(1 << 30) + 1), (2, -20_000), (3, 0)] {
                let mut rng = Rng(seed + keys as u64);
                let mut z: Vec<i32> = (0..keys)
                    .map(|_| rng.range(low, (1 << 30) - 1) as i32)
                    .collect();
                let top = *z.iter().max().unwrap();
                let mv: Vec<u16> = (0..keys).map(|_| rng.pick(&[0, 0, 1, 32767])).collect();
                let mut w = vec![1; keys];
                let normalizer = (kernels.softmax_weights)(&mut z, top, &mv, &mut w);
                assert!(
                    normalizer.den >= 1 << 15,
                    "{}: {}",
                    kernels.name,
                    normalizer.den
                );
                for (w, m) in w.iter().zip(&mv) {
                    assert!(*m != 0 || *w == 0, "{}: no scale, no weight", kernels.name);
                }
                let mut sums = vec![0i64; 4];
                kernels.weigh(&w, &vec![127; 4 * keys], 4, &mut sums);
                let total: i64 = w.iter().map(|&w| i64::from(w)).sum();
                assert!(sums.iter().all(|&s| s == 127 * total), "{}", kernels.name);
                let mut out = vec![0; 4];
                normalizer.output(&sums, &mut out);
                assert!(
                    total != 0 || out.iter().all(|&x| x == 0),
                    "{}",
                    kernels.name
                );
            }
        }
    }
}

#[test]
fn family_15_scores_saturate_alike() {
    let scalar = Kernels::scalar();
    for kernels in backends() {
        for keys in [1usize, 8, 33] {
            for (mq, mult, shift) in [
                (0, 1 << 30, 0),
                (32767, i32::MAX, 0),
                (32767, 1 << 30, 61),
                (1, i32::MAX, 13),
            ] {
                let mut rng = Rng(keys as u64);
                let limit = 256 * 127 * 127;
                let dots: Vec<i32> = (0..keys)
                    .map(|_| rng.pick(&[-limit, limit, 0, 1, -1]))
                    .collect();
                let mk: Vec<u16> = (0..keys).map(|_| rng.pick(&[0, 1, 32767])).collect();
                let scale = QueryScale::new(mq, mult, shift);
                let (mut a, mut b) = (dots.clone(), dots.clone());
                let tops = [
                    (kernels.log_scores)(scale, &mut a, &mk),
                    (scalar.log_scores)(scale, &mut b, &mk),
                ];
                assert_eq!((&a, tops[0]), (&b, tops[1]), "{}", kernels.name);
                assert!(a.iter().all(|z| z.abs() < 1 << 30), "{}", kernels.name);
            }
        }
    }
}
