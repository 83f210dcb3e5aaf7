//! The right results of what is timed, each computed once, by another path and with other kernels where that is cheap.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use int_engine::engine::{CpuEngine, Engine, Session, logits_digest};
use int_engine::kernels::Kernels;

use crate::Error;
use crate::subject::Subject;

/// Longest prompt that is computed with other kernels than the ones that are timed first.
const CHEAP: usize = 256;
/// Tokens that are fed at a time where the timed path feeds all at once: not a multiple of any block size in use.
const PIECE: usize = 67;

/// Ids in order, and the digest of the logits after the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// What the model generates.
    pub ids: Vec<u32>,
    /// Digest of the logits from which the last id follows.
    pub digest: [u8; 32],
}

/// Decodes `tokens` ids, beginning with `first` as the input.
///
/// # Errors
/// The session's.
pub fn decode(session: &mut dyn Session, first: u32, tokens: usize) -> Result<Vec<u32>, Error> {
    let mut ids = Vec::with_capacity(tokens);
    let mut next = first;
    for _ in 0..tokens {
        session.feed(&[next])?;
        next = session.greedy().unwrap_or_default();
        ids.push(next);
    }
    Ok(ids)
}

/// The digest of a session's logits; zeros when there are none.
pub fn digest(session: &mut dyn Session) -> [u8; 32] {
    session.logits().map_or([0; 32], logits_digest)
}

/// Says whether a result is the expected one.
///
/// # Errors
/// [`Error::Wrong`] when it is not.
pub fn check<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Wrong {
        what: what.to_owned(),
        expected: format!("{expected:?}"),
        found: format!("{found:?}"),
    })
}

/// Expected results of a subject by size: of decode after so many tokens, of a prompt of so many tokens.
#[derive(Debug, Default)]
pub struct Table {
    /// Of `STEPS` decode steps; they begin with the token of the position as the input.
    pub decode: BTreeMap<usize, Expected>,
    /// Of a prompt: the first id.
    pub prefill: BTreeMap<usize, Expected>,
}

impl Table {
    /// Computes the results after the contexts and the prompts of these sizes.
    ///
    /// One session walks through all sizes, fed in pieces, with the fastest kernels but one as far as that is cheap, and
    /// with the fastest after that. What is timed is fed at once, in other blocks.
    ///
    /// # Errors
    /// The session's, and [`Error::Wrong`] when decode and prefill of the same tokens differ.
    pub fn new(
        subject: &Subject,
        threads: NonZeroUsize,
        contexts: &[usize],
        steps: usize,
        lengths: &[usize],
    ) -> Result<Self, Error> {
        let best = Kernels::detect();
        let present = Kernels::all()
            .into_iter()
            .rev()
            .filter_map(|(_, kernels)| kernels);
        let other = present
            .into_iter()
            .find(|k| k.name != best.name)
            .unwrap_or(best);
        let mut sizes: Vec<usize> = contexts.iter().chain(lengths).copied().collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut table = Self::default();
        let cheap = sizes.partition_point(|&size| size <= CHEAP);
        for (kernels, sizes) in [(other, &sizes[..cheap]), (best, &sizes[cheap..])] {
            let engine = CpuEngine::new(subject.model.clone(), kernels, threads);
            let mut session = engine.session()?;
            for &size in sizes {
                let fed = session.position();
                for piece in subject.prompt(size)[fed..].chunks(PIECE) {
                    session.feed(piece)?;
                }
                if lengths.contains(&size) {
                    let expected = Expected {
                        ids: session.greedy().into_iter().collect(),
                        digest: digest(&mut *session),
                    };
                    table.prefill.insert(size, expected);
                }
                if contexts.contains(&size) {
                    let expected = after(&mut *session, subject.token_at(size), steps)?;
                    session.truncate(size);
                    table.decode.insert(size, expected);
                }
            }
        }
        Ok(table)
    }
}

/// Decodes, and feeds the tokens that come out again at once: the same logits must follow.
fn after(session: &mut dyn Session, first: u32, steps: usize) -> Result<Expected, Error> {
    let context = session.position();
    let ids = decode(session, first, steps)?;
    let stepped = digest(session);
    session.truncate(context);
    let mut all = vec![first];
    all.extend(&ids[..ids.len() - 1]);
    session.feed(&all)?;
    check("prefill of decoded tokens", digest(session), stepped)?;
    Ok(Expected {
        ids,
        digest: stepped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{blob, tests::small};

    #[test]
    fn sizes_are_independent_of_each_other() {
        let subject = Subject::new("small", &blob(&small(true, true)).unwrap()).unwrap();
        let table = |contexts: &[usize], lengths: &[usize]| {
            Table::new(&subject, NonZeroUsize::MIN, contexts, 4, lengths).unwrap()
        };
        let all = table(&[3, 70, 300], &[3, 300]);
        assert_eq!(all.decode[&70], table(&[70], &[]).decode[&70]);
        assert_eq!(all.decode[&300], table(&[300], &[]).decode[&300]);
        assert_eq!(all.prefill[&300], table(&[], &[300]).prefill[&300]);
        assert_eq!(all.prefill[&3].ids.len(), 1);
        let wrong = check("x", 1, 2).unwrap_err().to_string();
        assert_eq!(wrong, "x: the result is 1, must be 2");
    }
}
