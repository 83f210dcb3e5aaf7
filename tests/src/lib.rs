//! What crosses crates lives in `suite/`.
