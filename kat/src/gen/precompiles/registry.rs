//! Functions of the registry: proposals, versions, activation, revocation, views.

use precompile::Refusal::*;
use precompile::calldata;
use precompile::registry::{Action, Function};
use precompile::word::{Word, ZERO, of_address, of_u64};

use super::states::{Blob, DELAY, STRANGE, UNKNOWN, blob};
use super::{ALICE, Ask, BOB, CAROL, DAVE, MALLORY, Maker, NAME, number};

pub(super) fn cases(maker: &mut Maker<'_>, blobs: &[Blob]) {
    proposals(maker, blobs);
    records(maker, blob(blobs, "dense"));
    versions(maker, blobs);
    activation(maker);
    views(maker, blobs);
}

fn proposals(m: &mut Maker<'_>, blobs: &[Blob]) {
    for name in ["ones", "stops", "refused"] {
        let b = blob(blobs, name);
        let ask = Ask::new("one admin", b.propose(&NAME, 1)).by(ALICE);
        m.answer(&format!("propose {}, passed at once", b.name), &ask);
    }
    let dense = blob(blobs, "dense");
    let data = dense.propose(&NAME, 1);
    m.exact(
        "propose, the first vote",
        &Ask::new("three admins", data.clone()).by(BOB),
    );
    m.exact(
        "propose, the second vote",
        &Ask::new("open votes", data.clone()).by(BOB),
    );
    let last = Ask::new("two of three votes", data.clone()).by(CAROL);
    m.answer("propose, the third vote of three", &last);
    m.answer(
        "propose in the last block there is: ends are not beyond 2^64 - 1",
        &Ask::new("one admin", data.clone()).by(ALICE).at(u64::MAX),
    );
    m.answer(
        "the largest version",
        &Ask::new("one admin", dense.propose(&NAME, u64::MAX)).by(ALICE),
    );
    m.answer(
        "another name with the same commitment",
        &Ask::new("active", dense.propose(&[0xFF; 32], 1)).by(ALICE),
    );
    // The caller and the zeros are looked at before the record.
    let short = |name: &Word, commitment: &Word| calldata::propose(name, 1, commitment, &[], &[]);
    let data = short(&NAME, &UNKNOWN);
    m.refuse(
        "propose, no admin",
        NotAdmin,
        &Ask::new("one admin", data.clone()),
    );
    m.refuse(
        "propose, no governance",
        NoGovernance,
        &Ask::new("empty", data.clone()).by(ALICE),
    );
    m.refuse(
        "propose, an admin of the older registry",
        NoGovernance,
        &Ask::new("older", data.clone()).by(ALICE),
    );
    m.refuse(
        "propose, an admin word that is not 1",
        NotAdmin,
        &Ask::new("older, governed", data).by(STRANGE),
    );
    let zero_name = short(&ZERO, &UNKNOWN);
    m.refuse(
        "propose, name zero",
        ZeroArgument,
        &Ask::new("one admin", zero_name.clone()).by(ALICE),
    );
    m.refuse(
        "propose, name zero, no admin",
        NotAdmin,
        &Ask::new("one admin", zero_name),
    );
    let zero = short(&NAME, &ZERO);
    m.refuse(
        "propose, commitment zero",
        ZeroArgument,
        &Ask::new("one admin", zero).by(ALICE),
    );
}

