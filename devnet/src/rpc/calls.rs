//! Calls and estimates.

use super::args::Args;
use super::chain::state;
use super::failure::{Answer, bad, failed};
use super::node::{Module, Node, Registered, heavy};
use crate::chain::Request;
use alloy_eips::BlockId;
use alloy_primitives::{Bytes, U64};
use alloy_rpc_types_eth::TransactionRequest;
use serde_json::Value;

/// A call as the chain takes it.
pub(super) fn request(tx: TransactionRequest) -> Answer<Request> {
    if tx.blob_versioned_hashes.is_some() || tx.sidecar.is_some() || tx.transaction_type == Some(3)
    {
        return Err(bad("blob transactions (EIP-4844) are not supported here"));
    }
    if tx.gas_price.is_some() && tx.max_fee_per_gas.is_some() {
        return Err(bad("gasPrice and maxFeePerGas exclude each other"));
    }
    let data = match (tx.input.input, tx.input.data) {
        (Some(input), Some(data)) if input != data => {
            return Err(bad("input and data differ, must be one of them"));
        }
        (Some(data), _) | (None, Some(data)) => data,
        (None, None) => Bytes::new(),
    };
    let gas_price = tx.gas_price.or(tx.max_fee_per_gas).unwrap_or_default();
    Ok(Request {
        from: tx.from.unwrap_or_default(),
        to: tx.to.unwrap_or_default(),
        gas: tx.gas,
        gas_price,
        // Without a price nothing is paid to anyone.
        tip: tx.max_priority_fee_per_gas.filter(|_| gas_price > 0),
        value: tx.value.unwrap_or_default(),
        data,
        access_list: tx.access_list.unwrap_or_default(),
        authorizations: tx.authorization_list.unwrap_or_default(),
    })
}

/// No state but the chain's is called on.
fn no_overrides(args: &mut Args) -> Answer<()> {
    for name in ["state overrides", "block overrides"] {
        match args.optional::<Value>(name)? {
            None => {}
            Some(Value::Object(given)) if given.is_empty() => {}
            Some(_) => return Err(bad(format!("{name} are not supported here"))),
        }
    }
    Ok(())
}

fn call(node: &Node, tx: TransactionRequest, id: BlockId) -> Answer<Bytes> {
    let (snapshot, at) = state(node, id)?;
    let most = node.limits.call_gas;
    let result = node.chain.call(&snapshot, at, &request(tx)?, most)?;
    match result.is_success() {
        true => Ok(result.into_output().unwrap_or_default()),
        false => Err(failed(&result)),
    }
}

/// The gas that a transaction needs.
pub(super) fn estimate(node: &Node, tx: TransactionRequest, id: BlockId) -> Answer<u64> {
    let (snapshot, at) = state(node, id)?;
    let estimate = node.chain.estimate(&snapshot, at, &request(tx)?)?;
    estimate.map_err(|result| failed(&result))
}

pub(super) fn register(m: &mut Module) -> Registered {
    heavy(m, "eth_call", |node, params| {
        let mut args = Args::new(params, 4)?;
        let tx = args.required("transaction")?;
        let id = args.optional("block")?.unwrap_or(BlockId::latest());
        no_overrides(&mut args)?;
        call(node, tx, id)
    })?;
    heavy(m, "eth_estimateGas", |node, params| {
        let mut args = Args::new(params, 4)?;
        let tx = args.required("transaction")?;
        // A transaction that is sent now is in the next block.
        let id = args.optional("block")?.unwrap_or(BlockId::pending());
        no_overrides(&mut args)?;
        estimate(node, tx, id).map(U64::from)
    })
}
