//! Blocks and events as they come, over a WebSocket.

use super::args::Args;
use super::convert;
use super::failure::{Answer, bad};
use super::logs::{checked, of_block};
use super::node::{Module, Node, Registered};
use crate::block::Block;
use alloy_rpc_types_eth::Filter;
use jsonrpsee::SubscriptionSink;
use jsonrpsee::types::Params;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;

enum Kind {
    Heads,
    Logs(Box<Filter>),
    Transactions,
}

fn kind(params: &Params<'_>) -> Answer<Kind> {
    let mut args = Args::new(params, 2)?;
    let name: String = args.required("kind")?;
    match name.as_str() {
        "newHeads" => Ok(Kind::Heads),
        "logs" => {
            let filter = args.optional("filter")?.unwrap_or_default();
            Ok(Kind::Logs(Box::new(checked(filter)?)))
        }
        "newPendingTransactions" => Ok(Kind::Transactions),
        _ => Err(bad(
            "no such subscription: newHeads, logs, newPendingTransactions",
        )),
    }
}

impl Kind {
    fn messages(&self, block: &Block) -> Vec<Box<RawValue>> {
        fn raw<T: Serialize>(item: T) -> Option<Box<RawValue>> {
            to_raw_value(&item).ok()
        }
        match self {
            Self::Heads => raw(convert::header(block)).into_iter().collect(),
            Self::Logs(filter) => of_block(block, filter)
                .into_iter()
                .filter_map(raw)
                .collect(),
            Self::Transactions => {
                let hashes = block.transactions.iter().map(|tx| *tx.hash());
                hashes.filter_map(raw).collect()
            }
        }
    }
}

/// Tells a subscriber of every block after the one that was the newest, in order, until it leaves.
async fn follow(node: Arc<Node>, sink: SubscriptionSink, kind: Kind) {
    let mut heads = node.chain.heads();
    let mut told = *heads.borrow_and_update();
    loop {
        tokio::select! {
            () = sink.closed() => return,
            changed = heads.changed() => if changed.is_err() { return },
        }
        let head = *heads.borrow_and_update();
        while told < head {
            told += 1;
            let Ok(Some(block)) = node.chain.block(told) else {
                return;
            };
            for message in kind.messages(&block) {
                if sink.send(message).await.is_err() {
                    return;
                }
            }
        }
    }
}

pub(super) fn register(m: &mut Module) -> Registered {
    m.register_subscription(
        "eth_subscribe",
        "eth_subscription",
        "eth_unsubscribe",
        |params, pending, node, _| async move {
            match kind(&params) {
                Err(error) => pending.reject(error).await,
                Ok(kind) => {
                    if let Ok(sink) = pending.accept().await {
                        follow(node, sink, kind).await;
                    }
                }
            }
        },
    )?;
    Ok(())
}
