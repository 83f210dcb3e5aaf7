//! Bit equality with ggml on committed vectors.
#![forbid(unsafe_code)]

#[path = "common/vectors.rs"]
mod vectors;

use std::path::Path;

use quant_core::{Format, dequantize};

const REGENERATE: &str =
    "regenerate with: python3 quant-core/tests/gen_vectors.py quant-core/tests/data";

#[test]
fn every_format_equals_ggml() {
    for &format in Format::ALL {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{format}.bin"));
        let bytes = std::fs::read(&path)
            .unwrap_or_else(|e| panic!("{}: {e}; {REGENERATE}", path.display()));
        let (blocks, differing) = vectors::compare(format, &bytes);
        assert!(blocks >= 64, "{format}: only {blocks} blocks");
        assert!(
            differing.is_empty(),
            "{format}: blocks {differing:?} differ; {REGENERATE}"
        );
    }
}

/// A comparison that could not fail would prove nothing: one flipped bit of a block is seen.
#[test]
fn vectors_notice_a_changed_block() {
    for &format in Format::ALL {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{format}.bin"));
        let mut bytes = std::fs::read(path).unwrap();
        // The sign of the block's first scale or value (Q6_K has its scale at the end).
        let block = 1;
        let sign = match format {
            Format::F32 => 3,
            Format::Q6_K => 209,
            _ => 1,
        };
        bytes[8 + block * format.block_bytes() + sign] ^= 0x80;
        assert_eq!(vectors::compare(format, &bytes).1, [block], "{format}");
    }
}

/// NaN and infinite scales pass through: refusing them is the caller's part.
#[test]
fn non_finite_scales_pass_through() {
    for (format, at) in [
        (Format::Q8_0, 0),
        (Format::Q4_0, 0),
        (Format::Q4_K, 0),
        (Format::Q6_K, 208),
    ] {
        let mut block = vec![0x11u8; format.block_bytes()];
        let mut out = vec![0.0f32; format.block_len()];
        block[at..at + 2].copy_from_slice(&0x7c00u16.to_le_bytes());
        dequantize(format, &block, &mut out).unwrap();
        assert!(out.iter().all(|x| x.is_infinite()), "{format}");
        block[at..at + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
        dequantize(format, &block, &mut out).unwrap();
        assert!(out.iter().all(|x| x.is_nan()), "{format}");
    }
    for (format, bytes, bits) in [
        (Format::F32, &[1u8, 0, 0x80, 0xff][..], 0xff80_0001u32),
        (Format::F16, &[0x01, 0xfe], 0xffc0_2000),
        (Format::F16, &[0x01, 0x7c], 0x7f80_2000),
        (Format::F16, &[0x00, 0xfc], 0xff80_0000),
        (Format::BF16, &[0x81, 0x7f], 0x7f81_0000),
        (Format::BF16, &[0x80, 0x7f], 0x7f80_0000),
    ] {
        let mut out = [0.0f32];
        dequantize(format, bytes, &mut out).unwrap();
        assert_eq!(out[0].to_bits(), bits, "{format}");
    }
}
