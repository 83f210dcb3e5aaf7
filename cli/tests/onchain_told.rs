//! What `blue call` and `blue ask` say when a chain refuses, a contract is of another kind, or a transaction stays away.

mod common;

use alloy_sol_types::{SolError, SolValue, sol};
use common::mock::{CONTRACT, GET_APPROVED, Node, ask, call};
use common::{blue, error_of, run};
use precompile::Refusal;
use serde_json::{Value, json};

const REGISTRY: &str = "0x0300000000000000000000000000000000000002";
const INFERENCE: &str = "0x0300000000000000000000000000000000000003";

sol! {
    error ModelChanged();
}

fn hex(data: &[u8]) -> String {
    data.iter()
        .fold("0x".into(), |text, b| format!("{text}{b:02x}"))
}

fn reverts(data: &[u8]) -> Value {
    json!({"code": 3, "message": "execution reverted", "data": hex(data)})
}

/// A chain without a record of the model that is asked, on which inference refuses with `refusal`.
fn refusing(refusal: Refusal, active: bool) -> Node {
    Node::new(move |method, params| {
        let (to, data) = (params[0]["to"].as_str()?, params[0]["data"].as_str()?);
        match to {
            _ if method != "eth_call" => None,
            INFERENCE => Some(reverts(&precompile::revert_data(refusal))),
            REGISTRY if !data.starts_with(GET_APPROVED) => {
                Some(reverts(&precompile::revert_data(Refusal::NoRecord)))
            }
            REGISTRY if !active => Some(json!(hex(&[0; 64]))),
            _ => None,
        }
    })
}

