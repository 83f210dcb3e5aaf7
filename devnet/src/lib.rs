//! A local chain with the precompiles, for contracts and tools: blocks, state and Ethereum's JSON-RPC.

#![forbid(unsafe_code)]

mod accounts;
mod block;
mod chain;
pub mod database;
mod error;
mod execute;
mod genesis;
mod pool;
pub mod rpc;
mod state;

pub use accounts::DevAccount;
pub use block::{Block, Receipt, SentTx};
pub use chain::{CallAt, Chain, Config, Request, Snapshot};
pub use error::{BadTransaction, Error};
pub use genesis::{Adoption, BASE_FEE, BadGenesis, CHAIN_ID, GAS_LIMIT, Genesis, TIMESTAMP};
pub use state::{Account, Change, State};
