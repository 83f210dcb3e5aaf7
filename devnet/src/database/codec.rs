//! Blocks, accounts and changes as bytes: RLP, as Ethereum writes them where it does.

use crate::block::{Block, Receipt, SentTx};
use crate::state::{Account, Change, Undo};
use alloy_consensus::TxEnvelope;
use alloy_consensus::transaction::SignerRecoverable;
use alloy_eips::eip2718::{Decodable2718, Encodable2718};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use alloy_rlp::{Decodable, Encodable};
use alloy_trie::TrieAccount;
use revm::bytecode::Bytecode;
use std::collections::HashMap;

/// Code by its hash.
pub(super) type Codes = HashMap<B256, Bytes>;

fn bytes(item: &impl Encodable) -> Bytes {
    alloy_rlp::encode(item).into()
}

/// One item and nothing after it.
fn item<T: Decodable>(mut bytes: &[u8]) -> Option<T> {
    let item = T::decode(&mut bytes).ok()?;
    bytes.is_empty().then_some(item)
}

/// A block with senders and receipts.
pub(super) fn block_bytes(block: &Block) -> Vec<u8> {
    let senders: Vec<Address> = block.transactions.iter().map(|tx| tx.signer()).collect();
    let receipts = block.receipts.iter().map(|r| Bytes::from(r.encoded_2718()));
    let receipts: Vec<Bytes> = receipts.collect();
    alloy_rlp::encode(vec![
        bytes(&block.encoded()),
        bytes(&senders),
        bytes(&receipts),
    ])
}

/// The block whose body, senders and receipts are those that its header names; whether the header is the right one, its hash
/// tells.
pub(super) fn block(all: &[u8]) -> Option<Block> {
    let parts: [Bytes; 3] = item::<Vec<Bytes>>(all)?.try_into().ok()?;
    let block: alloy_consensus::Block<TxEnvelope> = item(&parts[0])?;
    let senders: Vec<Address> = item(&parts[1])?;
    let receipts: Vec<Bytes> = item(&parts[2])?;
    let transactions = block.body.transactions;
    if transactions.len() != senders.len() || transactions.len() != receipts.len() {
        return None;
    }
    let sent = |(tx, sender): (TxEnvelope, Address)| {
        let signer = tx.recover_signer().ok()?;
        (signer == sender).then(|| SentTx::new_unchecked(tx, sender))
    };
    let transactions = transactions.into_iter().zip(senders).map(sent);
    let transactions = transactions.collect::<Option<_>>()?;
    let receipt = |bytes: &Bytes| Receipt::decode_2718(&mut &bytes[..]).ok();
    let receipts = receipts.iter().map(receipt).collect::<Option<_>>()?;
    let block = Block::new(block.header, transactions, receipts);
    block.fits().then_some(block)
}

/// An account as the state's trie holds it.
pub(super) fn account_bytes(account: &Account) -> Vec<u8> {
    alloy_rlp::encode(TrieAccount {
        nonce: account.nonce,
        balance: account.balance,
        storage_root: account.storage_root,
        code_hash: account.code_hash,
    })
}

/// The account without its storage.
pub(super) fn account(bytes: &[u8], codes: &Codes) -> Option<Account> {
    let account: TrieAccount = item(bytes)?;
    let code = match account.code_hash {
        KECCAK256_EMPTY => Bytecode::default(),
        hash => Bytecode::new_raw_checked(codes.get(&hash)?.clone()).ok()?,
    };
    let found = Account::new(account.nonce, account.balance, code);
    (found.code_hash == account.code_hash).then_some(found)
}

/// How accounts were before changes: three items for each, its key, the account or nothing, its words.
pub(super) fn undo_bytes(changes: &[Change]) -> Vec<u8> {
    let mut items: Vec<Bytes> = Vec::new();
    for change in changes {
        let before = change.before.as_ref();
        let words = change.words.iter();
        let words = words.flat_map(|(key, was, _)| [key.0, was.to_be_bytes()]);
        items.push(change.key.0.into());
        items.push(before.map_or(Bytes::new(), |account| account_bytes(account).into()));
        items.push(words.flatten().collect());
    }
    alloy_rlp::encode(items)
}

