//! The toy model (spec 8).
