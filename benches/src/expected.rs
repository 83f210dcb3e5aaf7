//! The right results of what is timed, each computed once, by another path and with other kernels where that is cheap.

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

/// Computes expected results of a subject.
pub struct Reference<'a> {
    subject: &'a Subject,
    best: CpuEngine,
    other: CpuEngine,
}

impl<'a> Reference<'a> {
    /// With the fastest kernels, and the fastest but one where there are several.
    #[must_use]
    pub fn new(subject: &'a Subject, threads: std::num::NonZeroUsize) -> Self {
        let best = Kernels::detect();
        let present = Kernels::all()
            .into_iter()
            .rev()
            .filter_map(|(_, kernels)| kernels);
        let other = present
            .into_iter()
            .find(|k| k.name != best.name)
            .unwrap_or(best);
        let engine = |kernels| CpuEngine::new(subject.model.clone(), kernels, threads);
        Self {
            subject,
            best: engine(best),
            other: engine(other),
        }
    }

    fn engine(&self, tokens: usize) -> &CpuEngine {
        if tokens <= CHEAP {
            &self.other
        } else {
            &self.best
        }
    }

    fn session(&self, tokens: usize) -> Result<Box<dyn Session>, Error> {
        Ok(self.engine(tokens).session()?)
    }

    /// The result of a prompt of `tokens` tokens, fed in pieces.
    ///
    /// # Errors
    /// The session's.
    pub fn prefill(&self, tokens: usize) -> Result<Expected, Error> {
        let mut session = self.session(tokens)?;
        for piece in self.subject.prompt(tokens).chunks(PIECE) {
            session.feed(piece)?;
        }
        Ok(Expected {
            ids: session.greedy().into_iter().collect(),
            digest: digest(&mut *session),
        })
    }

    /// The result of `tokens` decode steps after `context` tokens. The tokens that come out are fed again, in pieces
    /// with the prompt, and must give the same logits.
    ///
    /// # Errors
    /// The session's, and [`Error::Wrong`] when the two ways differ.
    pub fn decode(&self, context: usize, tokens: usize) -> Result<Expected, Error> {
        let mut session = self.session(context)?;
        session.feed(&self.subject.prompt(context))?;
        let first = self.subject.token_at(context);
        let ids = decode(&mut *session, first, tokens)?;
        let stepped = digest(&mut *session);
        session.reset();
        let mut all = self.subject.prompt(context + 1);
        all.extend(&ids[..tokens - 1]);
        for piece in all.chunks(PIECE) {
            session.feed(piece)?;
        }
        check("prefill of decoded tokens", digest(&mut *session), stepped)?;
        Ok(Expected {
            ids,
            digest: stepped,
        })
    }
}
