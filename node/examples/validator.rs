//! A validator in one file: what a team adds to a node that is built of alloy-evm, as reth is.
//!
//! `cargo run --release -p blue-node --example validator [FOLDER]`
//!
//! Another node's blobs are offered over HTTP by this program itself. Blocks 1 to 8 of a chain in memory adopt the model and
//! ask it; the node meanwhile fetches the blob, checks every chunk, loads it and is ready before the activation.

use alloy_evm::{Evm, EvmEnv, EvmFactory};
use blue_node::fetch::{HttpSource, Options as FetchOptions};
use blue_node::models::{Cpu, Purpose, Resident};
use blue_node::selftest;
use blue_node::serve::{Limits, serve};
use blue_node::shelf::Shelf;
use blue_node::store::Store;
use blue_node::watch::{Options as WatchOptions, Watch};
use int_engine::commitment::{Commitment, FIRST_CHUNK, Tree};
use precompile::genesis::Genesis;
use precompile::registry::Function;
use precompile::{FaultLatch, INFERENCE, REGISTRY, Schedule, calldata};
use precompile_alloy::{BlueEvmFactory, put_accounts};
use revm::DatabaseCommit;
use revm::context::TxEnv;
use revm::database::InMemoryDB;
use revm::primitives::{Address, TxKind, U256};
use std::error::Error;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;

const ADMIN: [u8; 20] = [0xA1; 20];
const NAME: [u8; 32] = [7; 32];
const DELAY: u64 = 4;
const TINY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../models/default/blue-tiny.blob"
);

fn main() -> Result<(), Box<dyn Error>> {
    // A folder of its own, removed at the end, unless one is given.
    let temporary = tempfile::tempdir()?;
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = given.as_deref().unwrap_or(temporary.path());

    // Before anything else: is this machine right? A few seconds, once at every start.
    let backend = Cpu::detect();
    let passed = selftest::run(backend.kernels.name, backend.threads)?;
    println!(
        "self-test: {} known answers on {}",
        passed.cases, backend.kernels.name
    );

    // Somebody's blobs. Nobody has to trust them.
    let (commitment, address) = somebody(&folder.join("theirs"))?;

    // The node's own: a store, what fills it, and what keeps models in memory.
    let store = Store::open(folder.join("ours"))?;
    let sources: Vec<Arc<dyn blue_node::fetch::Source>> =
        vec![Arc::new(HttpSource::new(&address)?)];
    let shelf = Arc::new(Shelf::new(store, sources, FetchOptions::default()));
    let resident = Arc::new(Resident::new(shelf, Arc::new(backend), 4 << 30));
    let options = WatchOptions {
        names: Some(folder.join("ours/names")),
        ..WatchOptions::default()
    };
    let mut watch = Watch::new(Arc::clone(&resident), options)?;

    // EVMs for blocks have one latch, those for calls from outside another one.
    let latch = FaultLatch::new();
    let blocks = BlueEvmFactory::new(
        Schedule::GENESIS,
        resident.models(Purpose::Blocks),
        latch.clone(),
    );
    let calls = blocks.for_calls(resident.models(Purpose::Calls), FaultLatch::new());

    let mut db = genesis()?;
    let mut nonce = 0;
    for block in 1..=8 {
        for (to, data) in transactions(block, commitment)? {
            let mut evm = blocks.create_evm(&mut db, env(block));
            let done = evm.transact(tx(&mut nonce, to, data));
            // The latch first: an error may be this machine's, which says nothing about the block.
            latch.check()?;
            let done = done?;
            drop(evm);
            for log in done
                .result
                .logs()
                .iter()
                .filter(|log| log.address.0 == REGISTRY)
            {
                let topics: Vec<_> = log.topics().iter().map(|topic| topic.0).collect();
                watch.log(&topics, &log.data.data);
            }
            println!(
                "block {block}: {} gas, success {}",
                done.result.tx_gas_used(),
                done.result.is_success()
            );
            db.commit(done.state);
        }
        // After each block the node looks at what is active and what will be. It waits for nothing here; only this example
        // does, so that block 5 finds the model.
        loop {
            let state = &mut |key: &[u8; 32]| {
                let account = db.cache.accounts.get(&Address::new(REGISTRY));
                let word = account.and_then(|a| a.storage.get(&U256::from_be_bytes(*key)).copied());
                Ok(word.unwrap_or_default().to_be_bytes())
            };
            let models = watch.observe(block, state)?;
            for model in &models {
                println!(
                    "block {block}: model {} is {}",
                    model.commitment, model.progress
                );
            }
            if models.iter().all(|model| model.progress.is_ready()) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    }

    // What anybody asks from outside goes to engines of its own.
    let mut evm = calls.create_evm(&mut db, env(9));
    let data = calldata::generate(&NAME, &commitment.0, &[1, 7, 13, 2], 8);
    let output = evm
        .transact(tx(&mut nonce, INFERENCE, data))?
        .result
        .into_output();
    let answer = output.and_then(|output| calldata::generated(&output));
    println!("answer: {:?}", answer.ok_or("no answer")?.0);
    Ok(())
}

/// A store with one blob, offered at the address that is returned.
fn somebody(folder: &Path) -> Result<(Commitment, String), Box<dyn Error>> {
    let store = Store::open(folder)?;
    let blob = store.import(Path::new(TINY), None, NonZeroUsize::MIN, &mut |_| ())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        let (limits, forever) = (Limits::default(), std::future::pending());
        let served = serve(listener, Arc::new(store), &limits, forever);
        if let Err(error) = runtime.block_on(served) {
            eprintln!("the other node serves no longer: {error}");
        }
    });
    Ok((blob.commitment(), address))
}

