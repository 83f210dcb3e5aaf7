//! `blue inspect` and `blue verify` on sound, cut and altered blobs.

mod common;

use common::{blue, error_of, json_of, run, text_of};

const BLOB: &[u8] = include_bytes!("../../models/default/blue-tiny.blob");
const TOKENIZER: &[u8] = include_bytes!("../../models/default/blue-tiny.tokenizer.json");

fn commitment() -> String {
    int_engine::commitment::commitment(BLOB).to_string()
}

#[test]
fn inspect_shows_the_record_and_every_tensor() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.blob");
    std::fs::write(&path, BLOB).unwrap();
    let facts = json_of(blue(["inspect", "--json"]).arg(&path));
    assert_eq!(facts["record"]["total_len"], BLOB.len());
    assert_eq!(facts["complete"], true);
    let end = facts["tensors"]
        .as_array()
        .unwrap()
        .last()
        .map(|t| t["offset"].as_u64().unwrap() + t["bytes"].as_u64().unwrap());
    assert_eq!(end, Some(BLOB.len() as u64));
    assert!(text_of(blue(["inspect"]).arg(&path)).contains("final_norm.gain"));

    std::fs::write(&path, &BLOB[..BLOB.len() - 1]).unwrap();
    assert_eq!(
        json_of(blue(["inspect", "--json"]).arg(&path))["complete"],
        false
    );
    for len in [0, 1, 1023, 1024, 1030] {
        std::fs::write(&path, &BLOB[..len]).unwrap();
        assert!(
            error_of(blue(["inspect"]).arg(&path), 2).contains("is not a blob"),
            "{len}"
        );
    }
}

#[test]
fn verify_accepts_the_blob_and_its_tokenizer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.blob");
    std::fs::write(&path, BLOB).unwrap();
    let alone = json_of(blue(["verify", "--json", "--commitment", &commitment()]).arg(&path));
    assert_eq!(
        (&alone["verified"], &alone["tokenizer"]),
        (&true.into(), &"absent".into())
    );
    std::fs::write(dir.path().join("m.tokenizer.json"), TOKENIZER).unwrap();
    assert_eq!(
        json_of(blue(["verify", "--json", "--commitment", &commitment()]).arg(&path))["tokenizer"],
        "verified"
    );
    std::fs::write(dir.path().join("m.tokenizer.json"), b"{}").unwrap();
    let error = error_of(
        blue(["verify", "--commitment", &commitment()]).arg(&path),
        3,
    );
    assert!(error.contains("digest"), "{error}");
}

#[test]
fn verify_refuses_any_other_commitment_and_any_altered_byte() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.blob");
    std::fs::write(&path, BLOB).unwrap();
    let other = format!("0x{}", "00".repeat(32));
    let error = error_of(blue(["verify", "--commitment", &other]).arg(&path), 3);
    assert!(
        error.contains(&commitment()) && error.contains(&other),
        "{error}"
    );

    let manifest = 1024 + 5;
    for at in [
        0,
        8,
        12,
        20,
        100,
        1023,
        manifest,
        BLOB.len() / 2,
        BLOB.len() - 1,
    ] {
        let mut altered = BLOB.to_vec();
        altered[at] ^= 1;
        std::fs::write(&path, &altered).unwrap();
        error_of(
            blue(["verify", "--commitment", &commitment()]).arg(&path),
            3,
        );
    }
    for len in [0, 1, 1023, 1024, 1025, 70_000, BLOB.len() - 1] {
        std::fs::write(&path, &BLOB[..len]).unwrap();
        error_of(
            blue(["verify", "--commitment", &commitment()]).arg(&path),
            3,
        );
    }
    let mut longer = BLOB.to_vec();
    longer.push(0);
    std::fs::write(&path, &longer).unwrap();
    error_of(
        blue(["verify", "--commitment", &commitment()]).arg(&path),
        3,
    );
}

#[test]
fn a_missing_blob_is_bad_input() {
    for args in [
        vec!["inspect", "no.blob"],
        vec!["verify", "no.blob", "--commitment", &commitment()],
        vec!["generate", "no.blob", "--tokens", "1", "--max-new", "1"],
    ] {
        assert!(error_of(&mut blue(args), 2).contains("no.blob"));
    }
}

#[test]
fn an_altered_blob_does_not_generate() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.blob");
    for backend in ["auto", "reference"] {
        std::fs::write(&path, &BLOB[..BLOB.len() - 1]).unwrap();
        error_of(
            blue([
                "generate",
                "--tokens",
                "1",
                "--max-new",
                "1",
                "--backend",
                backend,
            ])
            .arg(&path),
            2,
        );
        let mut altered = BLOB.to_vec();
        altered[9] ^= 1;
        std::fs::write(&path, &altered).unwrap();
        error_of(
            blue([
                "generate",
                "--tokens",
                "1",
                "--max-new",
                "1",
                "--backend",
                backend,
            ])
            .arg(&path),
            2,
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_not_read_without_end() {
    for command in [
        vec!["commit", "/dev/zero"],
        vec!["inspect", "/dev/zero"],
        vec!["generate", "/dev/zero", "--tokens", "1", "--max-new", "1"],
    ] {
        assert!(error_of(&mut blue(command), 2).contains("regular file"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_special_file_is_no_blob() {
    for path in ["/dev/null", "/proc/self/mem"] {
        assert_ne!(run(&mut blue(["inspect", path])).status.code(), Some(0));
    }
}

#[test]
fn the_wrong_kind_of_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let zero = format!("0x{}", "00".repeat(32));
    let place = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("config.json"), "{}").unwrap();
    let out = dir.path().join("out.blob");
    for (path, said) in [
        (place("x.gguf", b"GGUF\x03\0\0\0"), "blue export"),
        (
            place("x.safetensors", b"\x02\0\0\0\0\0\0\0{}"),
            "folder that holds config.json",
        ),
        (
            place("pytorch_model.bin", b"PK\x03\x04"),
            "convert to safetensors",
        ),
        (folder, "checkpoint folder"),
    ] {
        for args in [
            &["generate", "--tokens", "1", "--max-new", "1"][..],
            &["inspect"],
            &["commit"],
            &["verify", "--commitment", &zero],
        ] {
            let error = error_of(blue(args).arg(&path), 2);
            assert!(error.contains(said), "{args:?}: {error}");
        }
    }
    let blob = place("m.blob", BLOB);
    let error = error_of(blue(["export"]).arg(&blob).arg("-o").arg(&out), 2);
    assert!(error.contains("already a blob"), "{error}");
}

#[test]
fn a_mismatch_is_told_in_json_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.blob");
    std::fs::write(&path, BLOB).unwrap();
    let zero = format!("0x{}", "00".repeat(32));
    let output = run(blue(["verify", "--json", "--commitment", &zero]).arg(&path));
    assert_eq!(output.status.code(), Some(3));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["verified"], false);
    assert!(told["reason"].as_str().unwrap().contains(&zero), "{told}");
}

#[test]
fn a_cut_blob_is_warned_of_on_standard_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.blob");
    std::fs::write(&path, &BLOB[..BLOB.len() - 1]).unwrap();
    let output = run(blue(["inspect"]).arg(&path));
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("warning: "));
}
