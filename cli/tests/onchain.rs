//! `blue call` and `blue ask` against nodes that are away, of another kind, or lie.

mod common;

use std::net::TcpListener;

use alloy_primitives::hex::encode_prefixed as hex;
use common::mock::{CONTRACT, GET_APPROVED, Node, TOKENIZER, ask, call, honest, record, word};
use common::{blue, error_of, run};
use serde_json::{Value, json};

#[test]
fn usage_errors_end_with_code_2() {
    for args in [
        "call --tokens 1",
        "call --max-new 1",
        "call --tokens 1 --prompt x --max-new 1",
        "call --tokens 1 --digest --max-new 1",
        "call --tokens 1 --digest --answer 1",
        "call --tokens 1 --answer 1",
        "call --tokens 1 --max-new 4294967296",
        "call --tokens 1 --max-new 1 --name 0x12",
        "call --tokens 1 --max-new 1 --commitment 0x12",
        "call --tokens 1 --max-new 1 --contract 0x12",
        "call --tokens 1 --max-new 1 --block latest",
        "call --tokens 1 --max-new 1 --timeout 0",
        "call --tokens 1 --max-new 1 --rpc localhost:8545",
        "call --tokens 1 --max-new 1 --rpc file:///etc/passwd",
        "ask --tokens 1 --max-new 1",
        "ask 0x5FbDB2315678afecb367f032d93F642f64180aa3 --max-new 1",
        "ask 0x5FbDB2315678afecb367f032d93F642f64180aa3 --tokens 1",
        "ask 5FbDB2315678 --tokens 1 --max-new 1",
        "ask 0x5FbDB2315678afecb367f032d93F642f64180aa3 --tokens 1 --max-new 1 --gas 20999",
        "ask 0x5FbDB2315678afecb367f032d93F642f64180aa3 --tokens 1 --max-new 1 --max-fee 1",
        "ask 0x5FbDB2315678afecb367f032d93F642f64180aa3 --tokens 1 --max-new 1 --key-file /dev/null",
        "ask 0x5FbDB2315678afecb367f032d93F642f64180aa3 --tokens 1 --max-new 1 --key-file absent",
    ] {
        error_of(&mut blue(args.split(' ')), 2);
    }
}

#[test]
fn a_node_that_is_away_is_named_with_what_to_do() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{free}/secret-path");
    for args in [
        vec!["call", "--tokens", "1", "--max-new", "1", "--rpc", &url],
        vec![
            "ask",
            CONTRACT,
            "--tokens",
            "1",
            "--max-new",
            "1",
            "--rpc",
            &url,
        ],
    ] {
        let said = error_of(&mut blue(&args), 1);
        assert!(
            said.contains(&free.to_string()) && said.contains("blue devnet"),
            "{said}"
        );
        assert!(!said.contains("secret-path"), "{said}");
    }
}

#[test]
fn chains_without_the_registry_are_told() {
    for result in [
        json!("0x"),
        json!("0x00"),
        json!({"code": -32000, "message": "invalid opcode: INVALID"}),
    ] {
        let node = Node::new(move |method, _| (method == "eth_call").then(|| result.clone()));
        let said = error_of(
            &mut blue(call(&node, &["--tokens", "1", "--max-new", "1"])),
            1,
        );
        assert!(said.contains("registry"), "{said}");
    }
}

#[test]
fn results_of_another_form_are_no_answers() {
    for output in [
        "0x".to_string(),
        format!("0x{}", word(7)),
        format!("0x{}{}{}", word(64), word(1), word(u64::MAX)),
        format!("0x{}{}{}{}", word(64), word(2), word(1), word(3)),
        format!("0x{}{}{}{}", word(64), word(0), word(1), word(1 << 32)),
    ] {
        let node = Node::new(move |method, params| {
            let inference = params[0]["to"] == "0x0300000000000000000000000000000000000003";
            (method == "eth_call" && inference).then(|| json!(output))
        });
        for more in [
            &["--max-new", "1"][..],
            &["--max-new", "1", "--answer", "5"],
        ] {
            let args = [&["--prompt", "It is"][..], more].concat();
            let said = error_of(&mut blue(call(&node, &args)), 1);
            assert!(said.contains("form"), "{said}");
        }
    }
}

#[test]
fn text_needs_the_tokenizer_of_the_record() {
    let other = record().replace(TOKENIZER, &"22".repeat(32));
    let none = record().replace(TOKENIZER, &"00".repeat(32));
    for (record, code, named) in [(other, 3, "tokenizer"), (none, 2, "--tokens")] {
        let node = Node::new(move |method, params| {
            let registry = params[0]["to"] == "0x0300000000000000000000000000000000000002";
            let asked = registry && params[0]["data"].as_str()?.len() == 74;
            let approved = params[0]["data"].as_str()?.starts_with(GET_APPROVED);
            (method == "eth_call" && asked && !approved).then(|| json!(record))
        });
        let args = call(&node, &["--prompt", "It is", "--max-new", "1"]);
        let said = error_of(&mut blue(args), code);
        assert!(said.contains(named), "{said}");
        // A named blob's tokenizer must be the record's, also where ids are given.
        let blob = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../models/default/blue-tiny.blob"
        );
        let ids = call(&node, &["--tokens", "1", "--max-new", "1", "--blob", blob]);
        if code == 3 {
            error_of(&mut blue(ids), 3);
        }
    }
}