fn records(m: &mut Maker<'_>, dense: &Blob) {
    let with = |record: &[u8], proof: &[Word]| {
        let data = calldata::propose(&NAME, 1, &dense.commitment, record, proof);
        Ask::new("one admin", data).by(ALICE)
    };
    let flipped = |at: usize, bit: u8| {
        let mut record = dense.record().to_vec();
        record[at] ^= bit;
        record
    };
    let (record, proof) = (dense.record(), &dense.proof[..]);
    m.refuse(
        "record without its last byte",
        BadRecord,
        &with(&record[..1023], proof),
    );
    m.refuse("no record", BadRecord, &with(&[], proof));
    m.refuse(
        "record with the next byte of the blob",
        BadRecord,
        &with(&dense.bytes[..1025], proof),
    );
    for (name, at, bit) in [
        ("magic", 0, 1),
        ("spec version", 12, 2),
        ("total length", 17, 1),
        ("hidden", 29, 1),
        ("padding", 1023, 128),
    ] {
        let ask = with(&flipped(at, bit), proof);
        m.refuse(&format!("record, one bit of its {name}"), BadRecord, &ask);
    }
    for (name, at, bit) in [
        ("manifest length, within its padding", 25, 1),
        ("eps", 67, 1),
        ("tokenizer digest's end", 202, 128),
    ] {
        let ask = with(&flipped(at, bit), proof);
        m.refuse(&format!("record, one bit of its {name}"), BadProof, &ask);
    }
    for (i, name) in [(0, "first"), (proof.len() - 1, "last")] {
        let mut other = proof.to_vec();
        other[i][31] ^= 1;
        m.refuse(
            &format!("proof, one bit of its {name} hash"),
            BadProof,
            &with(record, &other),
        );
    }
    m.refuse(
        "proof without its last hash",
        BadProof,
        &with(record, &proof[..proof.len() - 1]),
    );
    m.refuse("no proof", BadProof, &with(record, &[]));
    m.refuse(
        "proof with one hash more",
        BadProof,
        &with(record, &[proof, &[ZERO]].concat()),
    );
    let other = calldata::propose(&NAME, 1, &UNKNOWN, record, proof);
    m.refuse(
        "another commitment",
        BadProof,
        &Ask::new("one admin", other).by(ALICE),
    );
    m.refuse(
        "the record before the version",
        BadProof,
        &Ask {
            state: "active",
            ..with(record, &[])
        },
    );
}

fn versions(m: &mut Maker<'_>, blobs: &[Blob]) {
    let dense = blob(blobs, "dense");
    let qk_norm = blob(blobs, "dense_qk_norm");
    let approve = |version, b: &Blob| calldata::approve(&NAME, version, &b.commitment);
    m.exact(
        "approve, the second vote",
        &Ask::new("open votes", approve(1, dense)).by(BOB),
    );
    m.answer(
        "approve after activation",
        &Ask::new("active", approve(4, dense)).by(CAROL),
    );
    m.answer(
        "one above the largest that passed",
        &Ask::new("active and pending", approve(6, dense)).by(ALICE),
    );
    for (name, state, version) in [
        ("version zero", "open votes", 0),
        ("the active version again", "active", 3),
        ("below the active version", "active", 2),
        ("the pending version again", "active and pending", 5),
        ("between active and pending", "active and pending", 4),
        (
            "the version of a replaced pending one",
            "pending replaced",
            5,
        ),
        ("the revoked version again", "revoked", 3),
        ("below an upgrade", "upgraded", 4),
    ] {
        let ask = Ask::new(state, approve(version, dense)).by(ALICE);
        m.refuse(name, VersionTooLow, &ask);
    }
    let old = |version| Ask::new("older, with a record", approve(version, dense)).by(ALICE);
    m.answer("above the version of the older registry", &old(4));
    m.refuse("the version of the older registry", VersionTooLow, &old(3));
    let data = dense.propose(&NAME, u64::MAX);
    m.refuse(
        "no version is above 2^64",
        VersionTooLow,
        &Ask::new("older, a version of 2^64", data).by(ALICE),
    );
    m.refuse(
        "approve, no record",
        NoRecord,
        &Ask::new("open votes", approve(1, qk_norm)).by(BOB),
    );
    m.refuse(
        "approve, no admin",
        NotAdmin,
        &Ask::new("open votes", approve(1, dense)).by(DAVE),
    );
    let zero = calldata::approve(&ZERO, 1, &dense.commitment);
    m.refuse(
        "approve, name zero",
        ZeroArgument,
        &Ask::new("open votes", zero).by(BOB),
    );
    let zero = calldata::approve(&NAME, 1, &ZERO);
    m.refuse(
        "approve, commitment zero",
        ZeroArgument,
        &Ask::new("open votes", zero).by(BOB),
    );
}

