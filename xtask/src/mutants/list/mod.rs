//! The mistakes, in the order of the specification.

mod attention;
mod blob;
mod commitment;
mod forward;
mod generation;
mod ops;
mod toy;

use super::mutant::{Mutant, m};

/// Every mistake.
pub(crate) fn all() -> Vec<Mutant> {
    [
        ops::MUTANTS,
        attention::MUTANTS,
        forward::MUTANTS,
        generation::MUTANTS,
        blob::MUTANTS,
        commitment::MUTANTS,
        toy::MUTANTS,
    ]
    .concat()
}
