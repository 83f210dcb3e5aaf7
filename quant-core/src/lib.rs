//! GGUF files and the block formats stored in them.
//!
//! - [`gguf`]: the container, read from a byte slice ([`gguf::GgufFile`]) and written
//!   ([`gguf::GgufBuilder`]).
//! - [`Format`]: the table of tensor formats; [`dequantize`] and [`dequantize_rows`] widen a tensor's
//!   bytes to `f32` with the same bits as ggml's reference decoder.
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
