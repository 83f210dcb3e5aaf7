//! Rules of the repository that a compiler does not check.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|n| n != "target") {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn sources(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    rust_files(&root().join(folder), &mut found);
    assert!(!found.is_empty(), "no Rust files in {folder}");
    found.sort();
    found
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

/// The number of hashes of a raw string literal that starts here.
fn raw_string(b: &[u8]) -> Option<usize> {
    let rest = b.strip_prefix(b"r")?;
    let hashes = rest.iter().take_while(|c| **c == b'#').count();
    (rest.get(hashes) == Some(&b'"')).then_some(hashes)
}

/// The code of a Rust file with comments, strings and character literals blanked.
fn code_only(text: &str) -> String {
    let b = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < b.len() {
        if b[i..].starts_with(b"//") {
            while i < b.len() && b[i] != b'\n' {
                i += 1;
            }
        } else if b[i..].starts_with(b"/*") {
            let mut depth = 0;
            while i < b.len() {
                if b[i..].starts_with(b"/*") {
                    depth += 1;
                    i += 2;
                } else if b[i..].starts_with(b"*/") {
                    depth -= 1;
                    i += 2;
                    if depth == 0 {
                        break;
                    }
                } else {
                    i += 1;
                }
            }
        } else if let Some(hashes) =
            raw_string(&b[i..]).filter(|_| i == 0 || b[i - 1] == b'b' || !is_word(b[i - 1]))
        {
            let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
            i += 2 + hashes;
            while i < b.len() && !b[i..].starts_with(&end) {
                i += 1;
            }
            i += end.len();
            out.push_str("\"\"");
        } else if b[i] == b'"' {
            i += 1;
            while i < b.len() && b[i] != b'"' {
                i += if b[i] == b'\\' { 2 } else { 1 };
            }
            i += 1;
            out.push_str("\"\"");
        } else if b[i] == b'\'' && b.get(i + 1) == Some(&b'\\') {
            i += 3;
            while i < b.len() && b[i] != b'\'' {
                i += 1;
            }
            i += 1;
        } else if b[i] == b'\'' && b.get(i + 2) == Some(&b'\'') {
            i += 3;
        } else {
            out.push(char::from(b[i]));
            i += 1;
        }
    }
    out
}

/// The float tokens of one file: type names, literals with a point or exponent, and constants of std::f32/f64.
fn float_tokens(text: &str) -> Vec<String> {
    let code = code_only(text);
    let b = code.as_bytes();
    let mut found = Vec::new();
    let mut i = 0;
    while i < b.len() {
        if b[i].is_ascii_alphabetic() || b[i] == b'_' {
            let start = i;
            while i < b.len() && (b[i].is_ascii_alphanumeric() || b[i] == b'_') {
                i += 1;
            }
            let word = &code[start..i];
            let intrinsic = word.starts_with("_mm")
                && (word.ends_with("_ps")
                    || word.ends_with("_pd")
                    || word.ends_with("_ss")
                    || word.ends_with("_sd"));
            let vector = [
                "__m128", "__m256", "__m512", "__m128d", "__m256d", "__m512d",
            ]
            .contains(&word);
            // NEON: `vaddq_f32`, `float32x4_t`.
            let neon = (word.starts_with("float") && word.ends_with("_t"))
                || (word.starts_with('v')
                    && ["_f16", "_f32", "_f64"].iter().any(|t| word.contains(t)));
            if ["f16", "f32", "f64", "f128", "bf16"].contains(&word) || intrinsic || vector || neon
            {
                found.push(word.to_string());
            }
        } else if b[i].is_ascii_digit() {
            let start = i;
            let hex = b[i] == b'0' && b.get(i + 1).is_some_and(|c| b"xXbBoO".contains(c));
            while i < b.len() && (b[i].is_ascii_alphanumeric() || b[i] == b'_') {
                i += 1;
            }
            let mut float = !hex && {
                let word = &code[start..i];
                word.contains("f32") || word.contains("f64") || {
                    let digits = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
                    digits.ends_with(['e', 'E'])
                        && digits[..digits.len() - 1]
                            .bytes()
                            .all(|c| c.is_ascii_digit() || c == b'_')
                }
            };
            let field = start > 0 && b[start - 1] == b'.';
            if !hex && !field && b.get(i) == Some(&b'.') && b.get(i + 1) != Some(&b'.') {
                let next = b.get(i + 1).copied().unwrap_or(b' ');
                if !(next.is_ascii_alphabetic() || next == b'_') {
                    float = true;
                }
            }
            if float {
                found.push(code[start..(i + 2).min(code.len())].to_string());
            }
        } else {
            i += 1;
        }
    }
    found
}

