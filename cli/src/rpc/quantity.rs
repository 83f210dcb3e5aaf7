//! Ethereum's numbers in JSON: `0x` and hexadecimal digits.

use std::fmt::LowerHex;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number, written as nodes want it and read as nodes write it: nothing else is taken for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity<T>(pub(crate) T);

impl<T: LowerHex> Serialize for Quantity<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

impl<'de, T: TryFrom<u128>> Deserialize<'de> for Quantity<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text
            .strip_prefix("0x")
            .filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let number = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
        number
            .and_then(|number| T::try_from(number).ok())
            .map(Self)
            .ok_or_else(|| D::Error::custom("no number of 0x and hexadecimal digits in its range"))
    }
}
