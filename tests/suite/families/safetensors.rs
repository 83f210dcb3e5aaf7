//! Family 1: safetensors files that contradict themselves.

use crate::small::{NORM, Parts, file, raw_file};
use float_engine::source::SourceError;

/// A header of one tensor `t`.
fn one(dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#"{{"t":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
}

fn refused(bytes: &[u8]) -> SourceError {
    let error = Parts::new("llama", true)
        .open_file(bytes)
        .expect_err("must be refused");
    assert!(
        error.to_string().len() < 4000,
        "an error of a readable length"
    );
    error
}

/// The header's fault names the file.
fn header_fault(bytes: &[u8], what: &str) {
    match refused(bytes) {
        SourceError::Header { file, .. } => assert_eq!(file, "model.safetensors", "{what}"),
        other => panic!("{what}: {other}"),
    }
}

/// The fault of a tensor's place names the tensor.
fn extent_fault(bytes: &[u8], tensor: &str, what: &str) {
    match refused(bytes) {
        SourceError::Extent { tensor: found, .. } => assert_eq!(found, tensor, "{what}"),
        other => panic!("{what}: {other}"),
    }
}

#[test]
fn family_01_header_lengths_past_the_file() {
    let valid = file(&Parts::new("llama", true).tensors);
    let rest = valid.len() as u64 - 8;
    let past = [
        rest + 1,
        rest + 8,
        100_000_001,
        1 << 31,
        (1 << 32) + 2,
        1 << 53,
        1 << 62,
    ];
    let top = [
        (1 << 63) - 1,
        1 << 63,
        (1 << 63) + 1,
        u64::MAX - 8,
        u64::MAX - 7,
        u64::MAX,
    ];
    for length in past.into_iter().chain(top) {
        for body in [&valid[8..], &[], b"{}"] {
            let bytes = [&length.to_le_bytes()[..], body].concat();
            header_fault(&bytes, &format!("{length} of {}", body.len()));
        }
    }
    for len in 1..8 {
        header_fault(&valid[..len], &format!("{len} bytes"));
    }
    // Lengths that cut the JSON, or take in data.
    for length in [0, 1, 7] {
        header_fault(
            &[&u64::to_le_bytes(length)[..], &valid[8..]].concat(),
            &length.to_string(),
        );
    }
    assert!(Parts::new("llama", true).open_file(&valid).is_ok());
}

