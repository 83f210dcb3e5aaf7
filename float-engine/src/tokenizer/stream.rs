//! Decoding of ids that arrive one at a time.

use super::Tokenizer;

/// Turns ids into text, holding back the bytes of an unfinished UTF-8 character.
///
/// All pieces and [`StreamDecoder::finish`] together are the text of [`Tokenizer::decode`].
#[derive(Debug, Clone)]
pub struct StreamDecoder<'a> {
    tokenizer: &'a Tokenizer,
    skip_specials: bool,
    /// The start of a character: at most 3 bytes between calls.
    pending: Vec<u8>,
}

impl<'a> StreamDecoder<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, skip_specials: bool) -> Self {
        Self {
            tokenizer,
            skip_specials,
            pending: Vec::new(),
        }
    }

    /// The text that `id` completes, which may be empty.
    pub fn push(&mut self, id: u32) -> String {
        if self.skip_specials && self.tokenizer.is_special(id) {
            return String::new();
        }
        if let Some(bytes) = self.tokenizer.token_bytes(id) {
            self.pending.extend(bytes);
        }
        take_complete(&mut self.pending)
    }

    /// What is left: U+FFFD if a character was never finished.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.pending);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

/// Removes all but an unfinished character from `bytes`; invalid bytes become U+FFFD.
fn take_complete(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut at = 0;
    loop {
        match std::str::from_utf8(&bytes[at..]) {
            Ok(rest) => {
                text.push_str(rest);
                at = bytes.len();
                break;
            }
            Err(e) => {
                let valid = at + e.valid_up_to();
                text.push_str(&String::from_utf8_lossy(&bytes[at..valid]));
                at = valid;
                let Some(invalid) = e.error_len() else { break };
                text.push(char::REPLACEMENT_CHARACTER);
                at += invalid;
            }
        }
    }
    bytes.drain(..at);
    text
}

#[cfg(test)]
mod tests {
    use super::take_complete;
    use proptest::prelude::*;

    proptest! {
        /// Any bytes in any pieces give what decoding them at once gives.
        #[test]
        fn pieces_equal_the_whole(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0xF0), Just(0x9F), Just(0x98), Just(0x80), Just(0xE2)], 0..40),
            cuts in proptest::collection::vec(1usize..5, 0..40),
        ) {
            let (mut pending, mut text, mut at) = (Vec::new(), String::new(), 0);
            for n in cuts.into_iter().chain([usize::MAX]) {
                let end = at + n.min(bytes.len() - at);
                pending.extend_from_slice(&bytes[at..end]);
                at = end;
                text.push_str(&take_complete(&mut pending));
                prop_assert!(pending.len() <= 3);
            }
            text.push_str(&String::from_utf8_lossy(&pending));
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
