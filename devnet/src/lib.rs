//! A local chain with the precompiles, for contracts and tools: blocks, state and Ethereum's JSON-RPC.
//!
//! [`Chain`] knows no network and no clock: it takes transactions, seals blocks at the time that it is told, imports blocks
//! of others, and answers for what there is. State and receipts roots are Ethereum's, the rules Osaka's but for the system
//! calls at a block's begin (EIP-2935, EIP-4788), which are not made. It asks its fault latch before every
//! verdict: a machine that cannot finish an execution or keep a block seals and imports nothing ([`Error::Fault`]). Calls run on models and
//! a latch of their own. [`database`] keeps a chain in memory or in a file, [`rpc`] serves it.
//!
//! ```
//! use blue_devnet::database::MemoryDatabase;
//! use blue_devnet::{Chain, Config, DevAccount, Genesis};
//! use precompile::memory::ModelSet;
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), blue_devnet::Error> {
//! let genesis = Genesis::default();
//! let time = genesis.timestamp;
//! let chain = Chain::new(Config {
//!     genesis,
//!     database: Box::new(MemoryDatabase::default()),
//!     models: Arc::new(ModelSet::default()),
//!     call_models: Arc::new(ModelSet::default()),
//! })?;
//! let block = chain.seal(time + 12, usize::MAX)?;
//! assert_eq!(block.header.number, 1);
//! let rich = DevAccount::all()[0].address;
//! assert!(chain.head().state.account(&rich).is_some());
//! # Ok(())
//! # }
//! ```

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
