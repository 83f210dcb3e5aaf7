//! A chain in a database, and transactions that both adapters must execute alike.

use crate::chain::{ALICE, BOB, Blob, CAROL, Chain, MALLORY};
use alloy_evm::eth::{EthEvm, EthEvmContext, EthEvmFactory};
use alloy_evm::precompiles::PrecompilesMap;
use alloy_evm::{Database, Evm as _, EvmEnv, EvmFactory as _};
use int_engine::commitment::Commitment;
use int_engine::kernels::Kernels;
use precompile::memory::ModelSet;
use precompile::word::{Address as Raw, Word};
use precompile::{
    Fault, FaultLatch, INFERENCE, Lookup, Models, REGISTRY, Refusal, Schedule, genesis,
};
use precompile_alloy::install_into;
use precompile_revm::{BluePrecompiles, Rules};
use revm::context::result::{ExecutionResult, HaltReason, OutOfGasError, ResultAndState};
use revm::context::{BlockEnv, CfgEnv, TxEnv};
use revm::database::{InMemoryDB, WrapDatabaseRef};
use revm::handler::EthFrame;
use revm::handler::instructions::EthInstructions;
use revm::inspector::NoOpInspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::primitives::{Address, Bytes, Log, TxKind, U256, hardfork::SpecId};
use revm::state::{AccountInfo, Bytecode, EvmState};
use revm::{Context, DatabaseCommit, ExecuteEvm, MainBuilder, MainContext};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// An externally owned account that is no admin.
pub(crate) const SENDER: Raw = [0x5e; 20];
/// The most gas of a transaction (EIP-7825).
pub(crate) const TX_GAS: u64 = 1 << 24;
const SPEC: SpecId = SpecId::OSAKA;
const RICH: u64 = 1 << 60;

/// The two adapters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Adapter {
    Revm,
    Alloy,
}

/// revm with the adapter.
pub(crate) type RevmEvm<DB> = revm::context::Evm<
    EthEvmContext<DB>,
    (),
    EthInstructions<EthInterpreter, EthEvmContext<DB>>,
    BluePrecompiles,
    EthFrame,
>;
/// alloy-evm with the adapter.
pub(crate) type AlloyEvm<DB> = EthEvm<DB, NoOpInspector, PrecompilesMap>;

/// Models that can be added while EVMs hold them.
#[derive(Default)]
pub(crate) struct Shelf(Mutex<ModelSet>);

impl Shelf {
    pub(crate) fn load(&self, blob: &Blob) {
        let engine = Arc::new(blob.engine(Kernels::detect()));
        self.0.lock().unwrap().insert(engine);
    }

    pub(crate) fn refuse(&self, commitment: Commitment) {
        self.0.lock().unwrap().insert_refused(commitment);
    }
}

impl Models for Shelf {
    fn model(&self, commitment: Commitment) -> Result<Lookup, Fault> {
        self.0.lock().unwrap().model(commitment)
    }
}

/// How a transaction ended, without the texts in which the EVMs differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Success,
    Revert,
    /// A precompile was given too little gas.
    OutOfGas,
    /// A precompile refused.
    Refused,
    Other(HaltReason),
}

/// An executed transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Done {
    pub(crate) status: Status,
    pub(crate) gas: u64,
    pub(crate) output: Bytes,
    pub(crate) logs: Vec<Log>,
    pub(crate) state: EvmState,
    /// The EVM's words for a refusal; they may differ.
    pub(crate) text: Option<String>,
}

impl From<ResultAndState> for Done {
    fn from(done: ResultAndState) -> Self {
        let mut text = None;
        let status = match &done.result {
            ExecutionResult::Success { .. } => Status::Success,
            ExecutionResult::Revert { .. } => Status::Revert,
            ExecutionResult::Halt { reason, .. } => match reason {
                HaltReason::OutOfGas(OutOfGasError::Precompile) => Status::OutOfGas,
                HaltReason::PrecompileError => Status::Refused,
                HaltReason::PrecompileErrorWithContext(reason) => {
                    text = Some(reason.clone());
                    Status::Refused
                }
                other => Status::Other(other.clone()),
            },
        };
        Self {
            status,
            gas: done.result.tx_gas_used(),
            output: done.result.output().cloned().unwrap_or_default(),
            logs: done.result.logs().to_vec(),
            state: done.state,
            text,
        }
    }
}

