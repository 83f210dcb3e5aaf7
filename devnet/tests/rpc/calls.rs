//! Calls, estimates and transactions.

use crate::client::{MODEL, Served, address, bytes, creation_code, hash, hex, number};
use alloy_sol_types::{SolCall, SolEvent, sol};
use int_engine::engine::{Engine, generate};
use int_engine::kernels::Kernels;
use precompile::registry::Function;
use precompile::{INFERENCE, REGISTRY, Refusal, calldata, gas};
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

sol! {
    function ask(uint32[] prompt, uint32 maxNewTokens) external;
    event Answered(uint256 indexed id, address indexed asker, uint32[] prompt, uint32[] answer, bool complete);
}

/// The engine's own answer, on another backend than the chain's.
fn answer(served: &Served, prompt: &[u32], most: usize) -> Vec<u32> {
    let engine = served.blob.engine(Kernels::scalar());
    let mut session = engine.session().unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    generate(&mut *session, prompt, most, go_on).unwrap().ids
}

#[test]
fn inference_by_call_and_by_transaction() {
    let served = Served::new();
    let data = calldata::generate(&MODEL, &[0; 32], &[1, 2, 3], 6);
    let tx = json!({"to": hex(&INFERENCE), "data": hex(&data)});
    let output = bytes(&served.ask("eth_call", json!([tx, "latest"])));
    let (ids, _) = calldata::generated(&output).unwrap();
    assert_eq!(ids, answer(&served, &[1, 2, 3], 6));
    for block in [
        json!("pending"),
        json!("earliest"),
        json!("safe"),
        json!("finalized"),
        json!("0x0"),
    ] {
        assert_eq!(served.ask("eth_call", json!([tx, block])), hex(&output));
    }
    let genesis = served.ask("eth_getBlockByNumber", json!(["0x0", false]))["hash"].clone();
    let by_hash = json!({"blockHash": genesis, "requireCanonical": true});
    assert_eq!(served.ask("eth_call", json!([tx, by_hash])), hex(&output));
    // The estimate is exact where the precompile is called by the transaction itself.
    let estimate = number(&served.ask("eth_estimateGas", json!([tx])));
    let receipt = served.send(1, tx.clone());
    assert_eq!(number(&receipt["status"]), 1);
    assert_eq!(number(&receipt["gasUsed"]), estimate);
    let less =
        json!({"to": hex(&INFERENCE), "data": hex(&data), "gas": format!("{:#x}", estimate - 1)});
    let receipt = served.send(1, less.clone());
    assert_eq!(number(&receipt["status"]), 0);
    let (code, message, _) = served.refused("eth_call", json!([less, "latest"]));
    assert_eq!((code, message.as_str()), (-32000, "out of gas"));
}

#[test]
fn refusals_are_told_in_words() {
    let served = Served::new();
    let unknown = calldata::generate(&[1; 32], &[0; 32], &[1], 1);
    let pinned = calldata::generate(&MODEL, &[5; 32], &[1], 1);
    for (data, refusal) in [
        (unknown, Refusal::NoActiveModel),
        (pinned, Refusal::NotActive),
    ] {
        let tx = json!({"to": hex(&INFERENCE), "data": hex(&data)});
        let (code, message, told) = served.refused("eth_call", json!([tx, "latest"]));
        assert_eq!(code, 3);
        let (number, name) = (refusal.number(), refusal.name());
        let expected = format!("execution reverted: Refused({number}) {name}: {refusal}");
        assert_eq!(message, expected);
        assert_eq!(bytes(&told), precompile::revert_data(refusal));
        assert_eq!(served.refused("eth_estimateGas", json!([tx])).1, expected);
    }
    let short = json!({"to": hex(&INFERENCE), "data": "0x12"});
    let (code, message, _) = served.refused("eth_call", json!([short, "latest"]));
    assert_eq!(code, -32000);
    assert!(
        message.starts_with("execution halted: Refused(2) InputTooShort"),
        "{message}"
    );
}

