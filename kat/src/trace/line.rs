//! The lines of a trace as JSON.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// The members of the header, in the order in which they are written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeaderLine {
    pub(super) schema: String,
    pub(super) commitment: String,
    pub(super) prompt: Vec<u32>,
    pub(super) target: String,
    pub(super) machine: String,
}

/// The members of an operation's line, in the order in which they are written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntryLine {
    pub(super) position: u64,
    // Named, so that a missing member is not taken for null.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(super) layer: Option<u64>,
    pub(super) op: String,
    pub(super) count: u64,
    pub(super) digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) values: Option<Vec<Integer>>,
}

/// An integer as spec 7.1 writes it: a number below 2^53 in magnitude, else a string of decimal digits.
pub(super) struct Integer(pub(super) i64);

/// Numbers of this magnitude or more are strings.
const LIMIT: u64 = 1 << 53;

impl Serialize for Integer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.unsigned_abs() < LIMIT {
            serializer.serialize_i64(self.0)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntegerVisitor)
    }
}

struct IntegerVisitor;

impl Visitor<'_> for IntegerVisitor {
    type Value = Integer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer, as a string of digits from 2^53 on")
    }

    fn visit_i64<E: Error>(self, v: i64) -> Result<Integer, E> {
        if v.unsigned_abs() < LIMIT {
            Ok(Integer(v))
        } else {
            Err(E::custom(format!(
                "{v} is 2^53 or more in magnitude: it must be a string"
            )))
        }
    }

    fn visit_u64<E: Error>(self, v: u64) -> Result<Integer, E> {
        match i64::try_from(v) {
            Ok(v) => self.visit_i64(v),
            Err(_) => Err(E::custom(format!("{v} is not an int64"))),
        }
    }

    fn visit_str<E: Error>(self, v: &str) -> Result<Integer, E> {
        let digits = v.strip_prefix('-').unwrap_or(v);
        match v.parse() {
            Ok(value) if digits.bytes().all(|b| b.is_ascii_digit()) => Ok(Integer(value)),
            _ => Err(E::custom(format!(
                "{v:?} is not an int64 in decimal digits"
            ))),
        }
    }
}
