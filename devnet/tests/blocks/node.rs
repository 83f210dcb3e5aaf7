//! A chain with models at hand, and transactions of the development accounts.

use crate::common::Blob;
use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_primitives::{Address, Bytes, TxKind, U256};
use blue_devnet::database::{Database, MemoryDatabase};
use blue_devnet::{Adoption, Chain, Config, DevAccount, Genesis};
use int_engine::blob::Loader;
use int_engine::engine::CpuEngine;
use int_engine::kernels::Kernels;
use precompile::Models;
use precompile::memory::ModelSet;
use precompile::word::Word;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// The name of the tiny model, active from block 0 on.
pub(crate) const TINY: Word = [9; 32];
/// Wei for a gas that any block here takes.
const FEE: u128 = 1_000_000_000_000;

pub(crate) fn adoption(name: Word, blob: &Blob) -> Adoption {
    Adoption {
        name,
        commitment: blob.commitment,
        record: blob.bytes[..1024].to_vec(),
        proof: blob.proof.clone(),
    }
}

/// The models of these blobs on a backend.
pub(crate) fn models(
    blobs: &[&Blob],
    kernels: &'static Kernels,
    threads: usize,
) -> Arc<dyn Models + Send + Sync> {
    let mut set = ModelSet::default();
    for blob in blobs {
        let mut loader = Loader::new().expect(blob.commitment);
        let pieces = blob.bytes.chunks(1 << 20);
        pieces.for_each(|piece| loader.push(piece).unwrap());
        let model = Arc::new(loader.finish().unwrap());
        let threads = NonZeroUsize::new(threads).unwrap();
        set.insert(Arc::new(CpuEngine::new(model, kernels, threads)));
    }
    Arc::new(set)
}

pub(crate) fn chain(genesis: &Genesis, models: Arc<dyn Models + Send + Sync>) -> Chain {
    on(genesis, models, Box::new(MemoryDatabase::default()))
}

pub(crate) fn on(
    genesis: &Genesis,
    models: Arc<dyn Models + Send + Sync>,
    database: Box<dyn Database>,
) -> Chain {
    Chain::new(Config {
        genesis: genesis.clone(),
        database,
        call_models: models.clone(),
        models,
    })
    .unwrap()
}

/// What a transaction does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) to: TxKind,
    pub(crate) value: u64,
    pub(crate) data: Vec<u8>,
    pub(crate) gas: u64,
}

impl Plan {
    pub(crate) fn call(to: impl Into<Address>, data: Vec<u8>, gas: u64) -> Self {
        Self {
            to: TxKind::Call(to.into()),
            value: 0,
            data,
            gas,
        }
    }

    pub(crate) fn create(code: Vec<u8>, gas: u64) -> Self {
        Self {
            to: TxKind::Create,
            value: 0,
            data: code,
            gas,
        }
    }

    /// The next transaction of an account.
    pub(crate) fn sign(&self, chain: &Chain, account: &DevAccount) -> TxEnvelope {
        let tx = TxEip1559 {
            chain_id: chain.chain_id(),
            nonce: chain.next_nonce(account.address),
            gas_limit: self.gas,
            max_fee_per_gas: FEE,
            max_priority_fee_per_gas: 1,
            to: self.to,
            value: U256::from(self.value),
            access_list: Default::default(),
            input: Bytes::from(self.data.clone()),
        };
        let signature = account.sign(&tx.signature_hash()).unwrap();
        tx.into_signed(signature).into()
    }
}

/// The time of the next block.
pub(crate) fn later(chain: &Chain) -> u64 {
    chain.head().block.header.timestamp + 12
}
