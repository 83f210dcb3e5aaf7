//! Filters that clients ask again and again. They are few, and go when nobody asks.

use super::failure::{Answer, busy, refused};
use alloy_rpc_types_eth::Filter;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
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

/// A filter. Its lock is held from a question to what of it is answered, so that two that ask at once share the answer.
pub(super) struct Told {
    pub(super) kind: Kind,
    /// The first block that was not told.
    pub(super) next: u64,
}

struct Kept {
    told: Arc<Mutex<Told>>,
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
        let told = Arc::new(Mutex::new(Told { kind, next }));
        self.kept.insert(self.last, Kept { told, asked });
        Ok(self.last)
    }

    /// A filter; it is kept on, because somebody asks.
    pub(super) fn get(&mut self, id: u64) -> Answer<Arc<Mutex<Told>>> {
        let kept = self.kept.get_mut(&id);
        let kept = kept.ok_or_else(|| refused("filter not found"))?;
        kept.asked = Instant::now();
        Ok(kept.told.clone())
    }

    pub(super) fn remove(&mut self, id: u64) -> bool {
        self.kept.remove(&id).is_some()
    }
}