pub(super) fn undo(bytes: &[u8], codes: &Codes) -> Option<Vec<Undo>> {
    let items: Vec<Bytes> = item(bytes)?;
    let (each, []) = items.as_chunks::<3>() else {
        return None;
    };
    let word = |pair: &[u8; 64]| {
        let (key, word) = pair.split_at(32);
        (B256::from_slice(key), U256::from_be_slice(word))
    };
    let one = |[key, before, words]: &[Bytes; 3]| {
        let (words, []) = words.as_chunks::<64>() else {
            return None;
        };
        let before = match before.is_empty() {
            true => None,
            false => Some(account(before, codes)?),
        };
        Some(Undo {
            key: B256::try_from(&key[..]).ok()?,
            before,
            words: words.iter().map(word).collect(),
        })
    };
    each.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::DevAccount;
    use alloy_consensus::{Header, SignableTransaction, TxEip1559, TxLegacy};
    use alloy_primitives::{Log, TxKind};

    /// A transaction with each of two encodings, an event in the receipts.
    fn sample() -> Block {
        let accounts = DevAccount::all();
        let one = TxEip1559 {
            chain_id: 7,
            gas_limit: 50_000,
            max_fee_per_gas: 9,
            to: TxKind::Call(accounts[2].address),
            input: vec![1, 2, 3].into(),
            ..TxEip1559::default()
        };
        let two = TxLegacy {
            chain_id: Some(7),
            gas_price: 8,
            gas_limit: 21_000,
            ..TxLegacy::default()
        };
        let signatures = [
            accounts[0].sign(&one.signature_hash()).unwrap(),
            accounts[1].sign(&two.signature_hash()).unwrap(),
        ];
        let sent: [TxEnvelope; 2] = [
            one.into_signed(signatures[0]).into(),
            two.into_signed(signatures[1]).into(),
        ];
        let of = |i: usize| SentTx::new_unchecked(sent[i].clone(), accounts[i].address);
        let receipt = |cumulative_gas_used, logs| alloy_consensus::Receipt {
            status: true.into(),
            cumulative_gas_used,
            logs,
        };
        let log = Log::new_unchecked(
            accounts[3].address,
            vec![B256::repeat_byte(5)],
            vec![7; 3].into(),
        );
        let receipts = vec![
            Receipt::Eip1559(receipt(30_000, vec![log]).with_bloom()),
            Receipt::Legacy(receipt(51_000, vec![]).with_bloom()),
        ];
        let transactions = vec![of(0), of(1)];
        let mut header = Header {
            number: 3,
            gas_used: 51_000,
            ..Header::default()
        };
        (
            header.transactions_root,
            header.receipts_root,
            header.logs_bloom,
        ) = Block::roots(&transactions, &receipts);
        Block::new(header, transactions, receipts)
    }

    /// Whatever bit changes: it is no block, or one with another hash, or it meant nothing.
    #[test]
    fn every_bit_of_a_block() {
        let whole = sample();
        let bytes = block_bytes(&whole);
        assert_eq!(block(&bytes).as_ref(), Some(&whole));
        let (mut refused, mut others) = (0, 0);
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            match block(&changed) {
                None => refused += 1,
                Some(found) if found.hash != whole.hash => others += 1,
                Some(found) => assert_eq!(found, whole, "bit {bit}"),
            }
        }
        // The header is more than half a kilobyte; what hangs from its roots cannot change.
        assert!(others > 1000 && refused > 3000, "{others} {refused}");
        for len in 0..bytes.len() {
            assert_eq!(block(&bytes[..len]), None);
        }
    }
}
