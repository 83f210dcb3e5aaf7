//! The commitment as the `sha3` crate takes it: one chunk after the other on each of several threads.
//!
//! It shares no code with the engine's hasher: it is what that hasher's speed and result are compared with.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use int_engine::commitment::{CHUNK, Commitment, FIRST_CHUNK};
use int_engine::read::ReadAt;
use sha3::{Digest, Keccak256};

/// Chunks that a thread takes at a time.
const RUN: usize = 8;

fn keccak(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Keccak256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// The commitment of the first `len` bytes of `source`, read once by `threads` threads.
///
/// # Errors
/// The source's; [`std::io::ErrorKind::UnexpectedEof`] when it is shorter.
pub fn commitment<S: ReadAt + ?Sized>(
    source: &S,
    len: u64,
    threads: NonZeroUsize,
) -> std::io::Result<Commitment> {
    let start = |chunk: usize| match chunk {
        0 => 0,
        _ => FIRST_CHUNK as u64 + (chunk as u64 - 1) * CHUNK as u64,
    };
    let rest = len.saturating_sub(FIRST_CHUNK as u64);
    let chunks = 1 + rest.div_ceil(CHUNK as u64) as usize;
    let next = AtomicUsize::new(0);
    let thread = || -> std::io::Result<Vec<(usize, [u8; 32])>> {
        let (mut hashes, mut buffer) = (Vec::new(), vec![0; RUN * CHUNK]);
        loop {
            let first = RUN * next.fetch_add(1, Ordering::Relaxed);
            if first >= chunks {
                return Ok(hashes);
            }
            let last = chunks.min(first + RUN);
            let (from, to) = (start(first), start(last).min(len));
            let bytes = &mut buffer[..(to - from) as usize];
            read_exact(source, bytes, from)?;
            for chunk in first..last {
                let range = start(chunk) - from..start(chunk + 1).min(len) - from;
                let bytes = &bytes[range.start as usize..range.end as usize];
                hashes.push((chunk, keccak(&[&[0], bytes])));
            }
        }
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get()).map(|_| scope.spawn(thread)).collect();
        let first = thread();
        let others = others
            .into_iter()
            .map(|other| other.join().expect("hashing does not panic"));
        std::iter::once(first).chain(others).collect()
    });
    let mut level = vec![[0; 32]; chunks];
    for part in parts {
        for (chunk, hash) in part? {
            level[chunk] = hash;
        }
    }
    while level.len() > 1 {
        let pairs = level.chunks(2).map(|pair| match pair {
            [left, right] => keccak(&[&[1], left, right]),
            odd => odd[0],
        });
        level = pairs.collect();
    }
    let seal: [&[u8]; 4] = [&[2], b"blue.commitment.v1", &len.to_be_bytes(), &level[0]];
    Ok(Commitment(keccak(&seal)))
}

fn read_exact<S: ReadAt + ?Sized>(
    source: &S,
    mut bytes: &mut [u8],
    mut at: u64,
) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match source.read_at(bytes, at) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                bytes = &mut bytes[n..];
                at += n as u64;
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_commitment_at_every_number_of_chunks() {
        let most = FIRST_CHUNK + 2 * RUN * CHUNK + 1;
        let bytes: Vec<u8> = (0..most as u64)
            .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
            .collect();
        for len in [
            0,
            1,
            FIRST_CHUNK,
            FIRST_CHUNK + 1,
            FIRST_CHUNK + CHUNK,
            FIRST_CHUNK + 2 * CHUNK - 1,
            FIRST_CHUNK + RUN * CHUNK + 5,
            most,
        ] {
            let bytes = &bytes[..len];
            for threads in [1, 2, 5] {
                let threads = NonZeroUsize::new(threads).unwrap();
                assert_eq!(
                    commitment(bytes, len as u64, threads).unwrap(),
                    int_engine::commitment::commitment(bytes),
                    "{len} bytes"
                );
            }
        }
        let short = commitment(&bytes[..], most as u64 + 1, NonZeroUsize::MIN);
        assert_eq!(short.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    }
}
