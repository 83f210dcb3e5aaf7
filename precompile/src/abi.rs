//! Solidity's ABI, strict: of the encodings that a decoder may tolerate, only the one that `abi.encode` writes (spec 6.3).

use crate::refusal::{Refusal, require};
use crate::word::{Address, Word, of_u64, to_u64};

/// The selector of a signature such as `activate(bytes32,uint64)`: the first four bytes of its Keccak-256.
#[must_use]
pub fn selector(signature: &str) -> [u8; 4] {
    let hash = int_engine::commitment::keccak256(signature.as_bytes());
    [hash[0], hash[1], hash[2], hash[3]]
}

/// Reads arguments in order. Every deviation is [`Refusal::NotCanonical`].
pub(crate) struct Args<'a> {
    data: &'a [u8],
    /// The next word of the head.
    head: usize,
    /// Where the next dynamic argument stands.
    tail: usize,
}

impl<'a> Args<'a> {
    /// The arguments after the selector, `words` of them.
    pub(crate) fn new(data: &'a [u8], words: usize) -> Self {
        Self {
            data,
            head: 0,
            tail: 32 * words,
        }
    }

    fn at(&self, at: usize) -> Result<Word, Refusal> {
        let bytes = self.data.get(at..).and_then(|rest| rest.first_chunk());
        bytes.copied().ok_or(Refusal::NotCanonical)
    }

    pub(crate) fn word(&mut self) -> Result<Word, Refusal> {
        let word = self.at(self.head)?;
        self.head += 32;
        Ok(word)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Refusal> {
        to_u64(&self.word()?).ok_or(Refusal::NotCanonical)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Refusal> {
        u32::try_from(self.u64()?).map_err(|_| Refusal::NotCanonical)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Refusal> {
        boolean(&self.word()?)
    }

    pub(crate) fn address(&mut self) -> Result<Address, Refusal> {
        address(&self.word()?)
    }

    /// The number of items of the next dynamic argument, and its bytes up to a whole word: `items` gives how many words that
    /// many items take.
    fn dynamic(&mut self, items: impl Fn(u64) -> u64) -> Result<(u64, &'a [u8]), Refusal> {
        let offset = self.u64()?;
        require(offset == self.tail as u64, Refusal::NotCanonical)?;
        let count = to_u64(&self.at(self.tail)?).ok_or(Refusal::NotCanonical)?;
        let body = &self.data[self.tail + 32..];
        let words = items(count);
        require(words <= (body.len() / 32) as u64, Refusal::NotCanonical)?;
        let body = &body[..32 * words as usize];
        self.tail += 32 + body.len();
        Ok((count, body))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Refusal> {
        let (count, body) = self.dynamic(|count| count.div_ceil(32))?;
        // At most the body's length.
        let (bytes, padding) = body.split_at(count as usize);
        require(padding.iter().all(|&b| b == 0), Refusal::NotCanonical)?;
        Ok(bytes)
    }

    pub(crate) fn words(&mut self) -> Result<Vec<Word>, Refusal> {
        let (_, body) = self.dynamic(|count| count)?;
        Ok(words_of(body).collect())
    }

    pub(crate) fn u32s(&mut self) -> Result<Vec<u32>, Refusal> {
        let (_, body) = self.dynamic(|count| count)?;
        let number = |word: Word| to_u64(&word).and_then(|n| u32::try_from(n).ok());
        let numbers: Option<Vec<u32>> = words_of(body).map(number).collect();
        numbers.ok_or(Refusal::NotCanonical)
    }

    /// After the last argument.
    pub(crate) fn end(self) -> Result<(), Refusal> {
        require(self.tail == self.data.len(), Refusal::NotCanonical)
    }
}

/// Whole words of a slice.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = Word> {
    bytes.chunks_exact(32).map(|chunk| {
        let mut word = [0; 32];
        word.copy_from_slice(chunk);
        word
    })
}

/// The address of a word whose other bits are zero.
pub(crate) fn address(word: &Word) -> Result<Address, Refusal> {
    require(word[..12].iter().all(|&b| b == 0), Refusal::NotCanonical)?;
    Ok(low_address(word))
}

/// The low 20 bytes of a word.
pub(crate) fn low_address(word: &Word) -> Address {
    let mut address = [0; 20];
    address.copy_from_slice(&word[12..]);
    address
}

/// The truth of a word that is 0 or 1.
pub(crate) fn boolean(word: &Word) -> Result<bool, Refusal> {
    match to_u64(word) {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        _ => Err(Refusal::NotCanonical),
    }
}

/// Writes arguments or results in the form that [`Args`] reads.
#[derive(Default)]
pub(crate) struct Encoder {
    head: Vec<u8>,
    /// Positions in `head` of offsets, and what stands there.
    tails: Vec<(usize, Vec<u8>)>,
}

impl Encoder {
    pub(crate) fn word(mut self, word: &Word) -> Self {
        self.head.extend(word);
        self
    }

    pub(crate) fn u64(self, n: u64) -> Self {
        self.word(&of_u64(n))
    }

    pub(crate) fn u32s(self, items: &[u32]) -> Self {
        let body = items.iter().flat_map(|&id| of_u64(id.into())).collect();
        self.dynamic(items.len(), body)
    }

    pub(crate) fn words(self, items: &[Word]) -> Self {
        self.dynamic(items.len(), items.concat())
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        let mut body = bytes.to_vec();
        body.resize(bytes.len().next_multiple_of(32), 0);
        self.dynamic(bytes.len(), body)
    }

    fn dynamic(mut self, count: usize, body: Vec<u8>) -> Self {
        let tail = [&of_u64(count as u64)[..], &body].concat();
        self.tails.push((self.head.len(), tail));
        self.word(&[0; 32])
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let mut out = self.head;
        for (at, tail) in self.tails {
            let offset = of_u64(out.len() as u64);
            out[at..at + 32].copy_from_slice(&offset);
            out.extend(tail);
        }
        out
    }
}
