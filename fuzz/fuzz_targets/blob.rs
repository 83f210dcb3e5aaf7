//! Blobs: the streaming loader, the loader of files by several threads and the reference accept the same bytes and mean
//! the same.
//!
//! The first byte chooses: 0 takes the rest as a file; anything else is a recipe, a valid blob with a few edits, whose
//! blobs are deeper than mutations of raw bytes get.
#![no_main]

#[path = "../../tests/suite/common/random_blob.rs"]
mod random_blob;

#[allow(dead_code)]
#[path = "../../node/src/store/layout.rs"]
mod layout;

use arbitrary::Unstructured;
use int_engine::blob::{Header, LoadError, Loader};
use int_engine::commitment::{Hasher, Tree, chunk_count};
use int_engine::engine::{CpuEngine, Engine};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use libfuzzer_sys::fuzz_target;
use random_blob::{RandomBlob, Shape, Style, build};
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};

/// Valid blobs small enough for thousands of executions a second, and one that several threads share.
static BLOBS: LazyLock<Vec<RandomBlob>> = LazyLock::new(|| {
    let small = Shape::small();
    let shapes = [
        small.clone(),
        Shape {
            qk_norm: true,
            stop_ids: vec![1, 5],
            ..small.clone()
        },
        Shape {
            tied: false,
            layers: 2,
            ..small.clone()
        },
        Shape {
            static_scheme: true,
            qk_norm: true,
            ..small.clone()
        },
        Shape {
            hidden: 1,
            heads: 1,
            head_dim: 2,
            intermediate: 1,
            vocab: 1,
            accepted: 1,
            ..small
        },
    ];
    let styles = [Style::Plausible, Style::Extreme, Style::Zero];
    let small = shapes
        .iter()
        .flat_map(|shape| styles.map(|style| build(shape, style, 1)));
    // Two threads' pieces of a chunk: rows across chunks, and tensors of other types in the last ones.
    let long = Shape {
        hidden: 37,
        vocab: 11_000,
        ..Shape::small()
    };
    small.chain([build(&long, Style::Plausible, 1)]).collect()
});

/// Bytes from which a blob is long: loaded in longer pieces, and not computed with.
const LONG: usize = 1 << 17;

enum Edit {
    Set(u16, u8),
    FlipBit(u16, u8),
    Remove(u16),
    Insert(u16, u8),
    Truncate(u16),
    Swap(u16, u16),
    /// A little-endian word, for lengths, counts and int32 values.
    Word(u16, u32),
}

fn edit(u: &mut Unstructured<'_>) -> arbitrary::Result<Edit> {
    Ok(match u.int_in_range(0..=6)? {
        0 => Edit::Set(u.arbitrary()?, u.arbitrary()?),
        1 => Edit::FlipBit(u.arbitrary()?, u.arbitrary()?),
        2 => Edit::Remove(u.arbitrary()?),
        3 => Edit::Insert(u.arbitrary()?, u.arbitrary()?),
        4 => Edit::Truncate(u.arbitrary()?),
        5 => Edit::Swap(u.arbitrary()?, u.arbitrary()?),
        _ => Edit::Word(u.arbitrary()?, u.arbitrary()?),
    })
}

/// A position: odd numbers fall into record and manifest, even ones anywhere, at equal distances in a long blob.
fn place(at: u16, blob: &RandomBlob, len: usize) -> usize {
    let range = if at & 1 == 1 {
        len.min(1024 + blob.manifest_len)
    } else {
        len
    };
    let distance = range.div_ceil(1 << 15).max(1);
    usize::from(at >> 1) * distance % range.max(1)
}

fn apply(edit: &Edit, blob: &RandomBlob, bytes: &mut Vec<u8>) {
    let len = bytes.len();
    if len == 0 {
        return;
    }
    let at = |position| place(position, blob, len);
    match *edit {
        Edit::Set(i, value) => bytes[at(i)] = value,
        Edit::FlipBit(i, bit) => bytes[at(i)] ^= 1 << (bit % 8),
        Edit::Remove(i) => {
            bytes.remove(at(i));
        }
        Edit::Insert(i, value) => bytes.insert(at(i), value),
        Edit::Truncate(i) => bytes.truncate(at(i)),
        Edit::Swap(i, j) => bytes.swap(at(i), at(j)),
        Edit::Word(i, value) => {
            let i = at(i);
            let end = (i + 4).min(len);
            bytes[i..end].copy_from_slice(&value.to_le_bytes()[..end - i]);
        }
    }
}

fn recipe(input: &[u8]) -> arbitrary::Result<Vec<u8>> {
    let mut u = Unstructured::new(input);
    let blob = &BLOBS[u.choose_index(BLOBS.len())?];
    let mut bytes = blob.bytes.clone();
    for _ in 0..u.int_in_range(0..=4)? {
        apply(&edit(&mut u)?, blob, &mut bytes);
    }
    Ok(bytes)
}

