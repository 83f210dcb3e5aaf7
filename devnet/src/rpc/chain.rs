//! Methods that look something up: blocks, transactions, accounts, fees.

use super::args::Args;
use super::convert;
use super::failure::{Answer, bad, refused};
use super::node::{Module, Node, Registered, quick};
use crate::block::Block;
use crate::chain::{CallAt, Snapshot};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, Bytes, U64, U256, keccak256};
use alloy_rpc_types_eth::Index;
use serde_json::Value;
use std::sync::Arc;

/// The number behind a tag; there are no forks, so the newest block is final.
pub(super) fn number(node: &Node, tag: BlockNumberOrTag) -> u64 {
    match tag {
        BlockNumberOrTag::Number(number) => number,
        BlockNumberOrTag::Earliest => 0,
        _ => node.chain.head().block.header.number,
    }
}

fn numbered(node: &Node, id: BlockId) -> Answer<Option<u64>> {
    match id {
        BlockId::Number(tag) => Ok(Some(number(node, tag))),
        BlockId::Hash(hash) => Ok(node.chain.number(&hash.block_hash)?),
    }
}

/// The block of an id; `None` where there is none.
pub(super) fn find(node: &Node, id: BlockId) -> Answer<Option<Arc<Block>>> {
    match numbered(node, id)? {
        Some(number) => Ok(node.chain.block(number)?),
        None => Ok(None),
    }
}

/// The state of an id, and in which block a call there is executed.
pub(super) fn state(node: &Node, id: BlockId) -> Answer<(Arc<Snapshot>, CallAt)> {
    let at = match id {
        BlockId::Number(BlockNumberOrTag::Pending) => CallAt::Next(node.time()),
        _ => CallAt::Same,
    };
    let unknown = || refused("header not found: there is no such block");
    let number = numbered(node, id)?.ok_or_else(unknown)?;
    let snapshot = node.chain.snapshot(number)?;
    snapshot.map(|snapshot| (snapshot, at)).ok_or_else(unknown)
}

fn latest(args: &mut Args) -> Answer<BlockId> {
    Ok(args.optional("block")?.unwrap_or(BlockId::latest()))
}

fn by_number(node: &Node, args: &mut Args) -> Answer<Option<Arc<Block>>> {
    find(node, BlockId::Number(args.required("block")?))
}

fn by_hash(node: &Node, args: &mut Args) -> Answer<Option<Arc<Block>>> {
    let hash: B256 = args.required("hash")?;
    find(node, BlockId::from(hash))
}

fn nonce(node: &Node, address: Address, id: BlockId) -> Answer<U64> {
    if id == BlockId::pending() {
        return Ok(U64::from(node.chain.next_nonce(address)));
    }
    let (snapshot, _) = state(node, id)?;
    let account = snapshot.state.account(&address);
    Ok(U64::from(account.map_or(0, |account| account.nonce)))
}

/// A key of storage: quantities and shorter data are accepted, as other nodes do.
fn slot(value: &Value) -> Answer<U256> {
    let text = value
        .as_str()
        .ok_or_else(|| bad("invalid argument slot: must be hex"))?;
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let word = match digits.len() {
        0..=64 => U256::from_str_radix(if digits.is_empty() { "0" } else { digits }, 16).ok(),
        _ => None,
    };
    word.ok_or_else(|| bad("invalid argument slot: must be at most 32 bytes in hex"))
}

type Found = fn(&Node, &mut Args) -> Answer<Option<Arc<Block>>>;

