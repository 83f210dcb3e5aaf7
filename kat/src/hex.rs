//! Lower-case hexadecimal without a prefix.

/// The digits of some bytes.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let digit = |v: u8| char::from(b"0123456789abcdef"[usize::from(v)]);
    bytes
        .iter()
        .flat_map(|b| [digit(b >> 4), digit(b & 15)])
        .collect()
}

/// The bytes of an even number of lower-case digits; `None` for anything else.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    if text.len() % 2 != 0 {
        return None;
    }
    text.as_bytes()
        .chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

/// The 32 bytes of a digest of 64 digits.
#[must_use]
pub fn digest(text: &str) -> Option<[u8; 32]> {
    decode(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_refusals() {
        assert_eq!(encode(&[0, 0x9f, 0xa0, 255]), "009fa0ff");
        assert_eq!(decode("009fa0ff"), Some(vec![0, 0x9f, 0xa0, 255]));
        assert_eq!(decode(""), Some(vec![]));
        for text in ["0", "0A", "0x00", "g0", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
        assert_eq!(digest(&"00".repeat(32)), Some([0; 32]));
        assert_eq!(digest(&"00".repeat(31)), None);
    }
}
