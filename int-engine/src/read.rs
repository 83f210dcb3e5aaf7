//! Files that can be read at any place, by several threads in pieces.

use crate::commitment::CHUNK;
use crate::pool::lock;
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes that a thread reads and works on at a time, while they are in its cache: whole chunks of the commitment.
pub(crate) const PIECE: usize = 8 * CHUNK;
/// Consecutive pieces of one thread, so that threads seldom touch new memory side by side.
const RUN: u64 = 4;

/// Bytes that can be read at any place.
pub trait ReadAt: Sync {
    /// Reads some bytes from position `offset` on into the beginning of `buffer` and returns how many; 0 at the end.
    ///
    /// # Errors
    /// What the system says. [`io::ErrorKind::Interrupted`] means: try again.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..));
        let rest = rest.unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}

impl<S: ReadAt + ?Sized> ReadAt for &S {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buffer, offset)
    }
}

impl<S: ReadAt + Send + ?Sized> ReadAt for std::sync::Arc<S> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buffer, offset)
    }
}

#[cfg(unix)]
impl ReadAt for std::fs::File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, offset)
    }
}

#[cfg(windows)]
impl ReadAt for std::fs::File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, buffer, offset)
    }
}

/// A source that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot read at byte {offset}: {message}")]
pub struct ReadError {
    /// Where.
    pub offset: u64,
    /// What kind of error; [`io::ErrorKind::UnexpectedEof`] when the source is shorter than it was said to be.
    pub kind: io::ErrorKind,
    /// What the system says.
    pub message: String,
}

