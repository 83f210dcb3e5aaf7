//! From a blob's bytes to what may be said of its commitment (spec 6.9).

use crate::host::Lookup;
use crate::refusal::Fault;
use int_engine::blob::{BlobError, LoadError, Loader};
use int_engine::commitment::{CHUNK, Commitment, Hasher};
use int_engine::engine::Engine;
use int_engine::model::Model;
use int_engine::read::{ReadAt, read_exact};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// The model of the `len` bytes of `source`, read by at most `threads` threads; `None` when section 4 refuses the bytes of the
/// commitment.
///
/// A loader that refuses bytes has not yet said whose bytes they are: a damaged copy of a good blob is refused like a blob
/// that was never good. Only bytes that hash to the commitment speak for it. So before it answers `None`, which every node
/// answers or none, this reads them again, and hashes and loads them in that one reading.
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
    match loaded {
        Ok(model) => Ok(Some(model)),
        Err(LoadError::Fault(fault)) => Err(fault.into()),
        Err(LoadError::Read(error)) => Err(missing(error.to_string())),
        Err(LoadError::Blob(refused)) => reread(commitment, source, len, &refused),
    }
}

/// Bytes of a piece: chunks of the commitment.
const PIECE: usize = 8 * CHUNK;

/// What the bytes of a source say that has been refused once. They may not be the same this time: a memory or a bus may have
/// failed, or the file been replaced. So what speaks for the commitment is hashed and loaded in one reading.
fn reread<S: ReadAt + ?Sized>(
    commitment: Commitment,
    source: &S,
    len: u64,
    before: &BlobError,
) -> Result<Option<Model>, Fault> {
    let missing = |reason: String| Fault::Missing { commitment, reason };
    let (mut hasher, mut loader) = (Hasher::new(), Loader::new());
    let mut refused = None;
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < len {
        let piece = &mut piece[..(len - at).min(PIECE as u64) as usize];
        read_exact(source, piece, at).map_err(|error| missing(error.to_string()))?;
        hasher.update(piece);
        if refused.is_none() {
            match loader.push(piece) {
                Ok(()) => {}
                Err(LoadError::Blob(error)) => refused = Some(error),
                Err(LoadError::Fault(fault)) => return Err(fault.into()),
                Err(LoadError::Read(error)) => return Err(missing(error.to_string())),
            }
        }
        at += piece.len() as u64;
    }
    let found = hasher.finish().commitment();
    if found != commitment {
        return Err(missing(format!("the bytes are those of {found}: {before}")));
    }
    if refused.is_some() {
        return Ok(None);
    }
    match loader.finish() {
        Ok(model) => Ok(Some(model)),
        Err(LoadError::Blob(_)) => Ok(None),
        Err(LoadError::Fault(fault)) => Err(fault.into()),
        Err(LoadError::Read(error)) => Err(missing(error.to_string())),
    }
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
