//! Faults that users of engines like this one report, each family with its right value or its named error.
//!
//! The families are numbered 1 to 18 and 22; the four groups are checkpoint files (1-8), tokens and text (9-12), the
//! forward pass (13-18), and the commitment (22).

#[path = "../common/random_blob.rs"]
mod random_blob;

mod commitment;
mod config;
mod engines;
mod forward;
mod gguf;
mod kernels;
mod safetensors;
mod shards;
mod small;
mod text;
mod tokens;
mod values;
