//! The manifest has one form, and hostile declarations cost nothing.

mod sample;

use int_engine::blob::{
    BlobError, Entry, Header, LoadError, Loader, RECORD_LEN, Record, WriteError, Writer,
};
use int_engine::config::{Config, Dims, Scheme};
use int_engine::halt::Fault;
use int_engine::model::Model;
use sample::{Random, sample};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

fn dims() -> Dims {
    Dims {
        scheme: Scheme::Dynamic,
        hidden: 4,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 2,
        intermediate: 6,
        vocab: 5,
        accepted_ids: 5,
        max_context: 8,
        qk_norm: false,
        tied: true,
        eps: 1,
        stop_ids: vec![],
    }
}

fn config() -> Config {
    Config::new(dims()).unwrap()
}

type Pairs = Vec<(String, String)>;

fn pairs(texts: &[(&str, &str)]) -> Pairs {
    texts
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn header_error(metadata: Pairs) -> BlobError {
    let error = Header::new(&config(), [0; 32], metadata.clone()).unwrap_err();
    let Err(WriteError::Invalid(same)) =
        Writer::new(Vec::new(), &config(), [0; 32], metadata.clone())
    else {
        panic!("the writer accepts what the header refuses");
    };
    assert_eq!(error, same);
    // A reader refuses the same metadata in a file.
    let header = Header {
        metadata,
        ..Header::new(&config(), [0; 32], vec![]).unwrap()
    };
    assert_eq!(reread(&header), error);
    error
}

/// What a reader says to this header, with lengths made consistent.
fn reread(header: &Header) -> BlobError {
    let manifest = header.to_bytes().split_off(RECORD_LEN);
    reread_manifest(header, &manifest)
}

fn reread_manifest(header: &Header, manifest: &[u8]) -> BlobError {
    // The layout moves with the manifest: let a record of that length tell.
    let record = |total_len| Record {
        config: header.config.clone(),
        tokenizer_digest: [0; 32],
        total_len,
        manifest_len: manifest.len() as u32,
    };
    let parse = |total_len| {
        Header::parse(&[&record(total_len).to_bytes()[..], manifest].concat()).unwrap_err()
    };
    match parse(0) {
        BlobError::TotalLen { expected, .. } => parse(expected),
        other => other,
    }
}

#[test]
fn metadata_rules() {
    let good = pairs(&[
        ("a", ""),
        ("a.b", "x"),
        ("b", &"y".repeat(4096)),
        ("\u{e9}", "\u{4e2d}"),
    ]);
    assert_eq!(
        Header::parse(
            &Header::new(&config(), [0; 32], good.clone())
                .unwrap()
                .to_bytes()
        )
        .unwrap()
        .metadata,
        good
    );
    let many = |n: usize| {
        (0..n)
            .map(|i| (format!("{i:03}"), String::new()))
            .collect::<Pairs>()
    };
    assert!(Header::new(&config(), [0; 32], many(64)).is_ok());
    assert!(Header::new(&config(), [0; 32], pairs(&[(&"k".repeat(64), "")])).is_ok());
    assert_eq!(
        header_error(many(65)),
        BlobError::MetadataCount { found: 65 }
    );
    assert_eq!(
        header_error(pairs(&[("", "x")])),
        BlobError::MetadataKeyLen { index: 0, found: 0 }
    );
    let long = [("a", ""), (&"k".repeat(65), "")];
    assert_eq!(
        header_error(pairs(&long)),
        BlobError::MetadataKeyLen {
            index: 1,
            found: 65
        }
    );
    let long = [("a", &"v".repeat(4097)[..])];
    assert_eq!(
        header_error(pairs(&long)),
        BlobError::MetadataValueLen {
            index: 0,
            found: 4097
        }
    );
    assert_eq!(
        header_error(pairs(&[("b", ""), ("a", "")])),
        BlobError::MetadataOrder {
            index: 1,
            key: "a".into()
        }
    );
    assert_eq!(
        header_error(pairs(&[("a", ""), ("a", "x")])),
        BlobError::MetadataOrder {
            index: 1,
            key: "a".into()
        }
    );
}

#[test]
fn metadata_must_be_utf8() {
    let header = Header::new(&config(), [0; 32], pairs(&[("key", "value")])).unwrap();
    let manifest = header.to_bytes().split_off(RECORD_LEN);
    for (at, what) in [(8, "key"), (15, "value")] {
        let mut bad = manifest.clone();
        bad[at] = 0xff;
        assert_eq!(
            reread_manifest(&header, &bad),
            BlobError::MetadataUtf8 { index: 0, what }
        );
    }
}

#[test]
fn the_directory_is_the_derived_one() {
    let header = Header::new(&config(), [0; 32], vec![]).unwrap();
    let changed = |change: &dyn Fn(&mut Vec<Entry>)| {
        let mut header = header.clone();
        change(&mut header.entries);
        reread(&header)
    };
    let field = |change: &dyn Fn(&mut Vec<Entry>), index: usize, name: &str| {
        let error = changed(change);
        let BlobError::DirectoryEntry {
            index: i,
            tensor,
            field,
            ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(
            (*i, tensor, *field),
            (index, &header.entries[index].name, name)
        );
    };
    field(&|e| e[1].name = "embed.mulT".into(), 1, "name");
    field(
        &|e| e[1].name = "embed.multi".into(),
        1,
        "length of the name",
    );
    field(&|e| e[2].dtype = e[3].dtype, 2, "dtype");
    field(&|e| e[0].shape = vec![4, 5], 0, "dimension");
    field(&|e| e[0].offset += 64, 0, "offset");
    field(&|e| e[4].length -= 1, 4, "length");
    field(&|e| e[0].length = u64::MAX, 0, "length");
    field(&|e| e.swap(5, 6), 5, "length of the name");
    let error = changed(&|e| drop(e.pop()));
    assert!(matches!(error, BlobError::DirectoryLen { .. }), "{error}");
    let error = changed(&|e| e.push(e[0].clone()));
    assert!(matches!(error, BlobError::DirectoryLen { .. }), "{error}");
}

#[test]
fn the_manifest_fills_its_length() {
    let header = Header::new(&config(), [0; 32], pairs(&[("k", "v")])).unwrap();
    let manifest = header.to_bytes().split_off(RECORD_LEN);
    let used = manifest.len();
    for len in 0..18 {
        assert!(
            matches!(reread_manifest(&header, &manifest[..len]), BlobError::ManifestShort { len: l, .. } if l == len)
        );
    }
    // One byte more, and 64 more, which keeps every alignment: offsets are told apart first.
    let mut longer = manifest.clone();
    longer.push(0);
    let error = reread_manifest(&header, &longer);
    let moved = matches!(
        error,
        BlobError::DirectoryEntry {
            field: "offset",
            ..
        }
    );
    assert!(
        moved
            || error
                == BlobError::ManifestLong {
                    used,
                    len: used + 1
                },
        "{error}"
    );
}

#[test]
fn a_prefix_is_enough_for_the_header() {
    let blob = sample(&config(), 1);
    let header = Header::parse(&blob).unwrap();
    let len = header.prefix_len();
    assert_eq!(Header::parse(&blob[..len as usize]), Ok(header));
    let short = Header::parse(&blob[..len as usize - 1]);
    assert_eq!(
        short,
        Err(BlobError::Truncated {
            expected: len,
            found: len - 1
        })
    );
    assert_eq!(
        Header::parse(&[]),
        Err(BlobError::Truncated {
            expected: 1024,
            found: 0
        })
    );
}

thread_local! {
    /// Bytes held by this thread, and the most it held, since the last reset.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
    /// The largest allocation that this thread gets.
    static LARGEST: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Counts what each thread allocates, and refuses what is beyond its limit.
struct Counting;

fn count(delta: isize) {
    let _ = HELD.try_with(|held| {
        let now = held.get().0 + delta;
        held.set((now, held.get().1.max(now)));
    });
}

// SAFETY: every call goes to the system's allocator unchanged or reports a refusal; counting touches no allocated
// memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if LARGEST.try_with(|largest| layout.size() > largest.get()) == Ok(true) {
            return std::ptr::null_mut();
        }
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory held while `f` runs, beyond what was held before.
fn peak<T>(f: impl FnOnce() -> T) -> (T, usize) {
    HELD.set((0, 0));
    let result = f();
    (result, HELD.get().1 as usize)
}

#[test]
fn a_declared_size_allocates_nothing() {
    // 412 GB of weights by the record, a true header, and 200 kB of the first tensor.
    let large = Dims {
        hidden: 8192,
        layers: 256,
        heads: 64,
        kv_heads: 64,
        head_dim: 256,
        intermediate: 65536,
        vocab: 1 << 20,
        ..dims()
    };
    let header = Header::new(&Config::new(large).unwrap(), [0; 32], vec![]).unwrap();
    assert!(header.total_len > 400 << 30);
    let mut bytes = header.to_bytes();
    bytes.resize(bytes.len() + 200_000, 1);
    let start = header.prefix_len() as usize;
    let offset = header.entries[0].offset as usize;
    bytes[start..offset].fill(0);
    let expected = BlobError::Truncated {
        expected: header.total_len,
        found: bytes.len() as u64,
    };
    let (result, peak) = peak(|| Model::from_bytes(&bytes));
    assert_eq!(result.unwrap_err(), expected.into());
    // The directory of 5,896 names, the manifest, twice the bytes that came.
    assert!(peak < 4 << 20, "{peak} bytes");
}

#[test]
fn a_loaded_model_takes_its_size() {
    let config = Config::new(Dims {
        hidden: 512,
        intermediate: 1024,
        vocab: 2000,
        ..dims()
    })
    .unwrap();
    let blob = sample(&config, 1);
    let (model, whole) = peak(|| {
        let mut loader = Loader::new();
        blob.chunks(65536)
            .try_for_each(|piece| loader.push(piece))
            .and_then(|()| loader.finish())
    });
    model.unwrap();
    // A tensor may be held twice while it grows.
    assert!(whole < 2 * blob.len(), "{whole} of {}", blob.len());
}

#[test]
fn a_machine_without_memory_says_nothing_about_the_blob() {
    let config = Config::new(Dims {
        hidden: 512,
        vocab: 2000,
        ..dims()
    })
    .unwrap();
    let blob = sample(&config, 1);
    let mut loader = Loader::new();
    // The embedding table has 1,024,000 bytes.
    LARGEST.set(700_000);
    let pushed = blob.chunks(65536).try_for_each(|piece| loader.push(piece));
    let again = loader.push(&[]);
    let finished = loader.finish();
    LARGEST.set(usize::MAX);
    let fault = Fault::OutOfMemory {
        bytes: 1_024_000,
        what: "a tensor of the model",
    };
    assert_eq!(pushed, Err(LoadError::Fault(fault)));
    assert_eq!(again, pushed);
    assert_eq!(finished.err(), pushed.err());
    assert!(Model::from_bytes(&blob).is_ok());
}

#[test]
fn mutated_headers_neither_panic_nor_allocate() {
    let whole = sample(&config(), 9);
    let mut random = Random::new(1, "mutated headers");
    for case in 0..2000 {
        let mut bytes = whole.clone();
        for _ in 0..random.range(1, 5) {
            let at = random.range(0, 1999) as usize % bytes.len();
            bytes[at] = match random.range(0, 3) {
                0 => 0,
                1 => 0xff,
                2 => 0x7f,
                _ => random.next() as u8,
            };
        }
        bytes.truncate(random.range(0, 5999) as usize);
        let ((parsed, loaded), peak) =
            peak(|| (Header::parse(&bytes).is_ok(), Model::from_bytes(&bytes)));
        assert!(parsed || loaded.is_err(), "case {case}");
        assert!(peak < 8 << 20, "case {case}: {peak} bytes");
    }
}

#[test]
fn random_words_in_the_record() {
    let whole = sample(&config(), 9);
    let mut random = Random::new(2, "random words");
    // Every place of the record in turn, with any word and with small ones.
    for at in (0..51).cycle().take(51 * 40) {
        let word = random.next() as u32;
        let word = if random.range(0, 1) == 0 {
            word % 70_000
        } else {
            word
        };
        let mut bytes = whole.clone();
        bytes[17 + at..21 + at].copy_from_slice(&word.to_le_bytes());
        let (loaded, peak) = peak(|| Model::from_bytes(&bytes));
        if let Ok(model) = loaded {
            assert_eq!(model.blob_len(), bytes.len() as u64, "{word} at {at}");
        }
        assert!(peak < 8 << 20, "{word} at {at}: {peak} bytes");
    }
}

#[test]
fn random_bytes_are_refused() {
    let mut random = Random::new(3, "random bytes");
    for _ in 0..2000 {
        let len = random.range(0, 2999);
        let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        assert!(Model::from_bytes(&bytes).is_err());
        assert!(Header::parse(&bytes).is_err());
    }
}
