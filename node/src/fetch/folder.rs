//! A folder with the layout of a store: another store, a mounted disk.

use super::source::{Request, Source, SourceError};
use crate::regular;
use crate::store::file_name;
use int_engine::read::ReadAt;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Instant;

/// Bytes handed over at a time.
const PIECE: u64 = 65536;
/// Pieces that are read ahead.
const AHEAD: usize = 2;
/// Threads in which a folder is read at once. Those that hang in the system, as on a mount whose server is gone, count until
/// they return.
const MOST_READERS: usize = 64;

/// Files in a folder, named as in a store.
#[derive(Clone, Debug)]
pub struct FolderSource {
    dir: PathBuf,
    name: String,
    readers: Arc<AtomicUsize>,
}

impl FolderSource {
    /// The folder `dir`; whether it is there is found out when it is read.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let name = dir.display().to_string();
        Self {
            dir,
            name,
            readers: Arc::default(),
        }
    }
}

impl Source for FolderSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(
        &self,
        request: &Request,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let path = self.dir.join(file_name(request.commitment, request.what));
        let open = move || Ok(regular::open(&path)?.0);
        in_time(&self.readers, open, request, take)
    }
}

/// Counts a thread as long as it lives.
struct Reader(Arc<AtomicUsize>);

impl Reader {
    fn new(readers: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |n| (n < MOST_READERS).then_some(n + 1);
        let counted = readers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.ok().map(|_| Self(Arc::clone(readers)))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Opens and reads in a thread of its own, which is left behind when it does not answer in time.
fn in_time<R: ReadAt>(
    readers: &Arc<AtomicUsize>,
    open: impl FnOnce() -> Result<R, SourceError> + Send + 'static,
    request: &Request,
    take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), SourceError> {
    let range = request.range.clone();
    let asked = range.end.saturating_sub(range.start);
    let reader = Reader::new(readers)
        .ok_or_else(|| SourceError::Io(format!("{MOST_READERS} reads of it hang")))?;
    let (send, pieces) = mpsc::sync_channel(AHEAD);
    let start = Instant::now();
    thread::Builder::new()
        .name("blue-folder".into())
        .spawn(move || {
            let _reader = reader;
            if let Err(error) = open().and_then(|file| pass(&file, range, &send)) {
                // Nobody waits any more: nobody hears of it.
                let _ = send.send(Err(error));
            }
        })?;
    let mut got = 0;
    while got < asked {
        let left = request.limit.saturating_sub(start.elapsed());
        match pieces.recv_timeout(request.stall.min(left)) {
            Ok(Ok(piece)) => {
                got += piece.len() as u64;
                if take(&piece).is_break() {
                    return Ok(());
                }
            }
            Ok(Err(error)) => return Err(error),
            Err(RecvTimeoutError::Timeout) => {
                let after = start.elapsed();
                return Err(SourceError::Stalled { got, asked, after });
            }
            Err(RecvTimeoutError::Disconnected) => return Err(SourceError::Fewer { got, asked }),
        }
    }
    Ok(())
}

type Piece = Result<Vec<u8>, SourceError>;

/// Sends the bytes of a range, as far as there are any and somebody takes them.
fn pass(
    file: &impl ReadAt,
    range: std::ops::Range<u64>,
    send: &SyncSender<Piece>,
) -> Result<(), SourceError> {
    let mut at = range.start;
    while at < range.end {
        let mut piece = vec![0; (range.end - at).min(PIECE) as usize];
        match file.read_at(&mut piece, at) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                piece.truncate(n);
                at += n as u64;
                if send.send(Ok(piece)).is_err() {
                    return Ok(());
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::What;
    use int_engine::commitment::Commitment;
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    /// For what must not end a test by itself.
    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(100);

    fn request(stall: Duration, limit: Duration) -> Request {
        Request {
            commitment: Commitment([1; 32]),
            what: What::Blob,
            range: 10..200_010,
            stall,
            limit,
        }
    }

    /// Gives a byte a call, as often as it is allowed to; hangs then, as a mount without its server.
    struct Mount(Mutex<Receiver<()>>);

    impl ReadAt for Mount {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let allowed = self.0.lock().unwrap().recv();
            allowed.map_err(|_| io::Error::other("unmounted"))?;
            buffer[0] = offset as u8;
            Ok(1)
        }
    }

    fn mount() -> (
        Sender<()>,
        impl FnOnce() -> Result<Mount, SourceError> + Send,
    ) {
        let (allow, allowed) = channel();
        (allow, move || Ok(Mount(Mutex::new(allowed))))
    }

    #[test]
    fn a_mount_that_hangs_is_given_up() {
        let readers = Arc::default();
        let (allow, open) = mount();
        for _ in 0..3 {
            allow.send(()).unwrap();
        }
        let mut bytes = vec![];
        let answer = in_time(&readers, open, &request(SHORT, LONG), &mut |piece| {
            bytes.extend_from_slice(piece);
            ControlFlow::Continue(())
        });
        // A slow machine may give up before the three bytes have come.
        assert!(
            matches!(answer, Err(SourceError::Stalled { got, asked: 200_000, .. })
            if got == bytes.len() as u64 && got <= 3)
        );
        assert_eq!(bytes, [10, 11, 12][..bytes.len()]);
        // Neither is opening waited for.
        let (forever, wait) = channel::<()>();
        let hang = move || -> Result<Mount, SourceError> {
            let _ = wait.recv();
            Err(SourceError::Absent)
        };
        let answer = in_time(&readers, hang, &request(LONG, SHORT), &mut |_| {
            ControlFlow::Continue(())
        });
        assert!(matches!(answer, Err(SourceError::Stalled { got: 0, .. })));
        assert_eq!(readers.load(Ordering::Relaxed), 2);
        drop((allow, forever));
        while readers.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn a_trickle_ends_at_the_limit() {
        let (allow, open) = mount();
        let mut got = 0;
        let start = Instant::now();
        allow.send(()).unwrap();
        let limit = 2 * SHORT;
        let answer = in_time(&Arc::default(), open, &request(LONG, limit), &mut |piece| {
            got += piece.len() as u64;
            thread::sleep(Duration::from_millis(1));
            // The next byte is there as soon as this one is taken, until long after the limit.
            if start.elapsed() < 3 * limit {
                allow.send(()).unwrap();
            }
            ControlFlow::Continue(())
        });
        assert!(matches!(answer, Err(SourceError::Stalled { got: g, .. }) if g == got));
        assert!(start.elapsed() >= limit && got < 200_000);
    }

    #[test]
    fn what_hangs_is_bounded_in_number() {
        let readers = Arc::default();
        let soon = request(Duration::ZERO, LONG);
        let mut mounts = vec![];
        for _ in 0..MOST_READERS {
            let (allow, open) = mount();
            mounts.push(allow);
            let answer = in_time(&readers, open, &soon, &mut |_| ControlFlow::Continue(()));
            assert!(matches!(answer, Err(SourceError::Stalled { .. })));
        }
        let open = || -> Result<Mount, SourceError> { panic!("not opened") };
        let answer = in_time(&readers, open, &soon, &mut |_| ControlFlow::Continue(()));
        let error = answer.unwrap_err();
        assert!(error.to_string().contains("64 reads of it hang") && error.may_pass());
        drop(mounts);
        while readers.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn ranges_of_files() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..200_010u32).map(|i| (i % 251) as u8).collect();
        let path = dir.path().join(file_name(Commitment([1; 32]), What::Blob));
        let source = FolderSource::new(dir.path());
        let get = |request: &Request| {
            let mut got = vec![];
            let answer = source.read(request, &mut |piece| {
                got.extend_from_slice(piece);
                ControlFlow::Continue(())
            });
            (answer, got)
        };
        let whole = request(LONG, LONG);
        assert_eq!(get(&whole), (Err(SourceError::Absent), vec![]));
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(get(&whole), (Ok(()), bytes[10..].to_vec()));
        let beyond = Request {
            range: 100..200_011,
            ..whole.clone()
        };
        let (got, asked) = (199_910, 199_911);
        let fewer = Err(SourceError::Fewer { got, asked });
        assert_eq!(get(&beyond), (fewer, bytes[100..].to_vec()));
        let mut calls = 0;
        let answer = source.read(&whole, &mut |_| {
            calls += 1;
            ControlFlow::Break(())
        });
        assert_eq!((answer, calls), (Ok(()), 1));
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let (answer, _) = get(&whole);
        assert!(matches!(answer, Err(SourceError::Io(why)) if why.contains("not a regular file")));
    }
}
