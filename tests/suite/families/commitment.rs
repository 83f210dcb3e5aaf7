//! Family 22: the commitment covers every bit of the file.

use crate::random_blob::{RandomBlob, Shape, Style, build};
use int_engine::blob::{BlobError, Header, LoadError, Loader};
use int_engine::commitment::{Commitment, commitment};
use int_engine::model::Model;
use std::ops::Range;

fn shapes() -> [Shape; 4] {
    let small = Shape {
        stop_ids: vec![1, 5],
        ..Shape::small()
    };
    [
        small.clone(),
        Shape {
            qk_norm: true,
            layers: 2,
            ..small.clone()
        },
        Shape {
            tied: false,
            qk_norm: true,
            ..small.clone()
        },
        Shape {
            static_scheme: true,
            ..small
        },
    ]
}

/// Loads with the commitment of the unchanged file expected.
fn load(bytes: &[u8], expected: Commitment) -> Result<Model, BlobError> {
    let mut loader = Loader::new().expect(expected);
    let result = loader.push(bytes).and_then(|()| loader.finish());
    result.map_err(|e| match e {
        LoadError::Blob(e) => e,
        LoadError::Fault(e) => panic!("{e}"),
        LoadError::Read(e) => panic!("{e}"),
    })
}

/// The file after `change` is another one: no model under the old commitment, and another commitment.
fn differs(blob: &RandomBlob, what: &str, change: impl FnOnce(&mut Vec<u8>)) -> BlobError {
    let before = commitment(&blob.bytes);
    let mut bytes = blob.bytes.clone();
    change(&mut bytes);
    assert_ne!(bytes, blob.bytes, "{what}");
    let after = commitment(&bytes);
    assert_ne!(before, after, "{what}");
    assert_eq!(after.0, int_reference::commitment(&bytes), "{what}");
    load(&bytes, before).expect_err(what)
}

#[test]
fn family_22_every_byte_of_the_file() {
    for shape in shapes() {
        let blob = build(&shape, Style::Plausible, 3);
        let before = commitment(&blob.bytes);
        assert!(load(&blob.bytes, before).is_ok());
        let mut mismatches = 0;
        for at in 0..blob.bytes.len() {
            // Every bit before the tensors, one bit of each later byte.
            let bits = if at < 1024 + blob.manifest_len {
                0..8
            } else {
                at % 8..at % 8 + 1
            };
            for bit in bits {
                let mut bytes = blob.bytes.clone();
                bytes[at] ^= 1 << bit;
                assert_ne!(commitment(&bytes), before, "byte {at}, bit {bit}");
                match load(&bytes, before) {
                    Err(BlobError::CommitmentMismatch { expected, found }) => {
                        assert_eq!(expected, before);
                        assert_eq!(found, commitment(&bytes));
                        mismatches += 1;
                    }
                    Err(_) => {}
                    Ok(_) => panic!("byte {at}, bit {bit}: loaded under another commitment"),
                }
            }
        }
        // Most bits make another valid file, which the commitment alone tells apart.
        assert!(
            2 * mismatches > blob.bytes.len() - 1024 - blob.manifest_len,
            "{mismatches}"
        );
    }
}

#[test]
fn family_22_lengths() {
    let blob = build(&shapes()[0], Style::Plausible, 3);
    let len = blob.bytes.len();
    for cut in [0, 1, 7, 8, 1023, 1024, len / 2, len - 64, len - 1] {
        let error = differs(&blob, &format!("cut at {cut}"), |b| b.truncate(cut));
        assert!(
            matches!(error, BlobError::Truncated { found, .. } if found == cut as u64),
            "{cut}: {error}"
        );
    }
    for extra in [1, 63, 64, 65_536] {
        let error = differs(&blob, &format!("{extra} more"), |b| {
            b.resize(len + extra, 0)
        });
        assert_eq!(
            error,
            BlobError::TrailingBytes {
                expected: len as u64
            }
        );
    }
    // A file and itself with zeros after, around the size of a leaf: their commitments differ.
    for size in [0usize, 1, 63, 64, 1023, 1024, 65_535, 65_536, 65_537] {
        let zeros = vec![0; size + 1];
        assert_ne!(commitment(&zeros[..size]), commitment(&zeros), "{size}");
    }
}

