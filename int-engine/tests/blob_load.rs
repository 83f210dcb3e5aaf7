//! A file read by several threads gives what its bytes give one after the other: the same model, or the first error in
//! the order of the file.

mod sample;

use int_engine::blob::{BlobError, Header, LoadError, Loader};
use int_engine::buffer::Pages;
use int_engine::commitment::commitment;
use int_engine::config::{Config, Dims, Scheme};
use int_engine::model::Model;
use int_engine::read::ReadAt;
use sample::{Random, sample};
use std::io;
use std::num::NonZeroUsize;
use std::sync::Mutex;

/// Of the cases of a long test one in so many runs on machines that are tested under emulation.
const STEP: usize = if cfg!(target_arch = "x86_64") { 1 } else { 4 };

fn n(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// Blobs of about a dozen chunks: rows of every length modulo 4, some longer than a chunk.
fn configs() -> Vec<Config> {
    let dims = Dims {
        scheme: Scheme::Dynamic,
        hidden: 71,
        layers: 2,
        heads: 6,
        kv_heads: 3,
        head_dim: 10,
        intermediate: 900,
        vocab: 3001,
        accepted_ids: 3000,
        max_context: 8,
        qk_norm: true,
        tied: true,
        eps: 1,
        stop_ids: vec![1],
    };
    let odd = Dims {
        scheme: Scheme::Static,
        hidden: 3,
        layers: 3,
        intermediate: 65_535,
        vocab: 10_001,
        qk_norm: false,
        tied: false,
        ..dims.clone()
    };
    [dims, odd].map(|dims| Config::new(dims).unwrap()).into()
}

fn push(bytes: &[u8], size: usize) -> Result<Model, LoadError> {
    let mut loader = Loader::new().pages(Pages::Small);
    bytes
        .chunks(size)
        .try_for_each(|piece| loader.push(piece))?;
    loader.finish()
}

fn load(bytes: &[u8], threads: usize, chunks: usize) -> Result<Model, LoadError> {
    let mut taken = 0;
    let model = Loader::new().chunks_at_a_time(n(chunks)).load(
        bytes,
        bytes.len() as u64,
        n(threads),
        |n| taken += n,
    );
    if model.is_ok() {
        assert_eq!(taken, bytes.len() as u64);
    }
    model
}

/// The one result of all ways.
fn any(bytes: &[u8], what: &str) -> Result<Model, LoadError> {
    let expected = push(bytes, bytes.len().max(1));
    for (threads, chunks) in [
        (1, 1),
        (2, 1),
        (3, 1),
        (5, 1),
        (2, 3),
        (2, 100),
        (2, usize::MAX),
    ] {
        let found = load(bytes, threads, chunks);
        // Not `assert_eq`: a model is too long to print.
        assert!(
            found == expected,
            "{what}: {threads} threads, {chunks} chunks: {:?}, not {:?}",
            found.err(),
            expected.err()
        );
    }
    expected
}

#[test]
fn whole_files() {
    for (seed, config) in configs().iter().enumerate() {
        let blob = sample(config, seed as u64);
        assert!(blob.len() > 9 * 65536, "{}", blob.len());
        let model = any(&blob, "a whole file").unwrap();
        assert_eq!(model.commitment(), commitment(&blob));
        for size in [1 << 12, 65536, 100_001] {
            assert!(push(&blob, size).unwrap() == model, "pieces of {size}");
        }
        // The weights are the file's.
        let header = Header::parse(&blob).unwrap();
        let entry = &header.entries[0];
        let bytes = &blob[entry.offset as usize..][..entry.length as usize];
        let rows = model.embed().weight.to_rows();
        assert!(rows.iter().zip(bytes).all(|(&w, &b)| w as u8 == b));
    }
}

#[test]
fn another_commitment_is_refused() {
    let blob = sample(&configs()[0], 3);
    let (right, wrong) = (commitment(&blob), commitment(b""));
    for expected in [right, wrong] {
        let loaded =
            Loader::new()
                .expect(expected)
                .load(&blob[..], blob.len() as u64, n(2), |_| {});
        assert_eq!(loaded.is_ok(), expected == right);
    }
}

#[test]
fn the_first_error_in_the_order_of_the_file() {
    let mut random = Random::new(1, "mutated files");
    let mut kinds = std::collections::BTreeSet::new();
    for config in configs() {
        let blob = sample(&config, 5);
        let header = Header::parse(&blob).unwrap();
        for case in (0..60).step_by(STEP) {
            let mut bytes = blob.clone();
            for _ in 0..random.range(1, 4) {
                let pick = random.range(0, header.entries.len() as i64 - 1) as usize;
                let entry = &header.entries[pick];
                let within = random.range(0, entry.length as i64 - 1) as u64;
                let at = match random.range(0, 5) {
                    // The gap before a tensor, or the tensor's first byte.
                    0 => entry.offset - random.range(0, 1) as u64,
                    1 => entry.offset + entry.length - 1,
                    2 => random.range(0, bytes.len() as i64 - 1) as u64,
                    _ => entry.offset + within,
                };
                let at = (at as usize).min(bytes.len() - 1);
                match random.range(0, 9) {
                    0 => bytes.truncate(at + 1),
                    1 => bytes.push(0),
                    2 => {
                        // Many weights to their limit, so that a row sum passes a step of psh.
                        let end = bytes.len().min(at + 70_000);
                        bytes[at..end].fill(127);
                    }
                    3 => bytes[at] ^= 1,
                    _ => bytes[at] = 0x80,
                }
            }
            if let Err(LoadError::Blob(error)) = any(&bytes, &format!("case {case}")) {
                kinds.insert(match error {
                    BlobError::Gap { .. } => "gap",
                    BlobError::OutOfRange { .. } => "range",
                    BlobError::PreShift { .. } => "pre-shift",
                    BlobError::Truncated { .. } => "short",
                    BlobError::TrailingBytes { .. } => "long",
                    _ => "header",
                });
            }
        }
    }
    for kind in ["gap", "range", "pre-shift", "short"] {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
    let mut longer = sample(&configs()[0], 5);
    longer.push(0);
    let error = any(&longer, "a byte more").unwrap_err();
    let expected = longer.len() as u64 - 1;
    assert_eq!(error, BlobError::TrailingBytes { expected }.into());
}

/// Remembers what was read.
struct Watched<'a> {
    bytes: &'a [u8],
    read: Mutex<Vec<(u64, u64)>>,
    broken: Option<u64>,
}

impl ReadAt for Watched<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.broken.is_some_and(|at| offset >= at) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let n = self.bytes.read_at(buffer, offset)?;
        self.read.lock().unwrap().push((offset, n as u64));
        Ok(n)
    }
}

