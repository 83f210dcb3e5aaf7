//! Blocks through alloy-evm's block executor, as a node that is built of it executes them.

use crate::chain::{ALICE, Blob, CAROL, DELAY, NAME, WINDOW, small};
use crate::world::{SENDER, TX_GAS};
use alloy_consensus::transaction::Recovered;
use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope, TxReceipt};
use alloy_evm::block::{BlockExecutor, BlockExecutorFactory};
use alloy_evm::eth::{
    EthBlockExecutionCtx, EthBlockExecutorFactory, receipt_builder::AlloyReceiptBuilder,
    spec::EthSpec,
};
use alloy_evm::{Evm, EvmEnv, EvmFactory};
use alloy_primitives::Signature;
use int_engine::engine::{Engine, Finish, generate};
use int_engine::kernels::Kernels;
use precompile::genesis::Genesis;
use precompile::memory::ModelSet;
use precompile::registry::{Event, Function};
use precompile::{Fault, FaultLatch, INFERENCE, REGISTRY, Schedule, calldata};
use precompile_alloy::{BlueEvmFactory, put_accounts};
use revm::context::{BlockEnv, TxEnv};
use revm::database::{InMemoryDB, State};
use revm::inspector::NoOpInspector;
use revm::primitives::hardfork::SpecId;
use revm::primitives::{Address, B256, TxKind, U256};
use revm::state::AccountInfo;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Any number at which mainnet's forks by block are active, and a time of all others.
const FIRST: u64 = 30_000_000;
const TIME: u64 = 1_800_000_000;

/// A transaction of an account; whoever includes it has recovered its sender.
fn tx(from: [u8; 20], nonce: u64, to: [u8; 20], data: Vec<u8>) -> Recovered<TxEnvelope> {
    let tx = TxEip1559 {
        chain_id: 1,
        nonce,
        gas_limit: TX_GAS,
        to: TxKind::Call(to.into()),
        input: data.into(),
        ..TxEip1559::default()
    };
    let signed = tx.into_signed(Signature::test_signature());
    Recovered::new_unchecked(signed.into(), from.into())
}

struct Node {
    db: InMemoryDB,
    executors: EthBlockExecutorFactory<AlloyReceiptBuilder, EthSpec, BlueEvmFactory>,
}

impl Node {
    fn new(models: ModelSet) -> Self {
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
        let factory = BlueEvmFactory::new(Schedule::GENESIS, Arc::new(models), FaultLatch::new());
        let executors = EthBlockExecutorFactory::new(
            AlloyReceiptBuilder::default(),
            EthSpec::mainnet(),
            factory,
        );
        Self { db, executors }
    }

    /// Executes a block of transactions at once; receipts as alloy builds them.
    fn block(
        &mut self,
        offset: u64,
        transactions: &[Recovered<TxEnvelope>],
    ) -> Result<Vec<alloy_consensus::ReceiptEnvelope>, String> {
        let mut env: EvmEnv = EvmEnv::default();
        env.cfg_env.set_spec_and_mainnet_gas_params(SpecId::OSAKA);
        env.block_env = BlockEnv {
            number: U256::from(FIRST + offset),
            timestamp: U256::from(TIME + 12 * offset),
            gas_limit: 60_000_000,
            ..BlockEnv::default()
        };
        let mut state = State::builder()
            .with_database(&mut self.db)
            .with_bundle_update()
            .build();
        let evm = self.executors.evm_factory().create_evm(&mut state, env);
        let ctx = EthBlockExecutionCtx {
            parent_hash: B256::ZERO,
            parent_beacon_block_root: Some(B256::ZERO),
            ommers: &[],
            withdrawals: None,
            extra_data: Default::default(),
            tx_count_hint: None,
            slot_number: None,
        };
        let executor = self.executors.create_executor(evm, ctx);
        let result = executor.execute_block(transactions.iter());
        let result = result.map_err(|error| error.to_string())?;
        state.merge_transitions(revm::database::states::bundle_state::BundleRetention::Reverts);
        let changes = state.take_bundle();
        for (address, account) in changes.state {
            if let Some(info) = account.info {
                self.db.insert_account_info(address, info);
            }
            for (key, slot) in account.storage {
                self.db
                    .insert_account_storage(address, key, slot.present_value)
                    .unwrap();
            }
        }
        Ok(result.receipts)
    }
}

