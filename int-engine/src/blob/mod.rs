//! The blob: one canonical file that holds a whole model (spec 4).
//!
//! [`Writer`] makes one, [`Loader`] turns one into a [`Model`](crate::model::Model), [`Header`] reads what stands
//! before the tensors. Writer and loader share the range checks, so no blob is written that would not load.

mod check;
mod column;
mod decode;
mod directory;
mod error;
mod header;
mod loader;
mod record;
mod tensors;
mod writer;

pub use directory::{Dtype, Entry};
pub use error::{BlobError, LoadError};
pub use header::Header;
pub use loader::Loader;
pub use record::Record;
pub use writer::{WriteError, Writer};

/// Bytes of the record.
pub const RECORD_LEN: usize = 1024;
/// Most bytes of the manifest.
pub const MAX_MANIFEST_LEN: u32 = 1 << 22;
/// Most metadata pairs.
pub const MAX_METADATA: usize = 64;
/// Most bytes of a metadata key, at least 1.
pub const MAX_KEY_LEN: usize = 64;
/// Most bytes of a metadata value.
pub const MAX_VALUE_LEN: usize = 4096;
/// Every tensor starts at a multiple of this many bytes.
pub const ALIGNMENT: u64 = 64;
