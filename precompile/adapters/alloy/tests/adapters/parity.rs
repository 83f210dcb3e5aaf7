//! Random sequences of calls that change state over blocks: both adapters and the core in memory agree on everything.

use crate::bytecode::{Kind, Report, forward, forwarder};
use crate::chain::{ALICE, BOB, Blob, CAROL, Chain, GAS, MALLORY, small};
use crate::world::{Done, SENDER, Status, TX_GAS, World, intrinsic};
use precompile::infer::Function as Infer;
use precompile::registry::{Action, Function as Registry, Governance};
use precompile::word::{Address, Word, ZERO, of_address, of_u64, to_u64};
use precompile::{Call, Outcome, Refusal, Target, calldata, slots};
use revm::primitives::U256;
use std::collections::BTreeMap;
use std::sync::Arc;

const SEQUENCES: u64 = 20;
const CALLS: usize = 500;
/// Most gas of a call from a contract, which keeps a 64th of what it has.
const MOST: u64 = 12_000_000;
/// An externally owned account that is an admin.
const DAVE: Address = [0xDA; 20];
const NAMES: [Word; 2] = [[7; 32], [8; 32]];
/// The gas that a call with value is given on top (yellow paper, G_callstipend).
const STIPEND: u64 = 2_300;
/// The identity precompile.
const IDENTITY: Address = {
    let mut address = [0; 20];
    address[19] = 4;
    address
};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn ids(&mut self, most: usize) -> Vec<u32> {
        let count = self.below(most + 1);
        (0..count).map(|_| self.below(38) as u32).collect()
    }
}

/// Calldata that is valid, and often reasonable for the state.
fn valid(random: &mut Random, chain: &Chain, blobs: &[Blob]) -> (Target, Vec<u8>) {
    let name = match random.one_in(30) {
        true => ZERO,
        false => random.pick(&NAMES),
    };
    let word = |key: &Word| chain.state.storage.get(key).copied().unwrap_or(ZERO);
    let highest = to_u64(&word(&slots::highest(&name))).unwrap();
    let waiting = u64::from_be_bytes(word(&slots::pending(&name, 0))[..8].try_into().unwrap());
    let active = to_u64(&word(&slots::version(&name))).unwrap();
    // Near the top, so that admins meet in their votes.
    let next = highest + random.pick(&[1, 1, 1, 1, 2, 0]);
    let version = random.pick(&[waiting, waiting, active, next, 0]);
    let blob = &blobs[random.below(blobs.len())];
    let admin = random.pick(&[ALICE, BOB, CAROL, DAVE, MALLORY]);
    let commitment = random.pick(&[
        ZERO,
        ZERO,
        blob.commitment.0,
        word(&slots::commitment(&name)),
    ]);
    let legacy =
        |selector: u8, words: &[Word]| [&[selector, 0, 0, 0][..], &words.concat()].concat();
    if random.one_in(3) {
        let long = random.one_in(6);
        let prompt = random.ids(if long { 40 } else { 8 });
        let tokens = random.ids(4);
        let max_new = random.below(12) as u32;
        let function = random.pick(Infer::ALL);
        let data = match function {
            Infer::Generate => calldata::generate(&name, &commitment, &prompt, max_new),
            Infer::Verify => calldata::verify(&name, &commitment, &prompt, max_new, &tokens),
            Infer::LogitsDigest => calldata::logits_digest(&name, &commitment, &prompt),
            Infer::GasOfLogitsDigest => calldata::gas_of(function, &name, &commitment, &[max_new]),
            Infer::GasOfGenerate | Infer::GasOfVerify => {
                calldata::gas_of(function, &name, &commitment, &[max_new, 7])
            }
        };
        if random.one_in(6) {
            let (count, pad) = random.pick(&[(max_new, 0), (max_new, 0), (65, 0), (1, 256)]);
            let words = [&[0x0100_0000, count], &vec![1; pad][..], &prompt].concat();
            let data = words.iter().flat_map(|w| w.to_be_bytes()).collect();
            return (Target::Inference, data);
        }
        return (Target::Inference, data);
    }
    let enabled = word(&slots::admin(&admin)) == ZERO;
    if random.one_in(10) {
        let data = match random.below(4) {
            0 => {
                let version = random.pick(&[of_u64(next), of_u64(next), [1; 32]]);
                legacy(1, &[name, version, blob.commitment.0])
            }
            1 => legacy(2, &[name]),
            2 => legacy(3, &[of_address(&admin)]),
            _ => legacy(4, &[of_address(&admin), of_u64(enabled.into())]),
        };
        return (Target::Registry, data);
    }
    let function = match random.below(6) {
        0 => Registry::Propose,
        1 | 2 => random.pick(&[Registry::Approve, Registry::Activate]),
        3 => random.pick(&[Registry::SetAdmin, Registry::SetQuorum, Registry::Revoke]),
        _ => random.pick(Registry::ALL),
    };
    let data = match function {
        Registry::Propose if random.one_in(8) => {
            let (other, record) = (&blobs[random.below(3)], &blob.bytes[..1024]);
            calldata::propose(&name, next, &other.commitment.0, record, &blob.proof)
        }
        Registry::Propose => blob.propose(&name, next),
        Registry::Approve => calldata::approve(&name, next, &blob.commitment.0),
        Registry::Activate if waiting > 0 => calldata::of_version(function, &name, waiting),
        Registry::Activate | Registry::Revoke | Registry::IsRevoked => {
            calldata::of_version(function, &name, version)
        }
        Registry::SetAdmin => calldata::set_admin(&admin, enabled),
        Registry::SetQuorum => calldata::set_quorum(random.pick(&[2, 3, 2, 5])),
        Registry::Record => calldata::view(function, Some(&blob.commitment.0)),
        Registry::Activation => calldata::view(function, Some(&of_u64(random.next() % 3))),
        Registry::IsAdmin => calldata::view(function, Some(&of_address(&admin))),
        Registry::Tally => {
            let epoch = Governance::of_word(&word(&slots::governance())).epoch;
            let action = Action::Adopt {
                name,
                version: next,
                commitment: blob.commitment.0,
            };
            calldata::view(function, Some(&action.id(epoch)))
        }
        Registry::Pending | Registry::HighestVersion | Registry::GetApproved => {
            calldata::view(function, Some(&name))
        }
        Registry::Governance | Registry::ActivationCount => calldata::view(function, None),
    };
    (Target::Registry, data)
}

