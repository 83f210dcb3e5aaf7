//! Memory for int8 operands: whole cache lines, aligned to them; large ones in pages of 2 MiB where the system has them.
//!
//! On Linux a buffer of [`HUGE`] bytes or more is a mapping of its own: its pages are zero, and take memory only when
//! they are first written, so a buffer of known final size costs address space at once and memory as it fills. Elsewhere
//! the allocator gives everything, and memory doubles as a buffer grows. An `Arena` is one mapping for several buffers
//! side by side. Who makes a buffer says which [`Pages`] it has; what it holds is the same.
#![allow(unsafe_code)]

use crate::halt::{Fault, try_reserve};

/// Bytes of a line.
pub const LINE: usize = 64;
/// Bytes of a huge page, and of the smallest buffer that has any.
pub const HUGE: usize = 2 << 20;

/// The pages of large buffers, on Linux. Elsewhere, and where the system has no huge pages, it changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Pages {
    /// Ask for huge ones.
    #[default]
    Huge,
    /// Ask for small ones.
    Small,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(64))]
struct Line([i8; LINE]);

enum Memory {
    Heap(Vec<Line>),
    #[cfg(target_os = "linux")]
    Mapped(mapping::Mapping),
}

/// A growing array of int8, aligned to [`LINE`] bytes; what has not been written is 0.
pub struct Buffer {
    memory: Memory,
    /// Lines of the array; a mapping may have more, all 0.
    lines: usize,
    pages: Pages,
}

impl Default for Buffer {
    fn default() -> Self {
        Self::new(Pages::default())
    }
}

impl Buffer {
    /// An empty buffer.
    #[must_use]
    pub fn new(pages: Pages) -> Self {
        Self {
            memory: Memory::Heap(Vec::new()),
            lines: 0,
            pages,
        }
    }

    /// Grows to at least `len` bytes, the new ones 0; keeps its size when it is larger.
    ///
    /// # Errors
    /// When the system refuses; `what` names the use. The buffer stays as it was.
    pub fn grow(&mut self, len: usize, what: &'static str) -> Result<(), Fault> {
        self.grow_within(len, len, what)
    }

    /// As [`Buffer::grow`] for a buffer that will have `total` bytes in the end. Memory stays below twice what `len` has
    /// asked for, plus one huge page, whatever `total` says.
    ///
    /// # Errors
    /// As [`Buffer::grow`].
    pub fn grow_within(
        &mut self,
        len: usize,
        total: usize,
        what: &'static str,
    ) -> Result<(), Fault> {
        let lines = len.div_ceil(LINE);
        if lines <= self.lines {
            return Ok(());
        }
        if lines > self.capacity() {
            let total = total.div_ceil(LINE).max(lines);
            self.make_room(lines, total, what)?;
        }
        match &mut self.memory {
            Memory::Heap(heap) => heap.resize(lines, Line([0; LINE])),
            // Its pages are zero.
            #[cfg(target_os = "linux")]
            Memory::Mapped(_) => {}
        }
        self.lines = lines;
        Ok(())
    }

