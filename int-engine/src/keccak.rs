//! Keccak-256 of many messages of one length at once: one message a lane of a vector.
//!
//! A permutation is a chain of dependent steps on 64-bit words, so a CPU is busy only with several of them side by
//! side. The chunks of a blob are independent and of one length. Where the CPU has no wide vectors each message is
//! hashed alone.
#![allow(unsafe_code)]

use sha3::{Digest, Keccak256};

/// A hash.
pub(crate) type Hash = [u8; 32];

/// Bytes that one permutation absorbs.
#[cfg(target_arch = "x86_64")]
const RATE: usize = 136;

/// How many messages are hashed side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lanes {
    One,
    #[cfg(target_arch = "x86_64")]
    Four,
    #[cfg(target_arch = "x86_64")]
    Eight,
}

impl Lanes {
    /// What this CPU can do, the slowest first.
    fn all() -> impl DoubleEndedIterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let known = [
            (Self::One, true),
            (Self::Four, is_x86_feature_detected!("avx2")),
            (Self::Eight, is_x86_feature_detected!("avx512f")),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let known = [(Self::One, true)];
        known
            .into_iter()
            .filter_map(|(lanes, here)| here.then_some(lanes))
    }

    fn detect() -> Self {
        Self::all().next_back().unwrap_or(Self::One)
    }

    fn count(self) -> usize {
        match self {
            Self::One => 1,
            #[cfg(target_arch = "x86_64")]
            Self::Four => 4,
            #[cfg(target_arch = "x86_64")]
            Self::Eight => 8,
        }
    }

    /// See [`each`].
    fn each(self, prefix: u8, data: &[u8], size: usize, out: &mut Vec<Hash>) {
        assert!(size > 0 && data.len() % size == 0, "whole messages");
        for group in data.chunks(self.count() * size) {
            #[cfg(target_arch = "x86_64")]
            let messages = group.len() / size;
            // Unused lanes hash the last message again.
            #[cfg(target_arch = "x86_64")]
            let message = |lane: usize| &group[lane.min(messages - 1) * size..][..size];
            match self {
                #[cfg(target_arch = "x86_64")]
                Self::Four if messages > 1 => {
                    // SAFETY: `all` gives this value only where AVX2 is.
                    let hashes = unsafe { avx2::hash(prefix, std::array::from_fn(message)) };
                    out.extend(&hashes[..messages]);
                }
                #[cfg(target_arch = "x86_64")]
                Self::Eight if messages > 1 => {
                    // SAFETY: `all` gives this value only where AVX-512F is.
                    let hashes = unsafe { avx512::hash(prefix, std::array::from_fn(message)) };
                    out.extend(&hashes[..messages]);
                }
                _ => out.extend(group.chunks(size).map(|message| alone(prefix, message))),
            }
        }
    }
}

/// Messages that are hashed side by side here.
pub(crate) fn lanes() -> usize {
    Lanes::detect().count()
}

/// Keccak-256 of `prefix || message`.
pub(crate) fn alone(prefix: u8, message: &[u8]) -> Hash {
    Keccak256::new_with_prefix([prefix])
        .chain_update(message)
        .finalize()
        .into()
}

/// Appends Keccak-256 of `prefix || message` for each message of `size` bytes in `data`, which holds nothing else.
///
/// # Panics
/// When `size` is 0 or `data` no whole number of messages.
pub(crate) fn each(prefix: u8, data: &[u8], size: usize, out: &mut Vec<Hash>) {
    Lanes::detect().each(prefix, data, size, out);
}

#[cfg(target_arch = "x86_64")]
const ROUND_CONSTANTS: [u64; 24] = [
    0x0000_0000_0000_0001,
    0x0000_0000_0000_8082,
    0x8000_0000_0000_808a,
    0x8000_0000_8000_8000,
    0x0000_0000_0000_808b,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8009,
    0x0000_0000_0000_008a,
    0x0000_0000_0000_0088,
    0x0000_0000_8000_8009,
    0x0000_0000_8000_000a,
    0x0000_0000_8000_808b,
    0x8000_0000_0000_008b,
    0x8000_0000_0000_8089,
    0x8000_0000_0000_8003,
    0x8000_0000_0000_8002,
    0x8000_0000_0000_0080,
    0x0000_0000_0000_800a,
    0x8000_0000_8000_000a,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8080,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8008,
];