#[test]
fn the_scanner_sees_floats() {
    for bad in [
        "let x: f32 = y;",
        "let x = 1.5;",
        "let x = 2.;",
        "let x = 1e9;",
        "let x = 3f64;",
        "x as f64",
        "_mm256_add_ps(a, b)",
        "r#\"a \" b\"#; 1.5",
        "r\"\\\"; 1.5",
        "a: __m256",
        "vaddq_f32(a, b)",
        "vcvtq_f32_s32(a)",
        "a: float32x4_t",
    ] {
        assert!(!float_tokens(bad).is_empty(), "{bad}");
    }
    for good in [
        "// 1.5",
        "/* f32 */ 1",
        "\"f64 2.0\"",
        "for i in 0..5",
        "t.0.1",
        "0x1e9",
        "1_000u64.pow(2)",
        "x.1 + 2",
        "'.'",
        "r#\"a \" 1.5\"#",
        "e1",
        "_mm256_add_epi32(a, b)",
        "__m256i",
        "vaddq_s32(a, b)",
        "a: int32x4_t",
    ] {
        assert!(
            float_tokens(good).is_empty(),
            "{good}: {:?}",
            float_tokens(good)
        );
    }
}

#[test]
fn no_float_in_the_consensus_crates() {
    for folder in [
        "int-engine/src",
        "int-engine/reference/src",
        "precompile/src",
        "precompile/adapters",
    ] {
        for path in sources(folder) {
            let found = float_tokens(&fs::read_to_string(&path).unwrap());
            assert!(
                found.is_empty(),
                "{}: float tokens {found:?}",
                path.display()
            );
        }
    }
    for lib in [
        "int-engine/src/lib.rs",
        "int-engine/reference/src/lib.rs",
        "precompile/src/lib.rs",
    ] {
        let text = fs::read_to_string(root().join(lib)).unwrap();
        assert!(
            text.contains("clippy::float_arithmetic"),
            "{lib} must contain #![deny(clippy::float_arithmetic)]"
        );
    }
}

#[test]
fn unsafe_stays_in_kernels_and_pools() {
    let allowed = [
        "int-engine/src/kernels/",
        "int-engine/src/pool",
        "int-engine/src/buffer.rs",
        "int-engine/src/fill.rs",
        "int-engine/src/keccak.rs",
        "float-engine/src/forward/",
        "float-engine/src/source/gguf.rs",
        "exporter/src/linalg",
        "xtask/src/child.rs",
        "benches/src/limits/",
        "int-engine/tests/blob_manifest.rs",
        "quant-core/tests/bounded.rs",
    ];
    for folder in [
        "int-engine",
        "quant-core",
        "float-engine",
        "exporter",
        "cli",
        "tests",
        "xtask",
        "benches",
        "fuzz",
        "precompile",
        "node",
        "devnet",
    ] {
        for path in sources(folder) {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            let code = code_only(&fs::read_to_string(&path).unwrap());
            let uses = code
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|w| w == "unsafe");
            assert!(
                !uses || allowed.iter().any(|a| name.starts_with(a)),
                "{name}: unsafe outside {allowed:?}"
            );
        }
    }
}

#[test]
fn files_hold_one_idea() {
    for folder in [
        "int-engine",
        "quant-core",
        "float-engine",
        "exporter",
        "cli",
        "tests",
        "xtask",
        "benches",
        "fuzz",
        "precompile",
        "kat",
    ] {
        for path in sources(folder) {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            let one_file_crate = path.ends_with("int-engine/reference/src/lib.rs");
            assert!(
                one_file_crate || lines <= 600,
                "{}: {lines} lines",
                path.display()
            );
        }
    }
}