    /// Lines that fit without moving.
    fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Heap(heap) => heap.capacity(),
            #[cfg(target_os = "linux")]
            Memory::Mapped(mapping) => mapping.lines(),
        }
    }

    /// Makes the capacity `total` lines where that costs only address space, else at least `lines`.
    fn make_room(&mut self, lines: usize, total: usize, what: &'static str) -> Result<(), Fault> {
        let doubled = (2 * self.lines).min(total).max(lines);
        match &mut self.memory {
            #[cfg(not(target_os = "linux"))]
            Memory::Heap(heap) => try_reserve(heap, doubled, what),
            #[cfg(target_os = "linux")]
            Memory::Heap(heap) if total < HUGE / LINE => try_reserve(heap, doubled, what),
            #[cfg(target_os = "linux")]
            _ => {
                let mapping = mapping::Mapping::new(total, self.pages)
                    .or_else(|| mapping::Mapping::new(doubled, self.pages))
                    .ok_or(Fault::OutOfMemory {
                        bytes: doubled.saturating_mul(LINE),
                        what,
                    })?;
                self.move_to(mapping);
                Ok(())
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn move_to(&mut self, mapping: mapping::Mapping) {
        let old = std::mem::replace(&mut self.memory, Memory::Mapped(mapping));
        let old = slice(&old, self.lines);
        self.bytes_mut().copy_from_slice(old);
    }

    /// The bytes, a multiple of [`LINE`].
    #[must_use]
    pub fn bytes(&self) -> &[i8] {
        slice(&self.memory, self.lines)
    }

    /// As [`Buffer::bytes`].
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [i8] {
        let start = match &mut self.memory {
            Memory::Heap(heap) => heap.as_mut_ptr(),
            #[cfg(target_os = "linux")]
            Memory::Mapped(mapping) => mapping.start(),
        };
        // SAFETY: as in `slice`, and the memory is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(start.cast(), self.lines * LINE) }
    }
}

fn slice(memory: &Memory, lines: usize) -> &[i8] {
    let start = match memory {
        Memory::Heap(heap) => heap.as_ptr(),
        #[cfg(target_os = "linux")]
        Memory::Mapped(mapping) => mapping.start().cast_const(),
    };
    // SAFETY: a line is 64 int8 without padding; a vector's elements are consecutive, and `lines` of them are there; a
    // mapping has at least `lines` readable lines from its start, zero until they are written.
    unsafe { std::slice::from_raw_parts(start.cast(), lines * LINE) }
}

/// Whether bytes are whole int32.
fn whole_words(bytes: &[i8]) -> bool {
    bytes.as_ptr().cast::<i32>().is_aligned() && bytes.len() % size_of::<i32>() == 0
}

/// Bytes as int32, in the machine's order.
///
/// # Panics
/// When they do not begin at the alignment of an int32, or end within one.
pub(crate) fn words(bytes: &[i8]) -> &[i32] {
    assert!(whole_words(bytes), "whole int32");
    // SAFETY: aligned, of that length, and any four bytes are an int32.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<i32>()) }
}

/// As [`words`].
///
/// # Panics
/// As [`words`].
pub(crate) fn words_mut(bytes: &mut [i8]) -> &mut [i32] {
    assert!(whole_words(bytes), "whole int32");
    let words = bytes.len() / size_of::<i32>();
    // SAFETY: as above, the bytes are borrowed mutably, and any int32 is four bytes.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), words) }
}

/// The same bytes as int8.
pub(crate) fn signed(bytes: &[u8]) -> &[i8] {
    // SAFETY: both types are one byte of any value.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

impl Clone for Buffer {
    /// # Panics
    /// When the system has no memory for the copy.
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.pages);
        let bytes = self.bytes();
        copy.grow(bytes.len(), "the copy of a buffer")
            .expect("memory for the copy of a buffer");
        copy.bytes_mut().copy_from_slice(bytes);
        copy
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Buffer {}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("bytes", &(self.lines * LINE))
            .field("pages", &self.pages)
            .finish()
    }
}

/// Address space for several buffers side by side, so that huge pages cover all of them but the last few bytes.
///
/// Where [`Arena::reserve`] cannot have it, the buffers are made one by one.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    pages: Pages,
    #[cfg(target_os = "linux")]
    rest: Option<mapping::Mapping>,
}

impl Arena {
    /// Reserves room for buffers of `sizes` bytes.
    pub(crate) fn reserve(sizes: impl Iterator<Item = usize>, pages: Pages) -> Self {
        #[cfg(target_os = "linux")]
        {
            let page = mapping::page_lines();
            let lines = sizes.into_iter().try_fold(0usize, |all, bytes| {
                all.checked_add(bytes.div_ceil(LINE).checked_next_multiple_of(page)?)
            });
            let rest = lines
                .filter(|&lines| lines >= HUGE / LINE)
                .and_then(|lines| mapping::Mapping::new(lines, pages));
            Self { pages, rest }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = sizes;
            Self { pages }
        }
    }

    /// A buffer of `len` zero bytes, the next of the reserved sizes.
    pub(crate) fn buffer(&mut self, len: usize, what: &'static str) -> Result<Buffer, Fault> {
        let mut buffer = Buffer::new(self.pages);
        #[cfg(target_os = "linux")]
        if let Some(mapping) = self
            .rest
            .as_mut()
            .and_then(|rest| rest.split(len.div_ceil(LINE)))
        {
            buffer.memory = Memory::Mapped(mapping);
        }
        buffer.grow(len, what)?;
        Ok(buffer)
    }
}

