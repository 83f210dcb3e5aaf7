//! The header of a safetensors file: 8 bytes of length (little endian), JSON, data without holes.

use super::SourceError;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use std::collections::HashMap;
use std::ops::Range;

/// Largest header read, as in the format's reference implementation.
const MAX_HEADER: u64 = 100_000_000;

/// Element types whose size is known; only the first three are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dtype {
    F32,
    F16,
    Bf16,
    /// Name and bytes per element.
    Other(&'static str, usize),
}

impl Dtype {
    fn from_name(name: &str) -> Option<Self> {
        const OTHER: [(&str, usize); 13] = [
            ("F64", 8),
            ("I64", 8),
            ("U64", 8),
            ("C64", 8),
            ("I32", 4),
            ("U32", 4),
            ("I16", 2),
            ("U16", 2),
            ("I8", 1),
            ("U8", 1),
            ("BOOL", 1),
            ("F8_E4M3", 1),
            ("F8_E5M2", 1),
        ];
        match name {
            "F32" => Some(Dtype::F32),
            "F16" => Some(Dtype::F16),
            "BF16" => Some(Dtype::Bf16),
            _ => OTHER
                .iter()
                .find(|(n, _)| *n == name)
                .map(|&(n, size)| Dtype::Other(n, size)),
        }
    }

    pub(super) fn size(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::Other(_, size) => size,
        }
    }
}

/// A tensor's type, shape and place; `range` is in bytes from the start of the file and lies inside it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) range: Range<usize>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// All entries in file order, repeated names included.
struct RawHeader(Vec<(String, RawEntry)>);

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = RawHeader;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        // Texts only, as the format has it; what they say is not used.
                        map.next_value::<Option<HashMap<String, String>>>()?;
                    } else {
                        entries.push((name, map.next_value()?));
                    }
                }
                Ok(RawHeader(entries))
            }
        }
        d.deserialize_map(Entries)
    }
}

