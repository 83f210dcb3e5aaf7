//! What holds for every subcommand: help with an example, exit code 2 for usage errors, a quiet end when nobody reads.

mod common;

use std::process::Stdio;

use common::{blue, error_of, run, text_of};

const COMMANDS: [&[&str]; 33] = [
    &["ask"],
    &["call"],
    &["blob"],
    &["blob", "serve"],
    &["blob", "fetch"],
    &["blob", "import"],
    &["blob", "list"],
    &["blob", "scrub"],
    &["blob", "remove"],
    &["bench"],
    &["chain"],
    &["chain", "genesis"],
    &["chain", "name"],
    &["chain", "propose"],
    &["chain", "gas"],
    &["chain", "call"],
    &["chain", "bench"],
    &["kat"],
    &["kat", "trace"],
    &["kat", "bisect"],
    &["demo"],
    &["model", "list"],
    &["model", "fetch"],
    &["export"],
    &["inspect"],
    &["commit"],
    &["verify"],
    &["verify-answer"],
    &["generate"],
    &["chat"],
    &["eval"],
    &["logits"],
    &["model"],
];

#[test]
fn every_command_has_help_with_an_example() {
    for command in COMMANDS {
        let help = text_of(blue(command).arg("--help"));
        assert!(help.contains("Usage: blue"), "{command:?}: {help}");
        let example = format!("blue {}", command.join(" "));
        let after = help
            .split_once("Example")
            .map(|(_, after)| after)
            .unwrap_or_default();
        assert!(
            after.contains(&example),
            "{command:?} lacks an example: {help}"
        );
    }
    assert!(text_of(&mut blue(["--help"])).contains("Exit codes"));
}

#[test]
fn the_version_names_the_specification() {
    assert_eq!(
        text_of(&mut blue(["--version"])),
        format!("blue {} (spec 1)\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn usage_errors_end_with_code_2() {
    for args in [
        vec!["nonsense"],
        vec!["commit"],
        vec!["generate", "--max-new", "-1", "--tokens", "1"],
        vec!["generate", "--max-new", "4"],
        vec![
            "generate",
            "--max-new",
            "4",
            "--tokens",
            "1",
            "--prompt",
            "both",
        ],
        vec![
            "generate",
            "--max-new",
            "4",
            "--tokens",
            "1",
            "--threads",
            "0",
        ],
        vec![
            "generate",
            "--max-new",
            "4",
            "--tokens",
            "1",
            "--backend",
            "gpu",
        ],
        vec![
            "generate",
            "--max-new",
            "4",
            "--tokens",
            "1",
            "--threads",
            "100000",
        ],
        vec!["verify", "x.blob"],
        vec!["verify", "x.blob", "--commitment", "0x12"],
        vec![
            "eval",
            "x.blob",
            "--against",
            "y",
            "--text",
            "z",
            "--window",
            "1",
        ],
        vec!["export", "folder"],
    ] {
        error_of(&mut blue(args), 2);
    }
    let none = run(&mut blue::<&str>([]));
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn a_closed_standard_output_ends_quietly() {
    for args in [
        vec!["model", "list"],
        vec!["generate", "--tokens", "1,2,3", "--max-new", "8"],
        vec!["generate", "--tokens", "1,2,3", "--max-new", "8", "--json"],
    ] {
        let mut child = blue(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(
            output.stderr.is_empty(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
