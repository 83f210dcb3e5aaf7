//! `blue devnet` as a command: what it prints, the file that it goes on in, how it ends.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use common::running::Running;
use common::{blue, error_of};
use serde_json::{Value, json};

#[test]
fn what_scripts_read() {
    let devnet = Running::devnet(&["--chain-id", "77"]);
    let ready = &devnet.first;
    assert_eq!(ready["chain_id"], 77);
    assert_eq!(devnet.ask("eth_chainId", json!([])), "0x4d");
    let accounts = ready["accounts"].as_array().unwrap();
    assert_eq!(accounts.len(), 10);
    let text = |value: &Value| value.as_str().unwrap().to_lowercase();
    assert_eq!(
        text(&accounts[3]["address"]),
        text(&devnet.ask("eth_accounts", json!([]))[3])
    );
    let model = &ready["models"][0];
    let name = common::text_of(&mut blue(["chain", "name", "blue"]));
    assert_eq!(model["name"], name.trim());
    let commitment = model["commitment"].as_str().unwrap().to_owned();
    let registry = ready["registry"].clone();
    // getApproved(name).
    let data = format!("0xef270ee2{}", &name.trim()[2..]);
    let approved = devnet.ask(
        "eth_call",
        json!([{"to": registry, "data": data}, "latest"]),
    );
    assert!(approved.as_str().unwrap().ends_with(&commitment[2..]));
}

#[test]
fn a_chain_in_a_file_goes_on_after_it_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain");
    let db = path.to_str().unwrap();
    let mut hashes = vec![];
    for round in 0..3u64 {
        let devnet = Running::devnet(&["--db", db]);
        let said = error_of(&mut blue(["devnet", "--port", "0", "--db", db]), 2);
        assert!(said.contains("is in use by another process"), "{said}");
        assert_eq!(
            devnet.ask("eth_blockNumber", json!([])),
            format!("{round:#x}")
        );
        let [from, to] = [0, 1].map(|i| devnet.first["accounts"][i]["address"].clone());
        let tx = json!([{"from": from, "to": to, "value": "0x1"}]);
        hashes.push(devnet.ask("eth_sendTransaction", tx));
        for hash in &hashes {
            let receipt = devnet.ask("eth_getTransactionReceipt", json!([hash]));
            assert_eq!(receipt["status"], "0x1", "{receipt}");
        }
    }
    let other = ["devnet", "--port", "0", "--db", db, "--chain-id", "5"];
    let said = error_of(&mut blue(other), 2);
    assert!(said.contains("with chain id 31337, not 5:"), "{said}");
    // Lost ends are the file's fault, not the program's.
    let whole = std::fs::read(&path).unwrap();
    for parts in 1..8 {
        std::fs::write(&path, &whole[..whole.len() * parts / 8]).unwrap();
        let said = error_of(&mut blue(["devnet", "--port", "0", "--db", db]), 2);
        assert!(said.contains("the database"), "{said}");
        assert!(!said.contains("internal error"), "{said}");
    }
    let folder = folder.path().to_str().unwrap();
    let said = error_of(&mut blue(["devnet", "--port", "0", "--db", folder]), 2);
    assert!(said.contains("cannot be opened"), "{said}");
}

#[test]
fn a_port_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = error_of(&mut blue(["devnet", "--port", &port]), 1);
    assert!(said.contains("cannot listen on 127.0.0.1"), "{said}");
    assert!(said.contains("--port"), "{said}");
}

#[test]
fn people_are_told_and_the_end_is_quiet() {
    let mut command = blue(["devnet", "--port", "0"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    while !said.contains("listening on http://127.0.0.1:") {
        assert_ne!(stdout.read_line(&mut said).unwrap(), 0, "{said}");
    }
    for part in ["EVERYBODY KNOWS THESE KEYS", "model blue", "0x92e39a68"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let id = child.id().to_string();
    let kill = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(kill.success());
    assert!(child.wait().unwrap().success());
    let mut errors = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut errors)
        .unwrap();
    assert!(!errors.contains("error"), "{errors}");
}

#[test]
fn a_chain_that_is_asked_to_end_as_soon_as_it_is_ready() {
    for _ in 0..20 {
        Running::devnet(&[]).end();
    }
}
