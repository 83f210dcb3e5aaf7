//! A database in one file. A block is one transaction of the file, on the disk before it is told of.

use super::codec::{self, Codes};
use super::guard::guarded;
use super::{Database, DatabaseError, Stored, WINDOW};
use crate::block::Block;
use crate::state::{Account, Change, State, Undo};
use alloy_primitives::{B256, Bytes, KECCAK256_EMPTY, U256};
use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the tables mean; another number is another form.
const FORM: u64 = 1;
/// Bytes of the file that are kept in memory.
const CACHE: usize = 64 << 20;

/// Numbers: the form, the chain's id, the newest block.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// Accounts by the hash of their address.
const ACCOUNTS: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("accounts");
/// Words of storage by the hashes of address and key.
const STORAGE: TableDefinition<'_, &[u8; 64], &[u8; 32]> = TableDefinition::new("storage");
/// Code by its hash.
const CODES: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("codes");
/// Blocks, with receipts and senders, by number.
const BLOCKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("blocks");
/// Numbers of blocks by hash.
const HASHES: TableDefinition<'_, &[u8; 32], u64> = TableDefinition::new("hashes");
/// Places of transactions, number and index, by hash.
const TRANSACTIONS: TableDefinition<'_, &[u8; 32], (u64, u64)> =
    TableDefinition::new("transactions");
/// How accounts were before each of the newest blocks.
const UNDO: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("undo");

/// Blocks and state in a file. One process opens it at a time.
pub struct DiskDatabase {
    /// There until the drop.
    file: Option<redb::Database>,
    path: PathBuf,
}

impl DiskDatabase {
    /// Opens a file, or makes it.
    ///
    /// All of it is read and its checksums compared.
    ///
    /// # Errors
    /// When it cannot be opened, is another program's, has changed ([`DatabaseError::Damaged`]), or is open already
    /// ([`DatabaseError::InUse`]).
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        use redb::{DatabaseError as Refused, StorageError::Corrupted};
        let name = path.display();
        let refused = |error: Refused| match error {
            Refused::DatabaseAlreadyOpen => DatabaseError::InUse(name.to_string()),
            Refused::Storage(Corrupted(what)) => DatabaseError::Damaged(format!("{name}: {what}")),
            error => DatabaseError::Failed(format!("{name} cannot be opened: {error}")),
        };
        let created = guarded(path, || {
            redb::Builder::new().set_cache_size(CACHE).create(path)
        })?;
        // Before the check, so that a file which breaks it is closed as every other.
        let mut opened = Self {
            file: Some(created.map_err(refused)?),
            path: path.to_owned(),
        };
        let checked = guarded(path, || match &mut opened.file {
            Some(file) => file.check_integrity(),
            None => Ok(false),
        })?;
        match checked.map_err(refused)? {
            true => Ok(opened),
            false => Err(opened.damaged("it has changed on the disk")),
        }
    }

    fn file(&self) -> Result<&redb::Database, redb::Error> {
        self.file.as_ref().ok_or(redb::Error::DatabaseClosed)
    }

    fn failed(&self, error: redb::Error) -> DatabaseError {
        DatabaseError::Failed(format!("{}: {error}", self.path.display()))
    }

    fn damaged(&self, what: impl std::fmt::Display) -> DatabaseError {
        DatabaseError::Damaged(format!("{}: {what}", self.path.display()))
    }

    /// Reads within one transaction.
    fn read<T>(
        &self,
        what: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, DatabaseError> {
        let done = guarded(&self.path, || what(&self.file()?.begin_read()?))?;
        done.map_err(|error| self.failed(error))
    }

    fn number_named(&self, name: &str) -> Result<Option<u64>, DatabaseError> {
        self.read(|tx| {
            let table = match tx.open_table(NUMBERS) {
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
                table => table?,
            };
            Ok(table.get(name)?.map(|value| value.value()))
        })
    }

    /// The state after the newest block.
    fn state(&self, codes: &Codes) -> Result<State, DatabaseError> {
        let (accounts, mut storage) = self.read(|tx| {
            let mut accounts = Vec::new();
            for entry in tx.open_table(ACCOUNTS)?.iter()? {
                let (key, account) = entry?;
                accounts.push((B256::from(key.value()), account.value().to_vec()));
            }
            let mut storage: BTreeMap<B256, Vec<(B256, U256)>> = BTreeMap::new();
            for entry in tx.open_table(STORAGE)?.iter()? {
                let (key, word) = entry?;
                let (account, slot) = key.value().split_at(32);
                let word = (B256::from_slice(slot), U256::from_be_bytes(*word.value()));
                storage
                    .entry(B256::from_slice(account))
                    .or_default()
                    .push(word);
            }
            Ok((accounts, storage))
        })?;
        let mut state = State::default();
        for (key, bytes) in accounts {
            let account = codec::account(&bytes, codes);
            let account = account.ok_or_else(|| self.damaged(format!("account {key}")))?;
            let words = storage.remove(&key).unwrap_or_default();
            state.put(key, account, words.into_iter());
        }
        match storage.keys().next() {
            None => Ok(state),
            Some(key) => Err(self.damaged(format!("storage without its account {key}"))),
        }
    }

    fn codes(&self) -> Result<Codes, DatabaseError> {
        self.read(|tx| {
            let mut codes = Codes::new();
            for entry in tx.open_table(CODES)?.iter()? {
                let (hash, code) = entry?;
                codes.insert(
                    B256::from(hash.value()),
                    Bytes::copy_from_slice(code.value()),
                );
            }
            Ok(codes)
        })
    }

    fn undo(&self, number: u64, codes: &Codes) -> Result<Vec<Undo>, DatabaseError> {
        let bytes = self.read(|tx| {
            let table = tx.open_table(UNDO)?;
            Ok(table.get(number)?.map(|bytes| bytes.value().to_vec()))
        })?;
        let undo = bytes.and_then(|bytes| codec::undo(&bytes, codes));
        undo.ok_or_else(|| self.damaged(format!("what block {number} changed")))
    }

    fn write(&self, chain_id: u64, block: &Block, changes: &[Change]) -> Result<(), redb::Error> {
        let tx = self.file()?.begin_write()?;
        {
            let mut numbers = tx.open_table(NUMBERS)?;
            let number = block.header.number;
            numbers.insert("form", FORM)?;
            numbers.insert("chain", chain_id)?;
            numbers.insert("head", number)?;
            let mut accounts = tx.open_table(ACCOUNTS)?;
            let mut storage = tx.open_table(STORAGE)?;
            let mut codes = tx.open_table(CODES)?;
            for change in changes {
                let key = change.key.0;
                match &change.after {
                    None => {
                        accounts.remove(&key)?;
                    }
                    Some(account) => {
                        accounts.insert(&key, &*codec::account_bytes(account))?;
                        put_code(&mut codes, account)?;
                    }
                }
                for (slot, _, word) in &change.words {
                    let mut at = [0; 64];
                    at[..32].copy_from_slice(&key);
                    at[32..].copy_from_slice(slot.as_slice());
                    match word.is_zero() {
                        true => storage.remove(&at)?,
                        false => storage.insert(&at, &word.to_be_bytes::<32>())?,
                    };
                }
            }
            tx.open_table(BLOCKS)?
                .insert(number, &*codec::block_bytes(block))?;
            tx.open_table(HASHES)?.insert(&block.hash.0, number)?;
            let mut transactions = tx.open_table(TRANSACTIONS)?;
            for (index, sent) in (0u64..).zip(&block.transactions) {
                transactions.insert(&sent.hash().0, (number, index))?;
            }
            let mut undo = tx.open_table(UNDO)?;
            undo.insert(number, &*codec::undo_bytes(changes))?;
            if let Some(old) = number.checked_sub(WINDOW as u64) {
                undo.remove(old)?;
            }
        }
        tx.commit()?;
        Ok(())
    }
}

