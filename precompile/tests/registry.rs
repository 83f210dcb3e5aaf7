//! The registry: votes, activation, history, and what attackers and careless admins try.

mod common;

use common::*;
use int_engine::commitment::Commitment;
use precompile::registry::{Action, Function, Governance};
use precompile::word::{Address, Word, ZERO, of_address, of_u64};
use precompile::{Refusal, calldata, slots};

#[test]
fn an_adoption_from_the_first_vote_to_the_answer() {
    let (a, _) = blobs();
    let mut chain = chain3(&[&a]);
    assert!(!truth(&chain.registry(ALICE, &a.propose(&NAME, 7))));
    assert_eq!(approved(&mut chain), (0, ZERO));
    assert_eq!(view(&mut chain, Function::Pending, Some(&NAME)), [ZERO; 3]);
    chain.state.block = 10;
    assert!(truth(&chain.registry(BOB, &approve(&a, 7))));
    let pending = view(&mut chain, Function::Pending, Some(&NAME));
    assert_eq!(pending, [of_u64(7), a.commitment.0, of_u64(10 + DELAY)]);
    assert_eq!(approved(&mut chain), (0, ZERO));

    chain.state.block = 10 + DELAY - 1;
    reverted(&chain.registry(MALLORY, &activate(7)), Refusal::TooEarly);
    chain.state.block = 10 + DELAY;
    let index = returned(&chain.registry(MALLORY, &activate(7)));
    assert_eq!(index, of_u64(0));
    assert_eq!(approved(&mut chain), (7, a.commitment.0));
    reverted(
        &chain.registry(MALLORY, &activate(7)),
        Refusal::NothingPending,
    );

    assert_eq!(
        view(&mut chain, Function::ActivationCount, None),
        [of_u64(1)]
    );
    assert_eq!(
        view(&mut chain, Function::Activation, Some(&of_u64(0))),
        [NAME, of_u64(7), a.commitment.0, of_u64(10 + DELAY)]
    );
    let none = calldata::view(Function::Activation, Some(&of_u64(1)));
    reverted(&chain.registry(MALLORY, &none), Refusal::NoSuchActivation);
    returned(&chain.infer(&calldata::generate(&NAME, &a.commitment.0, &[1], 2)));

    // Events: two votes, the passing, the activation; signature and indexed words.
    let topic = |event: &str| int_engine::commitment::keccak256(event.as_bytes());
    let voted = topic("Voted(bytes32,address,uint8,bytes32,bytes32,bytes32,uint64,uint32)");
    let action = Action::Adopt {
        name: NAME,
        version: 7,
        commitment: a.commitment.0,
    }
    .id(0);
    let topics: Vec<_> = chain.state.logs.iter().map(|(t, _)| t.clone()).collect();
    let adoption = [NAME, of_u64(7), a.commitment.0];
    let passed = topic("Passed(bytes32,uint64,bytes32,uint64)");
    let activated = topic("Activated(bytes32,uint64,bytes32,uint64)");
    let expected = [
        vec![voted, action, of_address(&ALICE)],
        vec![voted, action, of_address(&BOB)],
        [&[passed], &adoption[..]].concat(),
        [&[activated], &adoption[..]].concat(),
    ];
    assert_eq!(topics, expected);
    let data = &chain.state.logs[1].1;
    let words = [
        of_u64(1),
        NAME,
        of_u64(7),
        a.commitment.0,
        of_u64(2),
        of_u64(2),
    ];
    assert_eq!(*data, words.concat());
    assert_eq!(chain.state.logs[2].1, of_u64(10 + DELAY));
}

