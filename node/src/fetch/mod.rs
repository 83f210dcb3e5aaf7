//! Blobs from sources that nobody has to trust.
//!
//! All sources are asked for record and leaves; the first that give the commitment prove every later byte: 32 bytes for
//! 64 KiB. Then some connections to each source get runs of chunks, each chunk is compared with its leaf, and what is right
//! is written to the store's partial file. A source that sends other bytes is not asked again; one that fails or stalls gets
//! a few more tries. What a slow source holds at the end is taken over by others. A fetch that broke off goes on with the
//! chunks that are on the disk.
//!
//! ```no_run
//! use blue_node::fetch::{FolderSource, HttpSource, Options, Source, fetch};
//! use blue_node::store::Store;
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//!
//! let store = Store::open("/var/lib/blue/blobs")?;
//! let commitment = "0x92e33a…".parse()?;
//! let sources: [Arc<dyn Source>; 2] = [
//!     Arc::new(HttpSource::new("https://blobs.example.org")?),
//!     Arc::new(FolderSource::new("/mnt/blobs")),
//! ];
//! let report = fetch(&store, commitment, &sources, &Options::default(), &mut |_| ControlFlow::Continue(()))?;
//! println!("{} bytes, {} of them were here", report.len, report.kept);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::store::{Partial, Publishing, Store};
use board::Board;
use int_engine::commitment::{CHUNK, Commitment, Tree};
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

mod board;
mod folder;
mod http;
mod prove;
mod queue;
mod report;
mod source;
mod worker;

pub use folder::FolderSource;
pub use http::{AddressError, HttpSource};
pub use report::{Fault, FetchError, Report, SourceReport, Trouble};
pub use source::{Request, Source, SourceError};

/// How often a caller hears of a fetch in which nothing arrives.
const TICK: Duration = Duration::from_millis(100);
/// The longest pause before a source is asked again.
const MOST_BACKOFF: Duration = Duration::from_secs(10);
/// Chunks that have arrived and are not written yet, at most: 4 MiB.
const UNWRITTEN: usize = 64;

/// How to fetch.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest blob that is taken, in bytes. Leaves of so long a blob are held in memory, 32 bytes for 64 KiB.
    pub max_blob_len: u64,
    /// Connections to each source.
    pub connections: NonZeroUsize,
    /// Failed rounds after which a source is given up; what it gives in between starts the count again.
    pub tries: NonZeroU32,
    /// The pause after the first failure; it doubles with each, up to 10 s.
    pub backoff: Duration,
    /// A request in which nothing arrives for so long has failed.
    pub stall: Duration,
    /// The least bytes a second of one connection: a request may take [`Options::stall`] and the time for its bytes.
    pub least_rate: u64,
    /// How long a source may hold chunks before idle ones take them over.
    pub patience: Duration,
    /// Bytes of one request, at most; at least one chunk is asked for.
    pub run: u64,
    /// Whether disk space for the whole blob is taken at once.
    pub reserve: bool,
    /// Threads that hash; the result does not depend on it.
    pub threads: NonZeroUsize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_blob_len: 64 << 30,
            connections: NonZeroUsize::new(4).unwrap_or(NonZeroUsize::MIN),
            tries: NonZeroU32::new(4).unwrap_or(NonZeroU32::MIN),
            backoff: Duration::from_millis(250),
            stall: Duration::from_secs(10),
            least_rate: 64 << 10,
            patience: Duration::from_secs(1),
            run: 1 << 20,
            reserve: true,
            threads: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }
}

impl Options {
    /// The longest that a request for so many bytes may take.
    fn limit(&self, bytes: u64) -> Duration {
        let millis = bytes.saturating_mul(1000) / self.least_rate.max(1);
        self.stall.saturating_add(Duration::from_millis(millis))
    }

    fn run_chunks(&self) -> u64 {
        (self.run / CHUNK as u64).max(1)
    }
}

/// Where a fetch stands; bytes done, of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Record and leaves are asked for.
    Proving,
    /// What is on the disk is hashed.
    Checking(u64, u64),
    /// Chunks arrive.
    Fetching(u64, u64),
    /// All chunks are here.
    Publishing(Publishing),
}

