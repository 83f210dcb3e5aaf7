//! `blue chain`: genesis, names, proposals, prices, calls, the bench.

mod common;

use common::{blue, error_of, json_of, run, text_of};
use serde_json::Value;

const COMMITMENT: &str = "0x92e39a68509f47a37bb597808eeda08c1205b2049c1a3b670ca421efa2162b24";

fn tiny() -> String {
    format!(
        "{}/../models/default/blue-tiny.blob",
        env!("CARGO_MANIFEST_DIR")
    )
}

fn json(args: &[&str]) -> Value {
    json_of(&mut blue(args))
}

#[test]
fn genesis_holds_both_accounts_and_every_admin() {
    let (a, b) = (format!("0x{}", "a1".repeat(20)), "b0".repeat(20));
    let alloc = json(&[
        "chain", "genesis", "--admin", &a, "--admin", &b, "--quorum", "2", "--delay", "16",
        "--window", "256",
    ]);
    let registry = &alloc["0x0300000000000000000000000000000000000002"];
    assert_eq!(registry["code"], "0xfe");
    assert_eq!(registry["nonce"], "0x1");
    let words: Vec<_> = registry["storage"].as_object().unwrap().values().collect();
    assert_eq!(words.len(), 3);
    let governance = "0x0000000200000002000000000000001000000000000001000000000000000000";
    assert!(words.iter().any(|w| **w == governance), "{words:?}");
    let inference = &alloc["0x0300000000000000000000000000000000000003"];
    assert_eq!(inference["storage"].as_object().unwrap().len(), 0);

    let said = error_of(
        &mut blue(["chain", "genesis", "--admin", &a, "--quorum", "1"]),
        2,
    );
    assert!(said.contains("--single"), "{said}");
    let running = [
        "chain",
        "genesis",
        "--admin",
        &a,
        "--quorum",
        "1",
        "--single",
        "--running",
        "--former-admin",
        &b,
    ];
    let entries = json(&running);
    let registry = &entries["0x0300000000000000000000000000000000000002"];
    assert!(registry["balance"].is_null());
    let zero = format!("0x{}", "0".repeat(64));
    let words = registry["storage"].as_object().unwrap();
    assert_eq!(words.values().filter(|w| **w == zero).count(), 1);
    let short = ["chain", "genesis", "--admin", "0xa1", "--quorum", "1"];
    let said = error_of(&mut blue(short), 2);
    assert!(said.contains("40 hexadecimal digits"), "{said}");
}

#[test]
fn names_are_those_of_the_sdk() {
    let commitment = format!("0x{}", "abcdef1234567890".repeat(4));
    let text = text_of(&mut blue([
        "chain",
        "name",
        "zenlm/zen-omni",
        "--model-version",
        "3",
        "--commitment",
        &commitment,
    ]));
    assert_eq!(
        text,
        "0xd8ab4fca51f36de6db2efd1a7a022fef6943de8d9986ae8ca3f4db70f318b4a7\n"
    );
    // Keccak-256 of "abc".
    assert_eq!(
        text_of(&mut blue(["chain", "name", "abc"])),
        "0x4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45\n"
    );
}

#[test]
fn a_proposal_carries_the_record_of_the_file() {
    let out = json(&[
        "chain",
        "propose",
        &tiny(),
        "--model-version",
        "7",
        "--json",
    ]);
    assert_eq!(out["commitment"], COMMITMENT);
    assert_eq!(out["version"], 7);
    let data = out["propose"]["data"].as_str().unwrap();
    let record = alloy_primitives::hex::encode(&std::fs::read(tiny()).unwrap()[..1024]);
    assert!(data.starts_with("0xaede1209") && data.contains(&record));
    assert!(data.contains(&COMMITMENT[2..]));
    let name = out["name"].as_str().unwrap();
    for function in ["propose", "approve", "activate"] {
        assert!(out[function]["data"].as_str().unwrap().contains(&name[2..]));
        assert!(out[function]["gas"].as_u64().unwrap() > 100_000);
    }
    // A file whose end is gone is no blob to propose.
    let zero = format!("0x{}", "0".repeat(64));
    let nameless = [
        "chain",
        "propose",
        &tiny(),
        "--model-version",
        "1",
        "--name",
        &zero,
    ];
    assert!(error_of(&mut blue(nameless), 2).contains("is zero"));
    let cut = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(cut.path(), &std::fs::read(tiny()).unwrap()[..70_000]).unwrap();
    let path = cut.path().to_str().unwrap();
    let said = error_of(
        &mut blue(["chain", "propose", path, "--model-version", "1"]),
        2,
    );
    assert!(said.contains("70000"), "{said}");
    // Neither is one that breaks a rule of the format somewhere.
    let mut damaged = std::fs::read(tiny()).unwrap();
    damaged[5000] ^= 0xFF;
    std::fs::write(cut.path(), &damaged).unwrap();
    let path = cut.path().to_str().unwrap();
    let said = error_of(
        &mut blue(["chain", "propose", path, "--model-version", "1"]),
        2,
    );
    assert!(said.contains("does not load"), "{said}");
}

