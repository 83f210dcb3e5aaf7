//! spec 5: Keccak-256 and the Merkle commitment.

use int_reference::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn keccak_known_answers() {
    for (text, want) in [
        (
            "",
            "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
        ),
        (
            "abc",
            "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
        ),
        (
            "hello",
            "1c8aff950685c2ed4bc3174f3472287b56d9517b9c948127319a09a7a36deac8",
        ),
        (
            "transfer(address,uint256)",
            "a9059cbb2ab09eb219583f4a59a5d0623ade346d962bcd4e46b11da047c9049b",
        ),
        (
            "The quick brown fox jumps over the lazy dog",
            "4d741b6f1eb29cb2a9b9911c82f56fa8d73b04959d3d9d222895df6c0b28aa15",
        ),
    ] {
        assert_eq!(hex(&keccak256(text.as_bytes())), want, "{text:?}");
    }
    // The frozen tables of spec 2: several blocks.
    let exp2 = include_bytes!("../../tables/exp2.bin");
    assert_eq!(
        hex(&keccak256(exp2)),
        "8da51de79047aacee79721349cb001def560f23a9aca96037d5ca2b8ba1c7b5f"
    );
}

fn file(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn tree_by_hand() {
    let node = |l: [u8; 32], r: [u8; 32]| keccak256(&[&[1], &l[..], &r].concat());
    let f = file(1024 + 2 * 65536 + 1);
    let l: Vec<[u8; 32]> = [&f[..1024], &f[1024..66560], &f[66560..132096], &f[132096..]]
        .iter()
        .map(|c| keccak256(&[&[0], *c].concat()))
        .collect();
    let root = node(node(l[0], l[1]), node(l[2], l[3]));
    let seal = |len: u64, root: [u8; 32]| {
        keccak256(&[&[2], &b"blue.commitment.v1"[..], &len.to_be_bytes(), &root].concat())
    };
    assert_eq!(commitment(&f), seal(132_097, root));
    let three = &f[..132_096];
    assert_eq!(
        commitment(three),
        seal(132_096, node(node(l[0], l[1]), l[2])),
        "no leaf is duplicated"
    );
    assert_eq!(
        commitment(&[]),
        seal(0, keccak256(&[0])),
        "total on any bytes"
    );
}

#[test]
fn proofs() {
    // Chunk counts around powers of two; last chunks of 1, 65535 and 65536 bytes.
    for len in [
        1025,
        1024 + 65535,
        1024 + 65536,
        1024 + 65537,
        1024 + 3 * 65536,
        1024 + 3 * 65536 + 1,
        1024 + 6 * 65536 + 5,
    ] {
        let f = file(len);
        let root = commitment(&f);
        let m = chunk_count(len as u64);
        for i in 0..m {
            let start = if i == 0 {
                0
            } else {
                1024 + (i as usize - 1) * 65536
            };
            let end = if i == 0 {
                1024
            } else {
                (start + 65536).min(len)
            };
            let chunk = &f[start..end];
            let proof = prove_chunk(&f, i).expect("a chunk");
            let ok = |len: u64, i: u64, chunk: &[u8], proof: &[Hash]| {
                verify_chunk(&root, len, i, chunk, proof)
            };
            assert!(ok(len as u64, i, chunk, &proof), "chunk {i} of {m}");

            let mut wrong = chunk.to_vec();
            wrong[chunk.len() / 2] ^= 1;
            assert!(!ok(len as u64, i, &wrong, &proof), "another byte");
            assert!(!ok(len as u64, i, &chunk[1..], &proof), "another size");
            assert!(!ok(len as u64 + 1, i, chunk, &proof), "another length");
            assert!(!ok(len as u64, (i + 1) % m, chunk, &proof), "another index");
            assert!(!ok(len as u64, m, chunk, &proof), "no such index");
            assert!(!ok(len as u64, u64::MAX, chunk, &proof));
            assert!(!ok(len as u64, i, chunk, &proof[1..]), "a short proof");
            assert!(
                !ok(len as u64, i, chunk, &[&proof[..], &[[0; 32]]].concat()),
                "a long proof"
            );
            for at in 0..proof.len() {
                let mut other = proof.clone();
                other[at][31] ^= 0x80;
                assert!(!ok(len as u64, i, chunk, &other), "another sibling");
            }
        }
        assert_eq!(prove_chunk(&f, m), None);
    }
}

#[test]
fn verify_is_total() {
    let h = [7; 32];
    for len in [0, 1, 1023, 1024, 1025, u64::MAX - 1, u64::MAX] {
        for index in [0, 1, 2, u64::MAX] {
            for proof_len in [0, 1, 2, 32, 33, 49, 1000] {
                for size in [0, 1, 1024, 65536] {
                    assert!(!verify_chunk(
                        &h,
                        len,
                        index,
                        &vec![0; size],
                        &vec![h; proof_len]
                    ));
                }
            }
        }
    }
}
