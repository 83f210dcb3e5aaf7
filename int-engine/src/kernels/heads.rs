//! Heads by the separate functions of a backend.

use super::Kernels;
use crate::ops::fixed::I16;
use crate::ops::hadamard::Direction;
use crate::ops::rotation::HeadRotation;

/// [`Kernels::rotate_heads`] by the other functions of a table.
pub(super) fn rotate_heads(
    kernels: &Kernels,
    row: &mut [i32],
    rotation: HeadRotation<'_>,
    codes: &mut [i8],
    largest: &mut [u16],
) {
    rotation.heads(row, codes, largest);
    let channels = rotation.channels();
    let heads = row
        .chunks_exact_mut(channels)
        .zip(codes.chunks_exact_mut(channels));
    for ((head, codes), largest) in heads.zip(largest) {
        if let Some(gain) = rotation.gain {
            (kernels.head_norm)(head, gain);
        }
        (kernels.rope)(head, rotation.angles, rotation.rope_limit());
        // |v| <= 5,931,893 and at most 256 values a block: below 2^31.
        rotation
            .hadamard
            .apply(head, Direction::Forward, kernels.butterflies);
        (kernels.round_shift)(head, rotation.shift, I16);
        let m = (kernels.max_abs)(head);
        (kernels.quantize)(head, m, codes);
        *largest = m as u16;
    }
}
