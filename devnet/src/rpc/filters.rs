//! Filters that clients ask again and again. They are few, and go when nobody asks.

use super::failure::{Answer, busy, refused};
use alloy_rpc_types_eth::Filter;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a filter is kept that nobody asks.
const KEPT: Duration = Duration::from_secs(300);

/// What a filter is of.
#[derive(Clone)]
pub(super) enum Kind {
    Logs(Box<Filter>),
    Blocks,
    /// Hashes of transactions. They are told when they are in a block.
    Transactions,
}

struct Kept {
    kind: Kind,
    /// The first block that was not told.
    next: u64,
    asked: Instant,
}

pub(super) struct Filters {
    kept: HashMap<u64, Kept>,
    most: usize,
    last: u64,
}

impl Filters {
    pub(super) fn new(most: usize) -> Self {
        Self {
            kept: HashMap::new(),
            most,
            last: 0,
        }
    }

    /// Keeps a filter that begins with block `next`; its id.
    pub(super) fn add(&mut self, kind: Kind, next: u64) -> Answer<u64> {
        self.kept.retain(|_, kept| kept.asked.elapsed() < KEPT);
        if self.kept.len() >= self.most {
            let most = self.most;
            return Err(busy(format!(
                "{most} filters are kept already, uninstall some"
            )));
        }
        self.last += 1;
        let asked = Instant::now();
        self.kept.insert(self.last, Kept { kind, next, asked });
        Ok(self.last)
    }

    fn get(&mut self, id: u64) -> Answer<&mut Kept> {
        let kept = self.kept.get_mut(&id);
        let kept = kept.ok_or_else(|| refused("filter not found"))?;
        kept.asked = Instant::now();
        Ok(kept)
    }

    /// What a filter is of, and the first block that is new to it; it is told everything up to `head`.
    pub(super) fn visit(&mut self, id: u64, head: u64) -> Answer<(Kind, u64)> {
        let kept = self.get(id)?;
        let from = kept.next;
        kept.next = from.max(head.saturating_add(1));
        Ok((kept.kind.clone(), from))
    }

    pub(super) fn kind(&mut self, id: u64) -> Answer<Kind> {
        self.get(id).map(|kept| kept.kind.clone())
    }

    pub(super) fn remove(&mut self, id: u64) -> bool {
        self.kept.remove(&id).is_some()
    }
}
