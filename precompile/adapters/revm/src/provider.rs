//! The provider: the two precompiles beside those of an inner provider.

use crate::host::Journaled;
use crate::rules::Rules;
use precompile::{Call, INFERENCE, REGISTRY, Target, gas};
use revm::context::{Block, Cfg, ContextTr, JournalTr, LocalContextTr};
use revm::handler::{EthPrecompiles, PrecompileProvider, precompile_output_to_interpreter_result};
use revm::interpreter::{CallInputs, CallScheme, InterpreterResult};
use revm::primitives::hardfork::SpecId;
use revm::primitives::{Address, AddressSet, Bytes};

/// The two precompiles, and those of `P`.
///
/// Every call of a transaction compares the block's activation state with the one that the rules were made for, whichever
/// account it goes to: which addresses are warm depends on it.
#[derive(Clone, Debug)]
pub struct BluePrecompiles<P = EthPrecompiles> {
    inner: P,
    rules: Rules,
    warm: AddressSet,
}

impl BluePrecompiles {
    /// Beside Ethereum's precompiles of a hard fork.
    #[must_use]
    pub fn new(spec: SpecId, rules: Rules) -> Self {
        let inner = EthPrecompiles::new(spec);
        let warm = inner.warm_addresses().clone();
        Self::with_warm(inner, rules, warm)
    }
}

impl<P> BluePrecompiles<P> {
    /// Beside those of another provider of a context `CTX`.
    #[must_use]
    pub fn beside<CTX: ContextTr>(inner: P, rules: Rules) -> Self
    where
        P: PrecompileProvider<CTX>,
    {
        let warm = inner.warm_addresses().clone();
        Self::with_warm(inner, rules, warm)
    }

    fn with_warm(inner: P, rules: Rules, warm: AddressSet) -> Self {
        let mut provider = Self { inner, rules, warm };
        provider.warm_ours();
        provider
    }

    /// The rules.
    #[must_use]
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    fn warm_ours(&mut self) {
        if self.rules.version().is_some() {
            self.warm.extend([REGISTRY, INFERENCE].map(Address::new));
        }
    }
}

impl<CTX, P> PrecompileProvider<CTX> for BluePrecompiles<P>
where
    CTX: ContextTr,
    P: PrecompileProvider<CTX, Output = InterpreterResult>,
{
    type Output = InterpreterResult;

    /// Always true, so that the warm addresses of this provider reach the journal also where another provider ran before.
    fn set_spec(&mut self, spec: <CTX::Cfg as Cfg>::Spec) -> bool {
        if self.inner.set_spec(spec) {
            self.warm.clone_from(self.inner.warm_addresses());
            self.warm_ours();
        }
        true
    }

    fn run(
        &mut self,
        context: &mut CTX,
        inputs: &CallInputs,
    ) -> Result<Option<InterpreterResult>, String> {
        let timestamp = context.block().timestamp();
        let version = self.rules.version_in(timestamp);
        let version = version.map_err(|fault| fault.to_string())?;
        let target = Target::of(&inputs.bytecode_address.0.0);
        let (Some(version), Some(to)) = (version, target) else {
            return self.inner.run(context, inputs);
        };
        // The input is copied only for a call that can pay for any: the caller's memory may be large.
        let data = match inputs.gas_limit < gas::LEAST {
            true => Bytes::new(),
            false => inputs.input.bytes(context),
        };
        let plain = matches!(inputs.scheme, CallScheme::Call | CallScheme::StaticCall);
        let call = Call {
            value_sent: !inputs.call_value().is_zero(),
            is_static: inputs.is_static,
            direct: plain && inputs.target_address == inputs.bytecode_address,
            ..Call::new(to, &data, inputs.gas_limit, inputs.caller.0.0)
        };
        let host = &mut Journaled(context);
        let output = self.rules.run(version, &call, host, inputs.reservoir);
        let output = output.map_err(|fault| fault.to_string())?;
        // The reason of a transaction that is nothing but the refused call.
        if let Some(reason) = output.halt_reason()
            && !reason.is_oog()
            && context.journal().depth() == 1
        {
            let reason = reason.to_string();
            context.local_mut().set_precompile_error_context(reason);
        }
        let result = precompile_output_to_interpreter_result(output, inputs.gas_limit);
        Ok(Some(result))
    }

    fn warm_addresses(&self) -> &AddressSet {
        &self.warm
    }
}
