//! Which model answers: upgrades within a block, reorganisations, faults, activation of the rules.

use crate::bytecode::{Kind, Report, forward, forwarder, op};
use crate::chain::{ALICE, Blob, DELAY, MALLORY, NAME, small, tokens};
use crate::world::{Adapter, SENDER, Status, World};
use alloy_evm::Evm as _;
use alloy_evm::eth::EthEvmFactory;
use alloy_evm::precompiles::Precompile as _;
use alloy_evm::{EvmEnv, EvmFactory as _};
use int_engine::engine::{Engine as _, generate as engine_generate};
use int_engine::kernels::Kernels;
use precompile::registry::Function as Registry;
use precompile::word::{ZERO, of_u64};
use precompile::{Fault, INFERENCE, REGISTRY, Refusal, Schedule, calldata};
use precompile_alloy::install;
use precompile_revm::{BluePrecompiles, Rules};
use revm::context::TxEnv;
use revm::database::{DBErrorMarker, InMemoryDB, WrapDatabaseRef};
use revm::primitives::{Address, B256, StorageKey, StorageValue, U256, hardfork::SpecId};
use revm::state::{AccountInfo, Bytecode};
use revm::{Context, DatabaseCommit, DatabaseRef, ExecuteCommitEvm, ExecuteEvm};
use revm::{MainBuilder, MainContext};
use std::ops::ControlFlow;
use std::sync::Arc;

const PROMPT: [u32; 3] = [1, 2, 4];

fn ask(commitment: &[u8; 32]) -> Vec<u8> {
    calldata::generate(&NAME, commitment, &PROMPT, 12)
}

/// What the engine answers, without any chain.
fn answer(blob: &Blob) -> Vec<u32> {
    let engine = blob.engine(Kernels::scalar());
    let mut session = engine.session().unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    engine_generate(&mut *session, &PROMPT, 12, go_on)
        .unwrap()
        .ids
}

fn answered(world: &World) -> Vec<u32> {
    tokens(world.infer(&ask(&ZERO)).returned()).0
}

/// Two models that answer differently, A active, B passed and due.
fn upgrade() -> (World, Blob, Blob) {
    let (a, b) = (Blob::sample(small(), 3), Blob::sample(small(), 4));
    assert_ne!(answer(&a), answer(&b));
    let mut world = World::single(&[&a, &b]);
    world.adopt(&NAME, 1, &a);
    world.registry(ALICE, &b.propose(&NAME, 2)).returned();
    world.pass_blocks(DELAY);
    (world, a, b)
}

#[test]
fn an_upgrade_is_seen_by_the_next_transaction_of_the_block() {
    let (world, a, b) = upgrade();
    let activate = calldata::of_version(Registry::Activate, &NAME, 2);
    let txs = [
        world.tx(SENDER, INFERENCE, &ask(&ZERO)),
        world.tx(SENDER, REGISTRY, &activate),
        world.tx(SENDER, INFERENCE, &ask(&ZERO)),
        world.tx(SENDER, INFERENCE, &ask(&a.commitment.0)),
        world.tx(SENDER, INFERENCE, &ask(&b.commitment.0)),
    ];
    // One EVM for the whole block.
    let mut by_revm = world.revm(world.db.clone());
    let mut by_alloy = world.alloy(world.db.clone());
    let results = txs.map(|tx: TxEnv| {
        let one = by_revm.transact_commit(tx.clone()).unwrap();
        let other = by_alloy.transact_commit(tx).unwrap();
        assert_eq!(one, other);
        one
    });
    let found = |i: usize| tokens(results[i].output().unwrap()).0;
    assert_eq!(found(0), answer(&a));
    assert!(results[1].is_success());
    assert_eq!(found(2), answer(&b));
    let not_active = precompile::revert_data(Refusal::NotActive);
    assert_eq!(results[3].output().unwrap(), &not_active);
    assert!(!results[3].is_success());
    assert_eq!(found(4), answer(&b));

    // A fresh EVM for every transaction.
    let mut world = world;
    assert_eq!(answered(&world), answer(&a));
    world.activate(&NAME, 2).returned();
    assert_eq!(answered(&world), answer(&b));
    world
        .infer(&ask(&a.commitment.0))
        .reverted(Refusal::NotActive);
}

