//! The states before the calls, made by calls of their own from genesis states.

use std::path::Path;

use int_engine::commitment::{Commitment, Hasher};
use precompile::genesis::Genesis;
use precompile::memory::{Memory, ModelSet};
use precompile::registry::Function;
use precompile::word::{Address, Word, of_u64};
use precompile::{Call, Outcome, Target as To, calldata, slots};

use super::{ALICE, BOB, CAROL, DAVE, MALLORY, NAME, number};
use crate::file::ModelFile;
use crate::generate::GenerateError;
use crate::precompiles::{ModelRef, State, StatesFile};
use crate::verify::{edited, model_blob};

/// Blocks between passing and activation, in every state.
pub(super) const DELAY: u64 = 5;
/// Blocks for which a round is open, in every state.
pub(super) const WINDOW: u64 = 100;
/// A commitment without a record.
pub(super) const UNKNOWN: Word = [0xEE; 32];
/// An address whose admin word is 2.
pub(super) const STRANGE: Address = super::last_byte(0x5A);

/// Models by their files; of the last the named edit, which spec 4 refuses although its record is right.
const MODELS: [(&str, &str, Option<&str>); 6] = [
    ("dense", "dense", None),
    ("dense_qk_norm", "dense_qk_norm", None),
    ("stops", "stops", None),
    ("ones", "ones", None),
    ("blue_tiny", "blue_tiny", None),
    ("refused", "dense", Some("head.consts[0] = 1")),
];

/// A blob with what a proposal carries.
pub(super) struct Blob {
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
    pub(super) commitment: Word,
    pub(super) proof: Vec<Word>,
    file: &'static str,
    edit: Option<&'static str>,
}

impl Blob {
    pub(super) fn record(&self) -> &[u8] {
        &self.bytes[..1024]
    }

    pub(super) fn propose(&self, name: &Word, version: u64) -> Vec<u8> {
        calldata::propose(name, version, &self.commitment, self.record(), &self.proof)
    }
}

/// The blob of a name.
pub(super) fn blob<'a>(blobs: &'a [Blob], name: &str) -> &'a Blob {
    blobs
        .iter()
        .find(|b| b.name == name)
        .expect("a model of the states")
}

