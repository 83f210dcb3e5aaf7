//! Chains in a file: reopened, of another genesis, ended without a warning.

use crate::common::{Blob, small};
use crate::contracts::{asker, creation};
use crate::mix::{Mix, Random};
use crate::node::{Plan, TINY, adoption, chain, later, models, on};
use alloy_primitives::keccak256;
use blue_devnet::database::{DatabaseError, DiskDatabase, WINDOW};
use blue_devnet::{Chain, Config, DevAccount, Error, Genesis};
use int_engine::kernels::Kernels;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Where the process that is killed finds its file.
const VARIABLE: &str = "BLUE_DEVNET_KILLED";

pub(crate) fn blobs() -> Vec<Blob> {
    (3..5).map(|seed| Blob::sample(small(), seed)).collect()
}

pub(crate) fn genesis(blobs: &[Blob]) -> Genesis {
    Genesis {
        models: vec![adoption(TINY, &blobs[0])],
        ..Genesis::default()
    }
}

pub(crate) fn open(path: &Path, genesis: &Genesis, blobs: &[Blob]) -> Result<Chain, Error> {
    let blobs: Vec<&Blob> = blobs.iter().collect();
    let models = models(&blobs, Kernels::detect(), 1);
    Chain::new(Config {
        genesis: genesis.clone(),
        database: Box::new(DiskDatabase::open(path)?),
        call_models: models.clone(),
        models,
    })
}

/// Random blocks after the newest one; the transactions depend on number and state alone.
pub(crate) fn grow(chain: &Chain, blobs: &[Blob], until: u64, mut sealed: impl FnMut(u64)) {
    let accounts = DevAccount::all();
    let mix = Mix {
        blobs,
        accounts: &accounts,
        asker: accounts[9].address.create(0),
    };
    loop {
        let number = chain.head().block.header.number + 1;
        if number > until {
            return;
        }
        if number == 1 {
            let plan = Plan::create(creation(&asker()), 400_000);
            chain.submit(plan.sign(chain, &accounts[9])).unwrap();
        }
        let random = &mut Random(number);
        for _ in 0..random.below(4) {
            let account = &accounts[random.below(4)];
            let (_, plan) = mix.plan(random, chain);
            chain.submit(plan.sign(chain, account)).unwrap();
        }
        chain.seal(later(chain), usize::MAX).unwrap();
        sealed(number);
    }
}

/// Blocks, their places, states and transactions are those of a chain in memory.
fn same(found: &Chain, expected: &Chain) {
    let head = expected.head().block.header.number;
    assert_eq!(found.head().block, expected.head().block);
    assert_eq!(found.head().state, expected.head().state);
    for number in 0..=head {
        let block = expected.block(number).unwrap().unwrap();
        assert_eq!(found.block(number).unwrap().unwrap(), block);
        assert_eq!(found.number(&block.hash).unwrap(), Some(number));
        for (index, tx) in block.transactions.iter().enumerate() {
            let (at, i) = found.transaction(tx.hash()).unwrap().unwrap();
            assert_eq!((at.hash, i), (block.hash, index));
        }
        match (found.snapshot(number), expected.snapshot(number)) {
            (Ok(Some(found)), Ok(Some(expected))) => assert_eq!(found.state, expected.state),
            (Err(Error::NoState { .. }), Err(Error::NoState { .. })) => {}
            (found, expected) => panic!("{found:?}, {expected:?}"),
        }
    }
    assert_eq!(found.block(head + 1).unwrap(), None);
    assert_eq!(found.number(&keccak256("nothing")).unwrap(), None);
}

/// Other choices than these, with what is said of them.
fn others(genesis: &Genesis, blobs: &[Blob]) -> Vec<(Genesis, Vec<&'static str>)> {
    let with = |change: &dyn Fn(&mut Genesis), said: &[&'static str]| {
        let mut other = genesis.clone();
        change(&mut other);
        (other, said.to_vec())
    };
    vec![
        with(&|g| g.chain_id = 5, &["chain id 31337, not 5"]),
        with(
            &|g| g.gas_limit = 20_000_000,
            &["gas limit 30000000, not 20000000"],
        ),
        with(&|g| g.timestamp += 1, &["time "]),
        with(&|g| g.base_fee = 8, &["base fee 1000000000, not 8"]),
        with(&|g| g.governance.delay = 7, &["delay 2, not 7"]),
        with(&|g| g.governance.window = 50, &["window 100, not 50"]),
        with(&|g| g.models.clear(), &["models "]),
        with(
            &|g| g.models = vec![adoption(TINY, &blobs[1])],
            &["models "],
        ),
        with(&|g| g.balances.truncate(3), &["accounts"]),
        with(
            &|g| (g.chain_id, g.governance.delay) = (5, 7),
            &["chain id", "delay"],
        ),
    ]
}

