//! The model registry and inference (`spec/6`) as precompiles of alloy-evm.
//!
//! [`BlueEvmFactory`] makes EVMs with both, for nodes that take an EVM factory. Beneath it, [`install_into`] puts both into an
//! EVM for the block that it was made for, and [`install`] into a map. A fault of
//! this machine is the EVM's fatal error, and trips the latch: block importers may take that error for the block's, so ask
//! the latch before any verdict (spec 6.9).
//!
//! ```
//! use alloy_evm::eth::EthEvmFactory;
//! use alloy_evm::{Evm, EvmEnv, EvmFactory};
//! use precompile::genesis::Genesis;
//! use precompile::memory::ModelSet;
//! use precompile::registry::Function;
//! use precompile::word::of_u64;
//! use precompile::{FaultLatch, INFERENCE, REGISTRY, Schedule, calldata};
//! use precompile_alloy::{install_into, put_accounts};
//! use revm::context::TxEnv;
//! use revm::database::InMemoryDB;
//! use revm::primitives::{Address, TxKind, U256};
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
//!     let mut env: EvmEnv = EvmEnv::default();
//!     env.block_env.number = U256::from(block);
//!     env.block_env.timestamp = U256::from(1_700_000_000 + 12 * block);
//!     let mut evm = EthEvmFactory::default().create_evm(&mut db, env);
//!     install_into(&mut evm, Schedule::GENESIS, models.clone(), latch.clone());
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

mod factory;

pub use factory::BlueEvmFactory;

use alloy_evm::precompiles::{DynPrecompile, PrecompileInput, PrecompilesMap};
use alloy_evm::{Evm, EvmInternals};
use precompile::word::Word;
use precompile::{Call, Fault, FaultLatch, Host, Models, REGISTRY, Schedule, Target, Version};
pub use precompile_revm::{Rules, put_accounts};
use precompile_revm::{event, saturated, state_fault};
use revm::context::Block;
use revm::precompile::{PrecompileError, PrecompileId, PrecompileResult};
use revm::primitives::{Address, U256};
use std::sync::Arc;

const ADDRESS: Address = Address::new(REGISTRY);

/// Puts the two precompiles into a map, or takes them out where the rules are not active.
///
/// Do it before the first transaction: an EVM learns only then which addresses are warm. They are stateful, so that no host
/// keeps answers by calldata. A map that was made for an inactive block holds nothing that could notice an active one;
/// [`install_into`] asks the EVM for its block.
pub fn install(map: &mut PrecompilesMap, rules: &Rules) {
    for to in [Target::Registry, Target::Inference] {
        let address = Address::new(to.address());
        map.apply_precompile(&address, |_| {
            let version = rules.version()?;
            let rules = rules.clone();
            let id = PrecompileId::custom(name(to));
            Some(DynPrecompile::new_stateful(id, move |input| {
                run(&rules, version, to, input)
            }))
        });
    }
}

/// [`install`] for the block of an EVM; the rules that it runs.
pub fn install_into<E: Evm<Precompiles = PrecompilesMap>>(
    evm: &mut E,
    schedule: Schedule,
    models: Arc<dyn Models + Send + Sync>,
    latch: FaultLatch,
) -> Rules {
    let timestamp = saturated(evm.block().timestamp());
    let rules = Rules::new(schedule, timestamp, models, latch);
    install(evm.precompiles_mut(), &rules);
    rules
}

/// The name that EIP-7910 lists a precompile by.
const fn name(to: Target) -> &'static str {
    match to {
        Target::Registry => "BLUE_REGISTRY",
        Target::Inference => "BLUE_INFERENCE",
    }
}

fn run(
    rules: &Rules,
    version: Version,
    to: Target,
    input: PrecompileInput<'_>,
) -> PrecompileResult {
    let direct = input.is_direct_call();
    let mut internals = input.internals;
    let fatal = |fault: Fault| PrecompileError::Fatal(fault.to_string());
    rules
        .version_in(internals.block_timestamp())
        .map_err(fatal)?;
    let call = Call {
        value_sent: !input.value.is_zero(),
        is_static: input.is_static,
        direct,
        ..Call::new(to, input.data, input.gas, input.caller.0.0)
    };
    let host = &mut Internals(&mut internals);
    rules
        .run(version, &call, host, input.reservoir)
        .map_err(fatal)
}

/// The EVM behind a precompile as the core sees it.
struct Internals<'a, 'b>(&'a mut EvmInternals<'b>);

impl Host for Internals<'_, '_> {
    fn block_number(&self) -> u64 {
        saturated(self.0.block_number())
    }

    fn read(&mut self, key: &Word) -> Result<Word, Fault> {
        let key = U256::from_be_bytes(*key);
        let value = self.0.sload(ADDRESS, key).map_err(state_fault)?;
        Ok(value.data.to_be_bytes())
    }

    fn write(&mut self, key: &Word, value: &Word) -> Result<(), Fault> {
        let (key, value) = (U256::from_be_bytes(*key), U256::from_be_bytes(*value));
        self.0.touch_account(ADDRESS).map_err(state_fault)?;
        self.0.sstore(ADDRESS, key, value).map_err(state_fault)?;
        Ok(())
    }

    fn log(&mut self, topics: Vec<Word>, data: Vec<u8>) {
        self.0.log(event(topics, data));
    }
}