/// Damages calldata.
fn mutate(random: &mut Random, data: &mut Vec<u8>) {
    for _ in 0..=random.below(2) {
        match random.below(6) {
            0 if !data.is_empty() => {
                let at = random.below(data.len());
                data[at] ^= 1 << random.below(8);
            }
            1 => data.truncate(random.below(data.len() + 1)),
            2 => {
                let more = random.pick(&[1, 31, 32, 64]);
                let byte = random.pick(&[0, 0, 1, 0xff]);
                data.resize(data.len() + more, byte);
            }
            3 if data.len() > 36 => {
                // Bits beyond the width of a word's value.
                let at = 4 + 32 * random.below((data.len() - 4) / 32);
                data[at + random.below(20)] |= 1 << random.below(8);
            }
            4 if data.len() > 36 => {
                let at = 4 + 32 * random.below((data.len() - 4) / 32);
                data[at..at + 32].copy_from_slice(&random.pick(&[ZERO, [0xff; 32], of_u64(33)]));
            }
            _ => {
                let at = random.below(data.len() + 1);
                data.truncate(at);
                data.extend(of_u64(random.next()));
            }
        }
    }
}

/// One call and how it is made.
struct Plan {
    to: Target,
    data: Vec<u8>,
    gas: u64,
    caller: Address,
    way: Way,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// A transaction; the caller is DAVE.
    Direct { value: bool },
    /// From the caller's contract.
    Contract { kind: Kind, value: bool },
    /// The same inside a STATICCALL of another contract.
    Static { kind: Kind },
}

