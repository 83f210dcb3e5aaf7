//! Vector files of `tests/gen_vectors.py`: blocks of a format and ggml's values for them.

use quant_core::{Format, dequantize};

/// What a vector file says of one block.
enum Expected<'a> {
    /// The little-endian bytes of its values.
    Values(&'a [u8]),
    /// The FNV-1a hash of these bytes.
    Hash(u64),
}

/// Compares every block of the vector file `bytes` and returns the number of blocks and the indices
/// of those whose bits differ.
pub(crate) fn compare(format: Format, bytes: &[u8]) -> (usize, Vec<usize>) {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (full, hashed) = (word(0), word(4));
    let (block_bytes, value_bytes) = (format.block_bytes(), 4 * format.block_len());
    let (blocks, rest) = bytes[8..].split_at((full + hashed) * block_bytes);
    let (values, hashes) = rest.split_at(full * value_bytes);
    assert_eq!(
        hashes.len(),
        8 * hashed,
        "{format}: length of the vector file"
    );

    let values = values.chunks_exact(value_bytes).map(Expected::Values);
    let hashes = hashes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|hash| Expected::Hash(u64::from_le_bytes(*hash)));
    let mut got = vec![0.0f32; format.block_len()];
    let mut differing = Vec::new();
    for (i, (block, expected)) in blocks
        .chunks_exact(block_bytes)
        .zip(values.chain(hashes))
        .enumerate()
    {
        dequantize(format, block, &mut got).unwrap();
        let got: Vec<u8> = got.iter().flat_map(|x| x.to_le_bytes()).collect();
        let equal = match expected {
            Expected::Values(values) => got == values,
            Expected::Hash(hash) => fnv1a(&got) == hash,
        };
        if !equal {
            differing.push(i);
        }
    }
    (full + hashed, differing)
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |state, &byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
