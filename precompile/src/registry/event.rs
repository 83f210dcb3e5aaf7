//! The registry's events (spec 6.5): as the functions emit them, and from logs.

use super::votes::Action;
use crate::abi::{self, Args, Encoder};
use crate::host::Host;
use crate::word::{Address, Word, of_address, of_u64, to_u64};
use int_engine::commitment::keccak256;

/// An event of the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// An admin voted.
    Voted {
        /// The action's identity ([`Action::id`]).
        id: Word,
        /// Who voted.
        admin: Address,
        /// What for.
        action: Action,
        /// Votes of the round with this one.
        votes: u64,
        /// Votes that make the action happen.
        quorum: u32,
    },
    /// A commitment was adopted and waits: what its validators must have by `block`.
    Passed {
        /// The name.
        name: Word,
        /// The version.
        version: u64,
        /// The commitment.
        commitment: Word,
        /// The first block in which it can be activated.
        block: u64,
    },
    /// What waited is now active.
    Activated {
        /// The name.
        name: Word,
        /// The version.
        version: u64,
        /// The commitment.
        commitment: Word,
        /// Its place in the list of activations.
        index: u64,
    },
    /// A version, active or waiting, is gone.
    Revoked {
        /// The name.
        name: Word,
        /// The version.
        version: u64,
        /// The commitment.
        commitment: Word,
    },
    /// An address is an admin now, or is none any more.
    AdminSet {
        /// The address.
        admin: Address,
        /// Whether it is an admin.
        enabled: bool,
        /// The epoch that begins.
        epoch: u64,
    },
    /// The quorum changed.
    QuorumSet {
        /// The new quorum.
        quorum: u32,
        /// The epoch that begins.
        epoch: u64,
    },
}

/// Signatures, in the order of the enum.
const SIGNATURES: [&str; 6] = [
    "Voted(bytes32,address,uint8,bytes32,bytes32,bytes32,uint64,uint32)",
    "Passed(bytes32,uint64,bytes32,uint64)",
    "Activated(bytes32,uint64,bytes32,uint64)",
    "Revoked(bytes32,uint64,bytes32)",
    "AdminSet(address,bool,uint64)",
    "QuorumSet(uint32,uint64)",
];

impl Event {
    const fn kind(&self) -> usize {
        match self {
            Self::Voted { .. } => 0,
            Self::Passed { .. } => 1,
            Self::Activated { .. } => 2,
            Self::Revoked { .. } => 3,
            Self::AdminSet { .. } => 4,
            Self::QuorumSet { .. } => 5,
        }
    }

