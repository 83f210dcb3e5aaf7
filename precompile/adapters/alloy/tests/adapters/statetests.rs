//! Files in the form of Ethereum's state tests, for clients of other kinds: written from the flows in [`crate::flows`], and
//! executed as they are read on both adapters. `BLUE_BLESS=1` writes them anew.

use crate::chain::{Chain, GAS};
use crate::flows::{Flow, blobs, flows};
use crate::world::{Adapter, Done, World, intrinsic};
use alloy_trie::TrieAccount;
use alloy_trie::root::{state_root_unhashed, storage_root_unhashed};
use precompile::{Call, INFERENCE, REGISTRY, genesis};
use revm::DatabaseCommit;
use revm::database::InMemoryDB;
use revm::primitives::{Address, B256, Bytes, Log, U256, hex, keccak256};
use revm::state::{AccountInfo, Bytecode};
use revm_statetest_types::{SpecName, TestSuite, TestUnit};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The key of Ethereum's state tests and its address.
const KEY: &str = "0x45a915e4d060149eb4365960e6a7a45f334393093061116b197e3240065ff2d8";

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "statetests"]
        .iter()
        .collect()
}

fn quantity(n: u64) -> String {
    format!("{n:#x}")
}

fn account(balance: u64, nonce: u64, code: &[u8], storage: Value) -> Value {
    json!({
        "balance": quantity(balance),
        "code": hex::encode_prefixed(code),
        "nonce": quantity(nonce),
        "storage": storage,
    })
}

/// A test without what is to come out.
fn unit(flow: &Flow, price: u64) -> Value {
    let words = flow.chain.state.storage.iter();
    let words = words.map(|(k, v)| (hex::encode_prefixed(k), json!(U256::from_be_bytes(*v))));
    let storage = Value::Object(words.collect::<Map<_, _>>());
    let gas = intrinsic(&flow.data).0 + flow.gas.of(price);
    json!({
        "_info": { "comment": flow.about },
        "env": {
            "currentCoinbase": "0x2adc25665018aa1fe0e6bc666dac8fc2697ff9ba",
            "currentDifficulty": "0x0",
            "currentGasLimit": "0x1c9c380",
            "currentNumber": quantity(flow.chain.state.block),
            "currentTimestamp": "0x3e8",
            "currentBaseFee": "0xa",
            "currentRandom": B256::ZERO,
        },
        "pre": {
            Address::new(REGISTRY).to_string(): account(0, 1, &genesis::MARKER, storage),
            Address::new(INFERENCE).to_string(): account(0, 1, &genesis::MARKER, json!({})),
            Address::new(flow.sender).to_string(): account(1 << 60, 0, &[], json!({})),
        },
        "transaction": {
            "data": [hex::encode_prefixed(&flow.data)],
            "gasLimit": [quantity(gas)],
            "gasPrice": "0xc",
            "nonce": "0x0",
            "secretKey": KEY,
            "sender": Address::new(flow.sender),
            "to": Address::new(flow.to.address()),
            "value": [quantity(flow.value)],
        },
    })
}

fn post(root: B256, logs: B256) -> Value {
    json!({ "Osaka": [{
        "hash": root,
        "logs": logs,
        "indexes": { "data": 0, "gas": 0, "value": 0 },
    }] })
}

/// What a test's transaction does on one adapter.
struct Effect {
    done: Done,
    db: InMemoryDB,
}

impl Effect {
    fn root(&self) -> B256 {
        let accounts = self.db.cache.accounts.iter();
        let present = accounts.filter(|(_, account)| !account.info.is_empty());
        state_root_unhashed(present.map(|(&address, account)| {
            let words = account.storage.iter().filter(|(_, v)| !v.is_zero());
            let words = words.map(|(&k, &v)| (B256::from(k), v));
            let info = &account.info;
            let account = TrieAccount {
                nonce: info.nonce,
                balance: info.balance,
                storage_root: storage_root_unhashed(words),
                code_hash: info.code_hash,
            };
            (address, account)
        }))
    }

    fn logs(&self) -> B256 {
        let mut bytes = vec![];
        alloy_rlp::encode_list::<Log, Log>(&self.done.logs, &mut bytes);
        keccak256(bytes)
    }
}

