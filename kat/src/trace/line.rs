//! The lines of a trace as JSON.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::file::fields::decimal;
use crate::file::short;

/// The members of the header, in the order in which they are written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeaderLine {
    pub(super) schema: String,
    pub(super) commitment: String,
    pub(super) prompt: Vec<Integer<u32>>,
    pub(super) target: String,
    pub(super) machine: String,
}

/// The members of an operation's line, in the order in which they are written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntryLine {
    pub(super) position: Integer<u64>,
    // Named, so that a missing member is not taken for null.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(super) layer: Option<Integer<u64>>,
    pub(super) op: String,
    pub(super) count: Integer<u64>,
    pub(super) digest: String,
    // Named, so that null is not taken for a missing member.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub(super) values: Option<Vec<Integer<i64>>>,
}

fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Integer<i64>>>, D::Error> {
    Vec::deserialize(deserializer).map(Some)
}

/// An integer as spec 7.1 writes it: a number below 2^53 in magnitude, else a string of decimal digits. Either form
/// is read.
pub(super) struct Integer<T>(pub(super) T);

/// A type of integers, by what messages call it.
pub(super) trait Width: Copy + TryFrom<i128> + Into<i128> {
    const NAME: &'static str;
}

impl Width for u32 {
    const NAME: &'static str = "a uint32";
}

impl Width for u64 {
    const NAME: &'static str = "a uint64";
}

impl Width for i64 {
    const NAME: &'static str = "an int64";
}

/// Numbers of this magnitude or more are strings.
const LIMIT: u128 = 1 << 53;

impl<T: Width> Serialize for Integer<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let v: i128 = self.0.into();
        match i64::try_from(v) {
            Ok(small) if v.unsigned_abs() < LIMIT => serializer.serialize_i64(small),
            _ => serializer.collect_str(&v),
        }
    }
}

impl<'de, T: Width> Deserialize<'de> for Integer<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntegerVisitor(PhantomData))
    }
}

struct IntegerVisitor<T>(PhantomData<T>);

impl<T: Width> IntegerVisitor<T> {
    fn number<E: Error>(v: i128) -> Result<Integer<T>, E> {
        if v.unsigned_abs() >= LIMIT {
            return Err(E::custom(format!(
                "{v} is 2^53 or more in magnitude: it must be a string"
            )));
        }
        let narrow = T::try_from(v).map(Integer);
        narrow.map_err(|_| E::custom(format!("{v} is not {}", T::NAME)))
    }
}

impl<T: Width> Visitor<'_> for IntegerVisitor<T> {
    type Value = Integer<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer, as a string of digits from 2^53 on")
    }

    fn visit_i64<E: Error>(self, v: i64) -> Result<Integer<T>, E> {
        Self::number(v.into())
    }

    fn visit_u64<E: Error>(self, v: u64) -> Result<Integer<T>, E> {
        Self::number(v.into())
    }

    fn visit_str<E: Error>(self, v: &str) -> Result<Integer<T>, E> {
        let value = decimal(v).and_then(|value| T::try_from(value).ok());
        value.map(Integer).ok_or_else(|| {
            E::custom(format!(
                "{:?} is not {} in decimal digits without leading zeros, -0 and +",
                short(v),
                T::NAME
            ))
        })
    }
}
