//! A node of one thread that answers what a test wants, right or not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use super::*;

/// The bytes of an answer to a request.
type Answer = Box<dyn Fn(&Value) -> Vec<u8> + Send>;

/// Answers one request a connection with the bytes that `answer` makes of the request's JSON.
struct Node {
    url: String,
    thread: JoinHandle<()>,
}

impl Node {
    fn new(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/key", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let request = read_request(&mut stream);
                // The client may have gone; that is then what is tested.
                let _ = stream.write_all(&answer(&request));
            }
        });
        Self { url, thread }
    }

    fn one(answer: impl Fn(&Value) -> Vec<u8> + Send + 'static) -> Self {
        Self::new(vec![Box::new(answer)])
    }
}

fn read_request(stream: &mut TcpStream) -> Value {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let n = stream.read(&mut piece).unwrap();
        assert!(n > 0, "the request ends early");
        bytes.extend(&piece[..n]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_ascii_lowercase();
        let (_, len) = head.split_once("content-length: ").unwrap();
        let len: usize = len.lines().next().unwrap().trim().parse().unwrap();
        if body.len() == len {
            assert!(
                head.starts_with("post /key ") && head.contains("content-type: application/json")
            );
            return serde_json::from_str(body).unwrap();
        }
    }
}

fn http(status: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{body}").into()
}

fn args(url: &str, seconds: f64) -> RpcArgs {
    RpcArgs {
        rpc: url.into(),
        timeout: Duration::from_secs_f64(seconds),
    }
}

/// Asks for the newest block; the answer has this body, in which `ID` stands for the request's.
fn block_number(status: &'static str, body: &str) -> Result<u64, Error> {
    let body = body.to_string();
    let node = Node::one(move |request| {
        assert_eq!(request["method"], "eth_blockNumber");
        assert_eq!(request["jsonrpc"], "2.0");
        http(status, &body.replace("ID", &request["id"].to_string()))
    });
    let answer = Client::new(&args(&node.url, 30.0)).unwrap().block_number();
    node.thread.join().unwrap();
    answer
}

