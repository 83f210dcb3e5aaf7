//! Both adapters beside each other, and beside the core in memory.

mod bytecode;
#[path = "../../../../tests/common/mod.rs"]
mod chain;
mod cost;
mod factory;
mod flows;
mod governance;
mod kinds;
mod models;
mod parity;
mod statetests;
mod world;
