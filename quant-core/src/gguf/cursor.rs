//! A position in the bytes of a file, and reads that name what they read.

use super::{GgufError, MAX_NAME_BYTES, Place};

/// [`Place`] with borrowed names: an owned one is made only for an error.
#[derive(Clone, Copy)]
pub(super) enum At<'b> {
    Header,
    Entry(u64),
    Key(&'b str),
    TensorEntry(u64),
    Tensor(&'b str),
}

impl At<'_> {
    pub(super) fn place(self) -> Place {
        match self {
            At::Header => Place::Header,
            At::Entry(i) => Place::Entry(i),
            At::Key(key) => Place::Key(key.to_owned()),
            At::TensorEntry(i) => Place::TensorEntry(i),
            At::Tensor(name) => Place::Tensor(name.to_owned()),
        }
    }
}

/// The unread rest of a file.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(super) fn position(&self) -> u64 {
        self.position as u64
    }

    pub(super) fn remaining(&self) -> u64 {
        (self.bytes.len() - self.position) as u64
    }

    /// The next `needed` bytes.
    pub(super) fn take(
        &mut self,
        needed: u64,
        field: &'static str,
        at: At<'_>,
    ) -> Result<&'a [u8], GgufError> {
        if needed > self.remaining() {
            return Err(GgufError::Truncated {
                place: at.place(),
                field,
                offset: self.position(),
                needed,
                available: self.remaining(),
            });
        }
        let start = self.position;
        self.position += needed as usize;
        Ok(&self.bytes[start..self.position])
    }

    pub(super) fn array<const N: usize>(
        &mut self,
        field: &'static str,
        at: At<'_>,
    ) -> Result<[u8; N], GgufError> {
        let bytes = self.take(N as u64, field, at)?;
        Ok(std::array::from_fn(|i| bytes[i]))
    }

    pub(super) fn u32(&mut self, field: &'static str, at: At<'_>) -> Result<u32, GgufError> {
        self.array(field, at).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str, at: At<'_>) -> Result<u64, GgufError> {
        self.array(field, at).map(u64::from_le_bytes)
    }

    /// A u64 that counts items of at least `least` bytes each: never more than can follow it.
    pub(super) fn count(
        &mut self,
        least: u64,
        field: &'static str,
        at: At<'_>,
    ) -> Result<u64, GgufError> {
        let declared = self.u64(field, at)?;
        self.check_count(declared, least, field, at)
    }

    pub(super) fn check_count(
        &self,
        declared: u64,
        least: u64,
        field: &'static str,
        at: At<'_>,
    ) -> Result<u64, GgufError> {
        let possible = self.remaining() / least;
        if declared > possible {
            return Err(GgufError::Count {
                place: at.place(),
                field,
                declared,
                possible,
            });
        }
        Ok(declared)
    }

    /// A string: its length (u64) and as many bytes of UTF-8.
    pub(super) fn string(&mut self, field: &'static str, at: At<'_>) -> Result<&'a str, GgufError> {
        let len = self.u64(field, at)?;
        self.text(len, field, at)
    }

    /// A string of at most [`MAX_NAME_BYTES`].
    pub(super) fn name(&mut self, field: &'static str, at: At<'_>) -> Result<&'a str, GgufError> {
        let len = self.u64(field, at)?;
        if len > MAX_NAME_BYTES as u64 {
            return Err(GgufError::NameTooLong {
                place: at.place(),
                len,
            });
        }
        self.text(len, field, at)
    }

    fn text(&mut self, len: u64, field: &'static str, at: At<'_>) -> Result<&'a str, GgufError> {
        let offset = self.position();
        let bytes = self.take(len, field, at)?;
        std::str::from_utf8(bytes).map_err(|_| GgufError::NotUtf8 {
            place: at.place(),
            field,
            offset,
        })
    }
}
