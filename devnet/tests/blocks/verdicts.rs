//! A chain whose database fails stands still; one that stands still gives no verdict.

use crate::flaky::Flaky;
use crate::node::{Plan, chain, later, on};
use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_primitives::{B256, Signature, TxKind, U256};
use blue_devnet::database::{Database, DatabaseError, Stored};
use blue_devnet::{Block, Chain, Change, Config, DevAccount, Error, Genesis};
use precompile::memory::ModelSet;
use precompile::{Fault, Models};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn none() -> Arc<dyn Models + Send + Sync> {
    Arc::new(ModelSet::default())
}

fn plain() -> Chain {
    chain(&Genesis::default(), none())
}

fn transfer(chain: &Chain, from: usize) -> TxEnvelope {
    Plan::call([0x55; 20], vec![], 21_000).sign(chain, &DevAccount::all()[from])
}

fn is_state(error: &Error) -> bool {
    matches!(error, Error::Fault(Fault::State(said)) if said.contains("no space left"))
}

#[test]
fn a_database_that_fails_is_a_fault() {
    let database = Flaky::default();
    let fails = database.fails.clone();
    let chain = on(&Genesis::default(), none(), Box::new(database));
    let healthy = plain();
    let tx = transfer(&chain, 0);
    chain.submit(tx.clone()).unwrap();
    healthy.submit(tx).unwrap();
    let block = healthy.seal(later(&healthy), 1).unwrap();

    fails.store(true, Ordering::Relaxed);
    // Whether it was in a block, nobody can tell.
    let other = chain.submit(transfer(&chain, 1)).unwrap_err();
    assert!(matches!(other, Error::Database(_)), "{other}");
    assert_eq!(chain.fault(), None);
    let sealed = chain.seal(later(&chain), 1).unwrap_err();
    assert!(is_state(&sealed), "{sealed}");
    assert_eq!(chain.head().block.header.number, 0);
    // It stays so until somebody says that the cause is put right.
    fails.store(false, Ordering::Relaxed);
    for error in [
        chain.seal(later(&chain), 1).unwrap_err(),
        chain.seal_one(later(&chain)).unwrap_err(),
        chain.import(block.encoded()).unwrap_err(),
    ] {
        assert!(is_state(&error), "{error}");
    }
    assert!(chain.clear_fault().is_some());

    fails.store(true, Ordering::Relaxed);
    let imported = chain.import(block.encoded()).unwrap_err();
    assert!(is_state(&imported), "{imported}");
    fails.store(false, Ordering::Relaxed);
    chain.clear_fault();
    assert_eq!(chain.import(block.encoded()).unwrap(), block);
}

#[test]
fn a_chain_that_stands_still_says_nothing_of_a_block() {
    let healthy = plain();
    healthy.submit(transfer(&healthy, 0)).unwrap();
    let first = healthy.seal(later(&healthy), 1).unwrap();
    let second = healthy.seal(later(&healthy), 1).unwrap();

    let database = Flaky::default();
    let fails = database.fails.clone();
    let chain = on(&Genesis::default(), none(), Box::new(database));
    fails.store(true, Ordering::Relaxed);
    assert!(chain.seal(later(&chain), 1).is_err());
    let mut early = first.encoded();
    early.header.timestamp = 0;
    let mut forged = first.encoded();
    forge(&mut forged);
    for block in [second.encoded(), first.encoded(), early, forged] {
        let error = chain.import(block).unwrap_err();
        assert!(is_state(&error), "{error}");
    }
    let past = chain.seal(0, 1).unwrap_err();
    assert!(is_state(&past), "{past}");
}

/// Gives the first transaction a signature that is nobody's.
fn forge(block: &mut alloy_consensus::Block<TxEnvelope>) {
    let TxEnvelope::Eip1559(tx) = &block.body.transactions[0] else {
        panic!("another type of transaction");
    };
    let nobody = Signature::new(U256::ZERO, U256::ZERO, false);
    let tx = alloy_consensus::Signed::new_unhashed(tx.tx().clone(), nobody);
    block.body.transactions[0] = tx.into();
}

#[test]
fn a_signature_that_is_nobodys_is_the_blocks_fault() {
    let [one, two] = [plain(), plain()];
    one.submit(transfer(&one, 0)).unwrap();
    let block = one.seal(later(&one), 1).unwrap();
    let mut forged = block.encoded();
    forge(&mut forged);
    let error = two.import(forged).unwrap_err();
    let Error::Block { number: 1, reason } = &error else {
        panic!("{error}");
    };
    assert!(reason.contains("invalid signature"), "{reason}");
    assert_eq!(two.import(block.encoded()).unwrap(), block);
}

#[test]
fn a_transaction_that_cannot_pay_any_more_makes_no_block() {
    let chain = plain();
    let account = &DevAccount::all()[0];
    let send = |nonce: u64, value: U256| {
        let tx = TxEip1559 {
            chain_id: chain.chain_id(),
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: 1_000_000_000_000,
            max_priority_fee_per_gas: 1,
            to: TxKind::Call([0x55; 20].into()),
            value,
            access_list: Default::default(),
            input: Default::default(),
        };
        let signature = account.sign(&tx.signature_hash()).unwrap();
        chain.submit(tx.into_signed(signature).into()).unwrap()
    };
    let head = chain.head();
    let balance = head.state.account(&account.address).unwrap().balance;
    let most = balance * U256::from(3) / U256::from(4);
    let [first, second] = [0, 1].map(|nonce| send(nonce, most));
    let block = chain.seal_one(later(&chain)).unwrap().unwrap();
    assert_eq!(*block.transactions[0].hash(), first);
    assert!(chain.waiting(&second).is_some());
    assert!(chain.seal_one(later(&chain)).unwrap().is_none());
    assert_eq!(chain.waiting(&second), None);
    assert_eq!(chain.head().block, block);
    // Asked for, an empty one is sealed.
    let empty = chain.seal(later(&chain), 1).unwrap();
    assert!(empty.transactions.is_empty());
}

/// A file with a newest block and no state.
struct Stateless(Genesis);

impl Database for Stateless {
    fn load(&self) -> Result<Option<Stored>, DatabaseError> {
        let head = chain(&self.0, none()).head().block.clone();
        Ok(Some(Stored {
            chain_id: self.0.chain_id,
            genesis: head.clone(),
            head,
            states: vec![],
        }))
    }

    fn append(&self, _: u64, _: &Arc<Block>, _: &[Change]) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn block(&self, _: u64) -> Result<Option<Arc<Block>>, DatabaseError> {
        Ok(None)
    }

    fn number(&self, _: &B256) -> Result<Option<u64>, DatabaseError> {
        Ok(None)
    }

    fn transaction(&self, _: &B256) -> Result<Option<(u64, usize)>, DatabaseError> {
        Ok(None)
    }
}

#[test]
fn blocks_without_a_state_are_damage() {
    let genesis = Genesis::default();
    let opened = Chain::new(Config {
        genesis: genesis.clone(),
        database: Box::new(Stateless(genesis)),
        models: none(),
        call_models: none(),
    });
    let Err(Error::Database(DatabaseError::Damaged(said))) = opened else {
        panic!("opened");
    };
    assert!(said.contains("no state"), "{said}");
}