fn activation(m: &mut Maker<'_>) {
    let activate = |state, version| {
        Ask::new(
            state,
            calldata::of_version(Function::Activate, &NAME, version),
        )
    };
    m.refuse(
        "activate one block early",
        TooEarly,
        &activate("waiting", 3),
    );
    m.exact(
        "activate on time, by anyone",
        &activate("waiting", 3).at(10 + DELAY),
    );
    m.answer(
        "activate in the last block there is",
        &activate("waiting", 3).at(u64::MAX),
    );
    m.answer(
        "activate an upgrade",
        &activate("active and pending", 5).at(25),
    );
    m.answer(
        "activate the one that replaced",
        &activate("pending replaced", 6).at(25),
    );
    for (name, state, version) in [
        ("activate twice", "active", 3),
        ("activate with nothing there", "empty", 1),
        ("activate version zero", "empty", 0),
        ("activate version zero of a name in use", "active", 0),
        ("activate another version", "waiting", 4),
        ("activate a replaced version", "pending replaced", 5),
        ("activate what only has votes", "open votes", 1),
    ] {
        m.refuse(name, NothingPending, &activate(state, version).at(1000));
    }
    let other = calldata::of_version(Function::Activate, &number(2), 3);
    m.refuse(
        "activate another name",
        NothingPending,
        &Ask::new("waiting", other).at(15),
    );
    let revoke = |state, version| {
        Ask::new(
            state,
            calldata::of_version(Function::Revoke, &NAME, version),
        )
    };
    m.answer("revoke, the first vote", &revoke("active", 3).by(CAROL));
    m.exact(
        "revoke the active version",
        &revoke("active, one vote to revoke", 3).by(BOB),
    );
    m.answer(
        "revoke the pending version",
        &revoke("waiting, one vote to revoke", 3).by(CAROL),
    );
    m.answer(
        "a vote against the pending one",
        &revoke("active and pending", 5).by(ALICE),
    );
    m.answer(
        "a vote against the active one",
        &revoke("active and pending", 3).by(ALICE),
    );
    for (name, state, version) in [
        ("revoke twice", "revoked", 3),
        ("revoke with nothing there", "three admins", 1),
        ("revoke version zero", "three admins", 0),
        ("revoke the version before", "upgraded", 3),
        ("revoke a replaced pending version", "pending replaced", 5),
        ("revoke another version", "active", 2),
    ] {
        m.refuse(name, NothingToRevoke, &revoke(state, version).by(ALICE));
    }
    m.refuse("revoke, no admin", NotAdmin, &revoke("active", 3));
    m.answer(
        "revoke what the older registry holds",
        &revoke("older, governed", 3).by(ALICE),
    );
}

