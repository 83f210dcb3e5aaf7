//! Reading of the metadata entries.

use std::collections::BTreeMap;

use super::cursor::{At, Cursor};
use super::value::type_id;
use super::{
    ALIGNMENT_KEY, Array, DEFAULT_ALIGNMENT, GgufError, MAX_ALIGNMENT, MAX_ARRAY_DEPTH,
    MIN_ALIGNMENT, Value,
};

/// Least bytes of an entry: the key's length, the value's type, a value of one byte.
pub(super) const LEAST_ENTRY: u64 = 8 + 4 + 1;
/// Least bytes of a string: its length.
const LEAST_STRING: u64 = 8;
/// Least bytes of an array: its element type and its length.
const LEAST_ARRAY: u64 = 4 + 8;

/// Reads `count` entries.
pub(super) fn read_metadata(
    cursor: &mut Cursor<'_>,
    count: u64,
) -> Result<BTreeMap<String, Value>, GgufError> {
    let mut metadata = BTreeMap::new();
    for i in 0..count {
        let key = cursor.name("key", At::Entry(i))?;
        let value = read_value(cursor, key)?;
        if metadata.insert(key.to_owned(), value).is_some() {
            return Err(GgufError::DuplicateKey {
                key: key.to_owned(),
            });
        }
    }
    Ok(metadata)
}

/// The alignment that the metadata declare.
pub(super) fn alignment(value: Option<&Value>) -> Result<u32, GgufError> {
    match value {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(&Value::U32(found)) => {
            if found.is_power_of_two() && (MIN_ALIGNMENT..=MAX_ALIGNMENT).contains(&found) {
                Ok(found)
            } else {
                Err(GgufError::Alignment { found })
            }
        }
        Some(other) => Err(GgufError::AlignmentType {
            found: other.type_name(),
        }),
    }
}

/// The alignment of a file with these metadata.
pub(super) fn file_alignment(metadata: &BTreeMap<String, Value>) -> Result<u32, GgufError> {
    alignment(metadata.get(ALIGNMENT_KEY))
}

fn read_value(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, GgufError> {
    let at = At::Key(key);
    let id = cursor.u32("value type", at)?;
    const FIELD: &str = "value";
    Ok(match id {
        type_id::U8 => Value::U8(u8::from_le_bytes(cursor.array(FIELD, at)?)),
        type_id::I8 => Value::I8(i8::from_le_bytes(cursor.array(FIELD, at)?)),
        type_id::U16 => Value::U16(u16::from_le_bytes(cursor.array(FIELD, at)?)),
        type_id::I16 => Value::I16(i16::from_le_bytes(cursor.array(FIELD, at)?)),
        type_id::U32 => Value::U32(u32::from_le_bytes(cursor.array(FIELD, at)?)),
        type_id::I32 => Value::I32(i32::from_le_bytes(cursor.array(FIELD, at)?)),
        type_id::F32 => Value::F32(f32::from_le_bytes(cursor.array(FIELD, at)?)),
        type_id::U64 => Value::U64(u64::from_le_bytes(cursor.array(FIELD, at)?)),
        type_id::I64 => Value::I64(i64::from_le_bytes(cursor.array(FIELD, at)?)),
        type_id::F64 => Value::F64(f64::from_le_bytes(cursor.array(FIELD, at)?)),
        type_id::BOOL => {
            let offset = cursor.position();
            let [byte] = cursor.array(FIELD, at)?;
            Value::Bool(bool_of(byte, offset, key)?)
        }
        type_id::STRING => Value::String(cursor.string(FIELD, at)?.to_owned()),
        type_id::ARRAY => Value::Array(read_array(cursor, key, 1)?),
        id => {
            return Err(GgufError::ValueType {
                key: key.to_owned(),
                id,
            });
        }
    })
}

/// Reads an array at nesting depth `depth` (1 for the outermost); the recursion ends at
/// [`MAX_ARRAY_DEPTH`].
fn read_array(cursor: &mut Cursor<'_>, key: &str, depth: usize) -> Result<Array, GgufError> {
    if depth > MAX_ARRAY_DEPTH {
        return Err(GgufError::ArrayDepth {
            key: key.to_owned(),
        });
    }
    let at = At::Key(key);
    const LENGTH: &str = "array length";
    let id = cursor.u32("array element type", at)?;
    Ok(match id {
        type_id::U8 => Array::U8(numbers(cursor, key, u8::from_le_bytes)?),
        type_id::I8 => Array::I8(numbers(cursor, key, i8::from_le_bytes)?),
        type_id::U16 => Array::U16(numbers(cursor, key, u16::from_le_bytes)?),
        type_id::I16 => Array::I16(numbers(cursor, key, i16::from_le_bytes)?),
        type_id::U32 => Array::U32(numbers(cursor, key, u32::from_le_bytes)?),
        type_id::I32 => Array::I32(numbers(cursor, key, i32::from_le_bytes)?),
        type_id::F32 => Array::F32(numbers(cursor, key, f32::from_le_bytes)?),
        type_id::U64 => Array::U64(numbers(cursor, key, u64::from_le_bytes)?),
        type_id::I64 => Array::I64(numbers(cursor, key, i64::from_le_bytes)?),
        type_id::F64 => Array::F64(numbers(cursor, key, f64::from_le_bytes)?),
        type_id::BOOL => {
            let count = cursor.count(1, LENGTH, at)?;
            let start = cursor.position();
            let bytes = cursor.take(count, "array", at)?;
            let bools = (start..)
                .zip(bytes)
                .map(|(offset, &byte)| bool_of(byte, offset, key));
            Array::Bool(bools.collect::<Result<_, _>>()?)
        }
        type_id::STRING => {
            let count = cursor.count(LEAST_STRING, LENGTH, at)?;
            let mut strings = Vec::with_capacity(count as usize);
            for _ in 0..count {
                strings.push(cursor.string("array element", at)?.to_owned());
            }
            Array::String(strings)
        }
        type_id::ARRAY => {
            let count = cursor.count(LEAST_ARRAY, LENGTH, at)?;
            let mut arrays = Vec::with_capacity(count as usize);
            for _ in 0..count {
                arrays.push(read_array(cursor, key, depth + 1)?);
            }
            Array::Array(arrays)
        }
        id => {
            return Err(GgufError::ValueType {
                key: key.to_owned(),
                id,
            });
        }
    })
}

/// An array of `N`-byte little-endian numbers.
fn numbers<T, const N: usize>(
    cursor: &mut Cursor<'_>,
    key: &str,
    of: fn([u8; N]) -> T,
) -> Result<Vec<T>, GgufError> {
    let at = At::Key(key);
    let count = cursor.count(N as u64, "array length", at)?;
    // `count` elements fit in the rest of the file, so the product does not overflow.
    let bytes = cursor.take(count * N as u64, "array", at)?;
    Ok(bytes
        .as_chunks::<N>()
        .0
        .iter()
        .map(|&chunk| of(chunk))
        .collect())
}

fn bool_of(byte: u8, offset: u64, key: &str) -> Result<bool, GgufError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(GgufError::Bool {
            key: key.to_owned(),
            found,
            offset,
        }),
    }
}