#[test]
fn family_22_tables_and_tokenizer() {
    for shape in shapes() {
        let blob = build(&shape, Style::Plausible, 4);
        let header = Header::parse(&blob.bytes).unwrap();
        // The digests of the three tables stand before the tokenizer's, which is zero here and the only such run.
        let record = &blob.bytes[..1024];
        let hex: Vec<u8> = [0x8d, 0xa5, 0x1d, 0xe7].to_vec();
        let tables = record
            .windows(4)
            .position(|w| w == hex)
            .expect("the first table's digest");
        let tokenizer = tables + 3 * 32;
        assert_eq!(header.tokenizer_digest, record[tokenizer..tokenizer + 32]);
        let mut names = Vec::new();
        for at in tables..tokenizer {
            let error = differs(&blob, &format!("table digest byte {at}"), |b| {
                b[at] ^= 1 << (at % 8)
            });
            let BlobError::TableDigest {
                table,
                found,
                expected,
            } = error
            else {
                panic!("{at}: {error}")
            };
            assert_ne!(found, expected);
            if names.last() != Some(&table) {
                names.push(table);
            }
        }
        assert_eq!(names.len(), 3, "{names:?}");
        for at in tokenizer..tokenizer + 32 {
            let error = differs(&blob, &format!("tokenizer digest byte {at}"), |b| {
                b[at] ^= 1 << (at % 8)
            });
            assert!(
                matches!(error, BlobError::CommitmentMismatch { .. }),
                "{at}: {error}"
            );
        }
    }
}

/// Positions of the fixed-width fields of the record, by searching for what changes with them.
fn config_field(shape: &Shape, change: impl Fn(&mut Shape)) -> Range<usize> {
    let mut other = shape.clone();
    change(&mut other);
    let (a, b) = (
        build(shape, Style::Zero, 1).bytes,
        build(&other, Style::Zero, 1).bytes,
    );
    // Magic, versions, scheme, total_len and manifest_len stand first: 8 + 4 + 4 + 1 + 8 + 4.
    let at = (29..1024)
        .find(|&i| a[i] != b[i])
        .expect("a byte that differs");
    at..(at..1024).take_while(|&i| a[i] != b[i]).last().unwrap() + 1
}

