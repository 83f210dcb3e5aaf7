//! Heads from their projection to their codes, against the formulas of the specification one after the other.

use super::{Kernels, letter, same};
use crate::ops::fixed::{I16, I31, bit_length};
use crate::ops::hadamard::{Direction, Hadamard, butterflies};
use crate::ops::rope::{CosSin, rope_angle};
use crate::ops::rotation::HeadRotation;
use crate::seeded::Rng;

/// The largest gain.
const GAIN: i64 = 32767 << 15;
/// Where heads without gains saturate.
const LIMIT: i64 = 1 << 22;
/// An angle whose cosine is a half.
const SIXTH: CosSin = (1 << 13, 14189);

fn narrow(values: Vec<i128>) -> Vec<i32> {
    let value = |v| i32::try_from(v).expect("a stored value");
    values.into_iter().map(value).collect()
}

/// Codes and largest magnitudes of a row of heads by a kernel, equal to those by the letter.
fn check(k: &Kernels, row: &[i32], gain: Option<&[i32]>, angles: &[CosSin], context: &str) {
    let channels = 2 * angles.len();
    let hadamard = &Hadamard::largest(channels);
    let rotation = HeadRotation {
        gain,
        angles,
        hadamard,
        shift: bit_length(hadamard.block() as u32 - 1).div_ceil(2),
    };
    let heads = row.len() / channels;
    // What follows the row stays as it is.
    let (mut codes, mut largest) = (vec![1i8; row.len() + 64], vec![1u16; heads]);
    let used = &mut codes[..row.len()];
    (k.rotate_heads)(&mut row.to_vec(), rotation, used, &mut largest);
    assert_eq!(codes[row.len()..], [1; 64], "{context}: beyond the row");
    let all = row.chunks(channels).zip(codes.chunks(channels));
    for (i, ((x, codes), &largest)) in all.zip(&largest).enumerate() {
        let context = format!("{}: {context}, {channels} channels, head {i}", k.name);
        let x = gain.map_or(x.to_vec(), |gain| narrow(letter::head_norm(x, gain)));
        let limit = if gain.is_some() { I16 } else { I31 };
        let mut x = narrow(letter::rope(&x, angles, limit));
        hadamard.apply(&mut x, Direction::Forward, butterflies);
        let x = x
            .iter()
            .map(|&x| letter::round_shift(x, rotation.shift, I16));
        let x = narrow(x.collect());
        assert_eq!(i128::from(largest), letter::max_abs(&x), "{context}");
        same(codes, &letter::dynq(&x), &context);
    }
}

pub(super) fn rotate_heads(k: &Kernels) {
    let mut rng = Rng(12);
    for channels in [2, 8, 64, 96, 128, 192, 256] {
        // Around one and two runs of eight heads.
        for heads in [0, 1, 2, 7, 8, 9, 17] {
            for round in 0..10 {
                let angles: Vec<CosSin> = (0..channels as u32 / 2)
                    .map(|i| match round % 5 {
                        0 => [(1 << 14, 0), (0, -(1 << 14)), (11585, 11585)][i as usize % 3],
                        1 => SIXTH,
                        _ => rope_angle(rng.next(), i),
                    })
                    .collect();
                let limit = [1, 9, 1 << 12, 1 << 24, i64::from(I31)][round / 2];
                let gain: Vec<i32> = (0..channels).map(|_| rng.wide(GAIN) as i32).collect();
                let row: Vec<i32> = (0..heads * channels)
                    .map(|_| rng.wide(limit) as i32)
                    .collect();
                check(k, &row, Some(&gain), &angles, &format!("up to {limit}"));
                let limit = limit.min(LIMIT);
                let row: Vec<i32> = (0..heads * channels)
                    .map(|_| rng.wide(limit) as i32)
                    .collect();
                check(k, &row, None, &angles, &format!("up to {limit}, no gain"));
            }
        }
        ends(k, channels);
        one_pair(k, channels);
        halves(k, channels, &mut rng);
    }
}

/// Rows of one magnitude, and of zeros.
fn ends(k: &Kernels, channels: usize) {
    let angles = vec![(11585, 11585); channels / 2];
    for (limit, gain) in [
        (I31, Some(GAIN as i32)),
        (I31, Some(-(GAIN as i32))),
        (1 << 22, None),
    ] {
        let gain = gain.map(|gain| vec![gain; channels]);
        for x in [limit, -limit, 1, 0] {
            let mut row = vec![x; 2 * channels];
            check(k, &row, gain.as_deref(), &angles, "one magnitude");
            // One channel carries all.
            row[1..].fill(0);
            check(k, &row, gain.as_deref(), &angles, "one channel");
        }
    }
}

/// A pair that the rotation turns onto its first channel, beyond the limit by a rounding.
fn one_pair(k: &Kernels, channels: usize) {
    let angles = (0..).map(|position| rope_angle(0x9E37_79B9_7F4A_7C15, position));
    let long = angles.filter(|(c, s)| c * c + s * s > (1 << 28) + (1 << 13));
    let mut gain = vec![GAIN as i32; channels];
    for (i, (c, s)) in long.take(16).enumerate() {
        let mut row = vec![0; channels];
        (row[0], row[channels / 2]) = (c << 10, -s << 10);
        // The others are halves of the shift after the rotation.
        if channels > 2 {
            row[1] = (4 << (10 - 1)) << (i % 4);
            gain[1] = GAIN as i32;
        }
        let mut angles = vec![(1 << 14, 0); channels / 2];
        angles[0] = (c, s);
        check(k, &row, Some(&gain), &angles, "one pair");
    }
}

/// Halves of a code, of either sign: the transform of the transform is the row times its length.
fn halves(k: &Kernels, channels: usize, rng: &mut Rng) {
    let hadamard = Hadamard::largest(channels);
    let angles = vec![(1 << 14, 0); channels / 2];
    for b in 1..8 {
        let mut row: Vec<i32> = (0..channels)
            .map(|_| [0, 1 << (b - 1), -(1 << (b - 1))][rng.next() as usize % 3])
            .collect();
        row[rng.next() as usize % channels] = 1 << b;
        hadamard.apply(&mut row, Direction::Transpose, butterflies);
        check(k, &row, None, &angles, &format!("halves of 2^{b}"));
    }
}