#[test]
fn each_byte_is_read_once() {
    let blob = sample(&configs()[0], 2);
    for threads in [1, 3] {
        let source = Watched {
            bytes: &blob,
            read: Mutex::default(),
            broken: None,
        };
        let loader = Loader::new().chunks_at_a_time(n(1));
        let model = loader.load(&source, blob.len() as u64, n(threads), |_| {});
        assert!(model.unwrap() == Model::from_bytes(&blob).unwrap());
        let mut read = source.read.into_inner().unwrap();
        read.sort_unstable();
        let end = read.iter().fold(0, |end, &(at, n)| {
            assert_eq!(at, end);
            at + n
        });
        assert_eq!(end, blob.len() as u64);
    }
}

#[test]
fn a_source_that_fails_says_nothing_about_the_blob() {
    let blob = sample(&configs()[0], 2);
    let len = blob.len() as u64;
    for at in [0, 1024, 70_000, 300_000] {
        for threads in [1, 3] {
            let shorter = &blob[..at as usize];
            let broken = Watched {
                bytes: &blob,
                read: Mutex::default(),
                broken: Some(at),
            };
            let loader = || Loader::new().chunks_at_a_time(n(1));
            for (error, kind) in [
                (
                    loader().load(shorter, len, n(threads), |_| {}),
                    io::ErrorKind::UnexpectedEof,
                ),
                (
                    loader().load(&broken, len, n(threads), |_| {}),
                    io::ErrorKind::PermissionDenied,
                ),
            ] {
                let Err(LoadError::Read(error)) = error else {
                    panic!("{kind} at {at}: {:?}", error.err());
                };
                assert_eq!(error.kind, kind);
                assert!(error.offset <= at.next_multiple_of(65536) + 1024, "{error}");
            }
        }
    }
}