impl ReadError {
    fn new(offset: u64, error: &io::Error) -> Self {
        Self {
            offset,
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        Self::new(error.kind, error)
    }
}

/// Fills `buffer` with the bytes from position `offset` on.
///
/// # Errors
/// What the system says but [`io::ErrorKind::Interrupted`], and [`io::ErrorKind::UnexpectedEof`] when the source ends before.
pub fn read_exact<S: ReadAt + ?Sized>(
    source: &S,
    mut buffer: &mut [u8],
    mut offset: u64,
) -> Result<(), ReadError> {
    while !buffer.is_empty() {
        match source.read_at(buffer, offset) {
            Ok(0) => {
                let ended = io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file ends before the length that it had",
                );
                return Err(ReadError::new(offset, &ended));
            }
            Ok(n) => {
                buffer = &mut buffer[n..];
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(ReadError::new(offset, &e)),
        }
    }
    Ok(())
}

/// Memory for one piece.
pub(crate) fn piece_buffer(len: usize) -> Result<Vec<u8>, ReadError> {
    let mut buffer = Vec::new();
    buffer
        .try_reserve_exact(len)
        .map_err(|_| ReadError::new(0, &io::ErrorKind::OutOfMemory.into()))?;
    buffer.resize(len, 0);
    Ok(buffer)
}

/// What the threads have done so far.
struct Done<R, T, E> {
    /// Results that came before their turn: length of the piece, and its result.
    early: BTreeMap<u64, (usize, Result<R, ReadError>)>,
    /// The piece whose turn it is.
    turn: u64,
    take: T,
    failed: Option<E>,
}

impl<R, T, E> Done<R, T, E>
where
    T: FnMut(usize, R) -> Result<(), E>,
    E: From<ReadError>,
{
    fn add(&mut self, piece: u64, len: usize, result: Result<R, ReadError>) {
        self.early.insert(piece, (len, result));
        while self.failed.is_none() {
            let Some((len, result)) = self.early.remove(&self.turn) else {
                return;
            };
            let taken = result
                .map_err(E::from)
                .and_then(|result| (self.take)(len, result));
            self.failed = taken.err();
            self.turn += 1;
        }
    }
}

/// Reads `range` once, in pieces of `piece_len` bytes, with at most `threads` threads. `work(at, bytes)` runs in the thread
/// that has read the piece; `take(len, result)` gets the results in the order of the file, one at a time.
///
/// # Errors
/// The first in the order of the file: of reading, or of `take`.
pub(crate) fn in_order<S, R, E>(
    source: &S,
    range: Range<u64>,
    piece_len: usize,
    threads: NonZeroUsize,
    work: impl Fn(u64, &[u8]) -> R + Sync,
    take: impl FnMut(usize, R) -> Result<(), E> + Send,
) -> Result<(), E>
where
    S: ReadAt + ?Sized,
    R: Send,
    E: From<ReadError> + Send,
{
    let piece_len = (range.end - range.start).clamp(1, piece_len as u64) as usize;
    let pieces = (range.end - range.start).div_ceil(piece_len as u64);
    let runs = pieces.div_ceil(RUN);
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let done = Mutex::new(Done {
        early: BTreeMap::new(),
        turn: 0,
        take,
        failed: None,
    });
    let thread = || {
        let mut buffer = piece_buffer(piece_len);
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= runs {
                return;
            }
            for piece in run * RUN..pieces.min((run + 1) * RUN) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let at = range.start + piece * piece_len as u64;
                let len = (range.end - at).min(piece_len as u64) as usize;
                let result = match &mut buffer {
                    Ok(buffer) => read_exact(source, &mut buffer[..len], at)
                        .map(|()| work(at, &buffer[..len])),
                    Err(error) => Err(error.clone()),
                };
                let mut done = lock(&done);
                done.add(piece, len, result);
                if done.failed.is_some() {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let others = u64::try_from(threads.get()).unwrap_or(u64::MAX).min(runs);
        for _ in 1..others {
            let builder = std::thread::Builder::new().name("int-engine".into());
            // Fewer threads when the system refuses to start one; the result does not depend on it.
            if builder.spawn_scoped(scope, thread).is_err() {
                break;
            }
        }
        thread();
    });
    let done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    match done.failed {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At most `most` bytes a call, an interruption now and then, and an end or an error at a place.
    struct Odd {
        len: u64,
        most: usize,
        broken: Option<u64>,
        calls: AtomicU64,
    }

    fn byte(at: u64) -> u8 {
        (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }

    impl ReadAt for Odd {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            if self.calls.fetch_add(1, Ordering::Relaxed) % 3 == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let end = self.broken.unwrap_or(self.len);
            let n = buffer
                .len()
                .min(self.most)
                .min(end.saturating_sub(offset) as usize);
            if n == 0 && self.broken.is_some() {
                return Err(io::Error::other("broken"));
            }
            for (at, b) in (offset..).zip(&mut buffer[..n]) {
                *b = byte(at);
            }
            Ok(n)
        }
    }

    fn sums(source: &Odd, len: u64, threads: usize) -> (Vec<(u64, u64)>, Result<(), ReadError>) {
        let mut taken = vec![];
        let result = in_order(
            source,
            1000..len,
            PIECE,
            NonZeroUsize::new(threads).unwrap(),
            |at, bytes| (at, bytes.iter().map(|&b| u64::from(b)).sum()),
            |_, result| {
                taken.push(result);
                Ok(())
            },
        );
        (taken, result)
    }

    #[test]
    fn every_piece_once_and_in_order() {
        for pieces in [0, 1, 3, 4, 5, 9] {
            let len = 1000 + pieces * PIECE as u64 + if pieces == 3 { 17 } else { 0 };
            let odd = Odd {
                len,
                most: 100_000,
                broken: None,
                calls: AtomicU64::new(0),
            };
            let expected: Vec<_> = (1000..len)
                .step_by(PIECE)
                .map(|at| {
                    let end = len.min(at + PIECE as u64);
                    (at, (at..end).map(|i| u64::from(byte(i))).sum())
                })
                .collect();
            for threads in [1, 2, 3, 8] {
                assert_eq!(sums(&odd, len, threads), (expected.clone(), Ok(())));
            }
        }
    }

    #[test]
    fn the_first_error_ends_it() {
        let len = 1000 + 7 * PIECE as u64;
        let place = 1000 + 2 * PIECE as u64 + 77;
        for (broken, kind) in [
            (Some(place), io::ErrorKind::Other),
            (None, io::ErrorKind::UnexpectedEof),
        ] {
            for threads in [1, 2, 5] {
                let odd = Odd {
                    len: place,
                    most: usize::MAX,
                    broken,
                    calls: AtomicU64::new(0),
                };
                let (taken, result) = sums(&odd, len, threads);
                let error = result.unwrap_err();
                assert_eq!((taken.len(), error.offset, error.kind), (2, place, kind));
            }
        }
    }

    #[test]
    fn exactly_these_bytes_or_an_error_at_its_place() {
        let odd = |broken| Odd {
            len: 5000,
            most: 7,
            broken,
            calls: AtomicU64::new(0),
        };
        let mut buffer = [0; 100];
        read_exact(&odd(None), &mut buffer, 4900).unwrap();
        assert!((4900..).zip(&buffer).all(|(at, &b)| b == byte(at)));
        read_exact(&odd(None), &mut [], u64::MAX).unwrap();
        for (broken, at, kind) in [
            (None, 5000, io::ErrorKind::UnexpectedEof),
            (Some(4950), 4950, io::ErrorKind::Other),
        ] {
            let error = read_exact(&odd(broken), &mut buffer, 4901).unwrap_err();
            assert_eq!((error.offset, error.kind), (at, kind));
            let system = io::Error::from(error.clone());
            assert_eq!(system.kind(), kind);
            assert_eq!(system.to_string(), error.to_string());
        }
    }

    #[test]
    fn bytes_in_memory_and_in_a_file() {
        let data: Vec<u8> = (0..100).collect();
        let path = std::env::temp_dir().join(format!("int-engine-read-{}", std::process::id()));
        std::fs::write(&path, &data).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        for (offset, len, expected) in [(0, 10, 10), (95, 10, 5), (100, 1, 0), (1 << 40, 1, 0)] {
            let (mut a, mut b) = (vec![255; len], vec![255; len]);
            assert_eq!(data[..].read_at(&mut a, offset).unwrap(), expected);
            assert_eq!(ReadAt::read_at(&file, &mut b, offset).unwrap(), expected);
            assert_eq!(a, b);
            for (at, b) in (offset..).zip(&a[..expected]) {
                assert_eq!(u64::from(*b), at);
            }
        }
        drop(file);
        std::fs::remove_file(&path).unwrap();
    }
}