impl Plan {
    fn of(random: &mut Random, chain: &Chain, blobs: &[Blob]) -> Self {
        let (to, mut data) = valid(random, chain, blobs);
        if random.one_in(3) {
            mutate(random, &mut data);
        }
        let kind = match random.one_in(5) {
            true => random.pick(&Kind::ALL),
            false => Kind::Call,
        };
        let value = random.one_in(20);
        let way = match random.below(10) {
            0 => Way::Static { kind },
            1 | 2 => Way::Direct { value },
            _ => {
                let value = value && matches!(kind, Kind::Call | Kind::CallCode);
                Way::Contract { kind, value }
            }
        };
        let caller = match way {
            Way::Direct { .. } => DAVE,
            _ => random.pick(&[ALICE, ALICE, BOB, BOB, CAROL, CAROL, MALLORY]),
        };
        let call = Call::new(to, &data, GAS, caller);
        let price = match chain.clone().run(&call).gas_used(GAS) {
            // It halts whatever it is given: as much as any function here costs.
            GAS => 4_000_000,
            price => price,
        };
        let gas = match random.below(12) {
            0 => price - 1,
            1 => price + 1,
            2 => random.next() % (2 * price),
            3 => 0,
            4 => price,
            _ => price.saturating_add(random.next() % 1_000_000),
        };
        Self {
            to,
            data,
            gas: gas.min(MOST),
            caller,
            way,
        }
    }

    /// The call as the core gets it.
    fn call(&self) -> Call<'_> {
        let call = Call::new(self.to, &self.data, self.gas, self.caller);
        match self.way {
            Way::Direct { value } => Call {
                value_sent: value,
                ..call
            },
            Way::Contract { kind, value } => Call {
                value_sent: value,
                gas: self.gas + if value { STIPEND } else { 0 },
                is_static: kind == Kind::StaticCall,
                direct: matches!(kind, Kind::Call | Kind::StaticCall),
                ..call
            },
            Way::Static { kind } => Call {
                is_static: true,
                direct: matches!(kind, Kind::Call | Kind::StaticCall),
                ..call
            },
        }
    }

    fn execute(&self, world: &mut World) -> Done {
        let to = self.to.address();
        let inner = |kind, value: bool| forward(kind, self.gas, value.into(), &to, &self.data);
        let tx = match self.way {
            Way::Direct { value } => {
                let mut tx = world.tx(self.caller, to, &self.data);
                tx.gas_limit = self.tx_gas();
                tx.value = U256::from(u8::from(value));
                tx
            }
            Way::Contract { kind, value } => world.tx(SENDER, self.caller, &inner(kind, value)),
            Way::Static { kind } => {
                let inner = inner(kind, false);
                let outer = forward(Kind::StaticCall, TX_GAS, 0, &self.caller, &inner);
                world.tx(SENDER, MALLORY, &outer)
            }
        };
        world.run(tx)
    }

    /// Gas of a transaction whose call gets `gas`, or as little as a valid transaction may have.
    fn tx_gas(&self) -> u64 {
        let (base, floor) = intrinsic(&self.data);
        (base + self.gas).max(floor)
    }
}

/// What two readings of the gas around a call cost beside the call.
type Overheads = BTreeMap<(u8, bool), u64>;

fn overheads(world: &World) -> Overheads {
    // Nothing to copy: the identity costs 15.
    let measure = |kind: Kind, value: bool| {
        let data = forward(kind, 100, value.into(), &IDENTITY, &[]);
        let report = Report::of(world.dry(world.tx(SENDER, MALLORY, &data)).returned());
        assert!(report.success);
        ((kind as u8, value), report.gas - 15)
    };
    let plain = Kind::ALL.map(|kind| measure(kind, false));
    let valued = [Kind::Call, Kind::CallCode].map(|kind| measure(kind, true));
    plain.into_iter().chain(valued).collect()
}

/// Compares what the EVMs did with the outcome of the core.
fn compare(plan: &Plan, call: &Call<'_>, outcome: &Outcome, done: &Done, overheads: &Overheads) {
    let used = outcome.gas_used(call.gas);
    let returned = matches!(outcome, Outcome::Return { .. });
    let check = |report: &Report, kind: Kind, value| {
        assert_eq!(report.success, returned);
        assert_eq!(report.output, outcome.data());
        assert_eq!(report.gas, overheads[&(kind as u8, value)] + used);
    };
    match plan.way {
        Way::Direct { .. } => {
            let (base, floor) = intrinsic(&plan.data);
            let expected = match outcome {
                Outcome::Return { .. } => Status::Success,
                Outcome::Revert { .. } => Status::Revert,
                Outcome::Halt {
                    refusal: Refusal::OutOfGas,
                } => Status::OutOfGas,
                Outcome::Halt { refusal } => {
                    assert_eq!(done.text.as_deref(), Some(refusal.name()));
                    Status::Refused
                }
            };
            assert_eq!(done.status, expected);
            assert_eq!(done.output, outcome.data());
            assert_eq!(done.gas, (base + used).max(floor));
        }
        Way::Contract { kind, value } => check(&Report::of(done.returned()), kind, value),
        Way::Static { kind } => {
            let outer = Report::of(done.returned());
            assert!(outer.success);
            check(&Report::of(&outer.output), kind, false);
        }
    }
}

