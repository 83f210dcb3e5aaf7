//! The tokenizer against ids that another library computed, and its laws.

use float_engine::tokenizer::{Tokenizer, TokenizerError};
use proptest::prelude::*;
use quant_core::gguf::{Array, Value as Gguf};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

mod common;
use common::model;

static TINY: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::open(&model("tiny-austen")).unwrap());

fn file(name: &str) -> Vec<u8> {
    std::fs::read(model("tiny-austen").join(name)).unwrap()
}

#[test]
fn golden_texts_with_both_layouts_of_merges() {
    let strings = Tokenizer::from_json(&file("tokenizer.string_merges.json")).unwrap();
    let resaved = Tokenizer::from_json(&TINY.to_json().unwrap()).unwrap();
    let golden: Vec<Value> = serde_json::from_slice(&file("tokenizer_golden.json")).unwrap();
    assert!(!golden.is_empty());
    for t in [&*TINY, &strings, &resaved] {
        assert_eq!(t.vocab_size(), 1536);
        for g in &golden {
            let text = g["text"].as_str().unwrap();
            let ids: Vec<u32> = serde_json::from_value(g["ids"].clone()).unwrap();
            assert_eq!(t.encode_with_specials(text).unwrap(), ids, "{text:?}");
            let tokens: Vec<String> = ids.iter().map(|&id| t.id_to_token(id).unwrap()).collect();
            assert_eq!(json!(tokens), g["tokens"]);
            assert_eq!(t.decode(&ids, false), g["decoded"].as_str().unwrap());
            assert_eq!(
                t.decode(&ids, true),
                g["decoded_skip_special"].as_str().unwrap()
            );
        }
    }
}

#[test]
fn saved_bytes_are_the_same_every_time() {
    let first = TINY.to_json().unwrap();
    let again = Tokenizer::open(&model("tiny-austen")).unwrap();
    assert_eq!(again.to_json().unwrap(), first);
    assert_eq!(
        Tokenizer::from_json(&first).unwrap().to_json().unwrap(),
        first
    );
    let strings = Tokenizer::from_json(&file("tokenizer.string_merges.json")).unwrap();
    assert_eq!(strings.to_json().unwrap(), first);
}

#[test]
fn special_tokens_in_text_are_text() {
    for text in [
        "<|im_end|>",
        "a<|endoftext|>b",
        "<|im_start|>system\n",
        "<|<|im_end|>im_end|>",
    ] {
        let ids = TINY.encode(text).unwrap();
        assert!(ids.iter().all(|&id| id < 1533), "{text}: {ids:?}");
        assert_eq!(TINY.decode(&ids, true), text);
    }
    assert!(TINY.encode("").unwrap().is_empty());
    assert_eq!(TINY.token_to_id("<|im_end|>"), Some(1535));
    assert!(TINY.is_special(1535) && !TINY.is_special(0));
}

#[test]
fn held_out_text_round_trips() {
    let text = String::from_utf8(file("heldout.txt")).unwrap();
    let ids = TINY.encode_with_specials(&text).unwrap();
    assert_eq!(TINY.decode(&ids, false), text);
    assert_eq!(
        ids.iter().filter(|&&id| id == 1533).count(),
        text.matches("<|endoftext|>").count()
    );
}

#[test]
fn ids_without_a_token_decode_to_nothing() {
    assert_eq!(TINY.decode(&[1536, u32::MAX, 64], false), "a");
    assert_eq!(TINY.id_to_token(1536), None);
}

proptest! {
    /// NFC changes some texts, so the law is about text in NFC; ASCII and these letters are.
    #[test]
    fn decode_undoes_encode(text in "[ -~\\n\\téüñ日本😀]{0,40}") {
        let ids = TINY.encode(&text).unwrap();
        prop_assert_eq!(TINY.decode(&ids, false), text.as_str());
        prop_assert!(ids.iter().all(|&id| id < 1533));
        let mut stream = TINY.stream(false);
        let mut pieces: String = ids.iter().map(|&id| stream.push(id)).collect();
        pieces += &stream.finish();
        prop_assert_eq!(pieces, text);
    }

    #[test]
    fn any_ids_stream_as_they_decode(ids in proptest::collection::vec(0u32..1540, 0..30)) {
        let raw: Vec<u8> = ids.iter().flat_map(|&id| TINY.token_bytes(id).unwrap_or_default()).collect();
        let mut stream = TINY.stream(false);
        let mut pieces: String = ids.iter().map(|&id| stream.push(id)).collect();
        pieces += &stream.finish();
        prop_assert_eq!(pieces, String::from_utf8_lossy(&raw));
    }
}

/// The tiny tokenizer as GGUF metadata.
fn metadata(pre: &str) -> BTreeMap<String, Gguf> {
    let tokens: Vec<String> = (0..1536).map(|id| TINY.id_to_token(id).unwrap()).collect();
    let types = (0..1536).map(|id| if id >= 1533 { 3 } else { 1 }).collect();
    let saved: Value = serde_json::from_slice(&file("tokenizer.string_merges.json")).unwrap();
    let merges = serde_json::from_value(saved["model"]["merges"].clone()).unwrap();
    BTreeMap::from([
        (
            "tokenizer.ggml.model".to_owned(),
            Gguf::String("gpt2".into()),
        ),
        ("tokenizer.ggml.pre".to_owned(), Gguf::String(pre.into())),
        (
            "tokenizer.ggml.tokens".to_owned(),
            Gguf::Array(Array::String(tokens)),
        ),
        (
            "tokenizer.ggml.token_type".to_owned(),
            Gguf::Array(Array::I32(types)),
        ),
        (
            "tokenizer.ggml.merges".to_owned(),
            Gguf::Array(Array::String(merges)),
        ),
    ])
}

