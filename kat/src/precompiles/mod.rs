//! Calls of the precompiles with their outcomes (spec 7.11).

mod calls;
mod check;
mod states;

pub use calls::{Expected, Form, Log, PrecompileCall, parse, to_bytes};
pub use check::{Chain, Changes, Loaded, changes, execute, verify};
pub use states::{ModelRef, State, StatesFile};

use precompile::Target;

/// The level's name.
pub const LEVEL: &str = "precompile";
/// The file of states, below the set's folder.
pub const STATES: &str = "precompile/states.json";

/// What a file of calls holds, by its path below the set's folder: which precompile, and whether the calls are refused.
#[must_use]
pub fn subject(path: &str) -> Option<(Target, bool)> {
    match path {
        "precompile/registry.json" => Some((Target::Registry, false)),
        "precompile/fail-registry.json" => Some((Target::Registry, true)),
        "precompile/inference.json" => Some((Target::Inference, false)),
        "precompile/fail-inference.json" => Some((Target::Inference, true)),
        _ => None,
    }
}
