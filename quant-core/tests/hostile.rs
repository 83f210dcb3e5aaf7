//! Files that must be refused, each with the error that names its defect.
#![forbid(unsafe_code)]

use quant_core::FormatError;
use quant_core::gguf::{GgufError, GgufFile, MAX_ALIGNMENT, MAX_ARRAY_DEPTH, MIN_ALIGNMENT, Place};

const F32: u32 = 0;
const Q8_0: u32 = 8;
const U32: u32 = 4;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

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

fn entry(key: &str, value_type: u32, value: &[u8]) -> Vec<u8> {
    [&text(key.as_bytes()), &value_type.to_le_bytes()[..], value].concat()
}

/// `dimensions` as stored: innermost first.
fn tensor(name: &str, dimensions: &[u64], format: u32, offset: u64) -> Vec<u8> {
    let mut out = text(name.as_bytes());
    out.extend((dimensions.len() as u32).to_le_bytes());
    dimensions.iter().for_each(|d| out.extend(d.to_le_bytes()));
    out.extend(format.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}

/// A file of these parts with `data` bytes of tensor data.
fn file(entries: &[Vec<u8>], tensors: &[Vec<u8>], data: usize) -> Vec<u8> {
    let mut out = header(3, tensors.len() as u64, entries.len() as u64);
    out.extend(entries.concat());
    out.extend(tensors.concat());
    out.resize(out.len().next_multiple_of(32) + data, 0);
    out
}

fn refuse(bytes: &[u8]) -> GgufError {
    let error = GgufFile::parse(bytes).expect_err("must be refused");
    assert!(!error.to_string().is_empty());
    error
}

fn refuse_entry(value_type: u32, value: &[u8]) -> GgufError {
    refuse(&file(&[entry("some.key", value_type, value)], &[], 0))
}

fn refuse_tensors(tensors: &[Vec<u8>], data: usize) -> GgufError {
    refuse(&file(&[], tensors, data))
}

#[test]
fn the_helpers_make_a_good_file() {
    let tensors = [tensor("a", &[8], F32, 0), tensor("b", &[32, 2], Q8_0, 32)];
    let bytes = file(&[entry("k", U32, &[1, 0, 0, 0])], &tensors, 32 + 68);
    let file = GgufFile::parse(&bytes).unwrap();
    assert_eq!(file.tensor("b").unwrap().shape, [2, 32]);
}

#[test]
fn magic_and_version() {
    for magic in [*b"ggml", *b"ggjt", *b"GGUf", *b"PK\x03\x04", [0; 4]] {
        let mut bytes = header(3, 0, 0);
        bytes[..4].copy_from_slice(&magic);
        assert_eq!(refuse(&bytes), GgufError::Magic { found: magic });
    }
    for found in [0, 1, 4, 0xffff, 0x0003_0003, u32::MAX] {
        let error = refuse(&header(found, 0, 0));
        assert_eq!(error, GgufError::Version { found });
        assert!(error.to_string().contains(&found.to_string()));
    }
    // The version of a big-endian file, and the reversed magic.
    for version in [1u32, 2, 3] {
        let mut bytes = header(version.swap_bytes(), 0, 0);
        assert_eq!(
            refuse(&bytes),
            GgufError::BigEndian {
                version: version.to_be_bytes()
            }
        );
        bytes[..4].copy_from_slice(b"FUGG");
        assert_eq!(
            refuse(&bytes),
            GgufError::BigEndian {
                version: version.to_be_bytes()
            }
        );
    }
}

/// Every proper prefix of a file is refused.
#[test]
fn truncation_at_every_byte() {
    let entries = [entry("k", STRING, &text(b"value")), entry("l", BOOL, &[1])];
    let whole = file(&entries, &[tensor("a", &[8], F32, 0)], 32);
    assert!(GgufFile::parse(&whole).is_ok());
    for len in 0..whole.len() {
        let error = refuse(&whole[..len]);
        assert!(
            matches!(
                error,
                GgufError::Truncated { .. } | GgufError::Count { .. } | GgufError::PastEnd { .. }
            ),
            "{len}: {error}"
        );
    }
    assert_eq!(
        refuse(&whole[..6]),
        GgufError::Truncated {
            place: Place::Header,
            field: "version",
            offset: 4,
            needed: 4,
            available: 2
        }
    );
}

#[test]
fn huge_counts() {
    for huge in [1, 1 << 32, 1 << 62, 1 << 63, u64::MAX] {
        for (bytes, name) in [
            (header(3, huge, 0), "tensor count"),
            (header(3, 0, huge), "metadata count"),
        ] {
            let error = refuse(&bytes);
            assert!(
                matches!(
                    error,
                    GgufError::Count { place: Place::Header, field, declared, possible: 0 }
                        if field == name && declared == huge
                ),
                "{error}"
            );
        }
    }
}

#[test]
fn huge_strings() {
    for huge in [1u64, 1 << 60, u64::MAX] {
        let mut bytes = header(3, 0, 1);
        bytes.extend(entry("some.key", STRING, &huge.to_le_bytes()));
        let place = Place::Key("some.key".into());
        let expected = GgufError::Truncated {
            place,
            field: "value",
            offset: 52,
            needed: huge,
            available: 0,
        };
        assert_eq!(refuse(&bytes), expected);
    }
    for len in [65536u64, 1 << 60] {
        let mut bytes = header(3, 0, 1);
        bytes.extend(len.to_le_bytes());
        bytes.extend([b'a'; 70000]);
        assert_eq!(
            refuse(&bytes),
            GgufError::NameTooLong {
                place: Place::Entry(0),
                len
            }
        );
        let mut bytes = header(3, 1, 0);
        bytes.extend(len.to_le_bytes());
        bytes.extend([b'a'; 70000]);
        assert_eq!(
            refuse(&bytes),
            GgufError::NameTooLong {
                place: Place::TensorEntry(0),
                len
            }
        );
    }
}

#[test]
fn huge_arrays() {
    for element in 0..=12u32 {
        for huge in [
            100u64,
            1 << 32,
            1 << 60,
            1 << 61,
            1 << 62,
            1 << 63,
            u64::MAX,
        ] {
            let value = [&element.to_le_bytes()[..], &huge.to_le_bytes()].concat();
            let error = refuse_entry(ARRAY, &value);
            assert!(
                matches!(&error, GgufError::Count { place: Place::Key(key), declared, .. }
                    if key == "some.key" && *declared == huge),
                "{element} {huge}: {error}"
            );
        }
    }
}

/// A count is refused from the first one whose items of the least size cannot fit.
#[test]
fn counts_at_their_limit() {
    for (element, least) in [
        (0u32, 1u64),
        (3, 2),
        (U32, 4),
        (12, 8),
        (STRING, 8),
        (ARRAY, 12),
    ] {
        let with = |count: u64| {
            let mut bytes = header(3, 0, 1);
            let value = [&element.to_le_bytes()[..], &count.to_le_bytes()].concat();
            bytes.extend(entry("k", ARRAY, &value));
            bytes.resize(bytes.len() + 5 * least as usize, 0);
            bytes
        };
        assert!(GgufFile::parse(&with(5)).is_ok());
        let error = refuse(&with(6));
        assert!(
            matches!(
                error,
                GgufError::Count {
                    declared: 6,
                    possible: 5,
                    ..
                }
            ),
            "{error}"
        );
    }
}

/// Arrays of one array each, down to an empty array of u32 at `depth`.
fn nested(depth: usize) -> Vec<u8> {
    let mut value = Vec::new();
    for _ in 1..depth {
        value.extend(ARRAY.to_le_bytes());
        value.extend(1u64.to_le_bytes());
    }
    value.extend(U32.to_le_bytes());
    value.extend(0u64.to_le_bytes());
    value
}

#[test]
fn nesting_depth() {
    let bytes = file(&[entry("k", ARRAY, &nested(MAX_ARRAY_DEPTH))], &[], 0);
    assert!(GgufFile::parse(&bytes).is_ok());
    for depth in [MAX_ARRAY_DEPTH + 1, 100_000] {
        let expected = GgufError::ArrayDepth {
            key: "some.key".into(),
        };
        assert_eq!(refuse_entry(ARRAY, &nested(depth)), expected);
    }
}

#[test]
fn bad_values() {
    for id in [13u32, 255, u32::MAX] {
        let expected = GgufError::ValueType {
            key: "some.key".into(),
            id,
        };
        assert_eq!(refuse_entry(id, &[0; 32]), expected);
        let array = [&id.to_le_bytes()[..], &[0; 32]].concat();
        assert_eq!(refuse_entry(ARRAY, &array), expected);
    }
    let expected = |found, offset| GgufError::Bool {
        key: "some.key".into(),
        found,
        offset,
    };
    assert_eq!(refuse_entry(BOOL, &[2]), expected(2, 44));
    let array = [&BOOL.to_le_bytes()[..], &3u64.to_le_bytes(), &[0, 1, 255]].concat();
    assert_eq!(refuse_entry(ARRAY, &array), expected(255, 58));
    for bad in [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80"] {
        let place = Place::Key("some.key".into());
        let expected = GgufError::NotUtf8 {
            place,
            field: "value",
            offset: 52,
        };
        assert_eq!(refuse_entry(STRING, &text(bad)), expected);
        let mut bytes = header(3, 0, 1);
        bytes.extend(text(bad));
        bytes.resize(100, 0);
        let expected = GgufError::NotUtf8 {
            place: Place::Entry(0),
            field: "key",
            offset: 32,
        };
        assert_eq!(refuse(&bytes), expected);
    }
}

#[test]
fn duplicate_names() {
    let entries = [
        entry("k", U32, &[0; 4]),
        entry("j", U32, &[0; 4]),
        entry("k", BOOL, &[0]),
    ];
    assert_eq!(
        refuse(&file(&entries, &[], 0)),
        GgufError::DuplicateKey { key: "k".into() }
    );
    let tensors = [
        tensor("a", &[8], F32, 0),
        tensor("b", &[8], F32, 32),
        tensor("a", &[8], F32, 64),
    ];
    assert_eq!(
        refuse_tensors(&tensors, 96),
        GgufError::DuplicateTensor { tensor: "a".into() }
    );
}

#[test]
fn alignment() {
    let with = |value_type: u32, value: &[u8]| {
        file(&[entry("general.alignment", value_type, value)], &[], 0)
    };
    for found in [0, 1, 3, 4, 7, 24, 33, MAX_ALIGNMENT * 2, 1 << 31, u32::MAX] {
        assert_eq!(
            refuse(&with(U32, &found.to_le_bytes())),
            GgufError::Alignment { found }
        );
    }
    assert_eq!(
        refuse(&with(BOOL, &[1])),
        GgufError::AlignmentType { found: "bool" }
    );
    for found in [MIN_ALIGNMENT, 32, MAX_ALIGNMENT] {
        let mut bytes = with(U32, &found.to_le_bytes());
        bytes.truncate(24 + 8 + 17 + 4 + 4);
        assert_eq!(GgufFile::parse(&bytes).unwrap().alignment(), found);
    }
}

#[test]
fn dimensions() {
    for found in [0, 5, 1 << 20] {
        let mut bytes = header(3, 1, 0);
        bytes.extend(text(b"t"));
        bytes.extend(u32::to_le_bytes(found));
        bytes.resize(200, 1);
        assert_eq!(
            refuse(&bytes),
            GgufError::DimensionCount {
                tensor: "t".into(),
                found
            }
        );
    }
    assert_eq!(
        refuse_tensors(&[tensor("t", &[8, 0, 3], F32, 0)], 32),
        GgufError::ZeroDimension {
            tensor: "t".into(),
            axis: 1,
            shape: vec![3, 0, 8]
        }
    );
    // A zero does not hide a product that overflows.
    let zero = tensor("t", &[1 << 63, 0, 1 << 63], F32, 0);
    assert!(matches!(
        refuse_tensors(&[zero], 32),
        GgufError::ZeroDimension { axis: 1, .. }
    ));

    let odd = (1u64 << 42) + 1;
    let size =
        |dimensions: &[u64], format| refuse_tensors(&[tensor("t", dimensions, format, 0)], 32);
    assert_eq!(
        size(&[odd], F32),
        GgufError::PastEnd {
            tensor: "t".into(),
            offset: 0,
            size: 4 * odd,
            available: 32
        }
    );
    assert!(matches!(
        size(&[odd], Q8_0),
        GgufError::Size { source: FormatError::RowLength { row_len, .. }, .. } if row_len == odd
    ));
    // odd · 2^22 = 2^64 + 2^22 wraps to 2^22, odd · odd wraps to 2^43 + 1.
    for dimensions in [
        &[odd, 1 << 22][..],
        &[odd, odd],
        &[1 << 32, 1 << 32],
        &[2, 1 << 62, 2, 1],
    ] {
        let shape: Vec<u64> = dimensions.iter().rev().copied().collect();
        let expected = GgufError::ElementCount {
            tensor: "t".into(),
            shape,
        };
        assert_eq!(size(dimensions, F32), expected);
    }
    // 2^62 elements fit in 64 bits, their bytes do not.
    assert!(matches!(
        size(&[1 << 31, 1 << 31], F32),
        GgufError::Size {
            source: FormatError::SizeOverflow { .. },
            ..
        }
    ));
}

#[test]
fn rows_of_whole_blocks() {
    // 2 rows of 16 have the elements of one block, but a row is half of one.
    let error = refuse_tensors(&[tensor("t", &[16, 2], Q8_0, 0)], 34);
    assert!(matches!(
        error,
        GgufError::Size {
            source: FormatError::RowLength { row_len: 16, .. },
            ..
        }
    ));
}

#[test]
fn unknown_formats() {
    for id in [4, 5, 31, 36, 42, 1 << 31, u32::MAX] {
        let error = refuse_tensors(&[tensor("blk.0.x", &[8], id, 0)], 32);
        assert_eq!(
            error,
            GgufError::UnknownFormat {
                tensor: "blk.0.x".into(),
                id
            }
        );
        let message = error.to_string();
        assert!(
            message.contains("blk.0.x") && message.contains(&id.to_string()),
            "{message}"
        );
    }
}

#[test]
fn placement() {
    let a = || tensor("a", &[16], F32, 0);
    let name = |s: &str| s.to_owned();
    // b inside a, at a's start, and a itself moved onto b.
    for offset in [0, 32] {
        assert!(matches!(
            refuse_tensors(&[a(), tensor("b", &[16], F32, offset)], 128),
            GgufError::Overlap { offset: at, .. } if at == offset
        ));
    }
    for (order, second) in [([32, 0], "a"), ([0, 32], "b")] {
        let tensors = [
            tensor("a", &[16], F32, order[0]),
            tensor("b", &[16], F32, order[1]),
        ];
        assert!(matches!(
            refuse_tensors(&tensors, 128),
            GgufError::Overlap { second: found, .. } if found == second
        ));
    }
    assert_eq!(
        refuse_tensors(&[a(), tensor("b", &[8], F32, 96)], 128),
        GgufError::Hole {
            tensor: name("b"),
            offset: 96,
            expected: 64
        }
    );
    assert_eq!(
        refuse_tensors(&[tensor("b", &[8], F32, 32)], 64),
        GgufError::Hole {
            tensor: name("b"),
            offset: 32,
            expected: 0
        }
    );
    for offset in [1, 4, 16, 63, u64::MAX] {
        assert_eq!(
            refuse_tensors(&[a(), tensor("b", &[8], F32, offset)], 128),
            GgufError::Misaligned {
                tensor: name("b"),
                offset,
                alignment: 32
            }
        );
    }
    for offset in [128, 1 << 62, u64::MAX - 31] {
        assert_eq!(
            refuse_tensors(&[a(), tensor("b", &[8], F32, offset)], 96),
            GgufError::PastEnd {
                tensor: name("b"),
                offset,
                size: 32,
                available: 96
            }
        );
    }
    assert_eq!(
        refuse_tensors(&[a()], 63),
        GgufError::PastEnd {
            tensor: name("a"),
            offset: 0,
            size: 64,
            available: 63
        }
    );
    let whole = file(&[], &[a()], 64).len() as u64;
    assert_eq!(
        refuse_tensors(&[a()], 96),
        GgufError::TrailingBytes {
            expected: whole,
            found: whole + 32
        }
    );
    // The order in the file is free.
    let swapped = [tensor("b", &[8], F32, 64), a()];
    assert!(GgufFile::parse(&file(&[], &swapped, 96)).is_ok());
}
