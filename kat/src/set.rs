//! Sets of files on disk: finding, reading, writing.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::file::MAX_BYTES;

/// Where the current set lies below the repository's root.
pub const CURRENT: &str = "kat/vectors/v1-draft";

/// What is wrong with a folder or a file on disk.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is longer than is read.
    #[error("{}: more than {max} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Most bytes.
        max: u64,
    },
    /// A link leads out of the folder.
    #[error("{}: outside of {}", path.display(), folder.display())]
    Outside {
        /// The file.
        path: PathBuf,
        /// The folder that it must be below.
        folder: PathBuf,
    },
    /// The current set is not below this folder or one above it.
    #[error("no {CURRENT} here or in a folder above {}", from.display())]
    NotFound {
        /// Where the search began.
        from: PathBuf,
    },
    /// The folder is that of a released set.
    #[error("{}: the name of a set that may be written ends in -draft; others are released and never change", path.display())]
    Released {
        /// The folder.
        path: PathBuf,
    },
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> SetError + '_ {
    |source| SetError::Io {
        path: path.into(),
        source,
    }
}

/// The folder of the current set, in `from` or the nearest folder above it that has one.
///
/// # Errors
/// [`SetError::NotFound`].
pub fn find(from: &Path) -> Result<PathBuf, SetError> {
    let found = from
        .ancestors()
        .map(|folder| folder.join(CURRENT))
        .find(|set| set.join("index.json").is_file());
    found.ok_or_else(|| SetError::NotFound { from: from.into() })
}

/// The nearest folder that is `from` or above it and has the folders `models` and `spec`.
#[must_use]
pub fn root_above(from: &Path) -> Option<PathBuf> {
    let absolute = fs::canonicalize(from).ok()?;
    let root = absolute
        .ancestors()
        .find(|f| f.join("models").is_dir() && f.join("spec").is_dir());
    root.map(Path::to_path_buf)
}

/// The repository's root for a set: above the set, else above the current folder, else the set itself.
#[must_use]
pub fn root_of(set: &Path) -> PathBuf {
    root_above(set)
        .or_else(|| root_above(Path::new(".")))
        .unwrap_or_else(|| set.into())
}

/// A regular file's bytes, at most `max`.
///
/// # Errors
/// When it cannot be read or is longer.
pub fn read(path: &Path, max: u64) -> Result<Vec<u8>, SetError> {
    if !fs::metadata(path).map_err(io_at(path))?.is_file() {
        return Err(io_at(path)(io::Error::other("not a regular file")));
    }
    let file = fs::File::open(path).map_err(io_at(path))?;
    let mut bytes = Vec::new();
    let read = file.take(max + 1).read_to_end(&mut bytes);
    read.map_err(io_at(path))?;
    if bytes.len() as u64 > max {
        return Err(SetError::TooLong {
            path: path.into(),
            max,
        });
    }
    Ok(bytes)
}

/// As [`read`], the file at a relative path of plain names, which no link leads out of `folder`.
///
/// # Errors
/// As [`read`], and [`SetError::Outside`].
pub fn read_below(folder: &Path, path: &str, max: u64) -> Result<Vec<u8>, SetError> {
    let joined = folder.join(path);
    let real = |path: &Path| fs::canonicalize(path).map_err(io_at(&joined));
    let file = real(&joined)?;
    if !file.starts_with(real(folder)?) {
        return Err(SetError::Outside {
            path: joined,
            folder: folder.into(),
        });
    }
    read(&file, max)
}

/// A file of known answers, in the set's folder or below it.
///
/// # Errors
/// As [`read_below`].
pub fn read_file(set: &Path, path: &str) -> Result<Vec<u8>, SetError> {
    read_below(set, path, MAX_BYTES as u64)
}

/// The paths of all files of a set, ascending, with `/` between. A link is a file, whatever it leads to.
///
/// # Errors
/// When a folder cannot be read.
pub fn list(set: &Path) -> Result<Vec<String>, SetError> {
    let (mut files, mut folders) = (Vec::new(), vec![String::new()]);
    while let Some(prefix) = folders.pop() {
        let folder = set.join(&prefix);
        for entry in fs::read_dir(&folder).map_err(io_at(&folder))? {
            let entry = entry.map_err(io_at(&folder))?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type().map_err(io_at(&folder))?.is_dir() {
                folders.push(name + "/");
            } else {
                files.push(name);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Refuses a folder whose name does not end in `-draft`.
///
/// # Errors
/// [`SetError::Released`].
pub fn writable(set: &Path) -> Result<(), SetError> {
    let absolute = fs::canonicalize(set).unwrap_or_else(|_| set.into());
    let draft = |path: &Path| {
        path.file_name()
            .is_some_and(|n| n.to_string_lossy().ends_with("-draft"))
    };
    if draft(&absolute) && draft(set) {
        Ok(())
    } else {
        Err(SetError::Released { path: set.into() })
    }
}

/// Writes a file whole or not at all: beside its name, synced, renamed.
///
/// # Errors
/// When the file system refuses.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), SetError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(io_at(folder))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = folder.join(format!(".{name}.part"));
    let attempt = || -> io::Result<()> {
        let mut file = fs::File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        if cfg!(unix) {
            fs::File::open(folder)?.sync_all()?;
        }
        Ok(())
    };
    attempt().map_err(|source| {
        // What is left of a failed attempt.
        let _ = fs::remove_file(&part);
        io_at(path)(source)
    })
}
