//! Admins, quorum and rounds of votes (spec 6.5).

use super::Event;
use crate::abi;
use crate::host::Host;
use crate::refusal::{Fault, Refusal, Stop, require};
use crate::slots;
use crate::word::{Address, Pack, Unpack, Word, ZERO, of_address, of_u64, to_u64};
use int_engine::commitment::keccak256;

/// The governance word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Governance {
    /// Number of admins.
    pub admins: u32,
    /// Votes that make an action happen.
    pub quorum: u32,
    /// Blocks between a passed adoption and its activation.
    pub delay: u64,
    /// Blocks after its first vote for which a round is open.
    pub window: u64,
    /// Number of changes of admins or quorum.
    pub epoch: u64,
}

impl Governance {
    /// The word.
    #[must_use]
    pub fn to_word(&self) -> Word {
        Pack::default()
            .field(self.admins.into(), 4)
            .field(self.quorum.into(), 4)
            .field(self.delay, 8)
            .field(self.window, 8)
            .field(self.epoch, 8)
            .word()
    }

    /// The fields of a word.
    #[must_use]
    pub fn of_word(word: &Word) -> Self {
        let mut fields = Unpack::new(word);
        Self {
            admins: fields.field(4) as u32,
            quorum: fields.field(4) as u32,
            delay: fields.field(8),
            window: fields.field(8),
            epoch: fields.field(8),
        }
    }

    pub(super) fn save(&self, host: &mut dyn Host) -> Result<(), Fault> {
        host.write(&slots::governance(), &self.to_word())
    }
}

/// The governance, if the caller is one of its admins.
pub(super) fn as_admin(host: &mut dyn Host, caller: &Address) -> Result<Governance, Stop> {
    let word = host.read(&slots::governance())?;
    require(word != ZERO, Refusal::NoGovernance)?;
    let enabled = host.read(&slots::admin(caller))?;
    require(enabled == of_u64(1), Refusal::NotAdmin)?;
    Ok(Governance::of_word(&word))
}

/// What admins vote for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// That a commitment becomes the name's next version.
    Adopt {
        /// The name.
        name: Word,
        /// The version.
        version: u64,
        /// The commitment.
        commitment: Word,
    },
    /// That a version of the name goes.
    Revoke {
        /// The name.
        name: Word,
        /// The version, active or pending.
        version: u64,
    },
    /// That an address becomes an admin or is none any more.
    SetAdmin {
        /// The address.
        admin: Address,
        /// Whether it is to be an admin.
        enabled: bool,
    },
    /// Another quorum.
    SetQuorum {
        /// Votes that make an action happen.
        quorum: u32,
    },
}

impl Action {
    /// The number of its kind in identities and events.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Adopt { .. } => 1,
            Self::Revoke { .. } => 2,
            Self::SetAdmin { .. } => 3,
            Self::SetQuorum { .. } => 4,
        }
    }

    pub(super) fn args(&self) -> [Word; 3] {
        match self {
            Self::Adopt {
                name,
                version,
                commitment,
            } => [*name, of_u64(*version), *commitment],
            Self::Revoke { name, version } => [*name, of_u64(*version), ZERO],
            Self::SetAdmin { admin, enabled } => {
                [of_address(admin), of_u64((*enabled).into()), ZERO]
            }
            Self::SetQuorum { quorum } => [of_u64((*quorum).into()), ZERO, ZERO],
        }
    }

    /// The action of a kind and its three arguments.
    pub(super) fn of_args(kind: u64, args: &[Word; 3]) -> Option<Self> {
        let [first, second, third] = args;
        let action = match kind {
            1 => Self::Adopt {
                name: *first,
                version: to_u64(second)?,
                commitment: *third,
            },
            2 => Self::Revoke {
                name: *first,
                version: to_u64(second)?,
            },
            3 => Self::SetAdmin {
                admin: abi::address(first).ok()?,
                enabled: abi::boolean(second).ok()?,
            },
            4 => Self::SetQuorum {
                quorum: to_u64(first)?.try_into().ok()?,
            },
            _ => return None,
        };
        (action.args() == *args).then_some(action)
    }

    /// Its identity in an epoch.
    #[must_use]
    pub fn id(&self, epoch: u64) -> Word {
        let domain = &b"blue.registry.action.v1"[..];
        let args = self.args().concat();
        keccak256(&[domain, &epoch.to_be_bytes(), &[self.kind()], &args].concat())
    }
}

/// The votes of an action.
pub(super) struct Tally {
    pub(super) round: u64,
    pub(super) last: u64,
    pub(super) votes: u64,
}

impl Tally {
    pub(super) fn of_word(word: &Word) -> Self {
        let mut fields = Unpack::new(word);
        Self {
            round: fields.field(8),
            last: fields.field(8),
            votes: fields.field(8),
        }
    }

    fn to_word(&self) -> Word {
        Pack::default()
            .field(self.round, 8)
            .field(self.last, 8)
            .field(self.votes, 8)
            .word()
    }
}

/// Takes the vote of an admin; whether it is the one that makes the action happen.
pub(super) fn vote(
    host: &mut dyn Host,
    governance: &Governance,
    caller: &Address,
    action: &Action,
) -> Result<bool, Stop> {
    let id = action.id(governance.epoch);
    let block = host.block_number();
    let mut tally = Tally::of_word(&host.read(&slots::tally(&id))?);
    if tally.votes == 0 || block > tally.last {
        tally = Tally {
            // One round a vote at most: far below 2^64.
            round: tally.round.saturating_add(1),
            last: block.saturating_add(governance.window),
            votes: 0,
        };
    }
    let mine = slots::vote(&id, tally.round, caller);
    require(host.read(&mine)? == ZERO, Refusal::AlreadyVoted)?;
    host.write(&mine, &of_u64(1))?;
    let votes = tally.votes + 1;
    let passed = votes >= governance.quorum.into();
    tally.votes = if passed { 0 } else { votes };
    host.write(&slots::tally(&id), &tally.to_word())?;
    Event::Voted {
        id,
        admin: *caller,
        action: *action,
        votes,
        quorum: governance.quorum,
    }
    .emit(host);
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_holds_every_field() {
        let governance = Governance {
            admins: 1,
            quorum: u32::MAX,
            delay: 2,
            window: u64::MAX,
            epoch: 3,
        };
        assert_eq!(Governance::of_word(&governance.to_word()), governance);
    }

    #[test]
    fn identities_differ_in_epoch_kind_and_every_argument() {
        let (a, b) = (of_u64(1), of_u64(2));
        let adopt = |name, version, commitment| Action::Adopt {
            name,
            version,
            commitment,
        };
        let admin = |last, enabled| {
            let mut admin = [0; 20];
            admin[19] = last;
            Action::SetAdmin { admin, enabled }
        };
        let actions = [
            adopt(a, 1, ZERO),
            adopt(b, 1, ZERO),
            adopt(a, 2, ZERO),
            adopt(a, 1, a),
            Action::Revoke {
                name: a,
                version: 1,
            },
            admin(1, true),
            admin(1, false),
            admin(2, false),
            Action::SetQuorum { quorum: 1 },
        ];
        let ids = actions
            .iter()
            .flat_map(|action| [action.id(0), action.id(1)]);
        let distinct: std::collections::BTreeSet<_> = ids.collect();
        assert_eq!(distinct.len(), 2 * actions.len());
    }
}
