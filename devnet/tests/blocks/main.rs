//! Chains without a network: random blocks on different backends, faults, files.

#[path = "../../../precompile/tests/common/mod.rs"]
mod common;
#[path = "../common/flaky.rs"]
mod flaky;

mod contracts;
mod damage;
mod disk;
mod faults;
mod mix;
mod node;
mod random;
mod rules;
mod verdicts;
