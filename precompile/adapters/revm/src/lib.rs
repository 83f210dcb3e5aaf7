//! The model registry and inference (`spec/6`) as precompiles of revm.
//!
//! [`BluePrecompiles`] is a provider: the two precompiles beside those of another one, Ethereum's by default. It is made from
//! [`Rules`] for the timestamp of a block. A fault of this machine is the EVM's fatal error, and trips the latch: block
//! importers may take that error for the block's, so ask the latch before any verdict (spec 6.9).
//!
//! ```
//! use precompile::genesis::Genesis;
//! use precompile::memory::ModelSet;
//! use precompile::registry::Function;
//! use precompile::word::of_u64;
//! use precompile::{FaultLatch, INFERENCE, REGISTRY, Schedule, calldata};
//! use precompile_revm::{BluePrecompiles, Rules, put_accounts};
//! use revm::context::TxEnv;
//! use revm::database::InMemoryDB;
//! use revm::primitives::{Address, TxKind, U256, hardfork::SpecId};
//! use revm::{Context, ExecuteCommitEvm, MainBuilder, MainContext};
//! use std::sync::Arc;
//! # use int_engine::blob::Loader;
//! # use int_engine::commitment::{Commitment, Hasher};
//! # use int_engine::engine::CpuEngine;
//! # use int_engine::kernels::Kernels;
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/default/blue-tiny.blob");
//! # let blob = std::fs::read(path)?;
//! # let mut loader = Loader::new();
//! # loader.push(&blob)?;
//! # let model = Arc::new(loader.finish()?);
//! # let engine = Arc::new(CpuEngine::new(model, Kernels::detect(), std::num::NonZeroUsize::MIN));
//! # let mut hasher = Hasher::new();
//! # hasher.update(&blob);
//! # let tree = hasher.finish();
//! # let (commitment, proof) = (tree.commitment().0, tree.prove(0).unwrap());
//!
//! // The state of a chain where one key decides, which a chain must say explicitly.
//! let admin = [0xA1; 20];
//! let choice = Genesis { admins: vec![admin], former: vec![], quorum: 1, delay: 5, window: 1, single: true };
//! let mut db = InMemoryDB::default();
//! put_accounts(&mut db, choice.accounts()?)?;
//!
//! // The models at hand, and the latch to ask before any verdict on a block.
//! let mut models = ModelSet::default();
//! models.insert(engine);
//! let (models, latch) = (Arc::new(models), FaultLatch::new());
//!
//! let mut nonce = 0..;
//! let mut run = |block: u64, to, data: Vec<u8>| {
//!     let timestamp = 1_700_000_000 + 12 * block;
//!     let rules = Rules::new(Schedule::GENESIS, timestamp, models.clone(), latch.clone());
//!     let context = Context::mainnet().with_db(&mut db).modify_block_chained(|env| {
//!         (env.number, env.timestamp) = (U256::from(block), U256::from(timestamp));
//!     });
//!     let ours = BluePrecompiles::new(SpecId::default(), rules);
//!     let mut evm = context.build_mainnet().with_precompiles(ours);
//!     let tx = TxEnv {
//!         caller: Address::new(admin),
//!         kind: TxKind::Call(Address::new(to)),
//!         gas_limit: 16_000_000,
//!         nonce: nonce.next().unwrap(),
//!         data: data.into(),
//!         ..Default::default()
//!     };
//!     let result = evm.transact_commit(tx).map_err(|error| error.to_string())?;
//!     assert!(result.is_success(), "{result:?}");
//!     Ok::<_, String>(result.into_output().unwrap_or_default())
//! };
//! // Adopted in block 1, active from block 6 on.
//! let name = [7; 32];
//! run(1, REGISTRY, calldata::propose(&name, 1, &commitment, &blob[..1024], &proof))?;
//! run(6, REGISTRY, calldata::of_version(Function::Activate, &name, 1))?;
//! let output = run(6, INFERENCE, calldata::generate(&name, &commitment, &[1, 7, 13, 2], 16))?;
//! assert_eq!(output[..32], of_u64(64));
//! latch.check()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod genesis;
mod host;
mod provider;
mod rules;

pub use genesis::put_accounts;
pub use host::{event, state_fault};
pub use provider::BluePrecompiles;
pub use rules::{Rules, saturated};
