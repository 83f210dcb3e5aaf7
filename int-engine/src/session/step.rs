//! One step of several sessions: their tokens share the passes over the weights and the head.

use super::pass::{PASS_TOKENS, Pass, Run};
use super::plan::Plan;
use super::{CpuSession, GREEDY_TOKENS, Last};
use crate::engine::{Feed, check_tokens};
use crate::halt::StepError;
use std::sync::Arc;

/// A feed whose session is one of the engine's.
struct Member<'a> {
    session: &'a mut CpuSession,
    /// Tokens left to compute.
    tokens: &'a [u32],
    /// Tokens in the pass that is running.
    taken: usize,
    greedy: bool,
    next: &'a mut Option<u32>,
}

/// [`crate::engine::Engine::step`] for the sessions of `plan`.
pub(crate) fn step(plan: &Arc<Plan>, feeds: &mut [Feed<'_>]) -> Result<(), StepError> {
    let mut members = Vec::new();
    for (index, feed) in feeds.iter_mut().enumerate() {
        let any = feed.session.as_any_mut();
        let session = any
            .and_then(|any| any.downcast_mut::<CpuSession>())
            .filter(|session| Arc::ptr_eq(&session.plan, plan))
            .ok_or(StepError::Foreign { index })?;
        check_tokens(plan.model.config(), session.position, feed.tokens)
            .map_err(|halt| StepError::Refused { index, halt })?;
        members.push(Member {
            session,
            tokens: feed.tokens,
            taken: 0,
            greedy: feed.greedy,
            next: &mut feed.next,
        });
    }
    let mut pass = plan.take_pass();
    let result = admit(plan, &mut pass, &mut members);
    if result.is_ok() {
        advance(plan, &mut pass, &mut members);
        search(plan, &mut pass, &mut members);
    }
    plan.give_back(pass);
    result
}

/// Makes all room, then lets every session take the shared pages that it can begin with.
fn admit(plan: &Plan, pass: &mut Pass, members: &mut [Member<'_>]) -> Result<(), StepError> {
    let (mut prepared, mut tokens) = (Vec::new(), 0);
    for (index, m) in members.iter_mut().enumerate() {
        let reusable = m.tokens.len().saturating_sub(1);
        let own = m.session.prepare(m.tokens, reusable);
        let own = own.map_err(|fault| StepError::of(index, fault.into()))?;
        tokens += m.tokens.len() - own.reused;
        prepared.push(own);
    }
    reserve(plan, pass, tokens.min(PASS_TOKENS), members)?;
    let greedy = members.iter().filter(|m| m.greedy).count();
    pass.head.reserve_greedy(plan, greedy.min(GREEDY_TOKENS))?;
    for (m, own) in members.iter_mut().zip(prepared) {
        m.tokens = m.session.commit(own, m.tokens);
    }
    Ok(())
}

/// Makes room in the pass. Where there is too little, it is the fault of the first feed, in the order of the keys that
/// they see, that sees too many; where already the fewest are too many, of the one that sees the most, unless a single
/// key is too many.
fn reserve(
    plan: &Plan,
    pass: &mut Pass,
    tokens: usize,
    members: &[Member<'_>],
) -> Result<(), StepError> {
    let keys = |m: &Member<'_>| m.session.position + m.tokens.len();
    let most = members.iter().map(keys).max().unwrap_or(0);
    let Err(fault) = pass.reserve(plan, tokens, most) else {
        return Ok(());
    };
    let mut order: Vec<_> = members.iter().map(keys).enumerate().collect();
    order.sort_by_key(|&(_, keys)| keys);
    let fewest = order.first().map_or(0, |&(_, keys)| keys);
    let last = order.last().map(|&(i, _)| i);
    let mut index = None;
    for (i, keys) in order {
        if pass.reserve(plan, tokens, keys).is_err() {
            index = if keys > fewest {
                Some(i)
            } else if pass.reserve(plan, tokens, 1).is_ok() {
                last
            } else {
                None
            };
            break;
        }
    }
    Err(StepError::Fault { index, fault })
}

/// Computes the tokens of all, in passes that are as full as they can be.
fn advance(plan: &Plan, pass: &mut Pass, members: &mut [Member<'_>]) {
    let n = plan.model.config().hidden();
    loop {
        let (mut room, mut runs) = (PASS_TOKENS, Vec::new());
        for m in &mut *members {
            m.taken = room.min(m.tokens.len());
            room -= m.taken;
            if m.taken > 0 {
                runs.push(Run {
                    cache: &mut m.session.cache,
                    first: m.session.position,
                    ids: &m.tokens[..m.taken],
                });
            }
        }
        if runs.is_empty() {
            break;
        }
        pass.forward::<false>(plan, &mut runs, None, &mut |_| {});
        let mut rows = pass.residual(plan, PASS_TOKENS - room);
        for m in &mut *members {
            let (own, after) = rows.split_at(m.taken * n);
            let (ids, left) = m.tokens.split_at(m.taken);
            if !ids.is_empty() {
                m.session.advance(ids, &own[own.len() - n..]);
            }
            (rows, m.tokens) = (after, left);
        }
    }
    for m in members {
        m.session.record();
    }
}

/// The greedy ids that are asked for.
fn search(plan: &Plan, pass: &mut Pass, members: &mut [Member<'_>]) {
    let mut open = Vec::new();
    for m in members {
        *m.next = None;
        if m.greedy && m.session.last != Last::None {
            match m.session.next {
                Some(id) => *m.next = Some(id),
                None => open.push(m),
            }
        }
    }
    for members in open.chunks_mut(GREEDY_TOKENS) {
        pass.head.clear();
        for m in &*members {
            let session = &*m.session;
            pass.head
                .push::<false>(plan, session.position - 1, &session.residual);
        }
        for (m, &id) in members.iter_mut().zip(pass.head.greedy(plan)) {
            m.session.next = Some(id);
            *m.next = Some(id);
        }
    }
}
