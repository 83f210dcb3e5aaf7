//! Text of a growing list of ids: each piece is printed once and never changed afterwards.

use crate::failure::Outcome;

/// Turns ids, one at a time, into the text that they add.
///
/// An id may end inside a character; its bytes wait until the character is whole.
pub(crate) struct TextStream<D> {
    decode: D,
    /// Ids from the start of the last settled piece on: context for decoders that treat the first id apart.
    ids: Vec<u32>,
    /// How many of `ids` are settled.
    settled: usize,
}

impl<D: FnMut(&[u32]) -> Outcome<String>> TextStream<D> {
    /// `decode` gives the text of a list of ids, with U+FFFD for bytes that are no whole character.
    pub(crate) fn new(decode: D) -> Self {
        Self { decode, ids: Vec::new(), settled: 0 }
    }

    /// The text that `id` adds, empty while a character is incomplete.
    pub(crate) fn push(&mut self, id: u32) -> Outcome<String> {
        self.ids.push(id);
        let text = self.added()?;
        // A byte fallback that never completes is given up after the longest UTF-8 sequence.
        if text.ends_with('\u{fffd}') && self.ids.len() - self.settled < 4 {
            return Ok(String::new());
        }
        self.ids.drain(..self.settled);
        self.settled = self.ids.len();
        Ok(text)
    }

    /// The text still held back.
    pub(crate) fn finish(mut self) -> Outcome<String> {
        self.added()
    }

    fn added(&mut self) -> Outcome<String> {
        let before = (self.decode)(&self.ids[..self.settled])?;
        let all = (self.decode)(&self.ids)?;
        Ok(all.get(before.len()..).unwrap_or_default().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids are bytes.
    fn bytes(ids: &[u32]) -> Outcome<String> {
        let bytes: Vec<u8> = ids.iter().map(|&id| id as u8).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    #[test]
    fn characters_appear_whole() {
        let text = "aé漢😀b";
        let mut stream = TextStream::new(bytes);
        let pieces: Vec<String> = text.bytes().map(|b| stream.push(u32::from(b)).unwrap()).collect();
        assert_eq!(pieces, ["a", "", "é", "", "", "漢", "", "", "", "😀", "b"]);
        assert_eq!(stream.finish().unwrap(), "");
    }

    #[test]
    fn a_character_cut_off_by_the_end_is_marked() {
        let mut stream = TextStream::new(bytes);
        assert_eq!(stream.push(0xe6).unwrap(), "");
        assert_eq!(stream.finish().unwrap(), "\u{fffd}");
    }
}
