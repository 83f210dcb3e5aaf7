//! Events: queries and filters.

use crate::client::{Served, hex, number};
use alloy_primitives::keccak256;
use blue_devnet::rpc::{Limits, Mining};
use precompile::REGISTRY;
use serde_json::{Value, json};

/// Proposes `count` versions, a block each: two events in every block.
fn propose(served: &Served, versions: std::ops::Range<u64>) {
    for version in versions {
        let data = served.blob.propose(&[4; 32], version);
        let receipt = served.send(0, json!({"to": hex(&REGISTRY), "data": hex(&data)}));
        assert_eq!(number(&receipt["status"]), 1);
    }
}

fn passed() -> String {
    keccak256("Passed(bytes32,uint64,bytes32,uint64)").to_string()
}

fn blocks(logs: &Value) -> Vec<u64> {
    logs.as_array()
        .unwrap()
        .iter()
        .map(|log| number(&log["blockNumber"]))
        .collect()
}

#[test]
fn queries() {
    let served = Served::new();
    propose(&served, 1..4);
    served.send(0, json!({"to": served.accounts[1].address}));
    let logs = |filter: Value| blocks(&served.ask("eth_getLogs", json!([filter])));
    assert_eq!(logs(json!({"fromBlock": "0x0"})), [1, 1, 2, 2, 3, 3]);
    assert_eq!(logs(json!({})), [0; 0]);
    let topic = json!([passed()]);
    assert_eq!(
        logs(json!({"fromBlock": "earliest", "topics": topic})),
        [1, 2, 3]
    );
    assert_eq!(
        logs(json!({"fromBlock": "0x2", "toBlock": "0x2", "topics": topic})),
        [2]
    );
    assert_eq!(
        logs(json!({"fromBlock": "0x0", "topics": [null, hex(&[4; 32])]})),
        [1, 2, 3]
    );
    assert_eq!(
        logs(json!({"fromBlock": "0x0", "address": hex(&REGISTRY)})).len(),
        6
    );
    assert_eq!(
        logs(json!({"fromBlock": "0x0", "address": [served.accounts[0].address]})).len(),
        0
    );
    let block = served.ask("eth_getBlockByNumber", json!(["0x2", false]));
    let log = served.ask(
        "eth_getLogs",
        json!([{"blockHash": block["hash"], "topics": topic}]),
    );
    assert_eq!(log[0]["blockHash"], block["hash"]);
    assert_eq!(log[0]["transactionHash"], block["transactions"][0]);
    assert_eq!(
        (number(&log[0]["logIndex"]), &log[0]["removed"]),
        (1, &json!(false))
    );
    for (filter, code) in [
        (json!({"fromBlock": "0x3", "toBlock": "0x1"}), -32602),
        (json!({"blockHash": hex(&[1; 32])}), -32000),
        (
            json!({"blockHash": block["hash"], "fromBlock": "0x1"}),
            -32602,
        ),
        (json!({"topics": [1, 2, 3, 4, 5]}), -32602),
    ] {
        assert_eq!(
            served.refused("eth_getLogs", json!([filter])).0,
            code,
            "{filter}"
        );
    }
}

#[test]
fn filters() {
    let served = Served::new();
    let add = |method: &str, params: Value| served.ask(method, params);
    let events = add("eth_newFilter", json!([{"topics": [passed()]}]));
    let heads = add("eth_newBlockFilter", json!([]));
    let transactions = add("eth_newPendingTransactionFilter", json!([]));
    let changes = |id: &Value| served.ask("eth_getFilterChanges", json!([id]));
    for id in [&events, &heads, &transactions] {
        assert_eq!(changes(id), json!([]));
    }
    propose(&served, 1..3);
    assert_eq!(blocks(&changes(&events)), [1, 2]);
    assert_eq!(changes(&events), json!([]));
    let hash = |n: u64| served.chain.block(n).unwrap().unwrap().hash;
    assert_eq!(changes(&heads), json!([hash(1), hash(2)]));
    assert_eq!(changes(&transactions).as_array().unwrap().len(), 2);
    propose(&served, 3..4);
    assert_eq!(blocks(&changes(&events)), [3]);
    let logs = served.ask(
        "eth_newFilter",
        json!([{"fromBlock": "0x1", "topics": [passed()]}]),
    );
    assert_eq!(
        blocks(&served.ask("eth_getFilterLogs", json!([logs]))),
        [1, 2, 3]
    );
    assert_eq!(served.ask("eth_uninstallFilter", json!([events])), true);
    assert_eq!(served.ask("eth_uninstallFilter", json!([events])), false);
    assert!(
        served
            .refused("eth_getFilterChanges", json!([events]))
            .1
            .contains("filter not found")
    );
}

