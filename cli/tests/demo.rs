//! `blue demo` on the embedded model.

mod common;

use common::{blue, error_of, json_of, run, text_of};

#[test]
fn every_present_backend_equals_the_reference() {
    let demo = json_of(&mut blue(["demo", "--json"]));
    assert_eq!(demo["equal"], true);
    assert!(
        !demo["output_ids"].as_array().unwrap().is_empty()
            && !demo["text"].as_str().unwrap().is_empty()
    );
    let rows = demo["backends"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"reference") && names.contains(&"scalar"),
        "{names:?}"
    );
    for row in rows.iter().filter(|r| r["present"] == true) {
        assert_eq!(row["equal"], true, "{row}");
        assert_eq!(row["logits_digest"], rows[0]["logits_digest"]);
        assert!(row["tokens_per_s"].as_f64().unwrap() > 0.0);
    }
    // The digest is that of the logits which `blue logits` prints for the same run.
    let ids: Vec<String> = ["compared_prompt_ids", "compared_output_ids"]
        .iter()
        .flat_map(|key| demo[key].as_array().unwrap())
        .map(ToString::to_string)
        .collect();
    let blob = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../models/default/blue-tiny.blob"
    );
    let logits = json_of(&mut blue([
        "logits",
        blob,
        "--json",
        "--tokens",
        &ids.join(","),
    ]));
    let bytes: Vec<u8> = logits["logits"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|v| (v.as_i64().unwrap() as i32).to_le_bytes())
        .collect();
    let digest = int_engine::commitment::Commitment(int_engine::commitment::keccak256(&bytes));
    assert_eq!(rows[0]["logits_digest"], digest.to_string());
    let readme =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    for value in [&demo["commitment"], &rows[0]["logits_digest"]] {
        let value = value.as_str().unwrap();
        assert!(readme.contains(value), "README.md should say {value}");
    }
    // The answer is a function of the embedded blob alone.
    let again = json_of(&mut blue(["demo", "--json"]));
    assert_eq!(
        (&demo["output_ids"], &demo["commitment"]),
        (&again["output_ids"], &again["commitment"])
    );
}

#[test]
fn the_text_form_lists_every_backend() {
    let text = text_of(&mut blue(["demo"]));
    for part in [
        "prompt ids",
        "output ids",
        "commitment  0x",
        "reference",
        "scalar",
        "avx2",
        "verdict",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_required_backend_must_be_known_and_present() {
    assert_eq!(
        json_of(&mut blue([
            "demo",
            "--json",
            "--require",
            "scalar,reference"
        ]))["required_absent"],
        serde_json::json!([])
    );
    let error = error_of(&mut blue(["demo", "--require", "scalar,gpu"]), 2);
    assert!(error.contains("scalar"), "{error}");
    for name in ["avx2", "neon"] {
        let output = run(&mut blue(["demo", "--json", "--require", name]));
        let here = int_engine::kernels::Kernels::by_name(name).is_ok();
        assert_eq!(
            output.status.code(),
            Some(if here { 0 } else { 1 }),
            "{name}"
        );
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(stderr.contains("absent on this machine"), !here, "{stderr}");
    }
}
