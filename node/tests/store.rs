//! A store on its own: one writer, imports, bits that flip on the disk, repair, what a crash leaves.

mod common;

use blue_node::fetch::{FetchError, Source, fetch};
use blue_node::store::{State, Store, StoreError, Verdict, What, chunk_range, file_name};
use common::{BLOB, Memory, chunk, commitment, leaves, names, options, published, quiet, tree};
use int_engine::commitment::Commitment;
use int_engine::read::ReadAt;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

fn file(dir: &Path, bytes: &[u8]) -> PathBuf {
    let path = dir.join("a file");
    fs::write(&path, bytes).unwrap();
    path
}

fn stocked(dir: &Path) -> Store {
    let store = Store::open(dir.join("store")).unwrap();
    let blob = store.import(&file(dir, BLOB), Some(commitment()), TWO, &mut |_| {});
    assert_eq!(blob.unwrap().commitment(), commitment());
    store
}

#[test]
fn one_writer_and_any_number_of_readers() {
    let dir = tempfile::tempdir().unwrap();
    let store = stocked(dir.path());
    let locked = Store::open(store.dir()).unwrap_err();
    assert!(matches!(&locked, StoreError::Locked { dir } if dir == store.dir()));
    assert!(
        locked.to_string().contains("written by another process"),
        "{locked}"
    );

    // Another process: `flock` of util-linux asks for the same lock.
    let other = |store: &Path| {
        let lock = store.join("lock");
        let status = Command::new("flock")
            .arg("-n")
            .arg(lock)
            .arg("true")
            .status();
        status.unwrap().success()
    };
    assert!(!other(store.dir()));
    let reader = Store::open_read_only(store.dir()).unwrap();
    assert_eq!(published(&reader).as_deref(), Some(BLOB));
    assert!(matches!(
        reader.remove(commitment()),
        Err(StoreError::ReadOnly { .. })
    ));
    assert!(matches!(
        reader.slot(commitment()),
        Err(StoreError::ReadOnly { .. })
    ));
    assert!(matches!(
        reader.scrub(TWO, &mut |_, _| {}),
        Err(StoreError::ReadOnly { .. })
    ));
    let again = reader.import(&dir.path().join("a file"), None, TWO, &mut |_| {});
    assert!(matches!(again, Err(StoreError::ReadOnly { .. })));

    // Held by another process, refused here.
    let path = store.dir().to_path_buf();
    drop(store);
    assert!(other(&path));
    let mut holder = Command::new("flock")
        .arg(path.join("lock"))
        .args(["sh", "-c", "echo held; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut line).unwrap();
    assert!(matches!(Store::open(&path), Err(StoreError::Locked { .. })));
    drop(holder.stdin.take());
    holder.wait().unwrap();
    Store::open(&path).unwrap();
    assert!(matches!(
        Store::open_read_only(dir.path().join("none")),
        Err(StoreError::Io { .. })
    ));
}

#[test]
fn one_blob_is_written_by_one_caller() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let slot = store.slot(commitment()).unwrap();
    let busy = |error: &StoreError| matches!(error, StoreError::Busy { commitment: c } if *c == commitment());
    assert!(busy(&store.slot(commitment()).unwrap_err()));
    assert!(busy(&store.remove(commitment()).unwrap_err()));
    let good: [Arc<dyn Source>; 1] = [Memory::good()];
    let error = fetch(&store, commitment(), &good, &options(), &mut quiet()).unwrap_err();
    assert!(matches!(&error, FetchError::Store(e) if busy(e)), "{error}");
    drop(slot);
    fetch(&store, commitment(), &good, &options(), &mut quiet()).unwrap();
}

#[test]
fn import_takes_whole_blobs_of_the_right_commitment_only() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    let refused = |bytes: &[u8], expected| {
        let error = store.import(&file(dir.path(), bytes), expected, TWO, &mut |_| {});
        let error = error.unwrap_err();
        assert!(store.list().unwrap().is_empty(), "{error}");
        error
    };
    let mut stretched = BLOB.to_vec();
    stretched.push(0);
    for wrong in [
        &b"text"[..],
        &BLOB[..1024],
        &BLOB[..5000],
        &stretched,
        &[0; 5000],
    ] {
        assert!(matches!(refused(wrong, None), StoreError::NotABlob { .. }));
    }
    let mut other = BLOB.to_vec();
    other[5000] ^= 1;
    let error = refused(&other, Some(commitment()));
    assert!(
        matches!(&error, StoreError::OtherBytes { expected, found, .. }
        if *expected == commitment() && *found == int_engine::commitment::commitment(&other))
    );
    let missing = store.import(&dir.path().join("none"), None, TWO, &mut |_| {});
    assert!(missing.unwrap_err().to_string().contains("none"));
    let folder = store.import(dir.path(), None, TWO, &mut |_| {});
    assert!(
        folder
            .unwrap_err()
            .to_string()
            .contains("not a regular file")
    );

    // Without an expected commitment the file's own is taken; a second import changes nothing.
    let path = file(dir.path(), BLOB);
    let blob = store.import(&path, None, TWO, &mut |_| {}).unwrap();
    assert_eq!(
        (blob.commitment(), blob.len()),
        (commitment(), BLOB.len() as u64)
    );
    let mut bytes = vec![0; 100];
    assert_eq!(blob.read_at(&mut bytes, 777).unwrap(), 100);
    assert_eq!(bytes, BLOB[777..877]);
    let written = fs::metadata(blob.path()).unwrap().modified().unwrap();
    let again = store
        .import(&path, Some(commitment()), TWO, &mut |_| {})
        .unwrap();
    assert_eq!(
        fs::metadata(again.path()).unwrap().modified().unwrap(),
        written
    );
    assert_eq!(
        fs::read(store.path(commitment(), What::Leaves)).unwrap(),
        leaves()
    );
    let hex = &commitment().to_string()[2..];
    let layout = [
        format!("{hex}.blob"),
        format!("{hex}.leaves"),
        "damaged".into(),
    ];
    assert_eq!(names(store.dir())[..3], layout);
}

