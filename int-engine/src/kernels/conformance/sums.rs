//! Weighted sums of values.

use super::super::Kernels;
use super::super::operands::{PAGE, Values};
use super::GUARD;
use crate::seeded::Rng;
use crate::tiles::{GROUP, group_values};

pub(super) fn weighted_sum(k: &Kernels) {
    // Around a page, around 512 keys, whose sums fit int32, and more than four times as many.
    for keys in [
        0, 1, 2, 3, 31, 63, 64, 65, 127, 130, 511, 512, 513, 1025, 2049,
    ] {
        for width in [2, 14, 16, 18, 32, 48, 64, 66, 80, 128, 256] {
            for number in 0..5 {
                case(k, [1, keys, width], number);
            }
        }
    }
    // Around what backends take together.
    for rows in [0, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 49] {
        for keys in [1, 64, 67, 577] {
            for width in [2, 16, 48, 80, 128] {
                for number in 0..5 {
                    case(k, [rows, keys, width], number);
                }
            }
        }
    }
    // The longest context, all weights the largest.
    for rows in [1, 2, 5] {
        case(k, [rows, 32768, 16], 0);
        case(k, [rows, 32768, 16], 1);
    }
}

fn case(k: &Kernels, [rows, keys, width]: [usize; 3], case: usize) {
    let mut rng = Rng(2);
    let w: Vec<u16> = (0..rows * keys)
        .map(|_| match case {
            0 => 1 << 15,
            1 => (1 << 15) - 1,
            _ => (rng.next() % ((1 << 15) + 1)) as u16,
        })
        .collect();
    let values = match case {
        0 => vec![-127; keys * width],
        1 | 2 => vec![127; keys * width],
        _ => rng.bytes(keys * width),
    };
    let mut grouped = group_values(&values, width);
    // What follows the last key does not matter, in its group and in its page.
    for s in keys..keys.next_multiple_of(GROUP) {
        for i in 0..width {
            grouped[(s / GROUP * width + i) * GROUP + s % GROUP] = 127;
        }
    }
    if case % 2 == 1 {
        grouped.resize(keys.next_multiple_of(PAGE) * width, -127);
    }
    let pages: Vec<&[i8]> = grouped.chunks(PAGE * width).collect();
    // What was there before is overwritten, and nothing behind the last sum.
    let mut n = vec![1 << 40; rows * width + GUARD];
    (k.weighted_sum)(&w, Values::new(keys, width, &pages), &mut n[..rows * width]);
    let (sums, guard) = n.split_at(rows * width);
    assert!(guard.iter().all(|&v| v == 1 << 40), "{}: guard", k.name);
    for (r, sums) in sums.chunks_exact(width).enumerate() {
        let w = &w[r * keys..][..keys];
        let mut want = vec![0i64; width];
        for (&w, values) in w.iter().zip(values.chunks_exact(width)) {
            for (want, &v) in want.iter_mut().zip(values) {
                *want += i64::from(w) * i64::from(v);
            }
        }
        assert_eq!(
            sums, want,
            "{}: row {r} of {rows}, {keys} keys of {width}, case {case}",
            k.name
        );
    }
}
