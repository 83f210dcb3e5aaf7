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

/// The tiny tokenizer with the value at `pointer` replaced or added.
fn altered(pointer: &str, value: Value) -> Result<Tokenizer, TokenizerError> {
    let mut v: Value = serde_json::from_slice(&file("tokenizer.json")).unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    v.pointer_mut(parent).unwrap()[key] = value;
    Tokenizer::from_json(v.to_string().as_bytes())
}

#[test]
fn components_outside_byte_level_bpe_are_refused_by_name() {
    let nested = |list: &str, v: Value| json!({"type": "Sequence", list: [v]});
    let replace = json!({"type": "Replace", "pattern": {"String": ""}, "content": "x"});
    let normalizers = [
        json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        json!({"type": "Prepend", "prepend": ""}),
        json!({"type": "StripAccents"}),
        json!({"type": "Nmt"}),
        json!({"type": "Lowercase"}),
        json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true}),
        nested("normalizers", json!({"type": "NFC"})),
        replace.clone(),
        json!("NFC"),
    ];
    for v in normalizers {
        let wrapped = nested("normalizers", v.clone());
        let nfc_alone = v == nested("normalizers", json!({"type": "NFC"}));
        for v in [v, wrapped].into_iter().skip(usize::from(nfc_alone)) {
            let e = altered("/normalizer", v.clone()).unwrap_err();
            assert!(
                matches!(
                    e,
                    TokenizerError::Unsupported {
                        part: "normalizer",
                        ..
                    }
                ),
                "{v}: {e}"
            );
            assert!(e.to_string().contains("NFC"), "{e}");
        }
    }
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true});
    let split = |pattern: Value| {
        json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false}, byte_level]})
    };
    for v in [
        json!(null),
        json!({"type": "FixedLength", "length": 0}),
        json!({"type": "BertPreTokenizer"}),
        json!({"type": "Digits", "individual_digits": true}),
        nested("pretokenizers", json!({"type": "Whitespace"})),
        json!({"type": "Sequence", "pretokenizers": []}),
        json!({"type": "Sequence", "pretokenizers": [byte_level, byte_level]}),
        split(json!({"String": ""})),
        split(json!({"Regex": ""})),
        split(json!(null)),
    ] {
        let e = altered("/pre_tokenizer", v.clone()).unwrap_err();
        assert!(
            matches!(e, TokenizerError::Unsupported { part, .. } if part.starts_with("pre_tokenizer")),
            "{v}: {e}"
        );
    }
    for v in [
        replace,
        json!({"type": "Sequence", "decoders": []}),
        nested("decoders", json!({"type": "Fuse"})),
    ] {
        let e = altered("/decoder", v.clone()).unwrap_err();
        assert!(
            matches!(
                e,
                TokenizerError::Unsupported {
                    part: "decoder",
                    ..
                }
            ),
            "{v}: {e}"
        );
    }
    let e = altered("/post_processor", json!({"type": "RobertaProcessing"})).unwrap_err();
    assert!(matches!(
        e,
        TokenizerError::Unsupported {
            part: "post_processor",
            ..
        }
    ));
}

#[test]
fn settings_of_the_model_that_change_ids_are_refused() {
    for (key, value) in [
        ("dropout", json!(0.1)),
        ("dropout", json!(1)),
        ("dropout", json!("0")),
        ("unk_token", json!("<|endoftext|>")),
        ("continuing_subword_prefix", json!("##")),
        ("end_of_word_suffix", json!("</w>")),
        ("fuse_unk", json!(true)),
        ("byte_fallback", json!(true)),
    ] {
        let e = altered(&format!("/model/{key}"), value).unwrap_err();
        assert!(
            matches!(e, TokenizerError::Unsupported { part, .. } if part == format!("model.{key}")),
            "{e}"
        );
    }
}