#[test]
fn prices_are_those_of_the_calls() {
    let prices = json(&["chain", "gas", "--prompt", "4", "--max-new", "3", "--json"]);
    let row = &prices["rows"][0];
    let ask = ["chain", "call", "--tokens", "1,7,13,2", "--json"];
    let with = |more: &[&str]| json(&[&ask[..], more].concat());
    let generated = with(&["--max-new", "3"]);
    assert_eq!(generated["gas"], row["generate"]);
    let tokens: Vec<_> = generated["result"]["tokens"].as_array().unwrap().clone();
    let list: Vec<_> = tokens.iter().map(ToString::to_string).collect();
    let claimed = with(&["--max-new", "3", "--answer", &list.join(",")]);
    assert_eq!(claimed["gas"], row["verify"]);
    assert_eq!(claimed["result"]["right"], true);
    for other in ["1,2,3", ""] {
        let more = ["--max-new", "3", "--pin", "--answer", other];
        let out = run(&mut blue([&ask[..], &more].concat()));
        assert_eq!(out.status.code(), Some(3));
        let other: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(other["result"]["right"], false);
    }
    let digest = with(&["--digest"]);
    assert_eq!(digest["gas"], row["logits_digest"]);
    assert_eq!(digest["output"], digest["result"]["digest"]);
    // The answer is that of the command that knows no chain.
    let plain = json(&[
        "generate",
        "--tokens",
        "1,7,13,2",
        "--max-new",
        "3",
        "--json",
    ]);
    assert_eq!(
        plain["output_ids"], generated["result"]["tokens"],
        "{plain}"
    );
    // One gas less is not enough, and the refusal has its number.
    let gas = (row["generate"].as_u64().unwrap() - 1).to_string();
    let short = [&ask[..4], &["--max-new", "3", "--gas", &gas]].concat();
    let said = error_of(&mut blue(short), 2);
    assert!(said.contains("number 1, OutOfGas"), "{said}");
    assert!(said.contains(&row["generate"].to_string()), "{said}");
    let out = run(&mut blue(
        [&ask[..], &["--max-new", "3", "--gas", &gas]].concat(),
    ));
    assert_eq!(out.status.code(), Some(2));
    let refused: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(refused["refused"]["number"], 1);
    assert_eq!(refused["refused"]["price"], row["generate"]);
    // The table says what fits.
    let table = json(&["chain", "gas", "--json"]);
    assert_eq!(table["limit"], 16_777_216);
    let most = table["rows"][0]["most_generated"].as_u64().unwrap();
    assert_eq!(most, 508, "prompt and output fill the context");
    let little = json(&["chain", "gas", "--limit", "30000", "--json"]);
    assert_eq!(little["rows"][0]["most_generated"], Value::Null);
}

#[test]
fn the_bench_times_every_shape_and_random_models() {
    let args = [
        "chain", "bench", "--quick", "--rounds", "1", "--random", "8", "--json",
    ];
    let out = json(&args);
    let cases = out["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 9);
    for case in cases {
        assert!(case["ns"].as_u64().unwrap() > 0 && case["gas"].as_u64().unwrap() > 7_100);
    }
    assert_eq!(out["random"]["calls"], 8);
    let text = run(&mut blue(&args[..5]));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("tiny/generate/4+4") && text.contains("Mgas/s"),
        "{text}"
    );
}
