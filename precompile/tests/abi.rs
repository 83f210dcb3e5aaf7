//! The ABI: alloy reads the interfaces for contract authors as they are, and agrees with the core on every byte.

#![allow(clippy::too_many_arguments, reason = "made by a macro of interfaces")]

mod common;

use alloy_sol_types::private::{Address as AlloyAddress, B256, Bytes};
use alloy_sol_types::{SolCall, sol};
use common::*;
use precompile::infer::Function as Infer;
use precompile::registry::Function as Registry;
use precompile::word::{ZERO, of_u64};
use precompile::{Call, Refusal, Target, calldata};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;

sol!("solidity/IModelRegistry.sol");
sol!("solidity/IInference.sol");

use IInference::*;
use IModelRegistry::*;

/// A call in two encodings, the core's and alloy's.
type Two = (Target, Vec<u8>, Vec<u8>);

fn word() -> impl Strategy<Value = [u8; 32]> {
    prop_oneof![any::<[u8; 32]>(), Just(ZERO), any::<u64>().prop_map(of_u64)]
}

fn u64s() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..40u64, Just(u64::MAX)]
}

fn u32s() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), 0..40u32, Just(u32::MAX)]
}

fn ids() -> impl Strategy<Value = Vec<u32>> {
    vec(u32s(), 0..5)
}

/// Any call of any function.
fn calls() -> impl Strategy<Value = Two> {
    let registry = |core: Vec<u8>, alloy: Vec<u8>| (Target::Registry, core, alloy);
    let infer = |core: Vec<u8>, alloy: Vec<u8>| (Target::Inference, core, alloy);
    let bytes = vec(any::<u8>(), 0..80);
    let b = B256::from;
    let changes = prop_oneof![
        (word(), u64s(), word(), bytes, vec(word(), 0..4)).prop_map(move |(n, v, c, r, p)| {
            let call = proposeCall {
                name: b(n),
                version: v,
                commitment: b(c),
                record: Bytes::from(r.clone()),
                proof: p.iter().copied().map(b).collect(),
            };
            registry(calldata::propose(&n, v, &c, &r, &p), call.abi_encode())
        }),
        (word(), u64s(), word()).prop_map(move |(n, version, c)| {
            let (name, commitment) = (b(n), b(c));
            let call = approveCall {
                name,
                version,
                commitment,
            };
            registry(calldata::approve(&n, version, &c), call.abi_encode())
        }),
        (word(), u64s(), 0..3).prop_map(move |(n, version, which)| {
            let name = b(n);
            let (function, call) = match which {
                0 => (
                    Registry::Activate,
                    activateCall { name, version }.abi_encode(),
                ),
                1 => (Registry::Revoke, revokeCall { name, version }.abi_encode()),
                _ => (
                    Registry::IsRevoked,
                    isRevokedCall { name, version }.abi_encode(),
                ),
            };
            registry(calldata::of_version(function, &n, version), call)
        }),
        (any::<[u8; 20]>(), any::<bool>()).prop_map(move |(a, enabled)| {
            let admin = AlloyAddress::from(a);
            let call = setAdminCall { admin, enabled };
            registry(calldata::set_admin(&a, enabled), call.abi_encode())
        }),
        u32s().prop_map(move |quorum| {
            let call = setQuorumCall { quorum };
            registry(calldata::set_quorum(quorum), call.abi_encode())
        }),
    ];
    let views = prop_oneof![
        (word(), 0..5).prop_map(move |(w, which)| {
            let (name, commitment, action) = (b(w), b(w), b(w));
            let (function, call) = match which {
                0 => (Registry::Record, recordCall { commitment }.abi_encode()),
                1 => (Registry::Pending, pendingCall { name }.abi_encode()),
                2 => (
                    Registry::HighestVersion,
                    highestVersionCall { name }.abi_encode(),
                ),
                3 => (Registry::GetApproved, getApprovedCall { name }.abi_encode()),
                _ => (Registry::Tally, tallyCall { action }.abi_encode()),
            };
            registry(calldata::view(function, Some(&w)), call)
        }),
        u64s().prop_map(move |index| {
            let call = activationCall { index };
            registry(
                calldata::view(Registry::Activation, Some(&of_u64(index))),
                call.abi_encode(),
            )
        }),
        any::<[u8; 20]>().prop_map(move |a| {
            let word = precompile::word::of_address(&a);
            let admin = AlloyAddress::from(a);
            registry(
                calldata::view(Registry::IsAdmin, Some(&word)),
                isAdminCall { admin }.abi_encode(),
            )
        }),
        Just(registry(
            calldata::view(Registry::Governance, None),
            governanceCall {}.abi_encode()
        )),
        Just(registry(
            calldata::view(Registry::ActivationCount, None),
            activationCountCall {}.abi_encode()
        )),
    ];
    let inference = prop_oneof![
        (word(), word(), ids(), u32s()).prop_map(move |(n, c, prompt, max)| {
            let core = calldata::generate(&n, &c, &prompt, max);
            let call = generateCall {
                name: b(n),
                commitment: b(c),
                prompt,
                maxNewTokens: max,
            };
            infer(core, call.abi_encode())
        }),
        (word(), word(), ids(), u32s(), ids()).prop_map(move |(n, c, prompt, max, output)| {
            let core = calldata::verify(&n, &c, &prompt, max, &output);
            let call = verifyCall {
                name: b(n),
                commitment: b(c),
                prompt,
                maxNewTokens: max,
                output,
            };
            infer(core, call.abi_encode())
        }),
        (word(), word(), ids()).prop_map(move |(n, c, tokens)| {
            let core = calldata::logits_digest(&n, &c, &tokens);
            let call = logitsDigestCall {
                name: b(n),
                commitment: b(c),
                tokens,
            };
            infer(core, call.abi_encode())
        }),
        (word(), word(), u32s(), u32s(), 0..3).prop_map(move |(n, c, x, y, which)| {
            let (name, commitment) = (b(n), b(c));
            let (function, tokens, call) = match which {
                0 => {
                    let call = gasOfGenerateCall {
                        name,
                        commitment,
                        promptTokens: x,
                        maxNewTokens: y,
                    };
                    (Infer::GasOfGenerate, vec![x, y], call.abi_encode())
                }
                1 => {
                    let call = gasOfVerifyCall {
                        name,
                        commitment,
                        promptTokens: x,
                        outputTokens: y,
                    };
                    (Infer::GasOfVerify, vec![x, y], call.abi_encode())
                }
                _ => {
                    let call = gasOfLogitsDigestCall {
                        name,
                        commitment,
                        tokens: x,
                    };
                    (Infer::GasOfLogitsDigest, vec![x], call.abi_encode())
                }
            };
            infer(calldata::gas_of(function, &n, &c, &tokens), call)
        }),
    ];
    prop_oneof![changes, views, inference]
}

