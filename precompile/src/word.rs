//! Words, addresses and fields of words, big-endian as the EVM keeps them.

/// 32 bytes: a storage key or value, an ABI word, a topic.
pub type Word = [u8; 32];

/// The word of all zeros.
pub const ZERO: Word = [0; 32];

/// An account's address, 20 bytes.
pub type Address = [u8; 20];

/// The word of a number.
#[must_use]
pub fn of_u64(n: u64) -> Word {
    let mut word = ZERO;
    word[24..].copy_from_slice(&n.to_be_bytes());
    word
}

/// The word of an address.
#[must_use]
pub fn of_address(address: &Address) -> Word {
    let mut word = ZERO;
    word[12..].copy_from_slice(address);
    word
}

/// The number of a word; `None` for 2^64 and above.
#[must_use]
pub fn to_u64(word: &Word) -> Option<u64> {
    let (high, low) = word.split_at(24);
    let fits = high.iter().all(|&b| b == 0);
    fits.then(|| be(low))
}

/// The number of at most eight big-endian bytes.
pub(crate) fn be(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len() <= 8);
    bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b))
}

/// Writes fields into a word from its most significant end (spec 6.4).
#[derive(Default)]
pub(crate) struct Pack {
    word: Word,
    at: usize,
}

impl Pack {
    /// The next field: the low `width` bytes of `value`, which hold all of it.
    pub(crate) fn field(mut self, value: u64, width: usize) -> Self {
        let bytes = value.to_be_bytes();
        debug_assert!(
            bytes[..8 - width].iter().all(|&b| b == 0),
            "{value} in {width} bytes"
        );
        self.word[self.at..self.at + width].copy_from_slice(&bytes[8 - width..]);
        self.at += width;
        self
    }

    pub(crate) fn word(self) -> Word {
        self.word
    }
}

/// Reads fields of a word from its most significant end (spec 6.4).
pub(crate) struct Unpack<'a>(&'a [u8]);

impl<'a> Unpack<'a> {
    pub(crate) fn new(word: &'a Word) -> Self {
        Self(word)
    }

    /// The next field of `width` bytes, at most eight; together they are at most 32.
    pub(crate) fn field(&mut self, width: usize) -> u64 {
        let (field, rest) = self.0.split_at(width);
        self.0 = rest;
        be(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(to_u64(&of_u64(u64::MAX)), Some(u64::MAX));
        let mut word = of_u64(7);
        assert_eq!(to_u64(&word), Some(7));
        word[23] = 1;
        assert_eq!(to_u64(&word), None);
        assert_eq!(of_address(&[0xA1; 20])[11..13], [0, 0xA1]);
    }

    #[test]
    fn fields() {
        let word = Pack::default()
            .field(0x0102, 4)
            .field(3, 1)
            .field(u64::MAX, 8)
            .word();
        assert_eq!(
            word[..14],
            [0, 0, 1, 2, 3, 255, 255, 255, 255, 255, 255, 255, 255, 0]
        );
        let mut fields = Unpack::new(&word);
        let found = [4, 1, 8, 4].map(|width| fields.field(width));
        assert_eq!(found, [0x0102, 3, u64::MAX, 0]);
    }
}
