//! Kinds of call, through real bytecode.

use crate::bytecode::{Kind, Report, forward, forwarder, op};
use crate::chain::{ALICE, Blob, NAME, small};
use crate::world::{Adapter, SENDER, Status, World};
use precompile::word::{ZERO, of_u64};
use precompile::{INFERENCE, REGISTRY, Refusal, calldata, registry};
use revm::primitives::{Address, U256};

const GAS: u64 = 5_000_000;
const OTHER: [u8; 20] = [0x77; 20];

/// ALICE is a contract that forwards, and the only admin; OTHER is another such contract.
fn world(blob: &Blob) -> World {
    let mut world = World::single(&[blob]);
    world.adopt(&NAME, 1, blob);
    world.contract(ALICE, &forwarder());
    world.contract(OTHER, &forwarder());
    world
}

fn through(world: &World, contract: [u8; 20], data: &[u8]) -> Report {
    Report::of(world.dry(world.tx(SENDER, contract, data)).returned())
}

fn halted(report: &Report) {
    assert_eq!((report.success, report.output.len()), (false, 0));
    assert!(report.gas >= GAS, "{report:?}");
}

#[test]
fn views_answer_calls_and_static_calls_only() {
    let blob = Blob::sample(small(), 3);
    let world = world(&blob);
    let generate = calldata::generate(&NAME, &ZERO, &[1, 2], 4);
    let approved = calldata::view(registry::Function::GetApproved, Some(&NAME));
    for (to, data) in [(INFERENCE, &generate), (REGISTRY, &approved)] {
        let expected = world.dry(world.tx(SENDER, to, data));
        for kind in Kind::ALL {
            let report = through(&world, OTHER, &forward(kind, GAS, 0, &to, data));
            match kind {
                Kind::Call | Kind::StaticCall => {
                    assert!(report.success, "{kind:?}");
                    assert_eq!(report.output, expected.returned());
                }
                Kind::CallCode | Kind::DelegateCall => halted(&report),
            }
        }
    }
}

#[test]
fn writes_need_a_call_outside_static_contexts() {
    let blob = Blob::sample(small(), 3);
    let world = world(&blob);
    let data = calldata::approve(&NAME, 2, &blob.commitment.0);
    let inner = |kind| forward(kind, GAS, 0, &REGISTRY, &data);
    let done = world.dry(world.tx(SENDER, ALICE, &inner(Kind::Call)));
    let report = Report::of(done.returned());
    assert!(report.success);
    assert_eq!(report.output, of_u64(1));
    assert_eq!(done.logs.len(), 2);
    for kind in [Kind::CallCode, Kind::DelegateCall, Kind::StaticCall] {
        let done = world.dry(world.tx(SENDER, ALICE, &inner(kind)));
        halted(&Report::of(done.returned()));
        done.left_no_trace();
    }
    // A CALL inside an outer STATICCALL.
    let outer = forward(Kind::StaticCall, 2 * GAS, 0, &ALICE, &inner(Kind::Call));
    let done = world.dry(world.tx(SENDER, OTHER, &outer));
    let report = Report::of(done.returned());
    assert!(report.success, "the contract between lives");
    halted(&Report::of(&report.output));
    done.left_no_trace();
    // Without the static context the same nesting writes: the caller is ALICE, not who called her.
    let outer = forward(Kind::Call, 2 * GAS, 0, &ALICE, &inner(Kind::Call));
    let report = through(&world, OTHER, &outer);
    assert!(Report::of(&report.output).success);
}

#[test]
fn value_comes_back() {
    let blob = Blob::sample(small(), 3);
    let mut world = world(&blob);
    world.give(OTHER);
    let funds = world.db.cache.accounts[&Address::new(OTHER)].info.balance;
    let generate = calldata::generate(&NAME, &ZERO, &[1, 2], 4);
    let approved = calldata::view(registry::Function::GetApproved, Some(&NAME));
    let packed = [0x0100_0000u32, 1, 1].map(u32::to_be_bytes).concat();
    for (to, data) in [
        (INFERENCE, &generate),
        (INFERENCE, &packed),
        (REGISTRY, &approved),
    ] {
        for kind in [Kind::Call, Kind::CallCode] {
            let data = forward(kind, GAS, 7, &to, data);
            let done = world.dry(world.tx(SENDER, OTHER, &data));
            halted(&Report::of(done.returned()));
            let balance = done.state[&Address::new(OTHER)].info.balance;
            assert_eq!(balance, funds);
            assert!(done.state[&Address::new(to)].info.balance.is_zero());
        }
        // A transaction with value.
        let mut tx = world.tx(SENDER, to, data);
        tx.value = U256::from(7);
        let done = world.dry(tx);
        done.halted();
        assert!(done.state[&Address::new(to)].info.balance.is_zero());
    }
}

