//! What a validator node needs beside the rules: blobs by commitment on disk and from elsewhere, models ready to answer.

#![forbid(unsafe_code)]

pub mod fetch;
pub mod library;
pub mod models;
pub mod names;
pub mod selftest;
pub mod serve;
pub mod shelf;
pub mod store;
pub mod watch;
