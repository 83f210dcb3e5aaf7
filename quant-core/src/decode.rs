//! One decoder per format: the bytes of a block to its `f32` values.
//!
//! The bits equal those of ggml's `dequantize_row_*` reference code compiled without fused
//! multiply-add: each product and each sum below is rounded once, in the order written.
//! All multi-byte fields are little-endian.

use crate::float::{bf16_to_f32, f16_to_f32};

fn f16_at<const N: usize>(block: &[u8; N], offset: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([block[offset], block[offset + 1]]))
}

/// F32: the value.
pub(crate) fn f32(block: &[u8; 4], out: &mut [f32; 1]) {
    out[0] = f32::from_le_bytes(*block);
}

/// F16: IEEE binary16.
pub(crate) fn f16(block: &[u8; 2], out: &mut [f32; 1]) {
    out[0] = f16_to_f32(u16::from_le_bytes(*block));
}

/// BF16: the upper half of an f32.
pub(crate) fn bf16(block: &[u8; 2], out: &mut [f32; 1]) {
    out[0] = bf16_to_f32(u16::from_le_bytes(*block));
}

/// Q8_0: `d` (f16), 32 × i8. `x = q·d`.
pub(crate) fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = f16_at(block, 0);
    for (x, &q) in out.iter_mut().zip(&block[2..]) {
        *x = f32::from(q as i8) * d;
    }
}

/// Q4_0: `d` (f16), 16 bytes of nibbles; the low nibbles are values 0..16, the high ones 16..32.
/// `x = (q − 8)·d`.
pub(crate) fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = f16_at(block, 0);
    let (low, high) = out.split_at_mut(16);
    for ((l, h), &q) in low.iter_mut().zip(high).zip(&block[2..]) {
        *l = f32::from((q & 15) as i8 - 8) * d;
        *h = f32::from((q >> 4) as i8 - 8) * d;
    }
}

/// Q4_1: `d`, `m` (f16), nibbles as in Q4_0. `x = q·d + m`.
pub(crate) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let d = f16_at(block, 0);
    let m = f16_at(block, 2);
    let (low, high) = out.split_at_mut(16);
    for ((l, h), &q) in low.iter_mut().zip(high).zip(&block[4..]) {
        *l = f32::from(q & 15) * d + m;
        *h = f32::from(q >> 4) * d + m;
    }
}

/// The 6-bit scale and minimum of sub-block `j` (0..8) from the 12 packed bytes of a K block.
///
/// Bytes 0..4 and 4..8 hold the scales and minima 0..4 in their low 6 bits. Bytes 8..12 hold the
/// low 4 bits of the scales (low nibble) and minima (high nibble) 4..8, whose upper 2 bits are the
/// top bits of bytes 0..4 and 4..8.
fn scale_min(packed: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        let scale = packed[j + 4] & 15 | packed[j - 4] >> 6 << 4;
        let min = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
        (scale, min)
    }
}

/// Q4_K: `d`, `dmin` (f16), 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.
/// 8 sub-blocks of 32; byte `32·i + l` holds value `l` of sub-blocks `2i` (low) and `2i+1` (high).
/// `x = (d·scale)·q − dmin·min`.
pub(crate) fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    let dmin = f16_at(block, 2);
    let scales = &block[4..16];
    for (i, (x, q)) in out
        .chunks_exact_mut(64)
        .zip(block[16..].chunks_exact(32))
        .enumerate()
    {
        let (scale, min) = scale_min(scales, 2 * i);
        let (d_low, m_low) = (d * f32::from(scale), dmin * f32::from(min));
        let (scale, min) = scale_min(scales, 2 * i + 1);
        let (d_high, m_high) = (d * f32::from(scale), dmin * f32::from(min));
        let (low, high) = x.split_at_mut(32);
        for ((l, h), &q) in low.iter_mut().zip(high).zip(q) {
            *l = d_low * f32::from(q & 15) - m_low;
            *h = d_high * f32::from(q >> 4) - m_high;
        }
    }
}

/// Q6_K: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 × i8 scales, `d` (f16).
/// Two halves of 128 values. In a half, value `32·k + l` (k in 0..4) has its low nibble in byte
/// `32·(k mod 2) + l` (high nibble of it for k ≥ 2), its upper bits at bit `2k` of byte `l`, and
/// scale `2k + l/16`. `x = (d·scale)·(q − 32)`.
pub(crate) fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let d = f16_at(block, 208);
    for (half, x) in out.chunks_exact_mut(128).enumerate() {
        let low = &block[64 * half..][..64];
        let high = &block[128 + 32 * half..][..32];
        let scales = &block[192 + 8 * half..][..8];
        for (k, x) in x.chunks_exact_mut(32).enumerate() {
            let low = &low[32 * (k % 2)..][..32];
            let low_shift = 4 * (k / 2);
            let scale = [2 * k, 2 * k + 1].map(|s| d * f32::from(scales[s] as i8));
            for (l, x) in x.iter_mut().enumerate() {
                let q = low[l] >> low_shift & 15 | (high[l] >> (2 * k) & 3) << 4;
                *x = scale[l / 16] * f32::from(q as i8 - 32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distinct fields in every position of the packed scales.
    #[test]
    fn scale_min_unpacks_what_was_packed() {
        let scales = [1u8, 63, 17, 32, 62, 5, 48, 33];
        let mins = [60u8, 2, 31, 40, 19, 63, 1, 16];
        let mut packed = [0u8; 12];
        for j in 0..4 {
            packed[j] = scales[j] | scales[j + 4] >> 4 << 6;
            packed[j + 4] = mins[j] | mins[j + 4] >> 4 << 6;
            packed[j + 8] = scales[j + 4] & 15 | mins[j + 4] << 4;
        }
        for j in 0..8 {
            assert_eq!(scale_min(&packed, j), (scales[j], mins[j]));
        }
    }

    #[test]
    fn q4_0_orders_low_nibbles_before_high_ones() {
        let mut block = [0u8; 18];
        block[..2].copy_from_slice(&0x3c00u16.to_le_bytes());
        for (i, q) in block[2..].iter_mut().enumerate() {
            *q = i as u8 | (15 - i as u8) << 4;
        }
        let mut out = [0.0; 32];
        q4_0(&block, &mut out);
        for (i, x) in out.iter().enumerate() {
            let want = if i < 16 {
                i as f32 - 8.0
            } else {
                15.0 - (i - 16) as f32 - 8.0
            };
            assert_eq!(*x, want);
        }
    }
}
