//! The blob: reading and writing (spec 4).