#[test]
fn a_block_executor_adopts_a_model_and_asks_it() {
    let blob = Blob::sample(small(), 3);
    let mut models = ModelSet::default();
    models.insert(Arc::new(blob.engine(Kernels::detect())));
    let mut node = Node::new(models);
    for sender in [ALICE, SENDER] {
        let rich = AccountInfo::from_balance(U256::from(u64::MAX));
        node.db.insert_account_info(sender.into(), rich);
    }
    let proposal = tx(ALICE, 0, REGISTRY, blob.propose(&NAME, 1));
    let receipts = node.block(1, &[proposal]).unwrap();
    let log = receipts[0].logs().last().unwrap();
    let topics: Vec<_> = log.topics().iter().map(|topic| topic.0).collect();
    let passed = Event::parse(&topics, &log.data.data).unwrap();
    let expected = Event::Passed {
        name: NAME,
        version: 1,
        commitment: blob.commitment.0,
        block: FIRST + 1 + DELAY,
    };
    assert_eq!(passed, expected);

    let ask = |nonce| {
        let data = calldata::generate(&NAME, &blob.commitment.0, &[1, 2, 3], 5);
        tx(SENDER, nonce, INFERENCE, data)
    };
    let activate = calldata::of_version(Function::Activate, &NAME, 1);
    let block = [ask(0), tx(CAROL, 0, REGISTRY, activate), ask(1)];
    node.db.insert_account_info(
        Address::new(CAROL),
        AccountInfo::from_balance(U256::from(u64::MAX)),
    );
    let receipts = node.block(1 + DELAY, &block).unwrap();
    let status: Vec<_> = receipts.iter().map(TxReceipt::status).collect();
    // Before the activation of the same block nothing answers, and after it the model does.
    assert_eq!(status, [false, true, true]);
    // A call on the state after the block, through the factory's other door and a latch of its own.
    let mut models = ModelSet::default();
    models.insert(Arc::new(blob.engine(Kernels::detect())));
    let factory = node.executors.evm_factory();
    let calls = factory.for_calls(Arc::new(models), FaultLatch::new());
    let mut env: EvmEnv = EvmEnv::default();
    env.block_env.timestamp = U256::from(TIME);
    let mut evm = calls.create_evm_with_inspector(&mut node.db, env, NoOpInspector {});
    let call = TxEnv {
        caller: SENDER.into(),
        nonce: 2,
        kind: TxKind::Call(INFERENCE.into()),
        gas_limit: TX_GAS,
        data: calldata::generate(&NAME, &blob.commitment.0, &[1, 2, 3], 5).into(),
        ..TxEnv::default()
    };
    let output = evm.transact(call).unwrap().result.into_output().unwrap();
    let engine = blob.engine(Kernels::scalar());
    let mut session = engine.session().unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    let answer = generate(&mut *session, &[1, 2, 3], 5, go_on).unwrap();
    let complete = answer.finish == Finish::Stop;
    assert_eq!(calldata::generated(&output), Some((answer.ids, complete)));
    assert_eq!(factory.latch().check(), Ok(()));
}

#[test]
fn a_fault_ends_the_block_and_trips_the_factorys_latch() {
    let blob = Blob::sample(small(), 3);
    let mut node = Node::new(ModelSet::default());
    for sender in [ALICE, SENDER] {
        let rich = AccountInfo::from_balance(U256::from(u64::MAX));
        node.db.insert_account_info(sender.into(), rich);
    }
    node.block(1, &[tx(ALICE, 0, REGISTRY, blob.propose(&NAME, 1))])
        .unwrap();
    let activate = calldata::of_version(Function::Activate, &NAME, 1);
    node.block(1 + DELAY, &[tx(ALICE, 1, REGISTRY, activate)])
        .unwrap();
    let data = calldata::generate(&NAME, &blob.commitment.0, &[1], 5);
    let ask = tx(SENDER, 0, INFERENCE, data);
    node.block(2 + DELAY, std::slice::from_ref(&ask))
        .unwrap_err();
    let factory = node.executors.evm_factory();
    assert!(matches!(
        factory.latch().check(),
        Err(Fault::Missing { .. })
    ));
    // With the model at hand, the same block has a verdict.
    let mut models = ModelSet::default();
    models.insert(Arc::new(blob.engine(Kernels::detect())));
    let factory = factory.for_calls(Arc::new(models), FaultLatch::new());
    node.executors =
        EthBlockExecutorFactory::new(AlloyReceiptBuilder::default(), EthSpec::mainnet(), factory);
    let receipts = node.block(2 + DELAY, &[ask]).unwrap();
    assert!(receipts[0].status());
    assert_eq!(node.executors.evm_factory().latch().check(), Ok(()));
}
