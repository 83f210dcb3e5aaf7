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
