//! What a validator node needs beside the rules: blobs by commitment on disk and from elsewhere, models ready to answer.
//!
//! [`store`] keeps blobs, [`mod@fetch`] gets them from sources that nobody has to trust, [`serve`] offers them. [`models`]
//! keeps models in memory and is what the precompiles ask; [`watch`] has them ready before they are active. [`selftest`]
//! says whether this machine is right. `node/examples/validator.rs` puts all of it together.
//!
//! ```
//! use blue_node::library::MemoryLibrary;
//! use blue_node::models::{Cpu, Purpose, Resident};
//! use precompile::{Lookup, Models};
//! use std::sync::Arc;
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/default/blue-tiny.blob");
//! let blob = std::fs::read(path)?;
//! let library = MemoryLibrary::default();
//! let commitment = library.insert(blob);
//! let resident = Arc::new(Resident::new(Arc::new(library), Arc::new(Cpu::detect()), 4 << 30));
//!
//! // Ahead of time, and compared with the portable kernels; what the adapters of the EVM take; what it answers.
//! resident.prepare(commitment)?;
//! let models = resident.models(Purpose::Blocks);
//! assert!(matches!(models.model(commitment), Ok(Lookup::Ready(_))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod fetch;
pub mod library;
pub mod metric_names;
pub mod models;
mod regular;
pub mod selftest;
pub mod serve;
pub mod shelf;
pub mod store;
pub mod watch;