#[test]
fn reopened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain");
    let blobs = blobs();
    let genesis = genesis(&blobs);
    let (until, all): (u64, Vec<&Blob>) = (WINDOW as u64 + 30, blobs.iter().collect());
    let memory = chain(&genesis, models(&all, Kernels::scalar(), 1));
    grow(&memory, &blobs, until, |_| ());
    // A few blocks at a time; the file is closed in between.
    for until in [0, 1, 2, 20, until] {
        let disk = open(&path, &genesis, &blobs).unwrap();
        grow(&disk, &blobs, until, |_| ());
    }
    let disk = open(&path, &genesis, &blobs).unwrap();
    same(&disk, &memory);
    // It is held by one at a time.
    let Err(error @ Error::Database(DatabaseError::InUse(_))) = open(&path, &genesis, &blobs)
    else {
        panic!("opened twice");
    };
    let said = error.to_string();
    assert!(said.contains("is in use by another process"), "{said}");
    drop(disk);
    for (other, settings) in others(&genesis, &blobs) {
        let Err(Error::Database(DatabaseError::OtherChain { differences })) =
            open(&path, &other, &blobs)
        else {
            panic!("{settings:?}");
        };
        assert_eq!(differences.len(), settings.len(), "{differences:?}");
        for (found, wanted) in differences.iter().zip(settings) {
            assert!(found.starts_with(wanted), "{found}");
        }
    }
    // What was refused has changed nothing.
    same(&open(&path, &genesis, &blobs).unwrap(), &memory);
}

#[test]
fn a_file_of_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    std::fs::write(&path, "not a database".repeat(1000)).unwrap();
    let opened = DiskDatabase::open(&path);
    assert!(matches!(opened, Err(DatabaseError::Failed(_))));
    let nowhere = DiskDatabase::open(&folder.path().join("no/such/folder"));
    assert!(matches!(nowhere, Err(DatabaseError::Failed(_))));
}

/// Seals blocks in a file and tells of each, for ever.
fn seal_until_killed(path: &Path) {
    let blobs = blobs();
    let chain = open(path, &genesis(&blobs), &blobs).unwrap();
    grow(&chain, &blobs, u64::MAX, |number| {
        println!("sealed {number}")
    });
}

/// The process that is killed is this test again, with the name of the file in a variable.
#[test]
fn killed_at_any_moment() {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return seal_until_killed(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain");
    let blobs = blobs();
    let genesis = genesis(&blobs);
    let all: Vec<&Blob> = blobs.iter().collect();
    let mut told = 0;
    for round in 0..8u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "disk::killed_at_any_moment", "--nocapture"])
            .env(VARIABLE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let numbers = lines.map_while(Result::ok);
        let mut numbers = numbers.filter_map(|line| line.rsplit_once("sealed ")?.1.parse().ok());
        let wanted = told + 1 + 3 * round;
        // Held on to, so that the process can go on telling.
        for number in numbers.by_ref() {
            told = number;
            if told >= wanted {
                break;
            }
        }
        assert!(told >= wanted, "the process ended by itself");
        std::thread::sleep(std::time::Duration::from_micros(700 * round));
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        let disk = open(&path, &genesis, &blobs).unwrap();
        let head = disk.head().block.header.number;
        assert!(
            head >= told,
            "block {told} was told of, {head} is the newest"
        );
        told = head;
        let memory = chain(&genesis, models(&all, Kernels::scalar(), 1));
        grow(&memory, &blobs, head, |_| ());
        same(&disk, &memory);
    }
    let disk = on(
        &genesis,
        models(&all, Kernels::scalar(), 1),
        Box::new(DiskDatabase::open(&path).unwrap()),
    );
    grow(&disk, &blobs, told + 5, |_| ());
}
