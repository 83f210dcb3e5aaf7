//! The mistakes, in the order of the specification.

mod attention;
mod blob;
mod commitment;
mod forward;
mod generation;
mod ops;
mod toy;

/// One plausible mistake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutant {
    /// Its name.
    pub(crate) id: &'static str,
    /// The section of the specification that it breaks.
    pub(crate) spec: &'static str,
    /// The function of the reference that holds it, with the type or module it belongs to.
    pub(crate) function: &'static str,
    /// The mistake in words.
    pub(crate) what: &'static str,
    /// Texts that occur exactly once in the function, and their replacements.
    pub(crate) edits: &'static [(&'static str, &'static str)],
}

const fn m(
    id: &'static str,
    spec: &'static str,
    function: &'static str,
    what: &'static str,
    edits: &'static [(&'static str, &'static str)],
) -> Mutant {
    Mutant {
        id,
        spec,
        function,
        what,
        edits,
    }
}

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