#[test]
fn nobody_adopts_what_has_no_record() {
    let (a, b) = blobs();
    let mut chain = chain3(&[&a, &b]);
    let random = [0x5A; 32];
    let vote = calldata::approve(&NAME, 1, &random);
    reverted(&chain.registry(ALICE, &vote), Refusal::NoRecord);
    halted(
        &chain.registry(ALICE, &legacy(1, &[NAME, of_u64(1), random])),
        Refusal::NoRecord,
    );
    // Another blob's record, proof or commitment; a bit of each.
    let record = a.bytes[..1024].to_vec();
    let propose = |commitment: &Word, record: &[u8], proof: &[Word]| {
        calldata::propose(&NAME, 1, commitment, record, proof)
    };
    let bad_proofs = [
        propose(&random, &record, &a.proof),
        propose(&b.commitment.0, &record, &a.proof),
        propose(&a.commitment.0, &record, &b.proof),
        propose(&a.commitment.0, &record, &[]),
        propose(&a.commitment.0, &record, &[&a.proof[..], &[ZERO]].concat()),
    ];
    for data in bad_proofs {
        reverted(&chain.registry(ALICE, &data), Refusal::BadProof);
    }
    for bit in 0..8 * a.proof.len() * 32 {
        let mut proof = a.proof.clone();
        proof[bit / 256][bit / 8 % 32] ^= 1 << (bit % 8);
        let data = propose(&a.commitment.0, &record, &proof);
        reverted(&chain.registry(ALICE, &data), Refusal::BadProof);
    }
    // Every byte of the record is bound: a change is no record, or not the commitment's.
    for at in 0..1024 {
        let mut record = record.clone();
        record[at] ^= 1;
        let data = propose(&a.commitment.0, &record, &a.proof);
        let outcome = chain.registry(ALICE, &data);
        let refusal = outcome.refusal().expect("refused");
        assert!(
            [Refusal::BadRecord, Refusal::BadProof].contains(&refusal),
            "{at}"
        );
    }
    for len in [0, 1023, 1025, 2048] {
        let data = propose(&a.commitment.0, &vec![0; len], &a.proof);
        reverted(&chain.registry(ALICE, &data), Refusal::BadRecord);
    }
    assert!(chain.state.logs.is_empty());
    assert!(!truth(&chain.registry(ALICE, &a.propose(&NAME, 1))));
}

#[test]
fn the_stored_record_is_the_blobs() {
    let (a, _) = blobs();
    let mut chain = chain3(&[]);
    let ask = calldata::view(Function::Record, Some(&a.commitment.0));
    reverted(&chain.registry(MALLORY, &ask), Refusal::NoRecord);
    chain.registry(ALICE, &a.propose(&NAME, 1));
    let words = view(&mut chain, Function::Record, Some(&a.commitment.0));
    let d = a.record.config.dims();
    let numbers = [
        d.hidden,
        d.layers,
        d.heads,
        d.kv_heads,
        d.head_dim,
        d.intermediate,
        d.vocab,
        d.accepted_ids,
        d.max_context,
        1,
        1,
        1,
        1,
        a.bytes.len() as u32,
        a.record.manifest_len,
    ];
    let mut expected: Vec<_> = numbers.into_iter().map(|n| of_u64(n.into())).collect();
    expected.push(a.record.tokenizer_digest);
    expected.extend([17 * 32, 3, 3, 11, 30].map(of_u64));
    assert_eq!(words, expected);
}

#[test]
fn all_sixteen_stop_ids_are_stored() {
    let mut dims = small();
    dims.stop_ids = (0..16).map(|i| 2 * i + 1).collect();
    let blob = Blob::sample(dims.clone(), 3);
    let mut chain = chain3(&[]);
    chain.registry(ALICE, &blob.propose(&NAME, 1));
    let words = view(&mut chain, Function::Record, Some(&blob.commitment.0));
    let ids: Vec<_> = dims.stop_ids.iter().map(|&id| of_u64(id.into())).collect();
    assert_eq!(words[17], of_u64(16));
    assert_eq!(words[18..], ids);
}

#[test]
fn an_admin_votes_once_in_a_round_and_rounds_end() {
    let (a, _) = blobs();
    let mut chain = chain3(&[]);
    chain.registry(ALICE, &a.propose(&NAME, 1));
    reverted(
        &chain.registry(ALICE, &a.propose(&NAME, 1)),
        Refusal::AlreadyVoted,
    );
    reverted(
        &chain.registry(ALICE, &approve(&a, 1)),
        Refusal::AlreadyVoted,
    );
    reverted(&chain.registry(MALLORY, &approve(&a, 1)), Refusal::NotAdmin);
    // The last block of the round, and the one after it.
    chain.state.block = 1 + WINDOW;
    let mut late = chain.clone();
    assert!(truth(&chain.registry(BOB, &approve(&a, 1))));
    late.state.block += 1;
    assert!(!truth(&late.registry(BOB, &approve(&a, 1))));
    let action = Action::Adopt {
        name: NAME,
        version: 1,
        commitment: a.commitment.0,
    };
    let tally = view(&mut late, Function::Tally, Some(&action.id(0)));
    assert_eq!(tally, [of_u64(2), of_u64(2 + 2 * WINDOW), of_u64(1)]);
    assert!(truth(&late.registry(ALICE, &approve(&a, 1))));
}

