//! 500 random blocks on two chains: one computes on the scalar backend with one thread, one on the fastest with two. They
//! seal in turns, and each executes what the other sealed.

use crate::common::{Blob, small, tiny};
use crate::contracts::{asker, creation};
use crate::mix::{Kind, Mix, Random};
use crate::node::{Plan, TINY, adoption, chain, later, models};
use alloy_consensus::Transaction;
use alloy_primitives::keccak256;
use blue_devnet::{Block, Chain, DevAccount, Genesis};
use int_engine::kernels::Kernels;
use precompile::infer::Function as Infer;
use precompile::registry::Function as Registry;
use std::collections::BTreeMap;

const BLOCKS: u64 = 500;
const EVENTS: [&str; 6] = [
    "Voted(bytes32,address,uint8,bytes32,bytes32,bytes32,uint64,uint32)",
    "Passed(bytes32,uint64,bytes32,uint64)",
    "Activated(bytes32,uint64,bytes32,uint64)",
    "Revoked(bytes32,uint64,bytes32)",
    "AdminSet(address,bool,uint64)",
    "QuorumSet(uint32,uint64)",
];

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Success,
    /// Some of the gas came back.
    Revert,
    /// None did.
    Halt,
}

#[derive(Default)]
struct Seen {
    ends: Vec<(Kind, End)>,
    events: BTreeMap<&'static str, usize>,
    /// Transactions that were given little gas and used all of it.
    starved: usize,
}

impl Seen {
    fn block(&mut self, block: &Block, kinds: &[Kind]) {
        assert_eq!(block.transactions.len(), kinds.len());
        for (i, kind) in kinds.iter().enumerate() {
            let (tx, receipt) = (&block.transactions[i], &block.receipts[i]);
            let all = block.gas_used(i) == tx.gas_limit();
            let end = match (receipt.status(), all) {
                (true, _) => End::Success,
                (false, false) => End::Revert,
                (false, true) => End::Halt,
            };
            self.starved += usize::from(end == End::Halt && tx.gas_limit() < 200_000);
            self.ends.push((*kind, end));
            for log in receipt.logs() {
                let topic = log.topics().first().copied();
                let event = EVENTS.iter().find(|e| Some(keccak256(e)) == topic);
                event.inspect(|event| *self.events.entry(event).or_default() += 1);
            }
        }
    }

    fn count(&self, kind: impl Fn(Kind) -> bool, end: End) -> usize {
        let wanted = |(k, e): &&(Kind, End)| kind(*k) && *e == end;
        self.ends.iter().filter(wanted).count()
    }
}

/// A block of one chain on the other; both are the same afterwards.
fn follow(from: &Chain, to: &Chain, block: &Block) {
    let imported = to.import(block.encoded()).unwrap();
    assert_eq!(imported.header.state_root, block.header.state_root);
    assert_eq!(imported.header.receipts_root, block.header.receipts_root);
    assert_eq!(imported.receipts, block.receipts);
    assert_eq!(*imported, *block);
    assert_eq!(from.head().state, to.head().state);
    assert_eq!(from.head().state.root(), block.header.state_root);
}

#[test]
fn two_chains_agree_on_500_random_blocks() {
    let accounts = DevAccount::all();
    let tiny = tiny();
    let blobs: Vec<Blob> = (3..6).map(|seed| Blob::sample(small(), seed)).collect();
    let all: Vec<&Blob> = blobs.iter().chain([&tiny]).collect();
    let mut genesis = Genesis {
        models: vec![adoption(TINY, &tiny)],
        ..Genesis::default()
    };
    genesis.governance.admins = accounts[..3].iter().map(|a| a.address.0.0).collect();
    (genesis.governance.quorum, genesis.governance.single) = (2, false);
    let fastest = Kernels::detect();
    assert_ne!(
        fastest.name,
        Kernels::scalar().name,
        "nothing to compare with"
    );
    let chains = [
        chain(&genesis, models(&all, Kernels::scalar(), 1)),
        chain(&genesis, models(&all, fastest, 2)),
    ];

    let random = &mut Random(7);
    let creator = &accounts[9];
    let tx = Plan::create(creation(&asker()), 400_000).sign(&chains[0], creator);
    chains[0].submit(tx).unwrap();
    let block = chains[0].seal(later(&chains[0]), 1).unwrap();
    assert!(block.receipts[0].status());
    follow(&chains[0], &chains[1], &block);

    let mix = Mix {
        blobs: &blobs,
        accounts: &accounts,
        asker: creator.address.create(0),
    };
    let mut seen = Seen::default();
    for number in 2..=BLOCKS {
        let turn = (number % 2) as usize;
        let (sealer, other) = (&chains[turn], &chains[1 - turn]);
        let mut kinds = vec![];
        for _ in 0..random.below(15) {
            // Admins and others.
            let account = &accounts[random.pick(&[0, 0, 1, 1, 2, 2, 3, 4, 5])];
            let (kind, plan) = mix.plan(random, sealer);
            sealer.submit(plan.sign(sealer, account)).unwrap();
            kinds.push(kind);
        }
        let block = sealer.seal(later(sealer), usize::MAX).unwrap();
        seen.block(&block, &kinds);
        follow(sealer, other, &block);
    }

    println!("{:?}, {} starved", seen.events, seen.starved);
    assert_eq!(chains[0].head().block.header.number, BLOCKS);
    // Every kind is there, not once only.
    for event in EVENTS {
        assert!(seen.events.get(event) > Some(&4), "{event}");
    }
    for function in Infer::ALL {
        let kind = |kind| kind == Kind::Direct(*function);
        assert!(seen.count(kind, End::Success) > 5, "{function:?}");
    }
    for function in Registry::ALL {
        let kind = |kind| kind == Kind::Registry(*function);
        assert!(seen.count(kind, End::Success) > 0, "{function:?}");
    }
    let inference = |kind| matches!(kind, Kind::Direct(_));
    let registry = |kind| matches!(kind, Kind::Registry(_));
    for end in [End::Success, End::Revert, End::Halt] {
        assert!(seen.count(inference, end) > 20, "inference {end:?}");
        assert!(seen.count(registry, end) > 20, "registry {end:?}");
    }
    // A contract has something left when inference has used all that it was given.
    for end in [End::Success, End::Revert] {
        let asker = seen.count(|kind| kind == Kind::Asker, end);
        assert!(asker > 20, "a contract that asks {end:?}");
    }
    for kind in [Kind::Transfer, Kind::Creation, Kind::Legacy] {
        assert!(seen.count(|k| k == kind, End::Success) > 20, "{kind:?}");
    }
    assert!(seen.starved > 20, "{}", seen.starved);
}
