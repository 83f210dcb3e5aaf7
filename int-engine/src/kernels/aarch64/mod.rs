//! Backends of arm64.
#![allow(unsafe_code)]

pub(super) mod neon;

/// Asks for memory in the second-level cache.
#[inline]
pub(super) fn prefetch(line: *const u8) {
    // SAFETY: a prefetch may name any address and changes nothing.
    unsafe {
        core::arch::asm!("prfm pldl2keep, [{}]", in(reg) line, options(nostack, preserves_flags));
    }
}
