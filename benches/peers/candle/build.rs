//! Hands the compiler's version to the program.

use std::process::Command;

fn main() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    let version = version.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string());
    println!(
        "cargo::rustc-env=PEER_RUSTC={}",
        version.unwrap_or_default()
    );
    println!("cargo::rerun-if-changed=build.rs");
}
