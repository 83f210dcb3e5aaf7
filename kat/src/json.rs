//! JSON of the profile of spec 7.1: integers only, no member twice, bounded depth; and its writer.

use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::file::FileError;

/// Deepest nesting that is read.
pub const MAX_DEPTH: usize = 16;
/// Most members of one object.
pub const MAX_MEMBERS: usize = 64;
/// Numbers of this magnitude or more are written as strings.
pub const NUMBER_LIMIT: i128 = 1 << 53;

/// A JSON value whose numbers are integers below 2^53 in magnitude.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Int(i64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object, members in the order of the text, names unique.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An integer of any magnitude, as a number or a string (spec 7.1).
    #[must_use]
    pub fn integer(v: i128) -> Self {
        match i64::try_from(v) {
            Ok(small) if v.abs() < NUMBER_LIMIT => Self::Int(small),
            _ => Self::Text(v.to_string()),
        }
    }

    /// A string.
    #[must_use]
    pub fn text(v: &str) -> Self {
        Self::Text(v.to_owned())
    }

    /// A list of integers.
    pub fn integers<T: Into<i128>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::List(
            values
                .into_iter()
                .map(|v| Self::integer(v.into()))
                .collect(),
        )
    }

    /// An object.
    #[must_use]
    pub fn object<const N: usize>(members: [(&str, Json); N]) -> Self {
        Self::Object(
            members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    }

    /// What the value is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

/// Parses one JSON text.
///
/// # Errors
/// [`FileError::Json`] with line and column.
pub fn parse(bytes: &[u8]) -> Result<Json, FileError> {
    let mut text = serde_json::Deserializer::from_slice(bytes);
    let value = Seed(MAX_DEPTH)
        .deserialize(&mut text)
        .and_then(|v| text.end().map(|()| v));
    value.map_err(|e| FileError::Json(e.to_string()))
}

/// Reads a value that may nest this deep.
struct Seed(usize);

impl Seed {
    fn below<E: serde::de::Error>(&self) -> Result<Self, E> {
        match self.0.checked_sub(1) {
            Some(depth) => Ok(Self(depth)),
            None => Err(E::custom(format!("nested deeper than {MAX_DEPTH}"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

fn number<E: serde::de::Error>(v: i128) -> Result<Json, E> {
    if v.abs() < NUMBER_LIMIT {
        Ok(Json::Int(v as i64))
    } else {
        Err(E::custom(format!(
            "{v} is 2^53 or more in magnitude: it must be a string"
        )))
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer, a string, a boolean, null, a list or an object")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, v: bool) -> Result<Json, E> {
        Ok(Json::Bool(v))
    }

    fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Json, E> {
        number(v.into())
    }

    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Json, E> {
        number(v.into())
    }

    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Json, E> {
        Ok(Json::text(v))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        loop {
            match items.next_element_seed(self.below()?)? {
                Some(item) => list.push(item),
                None => return Ok(Json::List(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object: Vec<(String, Json)> = Vec::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom(format!("member {name:?} appears twice")));
            }
            if object.len() == MAX_MEMBERS {
                return Err(A::Error::custom(format!(
                    "an object has more than {MAX_MEMBERS} members"
                )));
            }
            let value = members.next_value_seed(self.below()?)?;
            object.push((name, value));
        }
        Ok(Json::Object(object))
    }
}

impl fmt::Display for Json {
    /// On one line, without spaces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(v) => write!(f, "{v}"),
            Self::Int(v) => write!(f, "{v}"),
            Self::Text(v) => quote(f, v),
            Self::List(items) => {
                f.write_char('[')?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i > 0 { "," } else { "" })?;
                }
                f.write_char(']')
            }
            Self::Object(members) => {
                f.write_char('{')?;
                for (i, (name, value)) in members.iter().enumerate() {
                    f.write_str(if i > 0 { "," } else { "" })?;
                    quote(f, name)?;
                    write!(f, ":{value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

fn quote(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\0'..='\u{1f}' => write!(f, "\\u{:04x}", c as u32)?,
            _ => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// The text of a file: an object's members a line each, and the items of its lists of objects a line each, so that
/// a change of one case is a change of one line.
#[must_use]
pub fn file_text(value: &Json) -> String {
    let mut text = String::new();
    match value {
        Json::Object(members) => {
            for (i, (name, value)) in members.iter().enumerate() {
                text.push_str(if i == 0 { "{\n" } else { ",\n" });
                text.push_str(&format!(
                    "{}: {}",
                    Json::text(name),
                    lines(value).trim_end()
                ));
            }
            text.push_str("\n}\n");
        }
        _ => text.push_str(&lines(value)),
    }
    text
}

fn lines(value: &Json) -> String {
    match value {
        Json::List(items) if matches!(items.first(), Some(Json::Object(_))) => {
            let items: Vec<String> = items.iter().map(Json::to_string).collect();
            format!("[\n{}\n]\n", items.join(",\n"))
        }
        _ => format!("{value}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read() {
        let text = r#"{"a":[1,-2,"x\"\\\u0007ü",null,true],"b":{},"c":[{"d":9007199254740991}]}"#;
        let value = parse(text.as_bytes()).unwrap();
        assert_eq!(value.to_string(), text);
        assert_eq!(parse(file_text(&value).as_bytes()), Ok(value));
    }

    #[test]
    fn integers_become_text_at_two_to_the_53() {
        assert_eq!(Json::integer((1 << 53) - 1).to_string(), "9007199254740991");
        assert_eq!(Json::integer(1 << 53).to_string(), "\"9007199254740992\"");
        assert_eq!(
            Json::integer(-(1 << 63)).to_string(),
            "\"-9223372036854775808\""
        );
    }

    #[test]
    fn the_profile_is_kept() {
        for (text, why) in [
            ("{\"a\":1,\"a\":1}", "twice"),
            ("1.0", "floating point"),
            ("1e400", "out of range"),
            ("1e2", "floating point"),
            ("-0", "floating point"),
            ("9007199254740992", "2^53"),
            ("-9007199254740992", "2^53"),
            ("18446744073709551616", "floating point"),
            ("[1", "EOF"),
            ("[1]]", "trailing"),
            ("", "EOF"),
            ("\"\u{7}\"", "control character"),
            ("NaN", "expected value"),
        ] {
            assert!(refused(text).contains(why), "{text}: {}", refused(text));
        }
        assert!(parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn depth_and_members_are_bounded() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert!(refused(&nested(MAX_DEPTH + 1)).contains("deeper"));
        assert!(refused(&"[".repeat(100_000)).contains("deeper"));
        let wide = |n: usize| {
            let members: Vec<String> = (0..n).map(|i| format!("\"{i}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert!(parse(wide(MAX_MEMBERS).as_bytes()).is_ok());
        assert!(refused(&wide(MAX_MEMBERS + 1)).contains("more than 64 members"));
    }
}
