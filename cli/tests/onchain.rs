//! `blue call` and `blue ask` against nodes that are away, of another kind, or lie.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::hex::encode_prefixed as hex;
use common::{blue, error_of, run};
use serde_json::{Value, json};

const CONTRACT: &str = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
const ACCOUNT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/// The digest of the embedded model's tokenizer file.
const TOKENIZER: &str = "f5ed8df5eae7dddc084bf89f3f619dfdab8b9c1a49299f4332a069c49adfbb8a";

/// The selector of `getApproved(bytes32)`.
const GET_APPROVED: &str = "0xef270ee2";

type Answers = dyn Fn(&str, &Value) -> Option<Value> + Send + Sync;

/// A node that answers as it is told, `Err` standing for an error of JSON-RPC; it lives as long as the test.
struct Node {
    url: String,
    sent: Arc<AtomicUsize>,
}

impl Node {
    /// `answers` gives results of methods; what it does not give is answered as an honest node with one contract would.
    fn new(answers: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let sent = Arc::new(AtomicUsize::new(0));
        let answers: Arc<Answers> = Arc::new(answers);
        let count = Arc::clone(&sent);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, count) = (Arc::clone(&answers), Arc::clone(&count));
                std::thread::spawn(move || serve(stream, &*answers, &count));
            }
        });
        Self { url, sent }
    }

    /// Transactions that were handed over.
    fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }
}

/// Answers requests of one connection until it ends.
fn serve(mut stream: TcpStream, answers: &Answers, sent: &AtomicUsize) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let Ok(n @ 1..) = stream.read(&mut piece) else {
            return;
        };
        bytes.extend(&piece[..n]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_ascii_lowercase();
        let (_, len) = head.split_once("content-length: ").unwrap();
        if body.len() < len.lines().next().unwrap().trim().parse().unwrap() {
            continue;
        }
        let request: Value = serde_json::from_str(body).unwrap();
        bytes.clear();
        let method = request["method"].as_str().unwrap();
        if method.starts_with("eth_send") {
            sent.fetch_add(1, Ordering::SeqCst);
        }
        let params = &request["params"];
        let result = answers(method, params).unwrap_or_else(|| honest(method, params));
        let mut answer = json!({"jsonrpc": "2.0", "id": request["id"]});
        let key = if result.get("code").is_some() {
            "error"
        } else {
            "result"
        };
        answer[key] = result;
        let answer = answer.to_string();
        let len = answer.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {len}\r\n\r\n");
        if stream.write_all((head + &answer).as_bytes()).is_err() {
            return;
        }
    }
}

fn word(n: u64) -> String {
    format!("{n:064x}")
}

fn honest(method: &str, params: &Value) -> Value {
    let hash = format!("0x{}", "77".repeat(32));
    match method {
        "eth_chainId" => json!("0x7a69"),
        "eth_blockNumber" => json!("0x5"),
        "eth_getCode" => json!("0xfe"),
        "eth_accounts" => json!([ACCOUNT]),
        "eth_estimateGas" => json!("0x5208"),
        "eth_getTransactionCount" => json!("0x0"),
        "eth_maxPriorityFeePerGas" => json!("0x1"),
        "eth_getBlockByNumber" => json!({"baseFeePerGas": "0x7"}),
        "eth_sendTransaction" => json!(hash),
        "eth_getTransactionReceipt" => json!({
            "transactionHash": params[0], "blockNumber": "0x6", "status": "0x1", "gasUsed": "0x5208", "logs": [],
        }),
        "eth_call" => match &params[0]["data"].as_str().unwrap()[..10] {
            GET_APPROVED => json!(format!("0x{}{}", word(1), "11".repeat(32))),
            _ if params[0]["to"] == "0x0300000000000000000000000000000000000002" => json!(record()),
            _ => json!(format!("0x{}", word(0))),
        },
        other => json!({"code": -32601, "message": format!("no method {other}")}),
    }
}

/// A record that names the embedded model's tokenizer.
fn record() -> String {
    let mut words: Vec<String> = (1..=9).map(word).collect();
    words.extend((0..6).map(word));
    words[10] = word(1);
    words[11] = word(1);
    words.push(TOKENIZER.into());
    words.push(word(32 * 17));
    words.push(word(0));
    format!("0x{}", words.concat())
}

fn call<'a>(node: &'a Node, more: &[&'a str]) -> Vec<&'a str> {
    [&["call", "--rpc", &node.url][..], more].concat()
}

fn ask<'a>(node: &'a Node, more: &[&'a str]) -> Vec<&'a str> {
    let fixed = [
        "ask",
        CONTRACT,
        "--rpc",
        &node.url,
        "--tokens",
        "1,2",
        "--max-new",
        "1",
    ];
    [&fixed[..], more].concat()
}

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
    let file = ["--key-file", key.path().to_str().unwrap()];
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
