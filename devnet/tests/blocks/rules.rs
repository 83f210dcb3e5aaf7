//! Rules of Ethereum that contracts and wallets rely on, against values that this chain's own code does not give.

use crate::contracts::creation;
use crate::node::{Plan, chain, later};
use alloy_consensus::{SignableTransaction, Transaction, TxEip1559, TxEnvelope};
use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_trie::root::state_root;
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};
use blue_devnet::{BadTransaction, Block, Chain, DevAccount, Error, Genesis};
use precompile::memory::ModelSet;
use revm::bytecode::opcode::*;
use std::collections::BTreeMap;
use std::sync::Arc;

fn empty() -> Chain {
    chain(&Genesis::default(), Arc::new(ModelSet::default()))
}

fn seal(chain: &Chain, plan: &Plan, account: &DevAccount) -> Arc<Block> {
    chain.submit(plan.sign(chain, account)).unwrap();
    let block = chain.seal(later(chain), 10).unwrap();
    assert_eq!(block.transactions.len(), 1);
    assert!(block.receipts[0].status());
    block
}

/// How far back the contract asks for hashes.
const BACK: [u16; 8] = [0, 1, 2, 3, 100, 255, 256, 257];

/// Stores the hash of the block that is so far back, for each distance under it.
fn historian() -> Vec<u8> {
    let distance = |back: u16| {
        let [high, low] = back.to_be_bytes();
        let push = [PUSH2, high, low];
        [&push[..], &[NUMBER, SUB, BLOCKHASH], &push, &[SSTORE]].concat()
    };
    BACK.iter().flat_map(|back| distance(*back)).collect()
}

#[test]
fn hashes_of_earlier_blocks() {
    let (chain, accounts) = (empty(), DevAccount::all());
    seal(
        &chain,
        &Plan::create(creation(&historian()), 400_000),
        &accounts[0],
    );
    let contract = accounts[0].address.create(0);
    let mut headers = vec![];
    let mut look = |until: u64| {
        while chain.head().block.header.number + 1 < until {
            chain.seal(later(&chain), 10).unwrap();
        }
        let block = seal(&chain, &Plan::call(contract, vec![], 400_000), &accounts[0]);
        let number = block.header.number;
        assert_eq!(number, until);
        headers.clear();
        for number in 0..number {
            let header = chain.block(number).unwrap().unwrap().header.clone();
            headers.push(keccak256(alloy_rlp::encode(header)));
        }
        for back in BACK {
            let place = number.checked_sub(back.into());
            let known = place.filter(|_| (1..=256).contains(&back));
            let expected = known.map_or(B256::ZERO, |number| headers[number as usize]);
            let found = chain.head().state.word(&contract, U256::from(back));
            assert_eq!(B256::from(found), expected, "{back} blocks before {number}");
        }
    };
    look(2);
    look(7);
    look(300);
}

#[test]
fn an_empty_account_is_none() {
    let (chain, accounts) = (empty(), DevAccount::all());
    let mut expected: BTreeMap<B256, TrieAccount> = BTreeMap::new();
    for (key, account) in chain.head().state.accounts() {
        let account = TrieAccount {
            nonce: account.nonce,
            balance: account.balance,
            storage_root: account.storage_root,
            code_hash: account.code_hash,
        };
        expected.insert(*key, account);
    }
    let (touched, paid) = (Address::repeat_byte(0x77), Address::repeat_byte(0x78));
    let fresh = |balance: u64| TrieAccount {
        nonce: 0,
        balance: U256::from(balance),
        storage_root: EMPTY_ROOT_HASH,
        code_hash: keccak256([]),
    };
    // A transaction touches it, then the call of a creation's code, both with nothing.
    let call = |to: Address| {
        let zeros = [PUSH1, 0, PUSH1, 0, PUSH1, 0, PUSH1, 0, PUSH1, 0, PUSH20];
        [&zeros[..], to.as_slice(), &[GAS, CALL, STOP]].concat()
    };
    let mut plans = [
        Plan::call(touched, vec![], 21_000),
        Plan::create(call(touched), 200_000),
        Plan::call(paid, vec![], 21_000),
    ];
    plans[2].value = 5;
    let mut tips = 0;
    for plan in &plans {
        let block = seal(&chain, plan, &accounts[0]);
        let sender = expected.get_mut(&keccak256(accounts[0].address)).unwrap();
        let price = block.header.base_fee_per_gas.unwrap() + 1;
        sender.nonce += 1;
        sender.balance -= U256::from(block.header.gas_used * price + plan.value);
        if plan.value > 0 {
            expected.insert(keccak256(paid), fresh(plan.value));
        }
        if plan.to.is_create() {
            let made = accounts[0].address.create(1);
            expected.insert(
                keccak256(made),
                TrieAccount {
                    nonce: 1,
                    ..fresh(0)
                },
            );
        }
        // The tip of a wei.
        tips += block.header.gas_used;
        expected.insert(keccak256(Address::ZERO), fresh(tips));
        let root = state_root(expected.iter().map(|(key, account)| (*key, *account)));
        assert_eq!(block.header.state_root, root);
        assert_eq!(chain.head().state.account(&touched), None);
    }
}

