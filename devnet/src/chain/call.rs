//! Calls that leave no trace, and the gas that a transaction needs.

use super::{Chain, Snapshot};
use crate::error::{BadTransaction, Error};
use crate::execute::{Engines, Kind, TX_GAS, transact};
use crate::state::View;
use alloy_consensus::Header;
use alloy_eips::eip2930::AccessList;
use alloy_eips::eip7702::SignedAuthorization;
use alloy_primitives::{Address, Bytes, TxKind, U256};
use precompile::{Fault, FaultLatch};
use revm::context::TxEnv;
use revm::context::result::{EVMError, ExecutionResult, InvalidTransaction, ResultAndState};
use revm::context_interface::either::Either;

/// In which block a call is executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallAt {
    /// In the block itself, after its transactions.
    Same,
    /// In the block after it, if that had this time in seconds.
    Next(u64),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who calls.
    pub from: Address,
    /// What is called or created.
    pub to: TxKind,
    /// Most gas; `None` for as much as there may be.
    pub gas: Option<u64>,
    /// Most wei for a gas; 0 for a call that pays nothing.
    pub gas_price: u128,
    /// Wei for a gas that go to the miner.
    pub tip: Option<u128>,
    /// Wei that go along.
    pub value: U256,
    /// The calldata, or the code that creates.
    pub data: Bytes,
    /// EIP-2930.
    pub access_list: AccessList,
    /// EIP-7702.
    pub authorizations: Vec<SignedAuthorization>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            from: Address::ZERO,
            to: TxKind::Call(Address::ZERO),
            gas: None,
            gas_price: 0,
            tip: None,
            value: U256::ZERO,
            data: Bytes::new(),
            access_list: AccessList::default(),
            authorizations: vec![],
        }
    }
}

impl Chain {
    /// Executes a call on the state of a block, with at most `most` gas. A fault is this call's alone: blocks go on.
    ///
    /// # Errors
    /// [`Error::CallFault`], or [`Error::Transaction`] when the caller could not send it.
    pub fn call(
        &self,
        snapshot: &Snapshot,
        at: CallAt,
        request: &Request,
        most: u64,
    ) -> Result<ExecutionResult, Error> {
        let gas = request.gas.unwrap_or(most).min(most);
        let done = self.run(snapshot, at, request, gas)?;
        Ok(done.result)
    }

    fn header(&self, snapshot: &Snapshot, at: CallAt) -> Header {
        let block = &snapshot.block;
        match at {
            CallAt::Same => block.header.clone(),
            CallAt::Next(time) => {
                let time = time.max(block.header.timestamp.saturating_add(1));
                super::seal::next_header(block, time)
            }
        }
    }

    fn run(
        &self,
        snapshot: &Snapshot,
        at: CallAt,
        request: &Request,
        gas: u64,
    ) -> Result<ResultAndState, Error> {
        let header = self.header(snapshot, at);
        let latch = FaultLatch::new();
        let engines = Engines {
            models: &self.call_models,
            latch: &latch,
        };
        let account = snapshot.state.account(&request.from);
        let authorizations = request.authorizations.iter().cloned();
        let mut tx = TxEnv {
            tx_type: 0,
            caller: request.from,
            gas_limit: gas,
            gas_price: request.gas_price,
            kind: request.to,
            value: request.value,
            data: request.data.clone(),
            nonce: account.map_or(0, |account| account.nonce),
            chain_id: Some(self.chain_id),
            access_list: request.access_list.clone(),
            gas_priority_fee: request.tip,
            blob_hashes: vec![],
            max_fee_per_blob_gas: 0,
            authorization_list: authorizations.map(Either::Left).collect(),
        };
        let invalid = |said: String| Error::Transaction(BadTransaction::Invalid(said));
        tx.derive_tx_type().map_err(|e| invalid(e.to_string()))?;
        let view = View {
            state: &snapshot.state,
            hashes: &|number| self.block_hash(number),
        };
        let done = transact(view, self.chain_id, &header, &engines, tx, Kind::Call);
        latch.check().map_err(Error::CallFault)?;
        done.map_err(|error| match error {
            EVMError::Transaction(InvalidTransaction::LackOfFundForMaxFee { .. }) => {
                let address = request.from;
                Error::Transaction(BadTransaction::Funds { address })
            }
            EVMError::Transaction(reason) => invalid(reason.to_string()),
            EVMError::Database(error) => Error::CallFault(Fault::State(error.to_string())),
            error => Error::Evm(error.to_string()),
        })
    }

    /// The least gas, to within 1.5 %, with which a call succeeds as a transaction, or what it ends with when it does not.
    ///
    /// # Errors
    /// Those of [`Chain::call`].
    pub fn estimate(
        &self,
        snapshot: &Snapshot,
        at: CallAt,
        request: &Request,
    ) -> Result<Result<u64, ExecutionResult>, Error> {
        let block = snapshot.block.header.gas_limit.min(TX_GAS);
        let mut most = request.gas.unwrap_or(block).min(block);
        if request.gas_price > 0 {
            let account = snapshot.state.account(&request.from);
            let balance = account.map_or(U256::ZERO, |account| account.balance);
            let left = balance.saturating_sub(request.value) / U256::from(request.gas_price);
            most = most.min(left.saturating_to());
        }
        let first = self.run(snapshot, at, request, most)?.result;
        if !first.is_success() {
            return Ok(Err(first));
        }
        let succeeds = |gas: u64| match self.run(snapshot, at, request, gas) {
            Ok(done) => Ok(done.result.is_success()),
            // Less than any transaction with this data takes.
            Err(Error::Transaction(BadTransaction::Invalid(_))) => Ok(false),
            Err(error) => Err(error),
        };
        // Enough unless a contract keeps a part of its gas from what it calls, or looks at what is left.
        let spent = first.gas().total_gas_spent().max(first.tx_gas_used());
        if spent >= most || succeeds(spent)? {
            return Ok(Ok(spent.min(most)));
        }
        let (mut low, mut high) = (spent, most);
        let likely = spent.saturating_add(2_300).saturating_mul(64) / 63 + 1;
        if likely < high {
            match succeeds(likely)? {
                true => high = likely,
                false => low = likely,
            }
        }
        while low + 1 < high && (high - low).saturating_mul(1_000) / high > 15 {
            let middle = (low + (high - low) / 2).min(low.saturating_mul(2));
            match succeeds(middle)? {
                true => high = middle,
                false => low = middle,
            }
        }
        Ok(Ok(high))
    }
}
