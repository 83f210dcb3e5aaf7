//! Checkpoints in safetensors: the header's reader against the format's own crate, and whole folders.
//!
//! The first byte chooses: even takes the rest as a file; odd takes it as a `config.json` of a declared length and a
//! file after it, opened as a checkpoint.
#![no_main]

/// The reader under test is private to its crate; it is compiled here with the parts of its parent that it uses.
#[path = "."]
mod source {
    pub(crate) use float_engine::source::SourceError;

    fn unsupported_dtype(tensor: &str, found: &str) -> SourceError {
        SourceError::Dtype {
            tensor: tensor.into(),
            found: found.into(),
            supported: "",
        }
    }

    #[allow(dead_code, reason = "the checkpoint's reader uses these parts")]
    #[path = "../../float-engine/src/source/header.rs"]
    mod header;

    /// Names, shapes and byte ranges of the tensors of a file that is accepted.
    pub(crate) fn parse(
        bytes: &[u8],
    ) -> Result<Vec<(String, Vec<usize>, std::ops::Range<usize>)>, SourceError> {
        let entries = header::parse("fuzz", bytes)?;
        Ok(entries
            .into_iter()
            .map(|e| (e.name, e.shape, e.range))
            .collect())
    }
}

use float_engine::source::{Checkpoint, Role};
use libfuzzer_sys::fuzz_target;
use safetensors::SafeTensors;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::fs;
use tempfile::TempDir;

/// What our reader accepts, the crate accepts with the same meaning.
fn header(bytes: &[u8]) {
    let Ok(entries) = source::parse(bytes) else {
        return;
    };
    let mut names = HashSet::new();
    if !entries.iter().all(|(name, ..)| names.insert(name)) {
        // A repeated name is refused where the file's tensors are gathered.
        return;
    }
    let file = match SafeTensors::deserialize(bytes) {
        Ok(file) => file,
        Err(e) => panic!("only this reader accepts; the crate: {e}"),
    };
    assert_eq!(file.len(), entries.len());
    let base = bytes.as_ptr() as usize;
    for (name, shape, range) in &entries {
        let view = file.tensor(name).expect("a tensor of both");
        assert_eq!(view.shape(), shape);
        assert_eq!(view.data(), &bytes[range.clone()]);
        if !range.is_empty() {
            assert_eq!(view.data().as_ptr() as usize - base, range.start);
        }
    }
}

thread_local! {
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

/// A folder of configuration and weights: a checkpoint or an error, and every tensor of a checkpoint finite.
fn checkpoint(config: &[u8], weights: &[u8]) {
    FOLDER.with(|folder| {
        let in_memory = std::path::Path::new("/dev/shm");
        let folder = folder.get_or_init(|| {
            if in_memory.is_dir() {
                tempfile::tempdir_in(in_memory)
            } else {
                tempfile::tempdir()
            }
            .expect("a folder")
        });
        fs::write(folder.path().join("config.json"), config).expect("written");
        fs::write(folder.path().join("model.safetensors"), weights).expect("written");
        let Ok(checkpoint) = Checkpoint::open(folder.path()) else {
            return;
        };
        for role in Role::all(checkpoint.config()) {
            if let Ok(values) = checkpoint.tensor(role) {
                assert!(
                    values
                        .iter()
                        .all(|x| x.is_finite() && x.to_bits() != 1 << 31)
                );
            }
        }
        let _ = checkpoint.fingerprint();
    });
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, rest)) = input.split_first() else {
        return;
    };
    if kind % 2 == 0 {
        return header(rest);
    }
    let Some((length, rest)) = rest.split_first_chunk::<2>() else {
        return;
    };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (config, weights) = rest.split_at(length);
    header(weights);
    checkpoint(config, weights);
});