#[test]
fn bounds() {
    let limits = Limits {
        log_blocks: 3,
        logs: 4,
        filters: 2,
        ..Limits::default()
    };
    let served = Served::with(limits, Mining::Instant);
    propose(&served, 1..5);
    let refused = |filter: Value| served.refused("eth_getLogs", json!([filter])).1;
    assert!(refused(json!({"fromBlock": "0x0"})).contains("more than 3 blocks"));
    assert!(refused(json!({"fromBlock": "0x2"})).contains("more than 4 events"));
    let found = served.ask("eth_getLogs", json!([{"fromBlock": "0x3"}]));
    assert_eq!(blocks(&found), [3, 3, 4, 4]);
    let distinct: Vec<_> = (0..1025u32).map(|i| keccak256(i.to_be_bytes())).collect();
    assert!(refused(json!({"topics": [null, distinct]})).contains("at most 1024"));
    for _ in 0..2 {
        served.ask("eth_newBlockFilter", json!([]));
    }
    let (code, message, _) = served.refused("eth_newBlockFilter", json!([]));
    assert_eq!(code, -32005);
    assert!(message.contains("2 filters"), "{message}");
    served.ask("eth_uninstallFilter", json!(["0x1"]));
    served.ask("eth_newBlockFilter", json!([]));
}

/// What an answer does not hold is told by the next one: nothing is left out.
#[test]
fn long_pauses() {
    let limits = Limits {
        log_blocks: 3,
        logs: 4,
        ..Limits::default()
    };
    let served = Served::with(limits, Mining::Instant);
    let events = served.ask("eth_newFilter", json!([{}]));
    let heads = served.ask("eth_newBlockFilter", json!([]));
    let transactions = served.ask("eth_newPendingTransactionFilter", json!([]));
    propose(&served, 1..8);
    let changes = |id: &Value| served.ask("eth_getFilterChanges", json!([id]));
    for expected in [
        vec![1, 1, 2, 2],
        vec![3, 3, 4, 4],
        vec![5, 5, 6, 6],
        vec![7, 7],
        vec![],
    ] {
        assert_eq!(blocks(&changes(&events)), expected);
    }
    let block = |n: u64| served.chain.block(n).unwrap().unwrap();
    let hashes = |numbers: std::ops::RangeInclusive<u64>| {
        json!(numbers.map(|n| block(n).hash).collect::<Vec<_>>())
    };
    let sent = |numbers: std::ops::RangeInclusive<u64>| {
        json!(
            numbers
                .map(|n| *block(n).transactions[0].hash())
                .collect::<Vec<_>>()
        )
    };
    for numbers in [1..=3, 4..=6, 7..=7] {
        assert_eq!(changes(&heads), hashes(numbers.clone()));
        assert_eq!(changes(&transactions), sent(numbers));
    }
    assert_eq!(changes(&heads), json!([]));
    assert_eq!(changes(&transactions), json!([]));
}

/// A database that fails for a while costs no event.
#[test]
fn an_answer_that_fails_tells_nothing() {
    let served = Served::new();
    let events = served.ask("eth_newFilter", json!([{}]));
    // More blocks than are in memory.
    propose(&served, 1..2);
    served.ask("anvil_mine", json!(["0x120"]));
    served
        .full
        .store(true, std::sync::atomic::Ordering::Relaxed);
    served.refused("eth_getFilterChanges", json!([events]));
    served
        .full
        .store(false, std::sync::atomic::Ordering::Relaxed);
    let found = served.ask("eth_getFilterChanges", json!([events]));
    assert_eq!(blocks(&found), [1, 1]);
}
