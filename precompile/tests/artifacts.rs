//! What contract authors get in `precompile/solidity` is what the core does: functions, events, errors, constants, results.

#![allow(clippy::too_many_arguments, reason = "made by a macro of interfaces")]

mod common;

use alloy_sol_types::private::B256;
use alloy_sol_types::{SolCall, SolError, SolEventInterface, SolType, sol};
use common::*;
use int_engine::commitment::{Commitment, keccak256};
use precompile::infer::Function as Infer;
use precompile::registry::Function as Registry;
use precompile::word::{Word, ZERO, of_u64};
use precompile::{INFERENCE, REGISTRY, Refusal, calldata, revert_data, selector};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

sol!(
    #[sol(all_derives)]
    "solidity/IModelRegistry.sol"
);
sol!("solidity/IInference.sol");
sol!("solidity/IRefused.sol");

use IInference::*;
use IModelRegistry::*;

fn file(path: &str) -> String {
    let path = format!("{}/solidity/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn artifact(name: &str) -> Value {
    serde_json::from_str(&file(&format!("artifacts/{name}.json"))).unwrap()
}

/// The items of an artifact's ABI of one kind.
fn items<'a>(artifact: &'a Value, kind: &str) -> Vec<&'a Value> {
    let abi = artifact["abi"].as_array().unwrap();
    abi.iter().filter(|item| item["type"] == kind).collect()
}

fn types(list: &Value) -> String {
    let all = list.as_array().unwrap().iter();
    let all: Vec<_> = all.map(|item| item["type"].as_str().unwrap()).collect();
    all.join(",")
}

fn signature(item: &Value) -> String {
    format!(
        "{}({})",
        item["name"].as_str().unwrap(),
        types(&item["inputs"])
    )
}

/// Signature, selector, whether it is a view.
type Known = BTreeSet<(String, [u8; 4], bool)>;

fn functions(name: &str) -> Known {
    let artifact = artifact(name);
    let functions = items(&artifact, "function");
    let selectors = artifact["selectors"].as_object().unwrap();
    assert_eq!(selectors.len(), functions.len(), "{name}");
    let known = functions.into_iter().map(|item| {
        let signature = signature(item);
        let hex = selectors[&signature].as_str().unwrap();
        let selector = u32::from_str_radix(hex, 16).unwrap().to_be_bytes();
        let view = match item["stateMutability"].as_str().unwrap() {
            "view" => true,
            "nonpayable" => false,
            other => panic!("{signature} is {other}"),
        };
        (signature, selector, view)
    });
    known.collect()
}

#[test]
fn functions_are_those_of_the_core() {
    let registry: Known = Registry::ALL
        .iter()
        .map(|f| (f.signature().to_owned(), f.selector(), !f.writes()))
        .collect();
    assert_eq!(functions("IModelRegistry"), registry);
    let inference: Known = Infer::ALL
        .iter()
        .map(|f| (f.signature().to_owned(), f.selector(), true))
        .collect();
    assert_eq!(functions("IInference"), inference);
}

/// The types that alloy reads in an interface: of a function's results.
fn results<C: SolCall>() -> (String, String) {
    let name = <C::ReturnTuple<'_> as SolType>::SOL_NAME;
    (
        C::SIGNATURE.to_owned(),
        name.trim_matches(['(', ')'])
            .trim_end_matches(',')
            .to_owned(),
    )
}

/// Decodes a result; alloy writes it to the same bytes.
fn decoded<C: SolCall>(output: &[u8]) -> C::Return {
    let found = C::abi_decode_returns_validate(output).unwrap();
    assert_eq!(C::abi_encode_returns(&found), output, "{}", C::SIGNATURE);
    found
}

