//! Answers that were computed elsewhere.

use crate::chain::*;
use crate::contracts::VerifiedOracle::{self, VerifiedOracleErrors};
use alloy_sol_types::{SolCall, SolError, SolInterface, SolValue};
use precompile::{INFERENCE, Refusal, Sizes, gas};
use revm::context::result::{ExecutionResult, HaltReason};
use revm::primitives::{Address, B256, U256};

const PATIENCE: u64 = 20;
const REWARD: u64 = 1_000;

fn verified(chain: &mut Chain, blob: &Blob) -> Address {
    let args = (B256::from(NAME), B256::from(blob.commitment.0), PATIENCE);
    chain.deploy("VerifiedOracle", args.abi_encode())
}

fn put(prompt: &[u32], max_new: u32, answerer: Address) -> VerifiedOracle::askCall {
    VerifiedOracle::askCall {
        prompt: prompt.to_vec(),
        maxNewTokens: max_new,
        answerer,
    }
}

fn submit(id: u64, output: &[u32]) -> VerifiedOracle::submitCall {
    VerifiedOracle::submitCall {
        id: U256::from(id),
        output: output.to_vec(),
    }
}

fn question(chain: &mut Chain, oracle: Address, id: u64) -> VerifiedOracle::Question {
    chain.view(
        oracle,
        &VerifiedOracle::questionOfCall { id: U256::from(id) },
    )
}

fn owed(chain: &mut Chain, oracle: Address, account: [u8; 20]) -> u64 {
    let account = account.into();
    chain
        .view(oracle, &VerifiedOracle::owedCall { account })
        .to()
}