/// The permutation and the sponge over vectors of `$n` words. The calling module names its vector type `V` and its
/// operations `splat`, `xor3`, `rotate`, `chi`, `load` and `store`.
#[cfg(target_arch = "x86_64")]
macro_rules! sponge {
    ($feature:literal, $n:literal) => {
        #[target_feature(enable = $feature)]
        #[inline]
        fn chi_row(b: [V; 5]) -> [V; 5] {
            [
                chi(b[0], b[1], b[2]),
                chi(b[1], b[2], b[3]),
                chi(b[2], b[3], b[4]),
                chi(b[3], b[4], b[0]),
                chi(b[4], b[0], b[1]),
            ]
        }

        /// Keccak-f[1600] in each lane; the word of column x and row y is `state[x + 5 * y]`.
        #[target_feature(enable = $feature)]
        #[inline]
        fn permute(state: &mut [V; 25]) {
            let mut a = *state;
            macro_rules! column {
                ($x:literal) => {
                    xor3(xor3(a[$x], a[$x + 5], a[$x + 10]), a[$x + 15], a[$x + 20])
                };
            }
            for constant in super::ROUND_CONSTANTS {
                let c = [column!(0), column!(1), column!(2), column!(3), column!(4)];
                let r = [
                    rotate::<1>(c[0]),
                    rotate::<1>(c[1]),
                    rotate::<1>(c[2]),
                    rotate::<1>(c[3]),
                    rotate::<1>(c[4]),
                ];
                // Theta, rho and pi of the word at `i`, which is in column `x`.
                macro_rules! moved {
                    ($i:literal, $x:literal, $bits:literal) => {
                        rotate::<$bits>(xor3(a[$i], c[($x + 4) % 5], r[($x + 1) % 5]))
                    };
                }
                let rows = [
                    chi_row([
                        moved!(0, 0, 0),
                        moved!(6, 1, 44),
                        moved!(12, 2, 43),
                        moved!(18, 3, 21),
                        moved!(24, 4, 14),
                    ]),
                    chi_row([
                        moved!(3, 3, 28),
                        moved!(9, 4, 20),
                        moved!(10, 0, 3),
                        moved!(16, 1, 45),
                        moved!(22, 2, 61),
                    ]),
                    chi_row([
                        moved!(1, 1, 1),
                        moved!(7, 2, 6),
                        moved!(13, 3, 25),
                        moved!(19, 4, 8),
                        moved!(20, 0, 18),
                    ]),
                    chi_row([
                        moved!(4, 4, 27),
                        moved!(5, 0, 36),
                        moved!(11, 1, 10),
                        moved!(17, 2, 15),
                        moved!(23, 3, 56),
                    ]),
                    chi_row([
                        moved!(2, 2, 62),
                        moved!(8, 3, 55),
                        moved!(14, 4, 39),
                        moved!(15, 0, 41),
                        moved!(21, 1, 2),
                    ]),
                ];
                for (y, row) in rows.into_iter().enumerate() {
                    a[5 * y..5 * y + 5].copy_from_slice(&row);
                }
                a[0] = xor(a[0], splat(constant));
            }
            *state = a;
        }

        /// Keccak-256 of `prefix || message` for messages of one length.
        #[target_feature(enable = $feature)]
        pub(super) fn hash(prefix: u8, messages: [&[u8]; $n]) -> [super::Hash; $n] {
            use super::RATE;
            let size = messages[0].len();
            assert!(messages.iter().all(|m| m.len() == size), "one length");
            let mut state = [splat(0); 25];
            let mut absorb = |blocks: [&[u8; RATE]; $n]| {
                let words = load(blocks);
                for (a, word) in state.iter_mut().zip(words) {
                    *a = xor(*a, word);
                }
                permute(&mut state);
            };
            // The prefix moves the message by a byte: block i holds its bytes from RATE * i - 1 on.
            let whole = (size + 1) / RATE;
            let mut ends = [[0u8; RATE]; $n];
            let mut taken = 0;
            if whole > 0 {
                for (end, message) in ends.iter_mut().zip(messages) {
                    end[0] = prefix;
                    end[1..].copy_from_slice(&message[..RATE - 1]);
                }
                absorb(ends.each_ref());
                taken = RATE - 1;
            }
            for _ in 1..whole {
                absorb(messages.map(|message| {
                    message[taken..]
                        .first_chunk()
                        .expect("a block before the end of the message")
                }));
                taken += RATE;
            }
            for (end, message) in ends.iter_mut().zip(messages) {
                let rest = &message[taken..];
                let start = usize::from(whole == 0);
                end.fill(0);
                if whole == 0 {
                    end[0] = prefix;
                }
                end[start..start + rest.len()].copy_from_slice(rest);
                end[start + rest.len()] = 1;
                end[RATE - 1] |= 0x80;
            }
            absorb(ends.each_ref());
            let mut hashes = [[0; 32]; $n];
            for (i, &vector) in state[..4].iter().enumerate() {
                for (hash, word) in hashes.iter_mut().zip(store(vector)) {
                    hash[8 * i..8 * i + 8].copy_from_slice(&word.to_le_bytes());
                }
            }
            hashes
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    // Its intrinsics came with Rust 1.89; the crate's other targets compile with the declared version.
    #![allow(clippy::incompatible_msrv)]
    use super::RATE;
    use core::arch::x86_64::*;

    type V = __m512i;
    sponge!("avx512f", 8);

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn splat(word: u64) -> V {
        _mm512_set1_epi64(word as i64)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn xor(a: V, b: V) -> V {
        _mm512_xor_si512(a, b)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn xor3(a: V, b: V, c: V) -> V {
        _mm512_ternarylogic_epi64::<0x96>(a, b, c)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn rotate<const BITS: i32>(a: V) -> V {
        _mm512_rol_epi64::<BITS>(a)
    }

    /// a ^ (!b & c).
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn chi(a: V, b: V, c: V) -> V {
        _mm512_ternarylogic_epi64::<0xd2>(a, b, c)
    }

    /// Word i of each block in vector i.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(blocks: [&[u8; RATE]; 8]) -> [V; 17] {
        let mut words = [splat(0); 17];
        for half in 0..2 {
            // SAFETY: 64 bytes from byte 0 or 64 on lie in a block of 136.
            let row =
                blocks.map(|b| unsafe { _mm512_loadu_si512(b.as_ptr().add(64 * half).cast()) });
            for odd in 0..2 {
                let pair = |i: usize| {
                    if odd == 0 {
                        _mm512_unpacklo_epi64(row[2 * i], row[2 * i + 1])
                    } else {
                        _mm512_unpackhi_epi64(row[2 * i], row[2 * i + 1])
                    }
                };
                let (a, b, c, d) = (pair(0), pair(1), pair(2), pair(3));
                let (ab04, ab26) = (
                    _mm512_shuffle_i64x2::<0x88>(a, b),
                    _mm512_shuffle_i64x2::<0xdd>(a, b),
                );
                let (cd04, cd26) = (
                    _mm512_shuffle_i64x2::<0x88>(c, d),
                    _mm512_shuffle_i64x2::<0xdd>(c, d),
                );
                let first = 8 * half + odd;
                words[first] = _mm512_shuffle_i64x2::<0x88>(ab04, cd04);
                words[first + 2] = _mm512_shuffle_i64x2::<0x88>(ab26, cd26);
                words[first + 4] = _mm512_shuffle_i64x2::<0xdd>(ab04, cd04);
                words[first + 6] = _mm512_shuffle_i64x2::<0xdd>(ab26, cd26);
            }
        }
        let last = blocks.map(|b| i64::from_le_bytes(*b.last_chunk().expect("8 of 136 bytes")));
        let [a, b, c, d, e, f, g, h] = last;
        words[16] = _mm512_setr_epi64(a, b, c, d, e, f, g, h);
        words
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn store(a: V) -> [u64; 8] {
        let mut words = [0; 8];
        // SAFETY: eight words are 64 bytes.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), a) };
        words
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::RATE;
    use core::arch::x86_64::*;

    type V = __m256i;
    sponge!("avx2", 4);

    #[target_feature(enable = "avx2")]
    #[inline]
    fn splat(word: u64) -> V {
        _mm256_set1_epi64x(word as i64)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn xor(a: V, b: V) -> V {
        _mm256_xor_si256(a, b)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn xor3(a: V, b: V, c: V) -> V {
        xor(a, xor(b, c))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn rotate<const BITS: i32>(a: V) -> V {
        let (left, right) = (i64::from(BITS), i64::from(64 - BITS));
        let left = _mm256_sll_epi64(a, _mm_cvtsi64_si128(left));
        _mm256_or_si256(left, _mm256_srl_epi64(a, _mm_cvtsi64_si128(right)))
    }

    /// a ^ (!b & c).
    #[target_feature(enable = "avx2")]
    #[inline]
    fn chi(a: V, b: V, c: V) -> V {
        xor(a, _mm256_andnot_si256(b, c))
    }

    /// Word i of each block in vector i.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(blocks: [&[u8; RATE]; 4]) -> [V; 17] {
        let mut words = [splat(0); 17];
        for quarter in 0..4 {
            // SAFETY: 32 bytes from byte 0, 32, 64 or 96 on lie in a block of 136.
            let [a, b, c, d] =
                blocks.map(|b| unsafe { _mm256_loadu_si256(b.as_ptr().add(32 * quarter).cast()) });
            let (ab02, ab13) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
            let (cd02, cd13) = (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
            words[4 * quarter] = _mm256_permute2x128_si256::<0x20>(ab02, cd02);
            words[4 * quarter + 1] = _mm256_permute2x128_si256::<0x20>(ab13, cd13);
            words[4 * quarter + 2] = _mm256_permute2x128_si256::<0x31>(ab02, cd02);
            words[4 * quarter + 3] = _mm256_permute2x128_si256::<0x31>(ab13, cd13);
        }
        let [a, b, c, d] =
            blocks.map(|b| i64::from_le_bytes(*b.last_chunk().expect("8 of 136 bytes")));
        words[16] = _mm256_setr_epi64x(a, b, c, d);
        words
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn store(a: V) -> [u64; 4] {
        let mut words = [0; 4];
        // SAFETY: four words are 32 bytes.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), a) };
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::Rng;

    #[test]
    fn every_width_hashes_as_the_sponge_alone() {
        // Lengths around one and two blocks, that of a node, and that of a chunk; group sizes around each width.
        let sizes = (1..=3).chain(63..=65).chain(133..=138).chain(270..=273);
        let mut rng = Rng(3);
        for lanes in Lanes::all() {
            for size in sizes.clone().chain([65536]) {
                let most = if size > 1000 { 9 } else { 17 };
                for messages in (0..=most).filter(|n| size < 1000 || n % 4 == 1) {
                    let data: Vec<u8> = rng
                        .bytes(messages * size)
                        .iter()
                        .map(|&b| b as u8)
                        .collect();
                    let prefix = messages as u8;
                    let mut hashes = vec![[9; 32]];
                    lanes.each(prefix, &data, size, &mut hashes);
                    let expected: Vec<Hash> = data
                        .chunks(size)
                        .map(|message| Keccak256::digest([&[prefix], message].concat()).into())
                        .collect();
                    assert_eq!(hashes[0], [9; 32]);
                    assert_eq!(
                        hashes[1..],
                        expected,
                        "{lanes:?}, {messages} of {size} bytes"
                    );
                }
            }
        }
    }
}
