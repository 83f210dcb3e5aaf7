//! The commitment: a Keccak-256 Merkle tree over fixed chunks of the blob (spec 5).

use crate::keccak::{self, Hash};
use crate::read::{self, ReadAt, ReadError};
use sha3::{Digest, Keccak256};
use std::num::NonZeroUsize;

mod hasher;
#[cfg(test)]
mod tests;

pub use hasher::Hasher;

/// Bytes of chunk 0, the record.
pub const FIRST_CHUNK: usize = 1024;
/// Bytes of every later chunk but the last.
pub const CHUNK: usize = 65536;

const LEAF: u8 = 0;
const NODE: u8 = 1;
const SEAL: u8 = 2;
const DOMAIN: &[u8] = b"blue.commitment.v1";

/// Keccak-256 with the original padding, as in the EVM.
#[must_use]
pub fn keccak256(data: &[u8]) -> [u8; 32] {
    Keccak256::digest(data).into()
}

fn hash_parts(parts: &[&[u8]]) -> [u8; 32] {
    let mut h = Keccak256::new();
    for part in parts {
        h.update(part);
    }
    h.finalize().into()
}

/// Hash of a leaf: keccak256(0x00 || chunk).
#[must_use]
pub fn leaf_hash(chunk: &[u8]) -> [u8; 32] {
    keccak::alone(LEAF, chunk)
}

/// Appends the leaf hashes of consecutive chunks but the first, of which the last may be shorter.
pub(crate) fn leaf_hashes(chunks: &[u8], leaves: &mut Vec<Hash>) {
    let (whole, rest) = chunks.split_at(chunks.len() / CHUNK * CHUNK);
    keccak::each(LEAF, whole, CHUNK, leaves);
    if !rest.is_empty() {
        leaves.push(leaf_hash(rest));
    }
}

fn node_hash(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    hash_parts(&[&[NODE], left, right])
}

fn seal(total_len: u64, root: &[u8; 32]) -> Commitment {
    Commitment(hash_parts(&[
        &[SEAL],
        DOMAIN,
        &total_len.to_be_bytes(),
        root,
    ]))
}

/// Largest power of two below m, for m > 1: the leaves of the left subtree.
fn split(m: u64) -> u64 {
    1 << (63 - (m - 1).leading_zeros())
}

/// The root over `leaves`, at least one: neighbours are joined level by level, an odd last one goes up as it is, which
/// is the tree that splits at powers of two.
fn tree_root(leaves: &[Hash]) -> Hash {
    let join = |level: &[Hash]| {
        let (pairs, odd) = level.split_at(level.len() & !1);
        let mut above = Vec::with_capacity(level.len().div_ceil(2));
        keccak::each(NODE, pairs.as_flattened(), 64, &mut above);
        above.extend(odd);
        above
    };
    if let [only] = leaves {
        return *only;
    }
    let mut level = join(leaves);
    while level.len() > 1 {
        level = join(&level);
    }
    level[0]
}

/// The identity of a blob. Displays as `0x` and 64 lowercase hexadecimal digits, and is parsed from 64 digits of either
/// case with or without `0x`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Commitment(pub [u8; 32]);

impl std::fmt::Display for Commitment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::fmt::Debug for Commitment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a commitment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseCommitmentError {
    /// The text has another length.
    #[error("{0} characters, must be 64 hexadecimal digits, with or without a leading 0x")]
    Length(usize),
    /// A character is no hexadecimal digit.
    #[error("character {0} is no hexadecimal digit")]
    Digit(usize),
}

impl std::str::FromStr for Commitment {
    type Err = ParseCommitmentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let skipped = text.len() - digits.len();
        if digits.chars().count() != 64 {
            return Err(ParseCommitmentError::Length(text.chars().count()));
        }
        let mut out = [0u8; 32];
        for (i, c) in digits.chars().enumerate() {
            let d = c
                .to_digit(16)
                .ok_or(ParseCommitmentError::Digit(skipped + i))?;
            out[i / 2] = out[i / 2] << 4 | d as u8;
        }
        Ok(Self(out))
    }
}

/// Number of chunks of a blob of `total_len` bytes.
#[must_use]
pub fn chunk_count(total_len: u64) -> u64 {
    1 + total_len
        .saturating_sub(FIRST_CHUNK as u64)
        .div_ceil(CHUNK as u64)
}

/// The commitment of a whole blob in memory.
#[must_use]
pub fn commitment(bytes: &[u8]) -> Commitment {
    let mut hasher = Hasher::new();
    hasher.update(bytes);
    hasher.finish().commitment()
}

/// The leaf hashes of a blob, from which proofs are made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    total_len: u64,
    leaves: Vec<[u8; 32]>,
}

