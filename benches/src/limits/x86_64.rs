//! Limits of x86-64: wide loads with the prefetch instruction, and products that touch registers only.

use std::arch::asm;
use std::arch::x86_64::*;

use int_engine::kernels::Kernels;

use super::Unit;

/// Accumulators of `vpdpbusd`: two a cycle of five cycles' latency need ten.
const VNNI_CHAINS: usize = 12;
/// Accumulators of AVX2, whose sums take one cycle; constants and products need registers too.
const AVX2_CHAINS: usize = 6;
/// Accumulators of the matrix unit: a product every 16 cycles of 52 cycles' latency needs four.
const AMX_CHAINS: usize = 4;

pub(super) fn has(unit: Unit) -> bool {
    match unit {
        Unit::Avx2 => is_x86_feature_detected!("avx2"),
        Unit::Vnni256 => {
            is_x86_feature_detected!("avxvnni")
                || (is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vl"))
        }
        Unit::Vnni512 => {
            is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni")
        }
        // The kernels are there only where the system lets this process use the unit.
        Unit::Amx => Kernels::by_name(unit.kernels()).is_ok(),
    }
}

/// XOR of the words of `bytes`, read in order with the widest loads of this CPU.
///
/// `distance` is one of [`DISTANCES`](super::DISTANCES), or another number that no prefetch is used for.
pub(super) fn read(bytes: &[i8], distance: usize) -> u64 {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU has AVX-512 F.
        unsafe {
            match distance {
                4096 => read_zmm::<4096>(bytes),
                8192 => read_zmm::<8192>(bytes),
                16384 => read_zmm::<16384>(bytes),
                _ => read_zmm::<0>(bytes),
            }
        }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        unsafe {
            match distance {
                4096 => read_ymm::<4096>(bytes),
                8192 => read_ymm::<8192>(bytes),
                16384 => read_ymm::<16384>(bytes),
                _ => read_ymm::<0>(bytes),
            }
        }
    } else {
        super::xor(bytes)
    }
}

/// # Safety
/// The CPU has AVX-512 F.
#[target_feature(enable = "avx512f")]
unsafe fn read_zmm<const DISTANCE: usize>(bytes: &[i8]) -> u64 {
    let mut sums = [_mm512_setzero_si512(); 8];
    let (lines, rest) = bytes.as_chunks::<512>();
    for line in lines {
        for (i, sum) in sums.iter_mut().enumerate() {
            let at = line.as_ptr().wrapping_add(64 * i);
            if DISTANCE > 0 {
                _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(DISTANCE));
            }
            // SAFETY: the 64 bytes lie within `line`.
            *sum = _mm512_xor_si512(*sum, unsafe { _mm512_loadu_si512(at.cast()) });
        }
    }
    let mut lanes = [0u64; 8];
    for sum in sums {
        let mut values = [0u64; 8];
        // SAFETY: `values` has 64 bytes.
        unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), sum) };
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane ^= value;
        }
    }
    lanes.iter().fold(super::xor(rest), |all, lane| all ^ lane)
}

/// # Safety
/// The CPU has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn read_ymm<const DISTANCE: usize>(bytes: &[i8]) -> u64 {
    let mut sums = [_mm256_setzero_si256(); 8];
    let (lines, rest) = bytes.as_chunks::<256>();
    for line in lines {
        for (i, sum) in sums.iter_mut().enumerate() {
            let at = line.as_ptr().wrapping_add(32 * i);
            if DISTANCE > 0 && i % 2 == 0 {
                _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(DISTANCE));
            }
            // SAFETY: the 32 bytes lie within `line`.
            *sum = _mm256_xor_si256(*sum, unsafe { _mm256_loadu_si256(at.cast()) });
        }
    }
    let mut lanes = [0u64; 4];
    for sum in sums {
        let mut values = [0u64; 4];
        // SAFETY: `values` has 32 bytes.
        unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), sum) };
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane ^= value;
        }
    }
    lanes.iter().fold(super::xor(rest), |all, lane| all ^ lane)
}

/// One lane's sum after `rounds` rounds, the sum by definition, and the number of operations.
pub(super) fn multiply(unit: Unit, rounds: u32) -> (i32, i32, f64) {
    assert!(unit.here(), "{unit:?} is missing");
    // Accumulators, lanes of each, and products that an instruction adds to a lane.
    let (chains, lanes, products) = match unit {
        Unit::Avx2 => (AVX2_CHAINS, 8, 4),
        Unit::Vnni256 => (VNNI_CHAINS, 8, 4),
        Unit::Vnni512 => (VNNI_CHAINS, 16, 4),
        Unit::Amx => (AMX_CHAINS, 256, 64),
    };
    // SAFETY: the CPU has the instructions.
    let sum = unsafe {
        match unit {
            Unit::Avx2 => multiply_avx2(rounds),
            Unit::Vnni256 if is_x86_feature_detected!("avxvnni") => multiply_vnni_vex(rounds),
            Unit::Vnni256 => multiply_vnni_ymm(rounds),
            Unit::Vnni512 => multiply_vnni_zmm(rounds),
            Unit::Amx => multiply_amx(rounds),
        }
    };
    // A round adds products of 2 * 1 and as many of 2 * 3 to a lane of every chain, wrapping.
    let expected = (8 * products * chains as i32).wrapping_mul(rounds as i32);
    // 2 steps a round; a product is a multiplication and an addition.
    let operations = 2.0 * f64::from(rounds) * chains as f64 * f64::from(lanes * products * 2);
    (sum, expected, operations)
}