/// The JSON of a run that ends with `code`; standard error stays empty.
fn told(args: &[&str], code: i32) -> Value {
    let out = run(blue(args).arg("--json"));
    assert_eq!(out.status.code(), Some(code), "{args:?}");
    assert!(out.stderr.is_empty(), "{args:?}");
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn a_refused_model_is_told_for_text_as_for_ids() {
    let other = format!("0x{}", "22".repeat(32));
    for (refusal, active, pin) in [
        (Refusal::NotActive, true, &["--commitment", &other][..]),
        (Refusal::NoActiveModel, false, &["--name", &other]),
    ] {
        let node = refusing(refusal, active);
        for prompt in [["--prompt", "It is"], ["--tokens", "1,2"]] {
            let args = [&prompt[..], pin, &["--max-new", "1"]].concat();
            let args = call(&node, &args);
            let said = error_of(&mut blue(&args), 2);
            let number = format!("refused with number {}", refusal.number());
            assert!(said.contains(&number), "{said}");
            let line = told(&args, 2);
            assert_eq!(line["refused"]["number"], refusal.number());
        }
    }
    // An Oracle that pins a model without a record.
    let node = Node::new(|method, params| {
        let to = params[0]["to"].as_str()?;
        let data = params[0]["data"].as_str()?;
        match to {
            _ if method != "eth_call" => None,
            _ if to == CONTRACT.to_lowercase() => Some(json!(hex(&[0x22; 32]))),
            INFERENCE => Some(reverts(&precompile::revert_data(Refusal::NotActive))),
            REGISTRY if !data.starts_with(GET_APPROVED) => {
                Some(reverts(&precompile::revert_data(Refusal::NoRecord)))
            }
            _ => None,
        }
    });
    let args = ["ask", CONTRACT, "--rpc", &node.url, "--max-new", "1"];
    let args = [&args[..], &["--prompt", "It is"]].concat();
    assert!(error_of(&mut blue(&args), 2).contains("number 15"));
    assert_eq!(told(&args, 2)["refused"]["name"], "NotActive");
    assert_eq!(node.sent(), 0);
}

#[test]
fn a_block_that_is_not_there_is_told_as_the_node_says() {
    let node = Node::new(|method, _| {
        let absent = json!({"code": -32000, "message": "there is no such block\u{202e}"});
        matches!(method, "eth_call" | "eth_getCode").then_some(absent)
    });
    let args = ["--tokens", "1", "--max-new", "1", "--block", "9999"];
    let said = error_of(&mut blue(call(&node, &args)), 1);
    assert!(said.contains("there is no such block"), "{said}");
    assert!(
        !said.contains("registry") && !said.contains('\u{202e}'),
        "{said}"
    );
}

#[test]
fn contracts_of_another_kind_are_told_with_the_right_command() {
    let view = (vec![5u32, 6],).abi_encode_params();
    let as_view = Node::new(move |method, params| {
        (method == "eth_call" && params[0]["to"] == CONTRACT.to_lowercase())
            .then(|| json!(hex(&view)))
    });
    let said = error_of(&mut blue(ask(&as_view, &[])), 2);
    assert!(said.contains("blue call --contract"), "{said}");
    assert_eq!(as_view.sent(), 0);

    let args = ["--contract", CONTRACT, "--tokens", "1", "--max-new", "1"];
    let as_transaction = Node::new(|_, _| None);
    let said = error_of(&mut blue(call(&as_transaction, &args)), 1);
    assert!(said.contains("blue ask"), "{said}");

    let silent = Node::new(|method, params| {
        let getter = params[0]["data"]
            .as_str()
            .is_some_and(|data| data.len() == 10);
        let asked = matches!(method, "eth_call" | "eth_estimateGas") && !getter;
        (asked && params[0]["to"] == CONTRACT.to_lowercase()).then(|| reverts(&[]))
    });
    for args in [ask(&silent, &[]), call(&silent, &args)] {
        let said = error_of(&mut blue(args), 2);
        assert!(said.contains("VerifiedOracle"), "{said}");
    }
}

#[test]
fn the_errors_of_the_contract_of_the_page_are_read() {
    let refusal = [
        &alloy_primitives::keccak256("Refusal(uint16)")[..4],
        &11.abi_encode(),
    ]
    .concat();
    for (data, named) in [
        (ModelChanged {}.abi_encode(), "ModelChanged"),
        (refusal, "number 11, TokenOutOfRange"),
    ] {
        let node = Node::new(move |method, params| {
            let asked = params[0]["data"].as_str()?.len() > 10;
            (method == "eth_call" && asked && params[0]["to"] == CONTRACT.to_lowercase())
                .then(|| reverts(&data))
        });
        let args = ["--contract", CONTRACT, "--tokens", "1", "--max-new", "1"];
        let said = error_of(&mut blue(call(&node, &args)), 2);
        assert!(said.contains(named), "{said}");
    }
}

#[test]
fn a_sent_transaction_is_named_whatever_comes_after() {
    let hash = format!("0x{}", "77".repeat(32));
    let answers = [
        Value::Null,
        json!({"code": -32000, "message": "lost"}),
        json!({"logs": 7}),
    ];
    for answer in answers {
        let node = Node::new(move |method, _| {
            (method == "eth_getTransactionReceipt").then(|| answer.clone())
        });
        let args = ask(&node, &["--timeout", "0.3"]);
        let line = told(&args, 1);
        assert_eq!(line["transaction"], hash.as_str(), "{line}");
        assert!(!line["reason"].as_str().unwrap().is_empty());
        let said = error_of(&mut blue(&args), 1);
        assert!(said.contains(&hash), "{said}");
    }
}

#[test]
fn a_signer_is_told_the_chain_that_it_signs_for() {
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "11".repeat(32)).unwrap();
    let file = ["--key-file", key.path().to_str().unwrap()];
    let node = Node::new(|method, _| {
        (method == "eth_sendRawTransaction").then(|| json!({"code": -32000, "message": "no"}))
    });
    let said = |more: &[&str]| {
        let args = [&file[..], more].concat();
        let out = run(&mut blue(ask(&node, &args)));
        String::from_utf8(out.stderr).unwrap()
    };
    assert!(said(&[]).contains("signing for chain 31337"));
    assert!(!said(&["--chain-id", "31337"]).contains("signing for"));
}
