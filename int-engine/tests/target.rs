//! The tests run on the target that was asked for.
//!
//! Whoever runs the suite for another machine sets `BLUE_EXPECT_TARGET` to the architecture and the byte order, such
//! as `aarch64 little` or `s390x big`. A build for this machine, or a run by its own processor, then fails instead of
//! repeating the native result under another name.

use std::env::{self, consts::ARCH};

/// The byte order, seen in memory rather than in the compiler's configuration.
fn order_in_memory() -> &'static str {
    match std::hint::black_box(0x0102_0304_u32).to_ne_bytes() {
        [1, 2, 3, 4] => "big",
        [4, 3, 2, 1] => "little",
        other => panic!("a word lies in memory as {other:?}"),
    }
}

#[test]
fn the_target_is_the_one_asked_for() {
    let compiled = if cfg!(target_endian = "big") {
        "big"
    } else {
        "little"
    };
    let memory = order_in_memory();
    assert_eq!(compiled, memory, "compiled for {compiled}-endian");
    let here = format!("{ARCH} {memory}");
    match env::var("BLUE_EXPECT_TARGET") {
        Ok(expected) => assert_eq!(here, expected, "this is not the machine asked for"),
        Err(env::VarError::NotPresent) => println!("native: {here}"),
        Err(error) => panic!("BLUE_EXPECT_TARGET: {error}"),
    }
}

#[test]
fn the_architecture_is_the_compilers() {
    for (built, name) in [
        (cfg!(target_arch = "x86_64"), "x86_64"),
        (cfg!(target_arch = "aarch64"), "aarch64"),
        (cfg!(target_arch = "s390x"), "s390x"),
    ] {
        assert_eq!(built, ARCH == name, "{ARCH}");
    }
}

#[test]
fn the_backends_are_those_of_the_architecture() {
    use int_engine::kernels::Kernels;
    for (name, kernels) in Kernels::all() {
        match name {
            "scalar" => assert!(kernels.is_some()),
            "avx2" | "avxvnni" | "avx512" | "amx" => assert!(kernels.is_none() || ARCH == "x86_64"),
            // Part of the base of every arm64 machine.
            "neon" => assert_eq!(kernels.is_some(), ARCH == "aarch64"),
            other => panic!("backend {other} belongs to no architecture"),
        }
    }
}
