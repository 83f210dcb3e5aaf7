//! The program `kat-verify`: its options and exit codes.
//!
//! An emulated process cannot start another program of its machine, so whoever runs the suite for another machine,
//! which `BLUE_EXPECT_TARGET` tells, runs the program itself instead: `cargo xtask vectors`.

use std::process::{Command, Output};

const SET: &str = "vectors/v1-draft";
/// A backend of another architecture.
const ABSENT: &str = if cfg!(target_arch = "aarch64") {
    "avx2"
} else {
    "neon"
};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kat-verify"));
    command.args(args).output().expect("the program runs")
}

/// Whether this test is emulated, said aloud.
fn emulated() -> bool {
    let emulated = std::env::var_os("BLUE_EXPECT_TARGET").is_some();
    if emulated {
        println!("SKIP: an emulated process starts no other");
    }
    emulated
}

/// Runs on two small files; the exit code and both outputs.
fn verify(args: &[&str]) -> (Option<i32>, String) {
    let output = run(&[&[SET, "--level", "legacy"], args].concat());
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

#[test]
fn the_help_names_every_option_and_exit_code() {
    if emulated() {
        return;
    }
    for flag in ["--help", "-h"] {
        let output = run(&[flag]);
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8_lossy(&output.stdout);
        for word in [
            "--backend",
            "--require",
            "--level",
            "--json",
            "3 something failed",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}

#[test]
fn an_absent_backend_never_looks_like_a_pass() {
    if emulated() {
        return;
    }
    assert_eq!(verify(&["--backend", "scalar"]).0, Some(0));
    assert_eq!(
        verify(&["--backend", &format!("scalar,{ABSENT}")]).0,
        Some(0)
    );
    let (code, text) = verify(&["--backend", ABSENT]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("no backend of this machine"), "{text}");
    let (code, text) = verify(&["--backend", "scalar", "--require", ABSENT]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains(&format!("backend {ABSENT} is absent")),
        "{text}"
    );
}

#[test]
fn a_backend_named_twice_is_verified_once() {
    if emulated() {
        return;
    }
    let (code, text) = verify(&["--backend", "scalar,scalar"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("4 PASS, 0 FAIL, 0 SKIP"), "{text}");
}

#[test]
fn usage_errors_name_the_argument() {
    if emulated() {
        return;
    }
    for (args, word) in [
        (&["--bakend", "scalar"][..], "--bakend"),
        (&["--backend"][..], "--backend needs a list"),
        (&["--backend", "abacus"][..], "abacus"),
        (&["--threads"][..], "--threads needs a number"),
        (&["--threads", "0"][..], "0 threads"),
        (&["--pages", "large"][..], "large pages"),
        (&["elsewhere"][..], "elsewhere"),
    ] {
        let (code, text) = verify(args);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(word), "{word}: {text}");
    }
    let missing = run(&["no/such/folder"]);
    assert_eq!(missing.status.code(), Some(2));
}
