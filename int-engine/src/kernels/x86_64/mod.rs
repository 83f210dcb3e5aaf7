//! Backends of x86-64.
#![allow(unsafe_code)]

/// A portable definition compiled with some features, where the compiler vectorises it well by itself.
macro_rules! compiled_with {
    ($features:literal, $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?, $body:expr) => {
        fn $name($($arg: $ty),*) $(-> $ret)? {
            #[target_feature(enable = $features)]
            unsafe fn inner($($arg: $ty),*) $(-> $ret)? {
                $body
            }
            // SAFETY: the backend's table is handed out only on a CPU with these features.
            unsafe { inner($($arg),*) }
        }
    };
}

pub(super) mod amx;
pub(super) mod avx2;
pub(super) mod avx512;
pub(super) mod avxvnni;

/// Asks for memory in the second-level cache.
#[inline]
pub(super) fn prefetch(line: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: a prefetch may name any address, and SSE is part of x86-64.
    #[allow(unused_unsafe)]
    unsafe {
        _mm_prefetch::<_MM_HINT_T1>(line.cast());
    }
}