#[test]
fn accepted_forms_give_the_same_ids() {
    let text = "Emma, 1815: e\u{301}";
    let ids = TINY.encode(text).unwrap();
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let template = json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [1533], "tokens": ["<|endoftext|>"]}}});
    for (pointer, value) in [
        (
            "/normalizer",
            json!({"type": "Sequence", "normalizers": [{"type": "NFC"}]}),
        ),
        (
            "/decoder",
            json!({"type": "Sequence", "decoders": [byte_level]}),
        ),
        ("/post_processor", json!(null)),
        ("/post_processor", template),
        ("/model/dropout", json!(0.0)),
        ("/model/continuing_subword_prefix", json!("")),
        ("/model/end_of_word_suffix", json!("")),
        (
            "/truncation",
            json!({"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 9}),
        ),
        ("/padding", json!("nonsense")),
    ] {
        let t = altered(pointer, value).unwrap_or_else(|e| panic!("{pointer}: {e}"));
        assert_eq!(t.encode(text).unwrap(), ids, "{pointer}");
        assert_eq!(t.decode(&ids, false), TINY.decode(&ids, false));
    }
}

/// The tiny tokenizer with `change` made to its parsed file.
fn changed(change: impl FnOnce(&mut Value)) -> Result<Tokenizer, TokenizerError> {
    let mut v: Value = serde_json::from_slice(&file("tokenizer.json")).unwrap();
    change(&mut v);
    Tokenizer::from_json(v.to_string().as_bytes())
}

#[test]
fn ids_out_of_range_are_refused() {
    for id in [
        json!(1 << 20),
        json!(u32::MAX - 1),
        json!(u32::MAX),
        json!(1u64 << 32),
        json!(-1),
        json!(7.0),
        json!("7"),
        json!(null),
    ] {
        let expected = id.to_string();
        let refused = |r: Result<Tokenizer, TokenizerError>| {
            let e = r.unwrap_err();
            assert!(
                matches!(&e, TokenizerError::Id { found, .. } if *found == expected),
                "{e}"
            );
        };
        refused(changed(|v| v["model"]["vocab"]["zzzz"] = id.clone()));
        refused(changed(|v| v["added_tokens"][1]["id"] = id.clone()));
    }
}

#[test]
fn the_largest_id_is_written_and_read_again() {
    let t = changed(|v| {
        v["model"]["vocab"]["zzzz"] = json!((1 << 20) - 1);
        v["added_tokens"] = json!([]);
    });
    let t = t.unwrap();
    assert_eq!(t.vocab_size(), 1 << 20);
    let again = Tokenizer::from_json(&t.to_json().unwrap()).unwrap();
    assert_eq!(again.id_to_token((1 << 20) - 1).as_deref(), Some("zzzz"));
}

#[test]
fn an_id_is_one_token_and_a_token_one_id() {
    let e = changed(|v| v["model"]["vocab"]["zzzz"] = json!(3)).unwrap_err();
    assert!(
        matches!(e, TokenizerError::DuplicateId { id: 3, .. }),
        "{e}"
    );
    let added = |content: &str, id: u64| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    let add = |content: &str, id: u64| {
        let token = added(content, id);
        changed(|v| v["added_tokens"].as_array_mut().unwrap().push(token))
    };
    let e = add("<new>", 3).unwrap_err();
    assert!(
        matches!(e, TokenizerError::DuplicateId { id: 3, .. }),
        "{e}"
    );
    let e = add("<|endoftext|>", 9999).unwrap_err();
    assert!(
        matches!(e, TokenizerError::DuplicateToken { second: 9999, .. }),
        "{e}"
    );
    let next = TINY.vocab_size() as u64;
    assert_eq!(
        add("<new>", next).unwrap().token_to_id("<new>"),
        Some(next as u32)
    );
    let e = add("<new>", next + 1).unwrap_err();
    assert!(
        matches!(e, TokenizerError::AddedId { declared, assigned: Some(a), .. }
            if declared == next + 1 && u64::from(a) == next),
        "{e}"
    );
}

/// Repetitions that never backtrack escape the bound on backtracking: 9^8 of them take minutes.
#[test]
fn patterns_without_bounded_time_are_refused() {
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true});
    let splits = |regexes: &[String]| {
        let splits = regexes.iter().map(|regex| {
            json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false})
        });
        let parts: Vec<Value> = splits.chain([byte_level.clone()]).collect();
        altered(
            "/pre_tokenizer",
            json!({"type": "Sequence", "pretokenizers": parts}),
        )
    };
    let nested = |n: usize| format!(r"{}\b(?=a){}", "(?:".repeat(n), "){9}".repeat(n));
    for refused in [
        vec![nested(6)],
        vec![nested(40)],
        vec!["a".repeat(4097)],
        vec!["a".to_owned(); 16],
    ] {
        let e = splits(&refused).unwrap_err();
        assert!(
            matches!(e, TokenizerError::Unsupported { part, .. } if part.starts_with("pre_tokenizer")),
            "{e}"
        );
    }
    for accepted in [
        vec![nested(5)],
        vec!["a".repeat(4096)],
        vec!["a".to_owned(); 15],
    ] {
        splits(&accepted).unwrap().encode("Emma aab").unwrap();
    }
}
