//! What the state tests are about.

mod inference;
mod registry;

use crate::chain::{BOB, Blob, CAROL, Chain, DELAY, NAME, returned, small};
use precompile::word::Address;
use precompile::{Refusal, Target};
use std::sync::LazyLock;

/// The address of the key that Ethereum's state tests sign with; an admin here.
const SENDER: Address = [
    0xa9, 0x4f, 0x53, 0x74, 0xfc, 0xe5, 0xed, 0xbc, 0x8e, 0x2a, 0x86, 0x97, 0xc1, 0x53, 0x31, 0x67,
    0x7e, 0x6e, 0xbf, 0x0b,
];

/// How much gas the call gets.
#[derive(Clone, Copy)]
pub(crate) enum Gas {
    /// The price.
    Price,
    /// One less.
    OneLess,
    /// More than any call here costs.
    More,
}

impl Gas {
    pub(crate) const fn of(self, price: u64) -> u64 {
        match self {
            Self::Price => price,
            Self::OneLess => price - 1,
            Self::More => price + 1_000_000,
        }
    }
}

/// One test: a chain before, and a transaction.
pub(crate) struct Flow {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) chain: Chain,
    pub(crate) sender: Address,
    pub(crate) to: Target,
    pub(crate) data: Vec<u8>,
    pub(crate) gas: Gas,
    pub(crate) value: u64,
    pub(crate) refusal: Option<Refusal>,
}

/// The models, A and B.
pub(crate) fn blobs() -> &'static [Blob; 2] {
    static BLOBS: LazyLock<[Blob; 2]> =
        LazyLock::new(|| [3, 4].map(|seed| Blob::sample(small(), seed)));
    &BLOBS
}

/// SENDER, BOB and CAROL are admins of whom two decide; the first adoption is A's, active since the last block.
fn active() -> Chain {
    let [a, b] = blobs();
    let mut chain = Chain::new(&[SENDER, BOB, CAROL], 2);
    chain.load(a);
    chain.load(b);
    for admin in [BOB, CAROL] {
        returned(&chain.registry(admin, &a.propose(&NAME, 1)));
    }
    chain.state.block += DELAY;
    chain.activate(&NAME, 1);
    chain.state.block += 1;
    chain
}

/// Version 2, B, has one vote.
fn voted() -> Chain {
    let mut chain = active();
    returned(&chain.registry(BOB, &blobs()[1].propose(&NAME, 2)));
    chain
}

/// Version 2, B, has passed.
fn passed() -> Chain {
    let mut chain = voted();
    returned(&chain.registry(CAROL, &blobs()[1].propose(&NAME, 2)));
    chain
}

fn due() -> Chain {
    let mut chain = passed();
    chain.state.block += DELAY;
    chain
}

fn after(admin: Address, data: &[u8]) -> Chain {
    let mut chain = active();
    returned(&chain.registry(admin, data));
    chain
}

fn call(
    name: &'static str,
    about: &'static str,
    chain: Chain,
    to: Target,
    data: Vec<u8>,
    refusal: Option<Refusal>,
) -> Flow {
    Flow {
        name,
        about,
        chain,
        sender: SENDER,
        to,
        data,
        gas: if refusal.is_some() {
            Gas::More
        } else {
            Gas::Price
        },
        value: 0,
        refusal,
    }
}

/// The files and their tests.
pub(crate) fn flows() -> [(&'static str, Vec<Flow>); 2] {
    [
        ("registry.json", registry::registry()),
        ("inference.json", inference::inference()),
    ]
}