#[test]
fn family_22_every_field_of_the_configuration() {
    type Change = (&'static str, fn(&mut Shape));
    let changes: [Change; 13] = [
        ("hidden", |s| s.hidden = 13),
        ("layers", |s| s.layers = 2),
        ("heads", |s| s.heads = 4),
        ("kv_heads", |s| s.kv_heads = 2),
        ("head_dim", |s| s.head_dim = 6),
        ("intermediate", |s| s.intermediate = 11),
        ("vocab", |s| s.vocab = 10),
        ("accepted_ids", |s| s.accepted = 8),
        ("max_context", |s| s.ctx = 5),
        ("qk_norm", |s| s.qk_norm = true),
        ("tied", |s| s.tied = false),
        ("eps", |s| s.eps = Some(1)),
        ("stop_ids", |s| s.stop_ids = vec![1, 6]),
    ];
    let shape = &shapes()[0];
    let blob = build(shape, Style::Zero, 1);
    let before = commitment(&blob.bytes);
    for (name, change) in changes {
        // The whole blob of the changed configuration has another commitment,
        let mut other = shape.clone();
        change(&mut other);
        let other = build(&other, Style::Zero, 1);
        assert_ne!(commitment(&other.bytes), before, "{name}");
        assert!(load(&other.bytes, before).is_err(), "{name}");
        // and so has the field alone, whether the file still fits it or not.
        let field = config_field(shape, change);
        let what = format!("{name} at {field:?}");
        let error = differs(&blob, &what, |b| {
            b[field.clone()].copy_from_slice(&other.bytes[field.clone()])
        });
        let free = ["accepted_ids", "max_context", "eps", "stop_ids"].contains(&name);
        let mismatch = matches!(error, BlobError::CommitmentMismatch { .. });
        assert_eq!(mismatch, free, "{what}: {error}");
    }
}

/// The scheme stands before the lengths: 8 bytes of magic, two versions.
#[test]
fn family_22_the_scheme() {
    for shape in shapes() {
        let blob = build(&shape, Style::Plausible, 2);
        let scheme = blob.bytes[16];
        assert_eq!(scheme, if shape.static_scheme { 2 } else { 1 });
        for other in [0, 1, 2, 3, 255] {
            if other != scheme {
                let error = differs(&blob, &format!("scheme {other}"), |b| b[16] = other);
                let known = [1, 2].contains(&other);
                assert_eq!(
                    matches!(error, BlobError::Scheme { .. }),
                    !known,
                    "{other}: {error}"
                );
            }
        }
    }
}

#[test]
fn family_22_every_tensor_and_the_gaps_between() {
    for shape in shapes() {
        let blob = build(&shape, Style::Plausible, 5);
        let mut end = 1024 + blob.manifest_len;
        for t in &blob.tensors {
            for at in [t.offset, t.offset + t.length / 2, t.offset + t.length - 1] {
                differs(&blob, &format!("{} at {at}", t.name), |b| b[at] ^= 1);
            }
            for at in end..t.offset {
                let error = differs(&blob, &format!("the gap before {}", t.name), |b| b[at] = 1);
                assert_eq!(
                    error,
                    BlobError::Gap {
                        tensor: t.name.clone(),
                        offset: at as u64,
                        found: 1
                    }
                );
            }
            end = t.offset + t.length;
        }
        // Padding of the record.
        for at in [1023, 1000, 900] {
            let error = differs(&blob, &format!("record byte {at}"), |b| b[at] = 0x80);
            assert_eq!(
                error,
                BlobError::RecordPadding {
                    offset: at,
                    found: 0x80
                }
            );
        }
        // Text of the metadata.
        let text = blob
            .bytes
            .windows(6)
            .position(|w| w == b"random")
            .expect("the maker");
        let error = differs(&blob, "metadata", |b| b[text] = b'R');
        assert!(
            matches!(error, BlobError::CommitmentMismatch { .. }),
            "{error}"
        );
    }
}

#[test]
fn family_22_the_order_of_tensors() {
    let shape = &shapes()[2];
    let blob = build(shape, Style::Plausible, 6);
    // Contents of two tensors of one shape, exchanged.
    for (a, b) in [
        ("layers.0.gate.weight", "layers.0.up.weight"),
        ("layers.0.gate.mult", "layers.0.up.mult"),
        ("layers.0.gate.shift", "layers.0.up.shift"),
        ("layers.0.k.weight", "layers.0.v.weight"),
        ("layers.0.q_norm.gain", "layers.0.k_norm.gain"),
        ("embed.weight", "head.weight"),
    ] {
        let (x, y) = (blob.range(a), blob.range(b));
        let error = differs(&blob, &format!("{a} and {b}"), |bytes| {
            let (p, q) = (bytes[x.clone()].to_vec(), bytes[y.clone()].to_vec());
            bytes[x].copy_from_slice(&q);
            bytes[y].copy_from_slice(&p);
        });
        let told = matches!(
            error,
            BlobError::CommitmentMismatch { .. } | BlobError::PreShift { .. }
        );
        assert!(told, "{a} and {b}: {error}");
    }
    // Entries of the directory, exchanged: the first that is out of order is named.
    let names: Vec<&str> = blob.tensors.iter().map(|t| t.name.as_str()).collect();
    for i in 0..names.len() - 1 {
        let at = |name: &str| {
            let key = [&(name.len() as u32).to_le_bytes()[..], name.as_bytes()].concat();
            blob.bytes
                .windows(key.len())
                .position(|w| w == key)
                .expect("an entry")
        };
        let (first, second) = (at(names[i]), at(names[i + 1]));
        let next = names.get(i + 2).map_or(1024 + blob.manifest_len, |n| at(n));
        let error = differs(&blob, &format!("entries {i} and {}", i + 1), |bytes| {
            bytes[first..next].rotate_left(second - first);
        });
        assert!(
            matches!(&error, BlobError::DirectoryEntry { index, tensor, .. } if *index == i && tensor == names[i]),
            "{i}: {error}"
        );
    }
}