/// The first state of a chain where one key decides.
fn genesis() -> Result<InMemoryDB, Box<dyn Error>> {
    let choice = Genesis {
        admins: vec![ADMIN],
        former: vec![],
        quorum: 1,
        delay: DELAY,
        window: 10,
        single: true,
    };
    let mut db = InMemoryDB::default();
    put_accounts(&mut db, choice.accounts()?)?;
    Ok(db)
}

/// Calls: to whom, and with what.
type Calls = Vec<([u8; 20], Vec<u8>)>;

/// What the admin sends in a block.
fn transactions(block: u64, commitment: Commitment) -> Result<Calls, Box<dyn Error>> {
    Ok(match block {
        1 => {
            let blob = std::fs::read(TINY)?;
            let tree = Tree::read(&blob[..], blob.len() as u64, NonZeroUsize::MIN, |_| ())?;
            let proof = tree.prove(0).ok_or("a blob without chunks")?;
            let record = blob.get(..FIRST_CHUNK).ok_or("a blob without a record")?;
            let propose = calldata::propose(&NAME, 1, &commitment.0, record, &proof);
            vec![(REGISTRY, propose)]
        }
        5 => vec![
            (REGISTRY, calldata::of_version(Function::Activate, &NAME, 1)),
            (
                INFERENCE,
                calldata::generate(&NAME, &commitment.0, &[1, 7, 13, 2], 8),
            ),
        ],
        _ => vec![],
    })
}

fn env(block: u64) -> EvmEnv {
    let mut env: EvmEnv = EvmEnv::default();
    env.block_env.number = U256::from(block);
    env.block_env.timestamp = U256::from(1_800_000_000 + 12 * block);
    env
}

fn tx(nonce: &mut u64, to: [u8; 20], data: Vec<u8>) -> TxEnv {
    *nonce += 1;
    TxEnv {
        caller: ADMIN.into(),
        kind: TxKind::Call(to.into()),
        nonce: *nonce - 1,
        gas_limit: 1 << 24,
        data: data.into(),
        ..TxEnv::default()
    }
}
