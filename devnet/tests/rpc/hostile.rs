//! What no honest client sends. The server answers or closes, and answers honest ones afterwards.

use crate::client::{Served, hex};
use blue_devnet::rpc::{Limits, Mining};
use precompile::INFERENCE;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

/// It still works.
pub(crate) fn alive(served: &Served) {
    assert_eq!(served.ask("eth_chainId", json!([])), "0x7a69");
    served.send(0, json!({"to": served.accounts[1].address}));
}

const METHODS: [&str; 32] = [
    "web3_sha3",
    "eth_getBalance",
    "eth_getCode",
    "eth_getStorageAt",
    "eth_getTransactionCount",
    "eth_getBlockByNumber",
    "eth_getBlockByHash",
    "eth_getBlockTransactionCountByNumber",
    "eth_getBlockTransactionCountByHash",
    "eth_getTransactionByHash",
    "eth_getTransactionByBlockNumberAndIndex",
    "eth_getTransactionByBlockHashAndIndex",
    "eth_getTransactionReceipt",
    "eth_getBlockReceipts",
    "eth_call",
    "eth_estimateGas",
    "eth_sendTransaction",
    "eth_sendRawTransaction",
    "eth_sign",
    "personal_sign",
    "eth_getLogs",
    "eth_newFilter",
    "eth_getFilterChanges",
    "eth_getFilterLogs",
    "eth_uninstallFilter",
    "eth_feeHistory",
    "evm_increaseTime",
    "evm_setNextBlockTimestamp",
    "anvil_mine",
    "eth_subscribe",
    "eth_unsubscribe",
    "evm_mine",
];

#[test]
fn wrong_arguments_of_every_method() {
    let served = Served::new();
    let deep = (0..100).fold(json!(0), |inner, _| json!([inner]));
    let wrong = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(18446744073709551615u64),
        json!(""),
        json!("0x"),
        json!("0xg"),
        json!("latest"),
        json!("0x1"),
        json!("-0x1"),
        json!({}),
        json!([]),
        json!("\u{0}\u{ffff}"),
        json!("0x".to_owned() + &"f".repeat(65)),
        json!("0x".to_owned() + &"0".repeat(100_000)),
        json!({"from": 1, "to": {}}),
        json!({"to": hex(&INFERENCE), "data": "0x0", "gas": "0xffffffffffffffffffff"}),
        json!({"to": hex(&INFERENCE), "data": "0x1", "input": "0x1234"}),
        json!({"from": served.accounts[0].address, "gas": "0xffffffffffffffff", "value": "0x".to_owned() + &"f".repeat(64)}),
        json!({"from": served.accounts[0].address, "maxFeePerGas": "0xffffffffffffffffffffffffffffffff", "maxPriorityFeePerGas": "0xffffffffffffffffffffffffffffffff"}),
        json!({"from": served.accounts[0].address, "nonce": "0xffffffffffffffff", "gas": "0x5208", "to": hex(&INFERENCE)}),
        json!({"authorizationList": [{"chainId": "0x0", "address": hex(&INFERENCE), "nonce": "0xffffffffffffffff", "yParity": "0x9", "r": "0x0", "s": "0x0"}]}),
        json!({"fromBlock": "0xffffffffffffffff", "toBlock": "0x0"}),
        json!({"fromBlock": "0x0", "toBlock": "0xffffffffffffffff", "topics": [[[[]]]]}),
        json!({"blockHash": "0x1", "blockNumber": "0x1"}),
        deep,
    ];
    for method in METHODS {
        for first in &wrong {
            for params in [
                json!([first]),
                json!([first, first]),
                json!([first, first, first]),
                first.clone(),
            ] {
                // Half a thousand blocks would come of these.
                if method == "anvil_mine" && first.is_number() {
                    continue;
                }
                let request =
                    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
                let (_, body) = served.post(request.to_string().as_bytes());
                let answer: Value = serde_json::from_str(&body).unwrap();
                let error = &answer["error"];
                assert!(
                    answer.get("result").is_some() || error["code"].is_i64(),
                    "{request}: {body}"
                );
                let said = error["message"].as_str().unwrap_or_default();
                assert!(!said.contains("internal error"), "{request}: {body}");
            }
        }
    }
    alive(&served);
}

