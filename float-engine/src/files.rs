//! Files of a checkpoint: regular ones only, and of a bounded size where they are read whole.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Most bytes of a configuration, an index or a template's file: 16 MiB.
pub(crate) const MAX_CONFIG: u64 = 16 << 20;
/// Most bytes of a `tokenizer.json`: 256 MiB.
pub(crate) const MAX_TOKENIZER: u64 = 256 << 20;

/// Opens a regular file for reading, or a link to one.
///
/// The kind is checked before opening, which would wait for the other end of a pipe.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for a device, a pipe, a socket or a folder; what the system says.
pub(crate) fn open_regular(path: &Path) -> Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "not a regular file; a device, pipe or folder cannot be read as one",
        ));
    }
    File::open(path)
}

/// The bytes of a regular file of at most `max` bytes.
///
/// # Errors
/// [`ErrorKind::FileTooLarge`] for a longer one; those of [`open_regular`].
pub(crate) fn read_capped(path: &Path, max: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(Error::new(
            ErrorKind::FileTooLarge,
            format!("longer than the {max} bytes that are read of such a file"),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_around_the_cap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for (size, ok) in [(0, true), (7, true), (8, true), (9, false)] {
            std::fs::write(&path, vec![1; size]).unwrap();
            match read_capped(&path, 8) {
                Ok(bytes) => assert!(ok && bytes.len() == size),
                Err(e) => assert!(!ok && e.kind() == ErrorKind::FileTooLarge),
            }
        }
    }

    #[test]
    fn only_regular_files() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |p: &Path| open_regular(p).unwrap_err().kind();
        assert_eq!(refused(dir.path()), ErrorKind::InvalidInput);
        assert_eq!(refused(&dir.path().join("none")), ErrorKind::NotFound);
        #[cfg(unix)]
        assert_eq!(refused(Path::new("/dev/zero")), ErrorKind::InvalidInput);
    }
}
