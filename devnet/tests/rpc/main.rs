//! The JSON-RPC as clients and strangers use it.

#[path = "../../../precompile/tests/common/mod.rs"]
mod common;

mod calls;
mod client;
mod hostile;
mod logs;
mod methods;
mod socket;