#[test]
fn a_contract_asks() {
    let served = Served::new();
    let args = [&MODEL[..], &[0; 32]].concat();
    let code = [creation_code("Oracle"), args].concat();
    let receipt = served.send(2, json!({"data": hex(&code)}));
    assert_eq!(number(&receipt["status"]), 1, "{receipt}");
    let oracle = address(&receipt["contractAddress"]);
    assert_eq!(oracle, served.accounts[2].address.create(0));
    let call = askCall {
        prompt: vec![1, 2, 3],
        maxNewTokens: 6,
    };
    let mut tx = json!({"to": oracle, "input": hex(&call.abi_encode())});
    let estimate = number(&served.ask("eth_estimateGas", json!([tx])));
    // The contract wants more gas than it uses: the estimate is what it takes, to within 1.5 %.
    tx["gas"] = json!(format!("{:#x}", estimate - estimate / 50));
    let receipt = served.send(3, tx.clone());
    assert_eq!(number(&receipt["status"]), 0, "{receipt}");
    tx.as_object_mut().unwrap().remove("gas");
    let receipt = served.send(3, tx);
    assert_eq!(number(&receipt["status"]), 1, "{receipt}");
    let [log] = &receipt["logs"].as_array().unwrap()[..] else {
        panic!("{receipt}")
    };
    let topics = log["topics"].as_array().unwrap().iter().map(hash);
    let event = Answered::decode_raw_log(topics, &bytes(&log["data"])).unwrap();
    assert_eq!(event.answer, answer(&served, &[1, 2, 3], 6));
    assert_eq!(event.asker, served.accounts[3].address);
}

#[test]
fn the_registry_over_the_network() {
    let served = Served::new();
    let name = [4; 32];
    let registry = hex(&REGISTRY);
    let call = |data: Vec<u8>| json!({"to": registry, "data": hex(&data)});
    // No admin.
    let (_, message, _) = served.refused("eth_estimateGas", json!([{
        "from": served.accounts[1].address, "to": registry, "data": hex(&served.blob.propose(&name, 1)),
    }]));
    assert!(message.contains("NotAdmin"), "{message}");
    let receipt = served.send(0, call(served.blob.propose(&name, 1)));
    assert_eq!(number(&receipt["status"]), 1);
    let activate = calldata::of_version(Function::Activate, &name, 1);
    let (_, message, _) = served.refused("eth_estimateGas", json!([call(activate.clone())]));
    assert!(message.contains("TooEarly"), "{message}");
    served.ask("evm_mine", json!([]));
    // The estimate is of the next block, in which it can be activated.
    let receipt = served.send(5, call(activate));
    assert_eq!(number(&receipt["status"]), 1);
    let view = calldata::view(Function::GetApproved, Some(&name));
    let output = bytes(&served.ask("eth_call", json!([call(view), "latest"])));
    assert_eq!(output[32..], served.blob.commitment.0);
    // The two models of this chain: one of genesis, one of today.
    for (index, of) in [(0u8, crate::client::MODEL), (1, name)] {
        let mut word = [0; 32];
        word[31] = index;
        let view = calldata::view(Function::Activation, Some(&word));
        let output = bytes(&served.ask("eth_call", json!([call(view), "latest"])));
        assert_eq!(output[..32], of);
    }
}

#[test]
fn a_fault_stops_the_chain_and_says_why() {
    let served = Served::new();
    let data = calldata::generate(&MODEL, &[0; 32], &[1, 2, 3], 6);
    let sizes = precompile::Sizes::of(&served.blob.record.config);
    let gas = 100_000 + gas::of_generate(&sizes, 3, 6);
    let tx = json!({
        "from": served.accounts[0].address, "to": hex(&INFERENCE), "data": hex(&data),
        "gas": format!("{gas:#x}"),
    });
    served.unplugged.store(true, Ordering::Relaxed);
    for method in ["eth_sendTransaction", "eth_sendTransaction"] {
        let (code, message, _) = served.refused(method, json!([tx]));
        assert_eq!(code, -32000);
        assert!(
            message.contains("stands still") && message.contains("unplugged"),
            "{message}"
        );
    }
    assert!(
        served
            .refused("evm_mine", json!([]))
            .1
            .contains("unplugged")
    );
    assert!(served.fault().to_string().contains("unplugged"));
    assert_eq!(served.ask("eth_blockNumber", json!([])), "0x0");
    // Calls have models of their own and go on.
    served.ask("eth_call", json!([tx, "latest"]));
}