fn views(m: &mut Maker<'_>, blobs: &[Blob]) {
    use Function::*;
    let of = |function, word: &Word| calldata::view(function, Some(word));
    let dense = blob(blobs, "dense");
    for (name, state, data) in [
        (
            "governance, none",
            "empty",
            calldata::view(Governance, None),
        ),
        (
            "governance",
            "three admins",
            calldata::view(Governance, None),
        ),
        (
            "governance, another epoch",
            "another epoch",
            calldata::view(Governance, None),
        ),
        (
            "isAdmin, at the published slot",
            "older",
            of(IsAdmin, &of_address(&ALICE)),
        ),
        (
            "isAdmin, a word of 2",
            "older",
            of(IsAdmin, &of_address(&STRANGE)),
        ),
        (
            "isAdmin, none",
            "three admins",
            of(IsAdmin, &of_address(&MALLORY)),
        ),
        (
            "isAdmin, the zero address",
            "three admins",
            of(IsAdmin, &ZERO),
        ),
        (
            "getApproved, at the published slots",
            "older",
            of(GetApproved, &NAME),
        ),
        ("getApproved, none", "empty", of(GetApproved, &NAME)),
        ("getApproved, active", "active", of(GetApproved, &NAME)),
        ("getApproved, revoked", "revoked", of(GetApproved, &NAME)),
        (
            "getApproved, 2^64",
            "older, a version of 2^64",
            of(GetApproved, &NAME),
        ),
        ("pending, none", "active", of(Pending, &NAME)),
        ("pending", "active and pending", of(Pending, &NAME)),
        ("pending, replaced", "pending replaced", of(Pending, &NAME)),
        ("highestVersion, none", "empty", of(HighestVersion, &NAME)),
        (
            "highestVersion, of the pending one",
            "active and pending",
            of(HighestVersion, &NAME),
        ),
        (
            "highestVersion, revoked",
            "revoked",
            of(HighestVersion, &NAME),
        ),
        (
            "highestVersion, of the older registry",
            "older",
            of(HighestVersion, &NAME),
        ),
        (
            "highestVersion, 2^64",
            "older, a version of 2^64",
            of(HighestVersion, &NAME),
        ),
        (
            "isRevoked",
            "revoked",
            calldata::of_version(IsRevoked, &NAME, 3),
        ),
        (
            "isRevoked, adopted anew",
            "adopted anew",
            calldata::of_version(IsRevoked, &NAME, 3),
        ),
        (
            "isRevoked, no",
            "adopted anew",
            calldata::of_version(IsRevoked, &NAME, 4),
        ),
        (
            "activationCount, none",
            "empty",
            calldata::view(ActivationCount, None),
        ),
        (
            "activationCount",
            "models",
            calldata::view(ActivationCount, None),
        ),
        (
            "activation, the first",
            "models",
            of(Activation, &of_u64(0)),
        ),
        ("activation, the last", "models", of(Activation, &of_u64(5))),
        (
            "activation of what was revoked",
            "revoked",
            of(Activation, &of_u64(0)),
        ),
        (
            "activation of what was replaced",
            "upgraded",
            of(Activation, &of_u64(0)),
        ),
        ("tally, none", "empty", of(Tally, &NAME)),
    ] {
        m.answer(name, &Ask::new(state, data).fixed());
    }
    for b in blobs {
        let data = of(Record, &b.commitment);
        m.answer(&format!("record of {}", b.name), &Ask::new("models", data));
    }
    let adopt = Action::Adopt {
        name: NAME,
        version: 1,
        commitment: dense.commitment,
    };
    for (name, state, epoch) in [
        ("tally of an open round", "open votes", 0),
        ("tally of another epoch", "another epoch", 1),
        ("tally of the epoch before", "another epoch", 0),
        ("tally of two of three votes", "two of three votes", 0),
    ] {
        m.answer(name, &Ask::new(state, of(Tally, &adopt.id(epoch))));
    }
    let revoke = Action::Revoke {
        name: NAME,
        version: 3,
    };
    let passed = Ask::new("revoked", of(Tally, &revoke.id(0)));
    m.answer("tally of a round that passed", &passed);
    m.refuse(
        "record, none",
        NoRecord,
        &Ask::new("models", of(Record, &UNKNOWN)),
    );
    m.refuse(
        "record, zero",
        NoRecord,
        &Ask::new("empty", of(Record, &ZERO)),
    );
    let end = of(Activation, &of_u64(6));
    m.refuse(
        "activation, one past the last",
        NoSuchActivation,
        &Ask::new("models", end),
    );
    let end = of(Activation, &of_u64(0));
    m.refuse(
        "activation, an empty list",
        NoSuchActivation,
        &Ask::new("empty", end),
    );
    let end = of(Activation, &of_u64(u64::MAX));
    m.refuse(
        "activation, the largest index",
        NoSuchActivation,
        &Ask::new("models", end),
    );
}