#[test]
fn gguf_metadata_give_the_same_tokenizer() {
    let t = Tokenizer::from_gguf(&metadata("qwen2")).unwrap();
    let golden: Vec<Value> = serde_json::from_slice(&file("tokenizer_golden.json")).unwrap();
    for g in &golden {
        let text = g["text"].as_str().unwrap();
        assert_eq!(
            json!(t.encode_with_specials(text).unwrap()),
            g["ids"],
            "{text:?}"
        );
    }
    // smollm has no NFC, and single digits by another step
    let t = Tokenizer::from_gguf(&metadata("smollm")).unwrap();
    assert_eq!(
        t.decode(&t.encode("e\u{301} 123").unwrap(), false),
        "e\u{301} 123"
    );
    let digits = t.encode("123").unwrap();
    assert_eq!(digits, ["1", "2", "3"].map(|d| t.token_to_id(d).unwrap()));
}

/// The digest of this file is part of a blob: the serialisation may not change unnoticed.
#[test]
fn the_file_made_from_gguf_metadata_has_known_digests() {
    use sha2::{Digest, Sha256};
    let digest = |pre: &str| -> String {
        let json = Tokenizer::from_gguf(&metadata(pre)).unwrap().to_json();
        let digest = Sha256::digest(json.unwrap());
        digest.iter().map(|b| format!("{b:02x}")).collect()
    };
    assert_eq!(
        [digest("qwen2"), digest("smollm")],
        [
            "ab34859e6c1c96880e12662288d42a89ab64ef1bef2350c609e5aebe40392403",
            "5c270fff0a7b5109ba916e1239e0b885644d7728ae1969deea8a4c52533f3e1d",
        ]
    );
}

#[test]
fn bad_gguf_metadata_are_refused() {
    let altered = |key: &str, value: Option<Gguf>| {
        let mut m = metadata("qwen2");
        m.remove(key);
        m.extend(value.map(|v| (key.to_owned(), v)));
        Tokenizer::from_gguf(&m).unwrap_err()
    };
    for key in
        ["model", "pre", "tokens", "token_type", "merges"].map(|k| format!("tokenizer.ggml.{k}"))
    {
        assert!(matches!(altered(&key, None), TokenizerError::Metadata { key: k, .. } if k == key));
        assert!(matches!(
            altered(&key, Some(Gguf::U32(1))),
            TokenizerError::Metadata { .. }
        ));
    }
    let string = |s: &str| Some(Gguf::String(s.into()));
    let strings = |v: &[&str]| {
        Some(Gguf::Array(Array::String(
            v.iter().map(|s| s.to_string()).collect(),
        )))
    };
    assert!(matches!(
        altered("tokenizer.ggml.model", string("llama")),
        TokenizerError::Unsupported { part: "model", .. }
    ));
    for pre in ["default", "llama-bpe", ""] {
        let e = altered("tokenizer.ggml.pre", string(pre));
        assert!(matches!(
            e,
            TokenizerError::Unsupported {
                part: "pre-tokenizer",
                ..
            }
        ));
    }
    for merge in ["ab", "a b c", " b", "a ", ""] {
        let e = altered("tokenizer.ggml.merges", strings(&["Ġ t", merge]));
        assert!(
            matches!(e, TokenizerError::Merge { index: 1, .. }),
            "{merge:?}"
        );
    }
    assert!(matches!(
        altered("tokenizer.ggml.merges", strings(&["Ġ nowhere"])),
        TokenizerError::Malformed { .. }
    ));
    let mut m = metadata("qwen2");
    if let Some(Gguf::Array(Array::String(tokens))) = m.get_mut("tokenizer.ggml.tokens") {
        tokens[9] = tokens[4].clone();
    }
    assert!(matches!(
        Tokenizer::from_gguf(&m),
        Err(TokenizerError::DuplicateToken {
            first: 4,
            second: 9,
            ..
        })
    ));
}

#[test]
fn other_tokenizers_are_refused() {
    let altered = |change: fn(&mut Value)| {
        let mut v: Value = serde_json::from_slice(&file("tokenizer.json")).unwrap();
        change(&mut v);
        Tokenizer::from_json(v.to_string().as_bytes()).unwrap_err()
    };
    assert!(matches!(
        altered(|v| v["model"]["type"] = json!("Unigram")),
        TokenizerError::Unsupported { part: "model", .. }
    ));
    assert!(matches!(
        altered(|v| v["decoder"] = json!({"type": "Metaspace"})),
        TokenizerError::Unsupported {
            part: "decoder",
            ..
        }
    ));
    assert!(matches!(
        altered(|v| v["decoder"] = json!(null)),
        TokenizerError::Unsupported {
            part: "decoder",
            ..
        }
    ));
    assert!(matches!(
        altered(|v| v["added_tokens"][1]["lstrip"] = json!(true)),
        TokenizerError::SpecialToken { .. }
    ));
    assert!(matches!(
        altered(|v| v["model"]["merges"] = json!([["a", "nowhere"]])),
        TokenizerError::Malformed { .. }
    ));
    assert!(matches!(
        Tokenizer::from_json(b"{}"),
        Err(TokenizerError::Malformed { .. })
    ));
    assert!(matches!(
        Tokenizer::from_json(b"\xff"),
        Err(TokenizerError::Malformed { .. })
    ));
    assert!(matches!(
        Tokenizer::open(&model("golden/a_qwen3_tied_bf16")),
        Err(TokenizerError::Io { .. })
    ));
}
