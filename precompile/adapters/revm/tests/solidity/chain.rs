//! A chain in revm on which contracts of `precompile/solidity` are deployed and called.

#[path = "../../../../tests/common/mod.rs"]
mod common;

pub(crate) use common::{ALICE, BOB, Blob, CAROL, DELAY, MALLORY, NAME, WINDOW, small};

use alloy_sol_types::{SolCall, SolEvent, SolInterface};
use int_engine::engine::{Engine, Finish, generate};
use int_engine::kernels::Kernels;
use precompile::genesis::Genesis;
use precompile::memory::ModelSet;
use precompile::registry::Function;
use precompile::word::Word;
use precompile::{FaultLatch, INFERENCE, REGISTRY, Schedule, calldata};
use precompile_revm::{BluePrecompiles, Rules, put_accounts};
use revm::bytecode::Bytecode;
use revm::context::TxEnv;
use revm::context::result::{ExecutionResult, Output};
use revm::database::InMemoryDB;
use revm::interpreter::{CallInputs, CallOutcome};
use revm::primitives::hardfork::SpecId;
use revm::primitives::{Address, Bytes, Log, TxKind, U256};
use revm::state::AccountInfo;
use revm::{Context, InspectCommitEvm, Inspector, MainBuilder, MainContext};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Most gas of a transaction (EIP-7825).
pub(crate) const GAS: u64 = 16_777_216;
/// What every account of a test owns at first, in wei.
pub(crate) const WEALTH: u64 = 1_000_000_000;

/// A call of a precompile, as the EVM made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) to: Address,
    pub(crate) gas: u64,
    pub(crate) is_static: bool,
}

#[derive(Default)]
struct Recorder(Vec<Seen>);

impl<CTX> Inspector<CTX> for Recorder {
    fn call(&mut self, _: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        if [REGISTRY, INFERENCE].contains(&inputs.bytecode_address.0.0) {
            self.0.push(Seen {
                to: inputs.bytecode_address,
                gas: inputs.gas_limit,
                is_static: inputs.is_static,
            });
        }
        None
    }
}

/// State, models at hand, and the block that is executed.
#[derive(Clone)]
pub(crate) struct Chain {
    pub(crate) db: InMemoryDB,
    models: ModelSet,
    pub(crate) block: u64,
    /// Whether the node has the precompiles.
    pub(crate) rules: bool,
    /// Calls of precompiles by the newest transaction.
    pub(crate) seen: Vec<Seen>,
}

impl Chain {
    /// At block 1 with ALICE as the only admin, and these models at hand.
    pub(crate) fn new(blobs: &[&Blob]) -> Self {
        let genesis = Genesis {
            admins: vec![ALICE],
            former: vec![],
            quorum: 1,
            delay: DELAY,
            window: WINDOW,
            single: true,
        };
        let mut db = InMemoryDB::default();
        put_accounts(&mut db, genesis.accounts().unwrap()).unwrap();
        for address in [ALICE, BOB, CAROL, MALLORY] {
            let info = AccountInfo::from_balance(U256::from(WEALTH));
            db.insert_account_info(address.into(), info);
        }
        let mut models = ModelSet::default();
        for blob in blobs {
            models.insert(Arc::new(blob.engine(Kernels::detect())));
        }
        Self {
            db,
            models,
            block: 1,
            rules: true,
            seen: vec![],
        }
    }

    fn execute(
        &mut self,
        from: [u8; 20],
        kind: TxKind,
        value: u64,
        data: Vec<u8>,
        gas: u64,
    ) -> ExecutionResult {
        let schedule = match self.rules {
            true => Schedule::GENESIS,
            false => Schedule { v1: u64::MAX },
        };
        let latch = FaultLatch::new();
        let rules = Rules::new(schedule, 1, Arc::new(self.models.clone()), latch.clone());
        let mut evm = Context::mainnet()
            .with_db(&mut self.db)
            .modify_cfg_chained(|cfg| cfg.disable_nonce_check = true)
            .modify_block_chained(|block| {
                block.number = U256::from(self.block);
                block.timestamp = U256::from(1);
            })
            .build_mainnet_with_inspector(Recorder::default())
            .with_precompiles(BluePrecompiles::new(SpecId::default(), rules));
        let tx = TxEnv::builder()
            .caller(from.into())
            .kind(kind)
            .value(U256::from(value))
            .data(data.into())
            .nonce(0)
            .gas_limit(gas);
        let result = evm.inspect_tx_commit(tx.build().unwrap()).unwrap();
        self.seen = std::mem::take(&mut evm.inspector.0);
        assert_eq!(latch.check(), Ok(()));
        result
    }

    /// A transaction.
    pub(crate) fn send(
        &mut self,
        from: [u8; 20],
        to: Address,
        value: u64,
        data: Vec<u8>,
        gas: u64,
    ) -> ExecutionResult {
        self.execute(from, TxKind::Call(to), value, data, gas)
    }