/// Names of the normal dependencies that each workspace package reaches, itself excluded.
fn reachable() -> (
    BTreeMap<String, BTreeSet<String>>,
    BTreeMap<String, BTreeSet<String>>,
) {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let host = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into()))
        .arg("-vV")
        .output()
        .unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    let host = host
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("rustc names its host");
    // A build fetched what the host needs and no more.
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--filter-platform",
            host,
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name_of: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["id"].as_str().unwrap(), p["name"].as_str().unwrap()))
        .collect();
    let mut direct: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        let normal = node["deps"].as_array().unwrap().iter().filter(|d| {
            d["dep_kinds"]
                .as_array()
                .unwrap()
                .iter()
                .any(|k| k["kind"].is_null())
        });
        direct.insert(
            node["id"].as_str().unwrap(),
            normal.map(|d| d["pkg"].as_str().unwrap()).collect(),
        );
    }
    let mut first = BTreeMap::new();
    let mut all = BTreeMap::new();
    for member in metadata["workspace_members"].as_array().unwrap() {
        let id = member.as_str().unwrap();
        let mut seen = BTreeSet::new();
        let mut stack = direct[id].clone();
        while let Some(next) = stack.pop() {
            if seen.insert(next) {
                stack.extend(&direct[next]);
            }
        }
        let names = |ids: &mut dyn Iterator<Item = &&str>| {
            ids.map(|i| name_of[*i].to_string())
                .collect::<BTreeSet<_>>()
        };
        first.insert(name_of[id].to_string(), names(&mut direct[id].iter()));
        all.insert(name_of[id].to_string(), names(&mut seen.iter()));
    }
    (first, all)
}

#[test]
fn dependencies_point_one_way() {
    let (direct, all) = reachable();
    assert!(
        direct["int-reference"].is_empty(),
        "int-reference depends on {:?}",
        direct["int-reference"]
    );
    let mut allowed: BTreeSet<String> = ["borsh", "sha3", "thiserror"].map(String::from).into();
    if cfg!(target_os = "linux") {
        allowed.insert("libc".into());
    }
    assert_eq!(direct["int-engine"], allowed);
    assert!(
        direct["exporter"].contains("int-engine") && direct["exporter"].contains("float-engine")
    );
    for (package, forbidden) in [
        (
            "int-engine",
            &[
                "exporter",
                "quant-core",
                "float-engine",
                "int-reference",
                "blue-cli",
            ][..],
        ),
        ("quant-core", &["int-engine", "exporter", "float-engine"]),
        ("float-engine", &["int-engine", "exporter"]),
        ("exporter", &["int-reference", "blue-cli"]),
        // The rules of the precompiles know no EVM and no float side.
        (
            "precompile",
            &[
                "revm",
                "alloy-evm",
                "alloy-primitives",
                "exporter",
                "float-engine",
                "quant-core",
                "int-reference",
            ],
        ),
        // A node brings its own EVM; the development chain takes models from whoever has them.
        (
            "blue-node",
            &[
                "revm",
                "alloy-evm",
                "alloy-primitives",
                "exporter",
                "float-engine",
                "blue-devnet",
                "blue-cli",
            ],
        ),
        (
            "blue-devnet",
            &["blue-node", "exporter", "float-engine", "blue-cli"],
        ),
    ] {
        for name in forbidden {
            assert!(!all[package].contains(*name), "{package} reaches {name}");
        }
    }
}

fn markdown_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let ours = name != "target" && name != "node_modules" && !name.starts_with('.');
        if path.is_dir() && ours {
            markdown_files(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

#[test]
fn links_in_pages_resolve_and_nothing_is_left_to_fill_in() {
    let mut pages = Vec::new();
    markdown_files(&root(), &mut pages);
    assert!(pages.len() > 10);
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for part in text.split("](").skip(1) {
            let target = part.split(')').next().unwrap().split('#').next().unwrap();
            if !target.is_empty() && !target.contains("://") {
                let path = page.parent().unwrap().join(target);
                assert!(path.exists(), "{}: no {target}", page.display());
            }
        }
        for word in text.split_whitespace() {
            let inner = word
                .trim_matches('`')
                .strip_prefix('@')
                .and_then(|w| w.strip_suffix('@'));
            assert!(inner.is_none(), "{}: {word}", page.display());
            assert!(
                !["TODO", "FIXME", "XXX"].contains(&word),
                "{}: {word}",
                page.display()
            );
        }
    }
}
