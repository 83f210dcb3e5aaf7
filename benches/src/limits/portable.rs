//! Limits by plain code, for targets without their own file.

use super::Unit;

/// XOR of the words; the compiler vectorises it and no prefetch instruction is used.
pub(super) fn read(bytes: &[i8], _distance: usize) -> u64 {
    let mut sums = [0u64; 32];
    let (lines, rest) = bytes.as_chunks::<256>();
    for line in lines {
        for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            *sum ^= u64::from_le_bytes(word.map(|byte| byte as u8));
        }
    }
    sums.iter().fold(super::xor(rest), |all, sum| all ^ sum)
}

/// None of the instructions exists here.
pub(super) fn has(_unit: Unit) -> bool {
    false
}

/// Nothing: no unit is present.
pub(super) fn multiply(_unit: Unit, _rounds: u32) -> (i32, i32, f64) {
    (0, 0, 0.0)
}
