//! The members of an object, taken one by one; what is left is refused.

use super::FileError;
use crate::hex;
use crate::json::Json;

/// The value of a string of decimal digits in the one form of spec 7.1: no leading zero, no `+`, no `-0`, at most 20
/// digits.
pub(crate) fn decimal(text: &str) -> Option<i128> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = match digits.as_bytes() {
        b"0" => text == "0",
        [b'1'..=b'9', rest @ ..] => rest.len() < 20 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    canonical.then(|| text.parse().ok()).flatten()
}

/// An integer in `low ..= high`, as a number or a string of digits (spec 7.1).
pub(crate) fn integer(
    json: &Json,
    at: impl Fn() -> String,
    low: i128,
    high: i128,
) -> Result<i128, FileError> {
    let value = match json {
        Json::Int(v) => i128::from(*v),
        Json::Text(text) => decimal(text).ok_or_else(|| FileError::Digits { at: at() })?,
        _ => {
            return Err(FileError::Type {
                at: at(),
                expected: "an integer",
                found: json.kind(),
            });
        }
    };
    if value < low || value > high {
        return Err(FileError::Range {
            at: at(),
            value: value.to_string(),
            low,
            high,
        });
    }
    Ok(value)
}

/// A list.
pub(crate) fn list(json: Json, at: &str) -> Result<Vec<Json>, FileError> {
    match json {
        Json::List(items) => Ok(items),
        _ => Err(FileError::Type {
            at: at.into(),
            expected: "a list",
            found: json.kind(),
        }),
    }
}

/// A string.
pub(crate) fn text(json: Json, at: &str) -> Result<String, FileError> {
    match json {
        Json::Text(text) => Ok(text),
        _ => Err(FileError::Type {
            at: at.into(),
            expected: "a string",
            found: json.kind(),
        }),
    }
}

/// A digest of 64 hexadecimal digits.
pub(crate) fn digest(json: Json, at: &str) -> Result<[u8; 32], FileError> {
    hex::digest(&text(json, at)?).ok_or_else(|| FileError::Digest { at: at.into() })
}

/// Bytes in hexadecimal.
pub(crate) fn bytes(json: Json, at: &str) -> Result<Vec<u8>, FileError> {
    hex::decode(&text(json, at)?).ok_or_else(|| FileError::Hex { at: at.into() })
}

/// The members of one object.
pub(crate) struct Fields {
    at: String,
    members: Vec<(String, Json)>,
}

impl Fields {
    /// The members of the object at `at`.
    pub(crate) fn new(members: Vec<(String, Json)>, at: &str) -> Self {
        Self {
            at: at.into(),
            members,
        }
    }

    /// The members of a value that must be an object.
    pub(crate) fn of(json: Json, at: &str) -> Result<Self, FileError> {
        match json {
            Json::Object(members) => Ok(Self::new(members, at)),
            _ => Err(FileError::Type {
                at: at.into(),
                expected: "an object",
                found: json.kind(),
            }),
        }
    }

    /// Renames the object in messages.
    pub(crate) fn rename(&mut self, at: String) {
        self.at = at;
    }

    /// Where a member is.
    pub(crate) fn at(&self, member: &str) -> String {
        if self.at.is_empty() {
            member.into()
        } else {
            format!("{}.{member}", self.at)
        }
    }

    /// Whether a member is there.
    pub(crate) fn has(&self, member: &str) -> bool {
        self.members.iter().any(|(name, _)| name == member)
    }

    /// Takes a member that may be missing.
    pub(crate) fn optional(&mut self, member: &str) -> Option<Json> {
        let i = self.members.iter().position(|(name, _)| name == member)?;
        Some(self.members.remove(i).1)
    }

    /// Takes a member.
    pub(crate) fn take(&mut self, member: &'static str) -> Result<Json, FileError> {
        self.optional(member).ok_or_else(|| FileError::Missing {
            at: self.at.clone(),
            member,
        })
    }

    /// Takes an integer in `low ..= high`.
    pub(crate) fn int(
        &mut self,
        member: &'static str,
        low: i128,
        high: i128,
    ) -> Result<i128, FileError> {
        integer(&self.take(member)?, || self.at(member), low, high)
    }

    /// Takes a string.
    pub(crate) fn text(&mut self, member: &'static str) -> Result<String, FileError> {
        text(self.take(member)?, &self.at(member))
    }

    /// Takes a list.
    pub(crate) fn list(&mut self, member: &'static str) -> Result<Vec<Json>, FileError> {
        list(self.take(member)?, &self.at(member))
    }

    /// Takes an object.
    pub(crate) fn object(&mut self, member: &'static str) -> Result<Self, FileError> {
        Self::of(self.take(member)?, &self.at(member))
    }

    /// Takes a digest.
    pub(crate) fn digest(&mut self, member: &'static str) -> Result<[u8; 32], FileError> {
        digest(self.take(member)?, &self.at(member))
    }

    /// Takes bytes in hexadecimal.
    pub(crate) fn bytes(&mut self, member: &'static str) -> Result<Vec<u8>, FileError> {
        bytes(self.take(member)?, &self.at(member))
    }

    /// Refuses what was not taken.
    pub(crate) fn end(self) -> Result<(), FileError> {
        match self.members.into_iter().next() {
            None => Ok(()),
            Some((member, _)) => Err(FileError::Unknown {
                at: self.at,
                member,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_form() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("-7", -7),
            ("9007199254740992", 1 << 53),
            ("18446744073709551616", 1 << 64),
            ("99999999999999999999", 99_999_999_999_999_999_999),
            ("-99999999999999999999", -99_999_999_999_999_999_999),
        ] {
            assert_eq!(decimal(text), Some(value), "{text}");
        }
        for text in [
            "",
            "-",
            "+",
            "+1",
            "-0",
            "00",
            "01",
            "-01",
            "--1",
            "1-",
            " 1",
            "1 ",
            "1\n",
            "1.0",
            "1e2",
            "0x1",
            "1_0",
            "\u{661}",
            "100000000000000000000",
            "-100000000000000000000",
        ] {
            assert_eq!(decimal(text), None, "{text:?}");
        }
        assert_eq!(decimal(&"9".repeat(1 << 20)), None);
    }
}
