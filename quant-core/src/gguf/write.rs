//! Writing of small files.

use std::borrow::Cow;
use std::io::{self, Write};

use thiserror::Error;

use super::tensors::{pad, size_in_bytes};
use super::value::type_id;
use super::{
    ALIGNMENT_KEY, Array, GgufError, MAGIC, MAX_ARRAY_DEPTH, MAX_DIMENSIONS, MAX_NAME_BYTES, Place,
    Value, metadata,
};
use crate::{Format, FormatError};

/// Why a file is not written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// What would be written would not be read.
    #[error(transparent)]
    Invalid(#[from] GgufError),
    /// The output failed.
    #[error("writing a GGUF file: {0}")]
    Io(#[from] io::Error),
}

struct Tensor<'a> {
    name: String,
    format: Format,
    shape: Vec<u64>,
    data: Cow<'a, [u8]>,
}

/// The contents of a version 3 file, written in the order of the calls.
///
/// Every file that it writes is one that [`GgufFile::parse`](super::GgufFile::parse) accepts.
#[derive(Default)]
pub struct GgufBuilder<'a> {
    metadata: Vec<(String, Value)>,
    tensors: Vec<Tensor<'a>>,
}

impl<'a> GgufBuilder<'a> {
    /// An empty file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a metadata entry. `general.alignment` also sets the alignment.
    pub fn metadata(&mut self, key: impl Into<String>, value: Value) -> &mut Self {
        self.metadata.push((key.into(), value));
        self
    }

    /// Adds a tensor of row-major `shape` (outermost first) with its encoded `data`.
    pub fn tensor(
        &mut self,
        name: impl Into<String>,
        format: Format,
        shape: impl Into<Vec<u64>>,
        data: impl Into<Cow<'a, [u8]>>,
    ) -> &mut Self {
        self.tensors.push(Tensor {
            name: name.into(),
            format,
            shape: shape.into(),
            data: data.into(),
        });
        self
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// [`GgufError`] for contents that would not be read.
    pub fn to_bytes(&self) -> Result<Vec<u8>, GgufError> {
        let mut bytes = self.header()?;
        let alignment = self.alignment()?;
        for tensor in &self.tensors {
            bytes.extend_from_slice(&tensor.data);
            bytes.resize(pad(bytes.len() as u64, alignment) as usize, 0);
        }
        Ok(bytes)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`WriteError::Invalid`] before anything is written, [`WriteError::Io`] from `output`.
    pub fn write_to(&self, output: &mut impl Write) -> Result<(), WriteError> {
        let header = self.header()?;
        let alignment = self.alignment()?;
        output.write_all(&header)?;
        let zeros = vec![0; alignment as usize];
        for tensor in &self.tensors {
            output.write_all(&tensor.data)?;
            let size = tensor.data.len() as u64;
            output.write_all(&zeros[..(pad(size, alignment) - size) as usize])?;
        }
        Ok(())
    }

    fn alignment(&self) -> Result<u32, GgufError> {
        let entry = self.metadata.iter().find(|(key, _)| key == ALIGNMENT_KEY);
        metadata::alignment(entry.map(|(_, value)| value))
    }

    /// Everything before the tensors' data, padded to the alignment.
    fn header(&self) -> Result<Vec<u8>, GgufError> {
        let alignment = self.alignment()?;
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&3u32.to_le_bytes());
        out.extend_from_slice(&(self.tensors.len() as u64).to_le_bytes());
        out.extend_from_slice(&(self.metadata.len() as u64).to_le_bytes());

        if let Some(key) = duplicate(self.metadata.iter().map(|(key, _)| key)) {
            return Err(GgufError::DuplicateKey { key });
        }
        for (key, value) in &self.metadata {
            check_name(key, || Place::Key(key.clone()))?;
            put_string(&mut out, key);
            put_value(&mut out, key, value)?;
        }

        if let Some(tensor) = duplicate(self.tensors.iter().map(|tensor| &tensor.name)) {
            return Err(GgufError::DuplicateTensor { tensor });
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            check_tensor(tensor)?;
            put_string(&mut out, &tensor.name);
            out.extend_from_slice(&(tensor.shape.len() as u32).to_le_bytes());
            for dimension in tensor.shape.iter().rev() {
                out.extend_from_slice(&dimension.to_le_bytes());
            }
            out.extend_from_slice(&tensor.format.ggml_id().to_le_bytes());
            out.extend_from_slice(&u64::to_le_bytes(offset));
            offset += pad(tensor.data.len() as u64, alignment);
        }
        out.resize(pad(out.len() as u64, alignment) as usize, 0);
        Ok(out)
    }
}

