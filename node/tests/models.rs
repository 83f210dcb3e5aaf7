//! Models in memory: what stays, what goes, who waits for whom, and that answers never depend on it.

mod world;

use blue_node::library::{Library, OnProgress, Open};
use blue_node::models::{Backend, Cpu, Purpose, Resident, Started};
use int_engine::commitment::Commitment;
use int_engine::config::Dims;
use int_engine::engine::{Engine, generate};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use int_engine::read::ReadAt;
use precompile::{Fault, Lookup, Models};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use world::{Blob, Gated, cpu, library, small, tiny};

fn resident(library: &Arc<Gated>, backend: impl Backend + 'static, memory: u64) -> Arc<Resident> {
    let library: Arc<dyn Library> = Arc::clone(library) as _;
    Arc::new(Resident::new(library, Arc::new(backend), memory))
}

fn ready(lookup: Result<Lookup, Fault>) -> Arc<dyn Engine> {
    match lookup {
        Ok(Lookup::Ready(engine)) => engine,
        Ok(Lookup::Refused) => panic!("refused"),
        Err(fault) => panic!("{fault}"),
    }
}

fn missing(lookup: Result<Lookup, Fault>) -> String {
    match lookup {
        Err(Fault::Missing { reason, .. }) => reason,
        Ok(_) => panic!("an answer"),
        Err(fault) => panic!("{fault}"),
    }
}

fn answer(engine: &dyn Engine, prompt: &[u32], max_new: usize) -> Vec<u32> {
    let mut session = engine.session().unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    generate(&mut *session, prompt, max_new, go_on).unwrap().ids
}

fn len(blob: &Blob) -> u64 {
    blob.bytes.len() as u64
}

#[test]
fn a_model_is_loaded_once_and_both_engines_share_it() {
    let blob = tiny();
    let library = library(&[&blob]);
    let resident = resident(&library, cpu(1 << 20), u64::MAX);
    let blocks = resident.models(Purpose::Blocks);
    let calls = resident.models(Purpose::Calls);
    let why = missing(calls.model(blob.commitment));
    assert!(why.contains("load nothing"), "{why}");
    let one = ready(blocks.model(blob.commitment));
    let again = ready(blocks.model(blob.commitment));
    assert!(Arc::ptr_eq(&one, &again));
    let other = ready(calls.model(blob.commitment));
    assert!(!Arc::ptr_eq(&one, &other));
    assert!(std::ptr::eq(one.config(), other.config()), "the same model");
    let status = resident.status();
    assert_eq!(status.len(), 1);
    assert_eq!(status[0].bytes, len(&blob) + (2 << 20));
    assert!(status[0].pinned);
}

#[test]
fn blobs_that_are_missing_damaged_or_bad() {
    let good = Blob::sample(small(), 1);
    let library = library(&[]);
    let resident = resident(&library, cpu(0), u64::MAX);
    let blocks = resident.models(Purpose::Blocks);
    missing(blocks.model(good.commitment));

    // Bytes of the commitment that section 4 refuses are an answer; it needs no memory and stays.
    let mut bad = good.bytes.clone();
    bad[1024] ^= 1;
    let refused = library.there.insert(bad.clone());
    for _ in 0..2 {
        assert!(matches!(blocks.model(refused), Ok(Lookup::Refused)));
        library.there.remove(refused).unwrap();
    }
    assert_eq!(resident.status(), []);
    let calls = resident.models(Purpose::Calls);
    assert!(matches!(calls.model(refused), Ok(Lookup::Refused)));

    // A fault is no answer: when its cause is put right, the next call finds the model.
    library.there.insert(good.bytes.clone());
    ready(blocks.model(good.commitment));
}

/// A library that only opens.
struct Opens<F>(F);