#[test]
fn results_of_the_interfaces_are_the_cores() {
    let blob = Blob::sample(small(), 3);
    let next = Blob::sample(small(), 4);
    let mut chain = Chain::single(&[&blob, &next]);
    chain.adopt(&NAME, 1, &blob);
    chain.adopt(&NAME, 4, &next);
    returned(&chain.registry(ALICE, &blob.propose(&NAME, 9)));
    let first = B256::from(blob.commitment.0);
    let second = B256::from(next.commitment.0);
    let view = |chain: &mut Chain, function, word: Option<&Word>| {
        returned(&chain.registry(MALLORY, &calldata::view(function, word)))
    };

    let r = decoded::<getApprovedCall>(&view(&mut chain, Registry::GetApproved, Some(&NAME)));
    assert_eq!((r.version.to(), r.commitment), (4u64, second));
    let r = decoded::<pendingCall>(&view(&mut chain, Registry::Pending, Some(&NAME)));
    let block = chain.state.block + DELAY;
    assert_eq!(
        (r.version, r.commitment, r.activationBlock),
        (9, first, block)
    );
    let r = decoded::<highestVersionCall>(&view(&mut chain, Registry::HighestVersion, Some(&NAME)));
    assert_eq!(r.to::<u64>(), 9);
    let alice = precompile::word::of_address(&ALICE);
    assert!(decoded::<isAdminCall>(&view(
        &mut chain,
        Registry::IsAdmin,
        Some(&alice)
    )));
    let r = decoded::<governanceCall>(&view(&mut chain, Registry::Governance, None));
    let found = (r.admins, r.quorum, r.delay, r.window, r.epoch);
    assert_eq!(found, (1, 1, DELAY, WINDOW, 0));
    assert_eq!(
        decoded::<activationCountCall>(&view(&mut chain, Registry::ActivationCount, None)),
        2
    );
    let index = of_u64(1);
    let r = decoded::<activationCall>(&view(&mut chain, Registry::Activation, Some(&index)));
    assert_eq!(
        (r.name.0, r.version, r.commitment, r.activatedAt),
        (NAME, 4, second, chain.state.block)
    );
    let revoked = calldata::of_version(Registry::IsRevoked, &NAME, 1);
    assert!(!decoded::<isRevokedCall>(&returned(
        &chain.registry(MALLORY, &revoked)
    )));
    let action = precompile::registry::Action::Revoke {
        name: NAME,
        version: 4,
    }
    .id(0);
    let revoke = calldata::of_version(Registry::Revoke, &NAME, 4);
    assert!(decoded::<revokeCall>(&returned(
        &chain.clone().registry(ALICE, &revoke)
    )));
    let r = decoded::<tallyCall>(&view(&mut chain, Registry::Tally, Some(&action)));
    assert_eq!((r.round, r.lastBlock, r.votes), (0, 0, 0));

    let record = view(&mut chain, Registry::Record, Some(&blob.commitment.0));
    let r = decoded::<recordCall>(&record);
    let d = small();
    assert_eq!(
        r.sizes,
        [
            d.hidden,
            d.layers,
            d.heads,
            d.kv_heads,
            d.head_dim,
            d.intermediate,
            d.vocab,
            d.accepted_ids,
            d.max_context
        ]
    );
    assert_eq!(
        (r.scheme, r.qkNorm, r.tied, r.eps),
        (d.scheme.code(), d.qk_norm, d.tied, d.eps)
    );
    assert_eq!(
        (r.totalLen, r.manifestLen),
        (blob.record.total_len, blob.record.manifest_len)
    );
    assert_eq!(
        (r.tokenizerDigest.0, r.stopIds),
        (blob.record.tokenizer_digest, d.stop_ids)
    );

    let prompt = [1, 2, 4];
    let answer = returned(&chain.infer(&calldata::generate(&NAME, &ZERO, &prompt, 6)));
    let r = decoded::<generateCall>(&answer);
    assert_eq!((r.tokens.clone(), r.complete), tokens(&answer));
    for (claim, right) in [(&r.tokens[..], true), (&r.tokens[1..], false)] {
        let data = calldata::verify(&NAME, &ZERO, &prompt, 6, claim);
        assert_eq!(decoded::<verifyCall>(&returned(&chain.infer(&data))), right);
    }
    decoded::<logitsDigestCall>(&returned(
        &chain.infer(&calldata::logits_digest(&NAME, &ZERO, &prompt)),
    ));
    let sizes = precompile::Sizes::of(&next.record.config);
    let price = |chain: &mut Chain, function, tokens: &[u32]| {
        returned(&chain.infer(&calldata::gas_of(function, &NAME, &ZERO, tokens)))
    };
    assert_eq!(
        decoded::<gasOfGenerateCall>(&price(&mut chain, Infer::GasOfGenerate, &[3, 6])),
        precompile::gas::of_generate(&sizes, 3, 6)
    );
    assert_eq!(
        decoded::<gasOfVerifyCall>(&price(&mut chain, Infer::GasOfVerify, &[3, 6])),
        precompile::gas::of_verify(&sizes, 3, 6)
    );
    assert_eq!(
        decoded::<gasOfLogitsDigestCall>(&price(&mut chain, Infer::GasOfLogitsDigest, &[3])),
        precompile::gas::of_logits_digest(&sizes, 3)
    );
}

#[test]
fn results_in_the_artifacts_are_those_of_the_sources() {
    let found: BTreeMap<String, String> = ["IModelRegistry", "IInference"]
        .iter()
        .flat_map(|name| {
            let artifact = artifact(name);
            let result = |item: &&Value| (signature(item), types(&item["outputs"]));
            items(&artifact, "function")
                .iter()
                .map(result)
                .collect::<Vec<_>>()
        })
        .collect();
    let expected = BTreeMap::from([
        results::<proposeCall>(),
        results::<approveCall>(),
        results::<activateCall>(),
        results::<revokeCall>(),
        results::<setAdminCall>(),
        results::<setQuorumCall>(),
        results::<recordCall>(),
        results::<activationCall>(),
        results::<pendingCall>(),
        results::<highestVersionCall>(),
        results::<getApprovedCall>(),
        results::<isAdminCall>(),
        results::<governanceCall>(),
        results::<isRevokedCall>(),
        results::<tallyCall>(),
        results::<activationCountCall>(),
        results::<generateCall>(),
        results::<verifyCall>(),
        results::<logitsDigestCall>(),
        results::<gasOfGenerateCall>(),
        results::<gasOfVerifyCall>(),
        results::<gasOfLogitsDigestCall>(),
    ]);
    assert_eq!(found, expected);
}

