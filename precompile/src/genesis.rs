//! What a chain writes into its state before the rules become active (spec 6.1).

use crate::host::{INFERENCE, REGISTRY};
use crate::registry::Governance;
use crate::slots;
use crate::word::{Address, Word, ZERO, of_u64};
use std::collections::{BTreeMap, BTreeSet};

/// The code of both accounts: INVALID.
pub const MARKER: [u8; 1] = [0xfe];

/// What a chain chooses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Genesis {
    /// The admins.
    pub admins: Vec<Address>,
    /// Admins under older rules that are none any more: on a running chain, all that are not chosen.
    pub former: Vec<Address>,
    /// Votes that make an action happen, at most the number of admins.
    pub quorum: u32,
    /// Blocks between a passed adoption and its activation.
    pub delay: u64,
    /// Blocks for which a round of votes is open after its first vote.
    pub window: u64,
    /// Whether a quorum of 1 is meant: one key then decides alone.
    pub single: bool,
}

/// Why a choice is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GenesisError {
    /// Nobody could ever adopt a model.
    #[error("no admin, must be at least one")]
    NoAdmin,
    /// An address is zero.
    #[error("admin {0} is the zero address, which nobody can call from")]
    ZeroAdmin(usize),
    /// An address appears twice.
    #[error("admin {0} appears twice, an admin has one vote")]
    Repeated(usize),
    /// An address is to be an admin and to be none.
    #[error("former admin {0} is an admin, must be one or the other")]
    Both(usize),
    /// The quorum cannot be reached, or is 0.
    #[error("the quorum is {quorum}, must be in 1 ..= {admins}, the number of admins")]
    Quorum {
        /// The quorum.
        quorum: u32,
        /// Number of admins.
        admins: usize,
    },
    /// One key would decide alone, and nobody said that this is meant.
    #[error("a quorum of 1 lets one key decide alone; choose it explicitly or raise it")]
    Single,
    /// Votes could only meet in one block, or would stay open for ever.
    #[error("the window is {0} blocks, must be in 1 ..= 4294967295")]
    Window(u64),
    /// A model could be active before any validator has its blob, or never.
    #[error("the delay is {0} blocks, must be in 1 ..= 4294967295")]
    Delay(u64),
}

/// One account of the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The nonce, 1.
    pub nonce: u64,
    /// The code, [`MARKER`].
    pub code: Vec<u8>,
    /// Words of storage to set; all others keep their values.
    pub storage: BTreeMap<Word, Word>,
}

impl Genesis {
    /// The two accounts.
    ///
    /// # Errors
    /// The first rule that the choice breaks.
    pub fn accounts(&self) -> Result<[(Address, Account); 2], GenesisError> {
        if self.admins.is_empty() {
            return Err(GenesisError::NoAdmin);
        }
        let mut seen = BTreeSet::new();
        for (i, admin) in self.admins.iter().enumerate() {
            if *admin == [0; 20] {
                return Err(GenesisError::ZeroAdmin(i));
            }
            if !seen.insert(admin) {
                return Err(GenesisError::Repeated(i));
            }
        }
        if let Some(i) = self.former.iter().position(|former| seen.contains(former)) {
            return Err(GenesisError::Both(i));
        }
        let admins = u32::try_from(self.admins.len()).unwrap_or(u32::MAX);
        if self.quorum == 0 || self.quorum > admins {
            return Err(GenesisError::Quorum {
                quorum: self.quorum,
                admins: self.admins.len(),
            });
        }
        if self.quorum == 1 && !self.single {
            return Err(GenesisError::Single);
        }
        let blocks = 1..=u64::from(u32::MAX);
        if !blocks.contains(&self.window) {
            return Err(GenesisError::Window(self.window));
        }
        if !blocks.contains(&self.delay) {
            return Err(GenesisError::Delay(self.delay));
        }
        let governance = Governance {
            admins,
            quorum: self.quorum,
            delay: self.delay,
            window: self.window,
            epoch: 0,
        };
        let mut storage = BTreeMap::from([(slots::governance(), governance.to_word())]);
        storage.extend(self.admins.iter().map(|a| (slots::admin(a), of_u64(1))));
        storage.extend(self.former.iter().map(|a| (slots::admin(a), ZERO)));
        let account = |storage| Account {
            nonce: 1,
            code: MARKER.to_vec(),
            storage,
        };
        Ok([
            (REGISTRY, account(storage)),
            (INFERENCE, account(BTreeMap::new())),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice() -> Genesis {
        Genesis {
            admins: vec![[1; 20], [2; 20]],
            former: vec![],
            quorum: 2,
            delay: 1,
            window: 1,
            single: false,
        }
    }

    #[test]
    fn every_rule() {
        let refused = |change: fn(&mut Genesis)| {
            let mut genesis = choice();
            change(&mut genesis);
            genesis.accounts().unwrap_err()
        };
        assert_eq!(refused(|g| g.admins.clear()), GenesisError::NoAdmin);
        assert_eq!(
            refused(|g| g.admins[1] = [0; 20]),
            GenesisError::ZeroAdmin(1)
        );
        assert_eq!(
            refused(|g| g.admins[1] = [1; 20]),
            GenesisError::Repeated(1)
        );
        assert_eq!(
            refused(|g| g.former = vec![[3; 20], [2; 20]]),
            GenesisError::Both(1)
        );
        for quorum in [0, 3] {
            let mut genesis = choice();
            genesis.quorum = quorum;
            let expected = GenesisError::Quorum { quorum, admins: 2 };
            assert_eq!(genesis.accounts(), Err(expected));
        }
        assert_eq!(refused(|g| g.quorum = 1), GenesisError::Single);
        assert_eq!(refused(|g| g.window = 0), GenesisError::Window(0));
        assert_eq!(
            refused(|g| g.window = 1 << 32),
            GenesisError::Window(1 << 32)
        );
        assert_eq!(refused(|g| g.delay = 0), GenesisError::Delay(0));
        assert_eq!(
            refused(|g| g.delay = u64::MAX),
            GenesisError::Delay(u64::MAX)
        );
    }

    #[test]
    fn the_accounts() {
        let [(registry, account), (inference, other)] = choice().accounts().unwrap();
        assert_eq!((registry, inference), (REGISTRY, INFERENCE));
        assert_eq!((account.nonce, &account.code[..]), (1, &MARKER[..]));
        assert_eq!(account.storage.len(), 3);
        assert_eq!(account.storage[&slots::admin(&[2; 20])], of_u64(1));
        assert_eq!((other.nonce, other.storage.len()), (1, 0));
        let mut former = choice();
        former.former = vec![[3; 20]];
        let [(_, account), _] = former.accounts().unwrap();
        assert_eq!(account.storage[&slots::admin(&[3; 20])], ZERO);
        let mut single = choice();
        (single.quorum, single.single) = (1, true);
        assert!(single.accounts().is_ok());
    }
}
