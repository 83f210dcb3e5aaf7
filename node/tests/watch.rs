//! Models are ready before they are active, alarms come in time, blobs stay as long as they are needed.

mod world;

use blue_node::library::Library;
use blue_node::models::{Purpose, Resident};
use blue_node::watch::{Archive, Options, Progress, Readiness, Watch};
use int_engine::commitment::Commitment;
use precompile::{Lookup, Models};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use world::{Blob, DELAY, Gated, Registry, cpu, eventually, library, small};

const NAME: [u8; 32] = [7; 32];
const OTHER: [u8; 32] = [8; 32];

struct Node {
    registry: Registry,
    library: Arc<Gated>,
    resident: Arc<Resident>,
    watch: Watch,
    logs: usize,
}

impl Node {
    fn new(there: &[&Blob], memory: u64, archive: Archive) -> Self {
        let library = library(there);
        let shared: Arc<dyn Library> = Arc::clone(&library) as _;
        let resident = Arc::new(Resident::new(shared, Arc::new(cpu(0)), memory));
        let options = Options {
            alarm: 2,
            archive,
            retry: Duration::ZERO,
        };
        Self {
            registry: Registry::new(),
            library,
            watch: Watch::new(Arc::clone(&resident), options),
            resident,
            logs: 0,
        }
    }

    fn offer(&self, blob: &Blob) {
        let mut elsewhere = self.library.elsewhere.lock().unwrap();
        elsewhere.insert(blob.commitment, blob.bytes.clone());
    }

    /// The end of a block.
    fn observe(&mut self) -> Vec<Readiness> {
        for (topics, data) in &self.registry.0.logs[self.logs..] {
            self.watch.log(topics, data);
        }
        self.logs = self.registry.0.logs.len();
        let block = self.registry.0.block;
        let mut state = self.registry.state();
        self.watch.observe(block, &mut state).unwrap()
    }

    fn until(&mut self, what: &str, done: impl Fn(&[Readiness]) -> bool) {
        eventually(what, || done(&self.observe()));
    }

    fn adopt(&mut self, name: &[u8; 32], version: u64, blob: &Blob) {
        self.registry.propose(name, version, blob);
        self.registry.0.block += DELAY;
        self.registry.activate(name, version);
    }

    fn has(&self, blob: &Blob) -> bool {
        self.library.list().unwrap().contains(&blob.commitment)
    }
}

fn progress(models: &[Readiness], commitment: Commitment) -> Option<&Progress> {
    let found = models.iter().find(|model| model.commitment == commitment);
    found.map(|model| &model.progress)
}

#[test]
fn a_model_is_ready_before_its_activation_and_then_answers_at_once() {
    let blob = Blob::sample(small(), 1);
    let mut node = Node::new(&[], u64::MAX, Archive::All);
    assert_eq!(node.observe(), []);
    node.registry.propose(&NAME, 1, &blob);
    // Nobody has the blob yet. The alarm begins two blocks before the activation.
    for left in (0..=DELAY).rev() {
        let models = node.observe();
        assert_eq!(models.len(), 1);
        assert_eq!(models[0].activation, Some(1 + DELAY));
        assert_eq!(models[0].name, NAME);
        assert_eq!(models[0].alarm, left <= 2, "{left} blocks left");
        node.registry.0.block += u64::from(left > 0);
    }
    node.until("fails", |models| {
        matches!(progress(models, blob.commitment), Some(Progress::Failed(why)) if why.contains("no source"))
    });
    node.offer(&blob);
    node.until("ready", |models| !models[0].alarm);
    let models = node.observe();
    assert_eq!(models[0].progress, Progress::Ready);
    // Activated: nothing is fetched or loaded any more.
    let fetches = node.library.fetches.load(Ordering::Relaxed);
    node.registry.activate(&NAME, 1);
    node.library.there.remove(blob.commitment).unwrap();
    let models = node.observe();
    assert_eq!(models[0].activation, None);
    for purpose in [Purpose::Blocks, Purpose::Calls] {
        let seen = node.resident.models(purpose);
        assert!(matches!(seen.model(blob.commitment), Ok(Lookup::Ready(_))));
    }
    assert_eq!(node.library.fetches.load(Ordering::Relaxed), fetches);
}

