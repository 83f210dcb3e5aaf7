//! The components that a tokenizer is built from: foreign code on foreign data.
//!
//! Only here are they called. What runs over data of a file or of a text is guarded: a panic in it, such as of a
//! pattern that backtracks without end, is an error. What is left unguarded looks a key up in a hash table.

use std::collections::BTreeMap;

/// A tokenizer as its components make it.
#[derive(Debug, Clone)]
pub(super) struct Components(tokenizers::Tokenizer);

/// A token of a file's `added_tokens`.
pub(super) struct Added {
    pub(super) content: String,
    pub(super) special: bool,
    /// Whether it takes in white space around it, or matches whole words only.
    pub(super) stretches: bool,
}

impl Components {
    /// Builds the components of a `tokenizer.json` whose settings and ids are checked; special tokens are text to them.
    pub(super) fn parse(json: &str) -> Result<Self, String> {
        guarded(|| {
            let mut inner = tokenizers::Tokenizer::from_bytes(json)?;
            inner.set_encode_special_tokens(true);
            Ok(Self(inner))
        })
    }

    /// The ids of `text`; nothing is added.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        guarded(|| Ok(self.0.encode_fast(text, false)?.get_ids().to_vec()))
    }

    /// The text of a `tokenizer.json`. Takes time by the largest id of the vocabulary.
    pub(super) fn to_json(&self) -> Result<String, String> {
        guarded(|| self.0.to_string(false))
    }

    /// Added tokens by id.
    pub(super) fn added(&self) -> Result<BTreeMap<u32, Added>, String> {
        guarded(|| {
            let tokens = self.0.get_added_tokens_decoder().into_iter();
            let added = tokens.map(|(id, t)| {
                let added = Added {
                    content: t.content,
                    special: t.special,
                    stretches: t.lstrip || t.rstrip || t.single_word,
                };
                (id, added)
            });
            Ok(added.collect())
        })
    }

    /// The largest id of a token.
    pub(super) fn largest_id(&self) -> Result<Option<u32>, String> {
        guarded(|| Ok(self.0.get_vocab(true).into_values().max()))
    }

    /// The id of a token. A look-up.
    pub(super) fn token_to_id(&self, token: &str) -> Option<u32> {
        self.0.token_to_id(token)
    }

    /// The token of an id. A look-up.
    pub(super) fn id_to_token(&self, id: u32) -> Option<String> {
        self.0.id_to_token(id)
    }
}

/// The result of `work`; a panic in it is an error.
fn guarded<T>(work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(_) => Err("the tokenizer's components fail on it".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::Components;

    /// Writing counts ids in 32 bits; with overflow checks this is a panic of the component, without them a loss.
    #[test]
    fn a_panic_of_a_component_is_an_error() {
        let file = serde_json::json!({
            "version": "1.0", "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "vocab": {"a": u32::MAX}, "merges": []},
        });
        let components = Components::parse(&file.to_string()).unwrap();
        let written = components.to_json();
        if cfg!(debug_assertions) {
            assert!(written.unwrap_err().contains("components fail"));
        }
    }
}
