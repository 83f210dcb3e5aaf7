//! A blob that is not whole yet: its chunks lie in `partial/`, and publishing it is one rename.

use super::layout::{What, chunk_range, stated_len};
use super::{Blob, Store, StoreError, disk, scan};
use int_engine::commitment::{Commitment, Tree, chunk_count};
use int_engine::read::ReadAt;
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// The right to write one blob: nobody else in this process has it until this is dropped.
#[derive(Debug)]
pub struct Slot<'s> {
    store: &'s Store,
    commitment: Commitment,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.store.let_go(self.commitment);
    }
}

impl<'s> Slot<'s> {
    pub(super) fn new(store: &'s Store, commitment: Commitment) -> Result<Self, StoreError> {
        store.take(commitment)?;
        Ok(Self { store, commitment })
    }

    /// The tree, when the disk has leaves that prove themselves with the length of what has been stored; a damaged blob
    /// counts as stored.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn known(&self) -> Result<Option<Tree>, StoreError> {
        let partial = self.store.partial_path(self.commitment);
        let damaged = self.store.damaged_path(self.commitment);
        for path in [partial, damaged] {
            if let Some((file, len)) = disk::open(&path)?
                && let Some(tree) = self.store.tree(self.commitment, &file, len)?
            {
                return Ok(Some(tree));
            }
        }
        Ok(None)
    }

    /// Makes the partial file of `tree`, or goes on with the one that is there; a damaged blob becomes it. Every chunk is
    /// hashed, and those that are right are kept. With `reserve` the space for the whole blob is taken at once.
    ///
    /// # Errors
    /// [`StoreError::OtherBytes`] for the tree of another blob, [`StoreError::NoSpace`], and what the system refuses. A
    /// partial file stays.
    pub fn open(
        self,
        tree: Tree,
        reserve: bool,
        threads: NonZeroUsize,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Partial<'s>, StoreError> {
        if tree.commitment() != self.commitment {
            return Err(StoreError::OtherBytes {
                what: "what the leaves prove".into(),
                expected: self.commitment,
                found: tree.commitment(),
            });
        }
        let leaves = self.store.path(self.commitment, What::Leaves);
        if self
            .store
            .leaves(self.commitment, tree.total_len())?
            .as_ref()
            != Some(&tree)
        {
            disk::write_whole(&leaves, tree.leaves().as_flattened())?;
        }
        let path = self.store.partial_path(self.commitment);
        let damaged = self.store.damaged_path(self.commitment);
        if !disk::is_own_file(&path)? && disk::is_own_file(&damaged)? {
            disk::rename(&damaged, &path)?;
        }
        let fresh = !disk::is_own_file(&path)?;
        let file = disk::open_or_create(&path)?;
        disk::reserve(&file, &path, tree.total_len(), reserve)?;
        let held = if fresh {
            vec![false; tree.leaves().len()]
        } else {
            scan::held(&file, &tree, threads, progress)
        };
        let missing = held.iter().filter(|held| !**held).count() as u64;
        Ok(Partial {
            slot: self,
            tree,
            file,
            path,
            held,
            missing,
            threads,
        })
    }
}

/// The chunks of a blob that are on the disk, and a place for the others.
#[derive(Debug)]
pub struct Partial<'s> {
    slot: Slot<'s>,
    tree: Tree,
    file: File,
    path: PathBuf,
    held: Vec<bool>,
    missing: u64,
    threads: NonZeroUsize,
}

/// Where publishing stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Publishing {
    /// The bytes are being brought to the disk.
    Syncing,
    /// The bytes are read back and hashed: bytes done, of all.
    Hashing(u64, u64),
    /// Everything is right; the blob gets its name next.
    Naming,
    /// The blob has its name.
    Named,
}

impl<'s> Partial<'s> {
    /// Leaves and length of the blob.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// For each chunk whether it is on the disk.
    #[must_use]
    pub fn held(&self) -> &[bool] {
        &self.held
    }

