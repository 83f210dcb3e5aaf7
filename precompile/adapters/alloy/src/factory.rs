//! EVMs with the two precompiles, made for a node that makes its EVMs by a factory.

use crate::install_into;
use alloy_evm::eth::EthEvmFactory;
use alloy_evm::precompiles::PrecompilesMap;
use alloy_evm::{Database, EvmEnv, EvmFactory};
use precompile::{FaultLatch, Models, Schedule};
use revm::context_interface::DBErrorMarker;
use revm::inspector::{Inspector, NoOpInspector};
use std::fmt;
use std::sync::Arc;

/// An [`EvmFactory`] whose EVMs have the precompiles of their block, beside those of an inner factory.
///
/// A node takes it where it takes its EVM factory. Block execution gets one, and everything that anybody may ask for another
/// ([`BlueEvmFactory::for_calls`]), with engines of its own: a fault of a call must not trip the latch that blocks wait on,
/// nor may a call make the node load models. A node that hands one configuration of its EVM to both makes two.
#[derive(Clone)]
pub struct BlueEvmFactory<F = EthEvmFactory> {
    inner: F,
    schedule: Schedule,
    models: Arc<dyn Models + Send + Sync>,
    latch: FaultLatch,
}

impl BlueEvmFactory {
    /// Beside Ethereum's precompiles.
    #[must_use]
    pub fn new(
        schedule: Schedule,
        models: Arc<dyn Models + Send + Sync>,
        latch: FaultLatch,
    ) -> Self {
        Self::beside(EthEvmFactory::default(), schedule, models, latch)
    }
}

impl<F> BlueEvmFactory<F> {
    /// Beside the precompiles of another factory.
    #[must_use]
    pub fn beside(
        inner: F,
        schedule: Schedule,
        models: Arc<dyn Models + Send + Sync>,
        latch: FaultLatch,
    ) -> Self {
        Self {
            inner,
            schedule,
            models,
            latch,
        }
    }

    /// The same for calls outside blocks: with models that nothing is loaded for, and a latch that no verdict waits on. A latch
    /// that several calls share tells of the first fault of any of them.
    #[must_use]
    pub fn for_calls(&self, models: Arc<dyn Models + Send + Sync>, latch: FaultLatch) -> Self
    where
        F: Clone,
    {
        Self::beside(self.inner.clone(), self.schedule, models, latch)
    }

    /// The latch that a fault trips. Ask it before any verdict on a block (spec 6.9).
    #[must_use]
    pub const fn latch(&self) -> &FaultLatch {
        &self.latch
    }
}

impl<F: fmt::Debug> fmt::Debug for BlueEvmFactory<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlueEvmFactory")
            .field("inner", &self.inner)
            .field("schedule", &self.schedule)
            .field("latch", &self.latch)
            .finish_non_exhaustive()
    }
}

impl<F: EvmFactory<Precompiles = PrecompilesMap>> EvmFactory for BlueEvmFactory<F> {
    type Evm<DB: Database, I: Inspector<Self::Context<DB>>> = F::Evm<DB, I>;
    type Context<DB: Database> = F::Context<DB>;
    type Tx = F::Tx;
    type Error<DBError: DBErrorMarker> = F::Error<DBError>;
    type HaltReason = F::HaltReason;
    type Spec = F::Spec;
    type BlockEnv = F::BlockEnv;
    type Precompiles = PrecompilesMap;

    fn create_evm<DB: Database>(
        &self,
        db: DB,
        env: EvmEnv<Self::Spec, Self::BlockEnv>,
    ) -> Self::Evm<DB, NoOpInspector> {
        let mut evm = self.inner.create_evm(db, env);
        install_into(
            &mut evm,
            self.schedule,
            self.models.clone(),
            self.latch.clone(),
        );
        evm
    }

    fn create_evm_with_inspector<DB: Database, I: Inspector<Self::Context<DB>>>(
        &self,
        db: DB,
        env: EvmEnv<Self::Spec, Self::BlockEnv>,
        inspector: I,
    ) -> Self::Evm<DB, I> {
        let mut evm = self.inner.create_evm_with_inspector(db, env, inspector);
        install_into(
            &mut evm,
            self.schedule,
            self.models.clone(),
            self.latch.clone(),
        );
        evm
    }
}
