//! The JSON-RPC as clients and strangers use it.

#[path = "../../../precompile/tests/common/mod.rs"]
mod common;
#[path = "../common/flaky.rs"]
mod flaky;

mod bounds;
mod calls;
mod client;
mod gate;
mod hostile;
mod logs;
mod methods;
mod socket;
