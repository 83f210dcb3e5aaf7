//! Dense f64 linear algebra with one result on every machine.
//!
//! Every output element is a sum whose terms are added in one fixed order (ascending index, multiply then add, never
//! fused). Vector lanes and threads only ever hold different output elements, so neither the vector width nor
//! the thread count changes a bit.

mod cholesky;
mod isa;
mod syrk;
mod tile;
mod vector;

pub(crate) use cholesky::{NotPositiveDefinite, cholesky};
pub(crate) use isa::{Isa, Kernel};
pub(crate) use syrk::Gram;
pub(crate) use tile::{LANES, micro};
#[cfg(test)]
pub(crate) use vector::Plain;
pub(crate) use vector::Simd;
