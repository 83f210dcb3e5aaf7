//! Names in a store, and where the chunks of a blob lie (spec 5.1).

use int_engine::commitment::{CHUNK, Commitment, FIRST_CHUNK, chunk_count};
use std::ops::Range;

/// The two files of a published blob.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum What {
    /// The blob itself.
    Blob,
    /// The leaf hashes of spec 5.2, 32 bytes each, in chunk order, nothing else.
    Leaves,
}

/// Ends the name of a file that is being written.
pub(super) const UNFINISHED: &str = ".new";

/// The name of a file in a store: 64 lower-case hexadecimal digits and `.blob` or `.leaves`.
#[must_use]
pub fn file_name(commitment: Commitment, what: What) -> String {
    let ending = match what {
        What::Blob => "blob",
        What::Leaves => "leaves",
    };
    format!("{}.{ending}", digits(commitment))
}

/// The 64 digits without `0x`.
pub(super) fn digits(commitment: Commitment) -> String {
    commitment.to_string()[2..].to_string()
}

/// What a name in a store stands for: the inverse of [`file_name`], `None` for any other text.
#[must_use]
pub fn parse_name(name: &str) -> Option<(Commitment, What)> {
    let (digits, ending) = name.split_once('.')?;
    let what = match ending {
        "blob" => What::Blob,
        "leaves" => What::Leaves,
        _ => return None,
    };
    let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if digits.len() != 64 || !digits.bytes().all(lower) {
        return None;
    }
    Some((digits.parse().ok()?, what))
}

/// The bytes of chunk `index` of a blob of `total_len` bytes, or `None` when it has no such chunk.
#[must_use]
pub fn chunk_range(total_len: u64, index: u64) -> Option<Range<u64>> {
    if index >= chunk_count(total_len) {
        return None;
    }
    let (first, chunk) = (FIRST_CHUNK as u64, CHUNK as u64);
    let (start, size) = match index {
        0 => (0, first),
        _ => (first + (index - 1) * chunk, chunk),
    };
    Some(start..start.saturating_add(size).min(total_len))
}

/// The length that the record of a blob states (spec 4.1), or `None` when these bytes begin no blob.
#[must_use]
pub fn stated_len(record: &[u8]) -> Option<u64> {
    // Magic number, two versions, scheme; then the length.
    let bytes = record.strip_prefix(b"BLUEBLOB")?.get(9..17)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_in_one_form_only() {
        let commitment = Commitment(std::array::from_fn(|i| 37 * i as u8));
        for what in [What::Blob, What::Leaves] {
            let name = file_name(commitment, what);
            assert_eq!(parse_name(&name), Some((commitment, what)));
            for other in [
                name.to_uppercase(),
                format!("0x{name}"),
                format!("../{name}"),
                format!("{name}.new"),
                format!("{name} "),
                name[1..].to_string(),
                name.replace('.', "/"),
                name.replace('.', ""),
            ] {
                assert_eq!(parse_name(&other), None, "{other}");
            }
        }
        assert_eq!(parse_name(&format!("{}.blob", "é".repeat(32))), None);
    }

    #[test]
    fn chunks_lie_side_by_side() {
        for len in [1025, 1024 + 65536, 1024 + 65537, 1 << 40, u64::MAX] {
            let count = chunk_count(len);
            assert_eq!(chunk_range(len, 0), Some(0..1024));
            assert_eq!(chunk_range(len, 1).map(|r| r.start), Some(1024));
            let last = chunk_range(len, count - 1).unwrap();
            assert_eq!(last.end, len);
            assert!((1..=65536).contains(&(last.end - last.start)));
            assert_eq!(chunk_range(len, count), None);
            assert_eq!(chunk_range(len, u64::MAX), None);
        }
    }

    #[test]
    fn the_stated_length_is_that_of_the_record() {
        let blob = include_bytes!("../../../models/default/blue-tiny.blob");
        assert_eq!(stated_len(&blob[..1024]), Some(blob.len() as u64));
        assert_eq!(stated_len(&blob[..25]), Some(blob.len() as u64));
        assert_eq!(stated_len(&blob[..24]), None);
        assert_eq!(stated_len(&blob[1..]), None);
    }
}