/// Flips one bit of a file.
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1 << (at % 8);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_bit_that_flips_on_the_disk_is_found_and_only_its_chunk_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let store = stocked(dir.path());
    let path = store.path(commitment(), What::Blob);
    for index in 0..tree().leaves().len() as u64 {
        let span = chunk(index);
        let at = [span.start, span.start + span.len() / 2, span.end - 1][index as usize % 3];
        flip(&path, at);
        let checked = store.scrub(TWO, &mut |_, _| {}).unwrap();
        assert_eq!(checked.len(), 1);
        assert_eq!(checked[0].verdict, Verdict::Chunks(vec![index]));
        assert_eq!(store.blob(commitment()).unwrap().map(|b| b.len()), None);
        let entry = store.list().unwrap();
        assert_eq!((entry.len(), entry[0].state), (1, State::Damaged));
        let good = Memory::good();
        let sources: [Arc<dyn Source>; 1] = [good.clone()];
        let report = fetch(&store, commitment(), &sources, &options(), &mut quiet()).unwrap();
        assert_eq!(published(&store).as_deref(), Some(BLOB));
        assert_eq!(
            (good.served(), report.sources[0].chunks),
            (span.len() as u64, 1)
        );
        assert_eq!(good.requests.lock().unwrap().len(), 1);
        let entry = store.list().unwrap();
        assert_eq!((entry.len(), entry[0].state), (1, State::Published));
        let checked = store.scrub(TWO, &mut |_, _| {}).unwrap();
        assert_eq!(checked[0].verdict, Verdict::Right);
    }
}

