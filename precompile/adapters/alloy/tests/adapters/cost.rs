//! Gas: exactly enough succeeds, one less takes all and changes nothing.

use crate::bytecode::{Kind, Report, forward, forwarder, op};
use crate::chain::{ALICE, BOB, Blob, CAROL, Chain, DELAY, GAS, MALLORY, NAME, returned, small};
use crate::world::{SENDER, Status, TX_GAS, World, intrinsic};
use precompile::infer::Function as Infer;
use precompile::registry::Function as Registry;
use precompile::word::{Address, Word, ZERO, of_address, of_u64};
use precompile::{Call, INFERENCE, Sizes, Target, calldata, gas};

/// A chain where every function has something to do, and a call of each by ALICE.
pub(crate) fn every_function(blob: &Blob) -> (Chain, Vec<(Target, Vec<u8>)>) {
    let mut chain = Chain::single(&[blob]);
    chain.adopt(&NAME, 1, blob);
    returned(&chain.registry(ALICE, &calldata::set_admin(&BOB, true)));
    returned(&chain.registry(ALICE, &calldata::approve(&NAME, 2, &blob.commitment.0)));
    chain.state.block += DELAY;
    let other: Word = [8; 32];
    let commitment = blob.commitment.0;
    let legacy = |selector: u8, words: &[Word]| {
        let head = [&[selector, 0, 0, 0][..], &words.concat()].concat();
        (Target::Registry, head)
    };
    let prompt = [1, 2, 4];
    let mut calls = vec![
        legacy(1, &[NAME, of_u64(4), commitment]),
        legacy(2, &[NAME]),
        legacy(3, &[of_address(&ALICE)]),
        legacy(4, &[of_address(&CAROL), of_u64(1)]),
        (
            Target::Inference,
            [0x0100_0000u32, 3, 1, 7].map(u32::to_be_bytes).concat(),
        ),
    ];
    calls.extend(Registry::ALL.iter().map(|&function| {
        let data = match function {
            Registry::Propose => blob.propose(&other, 1),
            Registry::Approve => calldata::approve(&NAME, 3, &commitment),
            Registry::Activate => calldata::of_version(function, &NAME, 2),
            Registry::Revoke | Registry::IsRevoked => calldata::of_version(function, &NAME, 1),
            Registry::SetAdmin => calldata::set_admin(&CAROL, true),
            Registry::SetQuorum => calldata::set_quorum(2),
            Registry::Record => calldata::view(function, Some(&commitment)),
            Registry::Activation => calldata::view(function, Some(&ZERO)),
            Registry::IsAdmin => calldata::view(function, Some(&of_address(&ALICE))),
            Registry::Pending
            | Registry::HighestVersion
            | Registry::GetApproved
            | Registry::Tally => calldata::view(function, Some(&NAME)),
            Registry::Governance | Registry::ActivationCount => calldata::view(function, None),
        };
        (Target::Registry, data)
    }));
    calls.extend(Infer::ALL.iter().map(|&function| {
        let data = match function {
            Infer::Generate => calldata::generate(&NAME, &ZERO, &prompt, 9),
            Infer::Verify => calldata::verify(&NAME, &commitment, &prompt, 9, &[5, 6]),
            Infer::LogitsDigest => calldata::logits_digest(&NAME, &ZERO, &prompt),
            Infer::GasOfLogitsDigest => calldata::gas_of(function, &NAME, &ZERO, &[3]),
            Infer::GasOfGenerate | Infer::GasOfVerify => {
                calldata::gas_of(function, &NAME, &commitment, &[3, 2])
            }
        };
        (Target::Inference, data)
    }));
    (chain, calls)
}

fn world(chain: &Chain, blob: &Blob) -> World {
    let world = World::of(chain);
    world.models.load(blob);
    world
}