impl<F> Library for Opens<F>
where
    F: Fn(Commitment) -> Option<Open> + Send + Sync,
{
    fn open(&self, commitment: Commitment) -> std::io::Result<Option<Open>> {
        Ok((self.0)(commitment))
    }

    fn fetch(&self, _: Commitment, _: Option<u64>, _: OnProgress<'_>) -> Result<(), String> {
        Err("nowhere".into())
    }

    fn damaged(&self, _: Commitment) -> std::io::Result<()> {
        Ok(())
    }

    fn list(&self) -> std::io::Result<Vec<Commitment>> {
        Ok(vec![])
    }

    fn remove(&self, _: Commitment) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_library_is_never_believed() {
    let blob = Blob::sample(small(), 1);
    for at in (0..blob.bytes.len()).step_by(997) {
        let mut bytes = blob.bytes.clone();
        bytes[at] ^= 0x10;
        let len = bytes.len() as u64;
        let bytes: Arc<[u8]> = bytes.into();
        // Other bytes than those that were asked for.
        let liar = Opens(move |_| Some((Box::new(Arc::clone(&bytes)) as Box<_>, len)));
        let resident = Resident::new(Arc::new(liar), Arc::new(cpu(0)), u64::MAX);
        let why = missing(resident.prepare(blob.commitment));
        assert!(why.contains("the bytes are those of"), "{at}: {why}");
    }
}

#[test]
fn two_large_models_never_push_each_other_out() {
    let (a, b) = (Blob::sample(small(), 1), Blob::sample(small(), 2));
    let library = library(&[&a, &b]);
    // Room for one and a half.
    let resident = resident(&library, cpu(0), len(&a) * 3 / 2);
    let blocks = resident.models(Purpose::Blocks);
    let first = ready(blocks.model(a.commitment));
    for _ in 0..3 {
        let why = missing(blocks.model(b.commitment));
        assert!(why.contains(&format!("{} bytes", len(&b))), "{why}");
        assert!(why.contains("Raise the limit"), "{why}");
        assert!(Arc::ptr_eq(&first, &ready(blocks.model(a.commitment))));
    }
    // Once the chain no longer needs the first, the second takes its place, and the first may not come back.
    resident.keep(BTreeSet::from([b.commitment]));
    ready(blocks.model(b.commitment));
    assert_eq!(resident.status().len(), 1);
    missing(blocks.model(a.commitment));
    // Nothing must stay: a replay of old blocks loads one after the other.
    resident.keep(BTreeSet::new());
    for blob in [&a, &b, &a, &b] {
        ready(blocks.model(blob.commitment));
        assert_eq!(resident.status()[0].commitment, blob.commitment);
        assert!(!resident.status()[0].pinned);
    }
}

#[test]
fn the_least_recently_used_goes_first() {
    let blobs: Vec<_> = (1..=4).map(|seed| Blob::sample(small(), seed)).collect();
    let library = library(&blobs.iter().collect::<Vec<_>>());
    let resident = resident(&library, cpu(0), 3 * len(&blobs[0]));
    resident.keep(BTreeSet::new());
    let blocks = resident.models(Purpose::Blocks);
    for i in [0, 1, 2, 0, 2] {
        ready(blocks.model(blobs[i].commitment));
    }
    ready(blocks.model(blobs[3].commitment));
    let there: BTreeSet<_> = resident.status().iter().map(|m| m.commitment).collect();
    let expected = [0, 2, 3].map(|i: usize| blobs[i].commitment);
    assert_eq!(there, BTreeSet::from(expected));
}

#[test]
fn nobody_waits_for_another_models_load() {
    let (here, slow) = (Blob::sample(small(), 1), Blob::sample(small(), 2));
    let library = library(&[&here, &slow]);
    let resident = resident(&library, cpu(0), u64::MAX);
    let blocks = resident.models(Purpose::Blocks);
    ready(blocks.model(here.commitment));
    library.hold(slow.commitment);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| ready(blocks.model(slow.commitment))))
            .collect();
        // The load has begun and does not end, and these go on.
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..100 {
            let engine = ready(blocks.model(here.commitment));
            assert_eq!(answer(&*engine, &[1], 2).len(), 2);
            ready(resident.models(Purpose::Calls).model(here.commitment));
        }
        assert!(waiting.iter().all(|thread| !thread.is_finished()));
        library.release();
        let engines: Vec<_> = waiting.into_iter().map(|t| t.join().unwrap()).collect();
        assert!(
            engines
                .windows(2)
                .all(|pair| Arc::ptr_eq(&pair[0], &pair[1]))
        );
    });
}

