//! The state as the EVM reads it, and as a block's transactions change it.

use super::{Account, Change, State};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, keccak256};
use revm::bytecode::Bytecode;
use revm::database_interface::{DBErrorMarker, Database};
use revm::state::{AccountInfo, EvmState};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The state could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(pub(crate) String);

impl DBErrorMarker for Unreadable {}

/// Hashes of earlier blocks by number.
pub(crate) type Hashes<'a> = &'a dyn Fn(u64) -> Result<B256, Unreadable>;

/// A state for the EVM, with the hashes of blocks.
pub(crate) struct View<'a> {
    pub(crate) state: &'a State,
    pub(crate) hashes: Hashes<'a>,
}

impl Database for View<'_> {
    type Error = Unreadable;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Unreadable> {
        let info = |account: &Account| {
            AccountInfo::new(
                account.balance,
                account.nonce,
                account.code_hash,
                account.code.clone(),
            )
        };
        Ok(self.state.account(&address).map(info))
    }

    fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, Unreadable> {
        // Every account comes with its code.
        Err(Unreadable(format!(
            "the code of hash {hash} was asked for alone"
        )))
    }

    fn storage(&mut self, address: Address, key: U256) -> Result<U256, Unreadable> {
        Ok(self.state.word(&address, key))
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Unreadable> {
        (self.hashes)(number)
    }
}

#[derive(Default)]
struct Touched {
    before: Option<Arc<Account>>,
    words: BTreeSet<B256>,
}

/// A state that a block's transactions change one after the other.
pub(crate) struct Pending {
    state: State,
    touched: BTreeMap<B256, Touched>,
}

impl Pending {
    pub(crate) fn new(state: State) -> Self {
        Self {
            state,
            touched: BTreeMap::new(),
        }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Takes over what a transaction did.
    ///
    /// # Errors
    /// When an account is given the hash of a code without the code.
    pub(crate) fn commit(&mut self, changes: EvmState) -> Result<(), Unreadable> {
        // Sorted, so that nothing depends on the order of a hash map.
        let changes: BTreeMap<_, _> = changes.into_iter().collect();
        for (address, change) in changes {
            if !change.is_touched() {
                continue;
            }
            let key = keccak256(address);
            let now = self.state.by_key(&key).cloned();
            let touched = self.touched.entry(key).or_insert_with(|| Touched {
                before: now.clone(),
                ..Touched::default()
            });
            // EIP-161: an empty account is none. A contract goes only with the transaction that made it.
            if change.is_selfdestructed() || change.info.is_empty() {
                if let Some(now) = &now {
                    touched.words.extend(now.words().map(|(key, _)| key));
                }
                self.state.0.remove(&key);
                continue;
            }
            let info = change.info;
            let mut account = now.map_or_else(
                || Account::new(0, U256::ZERO, Default::default()),
                |now| (*now).clone(),
            );
            (account.nonce, account.balance) = (info.nonce, info.balance);
            if account.code_hash != info.code_hash {
                account.code_hash = info.code_hash;
                account.code = match info.code {
                    Some(code) => code,
                    None if info.code_hash == KECCAK256_EMPTY => Bytecode::default(),
                    None => {
                        let hash = info.code_hash;
                        let said = format!("account {address} has code {hash}, which is not there");
                        return Err(Unreadable(said));
                    }
                };
            }
            for (slot, value) in change.storage {
                if value.is_changed() {
                    let key = keccak256(slot.to_be_bytes::<32>());
                    touched.words.insert(key);
                    account.set_word(key, value.present_value());
                }
            }
            self.state.0.insert(key, Arc::new(account));
        }
        Ok(())
    }

    /// The state with the roots of its storages, and what changed.
    pub(crate) fn settle(mut self) -> (State, Vec<Change>) {
        let mut changes = Vec::new();
        for (key, touched) in self.touched {
            let mut after = self.state.by_key(&key).cloned();
            let was = |key: &B256| {
                touched
                    .before
                    .as_ref()
                    .map(|a| a.word(key))
                    .unwrap_or_default()
            };
            let is = |key: &B256| after.as_ref().map(|a| a.word(key)).unwrap_or_default();
            let words = touched.words.iter().map(|key| (*key, was(key), is(key)));
            let words: Vec<_> = words.filter(|(_, was, is)| was != is).collect();
            if let Some(account) = &mut after
                && !touched.words.is_empty()
            {
                Arc::make_mut(account).settle();
                self.state.0.insert(key, account.clone());
            }
            if after != touched.before {
                changes.push(Change {
                    key,
                    before: touched.before,
                    after,
                    words,
                });
            }
        }
        (self.state, changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use revm::state::Account as Touched;

    fn change(info: AccountInfo) -> EvmState {
        let mut account = Touched::from(info);
        account.mark_touch();
        EvmState::from_iter([(Address::repeat_byte(7), account)])
    }

    #[test]
    fn code_comes_with_its_hash() {
        let code = Bytecode::new_raw(vec![0x60, 1].into());
        let with = AccountInfo::new(U256::ONE, 1, code.hash_slow(), code.clone());
        let mut pending = Pending::new(State::default());
        pending.commit(change(with.clone())).unwrap();
        let found = pending.state().account(&Address::repeat_byte(7)).unwrap();
        assert_eq!(found.code, code);
        let without = AccountInfo {
            code: None,
            code_hash: B256::repeat_byte(1),
            ..with.clone()
        };
        let error = pending.commit(change(without)).unwrap_err();
        assert!(error.to_string().contains("which is not there"), "{error}");
        // An account may lose its code (EIP-7702).
        let empty = AccountInfo {
            code: None,
            code_hash: KECCAK256_EMPTY,
            ..with
        };
        pending.commit(change(empty)).unwrap();
        let found = pending.state().account(&Address::repeat_byte(7)).unwrap();
        assert!(found.code.is_empty());
    }
}
