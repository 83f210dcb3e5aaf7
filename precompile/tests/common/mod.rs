//! A chain in memory with small models, and calls in one line.

#![allow(dead_code, reason = "each test file uses a part")]

#[path = "../../../int-engine/tests/sample/mod.rs"]
mod sample;

use int_engine::blob::{Loader, Record};
use int_engine::commitment::{Commitment, Hasher};
use int_engine::config::{Config, Dims};
use int_engine::engine::CpuEngine;
use int_engine::kernels::Kernels;
use precompile::genesis::Genesis;
use precompile::memory::{Memory, ModelSet};
use precompile::registry::Function;
use precompile::word::{Address, Word, to_u64};
use precompile::{Call, Outcome, Refusal, Target, calldata};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// A blob with what a proposal carries.
pub(crate) struct Blob {
    pub(crate) bytes: Vec<u8>,
    pub(crate) record: Record,
    pub(crate) commitment: Commitment,
    pub(crate) proof: Vec<Word>,
}

impl Blob {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&bytes);
        let tree = hasher.finish();
        Self {
            record: Record::parse(&bytes).unwrap(),
            commitment: tree.commitment(),
            proof: tree.prove(0).unwrap(),
            bytes,
        }
    }

    pub(crate) fn commitment_of(bytes: &[u8]) -> Commitment {
        int_engine::commitment::commitment(bytes)
    }

    /// A random model of these dimensions.
    pub(crate) fn sample(dims: Dims, seed: u64) -> Self {
        Self::of(sample::sample(&Config::new(dims).unwrap(), seed))
    }

    pub(crate) fn engine(&self, kernels: &'static Kernels) -> CpuEngine {
        let mut loader = Loader::new().expect(self.commitment);
        self.bytes
            .chunks(1 << 20)
            .for_each(|piece| loader.push(piece).unwrap());
        let model = Arc::new(loader.finish().unwrap());
        CpuEngine::new(model, kernels, NonZeroUsize::MIN)
    }

    pub(crate) fn propose(&self, name: &Word, version: u64) -> Vec<u8> {
        let record = &self.bytes[..1024];
        calldata::propose(name, version, &self.commitment.0, record, &self.proof)
    }
}

/// The model of the demo.
pub(crate) fn tiny() -> Blob {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../models/default/blue-tiny.blob"
    );
    Blob::of(std::fs::read(path).unwrap())
}

/// Dimensions small enough for thousands of calls.
pub(crate) fn small() -> Dims {
    Dims {
        scheme: Default::default(),
        hidden: 32,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 8,
        intermediate: 48,
        vocab: 40,
        accepted_ids: 37,
        max_context: 24,
        qk_norm: true,
        tied: true,
        eps: 1,
        stop_ids: vec![3, 11, 30],
    }
}

pub(crate) const NAME: Word = [7; 32];
pub(crate) const ALICE: Address = [0xA1; 20];
pub(crate) const BOB: Address = [0xB0; 20];
pub(crate) const CAROL: Address = [0xC4; 20];
/// No admin.
pub(crate) const MALLORY: Address = [0x66; 20];
pub(crate) const GAS: u64 = 1 << 40;
pub(crate) const DELAY: u64 = 5;
pub(crate) const WINDOW: u64 = 100;

/// A chain with its models.
#[derive(Clone)]
pub(crate) struct Chain {
    pub(crate) state: Memory,
    pub(crate) models: ModelSet,
}

impl Chain {
    /// At block 1, with these admins and this quorum.
    pub(crate) fn new(admins: &[Address], quorum: u32) -> Self {
        let genesis = Genesis {
            admins: admins.to_vec(),
            former: vec![],
            quorum,
            delay: DELAY,
            window: WINDOW,
            single: quorum == 1,
        };
        let [(_, registry), _] = genesis.accounts().unwrap();
        Self {
            state: Memory {
                block: 1,
                storage: registry.storage,
                logs: vec![],
            },
            models: ModelSet::default(),
        }
    }

    /// With one admin, and these blobs loaded.
    pub(crate) fn single(blobs: &[&Blob]) -> Self {
        let mut chain = Self::new(&[ALICE], 1);
        blobs.iter().for_each(|blob| chain.load(blob));
        chain
    }

    pub(crate) fn load(&mut self, blob: &Blob) {
        self.models.insert(Arc::new(blob.engine(Kernels::detect())));
    }