/// Whether alloy decodes arguments, and encodes what it has decoded to the same bytes.
fn canonical<C: SolCall>(args: &[u8]) -> bool {
    C::abi_decode_raw(args).is_ok_and(|call| call.abi_encode()[4..] == *args)
}

/// The same for the function of a call's selector.
fn alloy_accepts(to: Target, data: &[u8]) -> bool {
    let (selector, args) = data.split_first_chunk().unwrap();
    match to {
        Target::Registry => match Registry::of(*selector).unwrap() {
            Registry::Propose => canonical::<proposeCall>(args),
            Registry::Approve => canonical::<approveCall>(args),
            Registry::Activate => canonical::<activateCall>(args),
            Registry::Revoke => canonical::<revokeCall>(args),
            Registry::SetAdmin => canonical::<setAdminCall>(args),
            Registry::SetQuorum => canonical::<setQuorumCall>(args),
            Registry::Record => canonical::<recordCall>(args),
            Registry::Activation => canonical::<activationCall>(args),
            Registry::Pending => canonical::<pendingCall>(args),
            Registry::HighestVersion => canonical::<highestVersionCall>(args),
            Registry::GetApproved => canonical::<getApprovedCall>(args),
            Registry::IsAdmin => canonical::<isAdminCall>(args),
            Registry::Governance => canonical::<governanceCall>(args),
            Registry::IsRevoked => canonical::<isRevokedCall>(args),
            Registry::Tally => canonical::<tallyCall>(args),
            Registry::ActivationCount => canonical::<activationCountCall>(args),
        },
        Target::Inference => match Infer::of(*selector).unwrap() {
            Infer::Generate => canonical::<generateCall>(args),
            Infer::Verify => canonical::<verifyCall>(args),
            Infer::LogitsDigest => canonical::<logitsDigestCall>(args),
            Infer::GasOfGenerate => canonical::<gasOfGenerateCall>(args),
            Infer::GasOfVerify => canonical::<gasOfVerifyCall>(args),
            Infer::GasOfLogitsDigest => canonical::<gasOfLogitsDigestCall>(args),
        },
    }
}

