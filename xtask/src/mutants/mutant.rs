//! A mistake, in the reference or in the kernels.

/// One plausible mistake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutant {
    /// Its name.
    pub(crate) id: &'static str,
    /// In the reference, the section of the specification that it breaks; in the kernels, the file that holds it, below
    /// `int-engine/src`.
    pub(crate) place: &'static str,
    /// The function that holds it, with the type or module it belongs to.
    pub(crate) function: &'static str,
    /// The mistake in words.
    pub(crate) what: &'static str,
    /// Texts that occur exactly once in the function, and their replacements.
    pub(crate) edits: &'static [(&'static str, &'static str)],
}

/// A mistake from its fields in order.
pub(crate) const fn m(
    id: &'static str,
    place: &'static str,
    function: &'static str,
    what: &'static str,
    edits: &'static [(&'static str, &'static str)],
) -> Mutant {
    Mutant {
        id,
        place,
        function,
        what,
        edits,
    }
}
