//! Subscriptions over a WebSocket, by a client of a few lines (RFC 6455).

use crate::client::{Served, hex, number};
use alloy_primitives::keccak256;
use precompile::REGISTRY;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub(crate) struct Socket(BufReader<TcpStream>);

impl Socket {
    pub(crate) fn open(served: &Served) -> Self {
        Self::of_page(served, "").unwrap()
    }

    /// Opened by a page with these headers; else the line with which it was turned away.
    pub(crate) fn of_page(served: &Served, headers: &str) -> Result<Self, String> {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let head = format!(
            "GET / HTTP/1.1\r\nHost: {}\r\n{headers}Upgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
            served.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if !line.starts_with("HTTP/1.1 101") {
            return Err(line);
        }
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        Ok(Self(reader))
    }

    fn write(&mut self, text: &str) {
        // A whole text message, masked with zeros.
        let mut frame = vec![0x81];
        match text.len() {
            len @ 0..=125 => frame.push(0x80 | len as u8),
            len => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(len).unwrap().to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.0.get_mut().write_all(&frame).unwrap();
    }

    fn read(&mut self) -> Value {
        loop {
            let mut head = [0; 2];
            self.0.read_exact(&mut head).unwrap();
            let mut len = u64::from(head[1]);
            if len == 126 {
                let mut long = [0; 2];
                self.0.read_exact(&mut long).unwrap();
                len = u16::from_be_bytes(long).into();
            }
            assert!(len < 127 || head[1] == 126, "longer than expected here");
            let mut body = vec![0; len as usize];
            self.0.read_exact(&mut body).unwrap();
            if head[0] == 0x81 {
                return serde_json::from_slice(&body).unwrap();
            }
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        self.write(&request.to_string());
        loop {
            let answer = self.read();
            if answer.get("id") == Some(&json!(7)) {
                return answer;
            }
        }
    }

    fn subscribe(&mut self, params: Value) -> Value {
        let mut answer = self.ask("eth_subscribe", params);
        assert!(answer["result"].is_string(), "{answer}");
        answer["result"].take()
    }

    /// The next thing that a subscription tells.
    fn told(&mut self, id: &Value) -> Value {
        loop {
            let mut told = self.read();
            assert_eq!(told["method"], "eth_subscription");
            if told["params"]["subscription"] == *id {
                return told["params"]["result"].take();
            }
        }
    }
}

#[test]
fn heads_in_order_and_none_left_out() {
    let served = Served::new();
    let mut socket = Socket::open(&served);
    assert_eq!(socket.ask("eth_chainId", json!([]))["result"], "0x7a69");
    let id = socket.subscribe(json!(["newHeads"]));
    served.ask("anvil_mine", json!(["0x14"]));
    for expected in 1..=20 {
        let head = socket.told(&id);
        assert_eq!(number(&head["number"]), expected);
        let block = served.ask("eth_getBlockByNumber", json!([head["number"], false]));
        for key in [
            "hash",
            "parentHash",
            "stateRoot",
            "logsBloom",
            "timestamp",
            "baseFeePerGas",
        ] {
            assert_eq!(head[key], block[key], "{key}");
        }
    }
    assert_eq!(socket.ask("eth_unsubscribe", json!([id]))["result"], true);
    served.ask("evm_mine", json!([]));
    assert_eq!(socket.ask("eth_blockNumber", json!([]))["result"], "0x15");
}

#[test]
fn events() {
    let served = Served::new();
    let mut socket = Socket::open(&served);
    let passed = keccak256("Passed(bytes32,uint64,bytes32,uint64)");
    let filter = json!({"address": hex(&REGISTRY), "topics": [passed]});
    let id = socket.subscribe(json!(["logs", filter]));
    for version in 1..4u64 {
        let data = served.blob.propose(&[4; 32], version);
        let receipt = served.send(0, json!({"to": hex(&REGISTRY), "data": hex(&data)}));
        let log = socket.told(&id);
        assert_eq!(log, receipt["logs"][1]);
    }
    let refused = socket.ask("eth_subscribe", json!(["syncing"]));
    assert_eq!(refused["error"]["code"], -32602);
    let refused = socket.ask("eth_subscribe", json!([]));
    assert_eq!(refused["error"]["code"], -32602);
}

#[test]
fn pages_of_other_origins() {
    let served = Served::new();
    for origin in ["https://evil.example", "null"] {
        let turned = Socket::of_page(&served, &format!("Origin: {origin}\r\n")).err();
        let line = turned.unwrap_or_else(|| panic!("{origin} is let in"));
        assert!(line.starts_with("HTTP/1.1 403"), "{line}");
    }
    let mut local = Socket::of_page(&served, "Origin: http://localhost:3000\r\n").unwrap();
    assert_eq!(local.ask("eth_chainId", json!([]))["result"], "0x7a69");
}
