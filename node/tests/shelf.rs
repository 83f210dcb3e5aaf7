//! A watch over a real store: an adopted model comes from a source, is loaded and answers.

mod world;

use blue_node::fetch::{FolderSource, Options as FetchOptions, Request, Source, SourceError};
use blue_node::library::Library;
use blue_node::models::{Purpose, Resident};
use blue_node::shelf::Shelf;
use blue_node::store::{Store, What, chunk_range};
use blue_node::watch::{Options, Progress, Watch};
use precompile::{Lookup, Models};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use world::{Blob, DELAY, Registry, cpu, eventually, small};

const NAME: [u8; 32] = [7; 32];

/// Counts the bytes that a source hands over.
struct Counted(Arc<dyn Source>, Arc<AtomicU64>);

impl Source for Counted {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn read(
        &self,
        request: &Request,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        self.0.read(request, &mut |piece| {
            self.1.fetch_add(piece.len() as u64, Ordering::Relaxed);
            take(piece)
        })
    }
}

/// A folder that offers a blob.
fn source(folder: &Path, blob: &Blob) -> Arc<dyn Source> {
    let store = Store::open(folder).unwrap();
    let path = folder.join("model");
    std::fs::write(&path, &blob.bytes).unwrap();
    store
        .import(&path, None, NonZeroUsize::MIN, &mut |_| ())
        .unwrap();
    Arc::new(FolderSource::new(folder))
}

/// A registry that has adopted a blob, and a node on the shelf that is ready for it.
fn adopted(shelf: &Arc<Shelf>, blob: &Blob) -> (Arc<Resident>, Registry) {
    let library: Arc<dyn Library> = Arc::clone(shelf) as _;
    let resident = Arc::new(Resident::new(library, Arc::new(cpu(0)), u64::MAX));
    let options = Options {
        retry: Duration::ZERO,
        ..Options::default()
    };
    let mut watch = Watch::new(Arc::clone(&resident), options).unwrap();
    let mut registry = Registry::new();
    registry.propose(&NAME, 1, blob);
    for (topics, data) in &registry.0.logs {
        watch.log(topics, data);
    }
    eventually("ready", || {
        let models = watch.observe(registry.0.block, &mut registry.state());
        models.unwrap()[0].progress == Progress::Ready
    });
    (resident, registry)
}

#[test]
fn from_a_proposal_to_an_answer_through_the_store() {
    let blob = Blob::sample(small(), 1);
    let folder = tempfile::tempdir().unwrap();
    let sources = vec![source(&folder.path().join("theirs"), &blob)];
    let ours = folder.path().join("ours");
    let store = Store::open(&ours).unwrap();
    let shelf = Arc::new(Shelf::new(store, sources, FetchOptions::default()));
    let (resident, mut registry) = adopted(&shelf, &blob);
    registry.0.block += DELAY;
    registry.activate(&NAME, 1);
    let seen = resident.models(Purpose::Blocks);
    assert!(matches!(seen.model(blob.commitment), Ok(Lookup::Ready(_))));
    assert_eq!(shelf.list().unwrap(), [blob.commitment]);
    // What the chain says of the length is a bound: a source cannot make the node take more.
    let shelf = Shelf::new(
        Store::open(folder.path().join("third")).unwrap(),
        vec![Arc::new(FolderSource::new(&ours))],
        FetchOptions::default(),
    );
    let len = blob.bytes.len() as u64;
    let go_on = &|_, _| ControlFlow::Continue(());
    assert!(shelf.fetch(blob.commitment, Some(len - 1), go_on).is_err());
    assert!(shelf.open(blob.commitment).unwrap().is_none());
    shelf.fetch(blob.commitment, Some(len), go_on).unwrap();
    assert!(shelf.open(blob.commitment).unwrap().is_some());
    shelf.remove(blob.commitment).unwrap();
    assert!(shelf.list().unwrap().is_empty());
    // A store beyond the node's own limit.
    let small = FetchOptions {
        max_blob_len: 10,
        ..FetchOptions::default()
    };
    let store = Store::open(folder.path().join("fourth")).unwrap();
    let why = Shelf::new(store, vec![], small).fetch(blob.commitment, Some(len), go_on);
    assert!(why.unwrap_err().contains("more than the limit of 10"));
}

#[test]
fn a_damaged_blob_under_an_open_store_is_mended_chunk_by_chunk() {
    let blob = Blob::sample(small(), 1);
    let folder = tempfile::tempdir().unwrap();
    let bytes = Arc::new(AtomicU64::new(0));
    let theirs = source(&folder.path().join("theirs"), &blob);
    let sources: Vec<Arc<dyn Source>> = vec![Arc::new(Counted(theirs, Arc::clone(&bytes)))];
    let ours = folder.path().join("ours");
    let shelf = Shelf::new(
        Store::open(&ours).unwrap(),
        sources,
        FetchOptions::default(),
    );
    let go_on = &|_, _| ControlFlow::Continue(());
    // Nothing is at hand: there is nothing to look at.
    shelf.damaged(blob.commitment).unwrap();
    shelf.fetch(blob.commitment, None, go_on).unwrap();
    // It is right: it stays.
    shelf.damaged(blob.commitment).unwrap();
    let path = shelf.store().path(blob.commitment, What::Blob);
    assert_eq!(std::fs::read(&path).unwrap(), blob.bytes);

    let len = blob.bytes.len() as u64;
    let last = int_engine::commitment::chunk_count(len) - 1;
    assert!(last >= 1);
    for index in [0, 1, last] {
        let range = chunk_range(len, index).unwrap();
        let mut wrong = blob.bytes.clone();
        wrong[range.start as usize + 7] ^= 0x20;
        std::fs::write(&path, wrong).unwrap();
        // Nobody has said so: what is there is what is opened, and fetching changes nothing.
        shelf.fetch(blob.commitment, Some(len), go_on).unwrap();
        let (reader, _) = shelf.open(blob.commitment).unwrap().unwrap();

        shelf.damaged(blob.commitment).unwrap();
        assert!(shelf.open(blob.commitment).unwrap().is_none());
        assert!(shelf.list().unwrap().is_empty());
        drop(reader);
        bytes.store(0, Ordering::Relaxed);
        shelf.fetch(blob.commitment, Some(len), go_on).unwrap();
        assert_eq!(bytes.load(Ordering::Relaxed), range.end - range.start);
        assert_eq!(std::fs::read(&path).unwrap(), blob.bytes);
    }
}

#[test]
fn a_blob_that_the_disk_has_changed_is_repaired_from_a_source() {
    let blob = Blob::sample(small(), 1);
    let folder = tempfile::tempdir().unwrap();
    let sources = vec![source(&folder.path().join("theirs"), &blob)];
    let ours = folder.path().join("ours");
    let shelf = Arc::new(Shelf::new(
        Store::open(&ours).unwrap(),
        sources,
        FetchOptions::default(),
    ));
    let go_on = &|_, _| ControlFlow::Continue(());
    shelf.fetch(blob.commitment, None, go_on).unwrap();
    let path = shelf.store().path(blob.commitment, What::Blob);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 7;
    bytes[at] ^= 4;
    std::fs::write(&path, &bytes).unwrap();
    adopted(&shelf, &blob);
    assert_eq!(std::fs::read(&path).unwrap(), blob.bytes);
}
