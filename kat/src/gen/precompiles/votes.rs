//! Rounds of votes, admins and the quorum.

use precompile::Refusal::*;
use precompile::calldata;

use super::states::{Blob, STRANGE, WINDOW, blob};
use super::{ALICE, Ask, BOB, CAROL, DAVE, Maker, NAME};

pub(super) fn cases(maker: &mut Maker<'_>, blobs: &[Blob]) {
    rounds(maker, blob(blobs, "dense"));
    admins(maker);
    quorum(maker);
}

/// The first votes of "open votes" are of block 10.
fn rounds(m: &mut Maker<'_>, dense: &Blob) {
    let approve = calldata::approve(&NAME, 1, &dense.commitment);
    let ask = |state| Ask::new(state, approve.clone());
    m.refuse(
        "a second vote of one admin",
        AlreadyVoted,
        &ask("open votes").by(ALICE),
    );
    m.refuse(
        "a second vote in the round's last block",
        AlreadyVoted,
        &ask("open votes").by(ALICE).at(10 + WINDOW),
    );
    m.answer(
        "the round's last block: the second vote passes",
        &ask("open votes").by(BOB).at(10 + WINDOW),
    );
    m.answer(
        "a block after the round: the first vote of the next",
        &ask("open votes").by(BOB).at(11 + WINDOW),
    );
    m.answer(
        "a block after the round: who voted votes again",
        &ask("open votes").by(ALICE).at(11 + WINDOW),
    );
    m.answer(
        "another epoch: the vote counts for nothing",
        &ask("another epoch").by(BOB),
    );
    m.answer(
        "another epoch: who voted votes again",
        &ask("another epoch").by(ALICE),
    );
    m.answer(
        "another epoch: the new admin votes",
        &ask("another epoch").by(DAVE),
    );
    m.refuse(
        "propose is the same action as approve",
        AlreadyVoted,
        &Ask::new("open votes", dense.propose(&NAME, 1)).by(ALICE),
    );
    m.answer(
        "another version is another action",
        &Ask::new("open votes", dense.propose(&NAME, 2)).by(ALICE),
    );
    m.refuse(
        "a third vote where two are there",
        AlreadyVoted,
        &ask("two of three votes").by(BOB),
    );
}

fn admins(m: &mut Maker<'_>) {
    let set = |state, admin, enabled| Ask::new(state, calldata::set_admin(&admin, enabled));
    m.answer(
        "setAdmin, a first vote",
        &set("three admins", DAVE, true).by(ALICE),
    );
    m.exact(
        "setAdmin, a new admin",
        &set("open votes", DAVE, true).by(BOB),
    );
    m.answer(
        "setAdmin, one admin less",
        &set("open votes", CAROL, false).by(BOB),
    );
    m.answer(
        "an admin votes for the own removal",
        &set("open votes", CAROL, false).by(CAROL),
    );
    m.answer(
        "setAdmin at a quorum of 1",
        &set("one admin", BOB, true).by(ALICE),
    );
    m.answer(
        "setAdmin makes an admin word 1",
        &set("older, governed", STRANGE, true).by(ALICE),
    );
    m.answer(
        "setAdmin clears an admin word that is not 1, and the count stays",
        &set("older, governed", STRANGE, false).by(ALICE),
    );
    m.refuse(
        "setAdmin, is one",
        NoChange,
        &set("three admins", BOB, true).by(ALICE),
    );
    m.refuse(
        "setAdmin, is none",
        NoChange,
        &set("three admins", DAVE, false).by(ALICE),
    );
    m.refuse(
        "setAdmin, the last admin",
        LockOut,
        &set("one admin", ALICE, false).by(ALICE),
    );
    m.refuse(
        "setAdmin, fewer than the quorum",
        LockOut,
        &set("two admins", BOB, false).by(ALICE),
    );
    m.refuse(
        "setAdmin, no change before LockOut",
        NoChange,
        &set("two admins", DAVE, false).by(ALICE),
    );
    m.refuse(
        "setAdmin, the zero address",
        ZeroArgument,
        &set("three admins", [0; 20], true).by(ALICE),
    );
    m.refuse(
        "setAdmin, no admin",
        NotAdmin,
        &set("three admins", DAVE, true).by(DAVE),
    );
    m.refuse(
        "setAdmin, no governance",
        NoGovernance,
        &set("empty", DAVE, true).by(ALICE),
    );
    m.refuse(
        "setAdmin, a second vote",
        AlreadyVoted,
        &set("open votes", DAVE, true).by(ALICE),
    );
}

fn quorum(m: &mut Maker<'_>) {
    let set = |state, quorum| Ask::new(state, calldata::set_quorum(quorum)).by(ALICE);
    m.answer("setQuorum, a first vote", &set("three admins", 3));
    m.exact("setQuorum, raised", &set("open votes", 3).by(CAROL));
    m.answer("setQuorum, lowered", &set("two of three votes", 2));
    m.refuse(
        "setQuorum, below 2",
        QuorumOutOfRange,
        &set("three admins", 1),
    );
    m.refuse("setQuorum, zero", QuorumOutOfRange, &set("three admins", 0));
    m.refuse(
        "setQuorum, above the admins",
        QuorumOutOfRange,
        &set("three admins", 4),
    );
    m.refuse(
        "setQuorum, the largest",
        QuorumOutOfRange,
        &set("three admins", u32::MAX),
    );
    m.refuse("setQuorum, 1 of 1", QuorumOutOfRange, &set("one admin", 1));
    m.refuse("setQuorum, 2 of 1", QuorumOutOfRange, &set("one admin", 2));
    m.refuse("setQuorum, is so", NoChange, &set("three admins", 2));
    m.refuse(
        "setQuorum, no admin",
        NotAdmin,
        &set("three admins", 3).by(DAVE),
    );
    m.refuse("setQuorum, no governance", NoGovernance, &set("older", 2));
    m.refuse(
        "setQuorum, a second vote",
        AlreadyVoted,
        &set("open votes", 3),
    );
    m.answer(
        "setQuorum of another epoch",
        &set("another epoch", 3).by(BOB),
    );
}