impl Done {
    /// The output of a transaction that succeeded.
    pub(crate) fn returned(&self) -> &[u8] {
        assert_eq!(self.status, Status::Success, "{self:?}");
        &self.output
    }

    /// Checks that a registry or inference call was refused by a revert.
    pub(crate) fn reverted(&self, refusal: Refusal) {
        assert_eq!(self.status, Status::Revert, "{self:?}");
        assert_eq!(self.output, precompile::revert_data(refusal), "{refusal:?}");
        self.left_no_trace();
    }

    /// Checks that a registry or inference call was refused by a halt.
    pub(crate) fn halted(&self) {
        assert_eq!(self.status, Status::Refused, "{self:?}");
        assert!(self.output.is_empty());
        self.left_no_trace();
    }

    /// Checks that no storage changed and nothing was logged.
    pub(crate) fn left_no_trace(&self) {
        assert!(self.logs.is_empty());
        for account in self.state.values() {
            assert_eq!(account.changed_storage_slots().count(), 0);
        }
    }
}

/// A chain in a database.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) db: InMemoryDB,
    pub(crate) number: U256,
    pub(crate) timestamp: u64,
    pub(crate) schedule: Schedule,
    pub(crate) models: Arc<Shelf>,
    pub(crate) latch: FaultLatch,
    /// The block's environment, where it is more than a number and a timestamp.
    pub(crate) block: Option<BlockEnv>,
}

impl World {
    /// A chain whose registry is that of `chain`, with people who can pay.
    pub(crate) fn of(chain: &Chain) -> Self {
        let mut world = Self {
            db: InMemoryDB::default(),
            number: U256::from(chain.state.block),
            timestamp: 1_000,
            schedule: Schedule::GENESIS,
            models: Arc::default(),
            latch: FaultLatch::new(),
            block: None,
        };
        for address in [REGISTRY, INFERENCE] {
            world.contract(address, &genesis::MARKER);
        }
        for (key, value) in &chain.state.storage {
            let (key, value) = (U256::from_be_bytes(*key), U256::from_be_bytes(*value));
            let address = Address::new(REGISTRY);
            world
                .db
                .insert_account_storage(address, key, value)
                .unwrap();
        }
        for address in [SENDER, ALICE, BOB, CAROL, MALLORY] {
            world.fund(address);
        }
        world
    }

    pub(crate) fn new(admins: &[Raw], quorum: u32) -> Self {
        Self::of(&Chain::new(admins, quorum))
    }

    /// ALICE decides alone; these blobs are at hand.
    pub(crate) fn single(blobs: &[&Blob]) -> Self {
        let world = Self::new(&[ALICE], 1);
        blobs.iter().for_each(|blob| world.models.load(blob));
        world
    }

    pub(crate) fn fund(&mut self, address: Raw) {
        let info = AccountInfo {
            balance: U256::from(RICH),
            ..Default::default()
        };
        self.db.insert_account_info(Address::new(address), info);
    }

    /// Gives an account a balance.
    pub(crate) fn give(&mut self, address: Raw) {
        let account = self.db.load_account(Address::new(address)).unwrap();
        account.info.balance = U256::from(RICH);
    }

    /// Puts code at an address.
    pub(crate) fn contract(&mut self, address: Raw, code: &[u8]) {
        let info = AccountInfo {
            nonce: 1,
            ..AccountInfo::from_bytecode(Bytecode::new_raw(code.to_vec().into()))
        };
        self.db.insert_account_info(Address::new(address), info);
    }

    pub(crate) fn pass_blocks(&mut self, blocks: u64) {
        self.number += U256::from(blocks);
        self.timestamp += 12 * blocks;
    }

    /// The non-zero words of the registry's storage.
    pub(crate) fn storage(&self) -> BTreeMap<Word, Word> {
        let registry = &self.db.cache.accounts[&Address::new(REGISTRY)];
        let words = registry.storage.iter().filter(|(_, v)| !v.is_zero());
        words
            .map(|(k, v)| (k.to_be_bytes(), v.to_be_bytes()))
            .collect()
    }

    pub(crate) fn tx(&self, from: Raw, to: Raw, data: &[u8]) -> TxEnv {
        TxEnv {
            caller: Address::new(from),
            gas_limit: TX_GAS,
            kind: TxKind::Call(Address::new(to)),
            data: data.to_vec().into(),
            chain_id: Some(1),
            ..Default::default()
        }
    }