#[test]
fn nothing_is_sent_that_would_revert_or_to_nobody() {
    let data = precompile::revert_data(precompile::Refusal::NotActive);
    let refused = hex(data);
    for (wrong, result, code) in [
        (
            "eth_estimateGas",
            json!({"code": 3, "message": "execution reverted", "data": refused}),
            2,
        ),
        (
            "eth_estimateGas",
            json!({"code": 3, "message": "execution reverted", "data": "0x"}),
            2,
        ),
        (
            "eth_estimateGas",
            json!({"code": -32000, "message": "out of gas"}),
            1,
        ),
        ("eth_getCode", json!("0x"), 2),
        ("eth_accounts", json!([]), 2),
        ("eth_chainId", json!({"code": -32601, "message": "no"}), 1),
    ] {
        let node = Node::new(move |method, _| (method == wrong).then(|| result.clone()));
        error_of(&mut blue(ask(&node, &[])), code);
        assert_eq!(node.sent(), 0, "{wrong}");
    }
    let node = Node::new(|method, params| {
        let given = params[0]["gas"] == "0x7530";
        (method == "eth_estimateGas" && given)
            .then(|| json!({"code": -32000, "message": "out of gas"}))
    });
    let said = error_of(&mut blue(ask(&node, &["--gas", "30000"])), 2);
    assert!(said.contains("--gas") && node.sent() == 0, "{said}");
    let node = Node::new(|_, _| None);
    let said = error_of(&mut blue(ask(&node, &["--chain-id", "1"])), 3);
    assert!(said.contains("31337") && node.sent() == 0, "{said}");
}

#[test]
fn a_signed_transaction_is_bounded_whatever_the_node_says() {
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "11".repeat(32)).unwrap();
    let key = key.path().to_str().unwrap();
    let file = ["--key-file", key, "--chain-id", "31337"];
    for (wrong, result, named) in [
        (
            "eth_maxPriorityFeePerGas",
            json!("0xffffffffffffffffffffffffffffffff"),
            "--max-fee",
        ),
        (
            "eth_getBlockByNumber",
            json!({"baseFeePerGas": "0xffffffffffffffff"}),
            "--max-fee",
        ),
        ("eth_estimateGas", json!("0x1000001"), "at most 16777216"),
        (
            "eth_getTransactionCount",
            json!("no"),
            "eth_getTransactionCount",
        ),
    ] {
        let node = Node::new(move |method, _| (method == wrong).then(|| result.clone()));
        let said = error_of(&mut blue(ask(&node, &file)), 1);
        assert!(said.contains(named) && node.sent() == 0, "{said}");
    }
    // One that names another transaction than the one that was sent.
    let node = Node::new(|method, _| {
        (method == "eth_sendRawTransaction").then(|| json!(format!("0x{}", "33".repeat(32))))
    });
    let said = error_of(&mut blue(ask(&node, &file)), 1);
    assert!(said.contains("its hash is") && node.sent() == 1, "{said}");
}

#[test]
fn a_transaction_without_its_answer_is_a_failure() {
    let receipt = |change: Value| {
        let mut receipt = honest(
            "eth_getTransactionReceipt",
            &json!([format!("0x{}", "77".repeat(32))]),
        );
        let change = change.as_object().unwrap().clone();
        receipt.as_object_mut().unwrap().extend(change);
        receipt
    };
    for (change, named) in [
        (json!({}), "no event"),
        (json!({"status": "0x0"}), "failed in block 6"),
        (
            json!({"transactionHash": format!("0x{}", "44".repeat(32))}),
            "another transaction",
        ),
        (
            json!({"logs": [{"address": CONTRACT, "topics": [], "data": "0x"}]}),
            "no event",
        ),
        (json!({"logs": 7}), "eth_getTransactionReceipt"),
        (json!({"status": null}), "eth_getTransactionReceipt"),
    ] {
        let receipt = receipt(change);
        let node = Node::new(move |method, _| {
            (method == "eth_getTransactionReceipt").then(|| receipt.clone())
        });
        let said = error_of(&mut blue(ask(&node, &[])), 1);
        assert!(said.contains(named), "{said}");
        assert_eq!(node.sent(), 1);
    }
    let node = Node::new(|method, _| (method == "eth_getTransactionReceipt").then(|| Value::Null));
    let said = error_of(&mut blue(ask(&node, &["--timeout", "0.4"])), 1);
    assert!(
        said.contains("in no block") && said.contains(&"77".repeat(32)),
        "{said}"
    );
}

#[test]
fn a_refusal_is_one_line_of_json() {
    // Refused(15), whose selector is the one that the crate of the rules computes.
    let data = precompile::revert_data(precompile::Refusal::NotActive);
    let data = hex(data);
    let node = Node::new(move |method, params| {
        let inference = params[0]["to"] == "0x0300000000000000000000000000000000000003";
        let error = json!({"code": 3, "message": "execution reverted", "data": data});
        (method == "eth_call" && inference).then_some(error)
    });
    let out = run(&mut blue(call(
        &node,
        &["--tokens", "1", "--max-new", "1", "--json"],
    )));
    assert_eq!(out.status.code(), Some(2));
    assert!(out.stderr.is_empty());
    let said: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(said["refused"], json!({"number": 15, "name": "NotActive"}));
}
