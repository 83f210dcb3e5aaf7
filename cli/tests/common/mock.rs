//! A node that answers as a test says, for `blue call` and `blue ask`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

pub const CONTRACT: &str = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
const ACCOUNT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/// The digest of the embedded model's tokenizer file.
pub const TOKENIZER: &str = "f5ed8df5eae7dddc084bf89f3f619dfdab8b9c1a49299f4332a069c49adfbb8a";

/// The selector of `getApproved(bytes32)`.
pub const GET_APPROVED: &str = "0xef270ee2";

type Answers = dyn Fn(&str, &Value) -> Option<Value> + Send + Sync;

/// A node that answers as it is told, `Err` standing for an error of JSON-RPC; it lives as long as the test.
pub struct Node {
    pub url: String,
    sent: Arc<AtomicUsize>,
}

impl Node {
    /// `answers` gives results of methods; what it does not give is answered as an honest node with one contract would.
    pub fn new(answers: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static) -> Self {
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
    pub fn sent(&self) -> usize {
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

pub fn word(n: u64) -> String {
    format!("{n:064x}")
}

pub fn honest(method: &str, params: &Value) -> Value {
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
pub fn record() -> String {
    let mut words: Vec<String> = (1..=9).map(word).collect();
    words.extend((0..6).map(word));
    words[10] = word(1);
    words[11] = word(1);
    words.push(TOKENIZER.into());
    words.push(word(32 * 17));
    words.push(word(0));
    format!("0x{}", words.concat())
}

pub fn call<'a>(node: &'a Node, more: &[&'a str]) -> Vec<&'a str> {
    [&["call", "--rpc", &node.url][..], more].concat()
}

pub fn ask<'a>(node: &'a Node, more: &[&'a str]) -> Vec<&'a str> {
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
