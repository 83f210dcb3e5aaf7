//! The architecture from GGUF metadata.