#[test]
fn versions_only_rise() {
    let (a, b) = blobs();
    let mut chain = chain3(&[]);
    let pass = |chain: &mut Chain, blob: &Blob, version| {
        chain.registry(ALICE, &blob.propose(&NAME, version));
        assert!(truth(&chain.registry(BOB, &approve(blob, version))));
    };
    reverted(
        &chain.registry(ALICE, &a.propose(&NAME, 0)),
        Refusal::VersionTooLow,
    );
    pass(&mut chain, &a, 5);
    for version in [0, 4, 5] {
        let outcome = chain.registry(CAROL, &b.propose(&NAME, version));
        reverted(&outcome, Refusal::VersionTooLow);
    }
    // A later one takes the place of the one that waits.
    pass(&mut chain, &b, 6);
    chain.state.block += DELAY;
    reverted(
        &chain.registry(MALLORY, &activate(5)),
        Refusal::NothingPending,
    );
    chain.activate(&NAME, 6);
    assert_eq!(approved(&mut chain), (6, b.commitment.0));
    // Revoked numbers do not come back either.
    chain.registry(ALICE, &revoke(6));
    assert!(truth(&chain.registry(CAROL, &revoke(6))));
    assert_eq!(approved(&mut chain), (6, ZERO));
    reverted(
        &chain.registry(ALICE, &b.propose(&NAME, 6)),
        Refusal::VersionTooLow,
    );
    let highest = view(&mut chain, Function::HighestVersion, Some(&NAME));
    assert_eq!(highest, [of_u64(6)]);
    // The largest version is the last one.
    pass(&mut chain, &a, u64::MAX);
    chain.state.block += DELAY;
    chain.activate(&NAME, u64::MAX);
    reverted(
        &chain.registry(ALICE, &a.propose(&NAME, u64::MAX)),
        Refusal::VersionTooLow,
    );
    // Another name has its own.
    assert!(!truth(&chain.registry(ALICE, &a.propose(&[8; 32], 1))));
}

#[test]
fn revocation_takes_the_active_or_the_pending_one_and_brings_nothing_back() {
    let (a, b) = blobs();
    let mut chain = Chain::single(&[&a, &b]);
    chain.adopt(&NAME, 1, &a);
    chain.adopt(&NAME, 2, &b);
    reverted(&chain.registry(ALICE, &revoke(1)), Refusal::NothingToRevoke);
    reverted(&chain.registry(ALICE, &revoke(3)), Refusal::NothingToRevoke);
    reverted(&chain.registry(ALICE, &revoke(0)), Refusal::NothingToRevoke);
    returned(&chain.registry(ALICE, &a.propose(&NAME, 3)));
    assert!(truth(&chain.registry(ALICE, &revoke(3))));
    chain.state.block += DELAY;
    reverted(
        &chain.registry(ALICE, &activate(3)),
        Refusal::NothingPending,
    );
    assert_eq!(approved(&mut chain), (2, b.commitment.0));
    reverted(&chain.registry(MALLORY, &revoke(2)), Refusal::NotAdmin);
    assert!(truth(&chain.registry(ALICE, &revoke(2))));
    assert_eq!(approved(&mut chain), (2, ZERO));
    reverted(&chain.registry(ALICE, &revoke(2)), Refusal::NothingToRevoke);
    let ask = calldata::generate(&NAME, &ZERO, &[1], 1);
    reverted(&chain.infer(&ask), Refusal::NoActiveModel);
    for (version, revoked) in [(1, false), (2, true), (3, true), (4, false)] {
        let ask = calldata::of_version(Function::IsRevoked, &NAME, version);
        assert_eq!(truth(&chain.registry(MALLORY, &ask)), revoked, "{version}");
    }
    // History keeps what was ever active: two activations.
    assert_eq!(
        view(&mut chain, Function::ActivationCount, None),
        [of_u64(2)]
    );
    chain.adopt(&NAME, 4, &a);
    returned(&chain.infer(&ask));
}

#[test]
fn open_votes_die_with_a_change_of_admins_or_quorum() {
    let (a, _) = blobs();
    let mut chain = chain3(&[]);
    let admin = |address: &Address, enabled| calldata::set_admin(address, enabled);
    // CAROL votes, is removed, and her vote does not count any more.
    chain.registry(CAROL, &a.propose(&NAME, 1));
    chain.registry(ALICE, &admin(&CAROL, false));
    assert!(truth(&chain.registry(BOB, &admin(&CAROL, false))));
    reverted(&chain.registry(CAROL, &approve(&a, 1)), Refusal::NotAdmin);
    assert!(!truth(&chain.registry(ALICE, &approve(&a, 1))));
    // Neither does that of an admin who was put back.
    chain.registry(ALICE, &admin(&CAROL, true));
    assert!(truth(&chain.registry(BOB, &admin(&CAROL, true))));
    assert!(!truth(&chain.registry(CAROL, &approve(&a, 1))));
    // Nor votes under another quorum.
    chain.registry(ALICE, &calldata::set_quorum(3));
    assert!(truth(&chain.registry(BOB, &calldata::set_quorum(3))));
    assert!(!truth(&chain.registry(ALICE, &approve(&a, 1))));
    assert!(!truth(&chain.registry(BOB, &approve(&a, 1))));
    assert!(truth(&chain.registry(CAROL, &approve(&a, 1))));
    let governance = view(&mut chain, Function::Governance, None);
    assert_eq!(governance, [3, 3, DELAY, WINDOW, 3].map(of_u64));
}

