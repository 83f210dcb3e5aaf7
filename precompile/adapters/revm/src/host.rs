//! The registry's storage through revm's journal.

use crate::rules::saturated;
use precompile::word::Word;
use precompile::{Fault, Host, REGISTRY};
use revm::context::{Block, ContextTr, JournalTr};
use revm::primitives::{Address, B256, Log, LogData, U256};

/// The registry's address.
pub(crate) const ADDRESS: Address = Address::new(REGISTRY);

/// An event of the registry as the EVM records it.
#[must_use]
pub fn event(topics: Vec<Word>, data: Vec<u8>) -> Log {
    let topics = topics.into_iter().map(B256::new).collect();
    Log {
        address: ADDRESS,
        data: LogData::new_unchecked(topics, data.into()),
    }
}

/// A fault of the chain's state.
pub fn state_fault(error: impl std::fmt::Display) -> Fault {
    Fault::State(error.to_string())
}

/// A context of revm as the core sees it.
pub(crate) struct Journaled<'a, CTX>(pub(crate) &'a mut CTX);

impl<CTX: ContextTr> Journaled<'_, CTX> {
    /// The journal, with the registry's account loaded: it knows no storage of others.
    fn journal(&mut self) -> Result<&mut CTX::Journal, Fault> {
        let journal = self.0.journal_mut();
        journal.load_account(ADDRESS).map_err(state_fault)?;
        Ok(journal)
    }
}

impl<CTX: ContextTr> Host for Journaled<'_, CTX> {
    fn block_number(&self) -> u64 {
        saturated(self.0.block().number())
    }

    fn read(&mut self, key: &Word) -> Result<Word, Fault> {
        let key = U256::from_be_bytes(*key);
        let value = self.journal()?.sload(ADDRESS, key).map_err(state_fault)?;
        Ok(value.data.to_be_bytes())
    }

    fn write(&mut self, key: &Word, value: &Word) -> Result<(), Fault> {
        let (key, value) = (U256::from_be_bytes(*key), U256::from_be_bytes(*value));
        let journal = self.journal()?;
        journal.touch_account(ADDRESS);
        journal.sstore(ADDRESS, key, value).map_err(state_fault)?;
        Ok(())
    }

    fn log(&mut self, topics: Vec<Word>, data: Vec<u8>) {
        self.0.journal_mut().log(event(topics, data));
    }
}
