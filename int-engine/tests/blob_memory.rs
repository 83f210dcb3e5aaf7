//! Memory in use while a model loads: it grows with the bytes that have arrived. Large buffers are address space until
//! they are written, which an allocator does not see, so this looks at the process; it is alone in its program.
#![cfg(target_os = "linux")]

mod sample;

use int_engine::blob::{BlobError, Header, Loader};
use int_engine::buffer::Pages;
use int_engine::commitment::{CHUNK, FIRST_CHUNK};
use int_engine::config::{Config, Dims, Scheme};
use sample::sample;
use std::num::NonZeroUsize;

const MIB: usize = 1 << 20;

/// Bytes of memory that this process holds; 0 in an emulated process (one that `BLUE_EXPECT_TARGET` is set for), in which
/// the emulator's own memory counts too.
fn resident() -> usize {
    if std::env::var_os("BLUE_EXPECT_TARGET").is_some() {
        return 0;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.unwrap().parse::<usize>().unwrap() << 10
}

fn dims() -> Dims {
    Dims {
        scheme: Scheme::Dynamic,
        hidden: 1024,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 64,
        intermediate: 5000,
        vocab: 20_000,
        accepted_ids: 5,
        max_context: 8,
        qk_norm: false,
        tied: true,
        eps: 1,
        stop_ids: vec![],
    }
}

#[test]
fn memory_follows_the_bytes() {
    let blob = sample(&Config::new(dims()).unwrap(), 1);
    assert!(blob.len() > 32 * MIB);
    let mut models = vec![];
    for pages in [Pages::Huge, Pages::Small] {
        // A declared table of 8 GiB, of which 10 MiB come.
        let large = Dims {
            hidden: 8192,
            vocab: 1 << 20,
            ..dims()
        };
        let header = Header::new(&Config::new(large).unwrap(), [0; 32], vec![]).unwrap();
        assert!(header.total_len > 8 << 30);
        let mut bytes = header.to_bytes();
        bytes.resize(header.entries[0].offset as usize, 0);
        bytes.resize(bytes.len() + 10 * MIB, 1);
        let before = resident();
        let mut loader = Loader::new().pages(pages);
        loader.push(&bytes).unwrap();
        let grown = resident().saturating_sub(before);
        assert!(grown < 14 * MIB, "{grown} bytes, {pages:?}");
        let error = loader.finish().unwrap_err();
        let expected = BlobError::Truncated {
            expected: header.total_len,
            found: bytes.len() as u64,
        };
        assert_eq!(error, expected.clone().into());
        // The same as a file.
        let before = resident();
        let two = NonZeroUsize::new(2).unwrap();
        let load = |bytes: &[u8]| {
            let loader = Loader::new().pages(pages);
            loader.load(bytes, bytes.len() as u64, two, |_| {})
        };
        assert_eq!(load(&bytes).unwrap_err(), expected.into());
        let left = resident().saturating_sub(before);
        assert!(left < 4 * MIB, "{left} bytes, {pages:?}");

        // A whole blob, piece by piece.
        let before = resident();
        let mut loader = Loader::new().pages(pages);
        for (i, piece) in blob.chunks(MIB).enumerate() {
            loader.push(piece).unwrap();
            let grown = resident().saturating_sub(before);
            assert!(
                grown < (i + 1) * MIB + 4 * MIB,
                "{grown} bytes after piece {i}, {pages:?}"
            );
        }
        models.push(loader.finish().unwrap());
        let before = resident();
        models.push(load(&blob).unwrap());
        let grown = resident().saturating_sub(before);
        assert!(grown < blob.len() + 4 * MIB, "{grown} bytes, {pages:?}");
        // What is dropped is given back.
        models.truncate(1);
        let grown = resident().saturating_sub(before);
        assert!(grown < 4 * MIB, "{grown} bytes, {pages:?}");
        // Pieces have a bound, whatever is asked for.
        let (most, mut largest) = (Loader::MOST_CHUNKS * CHUNK + FIRST_CHUNK, 0);
        let loader = Loader::new().chunks_at_a_time(NonZeroUsize::MAX);
        let progress = |n: u64| largest = n.max(largest);
        let model = loader.load(&blob[..], blob.len() as u64, two, progress);
        assert!(largest <= most as u64, "{largest} bytes");
        models.push(model.unwrap());
        assert!(models.iter().all(|model| *model == models[0]));
        models.clear();
    }
}