    /// The signature, as topic 0 is made of it.
    #[must_use]
    pub const fn signature(&self) -> &'static str {
        SIGNATURES[self.kind()]
    }

    /// Topics and data of the log.
    #[must_use]
    pub fn encode(&self) -> (Vec<Word>, Vec<u8>) {
        let data = Encoder::default();
        let (indexed, data) = match self {
            Self::Voted {
                id,
                admin,
                action,
                votes,
                quorum,
            } => {
                let data = data.u64(action.kind().into());
                let data = action.args().iter().fold(data, Encoder::word);
                let data = data.u64(*votes).u64((*quorum).into());
                (vec![*id, of_address(admin)], data)
            }
            Self::Passed {
                name,
                version,
                commitment,
                block: number,
            }
            | Self::Activated {
                name,
                version,
                commitment,
                index: number,
            } => (
                vec![*name, of_u64(*version), *commitment],
                data.u64(*number),
            ),
            Self::Revoked {
                name,
                version,
                commitment,
            } => (vec![*name, of_u64(*version), *commitment], data),
            Self::AdminSet {
                admin,
                enabled,
                epoch,
            } => (
                vec![of_address(admin)],
                data.u64((*enabled).into()).u64(*epoch),
            ),
            Self::QuorumSet { quorum, epoch } => (vec![], data.u64((*quorum).into()).u64(*epoch)),
        };
        let topic = keccak256(self.signature().as_bytes());
        let topics = [&[topic], &indexed[..]].concat();
        (topics, data.finish())
    }

    /// The event of a log of [`crate::REGISTRY`]; `None` for what the registry does not write.
    #[must_use]
    pub fn parse(topics: &[Word], data: &[u8]) -> Option<Self> {
        let (topic, indexed) = topics.split_first()?;
        let kind = SIGNATURES
            .iter()
            .position(|signature| keccak256(signature.as_bytes()) == *topic)?;
        let mut a = Args::new(data, data.len() / 32);
        let address = |word: &Word| abi::address(word).ok();
        let event = match (kind, indexed) {
            (0, [id, admin]) => {
                let kind = a.u64().ok()?;
                let args = [a.word().ok()?, a.word().ok()?, a.word().ok()?];
                Self::Voted {
                    id: *id,
                    admin: address(admin)?,
                    action: Action::of_args(kind, &args)?,
                    votes: a.u64().ok()?,
                    quorum: a.u32().ok()?,
                }
            }
            (1, [name, version, commitment]) => Self::Passed {
                name: *name,
                version: to_u64(version)?,
                commitment: *commitment,
                block: a.u64().ok()?,
            },
            (2, [name, version, commitment]) => Self::Activated {
                name: *name,
                version: to_u64(version)?,
                commitment: *commitment,
                index: a.u64().ok()?,
            },
            (3, [name, version, commitment]) => Self::Revoked {
                name: *name,
                version: to_u64(version)?,
                commitment: *commitment,
            },
            (4, [admin]) => Self::AdminSet {
                admin: address(admin)?,
                enabled: a.bool().ok()?,
                epoch: a.u64().ok()?,
            },
            (5, []) => Self::QuorumSet {
                quorum: a.u32().ok()?,
                epoch: a.u64().ok()?,
            },
            _ => return None,
        };
        (event.encode().1 == data).then_some(event)
    }

    pub(super) fn emit(&self, host: &mut dyn Host) {
        let (topics, data) = self.encode();
        host.log(topics, data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(n: u8) -> Word {
        [n; 32]
    }

    fn all() -> Vec<Event> {
        let (name, commitment, version) = (word(1), word(2), u64::MAX);
        let actions = [
            Action::Adopt {
                name,
                version,
                commitment,
            },
            Action::Revoke { name, version },
            Action::SetAdmin {
                admin: [7; 20],
                enabled: false,
            },
            Action::SetQuorum { quorum: u32::MAX },
        ];
        let voted = actions.map(|action| Event::Voted {
            id: word(3),
            admin: [4; 20],
            action,
            votes: 5,
            quorum: 6,
        });
        let mut all = voted.to_vec();
        all.extend([
            Event::Passed {
                name,
                version,
                commitment,
                block: 8,
            },
            Event::Activated {
                name,
                version,
                commitment,
                index: 9,
            },
            Event::Revoked {
                name,
                version,
                commitment,
            },
            Event::AdminSet {
                admin: [1; 20],
                enabled: true,
                epoch: 2,
            },
            Event::QuorumSet {
                quorum: 3,
                epoch: 4,
            },
        ]);
        all
    }

    #[test]
    fn what_is_written_is_read_back() {
        for event in all() {
            let (topics, data) = event.encode();
            assert_eq!(Event::parse(&topics, &data), Some(event));
        }
    }

    #[test]
    fn other_logs_are_none() {
        for event in all() {
            let (topics, data) = event.encode();
            assert_eq!(Event::parse(&topics[1..], &data), None);
            assert_eq!(
                Event::parse(&[&topics[..], &[word(1)]].concat(), &data),
                None
            );
            assert_eq!(Event::parse(&topics, &[&data[..], &[0]].concat()), None);
            assert_eq!(Event::parse(&topics, &[&data[..], &word(0)].concat()), None);
            if !data.is_empty() {
                assert_eq!(Event::parse(&topics, &data[1..]), None);
                assert_eq!(Event::parse(&topics, &data[32..]), None);
                let mut high = data.clone();
                high[0] = 1;
                // The first word of every event's data is a small number.
                assert_eq!(Event::parse(&topics, &high), None, "{event:?}");
            }
            let mut other = topics.clone();
            other[0][31] ^= 1;
            assert_eq!(Event::parse(&other, &data), None);
        }
        assert_eq!(Event::parse(&[], &[]), None);
    }
}
