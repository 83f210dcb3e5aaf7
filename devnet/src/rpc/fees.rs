//! What a gas costs, and has cost.

use super::args::Args;
use super::chain::number;
use super::failure::{Answer, bad, refused};
use super::node::{Module, Node, Registered, quick};
use crate::block::Block;
use alloy_consensus::Transaction;
use alloy_eips::BlockNumberOrTag;
use alloy_eips::eip1559::BaseFeeParams;
use alloy_primitives::{U64, U256};
use alloy_rpc_types_eth::FeeHistory;

/// What is asked for beyond the base fee, in wei.
pub(super) const TIP: u128 = 1_000_000_000;
/// Most blocks of a history.
const BLOCKS: u64 = 1_024;
/// Most percentiles of a history.
const PERCENTILES: usize = 100;

fn next_base_fee(block: &Block) -> u128 {
    let next = block.header.next_block_base_fee(BaseFeeParams::ethereum());
    next.unwrap_or_default().into()
}

/// Fee per gas of the next block, in wei.
pub(super) fn base_fee(node: &Node) -> u128 {
    next_base_fee(&node.chain.head().block)
}

/// What the miner got for a gas at each percentile of the block's gas.
fn rewards(block: &Block, percentiles: &[f64]) -> Vec<u128> {
    let base_fee = block.header.base_fee_per_gas.unwrap_or_default();
    let tip = |i: usize| {
        let tx = block.transactions.get(i);
        tx.and_then(|tx| tx.effective_tip_per_gas(base_fee))
    };
    let indices = 0..block.transactions.len();
    let mut tips: Vec<_> = indices
        .map(|i| (tip(i).unwrap_or_default(), block.gas_used(i)))
        .collect();
    tips.sort_unstable();
    let at = |percentile: &f64| {
        let wanted = block.header.gas_used as f64 * percentile / 100.0;
        let mut gas = 0u64;
        let reached = tips.iter().find(|(_, used)| {
            gas = gas.saturating_add(*used);
            gas as f64 >= wanted
        });
        reached.or(tips.last()).map_or(0, |(tip, _)| *tip)
    };
    percentiles.iter().map(at).collect()
}

fn history(node: &Node, mut args: Args) -> Answer<FeeHistory> {
    let count: U64 = args.required("blockCount")?;
    let newest: BlockNumberOrTag = args.required("newestBlock")?;
    let percentiles: Option<Vec<f64>> = args.optional("rewardPercentiles")?;
    if let Some(asked) = &percentiles {
        let ordered = asked.is_sorted() && asked.iter().all(|p| (0.0..=100.0).contains(p));
        if asked.len() > PERCENTILES || !ordered {
            return Err(bad(format!(
                "percentiles must be at most {PERCENTILES}, of 0 to 100, in order"
            )));
        }
    }
    let last = number(node, newest);
    if last > node.chain.head().block.header.number {
        return Err(refused("there is no such block yet"));
    }
    let count = count.to::<u64>().min(BLOCKS).min(last.saturating_add(1));
    let first = (last + 1).saturating_sub(count);
    let mut history = FeeHistory {
        oldest_block: first,
        reward: percentiles.is_some().then(Vec::new),
        ..FeeHistory::default()
    };
    for number in first..first + count {
        let Some(block) = node.chain.block(number)? else {
            break;
        };
        let header = &block.header;
        if history.base_fee_per_gas.is_empty() {
            let base_fee = header.base_fee_per_gas.unwrap_or_default();
            history.base_fee_per_gas.push(base_fee.into());
            history.base_fee_per_blob_gas.push(1);
        }
        history.base_fee_per_gas.push(next_base_fee(&block));
        history.base_fee_per_blob_gas.push(1);
        let ratio = header.gas_used as f64 / header.gas_limit.max(1) as f64;
        history.gas_used_ratio.push(ratio);
        history.blob_gas_used_ratio.push(0.0);
        if let (Some(reward), Some(percentiles)) = (&mut history.reward, &percentiles) {
            reward.push(rewards(&block, percentiles));
        }
    }
    Ok(history)
}

pub(super) fn register(m: &mut Module) -> Registered {
    quick(m, "eth_gasPrice", |node, _| {
        Ok(U256::from(base_fee(node).saturating_add(TIP)))
    })?;
    quick(m, "eth_maxPriorityFeePerGas", |_, _| Ok(U256::from(TIP)))?;
    quick(m, "eth_blobBaseFee", |_, _| Ok(U256::from(1)))?;
    quick(m, "eth_feeHistory", |node, params| {
        history(node, Args::new(params, 3)?)
    })
}