/// The loader on pieces whose lengths cycle through `lengths`.
fn stream(bytes: &[u8], lengths: &[u8]) -> Result<Model, LoadError> {
    let mut loader = Loader::new();
    let mut rest = bytes;
    let unit = if bytes.len() < LONG { 1 } else { 1000 };
    for &length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let length = unit * usize::from(length) + 1;
        let (piece, next) = rest.split_at(rest.len().min(length));
        loader.push(piece)?;
        rest = next;
    }
    loader.finish()
}

/// The loader of a file by several threads.
fn load(bytes: &[u8], threads: u8, chunks: u8) -> Result<Model, LoadError> {
    let [threads, chunks] =
        [threads, chunks].map(|n| NonZeroUsize::MIN.saturating_add(usize::from(n)));
    let mut taken = 0;
    let progress = |n: u64| taken += n;
    let len = bytes.len() as u64;
    let result = Loader::new()
        .chunks_at_a_time(chunks)
        .load(bytes, len, threads, progress);
    assert!(if result.is_ok() {
        taken == len
    } else {
        taken <= len
    });
    result
}

/// Logits of a few steps on every backend.
fn steps(model: Model, reference: &int_reference::Model) {
    let (accepted, context) = (
        reference.config().accepted_ids as u32,
        reference.config().max_context,
    );
    let prompt = [0, accepted - 1, accepted / 2];
    let prompt = &prompt[..prompt.len().min(context)];
    let expected = reference
        .all_logits(prompt)
        .expect("accepted ids within the context");
    let model = Arc::new(model);
    for kernels in Kernels::all()
        .into_iter()
        .filter_map(|(_, kernels)| kernels)
    {
        let engine = CpuEngine::new(Arc::clone(&model), kernels, NonZeroUsize::MIN);
        let mut session = engine.session().expect("memory");
        let sink = &mut |position: usize, logits: &[i32]| {
            assert_eq!(logits, expected[position], "{}", kernels.name)
        };
        session
            .feed_all_logits(prompt, sink)
            .expect("accepted ids within the context");
    }
}

/// What a node knows of any bytes before it has read them: their tree from leaves that somebody sent, their chunks, the
/// length that they state, which is any number.
fn store(bytes: &[u8]) {
    let len = bytes.len() as u64;
    let mut hasher = Hasher::new();
    hasher.update(bytes);
    let tree = hasher.finish();
    assert_eq!(tree.commitment().0, int_reference::commitment(bytes));
    let leaves = tree.leaves().to_vec();
    assert_eq!(Tree::from_leaves(len, leaves.clone()), Some(tree));
    let chunks = (0..chunk_count(len)).map(|i| layout::chunk_range(len, i).expect("a chunk"));
    let end = chunks.fold(0, |end, chunk| {
        assert_eq!(chunk.start, end);
        chunk.end
    });
    assert_eq!(end, len);
    assert_eq!(layout::chunk_range(len, chunk_count(len)), None);
    if let Some(stated) = layout::stated_len(bytes) {
        let tree = Tree::from_leaves(stated, leaves.clone());
        assert_eq!(tree.is_some(), chunk_count(stated) == leaves.len() as u64);
        let last = layout::chunk_range(stated, chunk_count(stated).saturating_sub(1));
        assert_eq!(last.map(|chunk| chunk.end), Some(stated));
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, rest)) = input.split_first() else {
        return;
    };
    let bytes = match kind {
        0 => rest.to_vec(),
        _ => match recipe(rest) {
            Ok(bytes) => bytes,
            Err(_) => return,
        },
    };
    store(&bytes);
    let lengths = [kind, bytes.last().copied().unwrap_or(0), 63];
    let whole = Model::from_bytes(&bytes);
    let streamed = stream(&bytes, &lengths);
    assert_eq!(whole, streamed, "pieces of {lengths:?}");
    let (threads, chunks) = (kind % 4, kind / 4 % 3);
    let loaded = load(&bytes, threads, chunks);
    assert_eq!(whole, loaded, "{threads} + 1 threads, {chunks} + 1 chunks");
    match (whole, int_reference::Model::from_blob(&bytes)) {
        (Ok(model), Ok(reference)) => {
            let header = Header::parse(&bytes).expect("the header of an accepted blob");
            assert_eq!(
                &header.to_bytes()[..],
                &bytes[..header.prefix_len() as usize]
            );
            assert_eq!(model.commitment().0, int_reference::commitment(&bytes));
            assert_eq!(layout::stated_len(&bytes), Some(bytes.len() as u64));
            assert_eq!(model.metadata(), reference.metadata());
            if bytes.len() < LONG {
                steps(model, &reference);
            }
        }
        (Err(_), Err(_)) => {}
        (Ok(_), Err(e)) => panic!("only the engine accepts; the reference: {e}"),
        (Err(e), Ok(_)) => panic!("only the reference accepts; the engine: {e}"),
    }
});