/// An upgrade inside one transaction: the same calldata before and after it.
#[test]
fn an_upgrade_is_seen_by_the_next_call_of_the_transaction() {
    let (mut world, a, b) = upgrade();
    let data = ask(&ZERO);
    let activate = calldata::of_version(Registry::Activate, &NAME, 2);
    // Two calls of generate around activate, each with its data behind the code.
    let calls = [
        (INFERENCE, &data),
        (REGISTRY, &activate),
        (INFERENCE, &data),
    ];
    use op::{CALL, CODECOPY, GAS, MSTORE, POP, PUSH1, PUSH2, PUSH20, RETURN, RETURNDATACOPY};
    use op::{RETURNDATASIZE, STOP};
    let build = |ends: &[usize]| {
        let mut code = vec![];
        let be = |n: usize| (n as u16).to_be_bytes();
        for (i, (to, data)) in calls.iter().enumerate() {
            let (len, from) = (be(data.len()), be(ends[i]));
            code.extend([PUSH2, len[0], len[1], PUSH2, from[0], from[1]]);
            code.extend([
                PUSH1, 0, CODECOPY, PUSH1, 0, PUSH1, 0, PUSH2, len[0], len[1],
            ]);
            code.extend([PUSH1, 0, PUSH1, 0, PUSH20]);
            code.extend(to);
            code.extend([GAS, CALL, POP]);
            if i != 1 {
                // The first answer to 0x1000, the second to 0x2000.
                let at = be(0x1000 + 0x800 * i);
                code.extend([
                    RETURNDATASIZE,
                    PUSH1,
                    0,
                    PUSH2,
                    at[0],
                    at[1],
                    RETURNDATACOPY,
                ]);
                let at = be(0x1000 + 0x800 * i - 32);
                code.extend([RETURNDATASIZE, PUSH2, at[0], at[1], MSTORE]);
            }
        }
        code.extend([PUSH2, 0x30, 0, PUSH1, 0, RETURN, STOP]);
        code
    };
    let mut at = build(&[0; 3]).len();
    let ends = calls.map(|(_, data)| {
        at += data.len();
        at - data.len()
    });
    let code = [&build(&ends)[..], &data, &activate, &data].concat();
    world.contract(MALLORY, &code);
    let done = world.dry(world.tx(SENDER, MALLORY, &[]));
    let memory = done.returned();
    let found = |at: usize| {
        let len = u16::from_be_bytes([memory[at - 2], memory[at - 1]]);
        tokens(&memory[at..at + usize::from(len)]).0
    };
    assert_eq!(found(0x1000), answer(&a));
    assert_eq!(found(0x2000), answer(&b));
}

#[test]
fn a_dropped_branch_leaves_no_answer_behind() {
    let (trunk, a, b) = upgrade();
    let c = Blob::sample(small(), 5);
    trunk.models.load(&c);
    let mut branch = trunk.clone();
    branch.activate(&NAME, 2).returned();
    assert_eq!(answered(&branch), answer(&b));
    assert_eq!(answered(&trunk), answer(&a));
    drop(branch);
    assert_eq!(answered(&trunk), answer(&a));
    // The branch that wins has another model at the same height and version.
    let mut other = trunk.clone();
    other.registry(ALICE, &c.propose(&NAME, 3)).returned();
    other.pass_blocks(DELAY);
    other.activate(&NAME, 3).returned();
    assert_eq!(answered(&other), answer(&c));
    assert_eq!(answered(&trunk), answer(&a));
}

#[test]
fn a_missing_blob_is_a_fault_until_it_is_there() {
    let blob = Blob::sample(small(), 3);
    let mut world = World::single(&[]);
    world.adopt(&NAME, 1, &blob);
    world.contract(MALLORY, &forwarder());
    let data = ask(&ZERO);
    let inside = forward(Kind::Call, 1_000_000, 0, &INFERENCE, &data);
    for (to, data) in [(INFERENCE, &data), (MALLORY, &inside)] {
        let tx = world.tx(SENDER, to, data);
        for adapter in [Adapter::Revm, Adapter::Alloy] {
            let error = world.on(adapter, tx.clone()).unwrap_err();
            assert!(error.contains(&blob.commitment.to_string()), "{error}");
            let fault = world.latch.clear().unwrap();
            assert!(
                matches!(fault, Fault::Missing { commitment, .. } if commitment == blob.commitment)
            );
        }
    }
    // One EVM: nothing of the failed transaction is in the state of the next.
    let tx = world.tx(SENDER, MALLORY, &inside);
    let before = world.db.clone();
    let mut by_revm = world.revm(before.clone());
    let mut by_alloy = world.alloy(before);
    by_revm.transact(tx.clone()).unwrap_err();
    by_alloy.transact_raw(tx.clone()).unwrap_err();
    assert!(world.latch.check().is_err());
    world.latch.clear();
    world.models.load(&blob);
    let one = by_revm.transact(tx.clone()).unwrap();
    let other = by_alloy.transact_raw(tx).unwrap();
    assert_eq!(one, other);
    let report = Report::of(one.result.output().unwrap());
    assert_eq!(tokens(&report.output).0, answer(&blob));
    let sender = Address::new(SENDER);
    let nonce = world.db.cache.accounts[&sender].info.nonce;
    assert_eq!(one.state[&sender].info.nonce, nonce + 1);
    assert_eq!(world.latch.check(), Ok(()));
    assert_eq!(answered(&world), answer(&blob));
}

