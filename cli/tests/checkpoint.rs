//! `blue logits` and `blue eval` on float checkpoints and blobs.

mod common;

use common::{blue, error_of, json_of, text_of};
use serde_json::Value;

fn models(name: &str) -> String {
    format!("{}/../models/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn float_logits_equal_the_golden_ones() {
    for name in [
        "a_qwen3_tied_bf16",
        "b_qwen3_untied_f32_sharded",
        "c_llama_untied_f16",
    ] {
        let folder = models(&format!("golden/{name}"));
        let golden: Value =
            serde_json::from_slice(&std::fs::read(format!("{folder}/golden.json")).unwrap())
                .unwrap();
        let prompt = &golden["prompts"][1];
        let ids: Vec<String> = prompt["ids"]
            .as_array()
            .unwrap()
            .iter()
            .map(Value::to_string)
            .collect();
        let got = json_of(&mut blue([
            "logits",
            &folder,
            "--tokens",
            &ids.join(","),
            "--json",
        ]));
        assert_eq!((&got["kind"], &got["scale"]), (&"float".into(), &1.into()));
        let (got, expected) = (
            got["logits"].as_array().unwrap(),
            prompt["last_logits"].as_array().unwrap(),
        );
        assert_eq!(got.len(), expected.len());
        for (i, (a, b)) in got.iter().zip(expected).enumerate() {
            // The golden values are float32 sums in another order.
            assert!(
                (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-4,
                "{name} {i}: {a} {b}"
            );
        }
    }
}

#[test]
fn integer_logits_are_the_engines_and_the_same_on_every_backend() {
    let blob = models("default/blue-tiny.blob");
    let base = json_of(&mut blue(["logits", &blob, "--tokens", "1,2,3", "--json"]));
    assert_eq!(
        (&base["kind"], &base["scale"]),
        (&"int".into(), &65536.into())
    );
    assert!(base["logits"].as_array().unwrap().iter().all(Value::is_i64));
    for backend in ["scalar", "reference"] {
        assert_eq!(
            json_of(&mut blue([
                "logits",
                &blob,
                "--tokens",
                "1,2,3",
                "--json",
                "--backend",
                backend
            ]))["logits"],
            base["logits"]
        );
    }
    assert!(text_of(&mut blue(["logits", &blob, "--tokens", "1,2,3"])).contains("logit"));
}

#[test]
fn logits_refuse_what_neither_takes() {
    let (blob, folder) = (
        models("default/blue-tiny.blob"),
        models("golden/a_qwen3_tied_bf16"),
    );
    for source in [&blob, &folder] {
        for ids in ["-1", "1.5", "9007199254740992", "4294967295", "100000000"] {
            error_of(&mut blue(["logits", source, "--tokens", ids]), 2);
        }
    }
    let error = error_of(
        &mut blue(["logits", &folder, "--tokens", "1", "--backend", "scalar"]),
        2,
    );
    assert!(error.contains("--backend"), "{error}");
    error_of(&mut blue(["logits", "no-such-file", "--tokens", "1"]), 2);
    let empty = tempfile::tempdir().unwrap();
    assert!(
        error_of(blue(["logits", "--tokens", "1"]).arg(empty.path()), 2).contains("config.json")
    );
    let gguf = empty.path().join("x.gguf");
    std::fs::write(&gguf, b"GGUF\x03\0\0\0").unwrap();
    error_of(blue(["logits", "--tokens", "1"]).arg(&gguf), 2);
}

#[test]
fn eval_prints_the_documented_keys() {
    let (blob, folder) = (models("default/blue-tiny.blob"), models("tiny-austen"));
    let text = format!("{folder}/heldout.txt");
    let base = json_of(&mut blue([
        "eval",
        &blob,
        "--against",
        &folder,
        "--text",
        &text,
        "--window",
        "64",
        "--max-tokens",
        "130",
        "--json",
    ]));
    // Windows of 64, 64 and 2 tokens.
    assert_eq!(base["tokens"], 63 + 63 + 1);
    assert_eq!(base["source_matches"], true);
    for key in ["perplexity_float", "perplexity_int"] {
        assert!(base[key].as_f64().unwrap() > 1.0, "{key}");
    }
    assert!(base["kl_mean"].as_f64().unwrap() >= 0.0);
    assert!((0.0..=1.0).contains(&base["top1_agreement"].as_f64().unwrap()));
    let reference = json_of(&mut blue([
        "eval",
        &blob,
        "--against",
        &folder,
        "--text",
        &text,
        "--window",
        "64",
        "--max-tokens",
        "130",
        "--json",
        "--backend",
        "reference",
    ]));
    assert_eq!(reference, base);
}

#[test]
fn eval_refuses_what_does_not_fit_together() {
    let (blob, folder) = (models("default/blue-tiny.blob"), models("tiny-austen"));
    let text = format!("{folder}/heldout.txt");
    let error = error_of(
        &mut blue([
            "eval",
            &blob,
            "--against",
            &models("golden/a_qwen3_tied_bf16"),
            "--text",
            &text,
        ]),
        2,
    );
    assert!(
        error.contains("tokenizer") || error.contains("vocabulary"),
        "{error}"
    );
    assert!(
        error_of(
            &mut blue([
                "eval",
                &blob,
                "--against",
                &folder,
                "--text",
                &text,
                "--window",
                "32768"
            ]),
            2
        )
        .contains("context")
    );
    assert!(
        error_of(
            &mut blue(["eval", &blob, "--against", &folder, "--text", "no.txt"]),
            2
        )
        .contains("no.txt")
    );
    let dir = tempfile::tempdir().unwrap();
    let short = dir.path().join("short.txt");
    std::fs::write(&short, "").unwrap();
    assert!(
        error_of(
            blue(["eval", &blob, "--against", &folder, "--text"]).arg(&short),
            2
        )
        .contains("at least 2")
    );
    std::fs::write(&short, [0xff, 0xfe]).unwrap();
    assert!(
        error_of(
            blue(["eval", &blob, "--against", &folder, "--text"]).arg(&short),
            2
        )
        .contains("UTF-8")
    );
}
