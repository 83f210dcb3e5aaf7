//! `blue commit`: the commitment equals the library's, and its proofs verify.

mod common;

use alloy_primitives::hex::encode_prefixed as hex;
use common::{blue, error_of, json_of, text_of};
use int_engine::commitment::{Commitment, commitment, verify_chunk};

/// What `blue commit` checks of a file: the magic number and the length in the record.
fn state_length(bytes: &mut [u8], len: u64) {
    bytes[..8].copy_from_slice(b"BLUEBLOB");
    bytes[17..25].copy_from_slice(&len.to_le_bytes());
}

#[test]
fn the_commitment_is_that_of_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.blob");
    // Record only + 1, chunk borders -1, 0, +1, and one over two pieces of reading.
    for len in [
        1025,
        1024 + 65535,
        1024 + 65536,
        1024 + 65537,
        1024 + (1 << 20) + 7,
    ] {
        let mut bytes: Vec<u8> = (0..len as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        state_length(&mut bytes, len as u64);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(
            text_of(blue(["commit"]).arg(&path)).trim_end(),
            commitment(&bytes).to_string()
        );
        let plain = json_of(blue(["commit", "--json"]).arg(&path));
        assert_eq!(plain["total_len"], len);
        for index in 0..plain["chunks"].as_u64().unwrap() {
            let proof = json_of(blue(["commit", "--proof", &index.to_string()]).arg(&path));
            let hashes: Vec<[u8; 32]> = proof["proof"]
                .as_array()
                .unwrap()
                .iter()
                .map(|h| h.as_str().unwrap().parse::<Commitment>().unwrap().0)
                .collect();
            let (offset, length) = (
                proof["offset"].as_u64().unwrap() as usize,
                proof["length"].as_u64().unwrap() as usize,
            );
            let chunk = hex(&bytes[offset..offset + length]);
            assert_eq!(proof["chunk"], chunk);
            let expected = proof["commitment"].as_str().unwrap().parse().unwrap();
            assert!(
                verify_chunk(
                    expected,
                    len as u64,
                    index,
                    &bytes[offset..offset + length],
                    &hashes
                ),
                "{len} {index}"
            );
        }
    }
}

#[test]
fn what_cannot_be_committed_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.blob");
    assert!(error_of(blue(["commit"]).arg(&path), 2).contains("x.blob"));
    assert!(error_of(blue(["commit"]).arg(dir.path()), 2).contains("folder"));
    std::fs::write(&path, [0; 1025]).unwrap();
    assert!(error_of(blue(["commit"]).arg(&path), 2).contains("BLUEBLOB"));
    let mut bytes = vec![0; 1024];
    state_length(&mut bytes, 1024);
    std::fs::write(&path, &bytes).unwrap();
    assert!(error_of(blue(["commit"]).arg(&path), 2).contains("1024"));
    bytes.push(0);
    for wrong in [0, 1024, 1026, u64::MAX] {
        state_length(&mut bytes, wrong);
        std::fs::write(&path, &bytes).unwrap();
        assert!(error_of(blue(["commit"]).arg(&path), 2).contains("its record says"));
    }
    state_length(&mut bytes, 1025);
    std::fs::write(&path, &bytes).unwrap();
    assert!(error_of(blue(["commit", "--proof", "2"]).arg(&path), 2).contains("chunks 0 to 1"));
    error_of(blue(["commit", "--proof", "-1"]).arg(&path), 2);
}
