//! What a reader refuses (spec 7.1), with the place in the message.

use std::path::Path;

use kat::file::{FileError, MAX_BYTES, parse};
use kat::legacy;

fn refused(text: &str) -> String {
    parse(text.as_bytes()).expect_err(text).to_string()
}

fn op(op: &str, case: &str) -> String {
    format!(
        r#"{{"schema":"blue-kat-1","spec_version":1,"level":"op","op":"{op}","cases":[{case}]}}"#
    )
}

#[test]
fn heads() {
    for (text, why) in [
        ("[]", "a list, must be an object"),
        ("{}", "`schema` is missing"),
        (r#"{"schema":"blue-kat-2"}"#, "blue-kat-2"),
        (
            r#"{"schema":"blue-kat-1","spec_version":2}"#,
            "spec_version: 2",
        ),
        (
            r#"{"schema":"blue-kat-1","spec_version":1,"level":"byte"}"#,
            "index, op, model, toy or precompile",
        ),
        (
            r#"{"schema":"blue-kat-1","spec_version":1,"level":"index","files":[],"more":1}"#,
            "`more` is unknown",
        ),
        (r#"{"schema":"blue-kat-1","schema":"blue-kat-1"}"#, "twice"),
    ] {
        assert!(refused(text).contains(why), "{text}: {}", refused(text));
    }
    let long = vec![b' '; MAX_BYTES + 1];
    assert!(matches!(parse(&long), Err(FileError::TooLong { .. })));
}

#[test]
fn cases() {
    let good = r#"{"name":"a","in":{"x":[1],"e":0},"out":[1]}"#;
    assert!(parse(op("rdbpot", good).as_bytes()).is_ok());
    for (case, why) in [
        (r#"{"name":"a","in":{"x":[1]},"out":[1]}"#, "`e` is missing"),
        (
            r#"{"name":"a","in":{"x":[1],"e":0,"f":0},"out":[1]}"#,
            "`f` is unknown",
        ),
        (
            r#"{"name":"a","in":{"x":1,"e":0},"out":[1]}"#,
            "a list of integers or a recipe",
        ),
        (
            r#"{"name":"a","in":{"x":["9223372036854775808"],"e":0},"out":[1]}"#,
            "cases \"a\".in.x[0]",
        ),
        (
            r#"{"name":"a","in":{"x":["+1"],"e":0},"out":[1]}"#,
            "decimal digits",
        ),
        (
            r#"{"name":"a","in":{"x":["-0"],"e":0},"out":[1]}"#,
            "decimal digits",
        ),
        (
            r#"{"name":"a","in":{"x":[1],"e":"00"},"out":[1]}"#,
            "decimal digits",
        ),
        (
            r#"{"name":"a","in":{"x":[-0],"e":0},"out":[1]}"#,
            "floating point",
        ),
        (
            r#"{"name":"a","in":{"x":["1e9"],"e":0},"out":[1]}"#,
            "decimal digits",
        ),
        (
            r#"{"name":"a","in":{"x":[1.5],"e":0},"out":[1]}"#,
            "floating point",
        ),
        (
            r#"{"name":"a","in":{"x":[1e400],"e":0},"out":[1]}"#,
            "out of range",
        ),
        (
            r#"{"name":"a","in":{"x":{"fill":{"value":0,"count":4294967296}},"e":0},"out":[1]}"#,
            "count: 4294967296",
        ),
        (
            r#"{"name":"a","in":{"x":{"splitmix64":{"seed":-1,"count":1,"low":0,"high":1}},"e":0},"out":[1]}"#,
            "seed: -1",
        ),
        (
            r#"{"name":"a","in":{"x":[1],"e":0},"out":{"count":1,"keccak256":"00"}}"#,
            "64 lower-case",
        ),
        (
            r#"{"name":1,"in":{"x":[1],"e":0},"out":[1]}"#,
            "must be a string",
        ),
    ] {
        let text = op("rdbpot", case);
        assert!(refused(&text).contains(why), "{case}: {}", refused(&text));
    }
    let twice = format!("{good},{good}");
    assert!(refused(&op("rdbpot", &twice)).contains("\"a\" appears twice"));
    assert!(refused(&op("nothing", good)).contains("operation of spec 7.4"));
}

/// spec 7.4: every input of `verify_chunk` is in the domain; what is no uint64 has no valid proof.
#[test]
fn numbers_of_a_chunk_may_be_any_integer() {
    for (total_len, index) in [
        ("-1", "0"),
        ("2048", "-1"),
        ("\"18446744073709551615\"", "0"),
        ("\"18446744073709551616\"", "0"),
        ("2048", "\"18446744073709551616\""),
    ] {
        let verdict = |out: u8| {
            let digest = "0".repeat(64);
            let case = format!(
                r#"{{"name":"a","in":{{"commitment":"{digest}","total_len":{total_len},"index":{index},"chunk":[],"proof":[]}},"out":{out}}}"#
            );
            let file = parse(op("verify_chunk", &case).as_bytes()).expect("a file");
            kat::verify::check(&file, Path::new("."), &kat::target::ReferenceTarget)
        };
        assert_eq!(verdict(0), Ok(()), "{total_len} {index}");
        let why = verdict(1).expect_err("a wrong answer");
        assert_eq!(why, "case a: expected 1, found 0", "{total_len} {index}");
    }
}

#[test]
fn many_large_recipes_take_no_memory() {
    let recipe = r#"{"splitmix64":{"seed":1,"count":1048576,"low":0,"high":1}}"#;
    let cases: Vec<String> = (0..17)
        .map(|i| format!(r#"{{"name":"{i}","in":{{"x":{recipe},"e":0}},"out":[1]}}"#))
        .collect();
    assert_eq!(
        parse(op("rdbpot", &cases.join(",")).as_bytes()),
        Err(FileError::RowTotal)
    );
    assert!(parse(op("rdbpot", &cases[..15].join(",")).as_bytes()).is_ok());
}

#[test]
fn models() {
    let model = |source: &str| {
        format!(
            r#"{{"schema":"blue-kat-1","spec_version":1,"level":"model","model":{source},"blob":{{"bytes":1,"keccak256":"{d}"}},"commitment":"{d}","runs":[],"halts":[],"edits":[]}}"#,
            d = "0".repeat(64)
        )
    };
    let recipe = |hidden: u64, layers: u64, vocab: u64| {
        let config = format!(
            r#"{{"scheme":"dynamic","hidden":{hidden},"layers":{layers},"heads":1,"kv_heads":1,"head_dim":2,"intermediate":4,"vocab":{vocab},"accepted_ids":1,"max_context":9,"qk_norm":0,"tied":1,"eps":0,"stop_ids":[]}}"#
        );
        model(&format!(
            r#"{{"recipe":{{"config":{config},"style":"zero","seed":0}}}}"#
        ))
    };
    assert!(parse(recipe(4, 1, 4).as_bytes()).is_ok());
    assert!(parse(model(r#"{"file":"models/a.blob"}"#).as_bytes()).is_ok());
    for (text, why) in [
        (recipe(0, 1, 4), "hidden is 0"),
        (recipe(4_294_967_296, 1, 4), "hidden: 4294967296"),
        (recipe(8192, 256, 1 << 20), "must be at most 16777216"),
        (model(r#"{"file":"../a.blob"}"#), "relative path"),
        (model(r#"{"file":"/etc/passwd"}"#), "relative path"),
        (model(r#"{"file":"a//b"}"#), "relative path"),
        (model(r#"{"file":"a\\b"}"#), "relative path"),
        (model("{}"), "`recipe` is missing"),
    ] {
        assert!(refused(&text).contains(why), "{why}: {}", refused(&text));
    }
}

/// What the cases of a model may ask for: `bytes` of the blob, then its lists.
#[test]
fn work_of_a_model_is_bounded() {
    let file = |bytes: u64, runs: &[(usize, u64)], halts: &[(usize, u64)], edits: &[u64]| {
        let d = "0".repeat(64);
        let case = |i: usize, (count, max_new): (usize, u64), rest: &str| {
            let prompt = match count {
                0 => "[]".to_owned(),
                _ => format!(r#"{{"fill":{{"value":0,"count":{count}}}}}"#),
            };
            format!(r#"{{"name":"{i}","prompt":{prompt},"max_new":{max_new},{rest}}}"#)
        };
        let list = |cases: &[(usize, u64)], rest: &str| {
            let cases = cases.iter().enumerate().map(|(i, c)| case(i, *c, rest));
            cases.collect::<Vec<_>>().join(",")
        };
        let edits = edits.iter().enumerate().map(|(i, length)| {
            format!(r#"{{"name":"{i}","edit":[],"length":{length},"accepted":false}}"#)
        });
        format!(
            r#"{{"schema":"blue-kat-1","spec_version":1,"level":"model","model":{{"file":"a"}},"blob":{{"bytes":{bytes},"keccak256":"{d}"}},"commitment":"{d}","runs":[{}],"halts":[{}],"edits":[{}]}}"#,
            list(
                runs,
                r#""layers":[],"logits":[],"tokens":[],"finish":"length""#
            ),
            list(halts, r#""halt":"EmptyPrompt""#),
            edits.collect::<Vec<_>>().join(","),
        )
    };
    let accepted = |text: String| parse(text.as_bytes()).expect("within the bounds");
    accepted(file(1, &[(4096, 0), (0, 4096)], &[(1, 4095)], &[]));
    for (runs, halts, at) in [
        (vec![(1, 1), (4096, 1)], vec![], "runs[1]"),
        (vec![(1, 4096)], vec![], "runs[0]"),
        (vec![], vec![(0, 4097)], "halts[0]"),
        (vec![], vec![(32769, u64::from(u32::MAX))], "halts[0]"),
    ] {
        let e = parse(file(1, &runs, &halts, &[]).as_bytes()).expect_err(at);
        assert!(
            matches!(&e, FileError::Tokens { at: found, .. } if found == at),
            "{e}"
        );
    }
    // 2^32 = 2^20 * 4096 = 2^24 * 256.
    accepted(file(1 << 20, &[(1, 4095)], &[], &[]));
    accepted(file(1 << 24, &[(1, 127)], &[(1, 126)], &[1]));
    accepted(file(0, &[(1, 1)], &[], &[1 << 24; 256]));
    for text in [
        file(1 << 20, &[(1, 4095)], &[(0, 1)], &[]),
        file(1 << 24, &[(1, 127)], &[(1, 127)], &[1]),
        file(1 << 24, &[(1, 255)], &[], &[1]),
        file(1, &[], &[], &[1 << 24; 257]),
        file(1 << 24, &[(4096, 0); 300], &[], &[]),
    ] {
        let e = parse(text.as_bytes()).expect_err("too much");
        assert!(
            matches!(e, FileError::Work { bytes } if bytes > 1 << 32),
            "{e}"
        );
    }
}

/// Edges of domains: the case, and whether it has an answer.
#[test]
fn domains_of_the_toy_and_of_proofs() {
    let row = |n: usize| format!(r#"{{"fill":{{"value":-128,"count":{n}}}}}"#);
    let gemm = |weight: usize, x: usize, shift: i64| {
        let (weight, x) = (row(weight), row(x));
        (
            "toy_gemm",
            format!(r#"{{"weight":{weight},"x":{x},"shift":{shift}}}"#),
        )
    };
    let norm = |mult: i64, eps: i64| {
        (
            "toy_norm",
            format!(r#"{{"x":[1],"w":[1],"mult":{mult},"eps":{eps}}}"#),
        )
    };
    let attend = |dim: usize, keys: usize| {
        let (q, k) = (row(dim), row(dim * keys));
        ("toy_attend", format!(r#"{{"q":{q},"k":{k},"v":{k}}}"#))
    };
    let swiglu = |v: i64| ("toy_swiglu", format!(r#"{{"gate":[{v}],"up":[-128]}}"#));
    let verify = |total: &str, index: &str| {
        let d = "0".repeat(64);
        let given = format!(
            r#""commitment":"{d}","total_len":{total},"index":{index},"chunk":[1],"proof":[]"#
        );
        ("verify_chunk", format!("{{{given}}}"))
    };
    let argmax = |v: &str| ("argmax", format!(r#"{{"values":[{v}],"accepted_ids":1}}"#));
    let (most, beyond) = ("\"18446744073709551615\"", "\"18446744073709551616\"");
    for ((name, input), answered) in [
        (gemm(65536, 65536, 31), true),
        (gemm(65537, 65537, 0), false),
        (gemm(4, 4, 32), false),
        (gemm(4, 4, -1), false),
        (gemm(5, 4, 0), false),
        (norm(1 << 16, (1 << 30) - 1), true),
        (norm(1, 0), true),
        (norm(0, 0), false),
        (norm((1 << 16) + 1, 0), false),
        (norm(1, 1 << 30), false),
        (norm(1, -1), false),
        (attend(256, 256), true),
        (attend(257, 1), false),
        (attend(1, 257), false),
        (swiglu(-128), true),
        (swiglu(-129), false),
        (swiglu(128), false),
        (verify(most, most), true),
        (verify(beyond, "0"), true),
        (verify("-1", beyond), true),
        (argmax("-2147483647"), true),
        (argmax("-2147483648"), false),
    ] {
        let out = match name {
            "verify_chunk" | "argmax" => "9",
            _ => {
                r#"{"count":999,"keccak256":"0000000000000000000000000000000000000000000000000000000000000000"}"#
            }
        };
        let text = op(name, &format!(r#"{{"name":"a","in":{input},"out":{out}}}"#));
        let file = parse(text.as_bytes()).expect(&text);
        let why = kat::verify::check(
            &file,
            std::path::Path::new("."),
            &kat::target::ReferenceTarget,
        );
        let why = why.expect_err("no answer is right");
        assert_eq!(why.contains("expected"), answered, "{name} {input}: {why}");
    }
}

#[test]
fn packed_calls() {
    let good = r#"{"Input":"01000000","Expected":"","Name":"a","Gas":1,"NoBenchmark":true}"#;
    assert!(legacy::parse(format!("[{good}]").as_bytes()).is_ok());
    for (item, why) in [
        (
            r#"{"Input":"01000000","Expected":"","Name":"a"}"#,
            "`Gas` is missing",
        ),
        (
            r#"{"input":"01000000","Expected":"","Name":"a","Gas":1}"#,
            "`Input` is missing",
        ),
        (
            r#"{"Input":"0x01","Expected":"","Name":"a","Gas":1}"#,
            "without 0x",
        ),
        (
            r#"{"Input":"01","Name":"a","Gas":1}"#,
            "`Expected` is missing",
        ),
        (
            r#"{"Input":"01","Expected":"","Name":"a","Gas":1,"Note":""}"#,
            "`Note` is unknown",
        ),
        (
            r#"{"Input":"01","Expected":"","Name":"a","Gas":-1}"#,
            "[0].Gas: -1",
        ),
        (
            r#"{"Input":"01","Expected":"","Name":"a","Gas":1,"NoBenchmark":1}"#,
            "a boolean",
        ),
        (
            r#"{"Input":"01","ExpectedError":"bad","Name":"a"}"#,
            "OutOfGas",
        ),
        (
            r#"{"Input":"01","ExpectedError":"OutOfGas","Expected":"","Name":"a"}"#,
            "`Expected` is unknown",
        ),
    ] {
        let text = format!("[{item}]");
        let why_not = legacy::parse(text.as_bytes()).expect_err(item).to_string();
        assert!(why_not.contains(why), "{item}: {why_not}");
    }
    assert!(legacy::parse(b"{}").is_err());
    let twice = legacy::parse(format!("[{good},{good}]").as_bytes()).unwrap_err();
    assert!(twice.to_string().contains("\"a\" appears twice"), "{twice}");
}
