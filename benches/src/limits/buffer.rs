//! Memory in pages of 2 MiB where the system gives them.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::Error;

/// Bytes of a huge page.
pub(super) const PAGE: usize = 2 << 20;

/// Words in whole huge pages, zero at first.
pub struct HugeBuffer {
    start: NonNull<u64>,
    layout: Layout,
}

// SAFETY: the buffer owns its memory as a `Vec<u64>` does.
unsafe impl Send for HugeBuffer {}
// SAFETY: as for `Send`; shared borrows only read.
unsafe impl Sync for HugeBuffer {}

impl HugeBuffer {
    /// At least `bytes` bytes, whole pages and at least one.
    ///
    /// # Errors
    /// [`Error::Memory`] when the allocator refuses.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        let no_memory = Error::Memory { bytes };
        let Some(Ok(layout)) = bytes
            .max(1)
            .checked_next_multiple_of(PAGE)
            .map(|bytes| Layout::from_size_align(bytes, PAGE))
        else {
            return Err(no_memory);
        };
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start.cast::<u64>()).ok_or(no_memory)?;
        #[cfg(target_os = "linux")]
        // SAFETY: the range is this allocation; the advice changes no content, and failing it is harmless.
        unsafe {
            libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE);
        }
        Ok(Self { start, layout })
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        // SAFETY: the allocation is zeroed, aligned, owned by `self`, and this long.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size() / 8) }
    }

    /// As [`HugeBuffer::words`].
    #[must_use]
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `words`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size() / 8) }
    }
}

impl Drop for HugeBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr().cast(), self.layout) }
    }
}
