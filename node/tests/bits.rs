//! One flipped bit in any chunk, lies about record, length and leaves: found, named, never published.

mod common;

use blue_node::fetch::{Fault, FetchError, Options, Source, SourceError, Trouble, fetch};
use blue_node::store::{State, Store};
use common::{BLOB, Memory, chunk, commitment, leaves, names, options, published, quiet, tree};
use std::sync::Arc;

fn sources(of: &[&Arc<Memory>]) -> Vec<Arc<dyn Source>> {
    of.iter().map(|&m| m.clone() as Arc<dyn Source>).collect()
}

/// The faults of the first source of a fetch that must fail.
fn refused(store: &Store, source: &Arc<Memory>, options: &Options) -> (Vec<Fault>, FetchError) {
    let error = fetch(
        store,
        commitment(),
        &sources(&[source]),
        options,
        &mut quiet(),
    );
    let error = error.unwrap_err();
    assert!(!store.contains(commitment()).unwrap());
    assert!(store.blob(commitment()).unwrap().is_none());
    let FetchError::Exhausted { sources, .. } = &error else {
        panic!("{error}");
    };
    assert!(sources[0].given_up, "{error}");
    assert_eq!(sources[0].name, source.name);
    assert!(error.to_string().contains(&source.name));
    (sources[0].faults.clone(), error)
}

#[test]
fn a_flipped_bit_in_any_chunk_is_named_and_another_source_helps() {
    let count = tree().leaves().len() as u64;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    // One connection: the order of chunks is that of the blob, and every chunk before the bad one is right.
    let one = Options {
        connections: std::num::NonZeroUsize::MIN,
        ..options()
    };
    for index in 0..count {
        let span = chunk(index);
        for at in [span.start, span.start + span.len() / 2, span.end - 1] {
            let bad = Memory::flipped(at);
            let (faults, error) = refused(&store, &bad, &one);
            // A flipped bit in the magic number or in the stated length is found before there are leaves.
            let expected = match at {
                0 => (None, Trouble::NoBlob),
                _ => (Some(index), Trouble::OtherBytes),
            };
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert_eq!((faults[0].chunk, faults[0].trouble.clone()), expected);
            assert!(error.only_other_bytes());
            let good = Memory::good();
            let report = fetch(
                &store,
                commitment(),
                &sources(&[&bad, &good]),
                &one,
                &mut quiet(),
            );
            let report = report.unwrap();
            assert_eq!(published(&store).as_deref(), Some(BLOB));
            assert_eq!(report.len, BLOB.len() as u64);
            let given: u64 = report.sources.iter().map(|s| s.bytes).sum();
            assert_eq!(report.kept + given, report.len);
            assert!(report.sources[1].chunks >= 1 && report.sources[1].faults.is_empty());
            assert!(store.remove(commitment()).unwrap());
        }
    }
}

#[test]
fn a_record_that_states_another_length_proves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let len = BLOB.len() as u64;
    for stated in [
        0,
        1,
        1024,
        1025,
        len - 1,
        len + 1,
        len + 65536,
        len - 65536,
        1 << 36,
        (1 << 36) + 1,
        1 << 63,
        u64::MAX,
    ] {
        let mut blob = BLOB.to_vec();
        blob[17..25].copy_from_slice(&stated.to_le_bytes());
        let bad = Memory::new("liar", blob, leaves());
        let (faults, _) = refused(&store, &bad, &options());
        let most = options().max_blob_len;
        assert_eq!(faults[0].chunk, None);
        match &faults[0].trouble {
            Trouble::TooLong { stated: s, most: m } => {
                assert!(*s == stated && *m == most && stated > most);
                // Leaves were not asked for.
                assert_eq!(bad.requests.lock().unwrap().len(), 1);
            }
            Trouble::NoBlob => assert!(stated <= 1024),
            Trouble::OtherLeaves => {
                assert!((1025..len + 65536).contains(&stated), "{stated}");
            }
            Trouble::Source(error) => assert!(
                matches!(error, SourceError::Fewer { .. } | SourceError::OtherRange),
                "{stated}: {error}"
            ),
            other => panic!("{stated}: {other}"),
        }
        let good = Memory::good();
        fetch(
            &store,
            commitment(),
            &sources(&[&bad, &good]),
            &options(),
            &mut quiet(),
        )
        .unwrap();
        assert_eq!(published(&store).as_deref(), Some(BLOB));
        store.remove(commitment()).unwrap();
    }
}

