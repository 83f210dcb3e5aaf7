//! Answers in the transaction that asks.

use crate::chain::*;
use crate::contracts::Oracle::{self, OracleErrors};
use alloy_sol_types::{SolCall, SolInterface, SolValue};
use precompile::word::{Word, ZERO};
use precompile::{INFERENCE, Refusal, Sizes, gas};
use revm::context::result::{ExecutionResult, HaltReason};
use revm::primitives::{Address, B256, Bytes, U256};

fn oracle(chain: &mut Chain, commitment: &Word) -> Address {
    chain.deploy(
        "Oracle",
        (B256::from(NAME), B256::from(*commitment)).abi_encode(),
    )
}

fn ask(prompt: &[u32], max_new: u32) -> Oracle::askCall {
    Oracle::askCall {
        prompt: prompt.to_vec(),
        maxNewTokens: max_new,
    }
}

#[test]
fn an_oracle_keeps_and_emits_the_models_answer() {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::new(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let sizes = Sizes::of(&blob.record.config);
    let mut ends = [0, 0];
    for commitment in [ZERO, blob.commitment.0] {
        let oracle = oracle(&mut chain, &commitment);
        for id in 0..12u32 {
            let prompt: Vec<u32> = (0..=id % 5).map(|i| (7 * id + i) % 37).collect();
            let max_new = 3 * id;
            let (found, logs) = chain.call(BOB, oracle, 0, &ask(&prompt, max_new));
            assert_eq!(found, U256::from(id));
            let (tokens, complete) = answer(&blob, &prompt, max_new);
            ends[usize::from(complete)] += 1;
            let expected = Oracle::Answered {
                id: found,
                asker: BOB.into(),
                prompt: prompt.clone(),
                tokens: tokens.clone(),
                complete,
            };
            assert_eq!(event::<Oracle::Answered>(&logs, oracle), expected);
            let price = gas::of_generate(&sizes, prompt.len() as u64, max_new);
            let calls: Vec<_> = chain.seen.iter().map(|call| call.is_static).collect();
            assert_eq!(calls, [true, true]);
            assert_eq!(
                (chain.seen[1].to, chain.seen[1].gas),
                (INFERENCE.into(), price)
            );
            let kept = chain.view(oracle, &Oracle::answerOfCall { id: found });
            assert_eq!(kept.asker.0.0, BOB);
            assert_eq!((kept.tokens, kept.complete), (tokens, complete));
        }
        let none = chain.view(oracle, &Oracle::answerOfCall { id: U256::from(12) });
        assert_eq!((none.asker, none.tokens), (Address::ZERO, vec![]));
    }
    assert!(ends[0] > 2 && ends[1] > 2, "{ends:?}");
}

#[test]
fn an_oracle_says_how_much_gas_it_lacks() {
    let (blob, first) = long_answer(300);
    let mut chain = Chain::new(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let oracle = oracle(&mut chain, &ZERO);
    for (prompt, max_new) in [
        (vec![first], 0),
        (vec![first], 1),
        (vec![first], 300),
        (vec![5; 3], 40),
        (vec![5; 300], 1),
        (vec![5; 250], 300),
    ] {
        let n = prompt.len();
        let call = ask(&prompt, max_new);
        let run = |gas| {
            let mut chain = chain.clone();
            match chain.send(BOB, oracle, 0, call.abi_encode(), gas) {
                ExecutionResult::Success { .. } => Some(None),
                ExecutionResult::Revert { output, .. } => {
                    let OracleErrors::TooLittleGas(e) = OracleErrors::abi_decode(&output).unwrap()
                    else {
                        panic!("{gas} gas: {output}")
                    };
                    assert!(e.left < e.needed && e.left < U256::from(gas));
                    // Nothing of the model was paid for.
                    assert_eq!(chain.seen.len(), 1);
                    Some(Some(e.needed.to::<u64>()))
                }
                ExecutionResult::Halt {
                    reason: HaltReason::OutOfGas(_),
                    ..
                } => None,
                ExecutionResult::Halt { reason, .. } => panic!("{gas} gas: {reason:?}"),
            }
        };
        // Least gas with which it succeeds; below it the contract says what it lacks, or cannot even say that.
        let (mut little, mut enough) = (130_000, GAS);
        assert_eq!(run(GAS), Some(None), "{n}, {max_new}");
        while enough - little > 1 {
            let middle = u64::midpoint(little, enough);
            match run(middle) {
                Some(None) => enough = middle,
                _ => little = middle,
            }
        }
        let needed = run(enough - 1).flatten().expect("said");
        assert!(needed < enough);
        let told = chain.clone().view(
            oracle,
            &Oracle::gasToAskCall {
                promptTokens: U256::from(n),
                maxNewTokens: max_new,
            },
        );
        assert_eq!(told, U256::from(needed));
        let mut said = 0;
        for step in 0..200 {
            let gas = 130_000 + (enough - 130_000) * step / 200;
            match run(gas) {
                Some(Some(e)) => {
                    assert_eq!(e, needed);
                    said += 1;
                }
                Some(None) => panic!("{gas} gas are enough, {} were not", enough - 1),
                None => {}
            }
        }
        assert!(said > 10, "{said} of 200");
    }
}

/// Answers every call with this number.
fn constant(number: u64) -> Vec<u8> {
    let number = number.to_be_bytes();
    [&[0x67], &number[..], &[0x5f, 0x52, 0x60, 0x20, 0x5f, 0xf3]].concat()
}

#[test]
fn where_the_gas_is_just_enough_the_whole_price_is_forwarded() {
    let mut chain = Chain::new(&[]);
    let oracle = oracle(&mut chain, &ZERO);
    // An account in the place of inference that names this price and is called with what the EVM forwards.
    chain.rules = false;
    for price in [1, 62, 63, 64, 1_000_000, 15_000_000, 16_000_000] {
        chain.place_at(INFERENCE.into(), constant(price));
        let call = ask(&[1], 1).abi_encode();
        let mut forwarded = |gas| {
            chain.send(BOB, oracle, 0, call.clone(), gas);
            chain.seen.get(1).map(|call| call.gas)
        };
        let (mut little, mut enough) = (130_000, GAS);
        assert_eq!(forwarded(little), None);
        assert_eq!(forwarded(enough), Some(price));
        while enough - little > 1 {
            let middle = u64::midpoint(little, enough);
            match forwarded(middle) {
                Some(_) => enough = middle,
                None => little = middle,
            }
        }
        assert_eq!(forwarded(enough), Some(price));
    }
}

#[test]
fn an_oracle_tells_an_upgrade_from_other_refusals() {
    let (old, new) = (Blob::sample(small(), 3), Blob::sample(small(), 4));
    let mut chain = Chain::new(&[&old, &new]);
    let pinned = oracle(&mut chain, &old.commitment.0);
    let newest = oracle(&mut chain, &ZERO);
    let prompt = [1, 2, 4];
    let refused = |chain: &mut Chain, to, prompt: &[u32]| {
        let before = chain.view(to, &Oracle::countCall {});
        let error = chain.refused::<OracleErrors>(BOB, to, 0, &ask(prompt, 9));
        assert_eq!(chain.view(to, &Oracle::countCall {}), before);
        error
    };
    let changed = |refusal: Refusal| {
        let refusal = refusal.number();
        OracleErrors::ModelChanged(Oracle::ModelChanged { refusal })
    };
    for to in [pinned, newest] {
        let found = refused(&mut chain, to, &prompt);
        assert_eq!(found, changed(Refusal::NoActiveModel));
    }
    chain.adopt(&NAME, 1, &old);
    for to in [pinned, newest] {
        for (prompt, refusal) in [
            (&[][..], Refusal::EmptyPrompt),
            (&[1; 25], Refusal::ContextExceeded),
            (&[1, 37], Refusal::TokenOutOfRange),
        ] {
            let refusal = refusal.number();
            let expected = OracleErrors::QuestionRefused(Oracle::QuestionRefused { refusal });
            assert_eq!(refused(&mut chain, to, prompt), expected);
        }
        let (_, logs) = chain.call(BOB, to, 0, &ask(&prompt, 9));
        assert_eq!(
            event::<Oracle::Answered>(&logs, to).tokens,
            answer(&old, &prompt, 9).0
        );
    }
    chain.adopt(&NAME, 2, &new);
    assert_eq!(
        refused(&mut chain, pinned, &prompt),
        changed(Refusal::NotActive)
    );
    let (_, logs) = chain.call(BOB, newest, 0, &ask(&prompt, 9));
    assert_eq!(
        event::<Oracle::Answered>(&logs, newest).tokens,
        answer(&new, &prompt, 9).0
    );
    assert_ne!(answer(&old, &prompt, 9), answer(&new, &prompt, 9));
    chain.revoke(&NAME, 2);
    for to in [pinned, newest] {
        let found = refused(&mut chain, to, &prompt);
        assert_eq!(found, changed(Refusal::NoActiveModel));
    }
}

#[test]
fn without_the_precompiles_the_marker_code_is_what_try_catches() {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::new(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let oracle = oracle(&mut chain, &ZERO);
    chain.rules = false;
    let error = chain.refused::<OracleErrors>(BOB, oracle, 0, &ask(&[1], 1));
    assert_eq!(error, OracleErrors::NoInference(Oracle::NoInference {}));
    // Without code the call succeeds, and no catch sees that nothing came back.
    chain
        .db
        .insert_account_info(INFERENCE.into(), Default::default());
    match chain.send(BOB, oracle, 0, ask(&[1], 1).abi_encode(), GAS) {
        ExecutionResult::Revert { output, .. } => assert_eq!(output, Bytes::new()),
        other => panic!("{other:?}"),
    }
}

/// Forwards its calldata to a contract by STATICCALL, and returns whether that succeeded.
fn static_proxy(to: Address) -> Vec<u8> {
    let call = [
        &[0x36, 0x5f, 0x5f, 0x37, 0x5f, 0x5f, 0x36, 0x5f, 0x73],
        &to.0.0[..],
        &[0x5a, 0xfa],
    ]
    .concat();
    [&call[..], &[0x5f, 0x52, 0x60, 0x20, 0x5f, 0xf3]].concat()
}

#[test]
fn a_static_context_reads_and_does_not_write() {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::new(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let oracle = oracle(&mut chain, &ZERO);
    let proxy = chain.place(static_proxy(oracle));
    let price = Oracle::priceOfCall {
        promptTokens: U256::from(1),
        maxNewTokens: 1,
    };
    let sizes = Sizes::of(&blob.record.config);
    assert_eq!(chain.view(oracle, &price), gas::of_generate(&sizes, 1, 1));
    for (data, ok) in [
        (price.abi_encode(), true),
        (ask(&[1], 1).abi_encode(), false),
    ] {
        let (output, logs) = chain.raw(BOB, proxy, 0, data);
        assert_eq!(bool::abi_decode(&output).unwrap(), ok);
        assert!(logs.is_empty());
    }
    assert_eq!(chain.view(oracle, &Oracle::countCall {}), U256::ZERO);
}
