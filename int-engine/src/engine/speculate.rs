//! Greedy generation with drafts: several ids of the answer in one pass over the weights where a draft is right.

use super::{Drafter, Finish, Generation, Session, begin, no_greedy_id};
use crate::halt::{Error, Halt, try_reserve};
use std::ops::ControlFlow;

/// As [`super::generate`], with the same answer, drafting from the prompt and the answer.
///
/// `drafter` may have seen any text before, of which only speed depends.
///
/// # Errors
/// As [`super::generate`].
pub fn generate_speculative(
    session: &mut dyn Session,
    drafter: &mut Drafter,
    prompt: &[u32],
    max_new: usize,
    on_token: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<Generation, Error> {
    if let Some(answer) = begin(session, prompt, max_new)? {
        return Ok(answer);
    }
    drafter.extend(prompt);
    continue_speculative(session, drafter, max_new, on_token)
}

/// As [`super::continue_greedy`]: the same answer, `on_token` sees the same ids in the same order and may break off at
/// any, and the session ends with the same tokens.
///
/// `drafter` drafts best when it has seen the tokens that the session holds; it sees the answer's ids as they come. A
/// draft and the id before it take one pass ([`Session::feed_greedy`]); what is wrong in it leaves no trace. How long
/// drafts are follows from how right they were, and where none are right few are tried.
///
/// # Errors
/// As [`super::continue_greedy`].
///
/// # Panics
/// As [`super::continue_greedy`].
pub fn continue_speculative(
    session: &mut dyn Session,
    drafter: &mut Drafter,
    max_new: usize,
    on_token: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<Generation, Error> {
    let config = session.config();
    let (accepted, stop_ids) = (config.accepted_ids(), config.stop_ids().to_vec());
    let (prompt_len, max_context) = (session.position(), config.max_context());
    if prompt_len == 0 {
        return Err(Halt::EmptyPrompt.into());
    }
    let room = max_context - prompt_len;
    let mut ids = Vec::new();
    if max_new == 0 || room == 0 {
        let finish = if max_new == 0 {
            Finish::Length
        } else {
            Finish::Context
        };
        return Ok(Generation { ids, finish });
    }
    // Takes the next id; why it is the last one, when it is.
    let mut take = |ids: &mut Vec<u32>, id: u32| {
        ids.push(id);
        let flow = on_token(id);
        if stop_ids.contains(&id) {
            Some(Finish::Stop)
        } else if ids.len() == max_new {
            Some(Finish::Length)
        } else if flow.is_break() {
            Some(Finish::Interrupted)
        } else if ids.len() == room {
            Some(Finish::Context)
        } else {
            None
        }
    };
    try_reserve(&mut ids, max_new.min(room), "an answer")?;
    let mut last = session.try_greedy()?.expect("a fed session has logits");
    let mut finish = take(&mut ids, last);
    drafter.extend(&[last]);
    let mut tokens = Vec::new();
    loop {
        if let Some(finish) = finish {
            return Ok(Generation { ids, finish });
        }
        tokens.clear();
        tokens.push(last);
        let left = max_new.min(room) - ids.len();
        drafter.draft(left - 1, accepted, &mut tokens);
        let (first, mut right) = (ids.len(), 0);
        session.feed_greedy(&tokens, 0, &mut |_, id| {
            finish = take(&mut ids, id);
            if finish.is_none() && tokens.get(right + 1) == Some(&id) {
                right += 1;
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        let new = &ids[first..];
        last = *new.last().ok_or_else(no_greedy_id)?;
        drafter.extend(new);
        drafter.learn(right, finish.is_some());
    }
}
