//! Blocks, transactions, receipts and events as clients read them.

use crate::block::{Block, SentTx, created};
use alloy_consensus::{ReceiptEnvelope, Transaction as _};
use alloy_primitives::{TxKind, U256};
use alloy_rpc_types_eth as eth;

/// A transaction of a block.
pub(super) fn transaction(block: &Block, index: usize) -> Option<eth::Transaction> {
    let tx = block.transactions.get(index)?;
    Some(eth::Transaction {
        effective_gas_price: Some(block.price(tx.inner())),
        inner: tx.clone(),
        block_hash: Some(block.hash),
        block_number: Some(block.header.number),
        transaction_index: Some(index as u64),
        block_timestamp: Some(block.header.timestamp),
    })
}

/// A transaction that waits.
pub(super) fn waiting(tx: SentTx) -> eth::Transaction {
    eth::Transaction {
        inner: tx,
        block_hash: None,
        block_number: None,
        transaction_index: None,
        effective_gas_price: None,
        block_timestamp: None,
    }
}

/// A header.
pub(super) fn header(block: &Block) -> eth::Header {
    eth::Header {
        hash: block.hash,
        inner: block.header.clone(),
        total_difficulty: None,
        size: Some(U256::from(block.size())),
    }
}

/// A block with its transactions, or only their hashes.
pub(super) fn block(block: &Block, full: bool) -> eth::Block {
    let transactions = match full {
        true => {
            let indices = 0..block.transactions.len();
            eth::BlockTransactions::Full(indices.filter_map(|i| transaction(block, i)).collect())
        }
        false => {
            let hashes = block.transactions.iter().map(|tx| *tx.hash());
            eth::BlockTransactions::Hashes(hashes.collect())
        }
    };
    eth::Block {
        header: header(block),
        uncles: vec![],
        transactions,
        withdrawals: Some(Default::default()),
    }
}

/// The events of a transaction.
pub(super) fn logs(block: &Block, index: usize) -> Vec<eth::Log> {
    let (Some(tx), Some(receipt)) = (block.transactions.get(index), block.receipts.get(index))
    else {
        return vec![];
    };
    let before = block.logs_before(index);
    let log = |(i, log): (usize, &alloy_primitives::Log)| eth::Log {
        inner: log.clone(),
        block_hash: Some(block.hash),
        block_number: Some(block.header.number),
        block_timestamp: Some(block.header.timestamp),
        transaction_hash: Some(*tx.hash()),
        transaction_index: Some(index as u64),
        log_index: Some((before + i) as u64),
        removed: false,
    };
    receipt.logs().iter().enumerate().map(log).collect()
}

/// The receipt of a transaction.
pub(super) fn receipt(block: &Block, index: usize) -> Option<eth::TransactionReceipt> {
    let tx = block.transactions.get(index)?;
    let mut logs = logs(block, index).into_iter();
    let receipt = block.receipts.get(index)?.clone();
    let inner: ReceiptEnvelope<eth::Log> = receipt.map_logs(|_| logs.next().unwrap_or_default());
    Some(eth::TransactionReceipt {
        inner,
        transaction_hash: *tx.hash(),
        transaction_index: Some(index as u64),
        block_hash: Some(block.hash),
        block_number: Some(block.header.number),
        gas_used: block.gas_used(index),
        effective_gas_price: block.price(tx.inner()),
        blob_gas_used: None,
        blob_gas_price: None,
        from: tx.signer(),
        to: match tx.kind() {
            TxKind::Call(to) => Some(to),
            TxKind::Create => None,
        },
        contract_address: created(tx),
    })
}
