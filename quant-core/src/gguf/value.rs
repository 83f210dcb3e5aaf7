//! Metadata values.

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// A metadata array: all its elements have one type, known even when it is empty.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Vec<String>),
    Array(Vec<Array>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

/// Type ids of metadata values in the file.
pub(super) mod type_id {
    pub(crate) const U8: u32 = 0;
    pub(crate) const I8: u32 = 1;
    pub(crate) const U16: u32 = 2;
    pub(crate) const I16: u32 = 3;
    pub(crate) const U32: u32 = 4;
    pub(crate) const I32: u32 = 5;
    pub(crate) const F32: u32 = 6;
    pub(crate) const BOOL: u32 = 7;
    pub(crate) const STRING: u32 = 8;
    pub(crate) const ARRAY: u32 = 9;
    pub(crate) const U64: u32 = 10;
    pub(crate) const I64: u32 = 11;
    pub(crate) const F64: u32 = 12;
}

impl Value {
    /// An integer of any width that is not negative. Floats and bools are not integers.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U8(x) => Some(x.into()),
            Value::U16(x) => Some(x.into()),
            Value::U32(x) => Some(x.into()),
            Value::U64(x) => Some(x),
            Value::I8(x) => x.try_into().ok(),
            Value::I16(x) => x.try_into().ok(),
            Value::I32(x) => x.try_into().ok(),
            Value::I64(x) => x.try_into().ok(),
            _ => None,
        }
    }

    /// An integer of any width that fits an i64. Floats and bools are not integers.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::U8(x) => Some(x.into()),
            Value::U16(x) => Some(x.into()),
            Value::U32(x) => Some(x.into()),
            Value::U64(x) => x.try_into().ok(),
            Value::I8(x) => Some(x.into()),
            Value::I16(x) => Some(x.into()),
            Value::I32(x) => Some(x.into()),
            Value::I64(x) => Some(x),
            _ => None,
        }
    }

    /// A float, an f32 being widened. Integers are not floats.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::F32(x) => Some(x.into()),
            Value::F64(x) => Some(x),
            _ => None,
        }
    }

    /// A bool.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Value::Bool(x) => Some(x),
            _ => None,
        }
    }

    /// A string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(x) => Some(x),
            _ => None,
        }
    }

    /// An array.
    #[must_use]
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Value::Array(x) => Some(x),
            _ => None,
        }
    }

    /// An array of strings.
    #[must_use]
    pub fn as_strings(&self) -> Option<&[String]> {
        match self {
            Value::Array(Array::String(x)) => Some(x),
            _ => None,
        }
    }

    /// The type's name, such as `u32` or `array`.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::U8(_) => "u8",
            Value::I8(_) => "i8",
            Value::U16(_) => "u16",
            Value::I16(_) => "i16",
            Value::U32(_) => "u32",
            Value::I32(_) => "i32",
            Value::F32(_) => "f32",
            Value::Bool(_) => "bool",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::U64(_) => "u64",
            Value::I64(_) => "i64",
            Value::F64(_) => "f64",
        }
    }
}

impl Array {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Array::U8(x) => x.len(),
            Array::I8(x) => x.len(),
            Array::U16(x) => x.len(),
            Array::I16(x) => x.len(),
            Array::U32(x) => x.len(),
            Array::I32(x) => x.len(),
            Array::F32(x) => x.len(),
            Array::Bool(x) => x.len(),
            Array::String(x) => x.len(),
            Array::Array(x) => x.len(),
            Array::U64(x) => x.len(),
            Array::I64(x) => x.len(),
            Array::F64(x) => x.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element `index`, copied.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Value> {
        Some(match self {
            Array::U8(x) => Value::U8(*x.get(index)?),
            Array::I8(x) => Value::I8(*x.get(index)?),
            Array::U16(x) => Value::U16(*x.get(index)?),
            Array::I16(x) => Value::I16(*x.get(index)?),
            Array::U32(x) => Value::U32(*x.get(index)?),
            Array::I32(x) => Value::I32(*x.get(index)?),
            Array::F32(x) => Value::F32(*x.get(index)?),
            Array::Bool(x) => Value::Bool(*x.get(index)?),
            Array::String(x) => Value::String(x.get(index)?.clone()),
            Array::Array(x) => Value::Array(x.get(index)?.clone()),
            Array::U64(x) => Value::U64(*x.get(index)?),
            Array::I64(x) => Value::I64(*x.get(index)?),
            Array::F64(x) => Value::F64(*x.get(index)?),
        })
    }

    /// The elements, copied one by one. For strings prefer [`Value::as_strings`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Value> + '_ {
        (0..self.len()).map(|i| self.get(i).expect("index below len"))
    }

    /// All elements by [`Value::as_i64`], or `None` if one is not such an integer.
    #[must_use]
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        self.iter().map(|x| x.as_i64()).collect()
    }

    /// All elements by [`Value::as_f64`], or `None` if one is not a float.
    #[must_use]
    pub fn to_f64s(&self) -> Option<Vec<f64>> {
        self.iter().map(|x| x.as_f64()).collect()
    }

    /// The element type's id in the file.
    pub(super) fn type_id(&self) -> u32 {
        match self {
            Array::U8(_) => type_id::U8,
            Array::I8(_) => type_id::I8,
            Array::U16(_) => type_id::U16,
            Array::I16(_) => type_id::I16,
            Array::U32(_) => type_id::U32,
            Array::I32(_) => type_id::I32,
            Array::F32(_) => type_id::F32,
            Array::Bool(_) => type_id::BOOL,
            Array::String(_) => type_id::STRING,
            Array::Array(_) => type_id::ARRAY,
            Array::U64(_) => type_id::U64,
            Array::I64(_) => type_id::I64,
            Array::F64(_) => type_id::F64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_convert_by_value_not_by_width() {
        assert_eq!(Value::I8(-1).as_u64(), None);
        assert_eq!(Value::I8(-1).as_i64(), Some(-1));
        assert_eq!(Value::I64(i64::MAX).as_u64(), Some(i64::MAX as u64));
        assert_eq!(Value::U64(1 << 63).as_i64(), None);
        assert_eq!(Value::U64(u64::MAX).as_u64(), Some(u64::MAX));
        for other in [
            Value::F32(1.0),
            Value::Bool(true),
            Value::String("1".into()),
        ] {
            assert_eq!((other.as_u64(), other.as_i64()), (None, None));
        }
        assert_eq!(Value::U32(1).as_f64(), None);
        assert_eq!(Value::F32(0.1).as_f64(), Some(f64::from(0.1f32)));
    }

    #[test]
    fn arrays_give_their_elements() {
        let array = Array::I32(vec![3, -1]);
        assert_eq!(array.to_i64s(), Some(vec![3, -1]));
        assert_eq!(array.to_f64s(), None);
        assert_eq!(array.get(2), None);
        assert_eq!(Array::F32(vec![]).to_f64s(), Some(vec![]));
        assert_eq!(
            Array::Array(vec![array.clone()]).get(0),
            Some(Value::Array(array))
        );
    }
}
