//! Memory for int8 operands: whole cache lines, aligned to them.
#![allow(unsafe_code)]

use crate::halt::{Fault, try_resize};

/// Bytes of a line.
pub const LINE: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(64))]
struct Line([i8; LINE]);

impl Default for Line {
    fn default() -> Self {
        Self([0; LINE])
    }
}

/// A growing array of int8, aligned to [`LINE`] bytes; what has not been written is 0.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Buffer {
    lines: Vec<Line>,
}

impl Buffer {
    /// Grows to at least `len` bytes, the new ones 0; keeps its size when it is larger.
    ///
    /// # Errors
    /// When the allocator refuses; `what` names the use.
    pub fn grow(&mut self, len: usize, what: &'static str) -> Result<(), Fault> {
        let lines = len.div_ceil(LINE);
        if lines <= self.lines.len() {
            return Ok(());
        }
        try_resize(&mut self.lines, lines, Line::default(), what)
    }

    /// The bytes, a multiple of [`LINE`].
    #[must_use]
    pub fn bytes(&self) -> &[i8] {
        // SAFETY: a line is 64 int8 without padding, and a vector's elements are consecutive.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * LINE) }
    }

    /// As [`Buffer::bytes`].
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [i8] {
        // SAFETY: as in `bytes`, and the vector is borrowed mutably.
        unsafe {
            std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * LINE)
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("bytes", &(self.lines.len() * LINE))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_aligned_zero_and_kept() {
        let mut buffer = Buffer::default();
        assert!(buffer.bytes().is_empty());
        for len in [1, 64, 65, 10_000, 3] {
            let before = buffer.bytes().len();
            buffer.grow(len, "a test").unwrap();
            assert_eq!(buffer.bytes().len(), before.max(len.next_multiple_of(LINE)));
            assert_eq!(buffer.bytes().as_ptr() as usize % LINE, 0);
            assert!(buffer.bytes()[before..].iter().all(|&b| b == 0));
            buffer.bytes_mut().fill(7);
        }
        assert!(buffer.grow(usize::MAX / 2, "a test").is_err());
        assert!(buffer.bytes().iter().all(|&b| b == 7));
    }
}
