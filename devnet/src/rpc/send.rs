//! Transactions that come in, and the keys that the node holds.

use super::args::Args;
use super::calls::estimate;
use super::failure::{Answer, bad, refused};
use super::fees::{TIP, base_fee};
use super::node::{Module, Node, Registered, heavy, lock, quick};
use crate::accounts::DevAccount;
use crate::error::Error;
use alloy_consensus::{SignableTransaction, TxEip1559, TxEip2930, TxEnvelope, TxLegacy};
use alloy_eips::BlockId;
use alloy_primitives::{Address, B256, Bytes};
use alloy_rpc_types_eth::TransactionRequest;

fn account(node: &Node, address: Address) -> Answer<&DevAccount> {
    let found = node
        .accounts
        .iter()
        .find(|account| account.address == address);
    found.ok_or_else(|| {
        refused(format!(
            "unknown account {address}: this node holds the keys of eth_accounts"
        ))
    })
}

/// What is left out is filled in as a wallet would, and the transaction signed.
fn sign(node: &Node, tx: TransactionRequest) -> Answer<TxEnvelope> {
    let from = tx.from.ok_or_else(|| bad("missing field from"))?;
    let account = account(node, from)?;
    if tx.authorization_list.is_some() {
        return Err(bad(
            "an authorization list needs a transaction that is signed elsewhere",
        ));
    }
    let chain_id = node.chain.chain_id();
    if tx.chain_id.is_some_and(|id| id != chain_id) {
        return Err(bad(format!("the chain id is {chain_id}")));
    }
    let call = super::calls::request(tx.clone())?;
    let gas_limit = tx.gas.ok_or_else(|| bad("missing field gas"))?;
    let nonce = tx.nonce.unwrap_or_else(|| node.chain.next_nonce(from));
    let signed = |hash: B256| {
        let signature = account.sign(&hash);
        signature.ok_or_else(|| refused("the transaction cannot be signed"))
    };
    let Some(gas_price) = tx.gas_price else {
        let tip = tx.max_priority_fee_per_gas.unwrap_or(TIP);
        let fee = tx
            .max_fee_per_gas
            .unwrap_or_else(|| (2 * base_fee(node)).saturating_add(tip));
        let tx = TxEip1559 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas: fee,
            max_priority_fee_per_gas: tx.max_priority_fee_per_gas.unwrap_or(tip.min(fee)),
            to: call.to,
            value: call.value,
            access_list: call.access_list,
            input: call.data,
        };
        let signature = signed(tx.signature_hash())?;
        return Ok(tx.into_signed(signature).into());
    };
    if tx.access_list.is_some() {
        let tx = TxEip2930 {
            chain_id,
            nonce,
            gas_price,
            gas_limit,
            to: call.to,
            value: call.value,
            access_list: call.access_list,
            input: call.data,
        };
        let signature = signed(tx.signature_hash())?;
        return Ok(tx.into_signed(signature).into());
    }
    let tx = TxLegacy {
        chain_id: Some(chain_id),
        nonce,
        gas_price,
        gas_limit,
        to: call.to,
        value: call.value,
        input: call.data,
    };
    let signature = signed(tx.signature_hash())?;
    Ok(tx.into_signed(signature).into())
}

/// A node that stands still takes nothing: it could not say what becomes of it.
fn standing(node: &Node) -> Answer<()> {
    node.chain
        .fault()
        .map_or(Ok(()), |fault| Err(Error::Fault(fault).into()))
}

fn sign_message(node: &Node, address: Address, message: &[u8]) -> Answer<Bytes> {
    let signature = account(node, address)?.sign_message(message);
    let signature = signature.ok_or_else(|| refused("the message cannot be signed"))?;
    Ok(signature.as_bytes().into())
}

pub(super) fn register(m: &mut Module) -> Registered {
    quick(m, "eth_sendRawTransaction", |node, params| {
        let bytes: Bytes = Args::new(params, 1)?.required("transaction")?;
        standing(node)?;
        let hash = node.chain.submit_raw(&bytes)?;
        node.came()?;
        Ok(hash)
    })?;
    heavy(m, "eth_sendTransaction", |node, params| {
        let mut tx: TransactionRequest = Args::new(params, 1)?.required("transaction")?;
        standing(node)?;
        if tx.gas.is_none() {
            tx.gas = Some(estimate(node, tx.clone(), BlockId::pending())?);
        }
        let sending = lock(&node.sending);
        let tx = sign(node, tx)?;
        let hash = node.chain.submit(tx)?;
        drop(sending);
        node.came()?;
        Ok(hash)
    })?;
    quick(m, "eth_sign", |node, params| {
        let mut args = Args::new(params, 2)?;
        let address = args.required("address")?;
        let message: Bytes = args.required("message")?;
        sign_message(node, address, &message)
    })?;
    quick(m, "personal_sign", |node, params| {
        let mut args = Args::new(params, 3)?;
        let message: Bytes = args.required("message")?;
        sign_message(node, args.required("address")?, &message)
    })
}