#[test]
fn answers_do_not_depend_on_what_is_kept() {
    let blob = Blob::sample(
        Dims {
            max_context: 600,
            ..small()
        },
        3,
    );
    let plain = blob.engine(Kernels::scalar());
    let library = library(&[&blob]);
    let resident = resident(&library, cpu(8 << 20), u64::MAX);
    let blocks = resident.models(Purpose::Blocks);
    let base: Vec<u32> = (0..300).map(|i| (i * 7 + 3) % 37).collect();
    for round in 0..40usize {
        // Prompts that begin alike, of lengths around the borders of pages.
        let n = 60 + (round * 37) % 240;
        let mut prompt = base[..n].to_vec();
        if round % 3 == 0 {
            prompt[n - 1 - round % 20] ^= 1;
        }
        let engine = ready(blocks.model(blob.commitment));
        let expected = answer(&plain, &prompt, 8);
        assert_eq!(answer(&*engine, &prompt, 8), expected, "{round}");
    }
    let stats = resident.prefix_stats(blob.commitment, Purpose::Blocks);
    let stats = stats.unwrap();
    assert!(stats.hits > 20 && stats.positions > 20 * 64, "{stats:?}");
    let calls = resident.prefix_stats(blob.commitment, Purpose::Calls);
    assert_eq!(calls.unwrap().hits, 0);
}

/// A backend that starts engines of another model, or panics.
struct Wrong {
    cpu: Cpu,
    other: Arc<Model>,
    panics: bool,
    started: AtomicUsize,
}

impl Backend for Wrong {
    fn name(&self) -> &str {
        "wrong"
    }

    fn beside_weights(&self) -> u64 {
        0
    }

    fn start(&self, _: &Arc<Model>, purpose: Purpose) -> Result<Started, Fault> {
        self.started.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics, "a defect of the backend");
        self.cpu.start(&self.other, purpose)
    }
}

#[test]
fn a_wrong_engine_is_found_before_it_answers() {
    let (blob, other) = (Blob::sample(small(), 1), Blob::sample(small(), 2));
    let wrong = |panics| Wrong {
        cpu: cpu(0),
        other: Arc::clone(other.engine(Kernels::scalar()).model()),
        panics,
        started: AtomicUsize::new(0),
    };
    let library = library(&[&blob]);
    let checked = resident(&library, wrong(false), u64::MAX);
    let differs = |lookup: Result<Lookup, Fault>| match lookup {
        Err(Fault::Engine(fault)) => fault.to_string().contains("different logits"),
        _ => false,
    };
    assert!(differs(checked.prepare(blob.commitment)));
    // It stays wrong, for blocks too: nobody loads it again and asks it.
    for _ in 0..2 {
        assert!(differs(
            checked.models(Purpose::Blocks).model(blob.commitment)
        ));
    }
    missing(checked.models(Purpose::Calls).model(blob.commitment));
    assert_eq!(checked.status(), []);
    checked.forgive();
    assert!(differs(
        checked.models(Purpose::Blocks).model(blob.commitment)
    ));
    // A panic ends the load for all who wait, and the next one begins anew.
    let panicking = resident(&library, wrong(true), u64::MAX);
    for _ in 0..2 {
        let blocks = panicking.models(Purpose::Blocks);
        match blocks.model(blob.commitment) {
            Err(Fault::Panic(text)) => assert!(text.contains("a defect"), "{text}"),
            _ => panic!("no panic"),
        }
    }
    ready(resident(&library, cpu(0), u64::MAX).prepare(blob.commitment));
}

/// Bytes that are read wrongly once.
struct Flaky {
    bytes: Vec<u8>,
    at: u64,
    flips: AtomicBool,
}

