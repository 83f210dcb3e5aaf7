//! Known answers: the files of spec 7, what they say about an implementation, and how they are made.
//!
//! [`verify::run`] checks a folder of files on the implementations of this repository; [`target::Ops`] and
//! [`target::Models`] are what another implementation must offer. [`file::parse`] reads any file and refuses what
//! spec 7.1 refuses. [`generate::files`] makes the files of the current set.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

pub mod bisect;
pub mod blob;
pub mod file;
#[path = "gen/mod.rs"]
pub mod generate;
pub mod hex;
pub mod json;
pub mod legacy;
pub mod op;
pub mod precompiles;
pub mod row;
pub mod set;
pub mod target;
pub mod trace;
pub mod verify;
