//! What kind of file a path names, so that a wrong one is refused by name.

use std::io::Read;
use std::path::Path;

use crate::failure::{Failure, Outcome};
use crate::files;

/// Kinds told apart by their first bytes; folders by what they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A folder with config.json.
    Folder,
    /// A folder whose only weights are pytorch_model.bin.
    PytorchFolder,
    /// A folder without config.json.
    OtherFolder,
    /// A file with GGUF's magic number.
    Gguf,
    /// A file that begins with `BLUEBLOB`.
    Blob,
    /// A file of tensors without the configuration that belongs to it.
    Safetensors,
    /// A pickled checkpoint.
    Pytorch,
    /// Anything else.
    Other,
}

/// The kind of an existing path.
pub(crate) fn sniff(path: &Path) -> Outcome<Kind> {
    if path.is_dir() {
        let has = |name: &str| path.join(name).exists();
        return Ok(if !has("config.json") {
            Kind::OtherFolder
        } else if has("pytorch_model.bin")
            && !has("model.safetensors")
            && !has("model.safetensors.index.json")
        {
            Kind::PytorchFolder
        } else {
            Kind::Folder
        });
    }
    let mut head = Vec::new();
    let (file, len) = files::open(path)?;
    file.take(16)
        .read_to_end(&mut head)
        .map_err(|e| Failure::file(path, e))?;
    let pickled = head.starts_with(b"PK\x03\x04") || head.starts_with(&[0x80, 2]);
    let named = path
        .extension()
        .is_some_and(|e| e == "bin" || e == "pt" || e == "pth");
    let json_len = head
        .first_chunk()
        .map_or(u64::MAX, |len| u64::from_le_bytes(*len));
    Ok(if head.starts_with(b"BLUEBLOB") {
        Kind::Blob
    } else if head.starts_with(b"GGUF") {
        Kind::Gguf
    } else if head.get(8) == Some(&b'{') && json_len < len {
        Kind::Safetensors
    } else if pickled && named {
        Kind::Pytorch
    } else {
        Kind::Other
    })
}

/// Refuses what is known to be no blob; any [`Kind::Other`] is left to the loader, which names the defect.
pub(crate) fn expect_blob(path: &Path) -> Outcome {
    let shown = path.display();
    let (what, hint) = match sniff(path)? {
        Kind::Blob | Kind::Other => return Ok(()),
        Kind::Gguf => (
            "is a GGUF checkpoint, not a blob",
            "`blue export` makes a blob of it",
        ),
        Kind::Folder => (
            "is a checkpoint folder, not a blob",
            "`blue export` makes a blob of it",
        ),
        Kind::OtherFolder => (
            "is a folder, not a blob",
            "name a file that `blue export` wrote",
        ),
        Kind::Safetensors => (
            "is a safetensors file, not a blob",
            "`blue export` makes a blob of a checkpoint: name the folder that holds config.json",
        ),
        Kind::Pytorch | Kind::PytorchFolder => (
            "is a pickled checkpoint, not a blob",
            "pytorch_model.bin is not supported; convert to safetensors, then `blue export`",
        ),
    };
    Err(Failure::input(format!("{shown} {what}")).hint(hint))
}

/// Refuses what is known to be no checkpoint; the rest is left to the reader, which names the defect.
pub(crate) fn expect_checkpoint(path: &Path) -> Outcome {
    let shown = path.display();
    let (what, hint) = match sniff(path)? {
        Kind::Folder | Kind::OtherFolder | Kind::Other => return Ok(()),
        Kind::Gguf
            if path
                .extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("gguf")) =>
        {
            return Ok(());
        }
        Kind::Gguf => (
            "is a GGUF checkpoint of another name",
            "give its name the extension .gguf",
        ),
        Kind::Blob => (
            "is already a blob",
            "a checkpoint is needed here: a folder with config.json, or a .gguf file",
        ),
        Kind::Safetensors => (
            "holds tensors without their configuration",
            "name the folder that holds config.json",
        ),
        Kind::Pytorch | Kind::PytorchFolder => (
            "is a pickled checkpoint",
            "pytorch_model.bin is not supported; convert to safetensors",
        ),
    };
    Err(Failure::input(format!("{shown} {what}")).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.bin");
        for (bytes, kind) in [
            (&b"BLUEBLOB"[..], Kind::Blob),
            (b"BLUEBLO", Kind::Other),
            (b"", Kind::Other),
            (b"GGUF\x03\0\0\0", Kind::Gguf),
            (b"\x02\0\0\0\0\0\0\0{}", Kind::Safetensors),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff{}", Kind::Other),
            (b"PK\x03\x04", Kind::Pytorch),
            (b"\x80\x02", Kind::Pytorch),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(sniff(&path).unwrap(), kind, "{bytes:?}");
        }
        assert_eq!(sniff(dir.path()).unwrap(), Kind::OtherFolder);
        std::fs::write(dir.path().join("config.json"), "{}").unwrap();
        assert_eq!(sniff(dir.path()).unwrap(), Kind::Folder);
        std::fs::write(dir.path().join("pytorch_model.bin"), "").unwrap();
        assert_eq!(sniff(dir.path()).unwrap(), Kind::PytorchFolder);
        assert!(sniff(&dir.path().join("absent")).is_err());
    }
}
