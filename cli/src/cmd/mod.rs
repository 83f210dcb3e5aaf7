//! The subcommands, one a file.

pub(crate) mod ask;
pub(crate) mod bench;
pub(crate) mod blob;
pub(crate) mod call;
pub(crate) mod chain;
pub(crate) mod chat;
pub(crate) mod commit;
pub(crate) mod demo;
pub(crate) mod devnet;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod inspect;
pub(crate) mod kat;
pub(crate) mod logits;
pub(crate) mod model;
pub(crate) mod node;
pub(crate) mod verify;
pub(crate) mod verify_answer;

/// The version of the program and of the specification that it implements.
pub(crate) fn version() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), " (spec 1)")
}
