//! Attacks on the registry, by transactions.

use crate::bytecode::{Kind, Report, forward, forwarder};
use crate::chain::{ALICE, BOB, Blob, CAROL, DELAY, MALLORY, NAME, WINDOW, small};
use crate::world::{Done, SENDER, World};
use precompile::registry::Function as Registry;
use precompile::word::{Address, Word, ZERO, of_address, of_u64};
use precompile::{REGISTRY, Refusal, calldata};

fn passed(done: &Done, expected: bool) {
    assert_eq!(done.returned(), of_u64(expected.into()));
}

fn legacy(selector: u8, words: &[Word]) -> Vec<u8> {
    [&[selector, 0, 0, 0][..], &words.concat()].concat()
}

fn pending(world: &World) -> (Word, Word) {
    let data = calldata::view(Registry::Pending, Some(&NAME));
    let done = world.dry(world.tx(SENDER, REGISTRY, &data));
    let word = |i: usize| done.returned()[32 * i..32 * i + 32].try_into().unwrap();
    (word(0), word(1))
}

fn is_admin(world: &World, admin: &Address) -> bool {
    let data = calldata::view(Registry::IsAdmin, Some(&of_address(admin)));
    world.dry(world.tx(SENDER, REGISTRY, &data)).returned()[31] == 1
}

/// Three admins, two of whom decide, and a model that is active.
fn three() -> (World, Blob) {
    let blob = Blob::sample(small(), 3);
    let mut world = World::new(&[ALICE, BOB, CAROL], 2);
    world.models.load(&blob);
    passed(&world.registry(ALICE, &blob.propose(&NAME, 1)), false);
    passed(&world.registry(BOB, &blob.propose(&NAME, 1)), true);
    world.pass_blocks(DELAY);
    world.activate(&NAME, 1).returned();
    (world, blob)
}

#[test]
fn a_hash_without_a_record_is_not_adopted() {
    let (mut world, blob) = three();
    let random = [0xbd; 32];
    let approve = calldata::approve(&NAME, 2, &random);
    world.registry(ALICE, &approve).reverted(Refusal::NoRecord);
    world
        .registry(ALICE, &legacy(1, &[NAME, of_u64(2), random]))
        .halted();
    let record = &blob.bytes[..1024];
    let foreign = calldata::propose(&NAME, 2, &random, record, &blob.proof);
    world.registry(ALICE, &foreign).reverted(Refusal::BadProof);
    let mut bad = record.to_vec();
    bad[0] ^= 1;
    let broken = calldata::propose(&NAME, 2, &blob.commitment.0, &bad, &blob.proof);
    world.registry(ALICE, &broken).reverted(Refusal::BadRecord);
    let zero = calldata::approve(&NAME, 2, &ZERO);
    world.registry(ALICE, &zero).reverted(Refusal::ZeroArgument);
}

#[test]
fn versions_only_rise() {
    let (mut world, blob) = three();
    let approve = |version| calldata::approve(&NAME, version, &blob.commitment.0);
    passed(&world.registry(ALICE, &approve(9)), false);
    passed(&world.registry(BOB, &approve(9)), true);
    for version in [0, 1, 8, 9] {
        let done = world.registry(ALICE, &approve(version));
        done.reverted(Refusal::VersionTooLow);
        let words = [NAME, of_u64(version), blob.commitment.0];
        world.registry(ALICE, &legacy(1, &words)).halted();
    }
    let words = [NAME, [0xff; 32], blob.commitment.0];
    world.registry(ALICE, &legacy(1, &words)).halted();
}

#[test]
fn nobody_is_locked_out() {
    let mut world = World::new(&[ALICE], 1);
    let leave = calldata::set_admin(&ALICE, false);
    world.registry(ALICE, &leave).reverted(Refusal::LockOut);
    let words = [of_address(&ALICE), ZERO];
    world.registry(ALICE, &legacy(4, &words)).halted();
    let mut world = World::new(&[ALICE, BOB], 2);
    world.registry(ALICE, &leave).reverted(Refusal::LockOut);
    for quorum in [0, 1, 3, u32::MAX] {
        let done = world.registry(ALICE, &calldata::set_quorum(quorum));
        done.reverted(Refusal::QuorumOutOfRange);
    }
    assert!(is_admin(&world, &ALICE) && is_admin(&world, &BOB));
}

#[test]
fn legacy_functions_pass_by_no_quorum_and_no_delay() {
    let (mut world, blob) = three();
    let other = Blob::sample(small(), 4);
    world.models.load(&other);
    let adopt = legacy(1, &[NAME, of_u64(2), other.commitment.0]);
    world.registry(ALICE, &adopt).halted();
    // With the record there it is a vote like any other.
    passed(&world.registry(CAROL, &other.propose(&NAME, 3)), false);
    passed(&world.registry(ALICE, &adopt), true);
    assert_eq!(pending(&world), (ZERO, ZERO));
    world.registry(ALICE, &adopt).halted();
    passed(&world.registry(BOB, &adopt), true);
    assert_eq!(pending(&world), (of_u64(2), other.commitment.0));
    world.activate(&NAME, 2).reverted(Refusal::TooEarly);
    let approved = world.registry(SENDER, &legacy(2, &[NAME]));
    assert_eq!(approved.returned()[32..], blob.commitment.0);
    // An admin alone makes no admin.
    let appoint = legacy(4, &[of_address(&MALLORY), of_u64(1)]);
    world.registry(MALLORY, &appoint).halted();
    passed(&world.registry(ALICE, &appoint), true);
    assert!(!is_admin(&world, &MALLORY));
    world.registry(ALICE, &appoint).halted();
    passed(&world.registry(CAROL, &appoint), true);
    assert!(is_admin(&world, &MALLORY));
}

