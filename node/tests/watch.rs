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
            names: None,
        };
        Self {
            registry: Registry::new(),
            library,
            watch: Watch::new(Arc::clone(&resident), options).unwrap(),
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

    /// The node after a restart; of the logs it is given those from `logs` on.
    fn restart(&mut self, names: Option<std::path::PathBuf>, archive: Archive, logs: usize) {
        let options = Options {
            alarm: 2,
            archive,
            retry: Duration::ZERO,
            names,
        };
        self.watch = Watch::new(Arc::clone(&self.resident), options).unwrap();
        self.logs = logs;
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
        matches!(progress(models, blob.commitment), Some(Progress::Failed(why)) if why.contains("no source") && !why.contains('\n'))
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
    node.watch = Watch::new(Arc::clone(&node.resident), Options::default()).unwrap();
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
        node.registry.0.block += 1;
        node.observe();
        for blob in [first, revoked] {
            assert_eq!(node.has(blob), keeps);
        }
        assert!(node.has(stray), "it is here for later");
        assert!(node.has(second));
    }
}

#[test]
fn names_that_wait_for_ever_are_kept_across_restarts() {
    let blob = Blob::sample(small(), 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names");
    let mut node = Node::new(&[&blob], u64::MAX, Archive::All);
    node.restart(Some(path.clone()), Archive::All, 0);
    node.registry.propose(&NAME, 1, &blob);
    assert_eq!(node.observe().len(), 1);
    // Adoptions do not expire. No log is given, and no list of the state has the name.
    node.registry.0.block += 1000 * DELAY;
    let logs = node.registry.0.logs.len();
    node.restart(None, Archive::All, logs);
    assert_eq!(node.observe(), []);
    node.restart(Some(path.clone()), Archive::All, logs);
    let models = node.observe();
    assert_eq!(models.len(), 1);
    assert!(models[0].alarm || models[0].progress.is_ready());
    // Another file in its place is told, not taken.
    for wrong in ["x", "00", &"0".repeat(63), &"g".repeat(64)] {
        std::fs::write(&path, wrong).unwrap();
        let options = Options {
            names: Some(path.clone()),
            ..Options::default()
        };
        let error = Watch::new(Arc::clone(&node.resident), options)
            .err()
            .unwrap();
        assert!(error.to_string().contains("line 1"), "{error}");
    }
}

#[test]
fn what_was_revoked_while_nobody_watched_stays_for_as_long() {
    let (old, new) = (Blob::sample(small(), 1), Blob::sample(small(), 2));
    let mut node = Node::new(&[&old, &new], u64::MAX, Archive::All);
    node.adopt(&NAME, 1, &old);
    node.adopt(&NAME, 2, &new);
    node.registry.0.block = 3000;
    node.adopt(&NAME, 3, &old);
    node.registry.0.block = 4000;
    node.registry.revoke(&NAME, 3);
    node.registry.0.block = 4100;
    node.restart(None, Archive::Recent { blocks: 1000 }, 0);
    node.observe();
    assert!(node.has(&old), "block 4000 may have used it");
    node.registry.0.block = 5101;
    node.observe();
    assert!(!node.has(&old) && !node.has(&new));
}

#[test]
fn a_reorganisation_of_any_depth_is_noticed() {
    let blobs: Vec<_> = (1..=2).map(|seed| Blob::sample(small(), seed)).collect();
    let mut node = Node::new(&[&blobs[0], &blobs[1]], u64::MAX, Archive::All);
    let name = |i: u8, fork: u8| [[i; 31].as_slice(), &[fork]].concat().try_into().unwrap();
    let before = node.registry.0.clone();
    let mut found = Vec::new();
    for fork in [1, 2] {
        node.registry.0 = before.clone();
        for i in 1..=200u8 {
            node.adopt(&name(i, fork), 1, &blobs[usize::from(fork - 1)]);
        }
        // No log is given: the list alone tells.
        node.logs = node.registry.0.logs.len();
        found.push(node.observe());
    }
    let of = |fork: u8| {
        let names = found[usize::from(fork - 1)].iter();
        names.filter(|model| model.name[31] == fork).count()
    };
    assert_eq!((of(1), of(2)), (200, 200));
    assert!(
        found[1]
            .iter()
            .all(|model| model.commitment == blobs[1].commitment)
    );
}

#[test]
fn a_fetch_that_nobody_wants_any_more_ends() {
    let blob = Blob::sample(small(), 1);
    let mut node = Node::new(&[], u64::MAX, Archive::All);
    node.offer(&blob);
    node.library.endless.store(true, Ordering::Relaxed);
    node.registry.propose(&NAME, 1, &blob);
    node.until("it begins", |models| {
        matches!(models[0].progress, Progress::Fetching { done: 1, .. })
    });
    node.registry.revoke(&NAME, 1);
    assert_eq!(node.observe(), []);
    eventually("it ends", || {
        node.library.broken.load(Ordering::Relaxed) == 1
    });
}

#[test]
fn a_failure_is_not_tried_again_at_once() {
    let blob = Blob::sample(small(), 1);
    let mut node = Node::new(&[], u64::MAX, Archive::All);
    let options = Options {
        retry: Duration::from_secs(3600),
        ..Options::default()
    };
    node.watch = Watch::new(Arc::clone(&node.resident), options).unwrap();
    node.registry.propose(&NAME, 1, &blob);
    node.until("fails", |models| {
        matches!(models[0].progress, Progress::Failed(_))
    });
    for _ in 0..20 {
        node.observe();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(node.library.fetches.load(Ordering::Relaxed), 1);
}