/// A name that appears twice.
fn duplicate<'b>(names: impl Iterator<Item = &'b String>) -> Option<String> {
    let mut names: Vec<&String> = names.collect();
    names.sort_unstable();
    names
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0].clone())
}

fn check_name(name: &str, place: impl Fn() -> Place) -> Result<(), GgufError> {
    if name.len() > MAX_NAME_BYTES {
        return Err(GgufError::NameTooLong {
            place: place(),
            len: name.len() as u64,
        });
    }
    Ok(())
}

fn check_tensor(tensor: &Tensor<'_>) -> Result<(), GgufError> {
    let name = &tensor.name;
    check_name(name, || Place::Tensor(name.clone()))?;
    let found = tensor.shape.len();
    if !(1..=MAX_DIMENSIONS).contains(&found) {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        return Err(GgufError::DimensionCount {
            tensor: name.clone(),
            found,
        });
    }
    let expected = size_in_bytes(name, tensor.format, &tensor.shape)?;
    let found = tensor.data.len() as u64;
    if found != expected {
        // The number of values fits: `size_in_bytes` refuses a product that does not.
        let values = tensor.shape.iter().product();
        let source = FormatError::ByteLength {
            format: tensor.format,
            values,
            expected,
            found,
        };
        let (tensor, shape) = (name.clone(), tensor.shape.clone());
        return Err(GgufError::Size {
            tensor,
            shape,
            source,
        });
    }
    Ok(())
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, key: &str, value: &Value) -> Result<(), GgufError> {
    fn scalar<const N: usize>(out: &mut Vec<u8>, id: u32, bytes: [u8; N]) {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&bytes);
    }
    match value {
        Value::U8(x) => scalar(out, type_id::U8, x.to_le_bytes()),
        Value::I8(x) => scalar(out, type_id::I8, x.to_le_bytes()),
        Value::U16(x) => scalar(out, type_id::U16, x.to_le_bytes()),
        Value::I16(x) => scalar(out, type_id::I16, x.to_le_bytes()),
        Value::U32(x) => scalar(out, type_id::U32, x.to_le_bytes()),
        Value::I32(x) => scalar(out, type_id::I32, x.to_le_bytes()),
        Value::F32(x) => scalar(out, type_id::F32, x.to_le_bytes()),
        Value::U64(x) => scalar(out, type_id::U64, x.to_le_bytes()),
        Value::I64(x) => scalar(out, type_id::I64, x.to_le_bytes()),
        Value::F64(x) => scalar(out, type_id::F64, x.to_le_bytes()),
        Value::Bool(x) => scalar(out, type_id::BOOL, [u8::from(*x)]),
        Value::String(x) => {
            scalar(out, type_id::STRING, []);
            put_string(out, x);
        }
        Value::Array(x) => {
            scalar(out, type_id::ARRAY, []);
            put_array(out, key, x, 1)?;
        }
    }
    Ok(())
}

fn put_array(out: &mut Vec<u8>, key: &str, array: &Array, depth: usize) -> Result<(), GgufError> {
    if depth > MAX_ARRAY_DEPTH {
        return Err(GgufError::ArrayDepth {
            key: key.to_owned(),
        });
    }
    out.extend_from_slice(&array.type_id().to_le_bytes());
    out.extend_from_slice(&(array.len() as u64).to_le_bytes());
    fn numbers<T: Copy, const N: usize>(out: &mut Vec<u8>, values: &[T], bytes: fn(T) -> [u8; N]) {
        out.extend(values.iter().flat_map(|&value| bytes(value)));
    }
    match array {
        Array::U8(x) => numbers(out, x, u8::to_le_bytes),
        Array::I8(x) => numbers(out, x, i8::to_le_bytes),
        Array::U16(x) => numbers(out, x, u16::to_le_bytes),
        Array::I16(x) => numbers(out, x, i16::to_le_bytes),
        Array::U32(x) => numbers(out, x, u32::to_le_bytes),
        Array::I32(x) => numbers(out, x, i32::to_le_bytes),
        Array::F32(x) => numbers(out, x, f32::to_le_bytes),
        Array::U64(x) => numbers(out, x, u64::to_le_bytes),
        Array::I64(x) => numbers(out, x, i64::to_le_bytes),
        Array::F64(x) => numbers(out, x, f64::to_le_bytes),
        Array::Bool(x) => numbers(out, x, |b| [u8::from(b)]),
        Array::String(x) => x.iter().for_each(|text| put_string(out, text)),
        Array::Array(x) => {
            for inner in x {
                put_array(out, key, inner, depth + 1)?;
            }
        }
    }
    Ok(())
}
