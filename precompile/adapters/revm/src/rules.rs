//! What both adapters need to know, and how an outcome becomes the EVM's.

use precompile::{Call, Fault, FaultLatch, Host, Models, Outcome, Refusal, Schedule, Version};
use revm::precompile::{PrecompileHalt, PrecompileOutput};
use revm::primitives::U256;
use std::fmt;
use std::sync::Arc;

/// The precompiles of the blocks around one timestamp: rules, models, and where a fault is told.
///
/// It is made for a block's timestamp, because which addresses are warm must be known before a transaction begins. Running
/// it in a block of another activation state is a fault ([`Fault::Timestamp`]).
#[derive(Clone)]
pub struct Rules {
    schedule: Schedule,
    timestamp: u64,
    models: Arc<dyn Models + Send + Sync>,
    latch: FaultLatch,
}

impl Rules {
    /// The rules of a block with this timestamp, in seconds.
    #[must_use]
    pub fn new(
        schedule: Schedule,
        timestamp: u64,
        models: Arc<dyn Models + Send + Sync>,
        latch: FaultLatch,
    ) -> Self {
        Self {
            schedule,
            timestamp,
            models,
            latch,
        }
    }

    /// The version of the rules; `None` where the two addresses are ordinary accounts.
    #[must_use]
    pub const fn version(&self) -> Option<Version> {
        self.schedule.at(self.timestamp)
    }

    /// The latch that a fault trips.
    #[must_use]
    pub const fn latch(&self) -> &FaultLatch {
        &self.latch
    }

    /// The version in a block, which must be the one that these rules were made for.
    ///
    /// # Errors
    /// [`Fault::Timestamp`]; it trips the latch.
    pub fn version_in(&self, timestamp: U256) -> Result<Option<Version>, Fault> {
        let found = saturated(timestamp);
        if self.schedule.at(found) == self.version() {
            return Ok(self.version());
        }
        let fault = Fault::Timestamp {
            expected: self.timestamp,
            found,
        };
        self.latch.trip(&fault);
        Err(fault)
    }

    /// Executes a call, with the reservoir of EIP-8037 handed back as it came.
    ///
    /// # Errors
    /// A fault of this machine; it trips the latch.
    pub fn run(
        &self,
        version: Version,
        call: &Call<'_>,
        host: &mut dyn Host,
        reservoir: u64,
    ) -> Result<PrecompileOutput, Fault> {
        let outcome = precompile::run(version, call, host, &*self.models);
        let outcome = outcome.inspect_err(|fault| self.latch.trip(fault))?;
        Ok(match outcome {
            Outcome::Return { gas_used, output } => {
                PrecompileOutput::new(gas_used, output.into(), reservoir)
            }
            Outcome::Revert { gas_used, .. } => {
                PrecompileOutput::revert(gas_used, outcome.data().into(), reservoir)
            }
            Outcome::Halt { refusal } => PrecompileOutput::halt(halt(refusal), reservoir),
        })
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("schedule", &self.schedule)
            .field("timestamp", &self.timestamp)
            .field("latch", &self.latch)
            .finish_non_exhaustive()
    }
}

/// The EVM's reason of a halt. Its text is for people: receipts and state do not depend on it.
const fn halt(refusal: Refusal) -> PrecompileHalt {
    match refusal {
        Refusal::OutOfGas => PrecompileHalt::OutOfGas,
        other => PrecompileHalt::other_static(other.name()),
    }
}

/// A block's number or timestamp; 2^64 - 1 for anything above.
#[must_use]
pub fn saturated(n: U256) -> u64 {
    n.saturating_to()
}