impl Tree {
    /// The tree over the first `len` bytes of `source`, read once by at most `threads` threads. `progress` hears of the
    /// bytes that have been hashed, in portions.
    ///
    /// # Errors
    /// When the source cannot be read, or has fewer bytes.
    pub fn read<S: ReadAt + ?Sized>(
        source: &S,
        len: u64,
        threads: NonZeroUsize,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<Self, ReadError> {
        let mut hasher = Hasher::new();
        let mut first = read::piece_buffer(len.min(FIRST_CHUNK as u64) as usize)?;
        read::read_exact(source, &mut first, 0)?;
        hasher.update(&first);
        progress(first.len() as u64);
        if len > FIRST_CHUNK as u64 {
            let hash = |_, bytes: &[u8]| {
                let mut leaves = Vec::new();
                leaf_hashes(bytes, &mut leaves);
                leaves
            };
            read::in_order(
                source,
                FIRST_CHUNK as u64..len,
                read::PIECE,
                threads,
                hash,
                |n, leaves| {
                    hasher.append(&leaves, n as u64);
                    progress(n as u64);
                    Ok::<_, ReadError>(())
                },
            )?;
        }
        Ok(hasher.finish())
    }

    /// The tree of a blob of `total_len` bytes from its leaf hashes in chunk order, or `None` when that length has another
    /// number of chunks. Nothing is proved by it: compare [`Tree::commitment`] with the expected one.
    #[must_use]
    pub fn from_leaves(total_len: u64, leaves: Vec<[u8; 32]>) -> Option<Self> {
        (chunk_count(total_len) == leaves.len() as u64).then_some(Self { total_len, leaves })
    }

    /// Length of the blob in bytes.
    #[must_use]
    pub fn total_len(&self) -> u64 {
        self.total_len
    }

    /// Leaf hashes in chunk order, at least one.
    #[must_use]
    pub fn leaves(&self) -> &[[u8; 32]] {
        &self.leaves
    }

    /// The commitment that the tree stands for.
    #[must_use]
    pub fn commitment(&self) -> Commitment {
        seal(self.total_len, &tree_root(&self.leaves))
    }

    /// Sibling hashes of chunk `index` from the leaf upwards (spec 5.3), or `None` when there is no such chunk.
    #[must_use]
    pub fn prove(&self, index: usize) -> Option<Vec<[u8; 32]>> {
        if index >= self.leaves.len() {
            return None;
        }
        let (mut leaves, mut i, mut proof) = (&self.leaves[..], index, Vec::new());
        while leaves.len() > 1 {
            let (left, right) = leaves.split_at(split(leaves.len() as u64) as usize);
            if i < left.len() {
                proof.push(tree_root(right));
                leaves = left;
            } else {
                proof.push(tree_root(left));
                i -= left.len();
                leaves = right;
            }
        }
        proof.reverse();
        Some(proof)
    }
}

/// The tree root implied by leaf hash `leaf` at `index` of `count`, or `None` for a proof of the wrong length.
fn root_from_proof(leaf: [u8; 32], index: u64, count: u64, proof: &[[u8; 32]]) -> Option<[u8; 32]> {
    if index >= count {
        return None;
    }
    // Whether the path goes right, from the root down.
    let (mut i, mut m, mut right) = (index, count, Vec::new());
    while m > 1 {
        let k = split(m);
        right.push(i >= k);
        (i, m) = if i < k { (i, k) } else { (i - k, m - k) };
    }
    if right.len() != proof.len() {
        return None;
    }
    Some(
        right
            .iter()
            .rev()
            .zip(proof)
            .fold(leaf, |below, (&right, sibling)| {
                if right {
                    node_hash(sibling, &below)
                } else {
                    node_hash(&below, sibling)
                }
            }),
    )
}

/// Whether `chunk` is chunk `index` of the blob of `total_len` bytes with commitment `expected` (spec 5.3).
#[must_use]
pub fn verify_chunk(
    expected: Commitment,
    total_len: u64,
    index: u64,
    chunk: &[u8],
    proof: &[[u8; 32]],
) -> bool {
    let count = chunk_count(total_len);
    if total_len <= FIRST_CHUNK as u64 || index >= count {
        return false;
    }
    let size = match index {
        0 => FIRST_CHUNK as u64,
        _ => (total_len - FIRST_CHUNK as u64 - (index - 1) * CHUNK as u64).min(CHUNK as u64),
    };
    if chunk.len() as u64 != size {
        return false;
    }
    root_from_proof(leaf_hash(chunk), index, count, proof)
        .is_some_and(|root| seal(total_len, &root) == expected)
}
