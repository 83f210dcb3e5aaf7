//! Two readers of one format: the engine's streaming loader and the reference accept the same bytes, and mean the
//! same by them.

#[path = "common/random_blob.rs"]
mod random_blob;

use int_engine::blob::Loader;
use int_engine::engine::{CpuEngine, Engine};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use proptest::prelude::*;
use random_blob::{Rng, Shape, Style, build, shapes};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Both readers on the same bytes, and the engine's on the bytes as a file; `true` when both accept.
fn compare(bytes: &[u8], what: &str) -> bool {
    let engine = Model::from_bytes(bytes);
    let two = NonZeroUsize::new(2).unwrap();
    let file = Loader::new().load(bytes, bytes.len() as u64, two, |_| {});
    assert!(file == engine, "{what}: another model or error as a file");
    let reference = int_reference::Model::from_blob(bytes);
    match (engine, reference) {
        (Err(_), Err(_)) => false,
        (Ok(model), Ok(reference)) => {
            assert_eq!(
                model.commitment().0,
                int_reference::commitment(bytes),
                "{what}"
            );
            assert_eq!(model.metadata(), reference.metadata(), "{what}");
            let prompt = [0, reference.config().accepted_ids as u32 - 1];
            let prompt = &prompt[..prompt.len().min(reference.config().max_context)];
            let expected = reference.all_logits(prompt).unwrap();
            let engine = CpuEngine::new(Arc::new(model), Kernels::detect(), NonZeroUsize::MIN);
            let mut session = engine.session().unwrap();
            session.feed(prompt).unwrap();
            assert_eq!(
                session.logits().unwrap(),
                expected.last().unwrap(),
                "{what}"
            );
            true
        }
        (Ok(_), Err(e)) => panic!("{what}: only the engine accepts; the reference says {e}"),
        (Err(e), Ok(_)) => panic!("{what}: only the reference accepts; the engine says {e}"),
    }
}

#[test]
fn whole_blobs_are_accepted() {
    for (name, shape) in shapes() {
        for style in [Style::Plausible, Style::Extreme, Style::Zero] {
            assert!(
                compare(&build(&shape, style, 5).bytes, name),
                "{name} {style:?}"
            );
        }
    }
}

fn small() -> Shape {
    Shape {
        qk_norm: true,
        ..Shape::small()
    }
}

/// Every byte of the header region, each set to values that matter to a parser.
#[test]
fn every_header_byte() {
    let blob = build(&small(), Style::Plausible, 1);
    let end = 1024 + blob.manifest_len + 64;
    let mut accepted = 0;
    for at in 0..end.min(blob.bytes.len()) {
        for value in [
            0,
            1,
            2,
            127,
            128,
            255,
            blob.bytes[at] ^ 1,
            blob.bytes[at].wrapping_add(1),
        ] {
            if value != blob.bytes[at] {
                let mut bytes = blob.bytes.clone();
                bytes[at] = value;
                accepted += usize::from(compare(&bytes, &format!("byte {at} = {value}")));
            }
        }
    }
    // eps, context, accepted ids, stop ids, digests of the tokenizer and metadata text may change and stay valid.
    assert!(accepted > 100, "{accepted} changed headers were accepted");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn mutations(seed: u64, shape in 0..shapes().len() + 1, extreme: bool, edits in 1..4usize) {
        let mut rng = Rng(seed);
        let all = shapes();
        let shape = all.get(shape).map_or_else(small, |s| s.1.clone());
        let style = if extreme { Style::Extreme } else { Style::Plausible };
        let blob = build(&shape, style, seed % 8);
        let mut bytes = blob.bytes;
        for _ in 0..edits {
            let len = bytes.len() as i64;
            let header = 1024 + blob.manifest_len as i64;
            let at = rng.pick(&[rng.clone().range(0, len - 1), rng.clone().range(0, header.min(len) - 1)]) as usize;
            match rng.range(0, 5) {
                0 => bytes[at] ^= 1 << rng.range(0, 7),
                1 => bytes[at] = rng.pick(&[0, 1, 127, 128, 255]),
                2 => { bytes.remove(at); }
                3 => bytes.insert(at, rng.pick(&[0, 255])),
                4 => bytes.truncate(at.max(1)),
                _ => {
                    let other = rng.range(0, bytes.len() as i64 - 1) as usize;
                    bytes.swap(at, other);
                }
            }
        }
        compare(&bytes, "mutation");
    }

    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        prop_assert!(!compare(&bytes, "arbitrary"));
    }
}