/// A flow in which every event happens.
fn every_event() -> Vec<(Vec<Word>, Vec<u8>)> {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::single(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    for data in [
        calldata::of_version(Registry::Revoke, &NAME, 1),
        calldata::set_admin(&BOB, true),
        calldata::set_quorum(2),
    ] {
        returned(&chain.registry(ALICE, &data));
    }
    chain.state.logs
}

#[test]
fn events_are_those_of_the_core() {
    let artifact = artifact("IModelRegistry");
    // Topic of the signature: number of indexed words, types of the rest.
    let mut declared = BTreeMap::new();
    for item in items(&artifact, "event") {
        assert_eq!(item["anonymous"], false);
        let inputs = item["inputs"].as_array().unwrap();
        let indexed = inputs.iter().filter(|i| i["indexed"] == true).count();
        let leading = inputs.iter().take_while(|i| i["indexed"] == true).count();
        assert_eq!(indexed, leading, "{}", item["name"]);
        declared.insert(keccak256(signature(item).as_bytes()), indexed);
    }
    let mut seen = BTreeMap::new();
    for (topics, data) in every_event() {
        seen.insert(topics[0], topics.len() - 1);
        let topics: Vec<B256> = topics.into_iter().map(B256::from).collect();
        let event = IModelRegistryEvents::decode_raw_log(&topics, &data).unwrap();
        let again = alloy_sol_types::private::IntoLogData::into_log_data(event);
        assert_eq!((again.topics(), &again.data[..]), (&topics[..], &data[..]));
    }
    assert_eq!(seen, declared);
    assert_eq!(seen.len(), IModelRegistryEvents::COUNT);
}

#[test]
fn values_of_events() {
    let blob = Blob::sample(small(), 3);
    let commitment = B256::from(blob.commitment.0);
    let name = B256::from(NAME);
    let events: Vec<_> = every_event()
        .into_iter()
        .map(|(topics, data)| {
            let topics = topics.into_iter().map(B256::from);
            IModelRegistryEvents::decode_raw_log(&topics.collect::<Vec<_>>(), &data).unwrap()
        })
        .collect();
    use IModelRegistryEvents as E;
    let kinds: Vec<u8> = events
        .iter()
        .filter_map(|e| match e {
            E::Voted(v) => {
                assert_eq!((v.admin.0.0, v.votes, v.quorum), (ALICE, 1, 1));
                Some(v.kind)
            }
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [1, 2, 3, 4]);
    let rest: Vec<_> = events
        .into_iter()
        .filter(|e| !matches!(e, E::Voted(_)))
        .collect();
    let (version, index) = (1, 0);
    let (admin, enabled) = (BOB.into(), true);
    assert_eq!(
        rest,
        [
            E::Passed(Passed {
                name,
                version,
                commitment,
                activationBlock: 1 + DELAY
            }),
            E::Activated(Activated {
                name,
                version,
                commitment,
                index
            }),
            E::Revoked(Revoked {
                name,
                version,
                commitment
            }),
            E::AdminSet(AdminSet {
                admin,
                enabled,
                epoch: 1
            }),
            E::QuorumSet(QuorumSet {
                quorum: 2,
                epoch: 2
            }),
        ]
    );
}

#[test]
fn the_error_is_the_cores() {
    for name in ["IRefused", "IModelRegistry", "IInference"] {
        let artifact = artifact(name);
        let errors: Vec<_> = items(&artifact, "error")
            .into_iter()
            .map(signature)
            .collect();
        assert_eq!(errors, ["Refused(uint16)"], "{name}");
    }
    assert_eq!(IRefused::Refused::SELECTOR, selector("Refused(uint16)"));
    for &refusal in Refusal::ALL {
        let error = IRefused::Refused {
            number: refusal.number(),
        };
        assert_eq!(error.abi_encode(), revert_data(refusal));
    }
}

/// `NotActive` of `NOT_ACTIVE`.
fn camel(name: &str) -> String {
    let word = |word: &str| word[..1].to_owned() + &word[1..].to_lowercase();
    name.split('_').map(word).collect()
}

#[test]
fn constants_are_the_cores() {
    let text = file("BlueRefusals.sol");
    let found: Vec<(String, u16)> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("uint16 internal constant "))
        .map(|line| {
            let (name, number) = line.strip_suffix(';').unwrap().split_once(" = ").unwrap();
            (camel(name), number.parse().unwrap())
        })
        .collect();
    let expected: Vec<_> = Refusal::ALL
        .iter()
        .map(|r| (r.name().to_owned(), r.number()))
        .collect();
    assert_eq!(found, expected);
    let text = file("BluePrecompiles.sol");
    for (constant, interface, address) in [
        ("REGISTRY", "IModelRegistry", REGISTRY),
        ("INFERENCE", "IInference", INFERENCE),
    ] {
        let word = Commitment(precompile::word::of_address(&address)).to_string();
        let line = format!(
            "{interface} internal constant {constant} = {interface}(0x{});",
            &word[26..]
        );
        assert!(text.contains(&line), "no {line}");
    }
}
