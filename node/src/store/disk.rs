//! Files: opened only when regular, written whole or not at all, space reserved before it is used.

use super::StoreError;
use super::layout::UNFINISHED;
use crate::regular;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Opens a regular file for reading, and tells its length; `None` when there is none of that name.
pub(super) fn open(path: &Path) -> Result<Option<(File, u64)>, StoreError> {
    match regular::open(path) {
        Ok(opened) => Ok(Some(opened)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("read", path, e)),
    }
}

/// Whether a regular file of that name is there, or a link to one.
pub(super) fn is_file(path: &Path) -> Result<bool, StoreError> {
    is_regular(path, fs::metadata(path))
}

/// Whether a regular file of that name is there, no link: it may be written.
pub(super) fn is_own_file(path: &Path) -> Result<bool, StoreError> {
    is_regular(path, fs::symlink_metadata(path))
}

fn is_regular(path: &Path, facts: io::Result<fs::Metadata>) -> Result<bool, StoreError> {
    match facts {
        Ok(facts) => Ok(facts.is_file()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StoreError::io("read", path, e)),
    }
}

/// Opens a file for reading and writing, made empty when it is not there; a link is refused.
pub(super) fn open_or_create(path: &Path) -> Result<File, StoreError> {
    regular::open_or_create(path).map_err(|e| StoreError::write(path, 0, e))
}

/// Makes a folder and those above it, durably.
pub(super) fn create_folder(folder: &Path) -> Result<(), StoreError> {
    let above = folder.ancestors();
    let missing: Vec<&Path> = above.take_while(|f| !f.exists()).collect();
    fs::create_dir_all(folder).map_err(|e| StoreError::io("create", folder, e))?;
    for made in missing {
        made.parent().map_or(Ok(()), sync_folder)?;
    }
    Ok(())
}

/// Writes a file beside its name, then renames it: whole or not there.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let beside = path.with_added_extension(&UNFINISHED[1..]);
    // Left of a crash, or somebody's link: neither is written to.
    remove(&beside)?;
    let written = File::create_new(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(e) = written {
        let failed = StoreError::write(path, bytes.len() as u64, e);
        // What is left of it is swept at the next opening.
        let _ = fs::remove_file(&beside);
        return Err(failed);
    }
    rename(&beside, path)
}

/// Renames within one file system and makes it durable.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(|e| StoreError::io("rename", from, e))?;
    let folders = [
        to.parent(),
        from.parent().filter(|f| Some(*f) != to.parent()),
    ];
    folders.into_iter().flatten().try_for_each(sync_folder)
}

/// Removes a file and says whether there was one.
pub(super) fn remove(path: &Path) -> Result<bool, StoreError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StoreError::io("remove", path, e)),
    }
}

/// Makes renames and removals in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    if cfg!(unix) {
        // What a name without a folder lies in.
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        File::open(folder)
            .and_then(|f| f.sync_all())
            .map_err(|e| StoreError::io("write", folder, e))?;
    }
    Ok(())
}

/// Gives the file `len` bytes, new ones zero, and with `reserve` the space for all of them, where the file system can.
pub(super) fn reserve(file: &File, path: &Path, len: u64, reserve: bool) -> Result<(), StoreError> {
    let refused = |e| StoreError::write(path, len, e);
    let now = file.metadata().map_err(refused)?.len();
    if now != len {
        file.set_len(len).map_err(refused)?;
    }
    if reserve {
        allocate(file, len).map_err(refused)?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn allocate(file: &File, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    loop {
        return match fallocate(file, FallocateFlags::empty(), 0, len) {
            Err(Errno::INTR) => continue,
            // The file system cannot; a full disk then shows itself in writing.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(e) => Err(e.into()),
        };
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

/// Bytes that may still be written where `path` lies.
#[cfg(target_os = "linux")]
pub(super) fn available(path: &Path) -> Option<u64> {
    let facts = rustix::fs::statvfs(path.parent()?).ok()?;
    facts.f_bavail.checked_mul(facts.f_frsize)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn available(_: &Path) -> Option<u64> {
    None
}

/// Makes the next reads of a file that has been synced come from the disk, where the system has a way to ask for that.
#[cfg(target_os = "linux")]
pub(super) fn forget(file: &File) {
    // Advice: a refusal means that the pages in memory are read.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn forget(_: &File) {}
