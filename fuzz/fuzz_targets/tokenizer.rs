//! Tokenizers and chat templates of foreign models.
//!
//! The first byte chooses: a `tokenizer.json`; a GGUF file; GGUF metadata from parts; a chat template.
#![no_main]

use arbitrary::Unstructured;
use float_engine::chat::{ChatTemplate, Conversation, Message};
use float_engine::tokenizer::Tokenizer;
use libfuzzer_sys::fuzz_target;
use quant_core::gguf::{Array, GgufFile, Value};
use std::backtrace::Backtrace;
use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{LazyLock, Mutex, PoisonError};

/// A byte-level tokenizer of 256 bytes and one control token.
static BYTES: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::from_gguf(&bytes_and_control()).expect("valid"));

const CONTROL: &str = "<|im_end|>";

/// The characters by which byte-level vocabularies spell the 256 bytes.
fn alphabet() -> Vec<String> {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut others = '\u{100}'..;
    let spell = |b: u8| {
        if printable(b) {
            char::from(b)
        } else {
            others.next().expect("few are not printable")
        }
    };
    (0..=255u8).map(spell).map(String::from).collect()
}

fn metadata(
    tokens: Vec<String>,
    types: Vec<i32>,
    merges: Vec<String>,
    pre: &str,
) -> BTreeMap<String, Value> {
    let entries = [
        ("model", Value::String("gpt2".into())),
        ("pre", Value::String(pre.into())),
        ("tokens", Value::Array(Array::String(tokens))),
        ("token_type", Value::Array(Array::I32(types))),
        ("merges", Value::Array(Array::String(merges))),
    ];
    entries
        .into_iter()
        .map(|(key, value)| (format!("tokenizer.ggml.{key}"), value))
        .collect()
}

fn bytes_and_control() -> BTreeMap<String, Value> {
    let mut tokens = alphabet();
    let mut types = vec![1; tokens.len()];
    tokens.push(CONTROL.into());
    types.push(3);
    metadata(tokens, types, Vec::new(), "qwen2")
}

/// A tokenizer that was accepted: ids are tokens, text is never control, its file gives the same tokenizer.
fn use_it(tokenizer: &Tokenizer, text: &str) {
    for text in [text, "a", "Hello, world 123\n", "<|im_end|>e\u{301}"] {
        if let Ok(ids) = tokenizer.encode(text) {
            assert!(
                ids.iter()
                    .all(|&id| (id as usize) < tokenizer.vocab_size() && !tokenizer.is_special(id))
            );
            let whole = tokenizer.decode(&ids, false);
            assert_eq!(
                whole,
                tokenizer.decode(&ids, true),
                "no special token to skip"
            );
            let mut stream = tokenizer.stream(false);
            let mut pieces: String = ids.iter().map(|&id| stream.push(id)).collect();
            pieces.push_str(&stream.finish());
            assert_eq!(pieces, whole);
        }
        let _ = tokenizer.encode_with_specials(text);
    }
    let saved = tokenizer.to_json().expect("an accepted tokenizer is saved");
    let again =
        Tokenizer::from_json(&saved).unwrap_or_else(|e| panic!("the saved file is refused: {e}"));
    assert_eq!(again.to_json().expect("saved again"), saved);
    assert_eq!(again.vocab_size(), tokenizer.vocab_size());
    match (tokenizer.encode(text), again.encode(text)) {
        (Ok(a), Ok(b)) => assert_eq!(a, b),
        (Err(_), Err(_)) => {}
        (a, b) => panic!("{a:?} and {b:?}"),
    }
}

struct Parts<'a> {
    smollm: bool,
    /// Leaves out bytes of the alphabet from this one on.
    alphabet: u8,
    tokens: Vec<(&'a str, u8)>,
    merges: Vec<(u8, u8)>,
    spelled: Vec<&'a str>,
    text: &'a str,
}

fn any_parts<'a>(u: &mut Unstructured<'a>) -> arbitrary::Result<Parts<'a>> {
    Ok(Parts {
        smollm: u.arbitrary()?,
        alphabet: u.arbitrary()?,
        tokens: u.arbitrary()?,
        merges: u.arbitrary()?,
        spelled: u.arbitrary()?,
        text: u.arbitrary()?,
    })
}

fn from_parts(parts: &Parts<'_>) {
    let mut tokens = alphabet();
    tokens.truncate(usize::from(parts.alphabet) + 1);
    let mut types = vec![1; tokens.len()];
    for (token, kind) in &parts.tokens {
        tokens.push((*token).into());
        types.push(i32::from(kind % 7));
    }
    let pick = |i: u8| &tokens[usize::from(i) % tokens.len()];
    let mut merges: Vec<String> = parts
        .merges
        .iter()
        .map(|&(a, b)| format!("{} {}", pick(a), pick(b)))
        .collect();
    merges.extend(parts.spelled.iter().map(|s| String::from(*s)));
    let pre = if parts.smollm { "smollm" } else { "qwen2" };
    if let Ok(tokenizer) = Tokenizer::from_gguf(&metadata(tokens, types, merges, pre)) {
        use_it(&tokenizer, parts.text);
    }
}

/// Text of a message never becomes a control token by itself: content that the template inserts as it is.
fn template(source: &str) {
    let Ok(template) = ChatTemplate::new(source, "<s>", CONTROL) else {
        return;
    };
    let conversation = Conversation {
        messages: vec![
            Message::new("user", "hi <|im_end|>"),
            Message::new("assistant", "<think>x</think> y"),
        ],
        tools: Vec::new(),
        add_generation_prompt: true,
        enable_thinking: Some(false),
    };
    let _ = template.encode(&BYTES, &conversation);
}

/// The last panics of any thread, oldest first.
static PANICS: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
/// Panics that are kept.
const KEPT: usize = 3;

/// A panic inside a component of the tokenizer or of the template engine is caught and is an error there; the fuzzer's
/// own hook would end the run. This one keeps what is needed to report a panic that is not caught.
fn init() {
    std::panic::set_hook(Box::new(|info| {
        let report = format!("{info}\n{}", Backtrace::force_capture());
        let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        if panics.len() == KEPT {
            panics.pop_front();
        }
        panics.push_back(report);
    }));
}

/// Runs `body`; a panic that leaves it ends the process with a report.
fn reported(body: impl FnOnce()) {
    if std::panic::catch_unwind(AssertUnwindSafe(body)).is_err() {
        let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        for panic in panics.iter() {
            eprintln!("{panic}");
        }
        eprintln!("the last of these panics was not caught");
        std::process::abort();
    }
}

fn one(input: &[u8]) {
    let Some((&kind, rest)) = input.split_first() else {
        return;
    };
    match kind % 4 {
        0 => {
            if let Ok(tokenizer) = Tokenizer::from_json(rest) {
                use_it(&tokenizer, "some text");
            }
        }
        1 => {
            if let Ok(file) = GgufFile::parse(rest) {
                if let Ok(tokenizer) = Tokenizer::from_gguf(file.metadata()) {
                    use_it(&tokenizer, "some text");
                }
            }
        }
        2 => {
            if let Ok(parts) = any_parts(&mut Unstructured::new(rest)) {
                from_parts(&parts);
            }
        }
        _ => {
            if let Ok(source) = std::str::from_utf8(rest) {
                template(source);
            }
        }
    }
}

fuzz_target!(init: init(), |input: &[u8]| {
    reported(|| one(input));
});
