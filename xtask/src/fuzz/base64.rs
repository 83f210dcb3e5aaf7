//! Base64 (RFC 4648, section 4, with padding): a log carries an input of a few kilobytes.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text for `bytes`.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| group.get(i).map_or(0, |&b| u32::from(b));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= group.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

/// The bytes that `text` stands for; `None` unless [`encode`] gives this text for them.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut word = 0;
        for &digit in group {
            word = word << 6 | ALPHABET.iter().position(|&a| a == digit)? as u32;
        }
        word <<= 6 * (4 - group.len());
        bytes.extend(&word.to_be_bytes()[1..group.len().max(1)]);
    }
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "Z", "Zg", "Zg=", "Zh==", "Zg===", "=", "Zm9v\n", "Zm9.", "Zm-v",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
