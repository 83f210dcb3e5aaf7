//! Families 9, 10 and 12: ids that are none, prompts without tokens, and ties.

use crate::engines::{all_logits, engines, model, session};
use crate::random_blob::{RandomBlob, Rng, Shape, Style, build, psh_of};
use int_engine::engine::{Finish, argmax, generate};
use int_engine::halt::{Error, Halt};
use int_engine::toy::{Toy, ToyError};
use std::ops::ControlFlow;

#[test]
fn family_09_ids_outside_the_accepted_range() {
    // Padding ids between the tokenizer's size and the vocabulary; and a vocabulary without padding.
    for (vocab, accepted) in [(67, 61), (67, 67), (67, 1), (1, 1), (64, 63)] {
        let shape = Shape {
            vocab,
            accepted,
            ctx: 12,
            layers: 1,
            ..Shape::default()
        };
        let (blob, reference) = model(&shape, Style::Plausible, 9);
        let last = accepted as u32 - 1;
        let good = [0, last, last / 2, last];
        let expected = reference.all_logits(&good).unwrap();
        let mut bad: Vec<u32> = vec![
            accepted as u32,
            vocab as u32,
            1 << 16,
            1 << 31,
            (1 << 31) - 1,
            u32::MAX - 1,
            u32::MAX,
        ];
        bad.extend(accepted as u32..vocab as u32);
        for (name, engine) in engines(&blob.bytes) {
            let mut session = session(&engine);
            session.feed(&good[..2]).unwrap();
            for &id in &bad {
                for at in 0..3 {
                    let mut tokens = [last; 3];
                    tokens[at] = id;
                    let halt = Halt::TokenOutOfRange {
                        position: 2 + at,
                        id,
                        accepted,
                    };
                    let what = format!("{name}: {id} of {accepted} at {at}");
                    assert_eq!(session.feed(&tokens), Err(Error::Halt(halt)), "{what}");
                    assert_eq!(
                        session.feed_all_logits(&tokens, &mut |_, _| panic!("{what}")),
                        Err(Error::Halt(halt))
                    );
                    assert_eq!(
                        session.feed_traced(&tokens, &mut |_, _, _| panic!("{what}")),
                        Err(Error::Halt(halt))
                    );
                    assert_eq!(session.position(), 2, "{what}");
                    assert_eq!(
                        session.logits(),
                        Some(&expected[1][..]),
                        "{what}: the session is as it was"
                    );
                    let alone = int_reference::Halt::TokenOutOfRange { position: at, id };
                    assert_eq!(reference.check_prompt(&tokens), Err(alone));
                }
            }
            // The session goes on.
            session.feed(&good[2..]).unwrap();
            assert_eq!(session.logits(), Some(&expected[3][..]), "{name}");
            for &id in &bad {
                let halt = Halt::TokenOutOfRange {
                    position: 1,
                    id,
                    accepted,
                };
                let answer = generate(&mut *session, &[0, id], 3, &mut |_| panic!("no token"));
                assert_eq!(answer, Err(Error::Halt(halt)), "{name}");
            }
            let answer = generate(
                &mut *session,
                &[last],
                2,
                &mut |_| ControlFlow::Continue(()),
            )
            .unwrap();
            assert!(
                answer.ids.iter().all(|&id| id <= last),
                "a padding id is never generated"
            );
            assert_eq!(
                answer.ids,
                reference.generate(&[last], 2).unwrap().0,
                "{name}"
            );
        }
    }
}

#[test]
fn family_09_the_context_is_checked_before_the_ids() {
    let shape = Shape {
        ctx: 5,
        layers: 1,
        ..Shape::default()
    };
    let (blob, _) = model(&shape, Style::Plausible, 1);
    for (name, engine) in engines(&blob.bytes) {
        let mut session = session(&engine);
        session.feed(&[1, 2]).unwrap();
        for (len, id) in [(4, u32::MAX), (4, 0), (100_000, 0), (5, 61)] {
            let halt = Halt::ContextExceeded {
                len: 2 + len,
                max: 5,
            };
            assert_eq!(
                session.feed(&vec![id; len]),
                Err(Error::Halt(halt)),
                "{name}"
            );
        }
        session.feed(&[3, 4, 5]).unwrap();
        assert_eq!(
            session.feed(&[1]),
            Err(Error::Halt(Halt::ContextExceeded { len: 6, max: 5 }))
        );
        assert_eq!(session.position(), 5);
    }
}