    /// How many chunks are not.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Bytes of the chunks that are on the disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let lens = (0..).zip(&self.held).map(|(index, held)| {
            let range = chunk_range(self.tree.total_len(), index).filter(|_| *held);
            range.map_or(0, |r| r.end - r.start)
        });
        lens.sum()
    }

    /// Writes a chunk whose hash the caller has compared with the leaf. Chunks that the blob does not have are ignored;
    /// [`Partial::publish`] hashes everything again.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`] and what the system refuses; the chunk is then missing.
    pub fn write(&mut self, index: u64, chunk: &[u8]) -> Result<(), StoreError> {
        let Some(range) = chunk_range(self.tree.total_len(), index) else {
            return Ok(());
        };
        let Some(held) = self.held.get_mut(index as usize) else {
            return Ok(());
        };
        if range.end - range.start != chunk.len() as u64 {
            return Ok(());
        }
        write_all_at(&self.file, chunk, range.start)
            .map_err(|e| StoreError::write(&self.path, self.tree.total_len(), e))?;
        if !*held {
            *held = true;
            self.missing -= 1;
        }
        Ok(())
    }

    /// Publishes the blob, if all bytes on the disk are right: they are synced, read back and hashed; then the file gets
    /// its name.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with the chunks that are missing or wrong, and what the system refuses. The partial file
    /// stays.
    pub fn publish(
        self,
        progress: &mut (dyn FnMut(Publishing) + Send),
    ) -> Result<Blob, StoreError> {
        let (store, commitment) = (self.slot.store, self.slot.commitment);
        progress(Publishing::Syncing);
        self.file
            .sync_all()
            .map_err(|e| StoreError::write(&self.path, self.tree.total_len(), e))?;
        disk::forget(&self.file);
        let mut chunks = scan::damaged(&self.file, &self.tree, self.threads, &mut |done, total| {
            progress(Publishing::Hashing(done, total));
        });
        let len = (self.file.metadata())
            .map_err(|e| StoreError::io("read", &self.path, e))?
            .len();
        if len != self.tree.total_len() && chunks.is_empty() {
            chunks.push(chunk_count(self.tree.total_len()) - 1);
        }
        if !chunks.is_empty() {
            return Err(StoreError::Damaged { commitment, chunks });
        }
        progress(Publishing::Naming);
        let name = store.path(commitment, What::Blob);
        disk::rename(&self.path, &name)?;
        progress(Publishing::Named);
        // It is whole again.
        disk::remove(&store.damaged_path(commitment))?;
        tracing::info!(%commitment, bytes = len, "published");
        Ok(Blob::new(commitment, self.file, len, name))
    }
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn write_all_at(mut file: &File, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

impl Store {
    /// The leaves of a blob of `total_len` bytes, when they are there and prove themselves.
    pub(super) fn leaves(
        &self,
        commitment: Commitment,
        total_len: u64,
    ) -> Result<Option<Tree>, StoreError> {
        let path = self.path(commitment, What::Leaves);
        let Some((file, len)) = disk::open(&path)? else {
            return Ok(None);
        };
        if chunk_count(total_len).checked_mul(32) != Some(len) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = std::io::Read::read_to_end(&mut std::io::Read::take(file, len), &mut bytes);
        read.map_err(|e| StoreError::io("read", &path, e))?;
        let (leaves, _) = bytes.as_chunks::<32>();
        let tree = Tree::from_leaves(total_len, leaves.to_vec());
        Ok(tree.filter(|tree| tree.commitment() == commitment))
    }

    /// The tree of a stored file, when the leaves that are there prove themselves with its length, or with the one that
    /// its record states.
    pub(super) fn tree(
        &self,
        commitment: Commitment,
        file: &File,
        len: u64,
    ) -> Result<Option<Tree>, StoreError> {
        if let Some(tree) = self.leaves(commitment, len)? {
            return Ok(Some(tree));
        }
        let mut head = [0; 25];
        let stated = match file.read_at(&mut head, 0) {
            Ok(25) => stated_len(&head),
            _ => None,
        };
        match stated {
            Some(stated) if stated != len => self.leaves(commitment, stated),
            _ => Ok(None),
        }
    }
}
