//! The mistakes in the kernels, by backend.

mod amx;
mod avx2;
mod avx512;
mod neon;
mod scalar;

/// One plausible mistake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutant {
    /// Its name.
    pub(crate) id: &'static str,
    /// The file that holds it, below `int-engine/src`.
    pub(crate) file: &'static str,
    /// The function that holds it.
    pub(crate) function: &'static str,
    /// The mistake in words.
    pub(crate) what: &'static str,
    /// Texts that occur exactly once in the function, and their replacements.
    pub(crate) edits: &'static [(&'static str, &'static str)],
}

const fn m(
    id: &'static str,
    file: &'static str,
    function: &'static str,
    what: &'static str,
    edits: &'static [(&'static str, &'static str)],
) -> Mutant {
    Mutant {
        id,
        file,
        function,
        what,
        edits,
    }
}

/// Every backend with mistakes of its own.
pub(crate) const BACKENDS: [(&str, &[Mutant]); 5] = [
    ("scalar", scalar::MUTANTS),
    ("avx2", avx2::MUTANTS),
    ("avx512", avx512::MUTANTS),
    ("amx", amx::MUTANTS),
    ("neon", neon::MUTANTS),
];
