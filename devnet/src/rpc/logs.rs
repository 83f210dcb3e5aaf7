//! Events: queries, and filters that are asked again and again.

use super::args::Args;
use super::chain::number;
use super::convert;
use super::failure::{Answer, bad, refused};
use super::filters::Kind;
use super::node::{Module, Node, Registered, lock, quick};
use crate::block::Block;
use alloy_primitives::{B256, U64};
use alloy_rpc_types_eth::{Filter, FilterBlockOption, FilterChanges, Log};
use std::ops::RangeInclusive;

/// Most addresses, or topics at a place, of a filter.
const ALTERNATIVES: usize = 1_024;

/// The filter of a request, if it is one that is worth the work.
pub(super) fn checked(filter: Filter) -> Answer<Filter> {
    let topics = filter.topics.iter().map(|topics| topics.len());
    if topics
        .chain([filter.address.len()])
        .any(|n| n > ALTERNATIVES)
    {
        return Err(bad(format!(
            "at most {ALTERNATIVES} addresses, and topics at a place"
        )));
    }
    Ok(filter)
}

/// The events of a block that a filter wants.
pub(super) fn of_block(block: &Block, filter: &Filter) -> Vec<Log> {
    if !filter.matches_bloom(block.header.logs_bloom) {
        return vec![];
    }
    let all = (0..block.transactions.len()).flat_map(|index| convert::logs(block, index));
    all.filter(|log| filter.matches(&log.inner)).collect()
}

/// The blocks that a filter names.
fn range(node: &Node, filter: &Filter) -> Answer<RangeInclusive<u64>> {
    let head = node.chain.head().block.header.number;
    match filter.block_option {
        FilterBlockOption::AtBlockHash(hash) => {
            let at = node.chain.number(&hash)?;
            let at = at.ok_or_else(|| refused("unknown block"))?;
            Ok(at..=at)
        }
        FilterBlockOption::Range {
            from_block,
            to_block,
        } => {
            let from = from_block.map_or(head, |tag| number(node, tag));
            let to = to_block.map_or(head, |tag| number(node, tag));
            if from > to {
                return Err(bad(format!("invalid block range: from {from} to {to}")));
            }
            Ok(from..=to.min(head))
        }
    }
}

fn logs(node: &Node, filter: &Filter, blocks: RangeInclusive<u64>) -> Answer<Vec<Log>> {
    let most = node.limits.log_blocks;
    let count = blocks.end().saturating_sub(*blocks.start());
    if count >= most {
        return Err(bad(format!(
            "the query spans more than {most} blocks, ask for fewer"
        )));
    }
    let mut found = Vec::new();
    for number in blocks {
        let Some(block) = node.chain.block(number)? else {
            break;
        };
        found.extend(of_block(&block, filter));
        if found.len() > node.limits.logs {
            let most = node.limits.logs;
            return Err(bad(format!(
                "more than {most} events, ask for fewer blocks"
            )));
        }
    }
    Ok(found)
}

/// Bytes of an event in an answer beside its data and topics, at least.
const LOG_BYTES: usize = 700;
/// Bytes of a hash in an answer.
const HASH_BYTES: usize = 70;

/// Whole blocks as far as an answer holds them, one at least: what is left is told the next time.
struct Portion {
    blocks: u64,
    items: usize,
    bytes: usize,
}

impl Portion {
    fn new(node: &Node) -> Self {
        Self {
            blocks: node.limits.log_blocks.max(1),
            items: node.limits.logs,
            bytes: node.limits.response_bytes as usize / 2,
        }
    }

    /// Whether another block, with so many items and bytes, still fits.
    fn takes(&mut self, first: bool, items: usize, bytes: usize) -> bool {
        let left = (
            self.blocks.checked_sub(1),
            self.items.checked_sub(items),
            self.bytes.checked_sub(bytes),
        );
        let (Some(blocks), Some(items), Some(bytes)) = left else {
            // A block that fits no answer is told alone.
            (self.blocks, self.items, self.bytes) = (0, 0, 0);
            return first;
        };
        (self.blocks, self.items, self.bytes) = (blocks, items, bytes);
        true
    }
}

