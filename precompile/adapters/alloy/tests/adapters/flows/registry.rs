//! The registry's.

use super::{Flow, Gas, SENDER, active, after, blobs, call, due, passed, voted};
use crate::chain::{BOB, CAROL, Chain, NAME};
use precompile::registry::Function as Registry;
use precompile::word::{Word, of_address, of_u64};
use precompile::{Refusal, Target, calldata};

fn legacy(selector: u8, words: &[Word]) -> Vec<u8> {
    [&[selector, 0, 0, 0][..], &words.concat()].concat()
}

pub(super) fn registry() -> Vec<Flow> {
    use Refusal as R;
    let [a, b] = blobs();
    let r = |name, about, chain, data, refusal: Option<Refusal>| {
        call(name, about, chain, Target::Registry, data, refusal)
    };
    let of = calldata::of_version;
    let second = || calldata::approve(&NAME, 2, &b.commitment.0);
    let add = || calldata::set_admin(&[0xDA; 20], true);
    let mut long = second();
    long.extend([0; 32]);
    let stranger = Chain::new(&[BOB, CAROL], 2);
    let lock_out = Chain::new(&[SENDER, BOB], 2);
    let half = calldata::set_quorum(3);
    vec![
        r(
            "propose",
            "a first vote, with record and proof",
            active(),
            b.propose(&NAME, 2),
            None,
        ),
        Flow {
            gas: Gas::More,
            ..r(
                "proposePasses",
                "the second of two votes",
                voted(),
                b.propose(&NAME, 2),
                None,
            )
        },
        r(
            "approvePasses",
            "a vote for a record that is there",
            voted(),
            second(),
            None,
        ),
        r(
            "approveTwice",
            "the same admin again",
            after(SENDER, &b.propose(&NAME, 2)),
            second(),
            Some(R::AlreadyVoted),
        ),
        r(
            "approveWithoutRecord",
            "a commitment that nobody proposed",
            active(),
            second(),
            Some(R::NoRecord),
        ),
        r(
            "approveLower",
            "a version that has passed",
            active(),
            calldata::approve(&NAME, 1, &a.commitment.0),
            Some(R::VersionTooLow),
        ),
        r(
            "approveByStranger",
            "a caller who is no admin",
            stranger,
            second(),
            Some(R::NotAdmin),
        ),
        r(
            "approveNotCanonical",
            "a word too much",
            voted(),
            long,
            Some(R::NotCanonical),
        ),
        r(
            "proposeBadProof",
            "the record of another model",
            active(),
            calldata::propose(&NAME, 2, &a.commitment.0, &b.bytes[..1024], &b.proof),
            Some(R::BadProof),
        ),
        r(
            "activate",
            "by anyone, once due",
            due(),
            of(Registry::Activate, &NAME, 2),
            None,
        ),
        r(
            "activateTooEarly",
            "before the delay is over",
            passed(),
            of(Registry::Activate, &NAME, 2),
            Some(R::TooEarly),
        ),
        r(
            "activateActive",
            "nothing waits",
            active(),
            of(Registry::Activate, &NAME, 1),
            Some(R::NothingPending),
        ),
        r(
            "revokePasses",
            "the second vote against the active version",
            after(BOB, &of(Registry::Revoke, &NAME, 1)),
            of(Registry::Revoke, &NAME, 1),
            None,
        ),
        r(
            "setAdminPasses",
            "the second vote for a fourth admin",
            after(BOB, &add()),
            add(),
            None,
        ),
        r(
            "setAdminLockOut",
            "as many admins as the quorum",
            lock_out,
            calldata::set_admin(&BOB, false),
            Some(R::LockOut),
        ),
        r(
            "setQuorumPasses",
            "the second vote for a quorum of three",
            after(BOB, &half),
            half.clone(),
            None,
        ),
        r(
            "record",
            "all of a record",
            active(),
            calldata::view(Registry::Record, Some(&a.commitment.0)),
            None,
        ),
        r(
            "pending",
            "what waits",
            passed(),
            calldata::view(Registry::Pending, Some(&NAME)),
            None,
        ),
        r(
            "legacyAdopt",
            "a vote in the old form",
            voted(),
            legacy(1, &[NAME, of_u64(2), b.commitment.0]),
            None,
        ),
        r(
            "legacyAdoptWithoutRecord",
            "refused by a halt",
            active(),
            legacy(1, &[NAME, of_u64(2), b.commitment.0]),
            Some(R::NoRecord),
        ),
        r(
            "legacyGetApproved",
            "version and commitment",
            active(),
            legacy(2, &[NAME]),
            None,
        ),
        r(
            "legacySetAdmin",
            "a vote in the old form",
            active(),
            legacy(4, &[of_address(&[0xDA; 20]), of_u64(1)]),
            None,
        ),
        Flow {
            gas: Gas::OneLess,
            ..r(
                "proposeOneGasLess",
                "one less than the price",
                active(),
                b.propose(&NAME, 2),
                Some(R::OutOfGas),
            )
        },
        Flow {
            value: 1,
            ..r(
                "approveWithValue",
                "no value is taken",
                voted(),
                second(),
                Some(R::ValueSent),
            )
        },
    ]
}