#[test]
fn exactly_enough_succeeds_and_one_less_halts() {
    let blob = Blob::sample(small(), 3);
    let (chain, calls) = every_function(&blob);
    let people = world(&chain, &blob);
    let mut contracts = people.clone();
    contracts.contract(ALICE, &forwarder());
    for (to, data) in calls {
        let outcome = chain.clone().run(&Call::new(to, &data, GAS, ALICE));
        let (price, answer) = (outcome.gas_used(GAS), returned(&outcome));
        let what = format!("{to:?} {:02x?}", &data[..4]);

        // As a transaction.
        let (base, floor) = intrinsic(&data);
        let mut tx = people.tx(ALICE, to.address(), &data);
        tx.gas_limit = base + price;
        let done = people.dry(tx.clone());
        assert_eq!(done.returned(), answer, "{what}");
        assert_eq!(done.gas, (base + price).max(floor), "{what}");
        tx.gas_limit -= 1;
        let done = people.dry(tx.clone());
        assert_eq!(done.status, Status::OutOfGas, "{what}");
        assert_eq!(done.gas, tx.gas_limit, "{what}");
        done.left_no_trace();

        // From a contract.
        let call = |gas| {
            let data = forward(Kind::Call, gas, 0, &to.address(), &data);
            let done = contracts.dry(contracts.tx(SENDER, ALICE, &data));
            (Report::of(done.returned()), done)
        };
        let (report, enough) = call(price);
        assert_eq!((report.success, report.output), (true, answer), "{what}");
        let (short, done) = call(price - 1);
        assert_eq!((short.success, short.output.len()), (false, 0), "{what}");
        assert_eq!(short.gas + 1, report.gas, "{what}");
        done.left_no_trace();
        // More than enough costs the same.
        assert_eq!(call(price + 1).1.gas, enough.gas, "{what}");
    }
}

/// Asks for the price with the first `ask` bytes of its calldata, then calls with the rest and exactly that gas. Returns the
/// call's success and its data.
fn asker(ask: u8, to: &Address) -> Vec<u8> {
    use op::*;
    let mut code = vec![PUSH1, ask, PUSH1, 0, PUSH1, 0, CALLDATACOPY];
    code.extend([PUSH1, 32, PUSH1, 0, PUSH1, ask, PUSH1, 0, PUSH20]);
    code.extend(to);
    code.extend([GAS, STATICCALL, POP]);
    let rest = [PUSH1, ask, CALLDATASIZE, SUB];
    code.extend(rest);
    code.extend([PUSH1, ask, PUSH1, 32, CALLDATACOPY, PUSH1, 0, PUSH1, 0]);
    code.extend(rest);
    code.extend([PUSH1, 32, PUSH1, 0, PUSH20]);
    code.extend(to);
    code.extend([PUSH1, 0, MLOAD, CALL, PUSH1, 0, MSTORE]);
    code.extend([RETURNDATASIZE, PUSH1, 0, PUSH1, 32, RETURNDATACOPY]);
    code.extend([RETURNDATASIZE, PUSH1, 32, ADD, PUSH1, 0, RETURN]);
    code
}

#[test]
fn a_contract_that_forwards_the_answer_of_gas_of_succeeds() {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::single(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let mut world = world(&chain, &blob);
    let prompt = [1, 2, 4];
    let ask = calldata::gas_of(Infer::GasOfGenerate, &NAME, &ZERO, &[3, 20]);
    let data = calldata::generate(&NAME, &ZERO, &prompt, 20);
    world.contract(MALLORY, &asker(ask.len() as u8, &INFERENCE));
    let both = [&ask[..], &data].concat();
    let with = |gas_limit| {
        let mut tx = world.tx(SENDER, MALLORY, &both);
        tx.gas_limit = gas_limit;
        world.dry(tx)
    };
    let success = |gas_limit| {
        let done = with(gas_limit);
        done.status == Status::Success && done.output[31] == 1
    };
    let answer = with(TX_GAS);
    assert!(success(TX_GAS));
    assert_eq!(answer.output[32..], *world.infer(&data).returned());
    // The least gas of a transaction with which it works.
    let (mut low, mut high) = (intrinsic(&both).1, TX_GAS);
    while high - low > 1 {
        let middle = low.midpoint(high);
        match success(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    // A 64th of what was left at the call has to stay with the caller: less than that is used in the end.
    let price = gas::of_generate(&Sizes::of(&blob.record.config), 3, 20);
    let used = with(high).gas;
    assert!(high - used < price / 63 + 64, "{high} of which {used}");
    // With one less the inner call lacks gas and the contract goes on.
    let done = with(high - 1);
    assert_eq!(done.returned(), ZERO);
}
