//! The registry's legacy functions: reads as on other chains, writes under the new checks.

mod common;

use common::*;
use precompile::registry::Function;
use precompile::word::{ZERO, of_address, of_u64};
use precompile::{Call, Outcome, Refusal, Target, calldata, slots};

#[test]
fn legacy_reads_are_those_of_other_chains() {
    let mut chain = Chain::new(&[ALICE], 1);
    // A state that the older rules have written.
    chain.state.storage.insert(slots::version(&NAME), of_u64(3));
    chain
        .state
        .storage
        .insert(slots::commitment(&NAME), [0xCD; 32]);
    let read = |chain: &mut Chain, data: &[u8], gas| {
        let call = Call {
            is_static: true,
            ..Call::new(Target::Registry, data, gas, MALLORY)
        };
        chain.run(&call)
    };
    let get = legacy(2, &[NAME]);
    let expected = Outcome::Return {
        gas_used: 5_000,
        output: [of_u64(3), [0xCD; 32]].concat(),
    };
    assert_eq!(read(&mut chain, &get, 5_000), expected);
    assert_eq!(
        read(&mut chain, &[&get[..], &[1, 2, 3]].concat(), 5_000),
        expected
    );
    halted(&read(&mut chain, &get, 4_999), Refusal::OutOfGas);
    let unknown = legacy(2, &[[9; 32]]);
    assert_eq!(returned(&read(&mut chain, &unknown, 5_000)), [0; 64]);
    let mut dirty = of_address(&ALICE);
    dirty[0] = 1;
    for (word, admin) in [(of_address(&ALICE), 1), (dirty, 1), (of_address(&BOB), 0)] {
        let outcome = read(&mut chain, &legacy(3, &[word]), 3_000);
        let output = of_u64(admin).to_vec();
        assert_eq!(
            outcome,
            Outcome::Return {
                gas_used: 3_000,
                output
            }
        );
    }
    halted(
        &read(&mut chain, &legacy(3, &[ALICE_WORD]), 2_999),
        Refusal::OutOfGas,
    );
    for (data, refusal) in [
        (vec![], Refusal::InputTooShort),
        (vec![2, 0, 0], Refusal::InputTooShort),
        (legacy(2, &[])[..4].to_vec(), Refusal::InputTooShort),
        (get[..35].to_vec(), Refusal::InputTooShort),
        (vec![5, 0, 0, 0], Refusal::UnknownSelector),
        (vec![0; 40], Refusal::UnknownSelector),
    ] {
        halted(&read(&mut chain, &data, 5_000), refusal);
        halted(&read(&mut chain, &data, 4_999), Refusal::OutOfGas);
    }
    // Names approved under older rules are not served, and their versions count.
    let ask = calldata::generate(&NAME, &ZERO, &[1], 1);
    reverted(&chain.infer(&ask), Refusal::NoActiveModel);
    let (a, _) = blobs();
    reverted(
        &chain.registry(ALICE, &a.propose(&NAME, 3)),
        Refusal::VersionTooLow,
    );
    chain.load(&a);
    chain.adopt(&NAME, 4, &a);
    returned(&chain.infer(&ask));
}

#[test]
fn legacy_writes_run_the_new_checks() {
    let (a, _) = blobs();
    let mut chain = chain3(&[&a]);
    let adopt = |version| legacy(1, &[NAME, version, a.commitment.0]);
    halted(&chain.registry(ALICE, &adopt(of_u64(1))), Refusal::NoRecord);
    chain.registry(CAROL, &a.propose(&[8; 32], 1));
    let price = Function::Approve.base_price();
    let call = |gas| Call::new(Target::Registry, &[], gas, ALICE);
    let data = adopt(of_u64(1));
    let short = Call {
        data: &data,
        ..call(price - 1)
    };
    halted(&chain.run(&short), Refusal::OutOfGas);
    // A vote, in whatever form, is one vote.
    let exact = Call {
        data: &data,
        ..call(price)
    };
    let outcome = chain.run(&exact);
    assert_eq!(outcome.gas_used(price), price);
    assert!(truth(&outcome));
    halted(
        &chain.registry(ALICE, &adopt(of_u64(1))),
        Refusal::AlreadyVoted,
    );
    assert_eq!(approved(&mut chain), (0, ZERO));
    let trailing = [&data[..], &[7; 5]].concat();
    assert!(truth(&chain.registry(BOB, &trailing)));
    chain.state.block += DELAY;
    chain.activate(&NAME, 1);
    assert_eq!(approved(&mut chain), (1, a.commitment.0));
    // Order: static, admin, length, arguments.
    let run = |chain: &mut Chain, data: &[u8], caller, is_static| {
        let call = Call {
            is_static,
            ..Call::new(Target::Registry, data, GAS, caller)
        };
        chain.run(&call)
    };
    let mut large = of_u64(0);
    large[23] = 1;
    for (data, caller, is_static, refusal) in [
        (legacy(1, &[]), MALLORY, true, Refusal::WriteInStaticCall),
        (legacy(1, &[]), MALLORY, false, Refusal::NotAdmin),
        (
            legacy(1, &[NAME, of_u64(2)]),
            ALICE,
            false,
            Refusal::InputTooShort,
        ),
        (adopt(large), ALICE, false, Refusal::VersionTooLarge),
        (adopt(of_u64(1)), ALICE, false, Refusal::VersionTooLow),
        (
            legacy(1, &[ZERO, of_u64(2), a.commitment.0]),
            ALICE,
            false,
            Refusal::ZeroArgument,
        ),
        (
            legacy(1, &[NAME, of_u64(2), ZERO]),
            ALICE,
            false,
            Refusal::ZeroArgument,
        ),
        (legacy(4, &[]), ALICE, true, Refusal::WriteInStaticCall),
        (
            legacy(4, &[ALICE_WORD]),
            ALICE,
            false,
            Refusal::InputTooShort,
        ),
        (
            legacy(4, &[ALICE_WORD, of_u64(2)]),
            ALICE,
            false,
            Refusal::NotCanonical,
        ),
        (
            legacy(4, &[[0xA1; 32], of_u64(1)]),
            ALICE,
            false,
            Refusal::NotCanonical,
        ),
        (
            legacy(4, &[ALICE_WORD, of_u64(1)]),
            ALICE,
            false,
            Refusal::NoChange,
        ),
    ] {
        halted(&run(&mut chain, &data, caller, is_static), refusal);
    }
    assert!(truth(&chain.registry(
        ALICE,
        &legacy(4, &[of_address(&MALLORY), of_u64(1)])
    )));
    assert!(truth(
        &chain.registry(BOB, &calldata::set_admin(&MALLORY, true))
    ));
    returned(&chain.registry(MALLORY, &calldata::set_quorum(3)));
}
