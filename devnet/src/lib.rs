//! A local chain with the precompiles, for contracts and tools: blocks, state and Ethereum's JSON-RPC.

#![forbid(unsafe_code)]
