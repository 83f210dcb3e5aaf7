//! Generation with drafts: the ids, the ends, the calls and the sessions of plain generation.

use super::greedy::Plain;
use super::*;
use int_engine::engine::{
    Drafter, Finish, continue_greedy, continue_speculative, generate_speculative,
};
use int_engine::halt::{Error, Halt};

type OnToken<'a> = &'a mut dyn FnMut(u32) -> ControlFlow<()>;

/// What a generation shows its caller, which breaks off at the `stop_after`-th id.
fn seen(
    stop_after: usize,
    run: impl FnOnce(OnToken<'_>) -> Result<Generation, Error>,
) -> (Result<Generation, Error>, Vec<u32>) {
    let mut ids = Vec::new();
    let result = run(&mut |id| {
        ids.push(id);
        if ids.len() == stop_after {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    (result, ids)
}

/// Drafters whose drafts are right, wrong, cut short, or none that a session takes.
fn drafters(prompt: &[u32], free: &[u32]) -> Vec<Drafter> {
    let mut wrong = free.to_vec();
    for id in wrong.iter_mut().skip(3).step_by(4) {
        *id = (*id + 1) % 120;
    }
    let mut refused = free.to_vec();
    for id in refused.iter_mut().skip(2).step_by(5) {
        *id = u32::MAX;
    }
    let texts = [
        vec![],
        [prompt, free, prompt].concat(),
        [prompt, &wrong, prompt].concat(),
        [prompt, &refused, &[130], prompt].concat(),
        vec![u32::MAX; 50],
        tokens(300, 5),
    ];
    let drafter = |text: Vec<u32>| {
        let mut drafter = Drafter::new();
        drafter.extend(&text);
        drafter
    };
    texts.into_iter().map(drafter).collect()
}

#[test]
fn drafts_change_nothing() {
    let prompt = tokens(9, 0);
    let free = answer(&model(dims()), &prompt, 60).ids;
    let mut accepted = 0;
    for (max_context, stop_ids) in [
        (300, vec![]),
        (300, vec![free[30]]),
        (300, vec![prompt[3]]),
        (50, vec![]),
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
        let mut fresh = engine.session().unwrap();
        for max_new in [0, 1, 2, 7, 40, 60] {
            for stop_after in [1, 2, 20, 99] {
                let (want, calls) = seen(stop_after, |on_token| {
                    generate(&mut *session, &prompt, max_new, on_token)
                });
                let want = want.unwrap();
                for mut drafter in drafters(&prompt, &free) {
                    let sessions: [&mut dyn Session; 2] = [&mut *fresh, &mut plain];
                    for other in sessions {
                        let got = seen(stop_after, |on_token| {
                            generate_speculative(other, &mut drafter, &prompt, max_new, on_token)
                        });
                        assert_eq!(got, (Ok(want.clone()), calls.clone()));
                        let fed = want.ids.len().saturating_sub(1);
                        let held = if max_new == 0 { 0 } else { prompt.len() + fed };
                        assert_eq!(other.position(), held);
                        // The next turn is that of a plain session.
                        if held == session.position() && held > 0 && held < max_context as usize {
                            assert_eq!(other.greedy(), session.greedy());
                            assert_eq!(digest(other), digest(&mut *session));
                        }
                    }
                    accepted += drafter.stats().accepted;
                }
            }
        }
    }
    assert!(accepted > 1000, "{accepted}: drafts must be accepted");
}

#[test]
fn every_backend() {
    let model = model(dims());
    let prompt = tokens(40, 3);
    let want = answer(&model, &prompt, 200);
    for engine in engines(&model) {
        let mut session = engine.session().unwrap();
        for mut drafter in drafters(&prompt, &want.ids) {
            let (first, second) = (90, 110);
            let on_token: OnToken<'_> = &mut |_| ControlFlow::Continue(());
            let (s, d) = (&mut *session, &mut drafter);
            let mut ids = generate_speculative(s, d, &prompt, first, on_token)
                .unwrap()
                .ids;
            // A second turn that begins with the last id.
            session.feed(&ids[first - 1..]).unwrap();
            let rest = continue_speculative(&mut *session, d, second, on_token).unwrap();
            ids.extend(&rest.ids);
            assert_eq!(ids, want.ids);
        }
    }
}

#[test]
fn refused() {
    let model = model(Dims {
        max_context: 5,
        ..dims()
    });
    let mut session = engine(&model, Kernels::detect(), 1).session().unwrap();
    let drafter = &mut Drafter::new();
    let never: OnToken<'_> = &mut |_| panic!("no id");
    let result = continue_speculative(&mut *session, drafter, 4, never);
    assert_eq!(result, Err(Error::Halt(Halt::EmptyPrompt)));
    for (prompt, max_new) in [(&[][..], 3), (&[0; 6], 3), (&[120], 0)] {
        let plain = generate(&mut *session, prompt, max_new, never);
        let result = generate_speculative(&mut *session, drafter, prompt, max_new, never);
        assert!(plain.is_err());
        assert_eq!(result, plain);
    }
    let full = generate_speculative(&mut *session, drafter, &[0; 5], 3, never).unwrap();
    assert_eq!((full.ids.len(), full.finish), (0, Finish::Context));
    assert_eq!(session.position(), 5);
    let same = continue_greedy(&mut *session, 3, never).unwrap();
    assert_eq!(same, full);
}