#[test]
fn family_09_the_toy_model() {
    let toy = Toy::new(1);
    let vocab = int_engine::toy::VOCAB as u32;
    assert!(toy.logits(&[0, vocab - 1]).is_ok());
    for id in [vocab, vocab + 1, 1 << 16, 1 << 31, u32::MAX] {
        for tokens in [vec![id], vec![0, id], vec![id, 0]] {
            let error = toy.logits(&tokens).expect_err("must be refused");
            assert!(
                matches!(error, ToyError::TokenOutOfRange { .. }),
                "{id}: {error}"
            );
            assert_eq!(toy.generate(&tokens, 1), Err(error));
        }
    }
}

#[test]
fn family_10_a_prompt_without_tokens() {
    let shape = Shape {
        ctx: 6,
        layers: 1,
        ..Shape::default()
    };
    let (blob, reference) = model(&shape, Style::Plausible, 2);
    assert_eq!(
        reference.generate(&[], 3),
        Err(int_reference::Halt::EmptyPrompt)
    );
    assert_eq!(
        reference.all_logits(&[]),
        Err(int_reference::Halt::EmptyPrompt)
    );
    for (name, engine) in engines(&blob.bytes) {
        let mut session = session(&engine);
        let empty = Err(Error::Halt(Halt::EmptyPrompt));
        assert_eq!(session.feed(&[]), empty, "{name}");
        assert_eq!(
            session.feed_all_logits(&[], &mut |_, _| panic!("{name}")),
            empty
        );
        for max_new in [0, 1, 100] {
            assert_eq!(
                generate(&mut *session, &[], max_new, &mut |_| panic!("{name}")).unwrap_err(),
                Error::Halt(Halt::EmptyPrompt)
            );
        }
        assert_eq!((session.position(), session.greedy()), (0, None), "{name}");
        assert_eq!(session.logits(), None, "{name}");
        // Nothing is put before the first token: its logits are those of position 0.
        let alone = reference.all_logits(&[7]).unwrap();
        session.feed(&[7]).unwrap();
        assert_eq!(
            (session.position(), session.logits()),
            (1, Some(&alone[0][..])),
            "{name}"
        );
        // After tokens, none is no change.
        session.feed(&[]).unwrap();
        assert_eq!(session.position(), 1);
        let answer = generate(&mut *session, &[7], 0, &mut |_| panic!("{name}")).unwrap();
        assert_eq!((answer.ids, answer.finish), (vec![], Finish::Length));
    }
}

/// A model whose head has the row `w` at each of `tied`, and zeros elsewhere; every row has one scale.
///
/// With `sign` -1 it is `-w`: for each hidden state one of the two has the larger logits at `tied`.
fn tie(vocab: usize, accepted: usize, tied: &[usize], sign: i8) -> RandomBlob {
    let shape = Shape {
        hidden: 48,
        layers: 1,
        vocab,
        accepted,
        tied: false,
        ctx: 6,
        ..Shape::default()
    };
    let mut blob = build(&shape, Style::Plausible, 12);
    let mut rng = Rng(5);
    let row: Vec<i8> = (0..48).map(|_| sign * rng.range(-127, 127) as i8).collect();
    let mut weight = vec![0i8; vocab * 48];
    for &i in tied {
        weight[i * 48..][..48].copy_from_slice(&row);
    }
    let range = blob.range("head.weight");
    blob.bytes[range].copy_from_slice(&weight.iter().map(|&w| w as u8).collect::<Vec<u8>>());
    let range = blob.range("head.consts");
    blob.bytes[range].copy_from_slice(&(psh_of(&weight, 48) as i32).to_le_bytes());
    let range = blob.range("head.mult");
    blob.bytes[range].copy_from_slice(&(1i32 << 30).to_le_bytes().repeat(vocab));
    let range = blob.range("head.shift");
    blob.bytes[range].fill(12);
    blob
}

