//! Calls of the precompiles on the states of the known answers: no panic, no fault, exact prices, refusals that change
//! nothing; events are read again as they were written, and from no other log.
//!
//! The first byte chooses the state, the second how many blocks later it is. Then calls: flags, the caller's last byte,
//! blocks until the call, three bytes of gas and two of length, little-endian, calldata.
#![no_main]

use int_engine::commitment::keccak256;
use int_engine::kernels::Kernels;
use kat::precompiles::{Chain, Loaded};
use kat::target::{KernelsTarget, Setting, Target};
use libfuzzer_sys::fuzz_target;
use precompile::memory::Memory;
use precompile::registry::Event;
use precompile::word::Word;
use precompile::{Call, Outcome, Refusal, Target as To};
use std::path::Path;
use std::sync::LazyLock;

/// Most calls of an input.
const CALLS: usize = 8;
/// Most gas of a call, so that every call is fast.
const GAS: u64 = 1_500_000;
const HEADER: usize = 8;

static CHAIN: LazyLock<Chain> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    Chain::read(&root.join(kat::set::CURRENT), &root).expect("the states of the set")
});

static MODELS: LazyLock<Loaded<'static>> = LazyLock::new(|| {
    let kernels = Kernels::detect();
    let setting = Setting::default();
    CHAIN.models(Target::Kernels(KernelsTarget { kernels, setting }))
});

/// The first topics of the registry's events (spec 6.5).
static TOPICS: LazyLock<[Word; 6]> = LazyLock::new(|| {
    [
        "Voted(bytes32,address,uint8,bytes32,bytes32,bytes32,uint64,uint32)",
        "Passed(bytes32,uint64,bytes32,uint64)",
        "Activated(bytes32,uint64,bytes32,uint64)",
        "Revoked(bytes32,uint64,bytes32)",
        "AdminSet(address,bool,uint64)",
        "QuorumSet(uint32,uint64)",
    ]
    .map(|signature| keccak256(signature.as_bytes()))
});

/// A log that anybody may have written is an event in one form only.
fn log(kind: u8, data: &[u8]) {
    let kind = usize::from(kind);
    let mut topics = vec![TOPICS[kind % TOPICS.len()]];
    let mut rest = data;
    for _ in 0..kind / TOPICS.len() % 4 {
        let Some((word, more)) = rest.split_first_chunk() else {
            return;
        };
        topics.push(*word);
        rest = more;
    }
    if let Some(event) = Event::parse(&topics, rest) {
        assert_eq!(event.encode(), (topics, rest.to_vec()), "{event:?}");
    }
}

/// The outcome on a state, and the state afterwards.
fn run(before: &Memory, call: &Call<'_>) -> (Outcome, Memory) {
    let mut memory = before.clone();
    let outcome = memory
        .call(call, &*MODELS)
        .expect("no input leads to a fault");
    (outcome, memory)
}

fn one(before: &Memory, call: &Call<'_>) -> Memory {
    let (outcome, after) = run(before, call);
    let used = outcome.gas_used(call.gas);
    assert!(used <= call.gas, "{used} of {} gas", call.gas);
    let at = |gas| Call { gas, ..*call };
    match &outcome {
        Outcome::Return { .. } => {
            assert_eq!(
                run(before, &at(used)),
                (outcome, after.clone()),
                "exactly the price"
            );
            let less = Outcome::Halt {
                refusal: Refusal::OutOfGas,
            };
            assert_eq!(run(before, &at(used - 1)), (less, before.clone()));
            assert!(!call.value_sent);
            let writes = after != *before;
            for (topics, data) in &after.logs[before.logs.len()..] {
                let event = Event::parse(topics, data).expect("an event of the registry");
                assert_eq!(event.encode(), (topics.clone(), data.clone()));
            }
            assert!(!writes || call.direct && !call.is_static && call.to == To::Registry);
        }
        Outcome::Revert { refusal, .. } => {
            assert!(!refusal.halts());
            assert_eq!(outcome.data().len(), 36);
            assert_eq!(after, *before);
        }
        Outcome::Halt { .. } => {
            assert_eq!(used, call.gas);
            assert!(outcome.data().is_empty());
            assert_eq!(after, *before);
        }
    }
    after
}

fuzz_target!(|input: &[u8]| {
    let [state, blocks, rest @ ..] = input else {
        return;
    };
    let states = CHAIN.states();
    let state = &states[usize::from(*state) % states.len()];
    let mut memory = Memory {
        block: state.block.saturating_add((*blocks).into()),
        storage: state.storage.iter().copied().collect(),
        logs: Vec::new(),
    };
    let mut rest = rest;
    for _ in 0..CALLS {
        let Some((header, more)) = rest.split_first_chunk::<HEADER>() else {
            return;
        };
        let [flags, caller, blocks, g0, g1, g2, l0, l1] = *header;
        let len = usize::from(u16::from_le_bytes([l0, l1])).min(more.len());
        let (data, more) = more.split_at(len);
        rest = more;
        log(caller, data);
        memory.block = memory.block.saturating_add(blocks.into());
        let to = match flags & 1 {
            0 => To::Registry,
            _ => To::Inference,
        };
        let gas = u64::from(u32::from_le_bytes([g0, g1, g2, 0])).min(GAS);
        let mut address = [0; 20];
        address[19] = caller;
        let call = Call {
            value_sent: flags & 2 != 0,
            is_static: flags & 4 != 0,
            direct: flags & 8 == 0,
            ..Call::new(to, data, gas, address)
        };
        memory = one(&memory, &call);
    }
});