/// The three bits of an item, as the yellow paper (4.3.1) has them.
fn bits(bloom: &mut [u8; 256], item: &[u8]) {
    let hash = keccak256(item);
    for pair in [0, 2, 4] {
        let bit = usize::from(u16::from_be_bytes([hash[pair], hash[pair + 1]]) & 2047);
        bloom[255 - bit / 8] |= 1 << (bit % 8);
    }
}

#[test]
fn the_bloom_of_all_events() {
    let (chain, accounts) = (empty(), DevAccount::all());
    let mut bloom = [0; 256];
    for (i, account) in accounts.iter().take(3).enumerate() {
        let topic = i as u8 + 1;
        let code = vec![PUSH1, topic, PUSH1, 0, PUSH1, 0, LOG1, STOP];
        let tx = Plan::create(code, 100_000).sign(&chain, account);
        chain.submit(tx).unwrap();
        bits(&mut bloom, account.address.create(0).as_slice());
        bits(&mut bloom, B256::with_last_byte(topic).as_slice());
    }
    let block = chain.seal(later(&chain), 10).unwrap();
    assert_eq!(block.receipts.len(), 3);
    assert!(
        block
            .receipts
            .iter()
            .all(|receipt| receipt.logs().len() == 1)
    );
    assert_eq!(block.header.logs_bloom.0, bloom);
}

/// A transfer of the first account's with what a wallet chooses.
fn transfer(chain_id: u64, nonce: u64, fee: u128, tip: u128) -> TxEnvelope {
    let tx = TxEip1559 {
        chain_id,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: fee,
        max_priority_fee_per_gas: tip,
        to: Address::repeat_byte(1).into(),
        ..TxEip1559::default()
    };
    let signature = DevAccount::all()[0].sign(&tx.signature_hash()).unwrap();
    tx.into_signed(signature).into()
}

fn refused(chain: &Chain, tx: TxEnvelope) -> BadTransaction {
    match chain.submit(tx) {
        Err(Error::Transaction(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn transactions_of_another_chain() {
    let chain = empty();
    let fee = 10_000_000_000;
    for id in [0, 1, chain.chain_id() + 1, u64::MAX] {
        let wrong = BadTransaction::ChainId {
            expected: chain.chain_id(),
            found: Some(id),
        };
        assert_eq!(refused(&chain, transfer(id, 0, fee, 1)), wrong);
    }
    chain.submit(transfer(chain.chain_id(), 0, fee, 1)).unwrap();
}

#[test]
fn a_replacement_pays_a_tenth_more_of_both() {
    let chain = empty();
    let (id, fee, tip) = (chain.chain_id(), 10_000_000_000, 1_000);
    chain.submit(transfer(id, 0, fee, tip)).unwrap();
    for (new_fee, new_tip) in [
        (fee + fee / 10, tip),
        (fee + fee / 10, tip + tip / 10 - 1),
        (fee, tip + tip / 10),
        (fee + fee / 10 - 1, tip + tip / 10),
    ] {
        let refused = refused(&chain, transfer(id, 0, new_fee, new_tip));
        assert_eq!(
            refused,
            BadTransaction::Underpriced { paid: fee },
            "{new_fee} {new_tip}"
        );
    }
    let better = transfer(id, 0, fee + fee / 10, tip + tip / 10);
    chain.submit(better.clone()).unwrap();
    let block = chain.seal(later(&chain), 10).unwrap();
    assert_eq!(block.transactions.len(), 1);
    assert_eq!(block.transactions[0].inner(), &better);
    assert_eq!(
        block.transactions[0].max_priority_fee_per_gas(),
        Some(1_100)
    );
}
