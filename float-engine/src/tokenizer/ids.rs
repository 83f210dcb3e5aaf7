//! The ids of a `tokenizer.json`: below a bound, each of one token, each token with one.
//!
//! A token with two ids, or an id of two tokens, would decode to either by chance; and components count ids up to the
//! largest in 32 bits when a tokenizer is written.

use super::TokenizerError;
use super::components::Components;
use serde_json::Value;
use std::collections::HashMap;

/// Ids are below this: the most that a model's `vocab` can be (spec 3).
pub(super) const MAX_IDS: u64 = 1 << 20;

/// Tokens by id, and ids by token.
#[derive(Default)]
struct Seen<'a> {
    tokens: HashMap<u64, &'a str>,
    ids: HashMap<&'a str, u64>,
}

impl<'a> Seen<'a> {
    fn add(&mut self, token: &'a str, id: &Value) -> Result<(), TokenizerError> {
        let id = id
            .as_u64()
            .filter(|&id| id < MAX_IDS)
            .ok_or_else(|| TokenizerError::Id {
                token: token.chars().take(80).collect(),
                found: id.to_string().chars().take(80).collect(),
                ids: MAX_IDS,
            })?;
        let other = self.tokens.insert(id, token);
        if let Some(other) = other.filter(|&other| other != token) {
            return Err(TokenizerError::DuplicateId {
                id,
                first: other.chars().take(80).collect(),
                second: token.chars().take(80).collect(),
            });
        }
        if let Some(other) = self.ids.insert(token, id).filter(|&other| other != id) {
            return Err(TokenizerError::DuplicateToken {
                token: token.chars().take(80).collect(),
                first: other.min(id) as usize,
                second: other.max(id) as usize,
            });
        }
        Ok(())
    }
}

/// The added tokens that are read, with their ids; one without text is not.
fn added(file: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let tokens = file["added_tokens"].as_array().into_iter().flatten();
    tokens
        .filter_map(|t| Some((t["content"].as_str()?, &t["id"])))
        .filter(|(content, _)| !content.is_empty())
}

/// Checks the ids of a parsed file, before any component is built from it.
pub(super) fn check(file: &Value) -> Result<(), TokenizerError> {
    let mut seen = Seen::default();
    for (token, id) in file["model"]["vocab"].as_object().into_iter().flatten() {
        seen.add(token, id)?;
    }
    for (token, id) in added(file) {
        seen.add(token, id)?;
    }
    Ok(())
}

/// Checks that added tokens have the ids that the file declares: components number those outside the vocabulary
/// themselves, on from its size.
pub(super) fn check_assigned(file: &Value, components: &Components) -> Result<(), TokenizerError> {
    for (token, id) in added(file) {
        let assigned = components.token_to_id(token);
        if assigned.map(u64::from) != id.as_u64() {
            return Err(TokenizerError::AddedId {
                token: token.chars().take(80).collect(),
                declared: id.as_u64().unwrap_or(0),
                assigned,
            });
        }
    }
    Ok(())
}