#[test]
fn only_the_models_answer_is_paid() {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::new(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let oracle = verified(&mut chain, &blob);
    let sizes = Sizes::of(&blob.record.config);
    let (mut id, mut paid, mut complete) = (0, 0, 0);
    for (prompt, max_new) in [
        (vec![1, 2, 4], 9),
        (vec![7], 1),
        (vec![5, 9], 0),
        (vec![0], 23),
        (vec![2], 23),
        (vec![9], 23),
    ] {
        let (found, logs) = chain.call(BOB, oracle, REWARD, &put(&prompt, max_new, Address::ZERO));
        assert_eq!(found, U256::from(id));
        let asked = VerifiedOracle::Asked {
            id: found,
            asker: BOB.into(),
            prompt: prompt.clone(),
            maxNewTokens: max_new,
            reward: U256::from(REWARD),
        };
        assert_eq!(event::<VerifiedOracle::Asked>(&logs, oracle), asked);
        let (right, stopped) = answer(&blob, &prompt, max_new);
        complete += usize::from(stopped);
        let open = question(&mut chain, oracle, id);
        let mut wrong = vec![
            [&right[..], &[1]].concat(),
            [&right[..], &[3]].concat(),
            [&[0], &right[..]].concat(),
        ];
        for i in 0..right.len() {
            wrong.push(right[..i].to_vec());
            for id in [(right[i] + 1) % 37, 36 - right[i], 37, u32::MAX] {
                let mut altered = right.clone();
                altered[i] = id;
                wrong.push(altered);
            }
        }
        wrong.retain(|output| *output != right);
        for output in wrong {
            let error =
                chain.refused::<VerifiedOracleErrors>(CAROL, oracle, 0, &submit(id, &output));
            let expected = VerifiedOracle::WrongAnswer { id: found };
            assert_eq!(
                error,
                VerifiedOracleErrors::WrongAnswer(expected),
                "{output:?}, not {right:?}"
            );
        }
        assert_eq!(question(&mut chain, oracle, id), open);
        assert_eq!(owed(&mut chain, oracle, CAROL), paid);

        let (_, logs) = chain.call(CAROL, oracle, 0, &submit(id, &right));
        let answered = VerifiedOracle::Answered {
            id: found,
            answerer: CAROL.into(),
            answer: right.clone(),
        };
        assert_eq!(event::<VerifiedOracle::Answered>(&logs, oracle), answered);
        let price = gas::of_verify(&sizes, prompt.len() as u64, right.len() as u64);
        let last = chain.seen.last().unwrap();
        assert_eq!(
            (last.to, last.gas, last.is_static),
            (INFERENCE.into(), price, true)
        );
        let closed = VerifiedOracle::Question {
            status: 2,
            answer: right.clone(),
            ..open
        };
        assert_eq!(question(&mut chain, oracle, id), closed);
        paid += REWARD;
        assert_eq!(owed(&mut chain, oracle, CAROL), paid);
        for late in [&right[..], &[]] {
            let error =
                chain.refused::<VerifiedOracleErrors>(MALLORY, oracle, 0, &submit(id, late));
            let expected = VerifiedOracle::NotOpen { id: found };
            assert_eq!(error, VerifiedOracleErrors::NotOpen(expected));
        }
        id += 1;
    }
    assert!(
        complete > 0 && complete < id as usize,
        "{complete} of {id} stopped"
    );
    let before = chain.balance(CAROL.into());
    chain.call(CAROL, oracle, 0, &VerifiedOracle::withdrawCall {});
    assert_eq!(chain.balance(CAROL.into()), before + paid);
    assert_eq!(owed(&mut chain, oracle, CAROL), 0);
    chain.call(CAROL, oracle, 0, &VerifiedOracle::withdrawCall {});
    assert_eq!(
        (chain.balance(CAROL.into()), chain.balance(oracle)),
        (before + paid, 0)
    );
}

#[test]
fn an_upgrade_changes_no_accepted_answer() {
    let (old, new) = (Blob::sample(small(), 3), Blob::sample(small(), 4));
    let mut chain = Chain::new(&[&old, &new]);
    chain.adopt(&NAME, 1, &old);
    let oracle = verified(&mut chain, &old);
    let prompt = [1, 2, 4];
    let (id, _) = chain.call(BOB, oracle, REWARD, &put(&prompt, 9, Address::ZERO));
    chain.adopt(&NAME, 2, &new);
    for blob in [&old, &new] {
        let output = answer(blob, &prompt, 9).0;
        let error = chain.refused::<VerifiedOracleErrors>(CAROL, oracle, 0, &submit(0, &output));
        let refusal = Refusal::NotActive.number();
        assert_eq!(
            error,
            VerifiedOracleErrors::ModelChanged(VerifiedOracle::ModelChanged { refusal })
        );
    }
    // The asker gets the reward back, nobody else, and not early.
    let back = VerifiedOracle::takeBackCall { id };
    let error = chain.refused::<VerifiedOracleErrors>(MALLORY, oracle, 0, &back);
    assert_eq!(
        error,
        VerifiedOracleErrors::NotYours(VerifiedOracle::NotYours { asker: BOB.into() })
    );
    let last = question(&mut chain, oracle, 0).lastBlock;
    chain.block = last;
    let error = chain.refused::<VerifiedOracleErrors>(BOB, oracle, 0, &back);
    assert_eq!(
        error,
        VerifiedOracleErrors::TooEarly(VerifiedOracle::TooEarly { lastBlock: last })
    );
    chain.block += 1;
    let (_, logs) = chain.call(BOB, oracle, 0, &back);
    assert_eq!(event::<VerifiedOracle::TakenBack>(&logs, oracle).id, id);
    assert_eq!(owed(&mut chain, oracle, BOB), REWARD);
    let error = chain.refused::<VerifiedOracleErrors>(BOB, oracle, 0, &back);
    assert_eq!(
        error,
        VerifiedOracleErrors::NotOpen(VerifiedOracle::NotOpen { id })
    );
    let output = answer(&old, &prompt, 9).0;
    let error = chain.refused::<VerifiedOracleErrors>(CAROL, oracle, 0, &submit(0, &output));
    assert_eq!(
        error,
        VerifiedOracleErrors::NotOpen(VerifiedOracle::NotOpen { id })
    );
    // Without a commitment it is not deployed at all.
    let args = (B256::from(NAME), B256::ZERO, PATIENCE).abi_encode();
    let output = chain.try_deploy("VerifiedOracle", args).unwrap_err();
    assert_eq!(output[..], VerifiedOracle::NotPinned {}.abi_encode());
}

#[test]
fn other_refusals_of_claims() {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::new(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let oracle = verified(&mut chain, &blob);
    for (i, (prompt, refusal)) in (0u64..).zip([
        (&[][..], Refusal::EmptyPrompt),
        (&[1; 25], Refusal::ContextExceeded),
        (&[1, 37], Refusal::TokenOutOfRange),
    ]) {
        chain.call(BOB, oracle, 0, &put(prompt, 9, Address::ZERO));
        let error = chain.refused::<VerifiedOracleErrors>(CAROL, oracle, 0, &submit(i, &[1]));
        let refusal = refusal.number();
        assert_eq!(
            error,
            VerifiedOracleErrors::QuestionRefused(VerifiedOracle::QuestionRefused { refusal })
        );
    }
    chain.call(BOB, oracle, REWARD, &put(&[1, 2, 4], 9, CAROL.into()));
    let right = answer(&blob, &[1, 2, 4], 9).0;
    let error = chain.refused::<VerifiedOracleErrors>(MALLORY, oracle, 0, &submit(3, &right));
    let answerer = CAROL.into();
    assert_eq!(
        error,
        VerifiedOracleErrors::NotAnswerer(VerifiedOracle::NotAnswerer { answerer })
    );
    let error = chain.refused::<VerifiedOracleErrors>(CAROL, oracle, 0, &submit(4, &right));
    assert_eq!(
        error,
        VerifiedOracleErrors::NotOpen(VerifiedOracle::NotOpen { id: U256::from(4) })
    );
    chain.call(CAROL, oracle, 0, &submit(3, &right));
    assert_eq!(owed(&mut chain, oracle, CAROL), REWARD);
}

#[test]
fn at_any_amount_of_gas_a_right_claim_is_paid_or_nothing_changes() {
    let (blob, first) = long_answer(300);
    let mut chain = Chain::new(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let oracle = verified(&mut chain, &blob);
    let long = vec![6; 250];
    for (id, prompt, max_new) in [(0, &[first][..], 1), (1, &[first], 300), (2, &long, 1)] {
        chain.call(BOB, oracle, REWARD, &put(prompt, max_new, Address::ZERO));
        let claim = submit(id, &answer(&blob, prompt, max_new).0).abi_encode();
        let open = question(&mut chain, oracle, id);
        let (mut paid, mut said) = (0, 0);
        // Above the least gas that a transaction with this calldata may carry.
        for gas in (130_000..4_000_000).step_by(10_007) {
            let mut chain = chain.clone();
            match chain.send(CAROL, oracle, 0, claim.clone(), gas) {
                ExecutionResult::Success { .. } => {
                    assert_eq!(owed(&mut chain, oracle, CAROL), REWARD);
                    paid += 1;
                    continue;
                }
                ExecutionResult::Revert { output, .. } => {
                    let error = VerifiedOracleErrors::abi_decode(&output).unwrap();
                    let said_so = matches!(error, VerifiedOracleErrors::TooLittleGas(_));
                    assert!(said_so, "{gas} gas: {error:?}");
                    said += 1;
                }
                // Less than what it takes to say so.
                ExecutionResult::Halt { reason, .. } => {
                    let out_of_gas = matches!(reason, HaltReason::OutOfGas(_));
                    assert!(out_of_gas && said == 0, "{gas} gas: {reason:?}");
                }
            }
            assert_eq!(paid, 0, "{gas} gas are not enough, less was");
            assert_eq!(question(&mut chain, oracle, id), open);
        }
        assert!(paid > 10 && said > 1, "{paid} paid, {said} said");
    }
}

/// Forwards its calldata by CALL; when it is paid it withdraws again.
fn greedy(oracle: Address) -> Vec<u8> {
    let forward = [
        &[0x36, 0x5f, 0x5f, 0x37, 0x5f, 0x5f, 0x36, 0x5f, 0x5f, 0x73],
        &oracle.0.0[..],
        &[0x5a, 0xf1],
    ]
    .concat();
    let forward = [&forward[..], &[0x5f, 0x52, 0x60, 0x20, 0x5f, 0xf3]].concat();
    let paid = 4 + forward.len() as u8;
    let again = [
        &[0x5b, 0x63],
        &VerifiedOracle::withdrawCall::SELECTOR[..],
        &[0x5f, 0x52, 0x5f, 0x5f, 0x60, 0x04, 0x60, 0x1c],
    ]
    .concat();
    let again = [&again[..], &[0x5f, 0x73], &oracle.0.0, &[0x5a, 0xf1, 0x00]].concat();
    [&[0x34, 0x60, paid, 0x57], &forward[..], &again].concat()
}

#[test]
fn a_reward_is_withdrawn_once() {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::new(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let oracle = verified(&mut chain, &blob);
    for _ in 0..3 {
        chain.call(BOB, oracle, REWARD, &put(&[1, 2, 4], 9, Address::ZERO));
    }
    let thief = chain.place(greedy(oracle));
    let right = answer(&blob, &[1, 2, 4], 9).0;
    for data in [
        submit(0, &right).abi_encode(),
        VerifiedOracle::withdrawCall {}.abi_encode(),
    ] {
        let (output, _) = chain.raw(MALLORY, thief, 0, data);
        assert!(bool::abi_decode(&output).unwrap());
    }
    assert_eq!(
        (chain.balance(thief), chain.balance(oracle)),
        (REWARD, 2 * REWARD)
    );
}