fn world(chain: &Chain, blobs: &[Blob]) -> World {
    let mut world = World::of(chain);
    for address in [ALICE, BOB, CAROL, MALLORY] {
        world.contract(address, &forwarder());
        world.give(address);
    }
    // Not empty: a call with value then creates no account.
    for address in [DAVE, IDENTITY] {
        world.fund(address);
    }
    blobs[..2].iter().for_each(|blob| world.models.load(blob));
    world.models.refuse(blobs[2].commitment);
    world
}

/// How often each outcome was seen.
#[derive(Default, Debug)]
struct Seen {
    returns: BTreeMap<[u8; 4], usize>,
    refusals: BTreeMap<u16, usize>,
}

fn sequence(seed: u64, blobs: &[Blob], seen: &mut Seen) {
    let random = &mut Random(seed);
    let admins = [ALICE, BOB, CAROL, DAVE];
    let quorum = 1 + (seed % 4) as u32;
    let mut chain = Chain::new(&admins, quorum);
    blobs[..2].iter().for_each(|blob| chain.load(blob));
    chain.models.insert_refused(blobs[2].commitment);
    if quorum == 1 {
        chain.adopt(&NAMES[0], 1, &blobs[0]);
    }
    if seed == 0 {
        // A chain that never chose its admins.
        chain.state.storage.remove(&slots::governance());
    }
    let mut world = world(&chain, blobs);
    let overheads = overheads(&world);
    for i in 0..CALLS {
        if random.one_in(6) {
            let blocks = random.pick(&[1, 1, 1, 5, 60]);
            chain.state.block += blocks;
            world.pass_blocks(blocks);
        }
        let plan = Plan::of(random, &chain, blobs);
        let mut call = plan.call();
        if let Way::Direct { .. } = plan.way {
            call.gas = plan.tx_gas() - intrinsic(&plan.data).0;
        }
        let logged = chain.state.logs.len();
        let outcome = chain.run(&call);
        let done = plan.execute(&mut world);
        let what = || format!("seed {seed}, call {i}: {call:02x?}, {:?}", plan.way);
        let checked =
            std::panic::catch_unwind(|| compare(&plan, &call, &outcome, &done, &overheads));
        assert!(checked.is_ok(), "{}: {outcome:?}, {done:?}", what());
        assert_eq!(world.storage(), chain.state.storage, "{}", what());
        let new = chain.state.logs[logged..].iter().cloned();
        let new: Vec<_> = new.map(|(t, d)| precompile_revm::event(t, d)).collect();
        assert_eq!(done.logs, new, "{}", what());
        match outcome.refusal() {
            None => {
                *seen
                    .returns
                    .entry(plan.data[..4].try_into().unwrap())
                    .or_default() += 1
            }
            Some(refusal) => *seen.refusals.entry(refusal.number()).or_default() += 1,
        }
    }
}

#[test]
fn random_calls() {
    let blobs: Arc<[Blob]> = (3..6).map(|seed| Blob::sample(small(), seed)).collect();
    let threads = (0..2).map(|thread| {
        let blobs = Arc::clone(&blobs);
        std::thread::spawn(move || {
            let mut seen = Seen::default();
            for seed in (thread..SEQUENCES).step_by(2) {
                sequence(seed, &blobs, &mut seen);
            }
            seen
        })
    });
    let threads: Vec<_> = threads.collect();
    let mut all = Seen::default();
    for thread in threads {
        let seen = thread.join().expect("no difference");
        for (key, count) in seen.returns {
            *all.returns.entry(key).or_default() += count;
        }
        for (key, count) in seen.refusals {
            *all.refusals.entry(key).or_default() += count;
        }
    }
    // Every function has returned: 16 and 4 of the registry, 6 and 1 of inference; two share the selector 01000000.
    assert_eq!(all.returns.len(), 26, "{all:02x?}");
    // Every refusal was seen.
    assert_eq!(all.refusals.len(), Refusal::ALL.len(), "{all:?}");
    println!("{all:02x?}");
}
