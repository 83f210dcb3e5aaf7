//! The level `precompile` of the current set: complete, and sensitive to every member.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kat::precompiles::{Chain, Expected, Form, PrecompileCall, parse, to_bytes, verify};
use kat::target::Target;
use precompile::{Refusal, infer, registry};

const FILES: [&str; 4] = [
    "precompile/registry.json",
    "precompile/fail-registry.json",
    "precompile/inference.json",
    "precompile/fail-inference.json",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn calls(path: &str) -> Vec<PrecompileCall> {
    let bytes = fs::read(root().join(kat::set::CURRENT).join(path)).expect(path);
    let calls = parse(&bytes).expect(path);
    assert_eq!(to_bytes(&calls), bytes, "{path} is written as it is read");
    calls
}

fn chain() -> Chain {
    Chain::read(&root().join(kat::set::CURRENT), &root()).expect("states")
}

/// Spec 6.2, the last column; a legacy function halts for all.
#[test]
fn every_refusal_is_there_in_its_form() {
    let failures = [calls(FILES[1]), calls(FILES[3])].concat();
    for &why in Refusal::ALL {
        let form = match why.number() {
            1..=10 | 24 => Form::Halt,
            _ => Form::Revert,
        };
        let of = |c: &&PrecompileCall| matches!(c.expected, Expected::Refused { refusal, form: f, .. } if refusal == why && f == form);
        let call = failures.iter().find(of);
        let call = call.unwrap_or_else(|| panic!("no {form:?} {why:?}"));
        let Expected::Refused { gas_used, data, .. } = &call.expected else {
            panic!("{} is refused", call.name)
        };
        match form {
            Form::Halt => assert_eq!((*gas_used, data.len()), (call.gas, 0)),
            Form::Revert => {
                assert!(*gas_used <= call.gas);
                assert_eq!(data.len(), 36);
                assert_eq!(data[34..], why.number().to_be_bytes());
            }
        }
    }
}

#[test]
fn every_function_returns_and_is_refused() {
    for (answers, failures, selectors) in [
        (
            calls(FILES[0]),
            calls(FILES[1]),
            registry::Function::ALL
                .iter()
                .map(|f| f.selector())
                .chain((1..=4).map(|n| [n, 0, 0, 0]))
                .collect::<Vec<_>>(),
        ),
        (
            calls(FILES[2]),
            calls(FILES[3]),
            infer::Function::ALL
                .iter()
                .map(|f| f.selector())
                .chain([[1, 0, 0, 0]])
                .collect(),
        ),
    ] {
        let found = |calls: &[PrecompileCall]| -> BTreeSet<[u8; 4]> {
            let selector = |c: &PrecompileCall| c.input.first_chunk().copied();
            calls.iter().filter_map(selector).collect()
        };
        for selector in selectors {
            assert!(found(&answers).contains(&selector), "{selector:02x?}");
            assert!(found(&failures).contains(&selector), "{selector:02x?}");
        }
    }
}

/// A function that does not depend on a model's numbers: fast, and enough to see each member.
fn altered(path: &str, change: impl Fn(&mut PrecompileCall) -> bool, what: &str) {
    let chain = chain();
    let mut seen = 0;
    for mut call in calls(path) {
        let name = call.name.clone();
        if !change(&mut call) {
            continue;
        }
        let why = verify(path, &to_bytes(&[call]), &chain, Target::Reference)
            .expect_err("an altered call");
        assert!(why.contains(&name) && why.contains(what), "{name}: {why}");
        seen += 1;
        if seen == 12 {
            break;
        }
    }
    assert!(seen > 0, "{path}: {what}");
}

#[test]
fn an_altered_member_is_named() {
    altered(
        FILES[0],
        |c| {
            c.gas += 1;
            true
        },
        "Gas",
    );
    altered(
        FILES[0],
        |c| {
            c.gas -= 1;
            true
        },
        "outcome",
    );
    altered(
        FILES[0],
        |c| match &mut c.expected {
            Expected::Return { output, .. } => {
                output[0] ^= 1;
                true
            }
            Expected::Refused { .. } => false,
        },
        "Expected",
    );
    altered(
        FILES[0],
        |c| match &mut c.expected {
            Expected::Return { storage, .. } => storage.pop().is_some(),
            Expected::Refused { .. } => false,
        },
        "Storage",
    );
    altered(
        FILES[0],
        |c| match &mut c.expected {
            Expected::Return { logs, .. } if !logs.is_empty() => {
                logs[0].topics[1][0] ^= 1;
                true
            }
            _ => false,
        },
        "Logs",
    );
    for path in [FILES[1], FILES[3]] {
        altered(
            path,
            |c| match &mut c.expected {
                Expected::Refused { gas_used, .. } => {
                    *gas_used ^= 1;
                    true
                }
                Expected::Return { .. } => false,
            },
            "outcome",
        );
        altered(
            path,
            |c| match &mut c.expected {
                Expected::Refused { refusal, .. } if *refusal != Refusal::NotActive => {
                    *refusal = Refusal::NotActive;
                    true
                }
                _ => false,
            },
            "outcome",
        );
    }
    altered(
        FILES[0],
        |c| {
            c.state = "nowhere".into();
            true
        },
        "no state is named",
    );
}

#[test]
fn a_file_holds_what_its_name_says() {
    let chain = chain();
    let bytes = to_bytes(&calls(FILES[1])[..1]);
    let why = verify(FILES[0], &bytes, &chain, Target::Reference);
    assert!(why.is_err_and(|why| why.contains("fail file")));
    let why = verify("precompile/other.json", &bytes, &chain, Target::Reference);
    assert!(why.is_err_and(|why| why.contains("no file of calls")));
}

/// Readers refuse what spec 7.11 does not name.
#[test]
fn other_forms_are_refused() {
    let mut failures = calls(FILES[1]);
    failures
        .retain(|c| matches!(c.expected, Expected::Refused { form, .. } if form == Form::Revert));
    let text = String::from_utf8(to_bytes(&failures[..1])).expect("UTF-8");
    assert!(parse(text.as_bytes()).is_ok());
    for (from, to) in [
        ("\"Form\":", "\"form\":"),
        ("\"Form\":\"revert\"", "\"Form\":\"return\""),
        ("\"State\":", "\"Static\":false,\"State\":"),
        ("\"State\":", "\"Direct\":true,\"State\":"),
        ("\"State\":", "\"Value\":0,\"State\":"),
        ("\"State\":", "\"Expected\":\"\",\"State\":"),
        ("\"Caller\":\"00", "\"Caller\":\""),
        ("\"GasUsed\":", "\"GasUsed\":-"),
        ("\"ExpectedError\":\"", "\"ExpectedError\":\"x"),
        ("\"Input\":\"", "\"Input\":\"0x"),
    ] {
        let other = text.replacen(from, to, 1);
        assert_ne!(other, text, "{from}");
        assert!(parse(other.as_bytes()).is_err(), "{from} {to}");
    }
    let twice = text.trim().trim_start_matches('[').trim_end_matches(']');
    assert!(parse(format!("[{twice},{twice}]").as_bytes()).is_err());
}

#[test]
fn hostile_states_are_refused() {
    let key = "00".repeat(32);
    let (one, two) = (
        format!("{}01", "00".repeat(31)),
        format!("{}02", "00".repeat(31)),
    );
    let state = |storage: &str| {
        format!(
            r#"{{"schema":"blue-kat-1","spec_version":1,"level":"precompile","models":[],"states":[{{"name":"a","block":1,"storage":{storage}}}]}}"#
        )
    };
    let read = |text: &str| kat::file::parse(text.as_bytes()).map_err(|e| e.to_string());
    assert!(read(&state(&format!(r#"[["{key}","{one}"],["{one}","{two}"]]"#))).is_ok());
    for (storage, why) in [
        (
            format!(r#"[["{one}","{two}"],["{key}","{one}"]]"#),
            "ascend",
        ),
        (
            format!(r#"[["{one}","{two}"],["{one}","{two}"]]"#),
            "ascend",
        ),
        (format!(r#"[["{one}","{key}"]]"#), "not zero"),
        (format!(r#"[["{one}"]]"#), "a pair"),
        (format!(r#"[["{one}","{one}","{one}"]]"#), "a pair"),
        (r#"[["01","02"]]"#.to_owned(), "64"),
        ("{}".to_owned(), "a list"),
    ] {
        let refused = read(&state(&storage)).expect_err("hostile");
        assert!(refused.contains(why), "{storage}: {refused}");
    }
    let outside = state("[]").replacen(
        r#""models":[]"#,
        &format!(r#""models":[{{"name":"a","file":"../a.json","commitment":"{key}"}}]"#),
        1,
    );
    assert!(
        read(&outside)
            .expect_err("hostile")
            .contains("relative path")
    );
}