#[test]
fn activations_race() {
    let (mut world, blob) = three();
    let approve = |version| calldata::approve(&NAME, version, &blob.commitment.0);
    world.registry(ALICE, &approve(2));
    passed(&world.registry(BOB, &approve(2)), true);
    world.activate(&NAME, 2).reverted(Refusal::TooEarly);
    world.pass_blocks(DELAY);
    // Version 3 takes the place of 2 in the block in which 2 could be activated.
    let mut replaced = world.clone();
    replaced.registry(ALICE, &approve(3));
    passed(&replaced.registry(BOB, &approve(3)), true);
    replaced
        .activate(&NAME, 2)
        .reverted(Refusal::NothingPending);
    replaced.activate(&NAME, 3).reverted(Refusal::TooEarly);
    // Two activations in one block.
    world.activate(&NAME, 2).returned();
    world.activate(&NAME, 2).reverted(Refusal::NothingPending);
    world.activate(&NAME, 0).reverted(Refusal::NothingPending);
    let count = calldata::view(Registry::ActivationCount, None);
    let done = world.dry(world.tx(SENDER, REGISTRY, &count));
    assert_eq!(done.returned(), of_u64(2));
}

#[test]
fn what_is_revoked_stays_away() {
    let (mut world, blob) = three();
    let approve = |version| calldata::approve(&NAME, version, &blob.commitment.0);
    let revoke = |version| calldata::of_version(Registry::Revoke, &NAME, version);
    let generate = calldata::generate(&NAME, &ZERO, &[1], 1);
    // A pending version.
    world.registry(ALICE, &approve(2));
    passed(&world.registry(BOB, &approve(2)), true);
    world
        .registry(MALLORY, &revoke(2))
        .reverted(Refusal::NotAdmin);
    passed(&world.registry(ALICE, &revoke(2)), false);
    passed(&world.registry(CAROL, &revoke(2)), true);
    world.pass_blocks(DELAY);
    world.activate(&NAME, 2).reverted(Refusal::NothingPending);
    world.infer(&generate).returned();
    // The active one: none comes back in its place.
    passed(&world.registry(ALICE, &revoke(1)), false);
    passed(&world.registry(CAROL, &revoke(1)), true);
    world.infer(&generate).reverted(Refusal::NoActiveModel);
    world.activate(&NAME, 1).reverted(Refusal::NothingPending);
    for version in [1, 2] {
        let done = world.registry(ALICE, &approve(version));
        done.reverted(Refusal::VersionTooLow);
        let done = world.registry(ALICE, &revoke(version));
        done.reverted(Refusal::NothingToRevoke);
    }
}

#[test]
fn votes_do_not_outlive_the_admins_they_were_given_under() {
    let (mut world, blob) = three();
    let approve = calldata::approve(&NAME, 2, &blob.commitment.0);
    passed(&world.registry(ALICE, &approve), false);
    world
        .registry(ALICE, &approve)
        .reverted(Refusal::AlreadyVoted);
    let remove = calldata::set_admin(&ALICE, false);
    passed(&world.registry(BOB, &remove), false);
    passed(&world.registry(CAROL, &remove), true);
    world.registry(ALICE, &approve).reverted(Refusal::NotAdmin);
    passed(&world.registry(BOB, &approve), false);
    // The removal does not happen again, though both votes for it are in the storage.
    world.registry(BOB, &remove).reverted(Refusal::NoChange);
    passed(&world.registry(CAROL, &approve), true);
    // A vote of a closed round counts for nothing.
    let approve = calldata::approve(&NAME, 3, &blob.commitment.0);
    passed(&world.registry(BOB, &approve), false);
    world.pass_blocks(WINDOW + 1);
    passed(&world.registry(CAROL, &approve), false);
    passed(&world.registry(BOB, &approve), true);
}

/// An admin that is led to call somebody's contract votes for nothing by that.
#[test]
fn an_admins_power_is_not_borrowed() {
    let (mut world, blob) = three();
    world.contract(MALLORY, &forwarder());
    let approve = calldata::approve(&NAME, 2, &blob.commitment.0);
    for kind in Kind::ALL {
        let data = forward(kind, 1_000_000, 0, &REGISTRY, &approve);
        let done = world.dry(world.tx(ALICE, MALLORY, &data));
        let report = Report::of(done.returned());
        assert!(!report.success, "{kind:?}");
        done.left_no_trace();
        let expected = match kind {
            Kind::Call => precompile::revert_data(Refusal::NotAdmin),
            _ => vec![],
        };
        assert_eq!(report.output, expected);
    }
    // An admin's own delegation (EIP-7702) to such a contract is its own code.
    let designation = [&[0xef, 0x01, 0x00][..], &MALLORY].concat();
    world.contract(ALICE, &designation);
    let data = forward(Kind::Call, 1_000_000, 0, &REGISTRY, &approve);
    let done = world.dry(world.tx(SENDER, ALICE, &data));
    assert!(Report::of(done.returned()).success);
}
