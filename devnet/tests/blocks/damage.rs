//! Files that changed on the disk: it is told, or what changed is in no use. Nothing panics.

use crate::disk::{blobs, genesis, grow, open};
use crate::mix::Random;
use crate::node::{chain, models};
use alloy_primitives::B256;
use blue_devnet::database::DatabaseError;
use blue_devnet::{Chain, Error};
use int_engine::kernels::Kernels;
use redb::{ReadableTable, TableDefinition};
use std::path::Path;

/// Blocks of the chains here.
const BLOCKS: u64 = 20;

/// Everything that a chain answers is what the whole one answers, up to its own newest block.
///
/// # Errors
/// The first read that tells of a damage.
fn compare(found: &Chain, whole: &Chain) -> Result<(), Error> {
    let head = found.head().block.header.number;
    assert!(head <= BLOCKS);
    for number in 0..=head {
        let block = whole.block(number).unwrap().unwrap();
        // With its receipts.
        assert_eq!(found.block(number)?, Some(block.clone()));
        assert_eq!(found.number(&block.hash)?, Some(number));
        for (index, tx) in block.transactions.iter().enumerate() {
            let at = found.transaction(tx.hash())?;
            assert_eq!(at, Some((block.clone(), index)));
        }
        let state = found.snapshot(number)?.unwrap();
        assert_eq!(state.state, whole.snapshot(number).unwrap().unwrap().state);
    }
    Ok(())
}

/// A closed file of a chain, and the same chain in memory.
fn written(path: &Path) -> Chain {
    let blobs = blobs();
    let genesis = genesis(&blobs);
    grow(
        &open(path, &genesis, &blobs).unwrap(),
        &blobs,
        BLOCKS,
        |_| (),
    );
    let all: Vec<_> = blobs.iter().collect();
    let memory = chain(&genesis, models(&all, Kernels::scalar(), 1));
    grow(&memory, &blobs, BLOCKS, |_| ());
    memory
}

#[test]
fn bits_and_lost_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain");
    let memory = written(&path);
    let blobs = blobs();
    let genesis = genesis(&blobs);
    let whole = std::fs::read(&path).unwrap();
    let random = &mut Random(1);
    let (mut told, mut back) = (0, 0);
    for _ in 0..200 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        if random.below(8) == 0 {
            bytes.truncate(random.below(bytes.len()));
        }
        let other = folder.path().join("damaged");
        std::fs::write(&other, &bytes).unwrap();
        let opened = open(&other, &genesis, &blobs);
        if opened.and_then(|chain| compare(&chain, &memory)).is_ok() {
            continue;
        }
        told += 1;
        // What it was set back to is whole.
        if let Ok(chain) = open(&other, &genesis, &blobs) {
            back += usize::from(compare(&chain, &memory).is_ok());
        }
    }
    println!("{told} of 200 told, {back} set back");
    assert!(told > 20, "{told}");
}

type Bytes = TableDefinition<'static, u64, &'static [u8]>;
const BLOCKS_TABLE: Bytes = TableDefinition::new("blocks");
const UNDO: Bytes = TableDefinition::new("undo");
const HASHES: TableDefinition<'static, &[u8; 32], u64> = TableDefinition::new("hashes");
const NUMBERS: TableDefinition<'static, &str, u64> = TableDefinition::new("numbers");
const ACCOUNTS: TableDefinition<'static, &[u8; 32], &[u8]> = TableDefinition::new("accounts");
const STORAGE: TableDefinition<'static, &[u8; 64], &[u8; 32]> = TableDefinition::new("storage");
const CODES: TableDefinition<'static, &[u8; 32], &[u8]> = TableDefinition::new("codes");

type Edit = fn(&redb::WriteTransaction, &Chain);

fn replace(tx: &redb::WriteTransaction, table: Bytes, to: u64, from: u64) {
    let mut table = tx.open_table(table).unwrap();
    let other = table.get(from).unwrap().unwrap().value().to_vec();
    table.insert(to, &*other).unwrap();
}

fn hash(chain: &Chain, number: u64) -> B256 {
    chain.block(number).unwrap().unwrap().hash
}

/// Changes for which the file's own checksums are right.
#[test]
fn records_of_another_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain");
    let memory = written(&path);
    let blobs = blobs();
    let genesis = genesis(&blobs);
    let edits: [(&str, Edit); 10] = [
        ("a block in another's place", |tx, _| {
            replace(tx, BLOCKS_TABLE, 4, 5)
        }),
        ("the newest block an older one", |tx, _| {
            replace(tx, BLOCKS_TABLE, BLOCKS, 5)
        }),
        ("no block", |tx, _| {
            tx.open_table(BLOCKS_TABLE).unwrap().remove(7).unwrap();
        }),
        ("a hash that is not known", |tx, chain| {
            let mut table = tx.open_table(HASHES).unwrap();
            table.remove(&hash(chain, 6).0).unwrap();
        }),
        ("a hash with another number", |tx, chain| {
            let mut table = tx.open_table(HASHES).unwrap();
            table.insert(&hash(chain, 6).0, 8).unwrap();
        }),
        ("the newest block forgotten", |tx, _| {
            let mut table = tx.open_table(NUMBERS).unwrap();
            table.insert("head", BLOCKS - 1).unwrap();
        }),
        ("a block that changed nothing", |tx, _| {
            // The first one that created the contract: the oldest state alone shows it.
            let mut table = tx.open_table(UNDO).unwrap();
            table.insert(1, &[0xc0][..]).unwrap();
        }),
        ("a block in the middle that changed nothing", |tx, chain| {
            // Its senders have sent before, so that the oldest state is right.
            let sent = |number: &u64| {
                let block = chain.block(*number).unwrap().unwrap();
                !block.transactions.is_empty()
            };
            let number = (1..=BLOCKS).rev().find(sent).unwrap();
            let mut table = tx.open_table(UNDO).unwrap();
            table.insert(number, &[0xc0][..]).unwrap();
        }),
        ("an account as another", |tx, _| {
            let mut table = tx.open_table(ACCOUNTS).unwrap();
            let (key, other) = {
                let mut all = table.iter().unwrap();
                let (key, _) = all.next().unwrap().unwrap();
                let (_, other) = all.next_back().unwrap().unwrap();
                (*key.value(), other.value().to_vec())
            };
            table.insert(&key, &*other).unwrap();
        }),
        ("a word of storage", |tx, _| {
            let mut table = tx.open_table(STORAGE).unwrap();
            let key = *table.iter().unwrap().next().unwrap().unwrap().0.value();
            table.insert(&key, &[7; 32]).unwrap();
        }),
    ];
    let whole = std::fs::read(&path).unwrap();
    let edited = |edit: Edit| {
        let other = folder.path().join("edited");
        std::fs::write(&other, &whole).unwrap();
        let file = redb::Database::open(&other).unwrap();
        let tx = file.begin_write().unwrap();
        edit(&tx, &memory);
        tx.commit().unwrap();
        drop(file);
        open(&other, &genesis, &blobs).and_then(|chain| compare(&chain, &memory))
    };
    edited(|_, _| ()).unwrap();
    for (what, edit) in edits {
        let told = edited(edit);
        let is_damage = |error: &Error| matches!(error, Error::Database(DatabaseError::Damaged(_)));
        assert!(told.as_ref().is_err_and(is_damage), "{what}: {told:?}");
    }
    let code: Edit = |tx, _| {
        let mut table = tx.open_table(CODES).unwrap();
        let key = *table.iter().unwrap().next().unwrap().unwrap().0.value();
        table.insert(&key, &[0x5b][..]).unwrap();
    };
    assert!(edited(code).is_err());
}
