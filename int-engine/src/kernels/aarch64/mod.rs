//! Backends of arm64.

pub(super) mod neon;
