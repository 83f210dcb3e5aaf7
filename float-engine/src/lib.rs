//! The float transformer of the project: one decoder for Qwen3 (dense) and Llama,
//! with checkpoint loading, tokenizer and chat template.
//!
//! * [`config`]: the validated architecture, from `config.json` or GGUF metadata;
//! * [`source`]: checkpoints, read one layer at a time;
//! * [`forward`]: the forward pass in f32, with one summation order on every machine;
//! * [`tokenizer`]: byte-level BPE, from `tokenizer.json` or GGUF metadata;
//! * [`chat`]: chat templates whose message text cannot become control tokens.

#![deny(unsafe_code)]

pub mod chat;
pub mod config;
mod files;
pub mod forward;
pub mod source;
pub mod tokenizer;