#[test]
fn a_blob_that_the_format_refuses_is_no_fault() {
    let blob = Blob::sample(small(), 3);
    let mut world = World::single(&[]);
    world.adopt(&NAME, 1, &blob);
    world.models.refuse(blob.commitment);
    world.infer(&ask(&ZERO)).reverted(Refusal::BadModel);
}

/// A database that cannot read storage.
#[derive(Debug)]
struct Broken<'a>(&'a InMemoryDB);

#[derive(Debug)]
struct Down;

impl std::fmt::Display for Down {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the disk is gone")
    }
}

impl std::error::Error for Down {}
impl DBErrorMarker for Down {}

impl DatabaseRef for Broken<'_> {
    type Error = Down;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, Down> {
        self.0.basic_ref(address).map_err(|e| match e {})
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, Down> {
        self.0.code_by_hash_ref(hash).map_err(|e| match e {})
    }

    fn storage_ref(&self, _: Address, _: StorageKey) -> Result<StorageValue, Down> {
        Err(Down)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, Down> {
        self.0.block_hash_ref(number).map_err(|e| match e {})
    }
}

#[test]
fn a_failing_database_is_a_fault() {
    let blob = Blob::sample(small(), 3);
    let mut world = World::single(&[&blob]);
    world.adopt(&NAME, 1, &blob);
    for (to, data) in [(INFERENCE, ask(&ZERO)), (REGISTRY, blob.propose(&NAME, 2))] {
        for adapter in [Adapter::Revm, Adapter::Alloy] {
            let tx = world.tx(ALICE, to, &data);
            let db = WrapDatabaseRef(Broken(&world.db));
            let error = world.on_state(adapter, db, tx).unwrap_err();
            assert!(error.contains("the disk is gone"), "{error}");
            let fault = world.latch.clear();
            assert_eq!(fault, Some(Fault::State("the disk is gone".into())));
        }
    }
}

#[test]
fn before_activation_the_addresses_are_ordinary() {
    let blob = Blob::sample(small(), 3);
    let mut world = World::single(&[&blob]);
    world.adopt(&NAME, 1, &blob);
    world.schedule = Schedule {
        v1: world.timestamp + 12,
    };
    let marker = world.dry(world.tx(SENDER, INFERENCE, &ask(&ZERO)));
    assert!(matches!(marker.status, Status::Other(_)), "the code runs");
    let early = world.clone();
    for to in [REGISTRY, INFERENCE] {
        // What the account holds runs, whatever it is.
        let mut world = early.clone();
        use op::{ADDRESS, BALANCE, GAS, MSTORE, POP, PUSH1, PUSH20, RETURN, SUB, SWAP1};
        world.contract(
            to,
            &[ADDRESS, PUSH1, 0, MSTORE, PUSH1, 32, PUSH1, 0, RETURN],
        );
        let done = world.dry(world.tx(SENDER, to, &ask(&ZERO)));
        assert_eq!(done.returned()[12..], to);
        // It takes value as others do.
        let mut tx = world.tx(SENDER, to, &[]);
        tx.value = U256::from(9);
        let done = world.run(tx);
        assert_eq!(done.status, Status::Success);
        assert_eq!(done.state[&Address::new(to)].info.balance, U256::from(9));
        // It is cold.
        let mut code = vec![GAS, PUSH20];
        code.extend(to);
        code.extend([BALANCE, POP, GAS, SWAP1, SUB, PUSH1, 0, MSTORE]);
        code.extend([PUSH1, 32, PUSH1, 0, RETURN]);
        world.contract(MALLORY, &code);
        let done = world.dry(world.tx(SENDER, MALLORY, &[]));
        assert_eq!(done.returned(), of_u64(2_600 + 7));
    }
    world.pass_blocks(1);
    assert_eq!(answered(&world), answer(&blob));
}

/// Rules made for one side of the activation do not run on the other.
#[test]
fn rules_of_another_time_are_a_fault() {
    let blob = Blob::sample(small(), 3);
    let mut world = World::single(&[&blob]);
    world.adopt(&NAME, 1, &blob);
    let early = world.timestamp;
    world.pass_blocks(1);
    let late = world.timestamp;
    world.schedule = Schedule { v1: late };
    let rules = |timestamp| {
        let models = Arc::clone(&world.models);
        Rules::new(world.schedule, timestamp, models, world.latch.clone())
    };
    let faulted = |error: String, expected, found| {
        let fault = Fault::Timestamp { expected, found };
        assert!(error.contains(&fault.to_string()), "{error}");
        assert_eq!(world.latch.clear(), Some(fault));
    };
    for (made, runs) in [(early, late), (late, early)] {
        let mut there = world.clone();
        there.timestamp = runs;
        let (cfg, block) = there.env();
        // A call to anyone: which addresses are warm would differ.
        for to in [INFERENCE, MALLORY] {
            let context = Context::mainnet().with_db(there.db.clone());
            let context = context.with_block(block.clone()).with_cfg(cfg.clone());
            let ours = BluePrecompiles::new(SpecId::OSAKA, rules(made));
            let mut evm = context.build_mainnet().with_precompiles(ours);
            let error = evm.transact(there.tx(SENDER, to, &ask(&ZERO))).unwrap_err();
            faulted(error.to_string(), made, runs);
        }
        if made == late {
            let env = EvmEnv::new(cfg, block);
            let mut evm = EthEvmFactory::default().create_evm(there.db.clone(), env);
            install(evm.precompiles_mut(), &rules(made));
            let tx = there.tx(SENDER, INFERENCE, &ask(&ZERO));
            let error = evm.transact_raw(tx).unwrap_err();
            faulted(error.to_string(), made, runs);
        }
    }
}

/// A provider that takes the place of another one in an EVM that has run brings its warm addresses along.
#[test]
fn a_new_provider_warms_its_addresses() {
    let blob = Blob::sample(small(), 3);
    let mut world = World::single(&[&blob]);
    use op::{BALANCE, GAS, MSTORE, POP, PUSH1, PUSH20, RETURN, SUB, SWAP1};
    let mut code = vec![GAS, PUSH20];
    code.extend(REGISTRY);
    code.extend([BALANCE, POP, GAS, SWAP1, SUB, PUSH1, 0, MSTORE]);
    code.extend([PUSH1, 32, PUSH1, 0, RETURN]);
    world.contract(MALLORY, &code);
    let (cfg, block) = world.env();
    let context = Context::mainnet().with_db(world.db.clone());
    let mut plain = context.with_block(block).with_cfg(cfg).build_mainnet();
    let tx = world.tx(SENDER, MALLORY, &[]);
    let done = plain.transact(tx.clone()).unwrap();
    assert_eq!(done.result.output().unwrap()[..], of_u64(2_607));
    let ours = BluePrecompiles::new(SpecId::OSAKA, world.rules());
    let done = plain.with_precompiles(ours).transact(tx).unwrap();
    assert_eq!(done.result.output().unwrap()[..], of_u64(107));
}

/// Numbers of blocks beyond 64 bits count as the largest.
#[test]
fn block_numbers_saturate() {
    let blob = Blob::sample(small(), 3);
    let mut world = World::single(&[&blob]);
    world.number = U256::MAX;
    world.registry(ALICE, &blob.propose(&NAME, 1)).returned();
    let done = world.activate(&NAME, 1);
    done.returned();
    let activation = calldata::view(Registry::Activation, Some(&ZERO));
    let done = world.registry(SENDER, &activation);
    assert_eq!(done.returned()[96..], of_u64(u64::MAX));
    world.db.commit(done.state);
}

/// What keeps answers by calldata passes by the two, and rules of an inactive block take them out.
#[test]
fn no_host_caches_answers() {
    let world = World::single(&[]);
    let mut evm = world.alloy(world.db.clone());
    let map = evm.precompiles_mut();
    let mut cacheable = vec![];
    map.map_cacheable_precompiles(|address, precompile| {
        cacheable.push(*address);
        precompile
    });
    assert!(!cacheable.is_empty());
    let late = Schedule { v1: u64::MAX };
    let rules = Rules::new(late, 0, world.models.clone(), world.latch.clone());
    for address in [REGISTRY, INFERENCE].map(Address::new) {
        assert!(!cacheable.contains(&address));
        assert!(!map.get(&address).unwrap().supports_caching());
        assert!(map.addresses().any(|a| *a == address));
    }
    install(map, &rules);
    for address in [REGISTRY, INFERENCE].map(Address::new) {
        assert!(map.get(&address).is_none());
        assert!(!map.addresses().any(|a| *a == address));
    }
}
