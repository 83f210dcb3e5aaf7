//! Limits by plain code, for targets without their own file.

use super::Unit;

/// XOR of the words; the compiler vectorises it and no prefetch instruction is used.
pub(super) fn read(words: &[u64], _distance: usize) -> u64 {
    let mut sums = [0u64; 32];
    let (lines, rest) = words.as_chunks::<32>();
    for line in lines {
        for (sum, word) in sums.iter_mut().zip(line) {
            *sum ^= word;
        }
    }
    sums.iter().chain(rest).fold(0, |all, w| all ^ w)
}

/// None of the instructions exists here.
pub(super) fn has(_unit: Unit) -> bool {
    false
}

/// Nothing: no unit is present.
pub(super) fn multiply(_unit: Unit, _rounds: u32) -> (i32, i32, f64) {
    (0, 0, 0.0)
}
