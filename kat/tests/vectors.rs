//! The current set: made as it lies, right on every target, sensitive to every change.

use std::path::{Path, PathBuf};

use kat::target::Target;
use kat::verify::{Outcome, Verdict};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn set() -> PathBuf {
    root().join(kat::set::CURRENT)
}

#[test]
fn the_files_are_the_generated_ones() {
    let differences = kat::generate::differences(&root(), &set()).unwrap();
    assert!(
        differences.is_empty(),
        "{differences:?}\nrun: cargo run --release -p blue-cli -- kat gen"
    );
}

#[test]
fn every_file_passes_on_every_target_of_this_machine() {
    let outcomes = kat::verify::run(&set(), &root(), &Target::all()).unwrap();
    let failed: Vec<&Outcome> = outcomes
        .iter()
        .filter(|o| o.result == Verdict::Fail)
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    for target in ["index", "reference", "scalar"] {
        let passed = outcomes
            .iter()
            .filter(|o| o.target == target && o.result == Verdict::Pass);
        assert!(passed.count() > 30, "{target}");
    }
}
