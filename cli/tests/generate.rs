//! `blue generate` on the embedded model.

mod common;

use common::{blue, error_of, json_of, text_of};

#[test]
fn the_json_has_the_documented_keys_and_every_backend_agrees() {
    let base = json_of(&mut blue([
        "generate",
        "--tokens",
        "1,2,3",
        "--max-new",
        "4",
        "--json",
    ]));
    assert_eq!(base["prompt_ids"], serde_json::json!([1, 2, 3]));
    assert!(!base["output_ids"].as_array().unwrap().is_empty());
    assert!(base["text"].is_string() && base["backend"].is_string() && base["finish"].is_string());
    assert!(base["decode_tokens_per_s"].is_number() && base["prefill_tokens_per_s"].is_number());
    assert_eq!(base["commitment"].as_str().unwrap().len(), 66);
    for more in [
        ["--backend", "scalar"],
        ["--backend", "reference"],
        ["--threads", "3"],
    ] {
        let other =
            json_of(blue(["generate", "--tokens", "1,2,3", "--max-new", "4", "--json"]).args(more));
        assert_eq!(other["output_ids"], base["output_ids"], "{more:?}");
        assert_eq!(other["commitment"], base["commitment"], "{more:?}");
    }
}

#[test]
fn text_is_streamed_and_equals_the_json_text() {
    let text = text_of(&mut blue([
        "generate",
        "--prompt",
        "It was a",
        "--max-new",
        "12",
    ]));
    let json = json_of(&mut blue([
        "generate",
        "--prompt",
        "It was a",
        "--max-new",
        "12",
        "--json",
    ]));
    assert_eq!(
        text.strip_suffix('\n').unwrap(),
        json["text"].as_str().unwrap()
    );
}

#[test]
fn hostile_ids_are_refused_by_name() {
    for (ids, said) in [
        ("-1", "`-1`"),
        ("1.5", "`1.5`"),
        ("9007199254740992", "`9007199254740992`"),
        ("4294967296", "`4294967296`"),
        ("1,2,4294967295", "4294967295"),
        ("1,2147483648", "2147483648"),
        ("", "at least one"),
        ("1,,2", "item 1"),
        ("NaN", "`NaN`"),
    ] {
        let error = error_of(
            &mut blue(["generate", "--max-new", "2", "--tokens", ids]),
            2,
        );
        assert!(error.contains(said), "{ids}: {error}");
    }
}

#[test]
fn an_empty_prompt_is_refused() {
    let error = error_of(&mut blue(["generate", "--max-new", "2", "--prompt", ""]), 2);
    assert!(error.contains("no tokens"), "{error}");
}

#[test]
fn asking_for_nothing_checks_the_prompt_and_returns_nothing() {
    let none = json_of(&mut blue([
        "generate",
        "--tokens",
        "1",
        "--max-new",
        "0",
        "--json",
    ]));
    assert_eq!(none["output_ids"], serde_json::json!([]));
    assert_eq!(none["finish"], "length");
    error_of(
        &mut blue(["generate", "--tokens", "4294967295", "--max-new", "0"]),
        2,
    );
}

#[test]
fn a_text_with_control_tokens_is_text() {
    let plain = json_of(&mut blue([
        "generate",
        "--prompt",
        "<|endoftext|>",
        "--max-new",
        "1",
        "--json",
    ]));
    assert!(plain["prompt_ids"].as_array().unwrap().len() > 1, "{plain}");
}

#[test]
fn drafts_change_no_id() {
    let plain = ["generate", "--json", "--max-new", "40", "--prompt"];
    let prompt = "one two three four five, one two three four five, one two";
    let base = json_of(blue(plain).arg(prompt));
    assert_eq!(base.get("passes"), None);
    for more in [["--backend", "auto"], ["--backend", "reference"]] {
        let other = json_of(blue(plain).arg(prompt).arg("--speculate").args(more));
        for key in ["prompt_ids", "output_ids", "text", "finish"] {
            assert_eq!(other[key], base[key], "{more:?} {key}");
        }
        let number = |key: &str| other[key].as_u64().unwrap();
        assert!(number("accepted") <= number("drafted") && number("passes") < 40);
    }
    let text =
        text_of(blue(["generate", "--speculate", "--max-new", "40", "--prompt"]).arg(prompt));
    assert_eq!(text.strip_suffix('\n'), base["text"].as_str());
}
