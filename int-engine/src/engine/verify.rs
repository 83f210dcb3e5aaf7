//! Whether an answer is the right one, for a small part of the price of generating it.

use super::{Finish, Session, check_tokens};
use crate::halt::{Error, try_reserve};
use std::ops::ControlFlow;

/// What [`verify`] finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The claim is the answer.
    Right {
        /// Why the answer ends.
        finish: Finish,
    },
    /// The answer is another one; it begins with the first `index` ids of the claim.
    Wrong {
        /// The first index at which the two differ.
        index: usize,
        /// The answer's id there; `None` where the answer has ended.
        expected: Option<u32>,
        /// The claim's id there; `None` where the claim has ended.
        claimed: Option<u32>,
    },
}

/// Whether `claimed` is exactly what [`super::generate`] answers for `prompt` and `max_new`: no id more, no id less.
///
/// The claim is fed like a prompt, in passes over many tokens, and the greedy ids are compared position by position;
/// the first difference ends it. `session` is reset first. Afterwards it holds the prompt and the ids of the claim that
/// are right, but not the answer's last one: after a difference at an id, [`super::continue_greedy`] goes on with the
/// answer from there. When the answer is empty the session is empty.
///
/// # Errors
/// As [`super::generate`]: the [`crate::halt::Halt`]s that the prompt leads to, or a [`crate::halt::Fault`]. No claim is
/// an error, whatever ids it holds.
pub fn verify(
    session: &mut dyn Session,
    prompt: &[u32],
    claimed: &[u32],
    max_new: usize,
) -> Result<Verdict, Error> {
    session.reset();
    check_tokens(session.config(), 0, prompt)?;
    let config = session.config();
    let room = config.max_context() - prompt.len();
    let mut end = room.min(max_new);
    let mut finish = if max_new <= room {
        Finish::Length
    } else {
        Finish::Context
    };
    let within = &claimed[..claimed.len().min(end)];
    if let Some(i) = within.iter().position(|id| config.stop_ids().contains(id)) {
        (end, finish) = (i + 1, Finish::Stop);
    }
    // The claim is right if it agrees with the answer up to here, and ends here.
    let wrong = |index: usize, expected| Verdict::Wrong {
        index,
        expected,
        claimed: claimed.get(index).copied(),
    };
    // Ids of the answer to find, the last one without feeding it. An id that cannot be fed is wrong.
    let needed = end.min(claimed.len() + 1);
    let accepted = config.accepted_ids();
    let fed = &claimed[..needed.saturating_sub(1)];
    let fed = fed.iter().take_while(|&&id| (id as usize) < accepted);
    let mut tokens = Vec::new();
    try_reserve(&mut tokens, prompt.len() + needed, "the claim")?;
    tokens.extend_from_slice(prompt);
    tokens.extend(fed);
    let mut found = None;
    if needed > 0 {
        let from = prompt.len() - 1;
        session.feed_greedy(&tokens, from, &mut |position, id| {
            let index = position - from;
            if claimed.get(index) == Some(&id) {
                return ControlFlow::Continue(());
            }
            found = Some(wrong(index, Some(id)));
            ControlFlow::Break(())
        })?;
    }
    Ok(match found {
        Some(verdict) => verdict,
        None if claimed.len() > end => wrong(end, None),
        None => Verdict::Right { finish },
    })
}