#[test]
fn family_01_offsets_that_do_not_fit() {
    let data = [0; 8];
    let offsets = [
        "[8,0]",
        "[4,0]",
        "[0,9]",
        "[0,7]",
        "[1,8]",
        "[8,16]",
        "[0,4294967304]",
        "[0,9223372036854775816]",
        "[0,18446744073709551615]",
        "[18446744073709551615,7]",
        "[18446744073709551608,18446744073709551615]",
    ];
    for offsets in offsets {
        extent_fault(&raw_file(&one("F32", "[2]", offsets), &data), "t", offsets);
    }
    let malformed = [
        "[0]",
        "[]",
        "[0,8,8]",
        "[-1,8]",
        "[0,8.5]",
        "[0,18446744073709551616]",
        "null",
        "\"0,8\"",
        "{}",
    ];
    for offsets in malformed {
        header_fault(&raw_file(&one("F32", "[2]", offsets), &data), offsets);
    }
    header_fault(
        &raw_file(r#"{"t":{"dtype":"F32","shape":[2]}}"#, &data),
        "no offsets",
    );
}

#[test]
fn family_01_tensors_that_overlap_or_leave_holes() {
    let two = |a: &str, b: &str| {
        let entry = |name: &str, offsets: &str, shape: &str| {
            format!(r#""{name}":{{"dtype":"U8","shape":{shape},"data_offsets":{offsets}}}"#)
        };
        let length = |o: &str| {
            let ends: Vec<u64> = o
                .trim_matches(['[', ']'])
                .split(',')
                .map(|n| n.parse().unwrap())
                .collect();
            format!("[{}]", ends[1] - ends[0])
        };
        format!(
            "{{{},{}}}",
            entry("a", a, &length(a)),
            entry("b", b, &length(b))
        )
    };
    for (a, b, named) in [
        ("[0,5]", "[4,8]", "b"),
        ("[0,8]", "[0,8]", "b"),
        ("[0,8]", "[7,8]", "b"),
        ("[4,8]", "[0,5]", "a"),
        ("[0,8]", "[2,4]", "b"),
        ("[0,3]", "[4,8]", "b"),
        ("[5,8]", "[0,4]", "a"),
        ("[1,4]", "[4,8]", "a"),
    ] {
        extent_fault(&raw_file(&two(a, b), &[0; 8]), named, &format!("{a} {b}"));
    }
    // Data that no tensor covers, at the end.
    for extra in [1, 7, 64] {
        let mut bytes = file(&Parts::new("llama", true).tensors);
        bytes.resize(bytes.len() + extra, 0);
        header_fault(&bytes, &format!("{extra} bytes more"));
    }
}

#[test]
fn family_01_shapes_that_do_not_fill_their_bytes() {
    let data = [0; 8];
    for (dtype, shape) in [
        ("F32", "[1]"),
        ("F32", "[3]"),
        ("F32", "[2,2]"),
        ("F32", "[]"),
        ("F32", "[0]"),
        ("F32", "[2,0]"),
        ("BF16", "[2]"),
        ("F16", "[5]"),
        ("F64", "[2]"),
        ("I8", "[7]"),
        ("U8", "[9]"),
        ("BOOL", "[2]"),
        // Products of 2^64 and more, also where they wrap to the right number of bytes, or are times 0.
        ("F32", "[4294967296,4294967296]"),
        ("F32", "[18446744073709551615]"),
        ("F32", "[4611686018427387906]"),
        ("U8", "[4294967296,4294967296,8]"),
        ("BF16", "[9223372036854775808,2]"),
        ("F32", "[9223372036854775808,2,0]"),
        ("U8", "[18446744073709551615,18446744073709551615]"),
        ("U8", "[3,6148914691236517208]"),
    ] {
        extent_fault(
            &raw_file(&one(dtype, shape, "[0,8]"), &data),
            "t",
            &format!("{dtype} {shape}"),
        );
    }
    for shape in [
        "[-2]",
        "[2.0]",
        "[18446744073709551616]",
        "2",
        "[[2]]",
        "null",
        "{\"0\":2}",
        "[\"2\"]",
        "[1e0]",
    ] {
        header_fault(&raw_file(&one("F32", shape, "[0,8]"), &data), shape);
    }
}

#[test]
fn family_01_headers_that_are_no_objects_of_tensors() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for header in [
        "",
        " ",
        "[]",
        "null",
        "{",
        "{}x",
        "{\"t\":1}",
        "{\"t\":{}}",
        "\u{0}",
        "{\"t\":null}",
        &deep,
    ] {
        header_fault(
            &raw_file(header, &[]),
            &header.chars().take(20).collect::<String>(),
        );
    }
    // Metadata that are no texts, and members that no entry has.
    for metadata in [
        "1",
        "[]",
        r#"{"a":1}"#,
        r#"{"a":null}"#,
        r#"{"a":["b"]}"#,
        &deep,
    ] {
        let header = format!(r#"{{"__metadata__":{metadata}}}"#);
        header_fault(
            &raw_file(&header, &[]),
            metadata.get(..20).unwrap_or(metadata),
        );
    }
    let member = one("U8", "[0]", "[0,0]").replace("\"dtype\"", "\"strides\":[1],\"dtype\"");
    header_fault(&raw_file(&member, &[]), "strides");
    // Not UTF-8, in the metadata and in a name.
    let mut bytes = raw_file(r#"{"__metadata__":{"format":"pt"}}"#, &[]);
    bytes[8 + 21] = 0xc5;
    header_fault(&bytes, "metadata that are not UTF-8");
    // Not UTF-8, in a name.
    let mut bytes = raw_file(&one("F32", "[0]", "[0,0]"), &[]);
    bytes[10] = 0xff;
    header_fault(&bytes, "a name that is not UTF-8");
    // A name twice: the tensor is named.
    let parts = Parts::new("llama", true);
    let mut tensors = parts.tensors.clone();
    let mut again = tensors[1].clone();
    again.name = "again".into();
    tensors.push(again);
    let whole = file(&tensors);
    let header = String::from_utf8_lossy(&whole[8..]).replace("\"again\"", &format!("\"{NORM}\""));
    let header = &header[..=header.find("}}").unwrap() + 1];
    let data: Vec<u8> = tensors
        .iter()
        .flat_map(|t| t.bytes.iter().copied())
        .collect();
    match refused(&raw_file(header, &data)) {
        SourceError::DuplicateTensor { tensor, .. } => assert_eq!(tensor, NORM),
        other => panic!("{other}"),
    }
}
