//! Which blobs stay when nothing names them any more.

use crate::library::Library;
use int_engine::commitment::Commitment;
use precompile::registry::state::Activation;
use precompile::word::Word;
use std::collections::{BTreeMap, BTreeSet};

/// Which blobs a node keeps that are neither active nor waiting for activation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Archive {
    /// All: the node can execute and trace every block again.
    All,
    /// Those that a block of the last so many may have used: more than a reorganisation can undo, and as many as the node
    /// traces or replays.
    Recent {
        /// Blocks.
        blocks: u64,
    },
}

/// When commitments ended to be active.
#[derive(Default)]
pub(super) struct Ends {
    /// The newest activation of each name.
    newest: BTreeMap<Word, Activation>,
    /// The last block in which a commitment may have been used.
    last: BTreeMap<Commitment, u64>,
    /// What was needed after the block before; `None` before the first look.
    before: Option<BTreeSet<Commitment>>,
}

impl Ends {
    /// Takes an activation, in the order of the list; one that was there before is no harm.
    pub(super) fn activated(&mut self, activation: &Activation) {
        let before = self.newest.insert(activation.name, *activation);
        if let Some(before) = before {
            self.used(Commitment(before.commitment), activation.block);
        }
    }

    fn used(&mut self, commitment: Commitment, block: u64) {
        let last = self.last.entry(commitment).or_default();
        *last = (*last).max(block);
    }

    /// Lets go of the blobs whose time is over after `block`.
    ///
    /// One that was never seen active or waiting came here by hand, or for later: it stays.
    pub(super) fn observe(
        &mut self,
        block: u64,
        needed: &BTreeSet<Commitment>,
        archive: Archive,
        library: &dyn Library,
    ) {
        // A block that ends a commitment may have used it.
        // What was the newest of its name may have been revoked at any time before the first look.
        let newest = || self.newest.values().map(|a| Commitment(a.commitment));
        let before = self.before.take().unwrap_or_else(|| newest().collect());
        for &commitment in needed.iter().chain(&before) {
            self.used(commitment, block);
        }
        self.before = Some(needed.clone());
        let Archive::Recent { blocks } = archive else {
            return;
        };
        let there = match library.list() {
            Ok(there) => there,
            Err(error) => {
                tracing::warn!(%error, "the library cannot be listed");
                return;
            }
        };
        for commitment in there {
            let Some(&last) = self.last.get(&commitment) else {
                continue;
            };
            if needed.contains(&commitment) || block.saturating_sub(last) <= blocks {
                continue;
            }
            match library.remove(commitment) {
                Ok(()) => tracing::info!(%commitment, last, "blob let go of"),
                Err(error) => tracing::warn!(%commitment, %error, "a blob cannot be removed"),
            }
        }
    }
}