fn tick(
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    step: Progress,
) -> Result<(), FetchError> {
    match progress(step) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(FetchError::Cancelled),
    }
}

/// Ends the threads when the fetch does.
struct Stop<'a>(&'a Board);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Gets a blob into the store. A published one is not fetched again, nor is a chunk that is on the disk. `progress` is
/// called in this thread, several times a second, and may break the fetch off.
///
/// Threads that wait for a source when the fetch ends are left behind; they end with their request, within
/// [`Options::stall`] and the time for its bytes, and change nothing.
///
/// # Errors
/// [`FetchError`]; nothing is published then, and what has arrived is kept.
pub fn fetch(
    store: &Store,
    commitment: Commitment,
    sources: &[Arc<dyn Source>],
    options: &Options,
    progress: &mut (dyn FnMut(Progress) -> ControlFlow<()> + Send),
) -> Result<Report, FetchError> {
    let board = Arc::new(Board::new(commitment, sources, options));
    let _stop = Stop(&board);
    if let Some(blob) = store.blob(commitment)? {
        let len = blob.len();
        return Ok(Report {
            commitment,
            len,
            kept: len,
            sources: board.reports(),
        });
    }
    let slot = store.slot(commitment)?;
    let (tree, first) = match slot.known()? {
        Some(tree) => (tree, None),
        None if sources.is_empty() => return Err(FetchError::NoSources(commitment)),
        None => {
            let proof = prove::prove(&board, progress)?;
            (proof.tree, proof.record.map(|bytes| (proof.source, bytes)))
        }
    };
    tracing::info!(%commitment, bytes = tree.total_len(), "proved");
    board.prove();
    // Asked between steps: hashing what is here cannot be broken off in the middle.
    let mut broken = Ok(());
    let checking = &mut |done, total| {
        let step = tick(progress, Progress::Checking(done, total));
        broken = std::mem::replace(&mut broken, Ok(())).and(step);
    };
    let mut partial = slot.open(tree, options.reserve, options.threads, checking)?;
    broken?;
    let kept = partial.bytes();
    if let Some((source, record)) = first
        && partial.held().first() == Some(&false)
    {
        partial.write(0, &record)?;
        board.credit(source, record.len() as u64);
    }
    board.want(partial.held());
    if partial.missing() > 0 {
        download(&board, &mut partial, progress)?;
    }
    board.stop();
    let blob = partial.publish(&mut |step| {
        // Nothing is left to break off.
        let _ = progress(Progress::Publishing(step));
    })?;
    Ok(Report {
        commitment,
        len: blob.len(),
        kept,
        sources: board.reports(),
    })
}

/// Writes what the workers bring until nothing is missing or no worker is left.
fn download(
    board: &Arc<Board>,
    partial: &mut Partial<'_>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), FetchError> {
    if board.sources.is_empty() {
        return Err(FetchError::NoSources(board.commitment));
    }
    let (send, chunks) = mpsc::sync_channel(UNWRITTEN);
    let tree: Arc<Tree> = Arc::new(partial.tree().clone());
    let (mut started, mut refused) = (0u32, None);
    for _ in 0..board.options.connections.get() {
        for source in 0..board.sources.len() {
            let (board, tree, send) = (board.clone(), tree.clone(), send.clone());
            let thread = thread::Builder::new()
                .name("blue-fetch".into())
                .spawn(move || worker::work(&board, &tree, source, &send));
            match thread {
                Ok(_) => started += 1,
                Err(error) => refused = Some(error),
            }
        }
    }
    drop(send);
    if let Some(error) = refused.filter(|_| started == 0) {
        return Err(FetchError::Threads(error));
    }
    let total = partial.tree().total_len();
    let mut done = partial.bytes();
    while partial.missing() > 0 {
        match chunks.recv_timeout(TICK) {
            Ok(worker::Chunk { index, bytes }) => {
                partial.write(index, &bytes)?;
                done += bytes.len() as u64;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(FetchError::Exhausted {
                    commitment: board.commitment,
                    missing: Some(partial.missing()),
                    sources: board.reports(),
                });
            }
        }
        tick(progress, Progress::Fetching(done, total))?;
    }
    Ok(())
}
