//! Where the test models are.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::path::{Path, PathBuf};

pub const FOLDERS: [&str; 4] = [
    "golden/a_qwen3_tied_bf16",
    "golden/b_qwen3_untied_f32_sharded",
    "golden/c_llama_untied_f16",
    "tiny-austen",
];

pub fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../models")
        .join(name)
}

/// A writable copy of a test model's checkpoint files.
pub fn copy_of(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(model(name)).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap();
        if file
            .to_str()
            .is_some_and(|n| n.starts_with("model") || n.starts_with("config"))
        {
            std::fs::copy(&path, dir.path().join(file)).unwrap();
        }
    }
    dir
}
