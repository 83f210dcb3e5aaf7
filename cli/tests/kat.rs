//! `blue kat verify`, `list`, `gen`.

mod common;

use common::{blue, error_of, json_of, run, text_of};
use std::path::{Path, PathBuf};

const SET: &str = "../kat/vectors/v1-draft";

fn copy(to: &Path) -> PathBuf {
    let set = to.join("copy-draft");
    for file in kat::set::list(Path::new(SET)).expect("the set") {
        let target = set.join(&file);
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("made");
        std::fs::copy(Path::new(SET).join(&file), target).expect("copied");
    }
    set
}

#[test]
fn verify_prints_a_line_for_each_file_and_backend() {
    let text = text_of(&mut blue([
        "kat",
        "verify",
        "--level",
        "toy,legacy",
        "--require",
        "scalar,reference",
    ]));
    for line in [
        "PASS  index",
        "PASS  reference",
        "PASS  scalar",
        "toy.json",
        "legacy/toy_packed.json",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(
        text.ends_with(" SKIP\n") && text.contains(" 0 FAIL"),
        "{text}"
    );
    let report = json_of(&mut blue([
        "kat",
        "verify",
        SET,
        "--level",
        "toy",
        "--backend",
        "scalar",
        "--json",
    ]));
    let rows = report.as_array().expect("a list");
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1]["target"], "scalar");
    assert_eq!(rows[1]["result"], "PASS");
}

#[test]
fn an_absent_backend_never_looks_like_a_pass() {
    let absent = if cfg!(target_arch = "x86_64") {
        "neon"
    } else {
        "avx2"
    };
    let args = ["kat", "verify", SET, "--level", "toy", "--backend", absent];
    let output = run(blue(args).args(["--require", absent]));
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains(&format!("required backend {absent} is absent")),
        "{stderr}"
    );
    let alone = run(&mut blue(args));
    assert_eq!(alone.status.code(), Some(2));
    let text = String::from_utf8_lossy(&alone.stdout);
    assert!(text.contains("this machine lacks the backend"), "{text}");
    let others = ["--backend", "scalar", "--level", "toy"];
    let text = text_of(blue(["kat", "verify", SET, "--backend", absent]).args(others));
    assert!(text.contains("1 SKIP"), "{text}");
}

#[test]
fn an_altered_token_is_named_with_its_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let set = copy(dir.path());
    let toy = set.join("toy.json");
    let text = std::fs::read_to_string(&toy)
        .expect("text")
        .replacen("[4,28,21,", "[4,28,20,", 1);
    std::fs::write(&toy, text).expect("written");
    let output = run(blue(["kat", "verify", "--level", "toy"]).arg(&set));
    assert_eq!(output.status.code(), Some(3));
    let out = String::from_utf8_lossy(&output.stdout);
    for line in [
        "toy.json  keccak256 of the file",
        "tokens published, tokens, index 2: expected 20, found 21",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
}

#[test]
fn usage_and_missing_sets() {
    let missing = error_of(blue(["kat", "verify"]).current_dir(std::env::temp_dir()), 2);
    assert!(
        missing.contains("kat/vectors/v1-draft") && missing.contains("blue kat verify DIR"),
        "{missing}"
    );
    let unknown = error_of(&mut blue(["kat", "verify", SET, "--backend", "abacus"]), 2);
    assert!(
        unknown.contains("abacus") && unknown.contains("scalar"),
        "{unknown}"
    );
    let level = error_of(&mut blue(["kat", "verify", SET, "--level", "byte"]), 2);
    assert!(
        level.contains("op, model, toy, legacy, precompile"),
        "{level}"
    );
}

#[test]
fn list_counts_cases() {
    let text = text_of(&mut blue(["kat", "list"]));
    assert!(
        text.contains("ops/rdbpot.json") && text.contains("legacy/toy_packed.json"),
        "{text}"
    );
    let rows = json_of(&mut blue(["kat", "list", SET, "--json"]));
    let rows = rows.as_array().expect("a list");
    assert!(
        rows.iter()
            .any(|r| r["op"] == "attend" && r["cases"].as_u64() > Some(50))
    );
}

#[test]
fn packed_calls_of_a_file() {
    let file = format!("{SET}/legacy/toy_packed.json");
    let text = text_of(&mut blue([
        "kat",
        "verify",
        "--backend",
        "reference",
        "--legacy",
        &file,
    ]));
    assert!(text.contains("PASS  reference"), "{text}");
    let dir = tempfile::tempdir().expect("a folder");
    let write = |text: &str| {
        let path = dir.path().join("calls.json");
        std::fs::write(&path, text).expect("written");
        path
    };
    let good = std::fs::read_to_string(&file).expect("text");
    let wrong = write(&good.replacen("\"Gas\":600000", "\"Gas\":600001", 1));
    let output = run(blue(["kat", "verify", "--backend", "scalar", "--legacy"]).arg(wrong));
    assert_eq!(output.status.code(), Some(3));
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(
        out.contains("call 0 (published), Gas: expected 600001, found 600000"),
        "{out}"
    );
    let bad = write(r#"[{"Input":"0x01","Expected":"","Name":"a","Gas":1}]"#);
    let error = error_of(blue(["kat", "verify", "--legacy"]).arg(bad), 2);
    assert!(error.contains("without 0x"), "{error}");
    let bad = write(r#"[{"Input":"01","Expected":"","Name":"a"}]"#);
    let error = error_of(blue(["kat", "verify", "--legacy"]).arg(bad), 2);
    assert!(error.contains("member `Gas` is missing"), "{error}");
}

#[test]
fn gen_writes_only_drafts() {
    let dir = tempfile::tempdir().expect("a folder");
    let released = error_of(blue(["kat", "gen", "--out"]).arg(dir.path().join("v1")), 2);
    assert!(released.contains("-draft"), "{released}");
    let out = dir.path().join("new-draft");
    text_of(blue(["kat", "gen", "--out"]).arg(&out));
    for file in kat::set::list(Path::new(SET)).expect("the set") {
        let made = std::fs::read(out.join(&file)).expect("made");
        let there = std::fs::read(Path::new(SET).join(&file)).expect("there");
        assert!(made == there, "{file}: run blue kat gen");
    }
    let missing = error_of(
        blue(["kat", "gen", "--check", "--out"]).arg(dir.path().join("none")),
        2,
    );
    assert!(missing.contains("none"), "{missing}");
    std::fs::write(out.join("toy.json"), "{}").expect("written");
    let differs = error_of(blue(["kat", "gen", "--check", "--out"]).arg(&out), 3);
    assert!(differs.contains("toy.json: differs"), "{differs}");
}