#[test]
fn bodies_that_are_no_requests() {
    let served = Served::new();
    for body in [
        &b""[..],
        b"{",
        b"[]",
        b"[1,2,3]",
        b"null",
        b"\xff\xfe\xfd",
        b"{\"jsonrpc\":\"2.0\"}",
        b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"eth_chainId\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"eth_chainId\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\",\"params\":\"x\"}",
    ] {
        served.post(body);
    }
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    served.post(&deep);
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_call\",\"params\":{}}}",
        String::from_utf8(deep).unwrap()
    );
    served.post(deep.as_bytes());
    alive(&served);
}

#[test]
fn sizes_are_bounded() {
    let limits = Limits {
        request_bytes: 10_000,
        response_bytes: 20_000,
        batch: 5,
        ..Limits::default()
    };
    let served = Served::with(limits, Mining::Instant);
    let large = json!(["0x".to_owned() + &"00".repeat(6_000)]);
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "web3_sha3", "params": large});
    let (status, _) = served.post(request.to_string().as_bytes());
    assert_eq!(status, 413);
    let one = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []});
    let batch = |n| json!(vec![one.clone(); n]).to_string();
    let (_, body) = served.post(batch(5).as_bytes());
    let answers: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answers.as_array().unwrap().len(), 5);
    let (_, body) = served.post(batch(6).as_bytes());
    assert!(body.contains("-32010"), "{body}");
    for _ in 0..100 {
        served.ask("evm_mine", json!([]));
    }
    let (code, _, _) = served.refused("eth_feeHistory", json!(["0x400", "latest", vec![1; 100]]));
    assert_eq!(code, -32008);
    alive(&served);
}

#[test]
fn pages_of_other_names_and_origins() {
    let served = Served::new();
    let post = |headers: &str| {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;
        let mut stream = TcpStream::connect(served.address).unwrap();
        let length = body.len();
        let head = format!(
            "POST / HTTP/1.1\r\n{headers}Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.to_lowercase()
    };
    let port = served.address.port();
    assert!(post(&format!("Host: localhost:{port}\r\n")).contains("0x7a69"));
    // A page whose name was pointed at this machine.
    let denied = post(&format!("Host: evil.example:{port}\r\n"));
    assert!(denied.starts_with("http/1.1 403"), "{denied}");
    // A page of another origin, which browsers let open a WebSocket as well.
    let denied = post(&format!(
        "Host: localhost:{port}\r\nOrigin: https://evil.example\r\n"
    ));
    assert!(denied.starts_with("http/1.1 403"), "{denied}");
    let local = post(&format!(
        "Host: localhost:{port}\r\nOrigin: http://localhost:3000\r\n"
    ));
    assert!(local.contains("0x7a69"), "{local}");
    let told = "access-control-allow-origin: http://localhost:3000";
    assert!(local.contains(told), "{local}");
}

/// What a browser asks before a page of another port may post JSON.
#[test]
fn preflights() {
    let served = Served::new();
    let ask = |origin: &str| {
        let mut stream = TcpStream::connect(served.address).unwrap();
        let head = format!(
            "OPTIONS / HTTP/1.1\r\nHost: {}\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: POST\r\n\
             Access-Control-Request-Headers: content-type\r\nConnection: close\r\n\r\n",
            served.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.to_lowercase()
    };
    let allowed = ask("http://localhost:3000");
    assert!(allowed.starts_with("http/1.1 200"), "{allowed}");
    for told in [
        "access-control-allow-origin: http://localhost:3000\r\n",
        "access-control-allow-methods: ",
        "access-control-allow-headers: ",
    ] {
        assert!(allowed.contains(told), "{told}: {allowed}");
    }
    let denied = ask("https://evil.example");
    assert!(denied.starts_with("http/1.1 403"), "{denied}");
}