    /// A call that must succeed: its result and events.
    pub(crate) fn call<C: SolCall>(
        &mut self,
        from: [u8; 20],
        to: Address,
        value: u64,
        call: &C,
    ) -> (C::Return, Vec<Log>) {
        let (output, logs) = self.raw(from, to, value, call.abi_encode());
        let result = C::abi_decode_returns_validate(&output).unwrap();
        assert_eq!(C::abi_encode_returns(&result), output);
        (result, logs)
    }

    /// The same without a known result.
    pub(crate) fn raw(
        &mut self,
        from: [u8; 20],
        to: Address,
        value: u64,
        data: Vec<u8>,
    ) -> (Bytes, Vec<Log>) {
        match self.send(from, to, value, data, GAS) {
            ExecutionResult::Success { output, logs, .. } => (output.into_data(), logs),
            other => panic!("{other:?}"),
        }
    }

    /// A view.
    pub(crate) fn view<C: SolCall>(&mut self, to: Address, call: &C) -> C::Return {
        self.clone().call(MALLORY, to, 0, call).0
    }

    /// A call that must be refused with an error of the contract's.
    pub(crate) fn refused<E: SolInterface>(
        &mut self,
        from: [u8; 20],
        to: Address,
        value: u64,
        call: &impl SolCall,
    ) -> E {
        match self.send(from, to, value, call.abi_encode(), GAS) {
            ExecutionResult::Revert { output, logs, .. } => {
                assert!(logs.is_empty());
                E::abi_decode(&output).unwrap()
            }
            other => panic!("no revert: {other:?}"),
        }
    }

    /// Deploys an artifact with the arguments of its constructor.
    pub(crate) fn deploy(&mut self, contract: &str, args: Vec<u8>) -> Address {
        self.try_deploy(contract, args).unwrap()
    }

    /// The same, or the constructor's error.
    pub(crate) fn try_deploy(&mut self, contract: &str, args: Vec<u8>) -> Result<Address, Bytes> {
        let code = [bytes(&artifact(contract)["bytecode"]), args].concat();
        match self.execute(CAROL, TxKind::Create, 0, code, GAS) {
            ExecutionResult::Success {
                output: Output::Create(_, Some(address)),
                ..
            } => Ok(address),
            ExecutionResult::Revert { output, .. } => Err(output),
            other => panic!("{other:?}"),
        }
    }

    /// An account with this code at a free address.
    pub(crate) fn place(&mut self, code: Vec<u8>) -> Address {
        let address = Address::repeat_byte(0x77);
        self.place_at(address, code);
        address
    }

    /// An account with this code, whatever was there.
    pub(crate) fn place_at(&mut self, address: Address, code: Vec<u8>) {
        let code = Bytecode::new_raw(code.into());
        let info = AccountInfo::from_bytecode(code).with_nonce(1);
        self.db.insert_account_info(address, info);
    }

    pub(crate) fn balance(&mut self, address: Address) -> u64 {
        self.db.load_account(address).unwrap().info.balance.to()
    }

    /// Adopts and activates.
    pub(crate) fn adopt(&mut self, name: &Word, version: u64, blob: &Blob) {
        self.raw(ALICE, REGISTRY.into(), 0, blob.propose(name, version));
        self.block += DELAY;
        let data = calldata::of_version(Function::Activate, name, version);
        self.raw(MALLORY, REGISTRY.into(), 0, data);
    }

    pub(crate) fn revoke(&mut self, name: &Word, version: u64) {
        let data = calldata::of_version(Function::Revoke, name, version);
        self.raw(ALICE, REGISTRY.into(), 0, data);
    }
}

pub(crate) fn artifact(contract: &str) -> serde_json::Value {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../solidity/artifacts");
    let path = format!("{folder}/{contract}.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap()
}

fn bytes(hex: &serde_json::Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap().strip_prefix("0x").unwrap();
    let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// The engine's own answer.
pub(crate) fn answer(blob: &Blob, prompt: &[u32], max_new: u32) -> (Vec<u32>, bool) {
    let engine = blob.engine(Kernels::scalar());
    let mut session = engine.session().unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    let answer = generate(&mut *session, prompt, max_new as usize, go_on).unwrap();
    (answer.ids, answer.finish == Finish::Stop)
}

/// A model, and a prompt of one id that it answers with so many ids.
pub(crate) fn long_answer(ids: u32) -> (Blob, u32) {
    let dims = int_engine::config::Dims {
        max_context: 600,
        stop_ids: vec![36],
        ..small()
    };
    let blob = Blob::sample(dims, 3);
    let long = |&first: &u32| answer(&blob, &[first], ids).0.len() == ids as usize;
    let first = (0..37).find(long).expect("one of 37");
    (blob, first)
}

/// The only event, of this kind, of this contract.
pub(crate) fn event<E: SolEvent>(logs: &[Log], contract: Address) -> E {
    let [log] = logs else { panic!("{logs:?}") };
    assert_eq!(log.address, contract);
    let event = E::decode_log_data_validate(&log.data).unwrap();
    assert_eq!(event.encode_log_data(), log.data);
    event
}
