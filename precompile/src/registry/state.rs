//! Typed reads of the registry's storage (spec 6.4), for its functions, nodes and tools.

use super::votes::Governance;
use crate::host::Host;
use crate::record;
use crate::refusal::Fault;
use crate::slots;
use crate::word::{Pack, Unpack, Word, ZERO, to_u64};
use int_engine::commitment::Commitment;

/// Words of the registry's storage in some state: that of a block, or the one that is executed.
pub trait Storage {
    /// The word of a key, zero where nothing was written.
    ///
    /// # Errors
    /// When the state cannot be read.
    fn word(&mut self, key: &Word) -> Result<Word, Fault>;
}

impl<F: FnMut(&Word) -> Result<Word, Fault>> Storage for F {
    fn word(&mut self, key: &Word) -> Result<Word, Fault> {
        self(key)
    }
}

impl Storage for dyn Host + '_ {
    fn word(&mut self, key: &Word) -> Result<Word, Fault> {
        self.read(key)
    }
}

/// What waits for activation under a name.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pending {
    /// The version, 0 for nothing.
    pub version: u64,
    /// The commitment.
    pub commitment: Word,
    /// The first block in which it can be activated.
    pub block: u64,
}

impl Pending {
    pub(super) fn save(&self, host: &mut dyn Host, name: &Word) -> Result<(), Fault> {
        let word = Pack::default().field(self.version, 8).field(self.block, 8);
        host.write(&slots::pending(name, 0), &word.word())?;
        host.write(&slots::pending(name, 1), &self.commitment)
    }

    pub(super) fn is(&self, version: u64) -> bool {
        version != 0 && self.version == version
    }
}

/// One activation of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Activation {
    /// The name.
    pub name: Word,
    /// The version.
    pub version: u64,
    /// The commitment.
    pub commitment: Word,
    /// The block.
    pub block: u64,
}

/// The governance word; zeros where there is none.
///
/// # Errors
/// When the state cannot be read.
pub fn governance<S: Storage + ?Sized>(state: &mut S) -> Result<Governance, Fault> {
    Ok(Governance::of_word(&state.word(&slots::governance())?))
}

/// What inference serves under a name.
///
/// # Errors
/// When the state cannot be read.
pub fn served<S: Storage + ?Sized>(
    state: &mut S,
    name: &Word,
) -> Result<Option<Commitment>, Fault> {
    let word = state.word(&slots::served(name))?;
    Ok((word != ZERO).then_some(Commitment(word)))
}

/// What waits under a name.
///
/// # Errors
/// When the state cannot be read.
pub fn pending<S: Storage + ?Sized>(state: &mut S, name: &Word) -> Result<Pending, Fault> {
    let word = state.word(&slots::pending(name, 0))?;
    let mut fields = Unpack::new(&word);
    Ok(Pending {
        version: fields.field(8),
        block: fields.field(8),
        commitment: state.word(&slots::pending(name, 1))?,
    })
}

/// Length of the list of activations.
///
/// # Errors
/// When the state cannot be read.
pub fn activation_count<S: Storage + ?Sized>(state: &mut S) -> Result<u64, Fault> {
    Ok(to_u64(&state.word(&slots::activation_count())?).unwrap_or(u64::MAX))
}

/// Activation `index`; zeros from the list's length on.
///
/// # Errors
/// When the state cannot be read.
pub fn activation<S: Storage + ?Sized>(state: &mut S, index: u64) -> Result<Activation, Fault> {
    let mut part = |part| state.word(&slots::activation(index, part));
    let (name, commitment, when) = (part(0)?, part(1)?, part(2)?);
    let mut when = Unpack::new(&when);
    Ok(Activation {
        name,
        commitment,
        version: when.field(8),
        block: when.field(8),
    })
}

/// Length in bytes of the blob of a commitment whose record the registry holds.
///
/// # Errors
/// When the state cannot be read.
pub fn blob_len<S: Storage + ?Sized>(
    state: &mut S,
    commitment: &Commitment,
) -> Result<Option<u64>, Fault> {
    let word = state.word(&slots::record(&commitment.0, 1))?;
    Ok((word != ZERO).then(|| record::total_len(&word)))
}
