//! Generation with drafts and without, where the answer repeats the prompt and where it does not.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use int_engine::engine::{CpuEngine, Drafter, Engine, generate, generate_speculative};
use int_engine::kernels::Kernels;

use crate::Error;
use crate::expected::check;
use crate::figures::{Key, What, Work};
use crate::rounds::Contender;
use crate::subject::Subject;

/// Tokens of an answer.
const ANSWER: usize = 96;

/// A text whose most likely continuation is a copy of what stands in it.
pub(super) const COPY: &str = "The following list of stations is read out twice.\n\n\
First reading: Ashford, Bramley, Coldharbour, Dunmore, Elmstead, Farleigh, Grantham, Hollybush, Ivybridge, Kelvedon, \
Lambourn, Marlow, Northolt, Oakham, Penrith, Quorn, Redhill, Saltburn, Thornton, Uckfield, Ventnor, Wareham, Yeovil.\n\n\
Second reading: Ashford, Bramley, Coldharbour, Dunmore, Elmstead, Farleigh, Grantham, Hollybush, Ivybridge, Kelvedon, \
Lambourn, Marlow, Northolt, Oakham, Penrith, Quorn, Redhill, Saltburn, Thornton, Uckfield, Ventnor, Wareham, Yeovil.\n\n\
Third reading: Ashford, Bramley, Coldharbour,";

/// A text of whose continuation most drafts are wrong: stories say the same few words again and go on differently.
pub(super) const NEW: &str =
    "Once upon a time, in a village by the sea, there lived an old fisherman who";

/// Adds the four contenders; `texts` are the ids of [`COPY`] and of [`NEW`].
pub(super) fn contenders<'a>(
    subject: &'a Subject,
    texts: &[Vec<u32>; 2],
    threads: NonZeroUsize,
    all: &mut Vec<Contender<'a>>,
) -> Result<(), Error> {
    let engine = CpuEngine::new(subject.model.clone(), Kernels::detect(), threads);
    let kinds = [
        (What::CopyPlain, What::CopyDrafted),
        (What::NewPlain, What::NewDrafted),
    ];
    for (prompt, (plain, drafted)) in texts.iter().zip(kinds) {
        let go_on = &mut |_| ControlFlow::Continue(());
        let mut session = engine.session()?;
        let expected = generate(&mut *session, prompt, ANSWER, go_on)?;
        let work = Work {
            tokens: expected.ids.len() as f64,
            bytes: 0.0,
            operations: 0.0,
        };
        for what in [plain, drafted] {
            let key = Key {
                what,
                subject: subject.name.clone(),
                engine: engine.backend().to_owned(),
                threads: threads.get(),
                size: ANSWER,
            };
            let (name, prompt, expected) = (key.to_string(), prompt.clone(), expected.clone());
            let mut session = engine.session()?;
            all.push(Contender::new(key, work, move |watch| {
                let go_on = &mut |_| ControlFlow::Continue(());
                let mut drafter = Drafter::new();
                let found = watch.time(|| {
                    if what == plain {
                        generate(&mut *session, &prompt, ANSWER, go_on)
                    } else {
                        generate_speculative(&mut *session, &mut drafter, &prompt, ANSWER, go_on)
                    }
                })?;
                check(&name, &found, &expected)
            }));
        }
    }
    Ok(())
}
