//! The commitment: a Keccak-256 Merkle tree over fixed chunks of the blob (spec 5).

use crate::keccak::{self, Hash};
use crate::read::{self, ReadAt, ReadError};
use sha3::{Digest, Keccak256};
use std::num::NonZeroUsize;

mod hasher;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keccak_known_answers() {
        let hex = |data: &[u8]| Commitment(keccak256(data)).to_string();
        assert_eq!(
            hex(b""),
            "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
        );
        assert_eq!(
            hex(b"abc"),
            "0x4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"
        );
    }

    #[test]
    fn a_tree_from_its_leaves() {
        for len in [1, 1024, 1025, 1024 + 65536, 1024 + 65537, 300_000] {
            let bytes: Vec<u8> = (0..len as u32).map(|i| (i % 251) as u8).collect();
            let mut hasher = Hasher::new();
            hasher.update(&bytes);
            let tree = hasher.finish();
            let again = Tree::from_leaves(len, tree.leaves().to_vec());
            assert_eq!(again.map(|t| t.commitment()), Some(commitment(&bytes)));
            // One leaf fewer or more fits no such length; a length with as many leaves is another commitment.
            assert_eq!(
                Tree::from_leaves(len, tree.leaves()[1..].to_vec()).map(|t| t.total_len()),
                None
            );
            let more = [tree.leaves(), &[[0; 32]]].concat();
            assert_eq!(Tree::from_leaves(len, more), None);
            if len > 1025 && len % 65536 != 1024 {
                let other = Tree::from_leaves(len + 1, tree.leaves().to_vec());
                assert_ne!(other.map(|t| t.commitment()), Some(commitment(&bytes)));
            }
        }
        assert_eq!(Tree::from_leaves(u64::MAX, vec![[0; 32]]), None);
    }

    #[test]
    fn text_form() {
        let c = Commitment(std::array::from_fn(|i| (17 * i) as u8));
        let text = c.to_string();
        assert_eq!(text.len(), 66);
        assert_eq!(text.parse(), Ok(c));
        assert_eq!(text[2..].to_uppercase().parse(), Ok(c));
        assert_eq!(
            "0x12".parse::<Commitment>(),
            Err(ParseCommitmentError::Length(4))
        );
        assert_eq!(
            format!("{text}0").parse::<Commitment>(),
            Err(ParseCommitmentError::Length(67))
        );
        assert_eq!(
            text.replacen('1', "g", 1).parse::<Commitment>(),
            Err(ParseCommitmentError::Digit(4))
        );
        assert_eq!(
            "é".repeat(64).parse::<Commitment>(),
            Err(ParseCommitmentError::Digit(0))
        );
    }

    fn leaves(m: usize) -> Vec<[u8; 32]> {
        (0..m).map(|i| leaf_hash(&i.to_le_bytes())).collect()
    }

    /// The root by the other reading of the tree: pair neighbours, carry an odd last one upwards.
    fn root_by_levels(mut level: Vec<[u8; 32]>) -> [u8; 32] {
        while level.len() > 1 {
            level = level
                .chunks(2)
                .map(|p| {
                    if let [l, r] = p {
                        node_hash(l, r)
                    } else {
                        p[0]
                    }
                })
                .collect();
        }
        level[0]
    }

    #[test]
    fn every_leaf_of_every_small_tree() {
        // All small shapes, and the full trees with one leaf fewer and more.
        for m in (1..=20).chain([31, 32, 33, 63, 64, 65, 127, 128, 129]) {
            let leaves = leaves(m);
            let root = tree_root(&leaves);
            assert_eq!(root, root_by_levels(leaves.clone()), "{m}");
            let tree = Tree {
                total_len: 0,
                leaves,
            };
            for i in 0..m {
                let proof = tree.prove(i).unwrap();
                let check = |leaf, i: usize, m: usize, proof: &[[u8; 32]]| {
                    root_from_proof(leaf, i as u64, m as u64, proof) == Some(root)
                };
                let leaf = tree.leaves[i];
                assert!(check(leaf, i, m, &proof), "{i} of {m}");
                for j in (0..m).filter(|&j| j != i) {
                    assert!(!check(leaf, j, m, &proof), "{i} at {j} of {m}");
                    assert!(!check(tree.leaves[j], i, m, &proof), "{j} at {i} of {m}");
                }
                assert!(!check(leaf, m, m, &proof));
                let longer = [&proof[..], &[[0; 32]]].concat();
                assert!(!check(leaf, i, m, &longer));
                for k in 0..proof.len() {
                    assert!(!check(leaf, i, m, &proof[..k]));
                    let mut wrong = proof.clone();
                    wrong[k][31] ^= 1;
                    assert!(!check(leaf, i, m, &wrong));
                    if k > 0 {
                        wrong = proof.clone();
                        wrong.swap(k, k - 1);
                        assert!(!check(leaf, i, m, &wrong));
                    }
                }
            }
            assert_eq!(tree.prove(m), None);
        }
    }

    #[test]
    fn the_count_alone_fixes_the_length_of_a_proof() {
        let leaf = [1; 32];
        let check = |index, count, len| root_from_proof(leaf, index, count, &vec![[0; 32]; len]);
        for (index, count, len) in [
            (0, 1 << 32, 32),
            (0, 1 << 33, 33),
            (1 << 63, (1 << 63) + 1, 1),
            (0, u64::MAX, 64),
        ] {
            assert!(check(index, count, len).is_some(), "{index} of {count}");
            assert!(check(index, count, len + 1).is_none(), "{index} of {count}");
            assert!(check(index, count, len - 1).is_none(), "{index} of {count}");
        }
    }

    #[test]
    fn chunk_counts_at_the_borders() {
        let cases = [
            (1024, 1),
            (1025, 2),
            (1024 + 65536, 2),
            (1024 + 65537, 3),
            (u64::MAX, (1 << 48) + 1),
        ];
        for (len, count) in cases {
            assert_eq!(chunk_count(len), count, "{len}");
        }
        assert_eq!(chunk_count(0), 1);
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..len as u64)
            .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
            .collect()
    }

    #[test]
    fn the_hasher_cuts_the_chunks() {
        for len in [
            0,
            1,
            1023,
            1024,
            1025,
            66559,
            66560,
            66561,
            200_000,
            1024 + 8 * 65536,
            1024 + 19 * 65536 + 5,
        ] {
            let data = bytes(len);
            let first = data.len().min(1024);
            let expected: Vec<_> = std::iter::once(&data[..first])
                .chain(data[first..].chunks(65536))
                .map(leaf_hash)
                .collect();
            for size in [1021, 1024, 65536, 300_001, 1 << 20] {
                let mut hasher = Hasher::new();
                data.chunks(size).for_each(|piece| hasher.update(piece));
                let tree = hasher.finish();
                assert_eq!(tree.leaves(), expected, "{len} in pieces of {size}");
                assert_eq!(tree.total_len(), len as u64);
                assert_eq!(tree.commitment(), commitment(&data));
            }
            for threads in [1, 2, 3] {
                let (threads, mut done) = (NonZeroUsize::new(threads).unwrap(), 0);
                let tree = Tree::read(&data[..], len as u64, threads, |n| done += n).unwrap();
                assert_eq!((tree.leaves(), done), (&expected[..], len as u64));
                assert!(Tree::read(&data[..], len as u64 + 1, threads, |_| {}).is_err());
            }
        }
    }

    #[test]
    fn no_chunk_of_a_file_without_tensors_verifies() {
        for len in [0, 1, 1023, 1024] {
            let data = vec![0; len];
            let total = len as u64;
            assert!(!verify_chunk(commitment(&data), total, 0, &data, &[]));
        }
    }

    #[test]
    fn chunks_verify_only_in_their_place() {
        for len in [1025usize, 1024 + 65536, 1024 + 65537, 1024 + 5 * 65536 + 7] {
            let data = bytes(len);
            let mut hasher = Hasher::new();
            hasher.update(&data);
            let tree = hasher.finish();
            let (root, total) = (tree.commitment(), len as u64);
            let chunks: Vec<_> = std::iter::once(&data[..1024])
                .chain(data[1024..].chunks(65536))
                .collect();
            for (i, chunk) in chunks.iter().enumerate() {
                let (index, proof) = (i as u64, tree.prove(i).unwrap());
                assert!(verify_chunk(root, total, index, chunk, &proof));
                assert!(!verify_chunk(root, total, index, &chunk[1..], &proof));
                assert!(!verify_chunk(
                    root,
                    total,
                    index,
                    &[chunk, &[0][..]].concat(),
                    &proof
                ));
                let mut other = chunk.to_vec();
                other[0] ^= 0x80;
                assert!(!verify_chunk(root, total, index, &other, &proof));
                for wrong in [total - 1, total + 1, total + 65536, 0, 1024] {
                    assert!(!verify_chunk(root, wrong, index, chunk, &proof), "{wrong}");
                }
                for wrong in (0..=chunks.len() as u64)
                    .filter(|&j| j != index)
                    .chain([u64::MAX])
                {
                    assert!(!verify_chunk(root, total, wrong, chunk, &proof), "{wrong}");
                }
                let mut wrong = root;
                wrong.0[0] ^= 1;
                assert!(!verify_chunk(wrong, total, index, chunk, &proof));
            }
        }
    }
}
