//! What a chain begins with: money, the registry's admins, models that are active from the first block on.

use crate::accounts::DevAccount;
use crate::block::{Block, plain_header};
use crate::state::{Account, State};
use alloy_consensus::{EMPTY_ROOT_HASH, Header};
use alloy_primitives::{Address, U256, keccak256};
use int_engine::blob::RECORD_LEN;
use int_engine::commitment::{Commitment, Tree};
use precompile::genesis::{Genesis as Governance, GenesisError};
use precompile::memory::{Memory, ModelSet};
use precompile::registry::{self, Function};
use precompile::word::Word;
use precompile::{Call, Fault, Outcome, Refusal, Target, calldata, slots};
use revm::bytecode::Bytecode;
use std::collections::BTreeMap;

/// The chain id that Ethereum's development tools expect.
pub const CHAIN_ID: u64 = 31_337;
/// Gas of a block: three seconds of work as the precompiles are priced.
pub const GAS_LIMIT: u64 = 30_000_000;
/// The first block's fee per gas, in wei.
pub const BASE_FEE: u64 = 1_000_000_000;
/// The time of block 0 in seconds: the start of the year 2026, a constant, so that a chain can be reopened.
pub const TIMESTAMP: u64 = 1_767_225_600;
/// What each development account owns at first, in wei: 10,000 ether.
const WEALTH: u128 = 10_000_000_000_000_000_000_000;

/// A model that is active from the first block on, as version 1 of its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adoption {
    /// The name in the registry, not zero.
    pub name: Word,
    /// The commitment of the blob.
    pub commitment: Commitment,
    /// The blob's record: its first 1024 bytes.
    pub record: Vec<u8>,
    /// The proof that the record is leaf 0 of the commitment.
    pub proof: Vec<Word>,
}

impl Adoption {
    /// The adoption of a blob from its first bytes and the tree over its chunks; `None` when they are too few.
    #[must_use]
    pub fn new(name: Word, head: &[u8], tree: &Tree) -> Option<Self> {
        Some(Self {
            name,
            commitment: tree.commitment(),
            record: head.get(..RECORD_LEN)?.to_vec(),
            proof: tree.prove(0)?,
        })
    }
}

/// What a chain chooses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Genesis {
    /// The chain's id (EIP-155), not 0.
    pub chain_id: u64,
    /// Gas of a block.
    pub gas_limit: u64,
    /// Fee per gas of the first block, in wei.
    pub base_fee: u64,
    /// Time of block 0, in seconds.
    pub timestamp: u64,
    /// Accounts with money: address and wei.
    pub balances: Vec<(Address, U256)>,
    /// The registry's admins, and how they vote.
    pub governance: Governance,
    /// Models that are active from the first block on.
    pub models: Vec<Adoption>,
}

impl Default for Genesis {
    /// Ten rich development accounts, the first of them the only admin; a model can be activated in the block after next
    /// of its proposal.
    fn default() -> Self {
        let accounts = DevAccount::all();
        Self {
            chain_id: CHAIN_ID,
            gas_limit: GAS_LIMIT,
            base_fee: BASE_FEE,
            timestamp: TIMESTAMP,
            governance: Governance {
                admins: vec![accounts[0].address.0.0],
                former: vec![],
                quorum: 1,
                delay: 2,
                window: 100,
                single: true,
            },
            balances: accounts
                .iter()
                .map(|account| (account.address, U256::from(WEALTH)))
                .collect(),
            models: vec![],
        }
    }
}

/// Why a choice is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadGenesis {
    /// Replay protection needs an id.
    #[error("the chain id is 0, must be at least 1")]
    ChainId,
    /// Blocks would hold no transaction, or take too long.
    #[error("the block's gas is {0}, must be in 1000000 ..= 1000000000")]
    GasLimit(u64),
    /// The registry's choice.
    #[error(transparent)]
    Governance(#[from] GenesisError),
    /// The registry refuses a model.
    #[error("the registry refuses model {commitment}: {refusal}")]
    Model {
        /// The commitment.
        commitment: Commitment,
        /// Why.
        refusal: Refusal,
    },
    /// This machine could not execute an adoption.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Genesis {
    /// Block 0 and the state after it.
    pub(crate) fn build(&self) -> Result<(Block, State), BadGenesis> {
        if self.chain_id == 0 {
            return Err(BadGenesis::ChainId);
        }
        if !(1_000_000..=1_000_000_000).contains(&self.gas_limit) {
            return Err(BadGenesis::GasLimit(self.gas_limit));
        }
        let mut state = State::default();
        let none = std::iter::empty;
        for (address, balance) in &self.balances {
            let account = Account::new(0, *balance, Default::default());
            state.put(keccak256(address), account, none());
        }
        let [mut registry, inference] = self.governance.accounts()?;
        registry.1.storage = self.adopt(registry.1.storage)?;
        for (address, account) in [registry, inference] {
            let words = account.storage.iter();
            let words = words.map(|(key, word)| (keccak256(key), U256::from_be_bytes(*word)));
            let code = Bytecode::new_legacy(account.code.into());
            let account = Account::new(account.nonce, U256::ZERO, code);
            state.put(keccak256(address), account, words);
        }
        let header = Header {
            state_root: state.root(),
            transactions_root: EMPTY_ROOT_HASH,
            receipts_root: EMPTY_ROOT_HASH,
            gas_limit: self.gas_limit,
            timestamp: self.timestamp,
            extra_data: format!("blue {}", self.chain_id).into_bytes().into(),
            base_fee_per_gas: Some(self.base_fee),
            ..plain_header()
        };
        Ok((Block::new(header, vec![], vec![]), state))
    }

    /// The registry's storage after the adoption and activation of every model, all in block 0: as the core does it under
    /// a delay of 0 and by the vote of one admin, after which the chosen governance is what is stored.
    fn adopt(&self, storage: BTreeMap<Word, Word>) -> Result<BTreeMap<Word, Word>, BadGenesis> {
        let key = slots::governance();
        let Some(chosen) = storage.get(&key).copied() else {
            return Ok(storage);
        };
        let hasty = registry::Governance {
            quorum: 1,
            delay: 0,
            ..registry::Governance::of_word(&chosen)
        };
        let mut memory = Memory {
            block: 0,
            storage,
            logs: vec![],
        };
        memory.storage.insert(key, hasty.to_word());
        let admin = self.governance.admins.first().copied().unwrap_or_default();
        for model in &self.models {
            let commitment = model.commitment;
            let calls = [
                calldata::propose(&model.name, 1, &commitment.0, &model.record, &model.proof),
                calldata::of_version(Function::Activate, &model.name, 1),
            ];
            for data in calls {
                let call = Call::new(Target::Registry, &data, u64::MAX, admin);
                let outcome = memory.call(&call, &ModelSet::default())?;
                if let Outcome::Revert { refusal, .. } | Outcome::Halt { refusal } = outcome {
                    return Err(BadGenesis::Model {
                        commitment,
                        refusal,
                    });
                }
            }
        }
        memory.storage.insert(key, chosen);
        Ok(memory.storage)
    }
}