/// Whether the core takes a call's arguments, whatever it thinks of them.
fn core_accepts(to: Target, data: &[u8]) -> bool {
    let mut chain = Chain::new(&[ALICE], 1);
    let outcome = chain.run(&Call::new(to, data, GAS, ALICE));
    outcome.refusal() != Some(Refusal::NotCanonical)
}

/// A change of a call's arguments.
#[derive(Clone, Debug)]
enum Change {
    Bit(prop::sample::Index, u8),
    /// A word becomes another one.
    Word(prop::sample::Index, [u8; 32]),
    /// A small number is added to a word.
    Add(prop::sample::Index, i8),
    Cut(prop::sample::Index),
    CutWord,
    Append(Vec<u8>),
    AppendWord([u8; 32]),
    /// A word is put in.
    Insert(prop::sample::Index, [u8; 32]),
    /// A word is taken out.
    Remove(prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    use Change::*;
    let at = any::<prop::sample::Index>;
    let odd = prop_oneof![
        word(),
        (0..20u64).prop_map(|n| of_u64(32 * n)),
        Just([0xff; 32]),
        Just(of_u64(1 << 32)),
        Just(of_u64(u64::MAX - 31)),
    ]
    .boxed();
    prop_oneof![
        (at(), 0..8u8).prop_map(|(i, bit)| Bit(i, bit)),
        (at(), odd.clone()).prop_map(|(i, w)| Word(i, w)),
        (at(), prop_oneof![Just(32), Just(-32), any::<i8>()]).prop_map(|(i, n)| Add(i, n)),
        at().prop_map(Cut),
        Just(CutWord),
        vec(any::<u8>(), 1..40).prop_map(Append),
        odd.clone().prop_map(AppendWord),
        (at(), odd).prop_map(|(i, w)| Insert(i, w)),
        at().prop_map(Remove),
        (at(), at()).prop_map(|(i, j)| Swap(i, j)),
    ]
}

fn apply(args: &mut Vec<u8>, change: &Change) {
    let words = args.len() / 32;
    let at = |i: &prop::sample::Index| 32 * i.index(words.max(1));
    match change {
        Change::Append(bytes) => args.extend(bytes),
        Change::AppendWord(word) => args.extend(word),
        _ if words == 0 => {}
        Change::Bit(i, bit) => {
            let i = i.index(args.len());
            args[i] ^= 1 << bit;
        }
        Change::Word(i, word) => args[at(i)..at(i) + 32].copy_from_slice(word),
        Change::Add(i, n) => {
            let end = at(i) + 32;
            let low = u64::from_be_bytes(args[end - 8..end].try_into().unwrap());
            let low = low.wrapping_add_signed((*n).into());
            args[end - 8..end].copy_from_slice(&low.to_be_bytes());
        }
        Change::Cut(i) => args.truncate(i.index(args.len())),
        Change::CutWord => args.truncate(args.len() - 32),
        Change::Insert(i, word) => drop(args.splice(at(i)..at(i), *word)),
        Change::Remove(i) => drop(args.drain(at(i)..at(i) + 32)),
        Change::Swap(i, j) => {
            for k in 0..32 {
                args.swap(at(i) + k, at(j) + k);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn encodings_are_alloys((to, core, alloy) in calls()) {
        prop_assert_eq!(&core, &alloy);
        prop_assert!(core_accepts(to, &core));
        prop_assert!(alloy_accepts(to, &core));
    }

    #[test]
    fn arbitrary_bytes_are_judged_alike(
        (to, mut data, _) in calls(),
        args in vec(prop_oneof![Just(0u8), Just(32), any::<u8>()], 0..300),
    ) {
        data.truncate(4);
        data.extend(args);
        prop_assert_eq!(core_accepts(to, &data), alloy_accepts(to, &data));
    }
}

#[test]
fn exactly_the_canonical_encoding_is_accepted() {
    let (accepted, refused) = (Cell::new(0), Cell::new(0));
    let strategy = (calls(), vec(change(), 1..4));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(40_000));
    let run = runner.run(&strategy, |((to, mut data, _), changes)| {
        let mut args = data.split_off(4);
        changes.iter().for_each(|change| apply(&mut args, change));
        data.extend(args);
        let expected = alloy_accepts(to, &data);
        prop_assert_eq!(core_accepts(to, &data), expected);
        let count = if expected { &accepted } else { &refused };
        count.set(count.get() + 1);
        Ok(())
    });
    run.unwrap();
    // Of both kinds enough to mean something.
    let (accepted, refused) = (accepted.get(), refused.get());
    assert!(
        accepted > 2_000 && refused > 10_000,
        "{accepted} accepted, {refused} refused"
    );
}
