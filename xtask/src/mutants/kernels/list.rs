//! The mistakes in the kernels, by backend.

mod amx;
mod avx2;
mod avx512;
mod avx512_heads;
mod avxvnni;
mod neon;
mod scalar;

use crate::mutants::mutant::{Mutant, m};

/// Every backend with mistakes of its own.
pub(crate) const BACKENDS: [(&str, &[&[Mutant]]); 6] = [
    ("scalar", &[scalar::MUTANTS]),
    ("avx2", &[avx2::MUTANTS]),
    ("avxvnni", &[avxvnni::MUTANTS]),
    ("avx512", &[avx512::MUTANTS, avx512_heads::MUTANTS]),
    ("amx", &[amx::MUTANTS]),
    ("neon", &[neon::MUTANTS]),
];
