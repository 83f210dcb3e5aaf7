//! Family 2: GGUF files that lie about their sizes, and files of other kinds.

use float_engine::source::{Checkpoint, SourceError};
use quant_core::FormatError;
use quant_core::gguf::{GgufError, GgufFile, MAX_ALIGNMENT, MAX_ARRAY_DEPTH, MIN_ALIGNMENT};
use std::fs;

const U8: u32 = 0;
const U32: u32 = 4;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const F32: u32 = 0;

fn text(s: &[u8]) -> Vec<u8> {
    [&(s.len() as u64).to_le_bytes(), s].concat()
}

fn header(version: u32, tensors: u64, entries: u64) -> Vec<u8> {
    [
        b"GGUF",
        &version.to_le_bytes()[..],
        &tensors.to_le_bytes(),
        &entries.to_le_bytes(),
    ]
    .concat()
}

fn entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&text(key.as_bytes()), &kind.to_le_bytes()[..], value].concat()
}

fn array(kind: u32, count: u64, content: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), content].concat()
}

/// A tensor entry; dimensions as stored, innermost first.
fn tensor(name: &str, dimensions: &[u64], format: u32, offset: u64) -> Vec<u8> {
    let mut out = text(name.as_bytes());
    out.extend((dimensions.len() as u32).to_le_bytes());
    dimensions.iter().for_each(|d| out.extend(d.to_le_bytes()));
    out.extend(format.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}

fn file(entries: &[Vec<u8>], tensors: &[Vec<u8>], data: usize) -> Vec<u8> {
    let mut out = header(3, tensors.len() as u64, entries.len() as u64);
    out.extend(entries.concat());
    out.extend(tensors.concat());
    out.resize(out.len().next_multiple_of(32) + data, 0);
    out
}

/// The container's error, which the checkpoint's reader passes on in its own words.
fn refused(bytes: &[u8]) -> GgufError {
    let error = GgufFile::parse(bytes).expect_err("must be refused");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    match Checkpoint::open(&path).expect_err("must be refused") {
        SourceError::Gguf { detail } => assert_eq!(detail, error.to_string()),
        // An empty file has no map.
        SourceError::Io { .. } if bytes.is_empty() => {}
        other => panic!("{other}"),
    }
    error
}

const HUGE: [u64; 8] = [
    1 << 20,
    1 << 32,
    (1 << 42) + 1,
    1 << 60,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX,
];

#[test]
fn family_02_counts_are_named() {
    for huge in HUGE {
        for (bytes, named) in [
            (header(3, huge, 0), "tensor count"),
            (header(3, 0, huge), "metadata count"),
        ] {
            for tail in [0, 100] {
                let bytes = [bytes.clone(), vec![0; tail]].concat();
                let error = refused(&bytes);
                assert!(
                    matches!(&error, GgufError::Count { field, declared, .. } if *field == named && *declared == huge),
                    "{huge}: {error}"
                );
            }
        }
        for kind in [U8, U32, STRING, ARRAY] {
            let error = refused(&file(
                &[entry("key", ARRAY, &array(kind, huge, &[0; 40]))],
                &[],
                0,
            ));
            assert!(
                matches!(&error, GgufError::Count { field: "array length", declared, .. } if *declared == huge),
                "{kind} {huge}: {error}"
            );
            assert!(error.to_string().contains("key"), "{error}");
        }
    }
}

#[test]
fn family_02_string_lengths_are_named() {
    for huge in HUGE {
        let long = [&huge.to_le_bytes()[..], b"abc"].concat();
        let value = refused(&file(&[entry("key", STRING, &long)], &[], 0));
        let element = refused(&file(
            &[entry("key", ARRAY, &array(STRING, 1, &long))],
            &[],
            0,
        ));
        for error in [value, element] {
            assert!(
                matches!(&error, GgufError::Truncated { needed, .. } if *needed == huge)
                    && error.to_string().contains("key"),
                "{huge}: {error}"
            );
        }
        // Keys and names of tensors have a limit of their own.
        for bytes in [
            [header(3, 0, 1), long.clone(), vec![0; 9]].concat(),
            [header(3, 1, 0), long, vec![0; 40]].concat(),
        ] {
            let error = refused(&bytes);
            assert!(
                matches!(&error, GgufError::NameTooLong { len, .. } if *len == huge),
                "{huge}: {error}"
            );
        }
    }
}

#[test]
fn family_02_arrays_nested_deeply() {
    let nested =
        |depth: usize| [array(ARRAY, 1, &[]).repeat(depth - 1), array(U8, 1, &[7])].concat();
    for depth in 1..=MAX_ARRAY_DEPTH {
        let bytes = file(&[entry("key", ARRAY, &nested(depth))], &[], 0);
        assert!(GgufFile::parse(&bytes).is_ok(), "{depth}");
    }
    for depth in [
        MAX_ARRAY_DEPTH + 1,
        MAX_ARRAY_DEPTH + 2,
        100,
        10_000,
        200_000,
    ] {
        let error = refused(&file(&[entry("key", ARRAY, &nested(depth))], &[], 0));
        assert_eq!(
            error,
            GgufError::ArrayDepth { key: "key".into() },
            "{depth}"
        );
    }
    // Many arrays in one array, each with a count that all the rest could hold only once.
    let wide = array(
        ARRAY,
        3,
        &[
            array(U8, 4, &[0; 4]),
            array(U8, 1 << 40, &[0; 4]),
            array(U8, 0, &[]),
        ]
        .concat(),
    );
    assert!(matches!(
        refused(&file(&[entry("key", ARRAY, &wide)], &[], 0)),
        GgufError::Count { .. }
    ));
}

#[test]
fn family_02_dimensions_beyond_the_file() {
    for dimensions in [
        &[(1 << 42) + 1][..],
        &[1 << 60],
        &[1 << 62],
        &[u64::MAX],
        &[1, u64::MAX],
        &[1 << 32, 1 << 31],
        &[1 << 31, 1 << 32],
        &[1 << 16, 1 << 16, 1 << 16, 1 << 15],
        &[u64::MAX, u64::MAX],
        &[1 << 62, 4],
        &[1 << 32, 1 << 32],
        &[3, 6_148_914_691_236_517_206],
    ] {
        let error = refused(&file(&[], &[tensor("t", dimensions, F32, 0)], 64));
        let named = match &error {
            GgufError::PastEnd { tensor, .. } | GgufError::ElementCount { tensor, .. } => tensor,
            GgufError::Size {
                tensor,
                source: FormatError::SizeOverflow { .. },
                ..
            } => tensor,
            other => panic!("{dimensions:?}: {other}"),
        };
        assert_eq!(named, "t");
    }
    for dimensions in [&[0][..], &[0, 4], &[4, 0], &[1 << 62, 0]] {
        let error = refused(&file(&[], &[tensor("t", dimensions, F32, 0)], 64));
        assert!(
            matches!(&error, GgufError::ZeroDimension { tensor, .. } if tensor == "t"),
            "{dimensions:?}: {error}"
        );
    }
    for count in [0, 5, 6, 1 << 20, u32::MAX] {
        let mut bytes = [header(3, 1, 0), text(b"t"), count.to_le_bytes().to_vec()].concat();
        bytes.resize(bytes.len() + 200, 1);
        let error = refused(&bytes);
        assert_eq!(
            error,
            GgufError::DimensionCount {
                tensor: "t".into(),
                found: count
            }
        );
    }
    // Rows that are no whole number of blocks, and formats that do not exist.
    for (format, len) in [(2, 16), (8, 33), (12, 128), (14, 255)] {
        let error = refused(&file(&[], &[tensor("t", &[len, 2], format, 0)], 4096));
        assert!(
            matches!(
                error,
                GgufError::Size {
                    source: FormatError::RowLength { .. },
                    ..
                }
            ),
            "{format}: {error}"
        );
    }
    for id in [4, 5, 7, 9, 31, 100, u32::MAX] {
        let error = refused(&file(&[], &[tensor("t", &[32], id, 0)], 4096));
        assert_eq!(
            error,
            GgufError::UnknownFormat {
                tensor: "t".into(),
                id
            }
        );
    }
}

#[test]
fn family_02_alignments() {
    let with = |value: u32| {
        file(
            &[entry("general.alignment", U32, &value.to_le_bytes())],
            &[],
            0,
        )
    };
    for found in [
        0,
        1,
        2,
        3,
        4,
        7,
        12,
        33,
        48,
        1 << 22,
        1 << 31,
        (1 << 31) + 1,
        u32::MAX,
    ] {
        assert_eq!(refused(&with(found)), GgufError::Alignment { found });
    }
    for good in [MIN_ALIGNMENT, 16, 32, 64, 4096, MAX_ALIGNMENT] {
        let file = with(good);
        assert_eq!(GgufFile::parse(&file).unwrap().alignment(), good);
    }
    for (kind, value) in [
        (U8, &[32][..]),
        (STRING, &text(b"32")[..]),
        (10, &32u64.to_le_bytes()[..]),
        (5, &32i32.to_le_bytes()[..]),
    ] {
        let error = refused(&file(&[entry("general.alignment", kind, value)], &[], 0));
        assert!(
            matches!(error, GgufError::AlignmentType { .. }),
            "{kind}: {error}"
        );
    }
    for offset in [1, 4, 31, 33, u64::MAX] {
        let error = refused(&file(&[], &[tensor("t", &[8], F32, offset)], 64));
        assert!(
            matches!(&error, GgufError::Misaligned { tensor, offset: o, .. } if tensor == "t" && *o == offset),
            "{error}"
        );
    }
}

#[test]
fn family_02_tensors_that_share_bytes_or_leave_holes() {
    let two = |a: u64, b: u64| {
        file(
            &[],
            &[tensor("a", &[16], F32, a), tensor("b", &[16], F32, b)],
            160,
        )
    };
    assert!(
        GgufFile::parse(&file(
            &[],
            &[tensor("a", &[16], F32, 64), tensor("b", &[16], F32, 0)],
            128
        ))
        .is_ok()
    );
    for (a, b, first, second) in [(0, 0, "a", "b"), (0, 32, "a", "b"), (32, 0, "b", "a")] {
        match refused(&two(a, b)) {
            GgufError::Overlap {
                first: f,
                second: s,
                ..
            } => assert_eq!((&f[..], &s[..]), (first, second)),
            other => panic!("{a} {b}: {other}"),
        }
    }
    for (a, b, named) in [(0, 96, "b"), (96, 0, "a"), (32, 96, "a")] {
        let error = refused(&two(a, b));
        assert!(
            matches!(&error, GgufError::Hole { tensor, .. } if tensor == named),
            "{a} {b}: {error}"
        );
    }
    for offset in [96, 128, 1 << 40, u64::MAX - 31] {
        let error = refused(&two(0, offset));
        let named = matches!(&error, GgufError::PastEnd { tensor, .. } | GgufError::Hole { tensor, .. } if tensor == "b");
        assert!(named, "{offset}: {error}");
    }
    let error = refused(&two(0, 64).into_iter().chain([0; 64]).collect::<Vec<u8>>());
    assert!(matches!(error, GgufError::TrailingBytes { .. }), "{error}");
    let error = refused(&file(
        &[],
        &[tensor("a", &[8], F32, 0), tensor("a", &[8], F32, 32)],
        64,
    ));
    assert_eq!(error, GgufError::DuplicateTensor { tensor: "a".into() });
}

#[test]
fn family_02_other_versions_byte_orders_and_kinds() {
    for found in [0, 1, 4, 5, 1 << 15, 0x0101_0101, u32::MAX] {
        let error = refused(&header(found, 0, 0));
        assert_eq!(error, GgufError::Version { found });
        assert!(error.to_string().contains(&found.to_string()), "{error}");
    }
    for version in [1u32, 2, 3, 4] {
        let mut bytes = header(version.swap_bytes(), 0, 0);
        assert_eq!(
            refused(&bytes),
            GgufError::BigEndian {
                version: version.to_be_bytes()
            }
        );
        bytes[..4].reverse();
        assert_eq!(
            refused(&bytes),
            GgufError::BigEndian {
                version: version.to_be_bytes()
            }
        );
    }
    for magic in [
        *b"ggml",
        *b"ggjt",
        *b"ggla",
        *b"gguf",
        *b"PK\x03\x04",
        *b"BLUE",
        *b"\x7fELF",
        [0; 4],
        [0xff; 4],
    ] {
        let bytes = [&magic, &header(3, 0, 0)[4..]].concat();
        assert_eq!(refused(&bytes), GgufError::Magic { found: magic });
    }
    for len in 0..24 {
        let error = refused(&header(3, 0, 0)[..len]);
        assert!(
            matches!(error, GgufError::Truncated { .. }),
            "{len}: {error}"
        );
    }
    assert!(GgufFile::parse(&file(&[], &[], 0)).is_ok());
}