#[test]
fn the_packed_call_answers_every_kind_but_none_with_value() {
    let world = world(&Blob::sample(small(), 3));
    let data = [0x0100_0000u32, 10, 1, 7, 13, 2]
        .map(u32::to_be_bytes)
        .concat();
    let expected = world.infer(&data);
    for kind in Kind::ALL {
        let report = through(&world, OTHER, &forward(kind, 600_000, 0, &INFERENCE, &data));
        assert!(report.success, "{kind:?}");
        assert_eq!(report.output, expected.returned());
        let report = through(&world, OTHER, &forward(kind, 599_999, 0, &INFERENCE, &data));
        assert_eq!((report.success, report.output.len()), (false, 0));
    }
}

#[test]
fn contracts_survive_refusals() {
    let world = world(&Blob::sample(small(), 3));
    let refused = |data: &[u8]| forward(Kind::Call, GAS, 0, &INFERENCE, data);
    let empty = calldata::generate(&NAME, &ZERO, &[], 4);
    let report = through(&world, OTHER, &refused(&empty));
    assert!(!report.success);
    assert_eq!(report.output, precompile::revert_data(Refusal::EmptyPrompt));
    assert_eq!(report.output.len(), 36);
    assert!(report.gas < 20_000, "the rest of the gas comes back");
    for data in [&empty[..3], &empty[..40], &[9; 36]] {
        halted(&through(&world, OTHER, &refused(data)));
    }
}

#[test]
fn reasons_have_names_where_the_evm_keeps_them() {
    let world = world(&Blob::sample(small(), 3));
    let tx = || world.tx(SENDER, REGISTRY, &[9; 36]);
    let by_revm = world.on(Adapter::Revm, tx()).unwrap();
    assert_eq!(by_revm.status, Status::Refused);
    assert_eq!(by_revm.text.unwrap(), Refusal::UnknownSelector.name());
    assert_eq!(world.on(Adapter::Alloy, tx()).unwrap().text, None);
}

/// Code at an address that delegates (EIP-7702) to a precompile is the marker of the precompile's account.
#[test]
fn delegations_run_the_marker() {
    let mut world = world(&Blob::sample(small(), 3));
    let delegate = [0x7d; 20];
    let designation = [&[0xef, 0x01, 0x00][..], &INFERENCE].concat();
    world.contract(delegate, &designation);
    let data = calldata::generate(&NAME, &ZERO, &[1, 2], 4);
    let done = world.dry(world.tx(SENDER, delegate, &data));
    assert!(matches!(done.status, Status::Other(_)), "{done:?}");
    halted(&through(
        &world,
        OTHER,
        &forward(Kind::Call, GAS, 0, &delegate, &data),
    ));
}

/// Both addresses are warm: reading the balance of one costs as much as reading one's own again.
#[test]
fn both_addresses_are_warm() {
    use op::{BALANCE, GAS, MSTORE, POP, PUSH1, PUSH20, RETURN, SUB, SWAP1};
    let mut world = world(&Blob::sample(small(), 3));
    for (of, cost) in [(REGISTRY, 100), (INFERENCE, 100), ([0x31; 20], 2_600)] {
        let mut code = vec![GAS, PUSH20];
        code.extend(of);
        code.extend([BALANCE, POP, GAS, SWAP1, SUB, PUSH1, 0, MSTORE]);
        code.extend([PUSH1, 32, PUSH1, 0, RETURN]);
        world.contract(OTHER, &code);
        let done = world.dry(world.tx(SENDER, OTHER, &[]));
        // PUSH20, BALANCE, POP and the second GAS.
        assert_eq!(done.returned(), of_u64(3 + cost + 2 + 2));
    }
}