#[test]
fn an_upgrade_keeps_both_until_it_happens() {
    let (old, new) = (Blob::sample(small(), 1), Blob::sample(small(), 2));
    let mut node = Node::new(&[&old, &new], u64::MAX, Archive::All);
    node.adopt(&NAME, 1, &old);
    node.registry.propose(&NAME, 2, &new);
    node.until("both ready", |models| {
        models.len() == 2 && models.iter().all(|model| model.progress == Progress::Ready)
    });
    assert!(node.resident.status().iter().all(|model| model.pinned));
    node.registry.0.block += DELAY;
    node.registry.activate(&NAME, 2);
    let models = node.observe();
    assert_eq!(models.len(), 1);
    assert_eq!(
        (models[0].commitment, models[0].activation),
        (new.commitment, None)
    );
    let pinned = node
        .resident
        .status()
        .into_iter()
        .filter(|model| model.pinned);
    assert_eq!(
        pinned.map(|m| m.commitment).collect::<Vec<_>>(),
        [new.commitment]
    );
}

#[test]
fn what_does_not_fit_is_an_alarm_before_its_activation() {
    let (a, b) = (Blob::sample(small(), 1), Blob::sample(small(), 2));
    let memory = a.bytes.len() as u64 * 3 / 2;
    let mut node = Node::new(&[&a, &b], memory, Archive::All);
    node.adopt(&NAME, 1, &a);
    node.until("ready", |models| !models[0].alarm);
    node.registry.propose(&OTHER, 1, &b);
    node.registry.0.block += DELAY - 2;
    node.until("refused", |models| {
        models.iter().any(|model| {
            model.alarm
                && model.activation.is_some()
                && matches!(&model.progress, Progress::Failed(why) if why.contains("Raise the limit"))
        })
    });
    // The active one is as it was.
    let models = node.observe();
    assert_eq!(progress(&models, a.commitment), Some(&Progress::Ready));
    // Revoked, there is nothing left to prepare.
    node.registry.revoke(&OTHER, 1);
    assert_eq!(node.observe().len(), 1);
}

#[test]
fn a_blob_that_section_4_refuses_is_ready_to_be_refused() {
    let mut bytes = Blob::sample(small(), 1).bytes;
    // A stop id order, a range, whatever: the last byte of the first tensor's padding will do. The record stays as it is.
    bytes[1024] ^= 1;
    let bad = Blob::of(bytes);
    let mut node = Node::new(&[&bad], u64::MAX, Archive::All);
    node.adopt(&NAME, 1, &bad);
    node.until("known", |models| models[0].progress == Progress::Refused);
    assert!(!node.observe()[0].alarm);
}

#[test]
fn names_come_from_the_state_after_a_start() {
    let (a, b) = (Blob::sample(small(), 1), Blob::sample(small(), 2));
    let mut node = Node::new(&[&a, &b], u64::MAX, Archive::All);
    node.adopt(&NAME, 1, &a);
    node.registry.propose(&NAME, 2, &b);
    node.registry.propose(&OTHER, 1, &b);
    // A new watch without any log knows the active name and what waits under it, and learns the other one from its log.
    node.watch = Watch::new(Arc::clone(&node.resident), Options::default());
    node.logs = node.registry.0.logs.len();
    assert_eq!(node.observe().len(), 2);
    node.logs = 0;
    assert_eq!(node.observe().len(), 3);
}

#[test]
fn blobs_go_when_no_recent_block_can_have_used_them() {
    let blobs: Vec<_> = (1..=4).map(|seed| Blob::sample(small(), seed)).collect();
    let [first, second, revoked, stray] = &blobs[..] else {
        unreachable!()
    };
    let all: Vec<_> = blobs.iter().collect();
    for archive in [Archive::All, Archive::Recent { blocks: 20 }] {
        let keeps = archive == Archive::All;
        let mut node = Node::new(&all, u64::MAX, archive);
        node.adopt(&NAME, 1, first);
        node.adopt(&OTHER, 1, revoked);
        node.observe();
        let replaced = node.registry.0.block + DELAY;
        node.adopt(&NAME, 2, second);
        node.registry.revoke(&OTHER, 1);
        node.observe();
        node.registry.0.block = replaced + 20;
        node.observe();
        for blob in [first, second, revoked] {
            assert!(node.has(blob), "block {replaced} may have used it");
        }
        assert_eq!(node.has(stray), keeps, "seen for longer, and never used");
        node.registry.0.block += 1;
        node.observe();
        for blob in [first, revoked, stray] {
            assert_eq!(node.has(blob), keeps);
        }
        assert!(node.has(second));
    }
}