#[test]
fn results_are_read() {
    let answer = block_number("200 OK", r#"{"jsonrpc":"2.0","id":ID,"result":"0x10"}"#);
    assert_eq!(answer.unwrap(), 16);
    // A null beside the result is no error.
    let answer = block_number("200 OK", r#"{"id":ID,"result":"0x0","error":null}"#);
    assert_eq!(answer.unwrap(), 0);
}

#[test]
fn answers_of_no_form_are_named() {
    for (body, named) in [
        ("", "no JSON"),
        ("<html>busy</html>", "no JSON"),
        ("[]", "no object"),
        ("17", "no object"),
        ("{}", "one of `result` and `error`"),
        (r#"{"id":ID}"#, "one of `result` and `error`"),
        (
            r#"{"id":ID,"result":"0x1","error":{"code":1,"message":""}}"#,
            "one of",
        ),
        (r#"{"id":ID,"error":"no"}"#, "one of"),
        (
            r#"{"id":ID,"error":{"code":"x","message":"y"}}"#,
            "without code",
        ),
        (r#"{"id":ID,"error":{"message":"y"}}"#, "without code"),
        (r#"{"id":0,"result":"0x1"}"#, "another request"),
        (r#"{"id":null,"result":"0x1"}"#, "another request"),
        (r#"{"id":"ID","result":"0x1"}"#, "another request"),
        (r#"{"result":"0x1"}"#, "another request"),
        (
            r#"{"id":0,"error":{"code":1,"message":"y"}}"#,
            "another request",
        ),
        (r#"{"id":ID,"result":null}"#, "eth_blockNumber"),
        (r#"{"id":ID,"result":"0x1g"}"#, "eth_blockNumber"),
        (r#"{"id":ID,"result":"0x"}"#, "eth_blockNumber"),
        (r#"{"id":ID,"result":"0xzz"}"#, "eth_blockNumber"),
        (r#"{"id":ID,"result":"16"}"#, "eth_blockNumber"),
        (r#"{"id":ID,"result":16}"#, "eth_blockNumber"),
        (r#"{"id":ID,"result":"0x+1"}"#, "eth_blockNumber"),
        (r#"{"id":ID,"result":"-1"}"#, "eth_blockNumber"),
        (
            r#"{"id":ID,"result":"0x10000000000000000"}"#,
            "eth_blockNumber",
        ),
        (r#"{"id":ID,"result":{"a":1}}"#, "eth_blockNumber"),
        (r#"{"id":ID,"result":["0x1"]}"#, "eth_blockNumber"),
        (r#"{"id":ID,"result":true}"#, "eth_blockNumber"),
    ] {
        let error = block_number("200 OK", body).unwrap_err();
        assert!(matches!(error, Error::Form { .. }), "{body}: {error:?}");
        assert!(error.to_string().contains(named), "{body}: {error}");
        assert!(error.reverted().is_none() && !error.is_passing());
    }
    let deep = "[".repeat(100_000);
    let error = block_number("200 OK", &deep).unwrap_err();
    assert!(error.to_string().contains("recursion limit"), "{error}");
}

#[test]
fn errors_have_code_message_and_what_was_reverted_with() {
    let of = |status, error: &str| {
        block_number(status, &format!(r#"{{"id":ID,"error":{error}}}"#)).unwrap_err()
    };
    let plain = of("200 OK", r#"{"code":-32000,"message":"out of gas"}"#);
    assert!(plain.reverted().is_none());
    assert!(plain.to_string().contains("out of gas (code -32000)"));
    let bytes = [1, 2, 255];
    for error in [
        r#"{"code":3,"message":"execution reverted","data":"0x0102ff"}"#,
        r#"{"code":-32000,"message":"reverted","data":"0x0102ff"}"#,
        r#"{"code":-32603,"message":"reverted","data":{"data":"0x0102ff","message":"m"}}"#,
    ] {
        assert_eq!(of("200 OK", error).reverted(), Some(&bytes[..]), "{error}");
        // Some servers send errors with a status of their own.
        assert_eq!(of("400 Bad Request", error).reverted(), Some(&bytes[..]));
    }
    let bare = of("200 OK", r#"{"code":3,"message":"execution reverted"}"#);
    assert_eq!(bare.reverted(), Some(&[][..]));
    for data in ["\"no hex\"", "7", "[]", "[1]", "{}", "null", "\"0x1\""] {
        let error = of(
            "200 OK",
            &format!(r#"{{"code":-32000,"message":"m","data":{data}}}"#),
        );
        assert!(error.reverted().is_none(), "{data}");
    }
    // What a node says cannot steer a terminal or fill it.
    let long = format!(
        r#"{{"code":1,"message":"\u001b[2J\u0007\n{}"}}"#,
        "x".repeat(5000)
    );
    let said = of("200 OK", &long).to_string();
    assert!(!said.contains(char::is_control) && said.chars().count() < 500);
    // One that could not read the request cannot name it.
    let unread = block_number(
        "200 OK",
        r#"{"id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
    );
    assert!(matches!(unread, Err(Error::Node { code: -32700, .. })));
}

#[test]
fn other_servers_are_told_apart() {
    for status in ["404 Not Found", "502 Bad Gateway", "301 Moved Permanently"] {
        let error = block_number(status, "<html></html>").unwrap_err();
        assert!(matches!(error, Error::Status { .. }), "{error:?}");
    }
    for noise in [
        "",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{",
    ] {
        let node = Node::one(|_| noise.into());
        let error = Client::new(&args(&node.url, 30.0)).unwrap().chain_id();
        let error = error.unwrap_err();
        assert!(error.is_passing(), "{noise}: {error:?}");
        assert!(!error.to_string().contains("/key"), "{error}");
    }
    // Nobody listens on a port that was just let go.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let url = format!("http://{}", port.unwrap());
    let error = Client::new(&args(&url, 30.0)).unwrap().chain_id();
    assert!(matches!(error, Err(Error::Transport { .. })));
}

#[test]
fn an_answer_without_end_is_cut() {
    for length in [
        "content-length: 99999999999\r\n",
        "",
        "transfer-encoding: chunked\r\n",
    ] {
        let node = Node::one(move |_| {
            let mut answer = format!("HTTP/1.1 200 OK\r\n{length}\r\n").into_bytes();
            let piece = [b' '; 1 << 16];
            for _ in 0..(MAX_ANSWER >> 16) + 2 {
                if length.starts_with('t') {
                    answer.extend(b"10000\r\n");
                }
                answer.extend(piece);
                if length.starts_with('t') {
                    answer.extend(b"\r\n");
                }
            }
            answer
        });
        let error = Client::new(&args(&node.url, 30.0)).unwrap().chain_id();
        assert!(
            matches!(error, Err(Error::TooLarge { .. })),
            "{length}: {error:?}"
        );
    }
}

#[test]
fn a_silent_node_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::new(&args(&url, 0.2)).unwrap();
    let start = std::time::Instant::now();
    let error = client.chain_id().unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    assert!(error.to_string().contains("0.2 s") && error.is_passing());
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn addresses_of_nodes() {
    for bad in [
        "",
        "127.0.0.1:8545",
        "ftp://h",
        "http://",
        "http:///x",
        "\u{7}",
        "http://a b",
    ] {
        let error = Client::new(&args(bad, 1.0)).err().unwrap();
        assert!(matches!(error, Error::Url(_)), "{bad}");
    }
    let client = Client::new(&args("https://user:secret@host:9/v3/KEY?x", 1.0)).unwrap();
    assert_eq!(client.node, "https://host:9");
    for bad in ["0", "-1", "nan", "inf", "1e9", "x"] {
        assert!(seconds(bad).is_err(), "{bad}");
    }
    assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
}

#[test]
fn a_receipt_is_that_of_the_transaction() {
    let receipt = |hash: B256| {
        json!({
            "transactionHash": hash, "blockNumber": "0x2", "status": "0x1", "gasUsed": "0x5208", "type": "0x2",
            "logs": [{"address": Address::repeat_byte(7), "topics": [B256::repeat_byte(1)], "data": "0x0a", "removed": false}],
        })
    };
    let ask = |result: Value| {
        let node = Node::one(move |request| {
            assert_eq!(request["params"], json!([B256::repeat_byte(5)]));
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
            http("200 OK", &answer.to_string())
        });
        let client = Client::new(&args(&node.url, 30.0)).unwrap();
        client.receipt(B256::repeat_byte(5))
    };
    let found = ask(receipt(B256::repeat_byte(5))).unwrap().unwrap();
    assert_eq!(
        (found.block_number, found.gas_used),
        (Quantity(2), Quantity(21_000))
    );
    assert_eq!(found.logs[0].data[..], [10]);
    assert!(ask(receipt(B256::repeat_byte(6))).is_err());
    for key in [
        "transactionHash",
        "blockNumber",
        "status",
        "gasUsed",
        "logs",
    ] {
        let mut cut = receipt(B256::repeat_byte(5));
        cut.as_object_mut().unwrap().remove(key);
        assert!(ask(cut).is_err(), "{key}");
    }
}

#[test]
fn calls_are_written_as_nodes_read_them() {
    let node = Node::new(vec![
        Box::new(|request: &Value| {
            let call = json!({"to": Address::repeat_byte(1), "data": "0x0102"});
            assert_eq!(request["params"], json!([call, "0xff"]));
            http(
                "200 OK",
                &json!({"id": request["id"], "result": "0x"}).to_string(),
            )
        }),
        Box::new(|request: &Value| {
            let call = json!({
                "to": Address::repeat_byte(1), "data": "0x0102", "from": Address::repeat_byte(2), "gas": "0x5208",
            });
            assert_eq!(request["params"], json!([call, "latest"]));
            http(
                "200 OK",
                &json!({"id": request["id"], "result": "0x5300"}).to_string(),
            )
        }),
    ]);
    let client = Client::new(&args(&node.url, 30.0)).unwrap();
    let mut call = Call::new(Address::repeat_byte(1), &[1, 2]);
    assert!(client.call(&call, 255).unwrap().is_empty());
    (call.from, call.gas) = (Some(Address::repeat_byte(2)), Some(21_000));
    assert_eq!(client.estimate_gas(&call, None).unwrap(), 0x5300);
    node.thread.join().unwrap();
}
