//! Byte-level BPE from GGUF metadata (`tokenizer.ggml.*`).

use super::{Tokenizer, TokenizerError};
use quant_core::gguf::Value;
use serde_json::json;
use std::collections::BTreeMap;

/// Pattern by which Qwen's tokenizers split text before merging.
const QWEN2_PATTERN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// `tokenizer.ggml.token_type` of control tokens and of tokens added by the model's makers.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

impl Tokenizer {
    /// Builds the tokenizer that a GGUF file describes: model `gpt2` with pre-tokenizer `smollm` or `qwen2`.
    ///
    /// # Errors
    /// A key missing or malformed; another model or pre-tokenizer.
    pub fn from_gguf(metadata: &BTreeMap<String, Value>) -> Result<Self, TokenizerError> {
        let string = |key: &'static str| {
            let found = metadata.get(key).and_then(Value::as_str);
            found.ok_or(TokenizerError::Metadata {
                key,
                expected: "a string",
            })
        };
        let strings = |key: &'static str| {
            let found = metadata.get(key).and_then(Value::as_strings);
            found.ok_or(TokenizerError::Metadata {
                key,
                expected: "an array of strings",
            })
        };
        let model = string("tokenizer.ggml.model")?;
        if model != "gpt2" {
            return Err(TokenizerError::Unsupported {
                part: "model",
                found: model.into(),
                supported: "gpt2",
            });
        }
        let (normalizer, pre_tokenizer) = pipeline(string("tokenizer.ggml.pre")?)?;

        let tokens = strings("tokenizer.ggml.tokens")?;
        let types = metadata
            .get("tokenizer.ggml.token_type")
            .and_then(Value::as_array)
            .and_then(|a| a.to_i64s());
        let types = types.filter(|t| t.len() == tokens.len());
        let types = types.ok_or(TokenizerError::Metadata {
            key: "tokenizer.ggml.token_type",
            expected: "an array of integers, one a token",
        })?;
        let mut ids = BTreeMap::new();
        for (id, token) in tokens.iter().enumerate() {
            if let Some(first) = ids.insert(token.as_str(), id) {
                return Err(TokenizerError::DuplicateToken {
                    token: token.clone(),
                    first,
                    second: id,
                });
            }
        }
        let mut merges = Vec::new();
        for (index, merge) in strings("tokenizer.ggml.merges")?.iter().enumerate() {
            match merge.split_once(' ') {
                Some((a, b)) if !a.is_empty() && !b.is_empty() && !b.contains(' ') => {
                    merges.push([a, b])
                }
                _ => {
                    return Err(TokenizerError::Merge {
                        index,
                        merge: merge.clone(),
                    });
                }
            }
        }
        let added = (0..tokens.len()).filter(|&i| matches!(types[i], CONTROL | USER_DEFINED)).map(|id| {
            json!({
                "id": id, "content": tokens[id], "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": types[id] == CONTROL,
            })
        });
        let tokenizer = json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": added.collect::<Vec<_>>(),
            "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer,
            "post_processor": null,
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                "vocab": ids, "merges": merges,
            },
        });
        Self::from_json(tokenizer.to_string().as_bytes())
    }
}

/// Normaliser and pre-tokeniser of a `tokenizer.ggml.pre`.
fn pipeline(pre: &str) -> Result<(serde_json::Value, serde_json::Value), TokenizerError> {
    let byte_level = |use_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex});
    match pre {
        "smollm" => {
            let digits = json!({"type": "Digits", "individual_digits": true});
            Ok((
                json!(null),
                json!({"type": "Sequence", "pretokenizers": [digits, byte_level(true)]}),
            ))
        }
        "qwen2" => {
            let split = json!({
                "type": "Split", "pattern": {"Regex": QWEN2_PATTERN}, "behavior": "Isolated", "invert": false,
            });
            Ok((
                json!({"type": "NFC"}),
                json!({"type": "Sequence", "pretokenizers": [split, byte_level(false)]}),
            ))
        }
        _ => Err(TokenizerError::Unsupported {
            part: "pre-tokenizer",
            found: pre.chars().take(80).collect(),
            supported: "smollm, qwen2",
        }),
    }
}