#[test]
fn family_12_ties_give_the_lowest_index() {
    // First, middle and last; neighbours; across lanes of 8, 16 and 32, and across the shares of threads.
    for vocab in [2usize, 7, 8, 9, 31, 32, 33, 64, 65, 257] {
        let (mid, last) = (vocab / 2, vocab - 1);
        let mut sets = vec![
            vec![0, last],
            vec![mid, last],
            vec![last - 1, last],
            vec![0, mid, last],
            (0..vocab).collect(),
        ];
        for (a, b) in [(7, 8), (15, 16), (31, 32), (6, 64), (3, 200), (127, 128)] {
            if b < vocab {
                sets.push(vec![a, b]);
            }
        }
        for tied in sets {
            let mut tied = tied;
            tied.dedup();
            let mut won = 0;
            for sign in [1, -1] {
                let blob = tie(vocab, vocab, &tied, sign);
                let reference = int_reference::Model::from_blob(&blob.bytes).unwrap();
                let logits = reference.all_logits(&[1]).unwrap().remove(0);
                let (low, top) = (tied[0], logits[tied[0]]);
                assert!(
                    tied.iter().all(|&i| logits[i] == top),
                    "the tied rows have one logit"
                );
                let expected = if top > 0 || tied.len() == vocab {
                    low
                } else {
                    (0..vocab).find(|i| !tied.contains(i)).unwrap()
                };
                won += usize::from(expected == low && top > 0);
                assert_eq!(reference.argmax(&logits) as usize, expected);
                assert_eq!(argmax(&logits) as usize, expected);
                for (name, engine) in engines(&blob.bytes) {
                    let mut session = session(&engine);
                    session.feed(&[1]).unwrap();
                    assert_eq!(
                        session.greedy(),
                        Some(expected as u32),
                        "{name}: {tied:?} of {vocab}"
                    );
                    let answer =
                        generate(&mut *session, &[1], 1, &mut |_| ControlFlow::Continue(()))
                            .unwrap();
                    assert_eq!(answer.ids, [expected as u32], "{name}: {tied:?} of {vocab}");
                }
            }
            assert_eq!(won, 1, "one of the signs makes the tied rows the largest");
        }
    }
}

#[test]
fn family_12_a_tie_with_a_padding_id() {
    for (accepted, tied) in [
        (40, vec![39, 40]),
        (40, vec![10, 63]),
        (33, vec![32, 33, 40]),
        (1, vec![0, 1, 63]),
    ] {
        for sign in [1, -1] {
            let blob = tie(64, accepted, &tied, sign);
            let reference = int_reference::Model::from_blob(&blob.bytes).unwrap();
            let logits = reference.all_logits(&[0]).unwrap().remove(0);
            let expected = reference.argmax(&logits);
            assert!((expected as usize) < accepted);
            if logits[tied[0]] > 0 {
                assert_eq!(expected as usize, tied[0]);
            }
            for (name, engine) in engines(&blob.bytes) {
                let mut session = session(&engine);
                session.feed(&[0]).unwrap();
                assert_eq!(session.greedy(), Some(expected), "{name}");
            }
        }
    }
    // Only padding ids have the largest logit: the lowest accepted id among the rest.
    for sign in [1, -1] {
        let blob = tie(64, 40, &[40, 50, 63], sign);
        for (name, engine) in engines(&blob.bytes) {
            let mut session = session(&engine);
            session.feed(&[0]).unwrap();
            assert_eq!(session.greedy(), Some(0), "{name}");
        }
    }
}

#[test]
fn family_12_all_logits_equal() {
    let shape = Shape {
        vocab: 300,
        accepted: 299,
        ctx: 4,
        layers: 1,
        ..Shape::default()
    };
    let (blob, reference) = model(&shape, Style::Zero, 1);
    assert!(
        reference.all_logits(&[5]).unwrap()[0]
            .iter()
            .all(|&l| l == 0)
    );
    for (name, engine) in engines(&blob.bytes) {
        let mut session = session(&engine);
        assert_eq!(
            all_logits(&mut *session, &[5], 1),
            reference.all_logits(&[5]).unwrap(),
            "{name}"
        );
        assert_eq!(session.greedy(), Some(0), "{name}");
    }
    for len in [1, 2, 7, 8, 9, 31, 32, 33, 1000] {
        for top in [0, len / 2, len - 1] {
            let mut values = vec![i32::MIN; len];
            values[top..].fill(-7);
            assert_eq!(argmax(&values), top as u32, "{top} of {len}");
        }
    }
}
