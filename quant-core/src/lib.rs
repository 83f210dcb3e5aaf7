//! GGUF files and the block formats stored in them.
//!
//! - [`gguf`]: the container, read from a byte slice ([`gguf::GgufFile`]) and written
//!   ([`gguf::GgufBuilder`]).
//! - [`Format`]: the table of tensor formats; [`dequantize`] and [`dequantize_rows`] widen a tensor's
//!   bytes to `f32` with the same bits as ggml's reference decoder.
//!
//! ```
//! use quant_core::{Format, gguf::{GgufBuilder, GgufFile, Value}};
//!
//! let mut builder = GgufBuilder::new();
//! builder.metadata("general.architecture", Value::String("llama".into()));
//! builder.tensor("output.weight", Format::F16, [1, 2], [0x00, 0x3c, 0x01, 0x00].as_slice());
//! let bytes = builder.to_bytes()?;
//!
//! let file = GgufFile::parse(&bytes)?;
//! let tensor = file.tensor("output.weight").unwrap();
//! assert_eq!(tensor.shape, [1, 2]);
//! assert_eq!(file.dequantize(tensor)?, [1.0, 2f32.powi(-24)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A format is one row of the table in `format.rs` and one block decoder in `decode.rs`.
//!
//! Everything here accepts hostile input: a defect is a typed error, nothing panics, and memory is
//! bounded by a multiple of the input's length (see [`gguf`]).
#![forbid(unsafe_code)]

mod decode;
mod float;
mod format;
pub mod gguf;

pub use float::{bf16_to_f32, f16_to_f32};
pub use format::{Format, FormatError, dequantize, dequantize_rows};
