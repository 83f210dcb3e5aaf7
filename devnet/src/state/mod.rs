//! Accounts and their storage, with the roots of the tries over them.
//!
//! A clone is cheap and shares what does not change: every block keeps its own state.

mod evm;
mod sharded;

pub(crate) use evm::{Pending, Unreadable, View};

use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, keccak256};
use alloy_trie::root::{state_root, storage_root};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};
use precompile::registry::state::Storage;
use precompile::word::Word;
use precompile::{Fault, REGISTRY};
use revm::bytecode::Bytecode;
use sharded::Sharded;
use std::sync::Arc;

/// One account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The number of transactions sent, or of contracts created.
    pub nonce: u64,
    /// In wei.
    pub balance: U256,
    /// Keccak-256 of the code.
    pub code_hash: B256,
    /// The code, empty for most accounts.
    pub code: Bytecode,
    /// Root of the trie over the storage.
    pub storage_root: B256,
    storage: Sharded<U256>,
}

impl Account {
    /// An account without storage.
    #[must_use]
    pub fn new(nonce: u64, balance: U256, code: Bytecode) -> Self {
        Self {
            nonce,
            balance,
            code_hash: match code.is_empty() {
                true => KECCAK256_EMPTY,
                false => code.hash_slow(),
            },
            code,
            storage_root: EMPTY_ROOT_HASH,
            storage: Sharded::default(),
        }
    }

    /// The words of storage that are not zero, by the Keccak-256 of their keys, in its order.
    pub fn words(&self) -> impl Iterator<Item = (B256, U256)> + '_ {
        self.storage.iter().map(|(key, value)| (*key, *value))
    }

    fn word(&self, key: &B256) -> U256 {
        self.storage.get(key).copied().unwrap_or_default()
    }

    fn set_word(&mut self, key: B256, value: U256) {
        if value.is_zero() {
            self.storage.remove(&key);
        } else {
            self.storage.insert(key, value);
        }
    }

    fn settle(&mut self) {
        self.storage_root = storage_root(self.words());
    }
}

/// What a block, or genesis, did to one account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Keccak-256 of the address.
    pub key: B256,
    /// The account before, `None` where there was none.
    pub before: Option<Arc<Account>>,
    /// The account after.
    pub after: Option<Arc<Account>>,
    /// Words of storage that changed: the key's Keccak-256, the word before and after.
    pub words: Vec<(B256, U256, U256)>,
}

/// All accounts, by the Keccak-256 of their addresses.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct State(Sharded<Arc<Account>>);

impl State {
    /// The account of an address.
    #[must_use]
    pub fn account(&self, address: &Address) -> Option<&Account> {
        self.by_key(&keccak256(address)).map(|account| &**account)
    }

    /// A word of an account's storage.
    #[must_use]
    pub fn word(&self, address: &Address, key: U256) -> U256 {
        let word = |account: &Account| account.word(&keccak256(key.to_be_bytes::<32>()));
        self.account(address).map(word).unwrap_or_default()
    }

    /// The registry's storage, for [`precompile::registry::state`].
    pub fn registry(&self) -> impl Storage + '_ {
        |key: &Word| {
            let key = U256::from_be_bytes(*key);
            Ok::<Word, Fault>(self.word(&REGISTRY.into(), key).to_be_bytes())
        }
    }

    /// The root of the trie over all accounts.
    #[must_use]
    pub fn root(&self) -> B256 {
        state_root(self.0.iter().map(|(key, account)| {
            let account = TrieAccount {
                nonce: account.nonce,
                balance: account.balance,
                storage_root: account.storage_root,
                code_hash: account.code_hash,
            };
            (*key, account)
        }))
    }

    /// All accounts, in the order of their keys.
    pub fn accounts(&self) -> impl Iterator<Item = (&B256, &Arc<Account>)> {
        self.0.iter()
    }

    /// The account whose address has this Keccak-256.
    pub(crate) fn by_key(&self, key: &B256) -> Option<&Arc<Account>> {
        self.0.get(key)
    }

    /// Puts an account with its storage, keys hashed; whatever was there goes.
    pub(crate) fn put(
        &mut self,
        key: B256,
        mut account: Account,
        words: impl Iterator<Item = (B256, U256)>,
    ) {
        words.for_each(|(key, value)| account.set_word(key, value));
        account.settle();
        self.0.insert(key, Arc::new(account));
    }

    /// Takes back what a block did.
    pub(crate) fn undo(&mut self, undo: &[Undo]) {
        for change in undo {
            let Some(before) = &change.before else {
                self.0.remove(&change.key);
                continue;
            };
            let now = self.by_key(&change.key).cloned();
            let mut account = before.clone();
            account.storage = now.map(|now| now.storage.clone()).unwrap_or_default();
            for (key, word) in &change.words {
                account.set_word(*key, *word);
            }
            account.settle();
            self.0.insert(change.key, Arc::new(account));
        }
    }

    /// What makes this state of an empty one.
    pub(crate) fn as_changes(&self) -> Vec<Change> {
        let change = |(key, account): (&B256, &Arc<Account>)| Change {
            key: *key,
            before: None,
            after: Some(account.clone()),
            words: account.words().map(|(k, v)| (k, U256::ZERO, v)).collect(),
        };
        self.accounts().map(change).collect()
    }
}

/// How one account was before a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Undo {
    /// Keccak-256 of the address.
    pub(crate) key: B256,
    /// The account, its storage left out.
    pub(crate) before: Option<Account>,
    /// The words that the block changed.
    pub(crate) words: Vec<(B256, U256)>,
}
