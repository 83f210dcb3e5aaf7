//! Which `tokenizer.json` files are accepted: byte-level BPE, and no component beyond what it needs.
//!
//! The check is made on the parsed text, before any component is built from it.

use super::TokenizerError;
use serde_json::Value;

const NORMALIZERS: &str = "null, NFC, or a Sequence of NFC";
const PRE_TOKENIZERS: &str =
    "Split, Digits and ByteLevel, alone or in a Sequence, with one ByteLevel at the end";
const PATTERNS: &str =
    "{\"Regex\": ...} or {\"String\": ...} that is not empty, of at most 4096 bytes";
const REPETITIONS: &str = "regular expressions whose numbers multiply to at most 65536";
/// Most bytes of a pattern: matching takes time by it.
const MAX_PATTERN: usize = 4096;
/// Most the numbers of a regular expression may multiply to: repetitions inside repetitions, of what never backtracks,
/// take time by the product of their counts.
const MAX_REPETITIONS: u64 = 1 << 16;
/// Most components of a sequence.
const MAX_COMPONENTS: usize = 16;
const POST_PROCESSORS: &str = "null, ByteLevel or TemplateProcessing (not used)";
const DECODERS: &str = "ByteLevel";

/// Checks a parsed `tokenizer.json`, and sets to null what is not used: truncation, padding, and a template of
/// added tokens.
pub(super) fn accept(file: &mut Value) -> Result<(), TokenizerError> {
    if !file["model"].is_object() {
        return Err(TokenizerError::Malformed {
            detail: "no `model`; expected an object".into(),
        });
    }
    model(&file["model"])?;
    for (part, list) in [
        ("normalizer", "normalizers"),
        ("pre_tokenizer", "pretokenizers"),
        ("decoder", "decoders"),
    ] {
        let count = components(&file[part], list).len();
        if count > MAX_COMPONENTS {
            return Err(TokenizerError::Unsupported {
                part,
                found: format!("a Sequence of {count}"),
                supported: "a Sequence of at most 16",
            });
        }
    }
    for part in components(&file["normalizer"], "normalizers") {
        if !part.is_null() && kind(part) != "NFC" {
            return Err(unsupported("normalizer", part, NORMALIZERS));
        }
    }
    pre_tokenizer(&file["pre_tokenizer"])?;
    let decoders = components(&file["decoder"], "decoders");
    for part in &decoders {
        if kind(part) != "ByteLevel" {
            return Err(unsupported("decoder", part, DECODERS));
        }
    }
    if decoders.is_empty() {
        return Err(unsupported("decoder", &Value::Null, DECODERS));
    }
    let post = file["post_processor"].clone();
    let unused = match kind(&post) {
        "none" | "TemplateProcessing" => true,
        "ByteLevel" => false,
        _ => return Err(unsupported("post_processor", &post, POST_PROCESSORS)),
    };
    for key in ["truncation", "padding"] {
        file[key] = Value::Null;
    }
    if unused {
        file["post_processor"] = Value::Null;
    }
    Ok(())
}