#[test]
fn every_wrong_leaf_is_found_and_other_leaves_are_used() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let right = leaves();
    for at in (0..right.len()).step_by(32).chain([right.len() - 1]) {
        let mut wrong = right.clone();
        wrong[at] ^= 1;
        let bad = Memory::new("liar", BLOB.to_vec(), wrong);
        let (faults, error) = refused(&store, &bad, &options());
        assert_eq!(
            (faults.len(), &faults[0].trouble),
            (1, &Trouble::OtherLeaves)
        );
        assert!(error.only_other_bytes());
    }
    // Its blob would be right, but whoever lies once is not asked again.
    let mut wrong = right.clone();
    wrong.rotate_left(32);
    let bad = Memory::new("liar", BLOB.to_vec(), wrong);
    let good = Memory::good();
    let report = fetch(
        &store,
        commitment(),
        &sources(&[&bad, &good]),
        &options(),
        &mut quiet(),
    );
    let report = report.unwrap();
    assert_eq!(published(&store).as_deref(), Some(BLOB));
    assert!(report.sources[0].chunks == 0 || report.sources[0].faults.is_empty());
}

#[test]
fn a_source_with_the_blob_alone_helps_once_leaves_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let plain = Memory::new("plain", BLOB.to_vec(), vec![]);
    let error = fetch(
        &store,
        commitment(),
        &sources(&[&plain]),
        &options(),
        &mut quiet(),
    );
    let error = error.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no source has record and leaves"),
        "{error}"
    );
    assert!(!error.only_other_bytes());
    // Leaves and record of one source, chunks of the other.
    let proof = Memory::new("proof", BLOB[..1024].to_vec(), leaves());
    let both = sources(&[&proof, &plain]);
    let report = fetch(&store, commitment(), &both, &options(), &mut quiet()).unwrap();
    assert_eq!(published(&store).as_deref(), Some(BLOB));
    assert_eq!(
        (report.sources[0].chunks, report.sources[1].chunks),
        (1, 33)
    );
}

#[test]
fn another_blob_and_no_blob_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let text = Memory::new("text", b"Not found, but politely. ".repeat(1000), leaves());
    assert_eq!(
        refused(&store, &text, &options()).0[0].trouble,
        Trouble::NoBlob
    );
    let empty = Memory::new("empty", vec![], vec![]);
    let (faults, error) = refused(&store, &empty, &options());
    assert_eq!(faults[0].trouble, Trouble::Source(SourceError::Absent));
    assert!(!error.only_other_bytes());
    let short = Memory::new("short", BLOB[..500].to_vec(), leaves());
    let (faults, _) = refused(&store, &short, &options());
    assert_eq!(faults.len(), 3);
    assert_eq!(
        faults[0].trouble,
        SourceError::Fewer {
            got: 500,
            asked: 1024
        }
        .into()
    );
    // Nothing was begun.
    assert_eq!(names(dir.path()), ["damaged", "lock", "partial"]);
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn resuming_asks_for_what_is_missing_only() {
    let count = tree().leaves().len() as u64;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut had = 0;
    // The source lacks everything from one chunk on, later and later.
    for until in [0, 1, 7, 20] {
        let bytes = BLOB[..chunk(until).end].to_vec();
        let part = Memory::new("part", bytes.clone(), leaves());
        let (_, error) = refused(&store, &part, &options());
        let FetchError::Exhausted { missing, .. } = error else {
            unreachable!()
        };
        // Runs that are cut off keep their beginning.
        assert_eq!(missing, Some(count - 1 - until), "{until}");
        let entry = store.list().unwrap();
        assert_eq!((entry.len(), entry[0].state), (1, State::Partial));
        let fresh = bytes.len() as u64 - had;
        assert!(part.served() >= fresh);
        had = bytes.len() as u64;
    }
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    let good = Memory::good();
    let report = fetch(
        &store,
        commitment(),
        &sources(&[&good]),
        &options(),
        &mut quiet(),
    )
    .unwrap();
    assert_eq!(published(&store).as_deref(), Some(BLOB));
    assert_eq!(report.kept, had);
    assert_eq!(good.served(), BLOB.len() as u64 - had);
    // A published blob is not fetched.
    let again = Memory::good();
    let report = fetch(
        &store,
        commitment(),
        &sources(&[&again]),
        &options(),
        &mut quiet(),
    )
    .unwrap();
    assert_eq!((report.kept, again.served()), (report.len, 0));
    assert!(again.requests.lock().unwrap().is_empty());
}
