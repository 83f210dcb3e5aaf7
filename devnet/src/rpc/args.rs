//! The arguments of a request.

use super::failure::{Answer, bad};
use jsonrpsee::types::Params;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The arguments by position.
pub(super) struct Args(std::vec::IntoIter<Value>);

impl Args {
    /// At most `most` of them.
    pub(super) fn new(params: &Params<'_>, most: usize) -> Answer<Self> {
        let values: Vec<Value> = match params.as_str() {
            None => vec![],
            Some(text) => serde_json::from_str(text)
                .map_err(|error| bad(format!("params must be an array: {error}")))?,
        };
        if values.len() > most {
            return Err(bad(format!("too many arguments, want at most {most}")));
        }
        Ok(Self(values.into_iter()))
    }

    /// The next one, if it is there and not null.
    pub(super) fn optional<T: DeserializeOwned>(&mut self, name: &str) -> Answer<Option<T>> {
        match self.0.next() {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value)
                .map(Some)
                .map_err(|error| bad(format!("invalid argument {name}: {error}"))),
        }
    }

    /// The next one.
    pub(super) fn required<T: DeserializeOwned>(&mut self, name: &str) -> Answer<T> {
        let value = self.optional(name)?;
        value.ok_or_else(|| bad(format!("missing argument {name}")))
    }
}