/// A function that multiplies `rounds` times, two steps each, with several accumulators. The empty `asm!` makes an
/// operand unknown before every product, so that none is computed outside the loop or for two accumulators at once.
macro_rules! chains {
    ($name:ident, $features:literal, $chains:ident, $register:ident, $zero:expr, $splat:expr, $step:expr, $lane:expr) => {
        /// # Safety
        /// The CPU has the instructions.
        #[target_feature(enable = $features)]
        unsafe fn $name(rounds: u32) -> i32 {
            let mut sums = [$zero; $chains];
            let weights = std::hint::black_box([$splat(1), $splat(3)]);
            let mut inputs = $splat(2);
            for _ in 0..rounds {
                for weights in weights {
                    for sum in &mut sums {
                        // SAFETY: the statement has no instruction.
                        unsafe {
                            asm!("/* {0} */", inout($register) inputs, options(nomem, nostack, preserves_flags));
                        }
                        *sum = $step(*sum, inputs, weights);
                    }
                }
            }
            // Every lane is the same.
            sums.into_iter().fold(0, |total, sum| total.wrapping_add($lane(sum)))
        }
    };
}

fn lane_of_ymm(sum: __m256i) -> i32 {
    // SAFETY: both types are plain bits, the second no larger than the first.
    unsafe { std::mem::transmute::<__m256i, [i32; 8]>(sum)[0] }
}

fn lane_of_zmm(sum: __m512i) -> i32 {
    // SAFETY: as above.
    unsafe { std::mem::transmute::<__m512i, [i32; 16]>(sum)[0] }
}

chains!(
    multiply_avx2,
    "avx2",
    AVX2_CHAINS,
    ymm_reg,
    _mm256_setzero_si256(),
    _mm256_set1_epi8,
    |sum, inputs, weights| _mm256_add_epi32(
        sum,
        _mm256_madd_epi16(_mm256_maddubs_epi16(inputs, weights), _mm256_set1_epi16(1))
    ),
    lane_of_ymm
);
chains!(
    multiply_vnni_vex,
    "avx2,avxvnni",
    VNNI_CHAINS,
    ymm_reg,
    _mm256_setzero_si256(),
    _mm256_set1_epi8,
    |sum, inputs, weights| _mm256_dpbusd_avx_epi32(sum, inputs, weights),
    lane_of_ymm
);
chains!(
    multiply_vnni_ymm,
    "avx512f,avx512vl,avx512vnni",
    VNNI_CHAINS,
    ymm_reg,
    _mm256_setzero_si256(),
    _mm256_set1_epi8,
    |sum, inputs, weights| _mm256_dpbusd_epi32(sum, inputs, weights),
    lane_of_ymm
);
chains!(
    multiply_vnni_zmm,
    "avx512f,avx512vnni",
    VNNI_CHAINS,
    zmm_reg,
    _mm512_setzero_si512(),
    _mm512_set1_epi8,
    |sum, inputs, weights| _mm512_dpbusd_epi32(sum, inputs, weights),
    lane_of_zmm
);

/// A tile of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Tile<T, const N: usize>([T; N]);

/// Bytes of the unit's configuration: palette 1, eight tiles of 16 rows of 64 bytes.
const fn configuration() -> Tile<u8, 64> {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = 16;
        tile += 1;
    }
    Tile(bytes)
}

/// # Safety
/// The CPU has the matrix unit, and the system lets this process use it.
unsafe fn multiply_amx(rounds: u32) -> i32 {
    let config = configuration();
    let values = [2i8, 1, 3].map(|value| Tile([value; 1024]));
    let mut sums = [const { Tile([0i32; 256]) }; AMX_CHAINS];
    // SAFETY: the caller's; the tiles in memory have 16 rows of 64 bytes, and the unit is released again.
    unsafe {
        asm!(
            "ldtilecfg [{config}]",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "tileloadd tmm4, [{inputs} + {line}*1]",
            "tileloadd tmm5, [{first} + {line}*1]",
            "tileloadd tmm6, [{second} + {line}*1]",
            "test {rounds:e}, {rounds:e}",
            "jz 3f",
            "2:",
            "tdpbssd tmm0, tmm4, tmm5",
            "tdpbssd tmm1, tmm4, tmm5",
            "tdpbssd tmm2, tmm4, tmm5",
            "tdpbssd tmm3, tmm4, tmm5",
            "tdpbssd tmm0, tmm4, tmm6",
            "tdpbssd tmm1, tmm4, tmm6",
            "tdpbssd tmm2, tmm4, tmm6",
            "tdpbssd tmm3, tmm4, tmm6",
            "dec {rounds:e}",
            "jnz 2b",
            "3:",
            "tilestored [{out} + {line}*1], tmm0",
            "add {out}, 1024",
            "tilestored [{out} + {line}*1], tmm1",
            "add {out}, 1024",
            "tilestored [{out} + {line}*1], tmm2",
            "add {out}, 1024",
            "tilestored [{out} + {line}*1], tmm3",
            "tilerelease",
            config = in(reg) &raw const config,
            inputs = in(reg) &raw const values[0],
            first = in(reg) &raw const values[1],
            second = in(reg) &raw const values[2],
            line = in(reg) 64usize,
            rounds = inout(reg) rounds => _,
            out = inout(reg) &raw mut sums => _,
            options(nostack),
        );
    }
    // Every lane is the same.
    sums.iter()
        .fold(0, |total, tile| total.wrapping_add(tile.0[0]))
}
