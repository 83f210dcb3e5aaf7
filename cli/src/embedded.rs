//! The model inside this program.

/// The blob.
pub(crate) const BLOB: &[u8] = include_bytes!("../../models/default/blue-tiny.blob");
/// The tokenizer file that belongs to it.
pub(crate) const TOKENIZER: &[u8] = include_bytes!("../../models/default/blue-tiny.tokenizer.json");
