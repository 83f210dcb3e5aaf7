//! `blue bench` on a model that runs at once.

mod common;

use common::{blue, error_of, run, text_of};
use serde_json::Value;

/// The embedded model's file.
const BLOB: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../models/default/blue-tiny.blob"
);

#[test]
fn a_quick_run_measures_a_blob_and_its_record_can_be_shown_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut quick = blue([
        "bench",
        "--quick",
        "--blob",
        BLOB,
        "--samples",
        "1",
        "--threads",
        "2",
        "--json",
    ]);
    let json = text_of(quick.args(["--record", &path("records"), "--plot", &path("plots")]));
    let record: Value = serde_json::from_str(&json).unwrap();
    let kinds: Vec<&str> = record["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["key"]["what"].as_str().unwrap())
        .collect();
    for kind in ["stream-read", "decode", "prefill"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    let file = std::fs::read_dir(path("records"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let file = file.display().to_string();
    let text = text_of(&mut blue(["bench", "--from", &file]));
    assert!(
        text.contains("blue-tiny decode, context 16") && text.contains("quietness"),
        "{text}"
    );
    assert!(
        std::fs::read_to_string(path("plots/decode.svg"))
            .unwrap()
            .starts_with("<svg")
    );
    // What was not measured is no goal reached.
    let asserted = run(&mut blue(["bench", "--from", &file, "--assert"]));
    assert_eq!(asserted.status.code(), Some(3));
}

#[cfg(unix)]
#[test]
fn llama_runs_as_it_comes_and_without_repacking() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("llama");
    let script = r#"#!/bin/sh
case "$*" in *"--repack on --serve") b=on;; *"--repack off --serve") b=off;; *) exit 1;; esac
echo "{\"engine\":\"llama.cpp\",\"version\":\"1\",\"build\":\"$b\"}"
while read kind a b; do echo '{"seconds":0.25}'; done
"#;
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.display().to_string();
    let mut bench = blue([
        "bench",
        "--quick",
        "--blob",
        BLOB,
        "--samples",
        "1",
        "--json",
    ]);
    let json = text_of(bench.args(["--llama", &program, "--blob-gguf", BLOB]));
    let record: Value = serde_json::from_str(&json).unwrap();
    let peers = &record["peers"];
    assert_eq!(
        peers.to_string(),
        r#"[["llama.cpp, native","1; on"],["llama.cpp, no repacking","1; off"]]"#
    );
    for name in ["llama.cpp, native", "llama.cpp, no repacking"] {
        let series = record["series"].as_array().unwrap().iter();
        let kinds: Vec<&str> = series
            .filter(|s| s["key"]["engine"] == name)
            .map(|s| s["key"]["what"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["prefill", "prefill", "decode", "decode"], "{name}");
    }
}

#[test]
fn what_is_asked_for_and_missing_is_an_error() {
    let here = env!("CARGO_BIN_EXE_blue");
    for args in [
        vec!["--llama", "/no/such/program", "--gguf", BLOB],
        vec!["--llama", here, "--gguf", "/no/such/file"],
        vec!["--llama", here],
        vec!["--gguf", BLOB],
        vec!["--blob", "/no/such/blob"],
        vec!["--from", "/no/such/record"],
        vec!["--from", BLOB],
        vec!["--only", "everything"],
    ] {
        let mut bench = blue(["bench"]);
        error_of(bench.args(&args), 2);
    }
}