/// Anonymous memory of Linux.
#[cfg(target_os = "linux")]
mod mapping {
    use super::{HUGE, LINE, Line, Pages};
    use std::ptr::{NonNull, null_mut};

    /// Whole pages that this value alone owns, readable and writable, zero until written; at least one line.
    #[derive(Debug)]
    pub(super) struct Mapping {
        start: NonNull<Line>,
        lines: usize,
    }

    // SAFETY: a mapping is owned memory, as a box is: it belongs to the process, not to a thread.
    unsafe impl Send for Mapping {}
    // SAFETY: as above; a shared reference gives no way to write.
    unsafe impl Sync for Mapping {}

    /// Lines of the smallest page.
    pub(super) fn page_lines() -> usize {
        // SAFETY: `sysconf` reads a constant of the system.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(bytes).map_or(HUGE, |bytes| bytes.max(LINE)) / LINE
    }

    impl Mapping {
        /// At least `lines` lines from a multiple of [`HUGE`] on, or `None` when the system refuses.
        pub(super) fn new(lines: usize, pages: Pages) -> Option<Self> {
            let lines = lines.max(1).checked_next_multiple_of(page_lines())?;
            let bytes = lines.checked_mul(LINE)?;
            let reserved = bytes.checked_add(HUGE)?;
            // A slice has at most isize::MAX bytes.
            isize::try_from(reserved).ok()?;
            // SAFETY: a new private mapping at an address of the system's choice touches no other memory.
            let base = unsafe {
                libc::mmap(
                    null_mut(),
                    reserved,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if base == libc::MAP_FAILED {
                return None;
            }
            let skipped = base.addr().next_multiple_of(HUGE) - base.addr();
            let start = base.wrapping_byte_add(skipped);
            let (end, after) = (start.wrapping_byte_add(bytes), HUGE - skipped);
            // SAFETY: `base`, `start` and `end` are multiples of the page's size, and all three ranges lie in the new
            // mapping, to which nothing refers yet. A failed call leaves memory mapped, which is no harm; advice changes
            // no contents.
            unsafe {
                if skipped > 0 {
                    libc::munmap(base, skipped);
                }
                if after > 0 {
                    libc::munmap(end, after);
                }
                let advice = match pages {
                    Pages::Huge => libc::MADV_HUGEPAGE,
                    Pages::Small => libc::MADV_NOHUGEPAGE,
                };
                libc::madvise(start, bytes, advice);
            }
            let start = NonNull::new(start.cast())?;
            Some(Self { start, lines })
        }

        pub(super) fn start(&self) -> *mut Line {
            self.start.as_ptr()
        }

        pub(super) fn lines(&self) -> usize {
            self.lines
        }

        /// Splits off the first pages, at least `lines` lines, or returns `None` when nothing or not enough would be left.
        pub(super) fn split(&mut self, lines: usize) -> Option<Self> {
            let lines = lines.max(1).checked_next_multiple_of(page_lines())?;
            if lines >= self.lines {
                let whole = lines == self.lines;
                return whole.then(|| std::mem::replace(self, Self::empty()));
            }
            let start = self.start;
            // SAFETY: fewer lines than the mapping has.
            self.start = unsafe { start.add(lines) };
            self.lines -= lines;
            Some(Self { start, lines })
        }

        fn empty() -> Self {
            Self {
                start: NonNull::dangling(),
                lines: 0,
            }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            if self.lines > 0 {
                // SAFETY: these whole pages were mapped by `new` and belong to this value alone.
                unsafe { libc::munmap(self.start.as_ptr().cast(), self.lines * LINE) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_bytes_in_the_order_of_the_machine() {
        let mut buffer = Buffer::default();
        buffer.grow(LINE, "a test").unwrap();
        words_mut(buffer.bytes_mut())[1] = i32::from_ne_bytes([1, 2, 3, 4]);
        assert_eq!(buffer.bytes()[3..9], [0, 1, 2, 3, 4, 0]);
        assert_eq!(
            words(&buffer.bytes()[4..12]),
            [i32::from_ne_bytes([1, 2, 3, 4]), 0]
        );
    }

    #[test]
    #[should_panic(expected = "whole int32")]
    fn words_begin_at_an_int32() {
        let mut buffer = Buffer::default();
        buffer.grow(LINE, "a test").unwrap();
        let _ = words(&buffer.bytes()[2..]);
    }

    #[test]
    #[should_panic(expected = "whole int32")]
    fn words_end_with_an_int32() {
        let mut buffer = Buffer::default();
        buffer.grow(LINE, "a test").unwrap();
        let _ = words_mut(&mut buffer.bytes_mut()[..6]);
    }

    #[test]
    fn lines_are_aligned_zero_and_kept() {
        for pages in [Pages::Huge, Pages::Small] {
            let mut buffer = Buffer::new(pages);
            assert!(buffer.bytes().is_empty());
            // Both kinds of memory, and the step between them.
            let lens = [1, 64, 65, 10_000, 3, HUGE - LINE, HUGE - 1, HUGE, HUGE + 1];
            for len in lens.into_iter().chain([5 * HUGE + 100]) {
                let before = buffer.bytes().len();
                buffer.grow(len, "a test").unwrap();
                assert_eq!(buffer.bytes().len(), before.max(len.next_multiple_of(LINE)));
                assert_eq!(buffer.bytes().as_ptr().addr() % LINE, 0);
                assert!(buffer.bytes()[..before].iter().all(|&b| b == 7));
                assert!(buffer.bytes()[before..].iter().all(|&b| b == 0));
                buffer.bytes_mut().fill(7);
            }
            for len in [usize::MAX, usize::MAX / 2, isize::MAX as usize] {
                let what = "a test";
                let Err(Fault::OutOfMemory { what: named, .. }) = buffer.grow(len, what) else {
                    panic!("{len} bytes of memory");
                };
                assert_eq!(named, what);
            }
            assert!(buffer.bytes().iter().all(|&b| b == 7));
            assert_eq!(buffer.clone(), buffer);
        }
    }

    #[test]
    fn a_buffer_of_known_size_moves_only_where_the_allocator_is() {
        let mut buffer = Buffer::default();
        buffer.grow_within(1, 4 * HUGE, "a test").unwrap();
        assert_eq!(buffer.bytes().len(), LINE);
        let start = buffer.bytes().as_ptr();
        for len in [2, HUGE, 2 * HUGE + 1, 4 * HUGE] {
            buffer.grow_within(len, 4 * HUGE, "a test").unwrap();
            buffer.bytes_mut()[len - 1] = 9;
            if cfg!(target_os = "linux") {
                assert_eq!(buffer.bytes().as_ptr(), start);
                assert_eq!(start.addr() % HUGE, 0);
            }
        }
        // More than was said.
        buffer.grow_within(5 * HUGE, 4 * HUGE, "a test").unwrap();
        assert_eq!(buffer.bytes()[4 * HUGE - 1], 9);
        assert_eq!(buffer.bytes()[4 * HUGE..], vec![0; HUGE][..]);
    }

    #[test]
    fn an_unlikely_total_is_no_error() {
        let mut buffer = Buffer::default();
        for total in [usize::MAX, isize::MAX as usize, 1] {
            let len = buffer.bytes().len() + HUGE;
            buffer.grow_within(len, total, "a test").unwrap();
            assert_eq!(buffer.bytes().len(), len);
        }
    }

    #[test]
    fn buffers_side_by_side_are_apart() {
        let sizes = [1, 0, HUGE - 1, 4096, 3 * HUGE + 1, 64];
        // The last two buffers are not reserved.
        let mut arena = Arena::reserve(sizes.into_iter().take(4), Pages::Huge);
        let mut buffers: Vec<_> = sizes
            .iter()
            .map(|&len| arena.buffer(len, "a test").unwrap())
            .collect();
        drop(arena);
        for (i, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!(buffer.bytes().len(), sizes[i].next_multiple_of(LINE));
            assert!(buffer.bytes().iter().all(|&b| b == 0));
            buffer.bytes_mut().fill(i as i8 + 1);
        }
        // One grows away from its neighbours, one goes.
        buffers[0].grow(10_000, "a test").unwrap();
        buffers[0].bytes_mut()[9_999] = 1;
        buffers.remove(2);
        for (buffer, value) in buffers.iter().zip([1, 2, 4, 5, 6]) {
            let expected = |b: &i8| *b == value || (value == 1 && *b == 0);
            assert!(buffer.bytes().iter().all(expected), "{value}");
        }
        assert!(Arena::default().buffer(3, "a test").is_ok());
    }
}
