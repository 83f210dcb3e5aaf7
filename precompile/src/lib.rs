//! The model registry and inference by token ids as precompiles of an Ethereum-like chain: the rules of `spec/6`.
//!
//! [`run`] executes one call. It knows no EVM: the chain's state comes through [`Host`], models through [`Models`], and the
//! adapters `precompile-revm` and `precompile-alloy` connect it to the EVMs of their names.
//!
//! A call ends in an [`Outcome`], the same on every node, or in a [`Fault`] of this one. A fault says nothing about the
//! block: the node stops without a verdict, see [`FaultLatch`].
//!
//! ```
//! use precompile::memory::{Memory, ModelSet};
//! use precompile::{Call, Outcome, Target};
//!
//! // The published answer of the toy model: ten new tokens after 1, 7, 13, 2.
//! let data = [0x0100_0000u32, 10, 1, 7, 13, 2].map(u32::to_be_bytes).concat();
//! let call = Call::new(Target::Inference, &data, 600_000, [0xA1; 20]);
//! let outcome = Memory::default().call(&call, &ModelSet::default())?;
//! let Outcome::Return { gas_used, output } = outcome else { panic!("refused") };
//! assert_eq!(gas_used, 600_000);
//! assert_eq!(output[16..24], [0, 0, 0, 4, 0, 0, 0, 28]);
//! # Ok::<(), precompile::Fault>(())
//! ```

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod abi;
mod at_hand;
pub mod calldata;
mod function;
pub mod gas;
pub mod genesis;
mod host;
pub mod infer;
pub mod memory;
mod name;
pub mod packed;
mod record;
mod refusal;
pub mod registry;
pub mod slots;
pub mod word;

pub use abi::selector;
pub use at_hand::{load, lookup};
pub use host::{Call, Host, INFERENCE, Lookup, Models, Outcome, REGISTRY, Target, revert_data};
pub use name::model_spec_hash;
pub use record::{Sizes, put_active};
pub use refusal::{Fault, FaultLatch, Refusal};

/// A version of the rules: functions, refusals, prices. Released ones are never changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Version {
    /// Version 1 of spec 6.
    V1 = 1,
}

/// When which version is active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Version 1 is active in every block whose timestamp is at or after this one.
    pub v1: u64,
}

impl Schedule {
    /// Version 1 from genesis on.
    pub const GENESIS: Self = Self { v1: 0 };

    /// The version of a block's timestamp; `None` where the addresses are ordinary accounts.
    #[must_use]
    pub const fn at(&self, timestamp: u64) -> Option<Version> {
        if timestamp >= self.v1 {
            Some(Version::V1)
        } else {
            None
        }
    }
}

/// Executes a call.
///
/// The host drops what was written and logged unless the outcome is [`Outcome::Return`].
///
/// # Errors
/// A [`Fault`] of this machine. No input leads to one.
pub fn run(
    version: Version,
    call: &Call<'_>,
    host: &mut dyn Host,
    models: &dyn Models,
) -> Result<Outcome, Fault> {
    let Version::V1 = version;
    match call.to {
        Target::Registry => registry::run(call, host),
        Target::Inference => infer::run(call, host, models),
    }
}
