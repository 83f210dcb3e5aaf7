//! Backends of arm64.
#![allow(unsafe_code)]

pub(super) mod neon;

/// Asks for memory in the second-level cache.
#[inline]
pub(super) fn prefetch(bytes: &[i8]) {
    for line in bytes.chunks(64) {
        // SAFETY: a prefetch may name any address and changes nothing.
        unsafe {
            core::arch::asm!("prfm pldl2keep, [{}]", in(reg) line.as_ptr(), options(nostack, preserves_flags));
        }
    }
}