#[test]
fn blobs_of_another_length_are_damaged_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let store = stocked(dir.path());
    let path = store.path(commitment(), What::Blob);
    let count = tree().leaves().len() as u64;
    let last = chunk_range(BLOB.len() as u64, count - 1).unwrap().start;
    for (len, bad) in [
        (BLOB.len() as u64 + 1, vec![count - 1]),
        (BLOB.len() as u64 + 200_000, vec![count - 1]),
        (BLOB.len() as u64 - 1, vec![count - 1]),
        (last, vec![count - 1]),
        (last - 1, vec![count - 2, count - 1]),
        (1024, (1..count).collect()),
    ] {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(len).unwrap();
        let checked = store.scrub(TWO, &mut |_, _| {}).unwrap();
        assert_eq!(checked[0].verdict, Verdict::Chunks(bad), "{len}");
        let good = Memory::good();
        let sources: [Arc<dyn Source>; 1] = [good.clone()];
        fetch(&store, commitment(), &sources, &options(), &mut quiet()).unwrap();
        assert_eq!(published(&store).as_deref(), Some(BLOB));
        if len >= BLOB.len() as u64 {
            assert_eq!(good.served(), 0);
        }
    }
    // Nothing is left of it, not even the length.
    fs::write(&path, b"").unwrap();
    let checked = store.scrub(TWO, &mut |_, _| {}).unwrap();
    assert_eq!(checked[0].verdict, Verdict::Bytes);
    let good: [Arc<dyn Source>; 1] = [Memory::good()];
    fetch(&store, commitment(), &good, &options(), &mut quiet()).unwrap();
    assert_eq!(published(&store).as_deref(), Some(BLOB));
}

#[test]
fn damaged_leaves_are_written_again_or_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = stocked(dir.path());
    let path = store.path(commitment(), What::Leaves);
    for wrong in [&leaves()[32..], &[0; 1088], &[]] {
        fs::write(&path, wrong).unwrap();
        let checked = store.scrub(TWO, &mut |_, _| {}).unwrap();
        assert_eq!(checked[0].verdict, Verdict::Leaves);
        assert!(checked[0].verdict.is_right() && store.contains(commitment()).unwrap());
        assert_eq!(fs::read(&path).unwrap(), leaves());
    }
    // Both are damaged: the chunks are known when a source has proved the leaves.
    flip(&path, 99);
    flip(&store.path(commitment(), What::Blob), 500_000);
    let checked = store.scrub(TWO, &mut |_, _| {}).unwrap();
    assert_eq!(checked[0].verdict, Verdict::Bytes);
    let good = Memory::good();
    let sources: [Arc<dyn Source>; 1] = [good.clone()];
    fetch(&store, commitment(), &sources, &options(), &mut quiet()).unwrap();
    assert_eq!(published(&store).as_deref(), Some(BLOB));
    assert_eq!(good.served(), 1024 + 65536);
}

#[test]
fn an_opening_sweeps_what_a_crash_left_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = stocked(dir.path());
    let root = store.dir().to_path_buf();
    drop(store);
    let kept = Commitment([7; 32]);
    let gone = Commitment([8; 32]);
    let name = |c, what| file_name(c, what);
    let put = |name: String| fs::write(root.join(name), "x").unwrap();
    put(format!("partial/{}", name(kept, What::Blob)));
    put(name(kept, What::Leaves));
    put(name(gone, What::Leaves));
    put(format!("{}.new", name(gone, What::Leaves)));
    put(format!("partial/{}", name(commitment(), What::Blob)));
    put(format!("damaged/{}", name(commitment(), What::Blob)));
    for foreign in [
        "tokenizer.json",
        "notes.new",
        "partial/readme",
        "x.blob",
        "x.leaves",
    ] {
        put(foreign.to_string());
    }
    let store = Store::open(&root).unwrap();
    let there = |name: String| root.join(name).exists();
    assert!(there(format!("partial/{}", name(kept, What::Blob))));
    assert!(there(name(kept, What::Leaves)));
    assert!(!there(name(gone, What::Leaves)));
    assert!(!there(format!("{}.new", name(gone, What::Leaves))));
    assert!(!there(format!(
        "partial/{}",
        name(commitment(), What::Blob)
    )));
    assert!(!there(format!(
        "damaged/{}",
        name(commitment(), What::Blob)
    )));
    for foreign in [
        "tokenizer.json",
        "notes.new",
        "partial/readme",
        "x.blob",
        "x.leaves",
    ] {
        assert!(there(foreign.to_string()), "{foreign}");
    }
    assert_eq!(published(&store).as_deref(), Some(BLOB));
    let states: Vec<_> = store.list().unwrap().iter().map(|e| e.state).collect();
    assert_eq!(states.iter().filter(|s| **s == State::Partial).count(), 1);
    assert!(store.remove(commitment()).unwrap());
    assert!(!store.remove(commitment()).unwrap());
    assert!(store.remove(kept).unwrap());
    assert!(store.list().unwrap().is_empty());
    assert!(!there(name(kept, What::Leaves)));
}