    pub(crate) fn run(&mut self, call: &Call<'_>) -> Outcome {
        self.state.call(call, &self.models).expect("no fault")
    }

    pub(crate) fn registry(&mut self, caller: Address, data: &[u8]) -> Outcome {
        self.run(&Call::new(Target::Registry, data, GAS, caller))
    }

    pub(crate) fn infer(&mut self, data: &[u8]) -> Outcome {
        self.run(&Call::new(Target::Inference, data, GAS, MALLORY))
    }

    /// Adopts and activates by ALICE alone.
    pub(crate) fn adopt(&mut self, name: &Word, version: u64, blob: &Blob) {
        returned(&self.registry(ALICE, &blob.propose(name, version)));
        self.state.block += DELAY;
        self.activate(name, version);
    }

    pub(crate) fn activate(&mut self, name: &Word, version: u64) {
        let data = calldata::of_version(Function::Activate, name, version);
        returned(&self.registry(MALLORY, &data));
    }
}

/// The output of a call that returned.
pub(crate) fn returned(outcome: &Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Return { output, .. } => output.clone(),
        other => panic!("refused: {other:?}"),
    }
}

/// Whether the call returned the word 1.
pub(crate) fn truth(outcome: &Outcome) -> bool {
    let output = returned(outcome);
    assert_eq!(output.len(), 32);
    assert!(output[..31].iter().all(|&b| b == 0) && output[31] < 2);
    output[31] == 1
}

pub(crate) fn reverted(outcome: &Outcome, expected: Refusal) {
    let Outcome::Revert { refusal, .. } = outcome else {
        panic!("no revert: {outcome:?}")
    };
    assert_eq!(*refusal, expected);
}

pub(crate) fn halted(outcome: &Outcome, expected: Refusal) {
    assert_eq!(*outcome, Outcome::Halt { refusal: expected });
}

/// Tokens and completeness of what `generate` returned.
pub(crate) fn tokens(output: &[u8]) -> (Vec<u32>, bool) {
    let word = |i: usize| {
        let bytes = &output[32 * i..32 * i + 32];
        assert!(bytes[..28].iter().all(|&b| b == 0));
        u32::from_be_bytes(bytes[28..].try_into().unwrap())
    };
    assert_eq!(word(0), 64);
    let count = word(2) as usize;
    assert_eq!(output.len(), 32 * (3 + count));
    ((0..count).map(|i| word(3 + i)).collect(), word(1) == 1)
}

/// Calldata of `approve` for [`NAME`].
pub(crate) fn approve(blob: &Blob, version: u64) -> Vec<u8> {
    calldata::approve(&NAME, version, &blob.commitment.0)
}

/// Calldata of `activate` for [`NAME`].
pub(crate) fn activate(version: u64) -> Vec<u8> {
    calldata::of_version(Function::Activate, &NAME, version)
}

/// Calldata of `revoke` for [`NAME`].
pub(crate) fn revoke(version: u64) -> Vec<u8> {
    calldata::of_version(Function::Revoke, &NAME, version)
}

/// The words of a view's answer.
pub(crate) fn view(chain: &mut Chain, function: Function, word: Option<&Word>) -> Vec<Word> {
    let output = returned(&chain.registry(MALLORY, &calldata::view(function, word)));
    output.chunks(32).map(|w| w.try_into().unwrap()).collect()
}

/// Version and commitment that are active under [`NAME`].
pub(crate) fn approved(chain: &mut Chain) -> (u64, Word) {
    let words = view(chain, Function::GetApproved, Some(&NAME));
    (to_u64(&words[0]).unwrap(), words[1])
}

/// Calldata of a legacy function.
pub(crate) fn legacy(selector: u8, words: &[Word]) -> Vec<u8> {
    [&[selector, 0, 0, 0][..], &words.concat()].concat()
}

/// Two models of the same dimensions.
pub(crate) fn blobs() -> (Blob, Blob) {
    (Blob::sample(small(), 3), Blob::sample(small(), 4))
}

/// ALICE's address as a word.
pub(crate) const ALICE_WORD: Word = {
    let mut word = [0xA1; 32];
    let mut i = 0;
    while i < 12 {
        word[i] = 0;
        i += 1;
    }
    word
};

/// Three admins of whom two decide, and these blobs loaded.
pub(crate) fn chain3(blobs: &[&Blob]) -> Chain {
    let mut chain = Chain::new(&[ALICE, BOB, CAROL], 2);
    blobs.iter().for_each(|blob| chain.load(blob));
    chain
}
