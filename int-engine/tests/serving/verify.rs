//! `verify`: exactly the answers that `generate` gives are right, and the first difference is named.

use super::greedy::Plain;
use super::*;
use int_engine::engine::{Finish, Verdict, continue_greedy, verify};
use int_engine::halt::{Error, Halt};

/// The verdict that follows from the answer itself.
fn expected(answer: &Generation, claimed: &[u32]) -> Verdict {
    let longest = answer.ids.len().max(claimed.len());
    let (ids, finish) = (&answer.ids, answer.finish);
    match (0..longest).find(|&i| ids.get(i) != claimed.get(i)) {
        None => Verdict::Right { finish },
        Some(index) => Verdict::Wrong {
            index,
            expected: ids.get(index).copied(),
            claimed: claimed.get(index).copied(),
        },
    }
}

/// Claims around an answer: itself, cut, continued, changed at one place.
fn claims(ids: &[u32]) -> Vec<Vec<u32>> {
    let mut all = vec![
        ids.to_vec(),
        vec![],
        [ids, &[5]].concat(),
        vec![u32::MAX; 400],
    ];
    all.push([ids, &[500; 3]].concat());
    for at in [0, 1, ids.len() / 2, ids.len().saturating_sub(1)] {
        all.push(ids[..at.min(ids.len())].to_vec());
        for wrong in [0, 119, 120, u32::MAX] {
            let mut claim = ids.to_vec();
            if let Some(id) = claim.get_mut(at) {
                *id = wrong;
            }
            all.push(claim);
        }
    }
    all
}

fn check(model: &Arc<Model>, session: &mut dyn Session, prompt: &[u32], max_new: usize) {
    let answer = answer(model, prompt, max_new);
    for claim in claims(&answer.ids) {
        let verdict = verify(session, prompt, &claim, max_new).unwrap();
        let context = format!("{prompt:?} {max_new} {claim:?}");
        assert_eq!(verdict, expected(&answer, &claim), "{context}");
        if let Verdict::Wrong {
            index,
            expected: Some(_),
            ..
        } = verdict
        {
            // The answer goes on from there.
            let go_on = &mut |_| ControlFlow::Continue(());
            let rest = continue_greedy(session, max_new - index, go_on).unwrap();
            assert_eq!(rest.ids, answer.ids[index..], "{context}");
            assert_eq!(rest.finish, answer.finish, "{context}");
        }
        let held = match answer.ids.len() {
            0 => 0,
            n => prompt.len() + n - 1,
        };
        assert_eq!(session.position(), held, "{context}");
    }
}

#[test]
fn every_end_of_an_answer() {
    let prompt = tokens(9, 0);
    let free = answer(&model(dims()), &prompt, 20).ids;
    for (max_context, stop_ids) in [
        (300, vec![]),
        (300, vec![free[7]]),
        (300, vec![prompt[3]]),
        (300, vec![free[0]]),
        (14, vec![]),
        (14, vec![free[4]]),
        (10, vec![]),
        (9, vec![]),
    ] {
        let model = model(Dims {
            max_context,
            stop_ids,
            ..dims()
        });
        let engine = engine(&model, Kernels::detect(), 2);
        let mut plain = Plain::new(engine.session().unwrap());
        let mut session = engine.session().unwrap();
        for max_new in [0, 1, 5, 6, 20, usize::MAX] {
            // A free generation may take the whole context.
            if max_new == usize::MAX && max_context == 300 {
                continue;
            }
            check(&model, &mut *session, &prompt, max_new);
            check(&model, &mut plain, &prompt, max_new);
        }
    }
}

#[test]
fn long_claims_on_every_backend() {
    let model = model(dims());
    let prompt = tokens(100, 3);
    for engine in engines(&model) {
        let mut session = engine.session().unwrap();
        check(&model, &mut *session, &prompt, 150);
    }
}

#[test]
fn refused_prompts() {
    let model = model(Dims {
        max_context: 5,
        ..dims()
    });
    let mut session = engine(&model, Kernels::detect(), 1).session().unwrap();
    let mut run = |prompt: &[u32], claimed: &[u32]| verify(&mut *session, prompt, claimed, 4);
    assert_eq!(run(&[], &[1]), Err(Error::Halt(Halt::EmptyPrompt)));
    let refused = Halt::ContextExceeded { len: 6, max: 5 };
    assert_eq!(run(&[999; 6], &[]), Err(Error::Halt(refused)));
    let refused = Halt::TokenOutOfRange {
        position: 1,
        id: 120,
        accepted: 120,
    };
    assert_eq!(run(&[1, 120], &[]), Err(Error::Halt(refused)));
    // A full context has an empty answer.
    let finish = Finish::Context;
    assert_eq!(run(&[1; 5], &[]), Ok(Verdict::Right { finish }));
}