pub(super) fn register(m: &mut Module) -> Registered {
    quick(m, "web3_clientVersion", |_, _| {
        Ok(concat!("blue-devnet/v", env!("CARGO_PKG_VERSION")).to_owned())
    })?;
    quick(m, "web3_sha3", |_, params| {
        let data: Bytes = Args::new(params, 1)?.required("data")?;
        Ok(keccak256(data))
    })?;
    quick(m, "net_version", |node, _| {
        Ok(node.chain.chain_id().to_string())
    })?;
    quick(m, "net_listening", |_, _| Ok(true))?;
    quick(m, "net_peerCount", |_, _| Ok(U64::ZERO))?;
    quick(m, "eth_chainId", |node, _| {
        Ok(U64::from(node.chain.chain_id()))
    })?;
    quick(m, "eth_syncing", |_, _| Ok(false))?;
    quick(m, "eth_blockNumber", |node, _| {
        Ok(U64::from(node.chain.head().block.header.number))
    })?;
    quick(m, "eth_accounts", |node, _| {
        Ok(node.accounts.iter().map(|a| a.address).collect::<Vec<_>>())
    })?;
    quick(m, "eth_getBalance", |node, params| {
        let mut args = Args::new(params, 2)?;
        let address: Address = args.required("address")?;
        let (snapshot, _) = state(node, latest(&mut args)?)?;
        let account = snapshot.state.account(&address);
        Ok(account.map_or(U256::ZERO, |account| account.balance))
    })?;
    quick(m, "eth_getCode", |node, params| {
        let mut args = Args::new(params, 2)?;
        let address: Address = args.required("address")?;
        let (snapshot, _) = state(node, latest(&mut args)?)?;
        let account = snapshot.state.account(&address);
        Ok(account.map_or(Bytes::new(), |account| account.code.original_bytes()))
    })?;
    quick(m, "eth_getStorageAt", |node, params| {
        let mut args = Args::new(params, 3)?;
        let address: Address = args.required("address")?;
        let key = slot(&args.required("slot")?)?;
        let (snapshot, _) = state(node, latest(&mut args)?)?;
        Ok(B256::from(snapshot.state.word(&address, key)))
    })?;
    quick(m, "eth_getTransactionCount", |node, params| {
        let mut args = Args::new(params, 2)?;
        let address = args.required("address")?;
        nonce(node, address, latest(&mut args)?)
    })?;
    blocks(m)?;
    transactions(m)?;
    Ok(())
}

fn blocks(m: &mut Module) -> Registered {
    fn full(
        node: &Node,
        params: &jsonrpsee::types::Params<'_>,
        found: Found,
    ) -> Answer<Option<alloy_rpc_types_eth::Block>> {
        let mut args = Args::new(params, 2)?;
        let block = found(node, &mut args)?;
        let full = args.optional("full")?.unwrap_or(false);
        Ok(block.map(|block| convert::block(&block, full)))
    }
    fn count(
        node: &Node,
        params: &jsonrpsee::types::Params<'_>,
        found: Found,
    ) -> Answer<Option<U64>> {
        let block = found(node, &mut Args::new(params, 1)?)?;
        Ok(block.map(|block| U64::from(block.transactions.len())))
    }
    fn uncles(
        node: &Node,
        params: &jsonrpsee::types::Params<'_>,
        found: Found,
    ) -> Answer<Option<U64>> {
        let block = found(node, &mut Args::new(params, 1)?)?;
        Ok(block.map(|_| U64::ZERO))
    }
    quick(m, "eth_getBlockByNumber", |n, p| full(n, p, by_number))?;
    quick(m, "eth_getBlockByHash", |n, p| full(n, p, by_hash))?;
    quick(m, "eth_getBlockTransactionCountByNumber", |n, p| {
        count(n, p, by_number)
    })?;
    quick(m, "eth_getBlockTransactionCountByHash", |n, p| {
        count(n, p, by_hash)
    })?;
    quick(m, "eth_getUncleCountByBlockNumber", |n, p| {
        uncles(n, p, by_number)
    })?;
    quick(m, "eth_getUncleCountByBlockHash", |n, p| {
        uncles(n, p, by_hash)
    })?;
    quick(m, "eth_getBlockReceipts", |node, params| {
        let id: BlockId = Args::new(params, 1)?.required("block")?;
        Ok(find(node, id)?.map(|block| {
            let indices = 0..block.transactions.len();
            indices
                .filter_map(|i| convert::receipt(&block, i))
                .collect::<Vec<_>>()
        }))
    })
}

fn transactions(m: &mut Module) -> Registered {
    fn at(
        node: &Node,
        params: &jsonrpsee::types::Params<'_>,
        found: Found,
    ) -> Answer<Option<alloy_rpc_types_eth::Transaction>> {
        let mut args = Args::new(params, 2)?;
        let block = found(node, &mut args)?;
        let index: Index = args.required("index")?;
        Ok(block.and_then(|block| convert::transaction(&block, index.into())))
    }
    quick(m, "eth_getTransactionByBlockNumberAndIndex", |n, p| {
        at(n, p, by_number)
    })?;
    quick(m, "eth_getTransactionByBlockHashAndIndex", |n, p| {
        at(n, p, by_hash)
    })?;
    quick(m, "eth_getTransactionByHash", |node, params| {
        let hash: B256 = Args::new(params, 1)?.required("hash")?;
        let Some((block, index)) = node.chain.transaction(&hash)? else {
            return Ok(node.chain.waiting(&hash).map(convert::waiting));
        };
        Ok(convert::transaction(&block, index))
    })?;
    quick(m, "eth_getTransactionReceipt", |node, params| {
        let hash: B256 = Args::new(params, 1)?.required("hash")?;
        let found = node.chain.transaction(&hash)?;
        Ok(found.and_then(|(block, index)| convert::receipt(&block, index)))
    })
}