#[cfg(unix)]
#[test]
fn files_that_links_lead_to_are_read_and_never_written() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("deep/down/store")).unwrap();
    let theirs = dir.path().join("theirs");
    let mut wrong = BLOB.to_vec();
    wrong[99_999] ^= 4;
    fs::write(&theirs, &wrong).unwrap();
    fs::write(store.path(commitment(), What::Leaves), leaves()).unwrap();
    let path = store.path(commitment(), What::Blob);
    symlink(&theirs, &path).unwrap();
    assert_eq!(published(&store).as_deref(), Some(&wrong[..]));
    let checked = store.check(commitment(), TWO, &mut |_, _| {}).unwrap();
    assert_eq!(checked, Some(Verdict::Chunks(vec![2])));
    assert_eq!(
        store.check(commitment(), TWO, &mut |_, _| {}).unwrap(),
        None
    );
    let good: [Arc<dyn Source>; 1] = [Memory::good()];
    fetch(&store, commitment(), &good, &options(), &mut quiet()).unwrap();
    assert_eq!(published(&store).as_deref(), Some(BLOB));
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    assert_eq!(fs::read(&theirs).unwrap(), wrong);
    assert!(store.remove(commitment()).unwrap());
    // A partial file that is somebody's link.
    let partial = store
        .dir()
        .join("partial")
        .join(file_name(commitment(), What::Blob));
    symlink(&theirs, &partial).unwrap();
    let error = fetch(&store, commitment(), &good, &options(), &mut quiet()).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    assert_eq!(fs::read(&theirs).unwrap(), wrong);
    // A pipe is not waited for.
    fs::remove_file(&partial).unwrap();
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let error = store.blob(commitment()).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn publishing_finds_bytes_that_the_disk_changed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let slot = store.slot(commitment()).unwrap();
    let mut partial = slot.open(tree(), true, TWO, &mut |_, _| {}).unwrap();
    let count = tree().leaves().len() as u64;
    for index in 0..count {
        partial.write(index, &BLOB[chunk(index)]).unwrap();
    }
    assert_eq!((partial.missing(), partial.bytes()), (0, BLOB.len() as u64));
    let path = dir
        .path()
        .join("partial")
        .join(file_name(commitment(), What::Blob));
    flip(&path, 1024 + 65536 * 3 + 9);
    flip(&path, 0);
    let error = partial.publish(&mut |_| {}).unwrap_err();
    assert!(
        matches!(&error, StoreError::Damaged { chunks, .. } if *chunks == [0, 4]),
        "{error}"
    );
    assert!(!store.contains(commitment()).unwrap());
    // A second try fetches the two.
    let good = Memory::good();
    let sources: [Arc<dyn Source>; 1] = [good.clone()];
    fetch(&store, commitment(), &sources, &options(), &mut quiet()).unwrap();
    assert_eq!(good.served(), 1024 + 65536);
    assert_eq!(published(&store).as_deref(), Some(BLOB));
}

#[test]
fn other_leaves_and_chunks_of_other_sizes_are_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let other = Commitment([1; 32]);
    let slot = store.slot(other).unwrap();
    let error = slot.open(tree(), true, TWO, &mut |_, _| {}).unwrap_err();
    assert!(
        matches!(error, StoreError::OtherBytes { expected, found, .. }
        if expected == other && found == commitment())
    );
    let slot = store.slot(commitment()).unwrap();
    let mut partial = slot.open(tree(), true, TWO, &mut |_, _| {}).unwrap();
    let missing = partial.missing();
    for (index, len) in [(0, 1023), (1, 1024), (34, 65536), (u64::MAX, 1)] {
        partial.write(index, &vec![1; len]).unwrap();
    }
    assert_eq!(partial.missing(), missing);
    let error = partial.publish(&mut |_| {}).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { chunks, .. } if chunks.len() as u64 == missing));
}
