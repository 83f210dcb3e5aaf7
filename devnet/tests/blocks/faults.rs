//! A machine that cannot finish an execution gives no verdict; a chain refuses what the execution does not give.

use crate::common::{Blob, small};
use crate::node::{Plan, TINY, adoption, chain, later, models};
use blue_devnet::{BadTransaction, CallAt, Chain, DevAccount, Error, Genesis, Request};
use int_engine::commitment::Commitment;
use int_engine::kernels::Kernels;
use precompile::{Fault, INFERENCE, Lookup, Models, calldata};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Models that are at hand only while the flag is set.
struct Sometimes(Arc<dyn Models + Send + Sync>, Arc<AtomicBool>);

impl Models for Sometimes {
    fn model(&self, commitment: Commitment) -> Result<Lookup, Fault> {
        match self.1.load(Ordering::Relaxed) {
            true => self.0.model(commitment),
            false => Err(Fault::Missing {
                commitment,
                reason: "unplugged".into(),
            }),
        }
    }
}

fn genesis(blob: &Blob) -> Genesis {
    Genesis {
        models: vec![adoption(TINY, blob)],
        ..Genesis::default()
    }
}

fn question() -> Vec<u8> {
    calldata::generate(&TINY, &[0; 32], &[1, 2], 2)
}

fn submit(chain: &Chain, account: &DevAccount) {
    let plan = Plan::call(INFERENCE, question(), 1_000_000);
    chain.submit(plan.sign(chain, account)).unwrap();
}

#[test]
fn a_fault_seals_and_imports_nothing() {
    let blob = Blob::sample(small(), 3);
    let (genesis, accounts) = (genesis(&blob), DevAccount::all());
    let plugged = Arc::new(AtomicBool::new(false));
    let at_hand = || models(&[&blob], Kernels::scalar(), 1);
    let broken = chain(&genesis, Arc::new(Sometimes(at_hand(), plugged.clone())));
    submit(&broken, &accounts[0]);
    let sealed = broken.seal(later(&broken), 10);
    assert!(matches!(sealed, Err(Error::Fault(Fault::Missing { .. }))));
    assert_eq!(broken.head().block.header.number, 0);
    // It stands still until somebody says that the cause is put right, even when it is.
    plugged.store(true, Ordering::Relaxed);
    assert!(matches!(
        broken.seal(later(&broken), 10),
        Err(Error::Fault(_))
    ));
    let healthy = chain(&genesis, at_hand());
    submit(&healthy, &accounts[0]);
    let block = healthy.seal(later(&healthy), 10).unwrap();
    assert!(block.receipts[0].status());
    assert!(matches!(
        broken.import(block.encoded()),
        Err(Error::Fault(_))
    ));
    assert!(broken.fault().is_some());
    assert!(broken.clear_fault().is_some());
    // The transaction has waited; the block is the healthy node's.
    let same = broken.seal(later(&broken), 10).unwrap();
    assert_eq!(same, block);
}

#[test]
fn a_fault_of_a_call_stays_with_the_call() {
    let blob = Blob::sample(small(), 3);
    let plugged = Arc::new(AtomicBool::new(false));
    let at_hand = models(&[&blob], Kernels::scalar(), 1);
    let chain = chain(
        &genesis(&blob),
        Arc::new(Sometimes(at_hand, plugged.clone())),
    );
    let request = Request {
        to: alloy_primitives::TxKind::Call(INFERENCE.into()),
        data: question().into(),
        ..Request::default()
    };
    let call = || chain.call(&chain.head(), CallAt::Same, &request, 1_000_000);
    let error = call().unwrap_err();
    assert!(matches!(error, Error::CallFault(Fault::Missing { .. })));
    assert!(!error.to_string().contains("stands still"), "{error}");
    let estimate = chain.estimate(&chain.head(), CallAt::Same, &request);
    assert!(matches!(estimate, Err(Error::CallFault(_))));
    assert_eq!(chain.fault(), None);
    plugged.store(true, Ordering::Relaxed);
    assert!(call().unwrap().is_success());
    chain.seal(later(&chain), 10).unwrap();
}

#[test]
fn a_block_with_another_result_is_refused() {
    let blob = Blob::sample(small(), 3);
    let (genesis, accounts) = (genesis(&blob), DevAccount::all());
    let [one, two] = [(); 2].map(|()| chain(&genesis, models(&[&blob], Kernels::scalar(), 1)));
    submit(&one, &accounts[0]);
    let block = one.seal(later(&one), 10).unwrap();
    type Change = fn(&mut alloy_consensus::Block<alloy_consensus::TxEnvelope>);
    let changes: [(&str, Change); 9] = [
        ("state root", |b| b.header.state_root.0[3] ^= 1),
        ("receipts root", |b| b.header.receipts_root.0[3] ^= 1),
        ("gas", |b| b.header.gas_used += 1),
        ("next block", |b| b.header.number += 1),
        ("next block", |b| b.header.parent_hash.0[0] ^= 1),
        ("time", |b| b.header.timestamp = 0),
        ("base fee", |b| b.header.base_fee_per_gas = Some(7)),
        ("header", |b| b.header.extra_data = vec![1].into()),
        ("state root", |b| b.body.transactions.clear()),
    ];
    for (what, change) in changes {
        let mut other = block.encoded();
        change(&mut other);
        let Err(Error::Block { reason, .. }) = two.import(other) else {
            panic!("{what}");
        };
        assert!(reason.contains(what), "{reason}");
        assert_eq!(two.head().block.header.number, 0);
    }
    let mut twice = block.encoded();
    twice
        .body
        .transactions
        .push(twice.body.transactions[0].clone());
    let Err(Error::Block { reason, .. }) = two.import(twice) else {
        panic!("the same transaction twice");
    };
    assert!(reason.contains("nonce"), "{reason}");
    assert_eq!(two.import(block.encoded()).unwrap(), block);
}

#[test]
fn transactions_that_are_refused() {
    let blob = Blob::sample(small(), 3);
    let accounts = DevAccount::all();
    let chain = chain(&genesis(&blob), models(&[&blob], Kernels::scalar(), 1));
    let plan = Plan::call([0x55; 20], vec![], 21_000);
    let first = plan.sign(&chain, &accounts[0]);
    let hash = chain.submit(first.clone()).unwrap();
    let refused = |tx| match chain.submit(tx) {
        Err(Error::Transaction(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(first.clone()), BadTransaction::Known(hash));
    let less = Plan {
        gas: 20_999,
        ..plan.clone()
    };
    let least = BadTransaction::IntrinsicGas {
        found: 20_999,
        least: 21_000,
    };
    assert_eq!(refused(less.sign(&chain, &accounts[1])), least);
    let more = Plan {
        gas: 16_777_217,
        ..plan.clone()
    };
    let most = refused(more.sign(&chain, &accounts[1]));
    assert!(matches!(most, BadTransaction::GasLimit { .. }), "{most}");
    let block = chain.seal(later(&chain), 10).unwrap();
    assert_eq!(block.transactions.len(), 1);
    let low = refused(first);
    assert!(matches!(low, BadTransaction::NonceTooLow { .. }), "{low}");
    let back = chain.seal(block.header.timestamp, 10);
    assert!(matches!(back, Err(Error::Time { .. })));
    for bytes in [&[][..], &[0x02], &[0xff; 40], &[0xc0], &[0xf8; 3]] {
        let encoding = chain.submit_raw(bytes).unwrap_err();
        assert!(
            matches!(encoding, Error::Transaction(BadTransaction::Encoding(_))),
            "{encoding}"
        );
    }
}
