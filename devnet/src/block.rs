//! A block with what its execution said.

use alloy_consensus::proofs::{calculate_receipt_root, calculate_transaction_root};
use alloy_consensus::transaction::Recovered;
use alloy_consensus::{BlockBody, Header, ReceiptEnvelope, Transaction, TxEnvelope, TxReceipt};
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, EMPTY_ROOT_HASH};
use alloy_eips::eip7685::EMPTY_REQUESTS_HASH;
use alloy_primitives::{Address, B256, Bloom, Log, TxKind};
use alloy_rlp::Encodable;

/// A signed transaction with its sender.
pub type SentTx = Recovered<TxEnvelope>;
/// A receipt as the receipts root holds it.
pub type Receipt = ReceiptEnvelope<Log>;

/// What is the same in every header of the chain: no ommers, withdrawals, blobs, beacon root or requests.
pub(crate) fn plain_header() -> Header {
    Header {
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        withdrawals_root: Some(EMPTY_ROOT_HASH),
        blob_gas_used: Some(0),
        excess_blob_gas: Some(0),
        parent_beacon_block_root: Some(B256::ZERO),
        requests_hash: Some(EMPTY_REQUESTS_HASH),
        ..Header::default()
    }
}

/// A block with the receipts of its transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The header.
    pub header: Header,
    /// Its hash.
    pub hash: B256,
    /// The transactions, in order.
    pub transactions: Vec<SentTx>,
    /// A receipt for each transaction.
    pub receipts: Vec<Receipt>,
}

impl Block {
    pub(crate) fn new(header: Header, transactions: Vec<SentTx>, receipts: Vec<Receipt>) -> Self {
        Self {
            hash: header.hash_slow(),
            header,
            transactions,
            receipts,
        }
    }

    /// The roots over transactions and receipts, and what all events leave in the bloom filter.
    pub(crate) fn roots(transactions: &[SentTx], receipts: &[Receipt]) -> (B256, B256, Bloom) {
        let inner: Vec<_> = transactions.iter().map(|tx| tx.inner()).collect();
        let join = |bloom: Bloom, receipt: &Receipt| bloom | receipt.bloom();
        (
            calculate_transaction_root(&inner),
            calculate_receipt_root(receipts),
            receipts.iter().fold(Bloom::ZERO, join),
        )
    }

    /// Whether transactions and receipts are those that the header names.
    pub(crate) fn fits(&self) -> bool {
        let header = &self.header;
        let named = (
            header.transactions_root,
            header.receipts_root,
            header.logs_bloom,
        );
        Self::roots(&self.transactions, &self.receipts) == named
    }

    /// The block as it is encoded for others.
    #[must_use]
    pub fn encoded(&self) -> alloy_consensus::Block<TxEnvelope> {
        let transactions = self.transactions.iter().map(|tx| tx.inner().clone());
        let body = BlockBody {
            transactions: transactions.collect(),
            ommers: vec![],
            withdrawals: Some(Default::default()),
        };
        alloy_consensus::Block::new(self.header.clone(), body)
    }

    /// Bytes of the encoded block.
    #[must_use]
    pub fn size(&self) -> usize {
        self.encoded().length()
    }

    /// What a transaction paid for a gas, in wei.
    #[must_use]
    pub fn price(&self, tx: &TxEnvelope) -> u128 {
        tx.effective_gas_price(self.header.base_fee_per_gas)
    }

    /// The gas of the transaction with this index alone.
    #[must_use]
    pub fn gas_used(&self, index: usize) -> u64 {
        let until = |i: usize| self.receipts.get(i).map_or(0, |r| r.cumulative_gas_used());
        let before = index.checked_sub(1).map_or(0, until);
        until(index).saturating_sub(before)
    }

    /// Number of events before those of the transaction with this index.
    #[must_use]
    pub fn logs_before(&self, index: usize) -> usize {
        let receipts = self.receipts.iter().take(index);
        receipts.map(|receipt| receipt.logs().len()).sum()
    }
}

/// The contract that a transaction creates, if it creates one.
#[must_use]
pub(crate) fn created(tx: &SentTx) -> Option<Address> {
    (tx.kind() == TxKind::Create).then(|| tx.signer().create(tx.nonce()))
}
