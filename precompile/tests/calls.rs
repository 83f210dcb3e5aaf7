//! Calls of the registry: gas, kinds of call, what they touch.

mod common;

use common::*;
use precompile::registry::Function;
use precompile::word::{Word, ZERO, of_address, of_u64};
use precompile::{Call, Refusal, Target, calldata};

/// Every function with arguments that succeed, on a chain where they do.
fn every_function() -> (Chain, Vec<(Function, Vec<u8>)>) {
    let (a, b) = blobs();
    let mut chain = Chain::single(&[&a, &b]);
    chain.adopt(&NAME, 1, &a);
    chain.registry(ALICE, &b.propose(&NAME, 2));
    chain.registry(ALICE, &calldata::set_admin(&BOB, true));
    chain.state.block += DELAY;
    let all = Function::ALL.iter().map(|&function| {
        let data = match function {
            Function::Propose => b.propose(&NAME, 3),
            Function::Approve => approve(&b, 3),
            Function::Activate => activate(2),
            Function::Revoke => revoke(1),
            Function::SetAdmin => calldata::set_admin(&CAROL, true),
            Function::SetQuorum => calldata::set_quorum(2),
            Function::IsRevoked => calldata::of_version(function, &NAME, 1),
            Function::IsAdmin => calldata::view(function, Some(&ALICE_WORD)),
            Function::Record => calldata::view(function, Some(&a.commitment.0)),
            Function::Activation => calldata::view(function, Some(&ZERO)),
            Function::Governance | Function::ActivationCount => calldata::view(function, None),
            Function::Pending
            | Function::HighestVersion
            | Function::GetApproved
            | Function::Tally => calldata::view(function, Some(&NAME)),
        };
        (function, data)
    });
    let all = all.collect();
    (chain, all)
}

#[test]
fn exactly_enough_gas_and_the_right_kind_of_call() {
    let (chain, all) = every_function();
    for (function, data) in all {
        let price = function.price(data.len() - 4);
        let call = |gas| Call::new(Target::Registry, &data, gas, ALICE);
        let run = |call: Call<'_>| {
            let mut chain = chain.clone();
            let outcome = chain.run(&call);
            (outcome, chain.state)
        };
        let (outcome, state) = run(call(price));
        assert_eq!(outcome.gas_used(price), price, "{function:?}");
        returned(&outcome);
        assert_eq!(state != chain.state, function.writes(), "{function:?}");
        let untouched = |changed: Call<'_>, refusal| {
            let (outcome, state) = run(changed);
            halted(&outcome, refusal);
            assert_eq!(state, chain.state);
        };
        untouched(call(price - 1), Refusal::OutOfGas);
        untouched(
            Call {
                value_sent: true,
                ..call(GAS)
            },
            Refusal::ValueSent,
        );
        untouched(
            Call {
                direct: false,
                ..call(GAS)
            },
            Refusal::NotDirect,
        );
        let in_static = Call {
            is_static: true,
            ..call(GAS)
        };
        if function.writes() {
            untouched(in_static, Refusal::WriteInStaticCall);
        } else {
            returned(&run(in_static).0);
        }
        // A byte more, a byte less.
        let more = [&data[..], &[0]].concat();
        untouched(
            Call {
                data: &more,
                ..call(GAS)
            },
            Refusal::NotCanonical,
        );
        let less = &data[..data.len() - 1];
        let refusal = match less.len() {
            3 => Refusal::InputTooShort,
            _ => Refusal::NotCanonical,
        };
        untouched(
            Call {
                data: less,
                ..call(GAS)
            },
            refusal,
        );
    }
}

/// Prices count every read and write at its highest: no path of a function does more than it is priced for.
#[test]
fn no_function_touches_more_than_its_price_counts() {
    use precompile::{Fault, Host, Version, memory::Memory};
    struct Counting<'a>(&'a mut Memory, u64);
    impl Host for Counting<'_> {
        fn block_number(&self) -> u64 {
            self.0.block
        }
        fn read(&mut self, key: &Word) -> Result<Word, Fault> {
            self.1 += precompile::gas::READ;
            self.0.read(key)
        }
        fn write(&mut self, key: &Word, value: &Word) -> Result<(), Fault> {
            self.1 += precompile::gas::WRITE;
            self.0.write(key, value)
        }
        fn log(&mut self, topics: Vec<Word>, data: Vec<u8>) {
            self.1 += 375 * (1 + topics.len() as u64) + 8 * data.len() as u64;
            self.0.log(topics, data);
        }
    }
    let (chain, all) = every_function();
    let mut cases: Vec<_> = all
        .into_iter()
        .map(|(function, data)| (format!("{function:?}"), data, function.base_price()))
        .collect();
    // The longer form of a revocation, and the writes without the ABI.
    let pending = calldata::of_version(Function::Revoke, &NAME, 2);
    let revoke = Function::Revoke.base_price();
    cases.push(("a pending revocation".into(), pending, revoke));
    let blob = blobs().1;
    let adopt = legacy(1, &[NAME, of_u64(3), blob.commitment.0]);
    let approve = Function::Approve.base_price();
    cases.push(("legacy adopt".into(), adopt, approve));
    let set = legacy(4, &[of_address(&CAROL), of_u64(1)]);
    let set_admin = Function::SetAdmin.base_price();
    cases.push(("legacy setAdmin".into(), set, set_admin));
    for (what, data, price) in cases {
        let mut state = chain.state.clone();
        let mut host = Counting(&mut state, precompile::gas::CALL);
        let call = Call::new(Target::Registry, &data, GAS, ALICE);
        let outcome = precompile::run(Version::V1, &call, &mut host, &chain.models).unwrap();
        returned(&outcome);
        let done = host.1;
        assert!(done <= price, "{what}: {done}");
        // Of an active version the revocation writes one word less and reads one more.
        if what != "Revoke" && what != "a pending revocation" {
            assert_eq!(done, price, "{what}");
        }
    }
}
