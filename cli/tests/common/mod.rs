//! Running the built program.
#![allow(dead_code, unreachable_pub)]

pub mod mock;
pub mod running;

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

/// The program with `args`, no terminal, no input.
pub fn blue<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blue"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs to the end and asserts what holds for every run: no panic, no backtrace, a documented exit code.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        !stderr.contains("panicked") && !stderr.contains("internal error"),
        "{command:?}: {stderr}"
    );
    assert!(
        matches!(output.status.code(), Some(0..=3)),
        "{command:?}: {}",
        output.status
    );
    output
}

/// Standard output of a run that succeeds.
pub fn text_of(command: &mut Command) -> String {
    let output = run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The one line of JSON that a run prints; standard error stays empty.
pub fn json_of(command: &mut Command) -> serde_json::Value {
    let output = run(command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stderr.is_empty(),
        "{command:?}: {stderr}"
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(text.matches('\n').count(), 1, "one line: {text}");
    serde_json::from_str(&text).expect("JSON")
}

/// Standard error of a run that ends with `code`; it begins with `error:` and standard output is empty.
pub fn error_of(command: &mut Command, code: i32) -> String {
    let output = run(command);
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(code), "{command:?}: {stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
    assert!(output.stdout.is_empty(), "{command:?} printed a result");
    stderr
}
