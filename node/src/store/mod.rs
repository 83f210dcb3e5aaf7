//! Blobs on disk, by commitment.
//!
//! A store is one folder:
//!
//! | name | what |
//! |---|---|
//! | `<64 hex digits>.blob` | a published blob: whole, hashed from the disk, never changed |
//! | `<64 hex digits>.leaves` | its leaf hashes (spec 5.2), 32 bytes each, in chunk order; there before the blob is whole |
//! | `partial/<64 hex digits>.blob` | a blob that is not whole yet, of its full length; resumed by hashing it |
//! | `damaged/<64 hex digits>.blob` | a blob in which [`Store::scrub`] found other bytes, until it is repaired |
//! | `lock` | held by the one process that writes; readers need none |
//!
//! A blob moves from `partial/` to its name by one rename, after every byte has been synced, read back and hashed. So
//! after a crash at any moment a published blob is whole, and a partial one goes on. Files of other names are left alone.

use int_engine::commitment::Commitment;
use int_engine::read::ReadAt;
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

mod disk;
mod error;
mod import;
mod layout;
mod partial;
mod scan;
mod scrub;

pub(crate) use disk::write_whole;
pub use error::StoreError;
pub use import::Importing;
pub use layout::{What, chunk_range, file_name, parse_name, stated_len};
pub use partial::{Partial, Publishing, Slot};
pub use scrub::{Checked, Verdict};

const LOCK: &str = "lock";
const PARTIAL: &str = "partial";
const DAMAGED: &str = "damaged";

/// A folder of blobs.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    writer: Option<Writer>,
}

/// What the process that writes has.
#[derive(Debug)]
struct Writer {
    /// Locked until it is closed.
    _lock: File,
    /// Blobs that somebody is writing.
    busy: Mutex<HashSet<Commitment>>,
}

/// A published blob: an open file, whatever becomes of its name.
#[derive(Debug)]
pub struct Blob {
    commitment: Commitment,
    file: File,
    len: u64,
    path: PathBuf,
}

impl Blob {
    fn new(commitment: Commitment, file: File, len: u64, path: PathBuf) -> Self {
        Self {
            commitment,
            file,
            len,
            path,
        }
    }

    /// The commitment that the bytes had when they were published.
    #[must_use]
    pub fn commitment(&self) -> Commitment {
        self.commitment
    }

    /// Length in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The name that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl ReadAt for Blob {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        ReadAt::read_at(&self.file, buffer, offset)
    }
}

/// What a blob in a store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Whole.
    Published,
    /// Not whole yet.
    Partial,
    /// Other bytes were found in it.
    Damaged,
}

/// A blob in a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its commitment.
    pub commitment: Commitment,
    /// Length of its file in bytes; of a partial blob that is the length which it will have.
    pub len: u64,
    /// What it is.
    pub state: State,
}

