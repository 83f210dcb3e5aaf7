//! The operations of the specification (spec/1-ops.md), one a file.
//!
//! Every function here is total on its stated domain and has one result; the bounds that make the
//! chosen widths sufficient stand beside the arithmetic. The vector kernels of [`crate::kernels`]
//! must equal these functions on every input of the domain. With debug assertions their sums carry the
//! proven ranges of spec 3.6 and assert them.

pub mod attention;
pub mod dynq;
pub mod fixed;
pub mod hadamard;
pub mod head_norm;
pub(crate) mod proven;
pub mod ratio;
pub mod requantize;
pub mod rms;
pub mod rope;
pub mod rotation;
pub mod rows;
pub mod swiglu;