impl ReadAt for Flaky {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let n = self.bytes[..].read_at(buffer, offset)?;
        if (offset..offset + n as u64).contains(&self.at)
            && self.flips.swap(false, Ordering::Relaxed)
        {
            buffer[(self.at - offset) as usize] ^= 0x10;
        }
        Ok(n)
    }
}

#[test]
fn a_reading_that_fails_once_is_no_verdict_on_the_blob() {
    let blob = Blob::sample(small(), 1);
    let load = |bytes: &[u8], at: u64, flips: bool| {
        let source = Flaky {
            bytes: bytes.to_vec(),
            at,
            flips: AtomicBool::new(flips),
        };
        let commitment = int_engine::commitment::commitment(bytes);
        let len = bytes.len() as u64;
        precompile::load(commitment, &source, len, std::num::NonZeroUsize::MIN)
    };
    let last = blob.bytes.len() as u64 - 1;
    for at in [0, 20, 1023, 1024, 1100, last / 2, last] {
        let model = load(&blob.bytes, at, true).unwrap();
        assert!(model.is_some(), "byte {at}: the second reading is right");
    }
    // A blob that was never good stays so, however it is read.
    let mut bad = blob.bytes.clone();
    bad[1024] ^= 1;
    assert!(load(&bad, 0, false).unwrap().is_none());
    assert!(load(&bad, 2000, true).unwrap().is_none());
}

/// A blob of which nothing is read until somebody lets it; says that its reading has begun.
struct Held {
    bytes: Vec<u8>,
    begun: Arc<AtomicBool>,
    gates: Arc<Gated>,
    commitment: Commitment,
}

impl ReadAt for Held {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.begun.store(true, Ordering::Relaxed);
        self.gates.open(self.commitment)?;
        self.bytes[..].read_at(buffer, offset)
    }
}

#[test]
fn models_that_are_being_loaded_count() {
    let big = |seed| {
        Blob::sample(
            Dims {
                vocab: 20_000,
                accepted_ids: 20_000,
                ..small()
            },
            seed,
        )
    };
    let (a, b) = (big(1), big(2));
    let gates = library(&[]);
    gates.hold(a.commitment);
    let blobs = [&a, &b].map(|blob| (blob.commitment, blob.bytes.clone()));
    let begun = Arc::new(AtomicBool::new(false));
    let (tell, theirs) = (Arc::clone(&begun), Arc::clone(&gates));
    let held = Opens(move |wanted| {
        let (commitment, bytes) = blobs.iter().find(|(commitment, _)| *commitment == wanted)?;
        let len = bytes.len() as u64;
        let held = Held {
            bytes: bytes.clone(),
            begun: Arc::clone(&tell),
            gates: Arc::clone(&theirs),
            commitment: *commitment,
        };
        Some((Box::new(held) as Box<_>, len))
    });
    let resident = Resident::new(Arc::new(held), Arc::new(cpu(0)), len(&a) * 3 / 2);
    let resident = Arc::new(resident);
    resident.keep(BTreeSet::new());
    let blocks = resident.models(Purpose::Blocks);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| ready(blocks.model(a.commitment)));
        // A blob is read when its model has its room.
        world::eventually("the first is read", || begun.load(Ordering::Relaxed));
        let why = missing(blocks.model(b.commitment));
        assert!(why.contains("must stay"), "{why}");
        gates.release();
        loading.join().unwrap();
    });
    ready(blocks.model(b.commitment));
}

#[test]
fn refused_blobs_take_no_memory() {
    let good = Blob::sample(small(), 1);
    let library = library(&[&good]);
    let resident = resident(&library, cpu(0), len(&good));
    let blocks = resident.models(Purpose::Blocks);
    for at in [1024, 1025, 1026] {
        let mut bad = good.bytes.clone();
        bad[at] ^= 1;
        let refused = library.there.insert(bad);
        assert!(matches!(blocks.model(refused), Ok(Lookup::Refused)));
    }
    ready(blocks.model(good.commitment));
}