impl Store {
    /// Opens the store in `dir` for writing, made if it is not there, and sweeps what a crash left.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when somebody else writes there, and what the system refuses.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let dir = dir.into();
        for folder in [dir.clone(), dir.join(PARTIAL), dir.join(DAMAGED)] {
            disk::create_folder(&folder)?;
        }
        let path = dir.join(LOCK);
        let lock = disk::open_or_create(&path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked { dir }),
            Err(TryLockError::Error(e)) => return Err(StoreError::io("lock", &path, e)),
        }
        let writer = Writer {
            _lock: lock,
            busy: Mutex::default(),
        };
        let store = Self {
            dir,
            writer: Some(writer),
        };
        store.sweep()?;
        Ok(store)
    }

    /// Opens the store in `dir` for reading, whoever writes there.
    ///
    /// # Errors
    /// When the folder is not there.
    pub fn open_read_only(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let dir = dir.into();
        fs::read_dir(&dir).map_err(|e| StoreError::io("read", &dir, e))?;
        Ok(Self { dir, writer: None })
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of a published file, whether it is there or not.
    #[must_use]
    pub fn path(&self, commitment: Commitment, what: What) -> PathBuf {
        self.dir.join(file_name(commitment, what))
    }

    fn partial_path(&self, commitment: Commitment) -> PathBuf {
        let name = file_name(commitment, What::Blob);
        self.dir.join(PARTIAL).join(name)
    }

    fn damaged_path(&self, commitment: Commitment) -> PathBuf {
        let name = file_name(commitment, What::Blob);
        self.dir.join(DAMAGED).join(name)
    }

    /// Whether the blob is published.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn contains(&self, commitment: Commitment) -> Result<bool, StoreError> {
        disk::is_file(&self.path(commitment, What::Blob))
    }

    /// Opens a published blob; `None` when it is not there. Its bytes were right when it was published:
    /// [`int_engine::blob::Loader::expect`] and [`Store::scrub`] find what the disk has done since.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn blob(&self, commitment: Commitment) -> Result<Option<Blob>, StoreError> {
        let path = self.path(commitment, What::Blob);
        let opened = disk::open(&path)?;
        Ok(opened.map(|(file, len)| Blob::new(commitment, file, len, path)))
    }

    /// The blobs of the store in the order of their commitments. A blob of several states is there several times.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn list(&self) -> Result<Vec<Entry>, StoreError> {
        let mut found = BTreeMap::new();
        for (state, folder) in [
            (State::Published, self.dir.clone()),
            (State::Partial, self.dir.join(PARTIAL)),
            (State::Damaged, self.dir.join(DAMAGED)),
        ] {
            for (name, path) in names(&folder)? {
                if let Some((commitment, What::Blob)) = parse_name(&name)
                    && let Ok(facts) = fs::metadata(&path)
                    && facts.is_file()
                {
                    let len = facts.len();
                    let entry = Entry {
                        commitment,
                        len,
                        state,
                    };
                    found.insert((commitment, state as u8), entry);
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// Begins a blob that is not published, or goes on with it.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], and [`StoreError::Busy`] while somebody else in this process writes it.
    pub fn slot(&self, commitment: Commitment) -> Result<Slot<'_>, StoreError> {
        Slot::new(self, commitment)
    }

    /// Removes everything of a blob and says whether there was a blob, whole or not.
    ///
    /// # Errors
    /// As [`Store::slot`], and what the system refuses.
    pub fn remove(&self, commitment: Commitment) -> Result<bool, StoreError> {
        let _slot = self.slot(commitment)?;
        let mut there = false;
        for path in [
            self.path(commitment, What::Blob),
            self.partial_path(commitment),
            self.damaged_path(commitment),
        ] {
            if disk::remove(&path)? {
                there = true;
                path.parent().map_or(Ok(()), disk::sync_folder)?;
            }
        }
        if disk::remove(&self.path(commitment, What::Leaves))? {
            disk::sync_folder(&self.dir)?;
        }
        Ok(there)
    }

    /// Removes what no blob needs: files that were being written, leaves without a blob, and partial or damaged copies of
    /// a published blob. Only names of this layout are touched.
    fn sweep(&self) -> Result<(), StoreError> {
        for folder in [self.dir.clone(), self.dir.join(PARTIAL)] {
            for (name, path) in names(&folder)? {
                let unfinished = name.strip_suffix(layout::UNFINISHED);
                if unfinished.is_some_and(|name| parse_name(name).is_some()) {
                    disk::remove(&path)?;
                }
            }
        }
        for folder in [self.dir.join(PARTIAL), self.dir.join(DAMAGED)] {
            for (name, path) in names(&folder)? {
                if let Some((commitment, What::Blob)) = parse_name(&name)
                    && self.contains(commitment)?
                {
                    disk::remove(&path)?;
                }
            }
        }
        for (name, path) in names(&self.dir)? {
            if let Some((commitment, What::Leaves)) = parse_name(&name)
                && !self.contains(commitment)?
                && !disk::is_file(&self.partial_path(commitment))?
                && !disk::is_file(&self.damaged_path(commitment))?
            {
                disk::remove(&path)?;
            }
        }
        Ok(())
    }

    fn writer(&self) -> Result<&Writer, StoreError> {
        self.writer.as_ref().ok_or_else(|| StoreError::ReadOnly {
            dir: self.dir.clone(),
        })
    }

    fn take(&self, commitment: Commitment) -> Result<(), StoreError> {
        let busy = &self.writer()?.busy;
        let mut busy = busy.lock().unwrap_or_else(PoisonError::into_inner);
        if busy.insert(commitment) {
            Ok(())
        } else {
            Err(StoreError::Busy { commitment })
        }
    }

    fn let_go(&self, commitment: Commitment) {
        if let Ok(writer) = self.writer() {
            let busy = writer.busy.lock();
            busy.unwrap_or_else(PoisonError::into_inner)
                .remove(&commitment);
        }
    }
}

/// Names and paths in a folder; none when it is not there. Names that are no Unicode are none of ours.
fn names(folder: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(e) => return Err(StoreError::io("read", folder, e)),
    };
    let mut found = vec![];
    for entry in entries {
        let entry = entry.map_err(|e| StoreError::io("read", folder, e))?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}
