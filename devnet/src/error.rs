//! What goes wrong with blocks and transactions.

use crate::database::DatabaseError;
use crate::genesis::BadGenesis;
use alloy_primitives::{Address, B256};
use precompile::Fault;

/// Why a chain does not do what it is asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine could not finish an execution, or not keep a block: nothing was sealed, and nothing is until the cause
    /// is put right.
    #[error("this node stands still: {0}")]
    Fault(Fault),
    /// This machine could not finish a call. The chain goes on.
    #[error("this node cannot execute the call: {0}")]
    CallFault(Fault),
    /// The database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// What the chain begins with.
    #[error(transparent)]
    Genesis(#[from] BadGenesis),
    /// The EVM failed in a call in a way that the call does not explain.
    #[error("the EVM failed: {0}")]
    Evm(String),
    /// A transaction is refused.
    #[error(transparent)]
    Transaction(#[from] BadTransaction),
    /// A block of another chain is refused.
    #[error("block {number} is refused: {reason}")]
    Block {
        /// Its number.
        number: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A time that does not come after the newest block's.
    #[error("the time {given} is not after {parent}, the newest block's")]
    Time {
        /// Seconds.
        given: u64,
        /// Seconds.
        parent: u64,
    },
    /// The state of an old block is gone.
    #[error("the state of block {number} is not kept any more: calls go back {window} blocks")]
    NoState {
        /// The block.
        number: u64,
        /// Blocks whose state is kept.
        window: usize,
    },
}

/// Why a transaction is refused before it is executed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadTransaction {
    /// No transaction's encoding.
    #[error("the bytes are no signed transaction: {0}")]
    Encoding(String),
    /// The signature is nobody's.
    #[error("invalid signature")]
    Signature,
    /// Blobs of EIP-4844.
    #[error("blob transactions (EIP-4844) are not supported here")]
    Blobs,
    /// For another chain.
    #[error("invalid chain id: the transaction is for {found:?}, this chain is {expected}")]
    ChainId {
        /// This chain's.
        expected: u64,
        /// The transaction's.
        found: Option<u64>,
    },
    /// The transaction was sent before.
    #[error("already known: {0}")]
    Known(B256),
    /// An earlier nonce.
    #[error("nonce too low: next nonce {expected}, tx nonce {found}")]
    NonceTooLow {
        /// The account's.
        expected: u64,
        /// The transaction's.
        found: u64,
    },
    /// So far ahead that it would only lie here.
    #[error("nonce too high: next nonce {expected}, tx nonce {found}, at most {ahead} ahead")]
    NonceTooHigh {
        /// The account's.
        expected: u64,
        /// The transaction's.
        found: u64,
        /// Nonces that are kept.
        ahead: u64,
    },
    /// The sender cannot pay.
    #[error("insufficient funds for gas * price + value: {address} must own as much")]
    Funds {
        /// The sender.
        address: Address,
    },
    /// More gas than a block or a transaction may have.
    #[error("gas limit too high: {found}, at most {most}")]
    GasLimit {
        /// The transaction's.
        found: u64,
        /// What is possible.
        most: u64,
    },
    /// Less gas than any transaction with this data uses.
    #[error("intrinsic gas too low: {found}, at least {least}")]
    IntrinsicGas {
        /// The transaction's.
        found: u64,
        /// What it takes.
        least: u64,
    },
    /// More for the miner than in all.
    #[error("max priority fee per gas is higher than max fee per gas")]
    Tip,
    /// Less than a block asks.
    #[error("max fee per gas {found} is less than the block's base fee {least}")]
    Fee {
        /// The transaction's.
        found: u128,
        /// The next block's.
        least: u64,
    },
    /// One with the same nonce waits, which pays as much.
    #[error(
        "replacement transaction underpriced: the one that waits pays {paid} wei for a gas, a tenth more is needed"
    )]
    Underpriced {
        /// What the one that waits pays.
        paid: u128,
    },
    /// Too many wait.
    #[error("{0} transactions wait already")]
    Full(usize),
    /// What the EVM says.
    #[error("{0}")]
    Invalid(String),
}