/// Parses the header of `bytes`, the whole of file `file`.
///
/// The entries cover the data exactly, without overlap, and each has the bytes that its shape asks for.
pub(super) fn parse(file: &str, bytes: &[u8]) -> Result<Vec<Entry>, SourceError> {
    let header_error = |detail: String| SourceError::Header {
        file: file.to_owned(),
        detail,
    };
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(header_error(format!(
            "{} bytes; a safetensors file has at least 8",
            bytes.len()
        )));
    };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER || length > rest.len() as u64 {
        return Err(header_error(format!(
            "declares a header of {length} bytes; {} bytes follow",
            rest.len()
        )));
    }
    let (json, data) = rest.split_at(length as usize);
    // A string that is skipped is not checked by the JSON reader.
    let json =
        std::str::from_utf8(json).map_err(|e| header_error(format!("header: not UTF-8: {e}")))?;
    let RawHeader(raw) =
        serde_json::from_str(json).map_err(|e| header_error(format!("header: {e}")))?;

    let data_start = bytes.len() - data.len();
    let mut entries = Vec::with_capacity(raw.len());
    for (name, e) in raw {
        let extent = |detail: String| SourceError::Extent {
            file: file.to_owned(),
            tensor: name.clone(),
            detail,
        };
        let Some(dtype) = Dtype::from_name(&e.dtype) else {
            return Err(super::unsupported_dtype(&name, &e.dtype));
        };
        let (begin, end) = e.data_offsets;
        if begin > end || end > data.len() as u64 {
            return Err(extent(format!(
                "data_offsets {begin}..{end} of {} bytes of data",
                data.len()
            )));
        }
        let elements = e.shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
        if elements.and_then(|n| n.checked_mul(dtype.size() as u64)) != Some(end - begin) {
            return Err(extent(format!(
                "shape {:?} of {} does not fill {} bytes",
                e.shape,
                e.dtype,
                end - begin
            )));
        }
        let shape = e
            .shape
            .iter()
            .map(|&d| usize::try_from(d))
            .collect::<Result<Vec<_>, _>>();
        let shape = shape.map_err(|_| extent(format!("shape {:?} is too large", e.shape)))?;
        entries.push(Entry {
            name,
            dtype,
            shape,
            range: data_start + begin as usize..data_start + end as usize,
        });
    }

    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_by_key(|e| (e.range.start, e.range.end));
    let mut covered = data_start;
    for e in order {
        if e.range.start != covered {
            let kind = if e.range.start < covered {
                "overlaps another"
            } else {
                "leaves a hole before it"
            };
            return Err(SourceError::Extent {
                file: file.to_owned(),
                tensor: e.name.clone(),
                detail: kind.to_owned(),
            });
        }
        covered = e.range.end;
    }
    if covered != bytes.len() {
        return Err(header_error(format!(
            "{} bytes after the last tensor",
            bytes.len() - covered
        )));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(json: &str, data: usize) -> Vec<u8> {
        let mut v = (json.len() as u64).to_le_bytes().to_vec();
        v.extend_from_slice(json.as_bytes());
        v.resize(v.len() + data, 0);
        v
    }

    #[test]
    fn well_formed() {
        let f = file(
            r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}"#,
            16,
        );
        let e = parse("f", &f).unwrap();
        assert_eq!(
            (e[0].name.as_str(), e[0].dtype, &e[0].shape[..]),
            ("b", Dtype::Bf16, &[2, 3][..])
        );
        assert_eq!(e[1].range.len(), 4);
        assert_eq!(e[0].range.end, f.len());
    }

    #[test]
    fn lengths_past_the_file() {
        for n in [0u64, 1, 2, 100, 1 << 62, 1 << 63, u64::MAX] {
            let mut f = n.to_le_bytes().to_vec();
            f.push(b' ');
            assert!(
                matches!(parse("f", &f), Err(SourceError::Header { .. })),
                "{n}"
            );
        }
        assert!(matches!(
            parse("f", &[0; 7]),
            Err(SourceError::Header { .. })
        ));
    }

    #[test]
    fn bad_extents_name_the_tensor() {
        let one = |shape: &str, offsets: &str, data| {
            file(
                &format!(r#"{{"t":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#),
                data,
            )
        };
        assert!(parse("f", &one("[2]", "[0,8]", 8)).is_ok());
        for (shape, offsets) in [
            ("[2]", "[8,0]"),
            ("[2]", "[0,9]"),
            ("[3]", "[0,8]"),
            ("[2]", "[0,18446744073709551615]"),
            ("[4294967296,4294967296]", "[0,8]"),
            ("[4611686018427387904]", "[0,0]"),
            ("[1]", "[4,8]"),
        ] {
            let e = parse("f", &one(shape, offsets, 8)).unwrap_err();
            assert!(
                matches!(&e, SourceError::Extent { tensor, .. } if tensor == "t"),
                "{shape} {offsets}: {e}"
            );
        }
        assert!(matches!(
            parse("f", &one("[1]", "[0,4]", 8)),
            Err(SourceError::Header { .. })
        ));
        for bad in ["[-1]", "[1.5]", "7", "[[1]]"] {
            assert!(
                matches!(
                    parse("f", &one(bad, "[0,8]", 8)),
                    Err(SourceError::Header { .. })
                ),
                "{bad}"
            );
        }
        let overlap = r#"{"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}"#;
        assert!(
            matches!(parse("f", &file(overlap, 8)), Err(SourceError::Extent { tensor, .. }) if tensor == "b")
        );
        let no_offsets = r#"{"a":{"dtype":"U8","shape":[5]}}"#;
        assert!(matches!(
            parse("f", &file(no_offsets, 5)),
            Err(SourceError::Header { .. })
        ));
        let unknown = r#"{"a":{"dtype":"F4","shape":[10],"data_offsets":[0,5]}}"#;
        assert!(matches!(
            parse("f", &file(unknown, 5)),
            Err(SourceError::Dtype { .. })
        ));
    }

    #[test]
    fn metadata_are_texts() {
        let with = |metadata: &str| {
            let json = format!(
                r#"{{"__metadata__":{metadata},"a":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#
            );
            parse("f", &file(&json, 1))
        };
        for good in ["{}", r#"{"format":"pt","größe":""}"#, "null"] {
            assert!(with(good).is_ok(), "{good}");
        }
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        for bad in [
            "1",
            "[]",
            r#"{"a":1}"#,
            r#"{"a":{}}"#,
            r#"{"a":null}"#,
            r#""x""#,
            &deep,
        ] {
            assert!(
                matches!(with(bad), Err(SourceError::Header { .. })),
                "{bad}"
            );
        }
        // Bytes that are not UTF-8, in a text that nothing reads.
        let mut bytes = file(r#"{"__metadata__":{"format":"pt"}}"#, 0);
        bytes[30] = 0xc5;
        assert!(matches!(
            parse("f", &bytes),
            Err(SourceError::Header { .. })
        ));
        let unknown = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0}}"#;
        assert!(matches!(
            parse("f", &file(unknown, 1)),
            Err(SourceError::Header { .. })
        ));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_never_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = parse("f", &bytes);
        }
    }
}
