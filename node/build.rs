//! Puts the known answers into the library, so that a node verifies its machine wherever it runs.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let here = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let root = Path::new(&here).join("..");
    let mut found = vec![root.join("models/default/blue-tiny.blob")];
    files(&root.join("kat/vectors/v1-draft"), &mut found)?;
    found.sort();
    let mut list = String::from("&[\n");
    for path in found {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path.strip_prefix(&root).map_err(io::Error::other)?;
        let name: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
        let entry = writeln!(list, "({:?}, include_bytes!({path:?})),", name.join("/"));
        entry.map_err(io::Error::other)?;
    }
    list.push(']');
    println!(
        "cargo::rerun-if-changed={}",
        root.join("kat/vectors/v1-draft").display()
    );
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("answers.rs"), list)
}