fn execute(unit: &TestUnit, adapter: Adapter) -> Effect {
    let [test] = &unit.post[&SpecName::Osaka][..] else {
        panic!("one transaction each")
    };
    let mut world = World::new(&[[1; 20]], 1);
    blobs().iter().for_each(|blob| world.models.load(blob));
    world.db = InMemoryDB::default();
    for (&address, account) in &unit.pre {
        let info = AccountInfo {
            balance: account.balance,
            nonce: account.nonce,
            ..AccountInfo::from_bytecode(Bytecode::new_raw(account.code.clone()))
        };
        world.db.insert_account_info(address, info);
        for (&key, &value) in &account.storage {
            world
                .db
                .insert_account_storage(address, key, value)
                .unwrap();
        }
    }
    let (mut cfg, _) = world.env();
    world.block = Some(unit.block_env(&mut cfg));
    world.timestamp = unit.env.current_timestamp.to();
    let tx = test.tx_env(unit).unwrap();
    let done = world.on(adapter, tx).expect("no fatal error");
    let mut db = world.db;
    db.commit(done.state.clone());
    Effect { done, db }
}

/// A test as it belongs into its file, by the core in memory and one of the adapters.
fn write(flow: &Flow) -> Value {
    let mut chain: Chain = flow.chain.clone();
    let call = Call {
        value_sent: flow.value > 0,
        ..Call::new(flow.to, &flow.data, GAS, flow.sender)
    };
    let price = flow.chain.clone().run(&call).gas_used(GAS);
    let price = if price == GAS { 1_000_000 } else { price };
    let mut value = unit(flow, price);
    value["post"] = post(B256::ZERO, B256::ZERO);
    let parsed: TestUnit = serde_json::from_value(value.clone()).unwrap();
    let effect = execute(&parsed, Adapter::Revm);
    let gas = flow.gas.of(price);
    let outcome = chain.run(&Call { gas, ..call });
    let (base, floor) = intrinsic(&flow.data);
    assert_eq!(effect.done.output, outcome.data(), "{}", flow.name);
    assert_eq!(effect.done.gas, (base + outcome.gas_used(gas)).max(floor));
    let registry = &effect.db.cache.accounts[&Address::new(REGISTRY)];
    let words = registry.storage.iter().filter(|(_, v)| !v.is_zero());
    let words = words.map(|(k, v)| (k.to_be_bytes(), v.to_be_bytes()));
    let core = chain.state.storage.iter().map(|(k, v)| (*k, *v));
    assert_eq!(words.collect::<BTreeSet<_>>(), core.collect());
    let refused = outcome.refusal().map(|refusal| refusal.name());
    assert_eq!(refused, flow.refusal.map(|r| r.name()), "{}", flow.name);
    value["post"] = post(effect.root(), effect.logs());
    value["out"] = json!(Bytes::from(outcome.data()));
    value
}

/// The text of a file.
fn text(flows: &[Flow]) -> String {
    let tests = flows.iter().map(|flow| (flow.name.to_owned(), write(flow)));
    let suite = Value::Object(tests.collect::<Map<_, _>>());
    serde_json::to_string_pretty(&suite).unwrap() + "\n"
}

/// The files hold what the flows make now, and so do those of the two models.
fn check_contents() {
    let bless = std::env::var("BLUE_BLESS").is_ok_and(|bless| bless == "1");
    let tests = flows().map(|(file, flows)| (file, text(&flows).into_bytes()));
    let [a, b] = blobs();
    let models = [("model-a.blob", &a.bytes), ("model-b.blob", &b.bytes)];
    let models = models.map(|(file, bytes)| (file, bytes.clone()));
    for (file, bytes) in tests.into_iter().chain(models) {
        let path = folder().join(file);
        if bless {
            std::fs::write(&path, &bytes).unwrap();
        }
        let found = std::fs::read(&path).unwrap();
        assert!(found == bytes, "{file} is old: BLUE_BLESS=1 writes it anew");
    }
}

/// Both adapters reach the roots, logs and outputs that the files tell.
#[test]
fn the_files_hold_on_both_adapters() {
    check_contents();
    let mut files = vec![];
    let mut tests = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let suite: TestSuite = serde_json::from_str(&text).unwrap();
        for (name, unit) in &suite.0 {
            let expected = &unit.post[&SpecName::Osaka][0];
            for adapter in [Adapter::Revm, Adapter::Alloy] {
                let effect = execute(unit, adapter);
                assert_eq!(effect.root(), expected.hash, "{name}: {:?}", effect.done);
                assert_eq!(effect.logs(), expected.logs, "{name}");
                assert_eq!(Some(&effect.done.output), unit.out.as_ref(), "{name}");
            }
            tests += 1;
        }
        files.push(path);
    }
    assert_eq!(files.len(), flows().len());
    assert_eq!(tests, flows().iter().map(|(_, f)| f.len()).sum::<usize>());
}
