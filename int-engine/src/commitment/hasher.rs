//! The tree over bytes that arrive in order.

use super::{CHUNK, FIRST_CHUNK, Tree, leaf_hash, leaf_hashes};
use crate::keccak::{self, Hash};

/// Hashes a blob that arrives in pieces of any size. Whole chunks are hashed several at once, where they lie, or from a
/// buffer of at most eight chunks when they arrive in parts.
#[derive(Clone)]
pub struct Hasher {
    leaves: Vec<Hash>,
    /// The end of what has arrived, from the start of a chunk: not hashed yet.
    pending: Vec<u8>,
    total_len: u64,
}

impl Default for Hasher {
    fn default() -> Self {
        Self::new()
    }
}

impl Hasher {
    /// A hasher of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self {
            leaves: Vec::new(),
            pending: Vec::new(),
            total_len: 0,
        }
    }

    /// Adds the next bytes of the blob.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.total_len += bytes.len() as u64;
        if self.leaves.is_empty() {
            self.fill(FIRST_CHUNK, &mut bytes);
            if self.pending.len() < FIRST_CHUNK {
                return;
            }
            self.leaves.push(leaf_hash(&self.pending));
            self.pending.clear();
        }
        let group = keccak::lanes() * CHUNK;
        if !self.pending.is_empty() {
            self.fill(group, &mut bytes);
            if self.pending.len() < group {
                return;
            }
            leaf_hashes(&self.pending, &mut self.leaves);
            self.pending.clear();
        }
        let (whole, rest) = bytes.split_at(bytes.len() / group * group);
        leaf_hashes(whole, &mut self.leaves);
        self.keep(rest);
    }

    /// Adds the leaf hashes of the next `len` bytes. What has been added before ends with a chunk.
    pub(crate) fn append(&mut self, leaves: &[Hash], len: u64) {
        assert!(!self.leaves.is_empty() && self.pending.len() % CHUNK == 0);
        leaf_hashes(&self.pending, &mut self.leaves);
        self.pending.clear();
        self.leaves.extend_from_slice(leaves);
        self.total_len += len;
    }

    /// Moves bytes to `pending` until it has `len`.
    fn fill(&mut self, len: usize, bytes: &mut &[u8]) {
        let (now, later) = bytes.split_at(bytes.len().min(len - self.pending.len()));
        self.keep(now);
        *bytes = later;
    }

    /// Appends to `pending`, whose memory stays below twice what it holds, and at most a group of chunks.
    fn keep(&mut self, bytes: &[u8]) {
        let len = self.pending.len() + bytes.len();
        if len > self.pending.capacity() {
            let capacity = (2 * len).min(keccak::lanes() * CHUNK).max(len);
            self.pending.reserve_exact(capacity - self.pending.len());
        }
        self.pending.extend_from_slice(bytes);
    }

    /// The tree over all bytes given. No bytes at all count as one empty chunk.
    #[must_use]
    pub fn finish(mut self) -> Tree {
        leaf_hashes(&self.pending, &mut self.leaves);
        if self.leaves.is_empty() {
            self.leaves.push(leaf_hash(&[]));
        }
        Tree {
            total_len: self.total_len,
            leaves: self.leaves,
        }
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hasher")
            .field("total_len", &self.total_len)
            .finish_non_exhaustive()
    }
}
