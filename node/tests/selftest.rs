//! The known answers inside the library, on every backend of this machine.

use blue_node::selftest::{self, SelfTestError};
use int_engine::kernels::Kernels;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

#[test]
fn every_backend_passes_and_the_answers_are_those_on_disk() {
    let set = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kat/vectors/v1-draft");
    let mut some = 0;
    for (name, kernels) in Kernels::all() {
        if kernels.is_none() {
            assert!(matches!(
                selftest::run(name, NonZeroUsize::MIN),
                Err(SelfTestError::Absent(absent)) if absent == name
            ));
            continue;
        }
        if name == "scalar" || kernels.is_some_and(|k| std::ptr::eq(k, Kernels::detect())) {
            let two = NonZeroUsize::new(2).unwrap();
            let inside = selftest::run(name, two).unwrap();
            assert_eq!(inside, selftest::verify(&set, name, two).unwrap());
            assert!(inside.files > 60 && inside.cases > 3000, "{inside:?}");
            some += 1;
        }
    }
    assert!(some > 0);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

#[test]
fn a_difference_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let set = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kat/vectors/v1-draft");
    copy(&set, folder.path());
    let path = folder.path().join("toy.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let altered = text.replacen("[1,", "[2,", 1);
    assert_ne!(text, altered);
    std::fs::write(&path, altered).unwrap();
    let error = selftest::verify(folder.path(), "scalar", NonZeroUsize::MIN).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("toy.json") && said.contains("vote"), "{said}");
}