#[test]
fn nobody_locks_the_registry() {
    let mut chain = Chain::new(&[ALICE, BOB], 2);
    let leave = calldata::set_admin(&ALICE, false);
    reverted(&chain.registry(ALICE, &leave), Refusal::LockOut);
    halted(
        &chain.registry(ALICE, &legacy(4, &[of_address(&ALICE), ZERO])),
        Refusal::LockOut,
    );
    for (quorum, refusal) in [
        (0, Refusal::QuorumOutOfRange),
        (1, Refusal::QuorumOutOfRange),
        (3, Refusal::QuorumOutOfRange),
        (u32::MAX, Refusal::QuorumOutOfRange),
        (2, Refusal::NoChange),
    ] {
        let outcome = chain.registry(ALICE, &calldata::set_quorum(quorum));
        reverted(&outcome, refusal);
    }
    reverted(
        &chain.registry(ALICE, &calldata::set_admin(&[0; 20], true)),
        Refusal::ZeroArgument,
    );
    reverted(
        &chain.registry(ALICE, &calldata::set_admin(&BOB, true)),
        Refusal::NoChange,
    );
    reverted(
        &chain.registry(ALICE, &calldata::set_admin(&CAROL, false)),
        Refusal::NoChange,
    );

    // Three of three: nobody can go.
    let mut chain = Chain::new(&[ALICE, BOB, CAROL], 3);
    for admin in [ALICE, CAROL] {
        let leave = calldata::set_admin(&admin, false);
        reverted(&chain.registry(BOB, &leave), Refusal::LockOut);
    }

    // A word that is neither 0 nor 1 makes no admin, and clearing it takes nobody from the count.
    let mut chain = Chain::new(&[ALICE, BOB, CAROL], 2);
    let two = of_u64(2);
    chain.state.storage.insert(slots::admin(&MALLORY), two);
    reverted(&chain.registry(MALLORY, &leave), Refusal::NotAdmin);
    let ask = calldata::view(Function::IsAdmin, Some(&of_address(&MALLORY)));
    assert!(!truth(&chain.registry(BOB, &ask)));
    let clear = calldata::set_admin(&MALLORY, false);
    chain.registry(ALICE, &clear);
    assert!(truth(&chain.registry(BOB, &clear)));
    assert_eq!(view(&mut chain, Function::Governance, None)[0], of_u64(3));

    // A single admin of a chain that chose so can share power, and never take it back.
    let mut chain = Chain::new(&[ALICE], 1);
    reverted(&chain.registry(ALICE, &leave), Refusal::LockOut);
    assert!(truth(
        &chain.registry(ALICE, &calldata::set_admin(&BOB, true))
    ));
    assert!(truth(&chain.registry(ALICE, &calldata::set_quorum(2))));
    reverted(
        &chain.registry(ALICE, &calldata::set_quorum(1)),
        Refusal::QuorumOutOfRange,
    );
    assert!(!truth(
        &chain.registry(ALICE, &calldata::set_admin(&CAROL, true))
    ));
}

#[test]
fn a_chain_without_a_governance_word_has_no_votes() {
    let (a, _) = blobs();
    let mut chain = Chain::single(&[]);
    chain.state.storage.remove(&slots::governance());
    reverted(
        &chain.registry(ALICE, &a.propose(&NAME, 1)),
        Refusal::NoGovernance,
    );
    halted(
        &chain.registry(ALICE, &legacy(4, &[of_address(&BOB), of_u64(1)])),
        Refusal::NoGovernance,
    );
    assert_eq!(view(&mut chain, Function::Governance, None), [ZERO; 5]);
}

#[test]
fn the_governance_word_has_its_fields_in_order() {
    let governance = Governance {
        admins: 1,
        quorum: 1,
        delay: DELAY,
        window: WINDOW,
        epoch: 0,
    };
    let chain = Chain::single(&[]);
    let word = chain.state.storage[&slots::governance()];
    assert_eq!(word, governance.to_word());
    assert!(
        Commitment(word)
            .to_string()
            .starts_with("0x0000000100000001")
    );
}
