//! The executable specification against the reference: `tests/spec/run.py` runs the code blocks of
//! `spec/*.md`; the reference must give the same commitment, tokens, finish reason and logits.

#[path = "common/random_blob.rs"]
mod random_blob;

use int_reference::{Finish, Model, commitment, keccak256};
use random_blob::{Rng, Shape, Style, build, shapes};
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

/// Runs the specification. Python 3 is a requirement of this suite: without it the tests fail.
fn run_spec(args: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("spec/run.py");
    let out = Command::new("python3")
        .arg(script)
        .args(args)
        .output()
        .expect("python3 is required to run the specification");
    assert!(
        out.status.success(),
        "run.py {args:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).expect("UTF-8")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn self_check() {
    assert_eq!(run_spec(&["self"]).trim(), "spec: self-check passed");
}

fn compare(
    name: &str,
    shape: &Shape,
    style: Style,
    seed: u64,
    prompt_len: usize,
    max_new: usize,
) -> Finish {
    let context = format!("{name}, {style:?}, seed {seed}");
    let blob = build(shape, style, seed).bytes;
    let model = Model::from_blob(&blob).unwrap_or_else(|e| panic!("{context}: {e}"));
    let prompt = Rng(seed).tokens(prompt_len.min(shape.ctx), shape.accepted);
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), &blob).expect("written");
    let ids = prompt
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(",");
    let answer = run_spec(&[
        "blob",
        file.path().to_str().expect("UTF-8"),
        &ids,
        &max_new.to_string(),
    ]);
    let spec: Value = serde_json::from_str(&answer).expect("JSON");

    assert_eq!(
        spec["commitment"],
        hex(&commitment(&blob)),
        "{context}: commitment"
    );
    let logits = model.all_logits(&prompt).expect("an accepted prompt");
    let last = logits.last().expect("a position");
    let want: Vec<i32> = serde_json::from_value(spec["logits"].clone()).expect("int32 logits");
    assert_eq!(&want, last, "{context}: logits of the last position");
    let (output, finish) = model
        .generate(&prompt, max_new)
        .expect("an accepted prompt");
    let want: Vec<u32> = serde_json::from_value(spec["output"].clone()).expect("ids");
    assert_eq!(want, output, "{context}: output");
    let reason = match finish {
        Finish::Length => "length",
        Finish::Stop => "stop",
        Finish::Context => "context",
    };
    assert_eq!(spec["finish"], reason, "{context}: finish");
    finish
}

#[test]
fn plausible_blobs() {
    for (i, (name, shape)) in shapes().iter().enumerate() {
        compare(name, shape, Style::Plausible, i as u64, 4, 3);
    }
}

#[test]
fn extreme_blobs() {
    for (i, (name, shape)) in shapes().iter().enumerate() {
        compare(name, shape, Style::Extreme, 100 + i as u64, 3, 2);
    }
    // Other draws of the constants: ends of ranges meet in other combinations.
    for seed in 200..214 {
        let qk_norm = seed % 2 == 0;
        let static_scheme = seed >= 208;
        compare(
            "default",
            &Shape {
                static_scheme,
                qk_norm,
                hidden: 20,
                vocab: 11,
                accepted: 11,
                ..Shape::default()
            },
            Style::Extreme,
            seed,
            4,
            2,
        );
    }
}

#[test]
fn zero_blobs() {
    for qk_norm in [false, true] {
        compare(
            "zero",
            &Shape {
                qk_norm,
                tied: qk_norm,
                ..Shape::default()
            },
            Style::Zero,
            1,
            3,
            2,
        );
    }
}

#[test]
fn finish_reasons() {
    let small = Shape {
        hidden: 16,
        heads: 1,
        kv_heads: 1,
        intermediate: 12,
        vocab: 9,
        accepted: 8,
        ctx: 6,
        ..Shape::default()
    };
    assert_eq!(
        compare("length", &small, Style::Plausible, 7, 3, 2),
        Finish::Length
    );
    assert_eq!(
        compare("nothing asked", &small, Style::Plausible, 7, 3, 0),
        Finish::Length
    );
    assert_eq!(
        compare(
            "the context's last place",
            &small,
            Style::Plausible,
            7,
            3,
            3
        ),
        Finish::Length
    );
    assert_eq!(
        compare(
            "one more than the context",
            &small,
            Style::Plausible,
            7,
            3,
            4
        ),
        Finish::Context
    );
    assert_eq!(
        compare("full prompt", &small, Style::Plausible, 7, 6, 4),
        Finish::Context
    );
    assert_eq!(
        compare(
            "full prompt, nothing asked",
            &small,
            Style::Plausible,
            7,
            6,
            0
        ),
        Finish::Length
    );
    let stop = Shape {
        stop_ids: (0..8).collect(),
        ..small
    };
    assert_eq!(
        compare("every id stops", &stop, Style::Plausible, 7, 3, 3),
        Finish::Stop
    );
}

/// A builder whose activations die or saturate would make every comparison of backends vacuous.
#[test]
fn plausible_blobs_are_alive() {
    for (i, (name, shape)) in shapes()
        .iter()
        .enumerate()
        .filter(|(_, (_, s))| s.hidden >= 16)
    {
        let blob = build(shape, Style::Plausible, i as u64).bytes;
        let model = Model::from_blob(&blob).unwrap_or_else(|e| panic!("{name}: {e}"));
        let tokens = Rng(99).tokens(12, shape.accepted);
        let mut cache = model.new_cache();
        let mut tops = HashSet::new();
        for &t in &tokens {
            let x = model.step(&mut cache, t);
            let largest = x.iter().map(|v| v.abs()).max().expect("a row");
            assert!(
                (1 << 14..1 << 28).contains(&largest),
                "{name}: residual magnitude {largest}"
            );
            let logits = model.logits(&x);
            let distinct: HashSet<i32> = logits.iter().copied().collect();
            assert!(
                distinct.len() * 10 >= logits.len() * 9,
                "{name}: {} distinct logits",
                distinct.len()
            );
            let largest = logits
                .iter()
                .map(|v| v.unsigned_abs())
                .max()
                .expect("a row");
            assert!(
                (1 << 12..1 << 26).contains(&largest),
                "{name}: logit magnitude {largest}"
            );
            tops.insert(model.argmax(&logits));
        }
        assert!(
            tops.len() >= 3,
            "{name}: {} different tokens in 12 positions",
            tops.len()
        );
        for layer in 0..shape.layers {
            for head in 0..shape.kv_heads {
                let kv = cache.head(layer, head);
                for m in kv.mk.iter().chain(&kv.mv) {
                    assert!(
                        (64..32767).contains(m) || shape.head_dim == 2,
                        "{name}: cached magnitude {m}"
                    );
                }
            }
        }
        // The past matters: another first token changes the last position's logits.
        let mut other = tokens.clone();
        other[0] = (other[0] + 1) % shape.accepted as u32;
        assert_ne!(
            model.all_logits(&tokens).expect("accepted").pop(),
            model.all_logits(&other).expect("accepted").pop(),
            "{name}"
        );
    }
}

#[test]
fn builder_is_deterministic() {
    let shape = Shape::default();
    let a = build(&shape, Style::Plausible, 5).bytes;
    assert_eq!(a, build(&shape, Style::Plausible, 5).bytes);
    assert_ne!(a, build(&shape, Style::Plausible, 6).bytes);
    assert_ne!(a, build(&shape, Style::Extreme, 5).bytes);
    println!("{}", hex(&keccak256(&a)));
}