/// The blobs of the models.
pub(super) fn blobs(
    root: &Path,
    models: &[(&'static str, ModelFile)],
) -> Result<Vec<Blob>, GenerateError> {
    let one = |&(name, file, edit): &(&'static str, &'static str, Option<&'static str>)| {
        let failed = |why: String| GenerateError::Blob {
            name: name.into(),
            why,
        };
        let of = models.iter().find(|(model, _)| *model == file);
        let (_, of) = of.ok_or_else(|| failed("no such model file".into()))?;
        let mut bytes = model_blob(of, root).map_err(failed)?;
        if let Some(edit) = edit {
            let found = of
                .edits
                .iter()
                .find(|e| e.name == edit && e.commitment.is_none());
            let found = found.ok_or_else(|| failed(format!("no refused edit {edit}")))?;
            bytes = edited(found, &bytes).map_err(failed)?;
        }
        let mut hasher = Hasher::new();
        hasher.update(&bytes);
        let tree = hasher.finish();
        Ok(Blob {
            name,
            commitment: tree.commitment().0,
            proof: tree.prove(0).expect("every blob has a record"),
            bytes,
            file,
            edit,
        })
    };
    MODELS.iter().map(one).collect()
}

/// A chain on its way to a state.
#[derive(Clone, Default)]
struct Builder(Memory);

impl Builder {
    fn genesis(admins: &[Address], quorum: u32) -> Self {
        let genesis = Genesis {
            admins: admins.to_vec(),
            former: vec![],
            quorum,
            delay: DELAY,
            window: WINDOW,
            single: quorum == 1,
        };
        let [(_, registry), _] = genesis.accounts().expect("a valid choice");
        Self(Memory {
            block: 10,
            storage: registry.storage,
            logs: Vec::new(),
        })
    }

    fn at(mut self, block: u64) -> Self {
        self.0.block = block;
        self
    }

    /// The state after a call that returns.
    fn after(mut self, caller: Address, data: &[u8]) -> Self {
        let call = Call::new(To::Registry, data, u64::MAX, caller);
        let outcome = self.0.call(&call, &ModelSet::default());
        let returned = matches!(outcome, Ok(Outcome::Return { .. }));
        assert!(returned, "block {}: {outcome:?}", self.0.block);
        self
    }

    /// As after votes of ALICE and BOB.
    fn both(self, data: &[u8]) -> Self {
        self.after(ALICE, data).after(BOB, data)
    }

    fn word(mut self, key: Word, word: Word) -> Self {
        self.0.storage.insert(key, word);
        self
    }

    fn state(self, name: &str) -> State {
        State {
            name: name.into(),
            block: self.0.block,
            storage: self.0.storage.into_iter().collect(),
        }
    }
}

/// The states and their models.
pub(super) fn file(blobs: &[Blob]) -> StatesFile {
    let model = |b: &Blob| ModelRef {
        name: b.name.into(),
        file: format!("models/{}.json", b.file),
        edit: b.edit.map(str::to_owned),
        commitment: b.commitment,
    };
    StatesFile {
        models: blobs.iter().map(model).collect(),
        states: [governed(blobs), adopted(blobs), older(blobs)].concat(),
    }
}

/// Admins, quorums and votes.
fn governed(blobs: &[Blob]) -> Vec<State> {
    let dense = blob(blobs, "dense");
    let three = || Builder::genesis(&[ALICE, BOB, CAROL], 2);
    // One vote of ALICE for each kind of action that needs no active model.
    let open = || {
        three()
            .after(ALICE, &dense.propose(&NAME, 1))
            .after(ALICE, &calldata::set_admin(&DAVE, true))
            .after(ALICE, &calldata::set_admin(&CAROL, false))
            .after(ALICE, &calldata::set_quorum(3))
            .at(20)
    };
    vec![
        Builder::default().at(1).state("empty"),
        Builder::genesis(&[ALICE], 1).state("one admin"),
        Builder::genesis(&[ALICE, BOB], 2).state("two admins"),
        three().state("three admins"),
        open().state("open votes"),
        open()
            .after(BOB, &calldata::set_admin(&DAVE, true))
            .state("another epoch"),
        Builder::genesis(&[ALICE, BOB, CAROL], 3)
            .after(ALICE, &dense.propose(&NAME, 1))
            .after(BOB, &dense.propose(&NAME, 1))
            .state("two of three votes"),
    ]
}

/// Adopted models.
fn adopted(blobs: &[Blob]) -> Vec<State> {
    let by_name = |name: &str| blob(blobs, name);
    let three = Builder::genesis(&[ALICE, BOB, CAROL], 2);
    let waiting = three.both(&by_name("dense").propose(&NAME, 3)).at(14);
    let activate = |version| calldata::of_version(Function::Activate, &NAME, version);
    let revoke = |version| calldata::of_version(Function::Revoke, &NAME, version);
    let active = waiting.clone().at(15).after(MALLORY, &activate(3)).at(20);
    let next = active
        .clone()
        .both(&by_name("dense_qk_norm").propose(&NAME, 5));
    let revoked = active.clone().at(40).both(&revoke(3));
    let mut models = Builder::genesis(&[ALICE], 1);
    for (i, blob) in (1..).zip(blobs) {
        models = models.after(ALICE, &blob.propose(&number(i), 1));
    }
    models = models.at(20);
    for i in (1..).take(blobs.len()) {
        let data = calldata::of_version(Function::Activate, &number(i), 1);
        models = models.after(MALLORY, &data);
    }
    vec![
        waiting.clone().state("waiting"),
        waiting
            .after(ALICE, &revoke(3))
            .state("waiting, one vote to revoke"),
        active.clone().state("active"),
        active
            .clone()
            .after(ALICE, &revoke(3))
            .state("active, one vote to revoke"),
        next.clone().state("active and pending"),
        next.clone()
            .both(&by_name("stops").propose(&NAME, 6))
            .state("pending replaced"),
        next.at(25).after(MALLORY, &activate(5)).state("upgraded"),
        revoked.clone().state("revoked"),
        revoked
            .both(&by_name("dense").propose(&NAME, 4))
            .at(45)
            .after(MALLORY, &activate(4))
            .state("adopted anew"),
        models.state("models"),
    ]
}

/// Words of the registry that exists on other chains.
fn older(blobs: &[Blob]) -> Vec<State> {
    let dense = blob(blobs, "dense");
    let old = || {
        Builder::default()
            .at(7)
            .word(slots::admin(&ALICE), of_u64(1))
            .word(slots::admin(&STRANGE), of_u64(2))
            .word(slots::version(&NAME), of_u64(3))
            .word(slots::commitment(&NAME), UNKNOWN)
    };
    let [(_, registry), _] = Genesis {
        admins: vec![ALICE],
        former: vec![],
        quorum: 1,
        delay: DELAY,
        window: WINDOW,
        single: true,
    }
    .accounts()
    .expect("a valid choice");
    let governance = registry.storage[&slots::governance()];
    let governed = || old().word(slots::governance(), governance);
    let mut large = [0; 32];
    large[23] = 1;
    let stored = precompile_record(governed().0, dense);
    vec![
        old().state("older"),
        governed().state("older, governed"),
        Builder(stored).state("older, with a record"),
        governed()
            .word(slots::version(&NAME), large)
            .state("older, a version of 2^64"),
    ]
}

/// The memory with a blob's record, which came with an adoption under another name.
fn precompile_record(mut memory: Memory, blob: &Blob) -> Memory {
    let record = int_engine::blob::Record::parse(blob.record()).expect("a record");
    let commitment = Commitment(blob.commitment);
    let put = precompile::put_active(&mut memory, &[0xEE; 32], commitment, &record);
    assert!(put.is_ok(), "memory has no faults");
    memory
}
