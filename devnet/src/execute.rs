//! One transaction, or one call, in revm with the precompiles.

use crate::block::SentTx;
use crate::state::{Unreadable, View};
use alloy_consensus::{Header, Transaction, Typed2718};
use precompile::{FaultLatch, Models, Schedule};
use precompile_revm::{BluePrecompiles, Rules};
use revm::context::result::{EVMError, ResultAndState};
use revm::context::{BlockEnv, CfgEnv, TxEnv};
use revm::context_interface::block::BlobExcessGasAndPrice;
use revm::context_interface::either::Either;
use revm::primitives::eip4844::BLOB_BASE_FEE_UPDATE_FRACTION_PRAGUE;
use revm::primitives::hardfork::SpecId;
use revm::primitives::{U256, eip7825};
use revm::{Context, ExecuteEvm, MainBuilder, MainContext};
use std::sync::Arc;

/// The rules of Ethereum that the chain follows, without the system calls at a block's begin (EIP-2935, EIP-4788).
pub(crate) const SPEC: SpecId = SpecId::OSAKA;
/// Most gas of a transaction (EIP-7825).
pub(crate) const TX_GAS: u64 = eip7825::TX_GAS_LIMIT_CAP;

/// Models, and where their faults are told.
pub(crate) struct Engines<'a> {
    pub(crate) models: &'a Arc<dyn Models + Send + Sync>,
    pub(crate) latch: &'a FaultLatch,
}

/// What differs between a transaction of a block and a call that nobody signed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Transaction,
    Call,
}

fn block_env(header: &Header, kind: Kind, tx: &TxEnv) -> BlockEnv {
    // A call that names no price pays none, as other nodes do it.
    let free = kind == Kind::Call && tx.gas_price == 0;
    BlockEnv {
        number: U256::from(header.number),
        beneficiary: header.beneficiary,
        timestamp: U256::from(header.timestamp),
        gas_limit: match kind {
            Kind::Transaction => header.gas_limit,
            Kind::Call => header.gas_limit.max(tx.gas_limit),
        },
        basefee: match free {
            true => 0,
            false => header.base_fee_per_gas.unwrap_or_default(),
        },
        difficulty: U256::ZERO,
        prevrandao: Some(header.mix_hash),
        blob_excess_gas_and_price: Some(BlobExcessGasAndPrice::new(
            0,
            BLOB_BASE_FEE_UPDATE_FRACTION_PRAGUE,
        )),
        slot_num: 0,
    }
}

/// Executes a transaction on a state, in the block of a header.
pub(crate) fn transact(
    view: View<'_>,
    chain_id: u64,
    header: &Header,
    engines: &Engines<'_>,
    tx: TxEnv,
    kind: Kind,
) -> Result<ResultAndState, EVMError<Unreadable>> {
    let rules = Rules::new(
        Schedule::GENESIS,
        header.timestamp,
        engines.models.clone(),
        engines.latch.clone(),
    );
    let mut cfg = CfgEnv::new_with_spec(SPEC).with_chain_id(chain_id);
    if kind == Kind::Call {
        cfg.disable_nonce_check = true;
        cfg.disable_eip3607 = true;
        cfg.tx_gas_limit_cap = Some(u64::MAX);
    }
    let context = Context::mainnet()
        .with_block(block_env(header, kind, &tx))
        .with_cfg(cfg)
        .with_db(view);
    let ours = BluePrecompiles::new(SPEC, rules);
    let mut evm = context.build_mainnet().with_precompiles(ours);
    evm.transact(tx)
}

/// A signed transaction as revm takes it.
pub(crate) fn tx_env(tx: &SentTx) -> TxEnv {
    let inner = tx.inner();
    let fees = inner.is_dynamic_fee();
    let authorizations = inner.authorization_list().unwrap_or_default();
    TxEnv {
        tx_type: inner.ty(),
        caller: tx.signer(),
        gas_limit: inner.gas_limit(),
        gas_price: inner.max_fee_per_gas(),
        kind: inner.kind(),
        value: inner.value(),
        data: inner.input().clone(),
        nonce: inner.nonce(),
        chain_id: inner.chain_id(),
        access_list: inner.access_list().cloned().unwrap_or_default(),
        gas_priority_fee: fees.then(|| inner.max_priority_fee_per_gas().unwrap_or_default()),
        blob_hashes: vec![],
        max_fee_per_blob_gas: 0,
        authorization_list: authorizations.iter().cloned().map(Either::Left).collect(),
    }
}
