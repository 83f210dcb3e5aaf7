//! How much runs and waits at a time, whatever clients do.

use crate::client::{MODEL, Served, hex};
use crate::hostile::alive;
use crate::socket::Socket;
use blue_devnet::rpc::{Limits, Mining};
use precompile::{Fault, INFERENCE, calldata};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A call that waits at the gate.
fn question() -> Value {
    let data = calldata::generate(&MODEL, &[0; 32], &[1, 2], 2);
    json!([{"to": hex(&INFERENCE), "data": hex(&data)}, "latest"])
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn gas_of_calls() {
    let limits = Limits {
        call_gas: 100_000,
        ..Limits::default()
    };
    let served = Served::with(limits, Mining::Instant);
    // JUMPDEST PUSH1 0 JUMP: burns whatever it is given. As the code of a creation it runs at once.
    let endless = json!([{"data": "0x5b600056", "gas": "0xffffffffffff"}, "latest"]);
    let (_, message, _) = served.refused("eth_call", endless);
    assert_eq!(message, "out of gas");
}

#[test]
fn requests_too_many_are_told_so() {
    const ASKED: usize = 24;
    let limits = Limits {
        calls: 1,
        requests: 3,
        ..Limits::default()
    };
    let served = Served::with(limits, Mining::Instant);
    served.gate.close();
    let busy = AtomicUsize::new(0);
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let ask = || {
            let answer = served.raw("eth_call", question());
            if answer["error"]["code"] == -32005 {
                busy.fetch_add(1, Ordering::SeqCst);
            }
            answer
        };
        let all: Vec<_> = (0..ASKED).map(|_| scope.spawn(ask)).collect();
        // One runs and two wait; nobody else does.
        let end = Instant::now() + Duration::from_secs(20);
        while busy.load(Ordering::SeqCst) < ASKED - 3 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let quick = served.raw("eth_chainId", json!([]));
        served.gate.open();
        let answers = all.into_iter().map(|thread| thread.join().unwrap());
        answers.chain([quick]).collect()
    });
    assert_eq!(answers[ASKED]["error"]["code"], -32005);
    let (ok, refused): (Vec<_>, Vec<_>) = answers
        .iter()
        .take(ASKED)
        .partition(|answer| answer.get("error").is_none());
    assert_eq!((ok.len(), refused.len()), (3, ASKED - 3), "{refused:?}");
    assert_eq!(busy.load(Ordering::SeqCst), ASKED - 3);
    assert_eq!(served.gate.most(), 1);
    alive(&served);
}

/// The work of a call goes on after its client is gone, and counts until it ends.
#[test]
fn clients_that_hang_up() {
    let limits = Limits {
        calls: 1,
        requests: 2,
        ..Limits::default()
    };
    let served = Served::with(limits, Mining::Instant);
    served.gate.close();
    let request =
        json!({"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": question()}).to_string();
    for _ in 0..12 {
        let mut stream = TcpStream::connect(served.address).unwrap();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            served.address,
            request.len()
        );
        stream.write_all((head + &request).as_bytes()).unwrap();
        until("no call runs", || served.gate.running() > 0);
        // Time for the next one to begin, if it may.
        std::thread::sleep(Duration::from_millis(30));
    }
    // All are gone, and one still runs: another may wait, no third.
    until("the requests of those that are gone", || {
        served.raw("eth_chainId", json!([])).get("error").is_none()
    });
    assert_eq!(served.gate.running(), 1);
    std::thread::scope(|scope| {
        // The question that is asked in between may take its place at first.
        let waiting = scope.spawn(|| {
            loop {
                let answer = served.raw("eth_call", question());
                if answer["error"]["code"] != -32005 {
                    return answer;
                }
            }
        });
        let mut answer = Value::Null;
        until("a request too many", || {
            answer = served.raw("eth_chainId", json!([]));
            answer.get("error").is_some()
        });
        assert_eq!(answer["error"]["code"], -32005);
        served.gate.open();
        assert!(waiting.join().unwrap().get("error").is_none());
    });
    assert_eq!(served.gate.most(), 1);
    alive(&served);
}

#[test]
fn connections() {
    let limits = Limits {
        connections: 8,
        ..Limits::default()
    };
    let served = Served::with(limits, Mining::Instant);
    // Those that say nothing take nobody's place.
    let open = |_| TcpStream::connect(served.address).unwrap();
    let silent: Vec<TcpStream> = (0..20).map(open).collect();
    alive(&served);
    let mut sockets: Vec<_> = (0..8).map(|_| Socket::open(&served)).collect();
    let (status, _) = served.post(b"");
    assert_eq!(status, 429);
    let line = Socket::of_page(&served, "").err();
    assert!(line.is_some_and(|line| line.starts_with("HTTP/1.1 429")));
    sockets.pop();
    until("nobody is let in again", || served.post(b"").0 != 429);
    alive(&served);
    drop(silent);
}

#[test]
fn a_full_disk_ends_the_server() {
    let served = Served::new();
    served.full.store(true, Ordering::Relaxed);
    let sent = json!([{"from": served.accounts[0].address, "to": served.accounts[1].address}]);
    assert!(served.raw("evm_mine", json!([])).get("error").is_some());
    let fault = served.fault();
    assert!(matches!(fault, Fault::State(_)), "{fault}");
    // Nothing is taken any more, and everybody is told why.
    served.full.store(false, Ordering::Relaxed);
    for (method, params) in [("eth_sendTransaction", sent), ("evm_mine", json!([]))] {
        let (_, message, _) = served.refused(method, params);
        assert!(message.contains("no space left"), "{method}: {message}");
    }
}
