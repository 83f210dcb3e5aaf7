//! Inference through the precompile: answers, claims, prices, refusals.

mod common;

use common::*;
use int_engine::engine::{Engine, Finish, generate as engine_generate, logits_digest};
use int_engine::kernels::Kernels;
use precompile::word::ZERO;
use precompile::{Call, Outcome, Refusal, Target, calldata, gas};
use std::ops::ControlFlow;

fn answer(blob: &Blob, prompt: &[u32], max_new: u32) -> (Vec<u32>, bool) {
    let engine = blob.engine(Kernels::scalar());
    let mut session = engine.session().unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    let answer = engine_generate(&mut *session, prompt, max_new as usize, go_on).unwrap();
    (answer.ids, answer.finish == Finish::Stop)
}

#[test]
fn generate_is_the_engines_answer() {
    let blob = tiny();
    let mut chain = Chain::single(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    for (prompt, max_new) in [
        (vec![1, 7, 13, 2], 16),
        (vec![500], 1),
        (vec![5, 9], 0),
        (vec![3; 40], 5),
    ] {
        for commitment in [ZERO, blob.commitment.0] {
            let data = calldata::generate(&NAME, &commitment, &prompt, max_new);
            let found = tokens(&returned(&chain.infer(&data)));
            assert_eq!(found, answer(&blob, &prompt, max_new), "{prompt:?}");
        }
    }
}

#[test]
fn answers_end_at_stop_ids_and_at_the_end_of_the_context() {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::single(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let (mut stopped, mut cut) = (0, 0);
    for first in 0..37 {
        let prompt = vec![first, (first * 5 + 1) % 37];
        let data = calldata::generate(&NAME, &ZERO, &prompt, 1000);
        let (found, complete) = tokens(&returned(&chain.infer(&data)));
        assert_eq!((found.clone(), complete), answer(&blob, &prompt, 1000));
        let last = found.last().unwrap();
        assert_eq!(complete, [3, 11, 30].contains(last));
        if complete {
            stopped += 1;
        } else {
            assert_eq!(found.len(), 22);
            cut += 1;
        }
    }
    assert!(stopped > 0 && cut > 0, "{stopped} stopped, {cut} cut");
}

#[test]
fn digests_are_those_of_the_logits() {
    let blob = tiny();
    let mut chain = Chain::single(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let ids = [1, 7, 13, 2, 500, 1023, 1532, 0];
    let found = returned(&chain.infer(&calldata::logits_digest(&NAME, &ZERO, &ids)));
    // spec/README.md.
    let expected = "0x9a03f2eb8eef86fb905d340d546cea1d4c5c149e83593803fa0f1c3a90426df4";
    let found = int_engine::commitment::Commitment(found.try_into().unwrap());
    assert_eq!(found.to_string(), expected);
    let engine = blob.engine(Kernels::scalar());
    let mut session = engine.session().unwrap();
    session.feed(&ids).unwrap();
    assert_eq!(found.0, logits_digest(session.logits().unwrap()));
}

#[test]
fn gas_views_tell_the_price_and_one_less_is_not_enough() {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::single(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    use precompile::infer::Function::{GasOfGenerate, GasOfLogitsDigest, GasOfVerify};
    let prompt = [1, 2, 4];
    let output = [5, 6];
    let cases = [
        (
            calldata::generate(&NAME, &ZERO, &prompt, 9),
            calldata::gas_of(GasOfGenerate, &NAME, &ZERO, &[3, 9]),
        ),
        (
            calldata::verify(&NAME, &ZERO, &prompt, 9, &output),
            calldata::gas_of(GasOfVerify, &NAME, &ZERO, &[3, 2]),
        ),
        (
            calldata::logits_digest(&NAME, &ZERO, &prompt),
            calldata::gas_of(GasOfLogitsDigest, &NAME, &ZERO, &[3]),
        ),
    ];
    for (data, view) in cases {
        let told = returned(&chain.infer(&view));
        let price = precompile::word::to_u64(&told.try_into().unwrap()).unwrap();
        let call = |gas| Call::new(Target::Inference, &data, gas, MALLORY);
        let before = chain.state.clone();
        halted(&chain.run(&call(price - 1)), Refusal::OutOfGas);
        assert_eq!(chain.state, before);
        let enough = chain.run(&call(price));
        assert_eq!(enough.gas_used(price), price);
        returned(&enough);
    }
}

#[test]
fn the_whole_of_max_new_is_paid_for() {
    let sizes = precompile::Sizes::of(&tiny().record.config);
    for n in [1, 2, 7, 100] {
        for m in [1, 2, 3, 50] {
            assert!(gas::of_generate(&sizes, n, m) < gas::of_generate(&sizes, n, m + 1));
            assert!(gas::of_generate(&sizes, n, m) < gas::of_generate(&sizes, n + 1, m));
            assert!(
                gas::of_verify(&sizes, n, m.into()) < gas::of_verify(&sizes, n, u64::from(m) + 1)
            );
        }
        assert_eq!(
            gas::of_generate(&sizes, n, 0),
            gas::of_generate(&sizes, n, 1)
        );
    }
    // Counts beyond any calldata have a price, which nothing pays.
    for n in [u64::MAX >> 8, u64::MAX] {
        assert_eq!(gas::of_generate(&sizes, n, u32::MAX), u64::MAX);
        assert_eq!(gas::of_verify(&sizes, n, n), u64::MAX);
        assert_eq!(gas::of_logits_digest(&sizes, n), u64::MAX);
    }
}

#[test]
fn refusals_in_order() {
    let blob = Blob::sample(small(), 3);
    let other = Blob::sample(small(), 4);
    let mut chain = Chain::single(&[&blob]);
    let data = |commitment, prompt: &[u32]| calldata::generate(&NAME, commitment, prompt, 1);
    reverted(&chain.infer(&data(&ZERO, &[1])), Refusal::NoActiveModel);
    chain.adopt(&NAME, 1, &blob);
    reverted(
        &chain.infer(&data(&other.commitment.0, &[1])),
        Refusal::NotActive,
    );
    reverted(&chain.infer(&data(&ZERO, &[])), Refusal::EmptyPrompt);
    reverted(
        &chain.infer(&data(&ZERO, &[99; 25])),
        Refusal::ContextExceeded,
    );
    reverted(
        &chain.infer(&data(&ZERO, &[99; 24])),
        Refusal::TokenOutOfRange,
    );
    reverted(&chain.infer(&data(&ZERO, &[37])), Refusal::TokenOutOfRange);
    let full = tokens(&returned(&chain.infer(&data(&ZERO, &[36; 24]))));
    assert_eq!(full, (vec![], false));
    // A refused call costs its entry price.
    let refused = data(&ZERO, &[]);
    let words = (refused.len() as u64 - 4) / 32;
    let outcome = chain.infer(&refused);
    assert_eq!(outcome.gas_used(GAS), 7_100 + 12 * words);
    assert_eq!(outcome.data().len(), 36);
    assert_eq!(outcome.data()[35], 12);
}

#[test]
fn a_fault_is_no_outcome() {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::single(&[]);
    chain.adopt(&NAME, 1, &blob);
    let data = calldata::generate(&NAME, &ZERO, &[1], 1);
    let call = Call::new(Target::Inference, &data, GAS, MALLORY);
    let fault = chain.state.call(&call, &chain.models).unwrap_err();
    assert!(
        matches!(fault, precompile::Fault::Missing { commitment, .. } if commitment == blob.commitment)
    );
    // Bytes that the format refuses are known to be refused, on every node that has them.
    chain.models.insert_refused(blob.commitment);
    reverted(&chain.infer(&data), Refusal::BadModel);
    // The refusals of the prompt come first, so that no node needs the model for them.
    let empty = calldata::generate(&NAME, &ZERO, &[], 1);
    reverted(
        &Chain {
            models: Default::default(),
            ..chain
        }
        .infer(&empty),
        Refusal::EmptyPrompt,
    );
}

#[test]
fn the_published_packed_call() {
    let mut chain = Chain::new(&[ALICE], 1);
    let data = [0x0100_0000u32, 10, 1, 7, 13, 2]
        .map(u32::to_be_bytes)
        .concat();
    let call = |gas| Call::new(Target::Inference, &data, gas, MALLORY);
    let expected = [1u32, 7, 13, 2, 4, 28, 21, 17, 2, 19, 43, 35, 36, 15];
    let outcome = chain.run(&call(600_000));
    assert_eq!(outcome.gas_used(600_000), 600_000);
    assert_eq!(returned(&outcome), expected.map(u32::to_be_bytes).concat());
    halted(&chain.run(&call(599_999)), Refusal::OutOfGas);
    // Any kind of call answers, but none with value.
    let delegated = Call {
        direct: false,
        is_static: true,
        ..call(600_000)
    };
    assert!(matches!(chain.run(&delegated), Outcome::Return { .. }));
    let paid = Call {
        value_sent: true,
        ..call(600_000)
    };
    halted(&chain.run(&paid), Refusal::ValueSent);
}

#[test]
fn only_bytes_of_the_commitment_speak_for_it() {
    use precompile::{Fault, Lookup, lookup};
    use std::num::NonZeroUsize;
    use std::sync::Arc;
    let blob = Blob::sample(small(), 3);
    let ask = |bytes: &[u8], commitment| {
        let len = bytes.len() as u64;
        let kernels = Kernels::scalar();
        lookup(commitment, bytes, len, NonZeroUsize::MIN, |model| {
            let model = Arc::new(model);
            Arc::new(int_engine::engine::CpuEngine::new(
                model,
                kernels,
                NonZeroUsize::MIN,
            ))
        })
    };
    assert!(matches!(
        ask(&blob.bytes, blob.commitment),
        Ok(Lookup::Ready(_))
    ));
    // A weight of -128, a gap, the magic number: refused by the format, whoever's bytes they are.
    let end = blob.bytes.len();
    for (at, value) in [(0, b'X'), (1024, 0xFF), (end - 1, 0x80), (4095, 0xEE)] {
        let mut bytes = blob.bytes.clone();
        bytes[at] = value;
        let own = Blob::commitment_of(&bytes);
        match ask(&bytes, blob.commitment) {
            Err(Fault::Missing { commitment, reason }) => {
                assert_eq!(commitment, blob.commitment);
                assert!(reason.contains(&own.to_string()), "{reason}");
            }
            _ => panic!("a damaged copy, byte {at}"),
        }
        let whose = ask(&bytes, own);
        assert!(
            matches!(whose, Ok(Lookup::Refused | Lookup::Ready(_))),
            "byte {at}"
        );
        let refused = refuses(&bytes);
        assert_eq!(matches!(whose, Ok(Lookup::Refused)), refused, "byte {at}");
    }
    // A file that ends early is no other blob.
    let short = ask(&blob.bytes[..end - 1], blob.commitment);
    assert!(matches!(short, Err(Fault::Missing { .. })));
}

/// Whether the loader refuses bytes, asked without a commitment.
fn refuses(bytes: &[u8]) -> bool {
    let mut loader = int_engine::blob::Loader::new();
    loader.push(bytes).is_err() || loader.finish().is_err()
}

#[test]
fn a_record_puts_no_name_of_an_older_registry_into_service() {
    let blob = Blob::sample(small(), 3);
    let mut chain = chain3(&[&blob]);
    let old = [9; 32];
    let storage = &mut chain.state.storage;
    storage.insert(
        precompile::slots::version(&old),
        precompile::word::of_u64(1),
    );
    storage.insert(precompile::slots::commitment(&old), blob.commitment.0);
    let ask = calldata::generate(&old, &ZERO, &[1], 2);
    reverted(&chain.infer(&ask), Refusal::NoActiveModel);
    // One vote stores the record; so does an adoption under another name.
    assert!(!truth(&chain.registry(ALICE, &blob.propose(&NAME, 1))));
    reverted(&chain.infer(&ask), Refusal::NoActiveModel);
    assert!(truth(&chain.registry(BOB, &approve(&blob, 1))));
    chain.state.block += DELAY;
    chain.activate(&NAME, 1);
    reverted(&chain.infer(&ask), Refusal::NoActiveModel);
    returned(&chain.infer(&calldata::generate(&NAME, &ZERO, &[1], 2)));
}

#[test]
fn the_prompt_is_refused_by_the_record_and_a_wrong_model_is_a_fault() {
    use precompile::Fault;
    use precompile::memory::ModelSet;
    use std::sync::Arc;
    // Ids from accepted_ids on are padding rows of the vocabulary.
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::single(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    chain.models = ModelSet::default();
    for (prompt, refusal) in [
        (&[37][..], Refusal::TokenOutOfRange),
        (&[39], Refusal::TokenOutOfRange),
        (&[1; 25], Refusal::ContextExceeded),
        (&[], Refusal::EmptyPrompt),
    ] {
        let data = calldata::generate(&NAME, &ZERO, prompt, 1);
        reverted(&chain.infer(&data), refusal);
    }
    // A model whose commitment is right and whose configuration is another one, in every field that is stored.
    let wrong: [fn(&mut int_engine::config::Dims); 6] = [
        |d| d.vocab += 1,
        |d| d.max_context += 1,
        |d| d.qk_norm = false,
        |d| d.eps += 1,
        |d| d.stop_ids.push(31),
        |d| d.scheme = int_engine::config::Scheme::Static,
    ];
    for change in wrong {
        let mut dims = small();
        change(&mut dims);
        let other = Blob::sample(dims, 3);
        let mut state = chain.state.clone();
        let put = precompile::put_active(&mut state, &NAME, blob.commitment, &other.record);
        assert!(put.is_ok());
        let mut models = ModelSet::default();
        models.insert(Arc::new(blob.engine(Kernels::scalar())));
        let data = calldata::generate(&NAME, &ZERO, &[1], 1);
        let call = Call::new(Target::Inference, &data, GAS, MALLORY);
        let fault = state.call(&call, &models).unwrap_err();
        assert!(matches!(fault, Fault::WrongModel { .. }), "{fault}");
    }
}
