//! Keys and values that the sessions of an engine share when their first tokens are the same.
//!
//! The entries form a tree: each is a whole page of the KV cache, reached from its parent's identity and its own tokens,
//! which are the key itself. So a page is found only for exactly the tokens that it was computed from.

use super::cache::{PAGE, Page};
use crate::halt::{Fault, try_reserve};
use crate::pool::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The identity of the entry before, 0 for none, and the tokens of the page.
type Key = (u64, [u32; PAGE]);

/// How a prefix cache has been used. Positions and bytes count whole pages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PrefixStats {
    /// Feeds that began with shared pages.
    pub hits: u64,
    /// Positions that these feeds did not compute.
    pub positions: u64,
    /// Pages held.
    pub pages: usize,
    /// Bytes held, pages and their keys.
    pub bytes: usize,
    /// Pages let go of to make room.
    pub evictions: u64,
}

/// The pages, at most so many bytes of them.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    capacity: usize,
    tree: Mutex<Tree>,
}

#[derive(Debug, Default)]
struct Tree {
    entries: BTreeMap<Key, Entry>,
    /// Keys by the time of their last use. A parent's is later than its children's, so the first has no children.
    by_use: BTreeMap<u64, Key>,
    last_id: u64,
    /// Counts uses.
    time: u64,
    stats: PrefixStats,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    used: u64,
    page: Arc<Page>,
}

/// Bytes that an entry counts for.
fn size(page: &Page) -> usize {
    page.bytes() + 2 * size_of::<Key>()
}

/// The tokens of the whole pages of `tokens`.
fn whole(tokens: &[u32]) -> impl Iterator<Item = [u32; PAGE]> {
    tokens
        .chunks_exact(PAGE)
        .map(|page| page.try_into().expect("a whole page"))
}

impl PrefixCache {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            tree: Mutex::default(),
        }
    }

    pub(crate) fn stats(&self) -> PrefixStats {
        lock(&self.tree).stats
    }

    /// The longest chain of pages for tokens that begin with `held` and go on with `tokens`, when it is longer than
    /// `held`.
    pub(super) fn find(
        &self,
        held: &[u32],
        tokens: &[u32],
    ) -> Result<Option<Vec<Arc<Page>>>, Fault> {
        let pages = (held.len() + tokens.len()) / PAGE;
        if pages * PAGE <= held.len() {
            return Ok(None);
        }
        let (mut all, mut found) = (Vec::new(), Vec::new());
        try_reserve(
            &mut all,
            held.len() + tokens.len(),
            "the tokens of a session",
        )?;
        try_reserve(&mut found, pages, "the pages of a session")?;
        all.extend_from_slice(held);
        all.extend_from_slice(tokens);
        let mut tree = lock(&self.tree);
        let mut parent = 0;
        for page in whole(&all) {
            let Some(entry) = tree.entries.get(&(parent, page)) else {
                break;
            };
            found.push(Arc::clone(&entry.page));
            parent = entry.id;
        }
        let positions = found.len() * PAGE;
        if positions <= held.len() {
            return Ok(None);
        }
        tree.touch(&all[..positions]);
        tree.stats.hits += 1;
        tree.stats.positions += (positions - held.len()) as u64;
        Ok(Some(found))
    }

    /// Keeps the whole pages of a session that holds `held`, the first ones where there is no room for all. A chain that is
    /// longer than the cache takes the room that is free; others make room only for one that can be there as a whole.
    pub(super) fn record(&self, held: &[u32], pages: &[Arc<Page>]) {
        let held = &held[..pages.len() * PAGE];
        let all = pages.first().map_or(0, |page| size(page));
        let fits = all.saturating_mul(pages.len()) <= self.capacity;
        let mut tree = lock(&self.tree);
        let oldest = tree.touch(held);
        let mut parent = 0;
        for (depth, (tokens, page)) in whole(held).zip(pages).enumerate() {
            let key = (parent, tokens);
            if let Some(entry) = tree.entries.get(&key) {
                parent = entry.id;
                continue;
            }
            let size = size(page);
            while tree.stats.bytes.saturating_add(size) > self.capacity {
                if !fits || !tree.evict(oldest) {
                    return;
                }
            }
            tree.last_id += 1;
            parent = tree.last_id;
            let used = oldest + (pages.len() - 1 - depth) as u64;
            tree.by_use.insert(used, key);
            let page = Arc::clone(page);
            let entry = Entry {
                id: parent,
                used,
                page,
            };
            tree.entries.insert(key, entry);
            tree.stats.pages += 1;
            tree.stats.bytes += size;
        }
    }
}

impl Tree {
    /// Marks the entries of a chain as used now, the last one of it first. Returns the first of the times set aside for
    /// its pages, whether they have entries or not.
    fn touch(&mut self, tokens: &[u32]) -> u64 {
        let oldest = self.time + 1;
        self.time += (tokens.len() / PAGE) as u64;
        let (mut parent, mut used) = (0, self.time);
        for page in whole(tokens) {
            let key = (parent, page);
            let Some(entry) = self.entries.get_mut(&key) else {
                break;
            };
            self.by_use.remove(&entry.used);
            entry.used = used;
            parent = entry.id;
            self.by_use.insert(used, key);
            used -= 1;
        }
        oldest
    }

    /// Lets go of the least recently used page, unless it was used at `now` or later; whether there was one.
    fn evict(&mut self, now: u64) -> bool {
        match self.by_use.first_entry() {
            Some(first) if *first.key() < now => {
                let key = first.remove();
                if let Some(entry) = self.entries.remove(&key) {
                    self.stats.bytes -= size(&entry.page);
                    self.stats.pages -= 1;
                    self.stats.evictions += 1;
                }
                true
            }
            _ => false,
        }
    }
}
