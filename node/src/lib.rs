//! What a validator node needs beside the rules: blobs by commitment on disk and from elsewhere, models ready to answer.

#![forbid(unsafe_code)]

pub mod fetch;
pub mod serve;
pub mod store;