impl Drop for DiskDatabase {
    fn drop(&mut self) {
        // Closing writes what it has learned of the file; what cannot be written is found out again.
        let _ = guarded(&self.path, || drop(self.file.take()));
    }
}

fn put_code(
    codes: &mut redb::Table<'_, &[u8; 32], &[u8]>,
    account: &Account,
) -> Result<(), redb::Error> {
    let hash = account.code_hash;
    if hash != KECCAK256_EMPTY && codes.get(&hash.0)?.is_none() {
        codes.insert(&hash.0, account.code.original_byte_slice())?;
    }
    Ok(())
}

impl Database for DiskDatabase {
    fn load(&self) -> Result<Option<Stored>, DatabaseError> {
        let Some(form) = self.number_named("form")? else {
            return Ok(None);
        };
        if form != FORM {
            return Err(DatabaseError::Failed(format!(
                "{} has form {form}, this program reads form {FORM}",
                self.path.display()
            )));
        }
        let missing = |what: &str| self.damaged(format!("no {what}"));
        let chain_id = self
            .number_named("chain")?
            .ok_or_else(|| missing("chain id"))?;
        let number = self
            .number_named("head")?
            .ok_or_else(|| missing("newest block"))?;
        let genesis = self.block(0)?.ok_or_else(|| missing("block 0"))?;
        let head = self.block(number)?.ok_or_else(|| missing("newest block"))?;
        if self.block(number.saturating_add(1))?.is_some() {
            return Err(self.damaged(format!("a block after {number}, the newest")));
        }
        let codes = self.codes()?;
        let mut state = self.state(&codes)?;
        let mut states = vec![state.clone()];
        for number in (1..=number).rev().take(WINDOW) {
            state.undo(&self.undo(number, &codes)?);
            states.push(state.clone());
        }
        states.reverse();
        Ok(Some(Stored {
            chain_id,
            genesis,
            head,
            states,
        }))
    }

    fn append(
        &self,
        chain_id: u64,
        block: &Arc<Block>,
        changes: &[Change],
    ) -> Result<(), DatabaseError> {
        let written = guarded(&self.path, || self.write(chain_id, block, changes))?;
        written.map_err(|error| self.failed(error))
    }

    fn block(&self, number: u64) -> Result<Option<Arc<Block>>, DatabaseError> {
        let bytes = self.read(|tx| {
            let table = tx.open_table(BLOCKS)?;
            Ok(table.get(number)?.map(|bytes| bytes.value().to_vec()))
        })?;
        let Some(bytes) = bytes else { return Ok(None) };
        let block = codec::block(&bytes);
        let block = block.ok_or_else(|| self.damaged(format!("block {number}")))?;
        let parent = number.checked_sub(1);
        let parent_hash = block.header.parent_hash;
        if block.header.number != number
            || self.number(&block.hash)? != Some(number)
            || parent.is_some() && self.number(&parent_hash)? != parent
        {
            return Err(self.damaged(format!("block {number} is another one than was written")));
        }
        Ok(Some(Arc::new(block)))
    }

    fn number(&self, hash: &B256) -> Result<Option<u64>, DatabaseError> {
        self.read(|tx| {
            let table = tx.open_table(HASHES)?;
            Ok(table.get(&hash.0)?.map(|number| number.value()))
        })
    }

    fn transaction(&self, hash: &B256) -> Result<Option<(u64, usize)>, DatabaseError> {
        self.read(|tx| {
            let table = tx.open_table(TRANSACTIONS)?;
            let place = table.get(&hash.0)?.map(|place| place.value());
            Ok(place.map(|(number, index)| (number, index as usize)))
        })
    }
}