fn model(model: &Value) -> Result<(), TokenizerError> {
    if kind(model) != "BPE" {
        return Err(unsupported("model", model, "BPE"));
    }
    let null = |v: &Value| v.is_null();
    let empty = |v: &Value| v.is_null() || v.as_str() == Some("");
    let off = |v: &Value| v.is_null() || v.as_bool() == Some(false);
    let zero = |v: &Value| v.is_null() || v.as_f64() == Some(0.0);
    type Check<'a> = &'a dyn Fn(&Value) -> bool;
    let checks: [(&str, &str, Check<'_>, &str); 6] = [
        ("dropout", "model.dropout", &zero, "null or 0"),
        ("unk_token", "model.unk_token", &null, "null"),
        (
            "continuing_subword_prefix",
            "model.continuing_subword_prefix",
            &empty,
            "null or empty",
        ),
        (
            "end_of_word_suffix",
            "model.end_of_word_suffix",
            &empty,
            "null or empty",
        ),
        ("fuse_unk", "model.fuse_unk", &off, "false"),
        ("byte_fallback", "model.byte_fallback", &off, "false"),
    ];
    for (key, part, accepted, supported) in checks {
        let value = &model[key];
        if !accepted(value) {
            return Err(TokenizerError::Unsupported {
                part,
                found: value.to_string().chars().take(80).collect(),
                supported,
            });
        }
    }
    Ok(())
}

fn pre_tokenizer(value: &Value) -> Result<(), TokenizerError> {
    let parts = components(value, "pretokenizers");
    for (i, part) in parts.iter().enumerate() {
        let accepted = match kind(part) {
            "Digits" => true,
            "ByteLevel" => i + 1 == parts.len(),
            "Split" => {
                let pattern = &part["pattern"];
                let text = pattern["Regex"].as_str().or(pattern["String"].as_str());
                let refused = |supported| TokenizerError::Unsupported {
                    part: "pre_tokenizer's pattern",
                    found: pattern.to_string().chars().take(80).collect(),
                    supported,
                };
                if text.is_none_or(|t| t.is_empty() || t.len() > MAX_PATTERN) {
                    return Err(refused(PATTERNS));
                }
                if pattern["Regex"]
                    .as_str()
                    .is_some_and(|r| repetitions(r) > MAX_REPETITIONS)
                {
                    return Err(refused(REPETITIONS));
                }
                true
            }
            _ => false,
        };
        if !accepted {
            return Err(unsupported("pre_tokenizer", part, PRE_TOKENIZERS));
        }
    }
    match parts.last() {
        Some(last) if kind(last) == "ByteLevel" => Ok(()),
        last => Err(unsupported(
            "pre_tokenizer",
            last.unwrap_or(&&Value::Null),
            PRE_TOKENIZERS,
        )),
    }
}

/// The product of the decimal numbers in a regular expression, at least that of its nested counts of repetitions;
/// those of code points are left out.
fn repetitions(regex: &str) -> u64 {
    let mut product: u64 = 1;
    let mut before = "";
    for part in regex.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
        let code_point = ["\\x{", "\\u{", "\\U{"].iter().any(|p| before.ends_with(p));
        if !digits.is_empty() && !code_point {
            let number = digits.parse().unwrap_or(u64::MAX);
            product = product.saturating_mul(number.max(1));
        }
        before = &regex[..before.len() + part.len()];
    }
    product
}

/// The components of a `Sequence`, which are under `list`, or the value alone.
fn components<'a>(value: &'a Value, list: &str) -> Vec<&'a Value> {
    match (kind(value), &value[list]) {
        ("Sequence", Value::Array(parts)) => parts.iter().collect(),
        _ => vec![value],
    }
}

/// The `type` of a component; `none` without one.
fn kind(value: &Value) -> &str {
    match value["type"].as_str() {
        Some(kind) => kind,
        None if value.is_null() => "none",
        None => "without a type",
    }
}

fn unsupported(part: &'static str, found: &Value, supported: &'static str) -> TokenizerError {
    TokenizerError::Unsupported {
        part,
        found: kind(found).chars().take(80).collect(),
        supported,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_repeat_multiply() {
        for (regex, expected) in [
            ("", 1),
            (r"\p{N}{1,3}| ?\p{L}+", 3),
            (r"(?:(?:a{9}){10,}){11}", 990),
            (r"(?x) (?:a{ 9 }){ 9 # times\n}", 81),
            (r"a{0}{5}", 5),
            (r"[\x{2019}\x{0041}]\u{1234}{2}", 2),
            (r"a{18446744073709551616}", u64::MAX),
            (r"a{4294967296}{4294967296}", u64::MAX),
            ("7", 7),
        ] {
            assert_eq!(repetitions(regex), expected, "{regex}");
        }
    }
}
