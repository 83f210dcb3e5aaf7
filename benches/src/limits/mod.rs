//! What the machine can do at most: bytes read from memory in order, and int8 products of its widest instructions.
//!
//! Both are measured in the run whose figures are compared with them, so that a slow hour of a shared machine divides out.

mod crew;
#[cfg(not(target_arch = "x86_64"))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use crew::{Crew, together};
#[cfg(not(target_arch = "x86_64"))]
use portable as target;
#[cfg(target_arch = "x86_64")]
use x86_64 as target;

use int_engine::buffer::{Buffer, HUGE};

use crate::Error;

/// Bytes of the buffer that [`StreamRead`] reads, unless the caches are large: several times every cache.
const LEAST_BYTES: usize = 1_258_291_200;
/// Distances of the prefetch instruction from the bytes that are being read; 0: no such instruction.
pub const DISTANCES: [usize; 4] = [0, 4096, 8192, 16384];

/// Reading a buffer larger than the caches once, in order, each thread its own part.
pub struct StreamRead {
    buffer: Buffer,
    /// XOR of the buffer's little-endian 64-bit words.
    expected: u64,
}

impl StreamRead {
    /// A filled buffer of at least 1.2 GB and four times the largest cache, but at most a quarter of the free memory.
    ///
    /// # Errors
    /// [`Error::Memory`] when the machine lacks the memory for a buffer larger than its caches.
    pub fn new(largest_cache: usize, free_memory: Option<u64>) -> Result<Self, Error> {
        let free = free_memory.map_or(usize::MAX, |free| {
            usize::try_from(free / 4).unwrap_or(usize::MAX)
        });
        let bytes = LEAST_BYTES
            .max(largest_cache.saturating_mul(4))
            .min(free)
            .next_multiple_of(HUGE);
        if bytes < largest_cache.saturating_mul(2) {
            return Err(Error::Memory { bytes });
        }
        let mut buffer = Buffer::default();
        buffer
            .grow(bytes, "a buffer larger than the caches")
            .map_err(|_| Error::Memory { bytes })?;
        let expected = fill(buffer.bytes_mut());
        Ok(Self { buffer, expected })
    }

    /// Bytes of the buffer.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffer.bytes().len()
    }

    /// Seconds in which `threads` threads read the whole buffer, prefetching `distance` bytes ahead.
    ///
    /// # Errors
    /// [`Error::Wrong`] when they did not read what the buffer holds.
    pub fn seconds(&self, threads: usize, distance: usize) -> Result<f64, Error> {
        let bytes = self.buffer.bytes();
        // Whole small pages for every thread.
        let part = bytes.len().div_ceil(threads).next_multiple_of(4096);
        let (seconds, sums) = together(threads, |t| {
            let first = (t * part).min(bytes.len());
            target::read(&bytes[first..(first + part).min(bytes.len())], distance)
        });
        let found = sums.into_iter().fold(0, |all, sum| all ^ sum);
        if found == self.expected {
            Ok(seconds)
        } else {
            Err(Error::Wrong {
                what: "streaming read".into(),
                expected: format!("{:016x}", self.expected),
                found: format!("{found:016x}"),
            })
        }
    }
}

/// Gives every word of `bytes` a value of its own; returns their XOR.
fn fill(bytes: &mut [i8]) -> u64 {
    let mut all = 0;
    for (i, bytes) in (1u64..).zip(bytes.as_chunks_mut::<8>().0) {
        let word = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        *bytes = word.to_le_bytes().map(|byte| byte as i8);
        all ^= word;
    }
    all
}

/// The XOR of the little-endian words of `bytes`, which are a multiple of 8.
fn xor(bytes: &[i8]) -> u64 {
    let words = bytes.as_chunks::<8>().0.iter();
    words.fold(0, |all, bytes| {
        all ^ u64::from_le_bytes(bytes.map(|byte| byte as u8))
    })
}

/// Instructions that multiply int8 values, widest last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// 256-bit `vpmaddubsw`, `vpmaddwd` and `vpaddd`.
    Avx2,
    /// 256-bit `vpdpbusd`.
    Vnni256,
    /// 512-bit `vpdpbusd`.
    Vnni512,
    /// `tdpbssd` of the matrix unit.
    Amx,
}

impl Unit {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Avx2, Self::Vnni256, Self::Vnni512, Self::Amx];

    /// The name in tables and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Avx2 => "vpmaddubsw ymm",
            Self::Vnni256 => "vpdpbusd ymm",
            Self::Vnni512 => "vpdpbusd zmm",
            Self::Amx => "tdpbssd tmm",
        }
    }

    /// Whether this CPU has the instructions, and lets this process use them.
    #[must_use]
    pub fn here(self) -> bool {
        target::has(self)
    }

    /// The set of kernels that is built on the instructions.
    #[must_use]
    pub fn kernels(self) -> &'static str {
        match self {
            Self::Avx2 => "avx2",
            Self::Vnni256 => "avxvnni",
            Self::Vnni512 => "avx512",
            Self::Amx => "amx",
        }
    }

    /// The instructions that a set of kernels is built on.
    #[must_use]
    pub fn of_kernels(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.kernels() == name)
    }

    /// The seconds in which `threads` threads multiply registers `rounds` times, and the operations (a multiplication
    /// or an addition each) of all.
    ///
    /// # Errors
    /// [`Error::Wrong`] when a sum is not what the instructions are defined to give.
    pub fn seconds(self, threads: usize, rounds: u32) -> Result<(f64, f64), Error> {
        let (seconds, results) = together(threads, |_| target::multiply(self, rounds));
        let mut operations = 0.0;
        for (sum, expected, count) in results {
            if sum != expected {
                return Err(Error::Wrong {
                    what: self.name().into(),
                    expected: expected.to_string(),
                    found: sum.to_string(),
                });
            }
            operations += count;
        }
        Ok((seconds, operations))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_sees_every_word() {
        let mut buffer = Buffer::default();
        buffer.grow(HUGE, "a test").unwrap();
        fill(buffer.bytes_mut());
        let bytes = buffer.bytes();
        for distance in DISTANCES {
            for range in [
                0..0,
                0..4096,
                4096..12_288,
                64..4096 + 64 + 8,
                0..bytes.len(),
            ] {
                let part = &bytes[range.clone()];
                assert_eq!(target::read(part, distance), xor(part), "{range:?}");
            }
        }
    }

    #[test]
    fn a_wrong_word_is_found() {
        let mut read = StreamRead::new(0, Some(4 * HUGE as u64)).unwrap();
        assert!(read.seconds(3, 4096).unwrap() > 0.0);
        read.buffer.bytes_mut()[777] ^= 1;
        assert!(matches!(read.seconds(1, 0), Err(Error::Wrong { .. })));
        assert!(StreamRead::new(16 << 20, Some(1 << 20)).is_err());
    }

    #[test]
    fn every_unit_multiplies() {
        for unit in Unit::ALL.into_iter().filter(|unit| unit.here()) {
            for threads in [1, 2] {
                let (seconds, operations) = unit.seconds(threads, 1000).unwrap();
                assert!(seconds > 0.0 && operations >= 64.0 * 1000.0, "{unit:?}");
            }
        }
    }
}