    pub(crate) fn env(&self) -> (CfgEnv, BlockEnv) {
        let mut cfg = CfgEnv::new_with_spec(SPEC);
        cfg.disable_nonce_check = true;
        let block = BlockEnv {
            number: self.number,
            timestamp: U256::from(self.timestamp),
            ..Default::default()
        };
        (cfg, self.block.clone().unwrap_or(block))
    }

    pub(crate) fn rules(&self) -> Rules {
        let models = Arc::clone(&self.models);
        Rules::new(self.schedule, self.timestamp, models, self.latch.clone())
    }

    /// Executes a transaction on one adapter; the text of a fatal error.
    pub(crate) fn on(&self, adapter: Adapter, tx: TxEnv) -> Result<Done, String> {
        self.on_state(adapter, WrapDatabaseRef(&self.db), tx)
    }

    /// Executes a transaction on another database.
    pub(crate) fn on_state<DB: Database>(
        &self,
        adapter: Adapter,
        db: DB,
        tx: TxEnv,
    ) -> Result<Done, String> {
        let done = match adapter {
            Adapter::Revm => self.revm(db).transact(tx),
            Adapter::Alloy => self.alloy(db).transact_raw(tx),
        };
        done.map(Done::from).map_err(|error| error.to_string())
    }

    /// The EVM of a block with the revm adapter.
    pub(crate) fn revm<DB: Database>(&self, db: DB) -> RevmEvm<DB> {
        let (cfg, block) = self.env();
        let context = Context::mainnet().with_db(db).with_block(block);
        let evm = context.with_cfg(cfg).build_mainnet();
        evm.with_precompiles(BluePrecompiles::new(SPEC, self.rules()))
    }

    /// The EVM of a block with the alloy adapter.
    pub(crate) fn alloy<DB: Database>(&self, db: DB) -> AlloyEvm<DB> {
        let (cfg, block) = self.env();
        let mut evm = EthEvmFactory::default().create_evm(db, EvmEnv::new(cfg, block));
        let models = Arc::clone(&self.models);
        install_into(&mut evm, self.schedule, models, self.latch.clone());
        evm
    }

    /// Executes a transaction on both adapters, which must agree.
    pub(crate) fn try_both(&self, tx: TxEnv) -> Result<Done, String> {
        let by_revm = self.on(Adapter::Revm, tx.clone());
        let mut by_alloy = self.on(Adapter::Alloy, tx);
        if let (Ok(one), Ok(other)) = (&by_revm, &mut by_alloy) {
            other.text.clone_from(&one.text);
        }
        assert_eq!(by_revm, by_alloy);
        by_revm
    }

    /// Executes a transaction, without its effects.
    pub(crate) fn dry(&self, tx: TxEnv) -> Done {
        let done = self.try_both(tx).expect("no fatal error");
        assert_eq!(self.latch.tripped(), None);
        done
    }

    /// Executes a transaction.
    pub(crate) fn run(&mut self, tx: TxEnv) -> Done {
        let done = self.dry(tx);
        self.db.commit(done.state.clone());
        done
    }

    pub(crate) fn registry(&mut self, from: Raw, data: &[u8]) -> Done {
        self.run(self.tx(from, REGISTRY, data))
    }

    pub(crate) fn infer(&self, data: &[u8]) -> Done {
        self.dry(self.tx(SENDER, INFERENCE, data))
    }

    /// Adopts and activates by ALICE alone.
    pub(crate) fn adopt(&mut self, name: &Word, version: u64, blob: &Blob) {
        self.registry(ALICE, &blob.propose(name, version))
            .returned();
        self.pass_blocks(crate::chain::DELAY);
        self.activate(name, version).returned();
    }

    pub(crate) fn activate(&mut self, name: &Word, version: u64) -> Done {
        let activate = precompile::registry::Function::Activate;
        let data = precompile::calldata::of_version(activate, name, version);
        self.registry(SENDER, &data)
    }
}

/// Gas of a transaction beside what its call uses: base price and calldata, and the least that calldata costs (EIP-7623).
pub(crate) fn intrinsic(data: &[u8]) -> (u64, u64) {
    let zeros = data.iter().filter(|&&b| b == 0).count() as u64;
    let others = data.len() as u64 - zeros;
    (
        21_000 + 4 * zeros + 16 * others,
        21_000 + 10 * zeros + 40 * others,
    )
}
