//! Output files: written beside their final name, synced, renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

use crate::failure::{Code, Context, Failure, Outcome};
use crate::progress::Progress;

/// The folder that holds `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Largest file that is read whole: texts, tokenizers, templates.
const MAX_WHOLE: u64 = 1 << 30;

/// Opens a regular file; a device could be read without end.
pub(crate) fn open(path: &Path) -> Outcome<(File, u64)> {
    // Before the file is opened: opening a pipe waits for its other end.
    let facts = fs::metadata(path).map_err(|e| Failure::file(path, e))?;
    if !facts.is_file() {
        return Err(Failure::input(format!(
            "cannot read {}: it is not a regular file",
            path.display()
        )));
    }
    let file = File::open(path).map_err(|e| Failure::file(path, e))?;
    Ok((file, facts.len()))
}

/// Bytes handed on at a time.
const PIECE: usize = 1 << 20;

/// Calls `take` with each piece of the file in order.
pub(crate) fn pieces(
    path: &Path,
    label: &str,
    progress: Progress,
    mut take: impl FnMut(&[u8]) -> Outcome,
) -> Outcome {
    let (mut file, len) = open(path)?;
    let mut bar = progress.bytes(label, len);
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => {
                take(&piece[..n])?;
                bar.inc(n as u64);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Failure::file(path, e)),
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Reads a regular file whole.
pub(crate) fn read(path: &Path) -> Outcome<Vec<u8>> {
    let (file, len) = open(path)?;
    let mut bytes = Vec::new();
    // One byte more shows a file that grows, or one whose length is not known.
    file.take(MAX_WHOLE + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Failure::file(path, e))?;
    if bytes.len() as u64 > MAX_WHOLE {
        return Err(Failure::input(format!(
            "{} has {len} bytes, at most {MAX_WHOLE} are read",
            path.display()
        )));
    }
    Ok(bytes)
}

/// Reads a text file whole.
pub(crate) fn read_text(path: &Path) -> Outcome<String> {
    String::from_utf8(read(path)?).or_input(format!("{} is not UTF-8 text", path.display()))
}

/// Refuses a path that names anything but a regular file or nothing.
pub(crate) fn replaceable(path: &Path) -> Outcome {
    match fs::metadata(path) {
        Ok(facts) if !facts.is_file() => Err(Failure::input(format!(
            "{} exists and is not a regular file: it is not replaced",
            path.display()
        ))
        .hint("name another output")),
        _ => Ok(()),
    }
}

/// Writes `path` whole or not at all: readers see the old file or the new one, never a part.
///
/// A device, pipe or folder of that name is not replaced.
pub(crate) fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Outcome {
    replaceable(path)?;
    let attempt = || -> io::Result<()> {
        let temporary = beside(path)?;
        let mut out = BufWriter::with_capacity(1 << 20, temporary.as_file());
        fill(&mut out)?;
        out.flush()?;
        drop(out);
        temporary.as_file().sync_all()?;
        temporary.persist(path).map_err(|e| e.error)?;
        sync_folder(folder_of(path))
    };
    attempt().map_err(|e| {
        let failure = Failure::new(
            Code::Runtime,
            anyhow::Error::new(e).context(format!("cannot write {}", path.display())),
        );
        if folder_of(path).is_dir() {
            failure
        } else {
            failure.hint(format!(
                "the folder {} does not exist",
                folder_of(path).display()
            ))
        }
    })
}

fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    builder.prefix(".blue-").suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Before the umask; the default of 0600 suits private files only.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder_of(path))
}

/// Removes a file and says whether there was one.
pub(crate) fn remove(path: &Path) -> Outcome<bool> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Failure::new(
            Code::Runtime,
            anyhow::Error::new(e).context(format!("cannot remove {}", path.display())),
        )),
        removed => Ok(removed.is_ok()),
    }
}

/// Makes a rename in `folder` durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write(&path, |out| out.write_all(b"old")).unwrap();
        assert!(
            write(&path, |out| {
                out.write_all(b"new")?;
                Err(io::Error::other("stop"))
            })
            .is_err()
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