/// Items of the blocks from `blocks.start()` on as far as an answer holds them, and the first block that it does not.
fn portion<T>(
    node: &Node,
    blocks: RangeInclusive<u64>,
    of: impl Fn(&Block) -> (Vec<T>, usize),
) -> Answer<(Vec<T>, u64)> {
    let (first, mut next) = (*blocks.start(), *blocks.start());
    let (mut found, mut left) = (Vec::new(), Portion::new(node));
    for number in blocks {
        let Some(block) = node.chain.block(number)? else {
            break;
        };
        let (items, bytes) = of(&block);
        if !left.takes(number == first, items.len(), bytes) {
            break;
        }
        found.extend(items);
        next = number.saturating_add(1);
    }
    Ok((found, next))
}

/// What came since the filter was asked last, as much as an answer holds.
fn changes(node: &Node, id: u64) -> Answer<FilterChanges> {
    let filter = lock(&node.filters).get(id)?;
    let mut filter = lock(&filter);
    let head = node.chain.head().block.header.number;
    let hashes = |hashes: Vec<B256>| {
        let bytes = hashes.len() * HASH_BYTES;
        (hashes, bytes)
    };
    let (changes, next) = match &filter.kind {
        Kind::Logs(wanted) => {
            let (mut first, mut last) = (filter.next, head);
            if let FilterBlockOption::Range {
                from_block,
                to_block,
            } = wanted.block_option
            {
                let of = |tag: alloy_eips::BlockNumberOrTag| tag.as_number();
                first = first.max(from_block.and_then(of).unwrap_or(0));
                last = last.min(to_block.and_then(of).unwrap_or(u64::MAX));
            }
            let logs = |block: &Block| {
                let logs = of_block(block, wanted);
                let data = logs
                    .iter()
                    .map(|log| 2 * log.inner.data.data.len() + LOG_BYTES);
                let bytes = data.sum();
                (logs, bytes)
            };
            let (logs, next) = portion(node, first..=last, logs)?;
            (FilterChanges::Logs(logs), next)
        }
        Kind::Blocks => {
            let of = |block: &Block| hashes(vec![block.hash]);
            let (hashes, next) = portion(node, filter.next..=head, of)?;
            (FilterChanges::Hashes(hashes), next)
        }
        Kind::Transactions => {
            let of =
                |block: &Block| hashes(block.transactions.iter().map(|tx| *tx.hash()).collect());
            let (hashes, next) = portion(node, filter.next..=head, of)?;
            (FilterChanges::Hashes(hashes), next)
        }
    };
    filter.next = next;
    Ok(changes)
}

fn add(node: &Node, kind: Kind) -> Answer<U64> {
    let next = node.chain.head().block.header.number.saturating_add(1);
    lock(&node.filters).add(kind, next).map(U64::from)
}

pub(super) fn register(m: &mut Module) -> Registered {
    quick(m, "eth_getLogs", |node, params| {
        let filter = checked(Args::new(params, 1)?.required("filter")?)?;
        logs(node, &filter, range(node, &filter)?)
    })?;
    quick(m, "eth_newFilter", |node, params| {
        let filter = checked(Args::new(params, 1)?.required("filter")?)?;
        if matches!(filter.block_option, FilterBlockOption::AtBlockHash(_)) {
            return Err(bad("a filter that is kept has no block hash"));
        }
        add(node, Kind::Logs(Box::new(filter)))
    })?;
    quick(m, "eth_newBlockFilter", |node, _| add(node, Kind::Blocks))?;
    quick(m, "eth_newPendingTransactionFilter", |node, _| {
        add(node, Kind::Transactions)
    })?;
    quick(m, "eth_getFilterChanges", |node, params| {
        let id: U64 = Args::new(params, 1)?.required("filter")?;
        changes(node, id.to())
    })?;
    quick(m, "eth_getFilterLogs", |node, params| {
        let id: U64 = Args::new(params, 1)?.required("filter")?;
        let filter = lock(&node.filters).get(id.to())?;
        // Not held while the answer is made: nothing is told by it.
        let kind = lock(&filter).kind.clone();
        match kind {
            Kind::Logs(filter) => logs(node, &filter, range(node, &filter)?),
            _ => Err(bad("that filter is not one of events")),
        }
    })?;
    quick(m, "eth_uninstallFilter", |node, params| {
        let id: U64 = Args::new(params, 1)?.required("filter")?;
        Ok(lock(&node.filters).remove(id.to()))
    })
}
