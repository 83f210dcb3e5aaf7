//! From a blob's bytes to what may be said of its commitment (spec 6.9).

use crate::host::Lookup;
use crate::refusal::Fault;
use int_engine::blob::{LoadError, Loader};
use int_engine::commitment::{Commitment, Tree};
use int_engine::engine::Engine;
use int_engine::model::Model;
use int_engine::read::ReadAt;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// The model of the `len` bytes of `source`, read by at most `threads` threads; `None` when section 4 refuses the bytes of the
/// commitment.
///
/// A loader that refuses bytes has not yet said whose bytes they are: a damaged copy of a good blob is refused like a blob
/// that was never good. Only bytes that hash to the commitment speak for it. So this hashes all of them before it answers
/// `None`, which every node answers or none.
///
/// # Errors
/// [`Fault::Missing`] when the bytes cannot be read or are not those of the commitment, [`Fault::Engine`] when this machine
/// lacks something.
pub fn load<S: ReadAt + ?Sized>(
    commitment: Commitment,
    source: &S,
    len: u64,
    threads: NonZeroUsize,
) -> Result<Option<Model>, Fault> {
    let missing = |reason: String| Fault::Missing { commitment, reason };
    let loaded = Loader::new()
        .expect(commitment)
        .load(source, len, threads, |_| ());
    let refused = match loaded {
        Ok(model) => return Ok(Some(model)),
        Err(LoadError::Fault(fault)) => return Err(fault.into()),
        Err(LoadError::Read(error)) => return Err(missing(error.to_string())),
        Err(LoadError::Blob(refused)) => refused,
    };
    let tree = Tree::read(source, len, threads, |_| ()).map_err(|e| missing(e.to_string()))?;
    let found = tree.commitment();
    if found == commitment {
        return Ok(None);
    }
    Err(missing(format!(
        "the bytes are those of {found}: {refused}"
    )))
}

/// [`load`] as what [`crate::Models`] answers; `start` makes an engine of the model.
///
/// # Errors
/// Those of [`load`].
pub fn lookup<S: ReadAt + ?Sized>(
    commitment: Commitment,
    source: &S,
    len: u64,
    threads: NonZeroUsize,
    start: impl FnOnce(Model) -> Arc<dyn Engine>,
) -> Result<Lookup, Fault> {
    let model = load(commitment, source, len, threads)?;
    Ok(model.map_or(Lookup::Refused, |model| Lookup::Ready(start(model))))
}
