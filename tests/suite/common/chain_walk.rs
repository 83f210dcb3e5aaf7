//! Random calls of the precompiles on a small chain, each chosen by what the ones before have left.

use crate::random_blob::{Rng, Shape, Style, build};
use int_engine::commitment::Hasher;
use int_engine::engine::CpuEngine;
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use precompile::genesis::Genesis;
use precompile::infer::Function as Infer;
use precompile::memory::{Memory, ModelSet};
use precompile::registry::{Action, Function, Governance};
use precompile::word::{Address, Word, ZERO, of_address, of_u64, to_u64};
use precompile::{Call, Outcome, Target, calldata, slots};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Ids that a prompt may hold, of every model here.
const ACCEPTED: usize = 21;
const CONTEXT: usize = 20;

/// A blob with what a proposal carries.
pub(crate) struct Blob {
    pub(crate) bytes: Vec<u8>,
    pub(crate) commitment: Word,
    proof: Vec<Word>,
}

/// Two models, and a blob whose record is right and whose weights are refused; adds them to the models at hand.
pub(crate) fn blobs(models: &mut ModelSet) -> Vec<Blob> {
    let shape = Shape {
        vocab: ACCEPTED + 2,
        accepted: ACCEPTED,
        ctx: CONTEXT,
        stop_ids: vec![1, 5, 9, 13],
        ..Shape::small()
    };
    let mut out = Vec::new();
    for seed in 1..=3 {
        let mut blob = build(&shape, Style::Plausible, seed);
        if seed == 3 {
            let weight = blob.range("layers.0.q.weight");
            blob.bytes[weight.start] = 0x80;
        }
        let mut hasher = Hasher::new();
        hasher.update(&blob.bytes);
        let tree = hasher.finish();
        match Model::from_bytes(&blob.bytes) {
            Ok(model) => models.insert(Arc::new(CpuEngine::new(
                Arc::new(model),
                Kernels::detect(),
                NonZeroUsize::MIN,
            ))),
            Err(e) => {
                assert_eq!(seed, 3, "{e}");
                models.insert_refused(tree.commitment());
            }
        }
        out.push(Blob {
            commitment: tree.commitment().0,
            proof: tree.prove(0).expect("a record"),
            bytes: blob.bytes,
        });
    }
    out
}

/// One call and what came of it.
pub(crate) struct Step {
    pub(crate) block: u64,
    pub(crate) to: Target,
    pub(crate) data: Vec<u8>,
    pub(crate) gas: u64,
    pub(crate) caller: Address,
    pub(crate) value_sent: bool,
    pub(crate) is_static: bool,
    pub(crate) direct: bool,
    pub(crate) outcome: Outcome,
    /// Keys whose words changed, and their new words.
    pub(crate) changes: Vec<(Word, Word)>,
    /// The new events.
    pub(crate) logs: Vec<(Vec<Word>, Vec<u8>)>,
}

/// A chain on its way.
pub(crate) struct Walk<'a> {
    pub(crate) chain: Memory,
    rng: Rng,
    blobs: &'a [Blob],
    models: &'a ModelSet,
    /// Prompt and tokens of the last answer.
    last: (Vec<u32>, Vec<u32>),
}

fn address(n: u64) -> Address {
    let mut address = [0; 20];
    address[12..].copy_from_slice(&(n * 0x0101).to_be_bytes());
    address
}

impl<'a> Walk<'a> {
    /// A chain with one to three admins, or one of the older registry.
    pub(crate) fn new(seed: u64, blobs: &'a [Blob], models: &'a ModelSet) -> Self {
        let mut rng = Rng(seed * 7 + 1);
        let admins = 1 + rng.word() % 3;
        let quorum = 1 + (rng.word() % admins) as u32;
        let genesis = Genesis {
            admins: (1..=admins).map(address).collect(),
            quorum,
            delay: 1 + rng.word() % 3,
            window: 1 + rng.word() % 6,
            single: quorum == 1,
            former: Vec::new(),
        };
        let [(_, registry), _] = genesis.accounts().expect("a valid choice");
        let mut chain = Memory {
            block: 1 + rng.word() % 50,
            storage: registry.storage,
            logs: Vec::new(),
        };
        if seed.is_multiple_of(16) {
            chain.storage.remove(&slots::governance());
        }
        if seed.is_multiple_of(5) {
            // Adopted by the older registry, with a record or without.
            let blob = &blobs[0];
            chain.storage.insert(slots::version(&of_u64(1)), of_u64(2));
            chain
                .storage
                .insert(slots::commitment(&of_u64(1)), blob.commitment);
            if seed.is_multiple_of(10) {
                let record = int_engine::blob::Record::parse(&blob.bytes).expect("a record");
                let commitment = int_engine::commitment::Commitment(blob.commitment);
                let other = of_u64(0xEE);
                precompile::put_active(&mut chain, &other, commitment, &record).expect("memory");
            }
        }
        let mut walk = Self {
            chain,
            rng,
            blobs,
            models,
            last: (vec![1, 2], vec![3]),
        };
        if seed % 2 == 1 {
            walk.adopt(quorum, genesis.delay);
        }
        walk
    }

    /// A model active under name 1, by votes of the first admins.
    fn adopt(&mut self, quorum: u32, delay: u64) {
        let name = of_u64(1);
        let blob = &self.blobs[(self.rng.word() % 3) as usize];
        let record = &blob.bytes[..1024];
        let data = calldata::propose(&name, 3, &blob.commitment, record, &blob.proof);
        let mut returned = |caller, data: &[u8]| {
            let call = Call::new(Target::Registry, data, 1 << 40, caller);
            let outcome = self.chain.call(&call, self.models);
            assert!(matches!(outcome, Ok(Outcome::Return { .. })), "{outcome:?}");
        };
        (1..=quorum).for_each(|admin| returned(address(admin.into()), &data));
        self.chain.block += delay;
        let data = calldata::of_version(Function::Activate, &name, 3);
        let call = Call::new(Target::Registry, &data, 1 << 40, address(9));
        let outcome = self.chain.call(&call, self.models);
        assert!(matches!(outcome, Ok(Outcome::Return { .. })), "{outcome:?}");
        self.chain.logs.clear();
    }

    fn chance(&mut self, of: u64) -> bool {
        self.rng.word().is_multiple_of(of)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.word() % n
    }

    fn read(&self, key: &Word) -> Word {
        self.chain.storage.get(key).copied().unwrap_or(ZERO)
    }

    fn name(&mut self) -> Word {
        if self.chance(40) {
            return ZERO;
        }
        of_u64(1 + self.below(2))
    }

    /// A version that stands somewhere under the name, or a small one.
    fn version(&mut self, name: &Word) -> u64 {
        let pending = self.read(&slots::pending(name, 0));
        let pending = to_u64(
            &[&ZERO[..24], &pending[..8]]
                .concat()
                .try_into()
                .expect("32 bytes"),
        );
        let active = to_u64(&self.read(&slots::version(name)));
        let small = self.below(6);
        match self.below(4) {
            0 => active.unwrap_or(small),
            1 | 2 => pending.filter(|v| *v > 0).unwrap_or(small),
            _ => small,
        }
    }

    /// One above everything that passed, mostly.
    fn next_version(&mut self, name: &Word) -> u64 {
        let highest = self
            .read(&slots::highest(name))
            .max(self.read(&slots::version(name)));
        match self.below(6) {
            0 => self.below(6),
            _ => to_u64(&highest).map_or(1, |v| v + 1),
        }
    }

    fn address(&mut self) -> Address {
        if self.chance(40) {
            return [0; 20];
        }
        address(1 + self.below(4))
    }

    fn prompt(&mut self) -> Vec<u32> {
        let len = match self.below(16) {
            0 => 0,
            1 => CONTEXT as u64 + 1,
            2 => CONTEXT as u64,
            _ => 1 + self.below(5),
        };
        let mut prompt = self.rng.tokens(len as usize, ACCEPTED);
        if self.chance(12) && !prompt.is_empty() {
            prompt[0] = ACCEPTED as u32 + self.below(3) as u32;
        }
        prompt
    }

    fn commitment(&mut self) -> Word {
        match self.below(12) {
            0 => ZERO,
            1 => [9; 32],
            n => self.blobs[(n % 3) as usize].commitment,
        }
    }

    fn proposal(&mut self) -> Vec<u8> {
        let name = self.name();
        let version = self.next_version(&name);
        let blob = &self.blobs[(self.rng.word() % 3) as usize];
        let (mut record, mut proof) = (blob.bytes[..1024].to_vec(), blob.proof.clone());
        let commitment = blob.commitment;
        match self.below(16) {
            0 => record[(self.rng.word() % 1024) as usize] ^= 1 << (self.rng.word() % 8),
            1 => proof[0][31] ^= 1,
            2 => drop(proof.pop()),
            3 => proof.push(ZERO),
            4 => drop(record.pop()),
            _ => {}
        }
        calldata::propose(&name, version, &commitment, &record, &proof)
    }

    fn registry(&mut self) -> Vec<u8> {
        let name = self.name();
        let governance = Governance::of_word(&self.read(&slots::governance()));
        match self.below(24) {
            0..=2 => self.proposal(),
            3..=5 => {
                let (version, commitment) = (self.next_version(&name), self.commitment());
                calldata::approve(&name, version, &commitment)
            }
            6..=9 => {
                let version = self.version(&name);
                calldata::of_version(Function::Activate, &name, version)
            }
            10 | 11 => {
                let version = self.version(&name);
                calldata::of_version(Function::Revoke, &name, version)
            }
            12..=14 => calldata::set_admin(&self.address(), !self.chance(3)),
            15 => calldata::set_quorum(self.below(5) as u32),
            16 | 17 => self.legacy(),
            18 => {
                let version = self.version(&name);
                calldata::of_version(Function::IsRevoked, &name, version)
            }
            19 => {
                let action = Action::Adopt {
                    name,
                    version: self.next_version(&name),
                    commitment: self.commitment(),
                };
                calldata::view(Function::Tally, Some(&action.id(governance.epoch)))
            }
            20 => {
                let commitment = self.commitment();
                calldata::view(Function::Record, Some(&commitment))
            }
            21 => {
                let index = self.rng.pick(&[0, 0, 1, 2]);
                calldata::view(Function::Activation, Some(&of_u64(index)))
            }
            22 => {
                let admin = of_address(&self.address());
                calldata::view(Function::IsAdmin, Some(&admin))
            }
            _ => match self.below(5) {
                0 => calldata::view(Function::Governance, None),
                1 => calldata::view(Function::ActivationCount, None),
                2 => calldata::view(Function::Pending, Some(&name)),
                3 => calldata::view(Function::HighestVersion, Some(&name)),
                _ => calldata::view(Function::GetApproved, Some(&name)),
            },
        }
    }

    fn legacy(&mut self) -> Vec<u8> {
        let name = self.name();
        let function = self.below(6) as u8;
        let words = match function {
            1 => {
                let mut version = of_u64(self.next_version(&name));
                version[0] = u8::from(self.chance(4));
                vec![name, version, self.commitment()]
            }
            4 => {
                let admin = of_address(&self.address());
                vec![admin, of_u64(self.below(3))]
            }
            3 => vec![of_address(&self.address())],
            _ => vec![name],
        };
        [&[function, 0, 0, 0][..], &words.concat()].concat()
    }

    fn inference(&mut self) -> Vec<u8> {
        let name = self.name();
        let commitment = match self.below(4) {
            0 => self.commitment(),
            1 => self.read(&slots::commitment(&name)),
            _ => ZERO,
        };
        let prompt = self.prompt();
        let max_new = self.below(8) as u32;
        match self.below(12) {
            0..=4 => calldata::generate(&name, &commitment, &prompt, max_new),
            5..=7 => {
                let (prompt, mut output) = self.last.clone();
                match self.below(5) {
                    0 => drop(output.pop()),
                    1 => output.push(4),
                    2 if !output.is_empty() => output[0] ^= 1,
                    _ => {}
                }
                let wanted = output.len() as u32 + (self.below(4) == 0) as u32;
                calldata::verify(&name, &commitment, &prompt, wanted, &output)
            }
            8 => calldata::logits_digest(&name, &commitment, &prompt),
            9 => {
                let (n, m) = (
                    self.rng.word() as u32,
                    self.rng.word() as u32 >> self.below(32),
                );
                let function = self.rng.pick(&[Infer::GasOfGenerate, Infer::GasOfVerify]);
                calldata::gas_of(function, &name, &commitment, &[n, m])
            }
            10 => {
                let n = self.rng.word() as u32;
                calldata::gas_of(Infer::GasOfLogitsDigest, &name, &commitment, &[n])
            }
            _ => {
                let count = self.rng.pick(&[0, 1, 2, 64, 65]);
                let words = [1 << 24, count, 3, self.below(60) as u32];
                let mut data = words.map(u32::to_be_bytes).concat();
                let more = self.rng.pick(&[0, 0, 0, 1, 1040]);
                data.resize(data.len() + more, 0);
                data
            }
        }
    }

    /// Spoils calldata, now and then.
    fn spoil(&mut self, mut data: Vec<u8>) -> Vec<u8> {
        let at = self.below(data.len() as u64) as usize;
        match self.below(20) {
            0 => data[at] ^= 1 << self.below(8),
            1 => data.truncate(at),
            2 => data.push(0),
            _ => {}
        }
        data
    }

    /// The next call, executed.
    pub(crate) fn step(&mut self) -> Step {
        self.chain.block += self.rng.pick(&[0, 0, 1, 1, 2, 7]);
        let to = self
            .rng
            .pick(&[Target::Registry, Target::Registry, Target::Inference]);
        let data = match to {
            Target::Registry => self.registry(),
            Target::Inference => self.inference(),
        };
        let data = self.spoil(data);
        let caller = self.address();
        let (value_sent, is_static, direct) = (self.chance(40), self.chance(20), !self.chance(40));
        let mut gas = match self.below(20) {
            0 => self.below(400_000),
            _ => 1 << 40,
        };
        let mut trial = self.chain.clone();
        let call = |gas| Call {
            value_sent,
            is_static,
            direct,
            ..Call::new(to, &data, gas, caller)
        };
        let mut outcome = trial.call(&call(gas), self.models).expect("no fault");
        if self.chance(6) {
            // Exactly what the call needs, or one less.
            gas = outcome.gas_used(gas) - self.below(2);
            trial = self.chain.clone();
            outcome = trial.call(&call(gas), self.models).expect("no fault");
        }
        let logs = trial.logs[self.chain.logs.len()..].to_vec();
        let changes = kat::precompiles::changes(&self.chain.storage, &trial.storage);
        self.chain = trial;
        if let (Outcome::Return { output, .. }, true) =
            (&outcome, data.starts_with(&Infer::Generate.selector()))
        {
            self.last = (numbers(&data, 4 + 32 * 4), numbers(output, 64));
        }
        Step {
            block: self.chain.block,
            to,
            data,
            gas,
            caller,
            value_sent,
            is_static,
            direct,
            outcome,
            changes,
            logs,
        }
    }
}

/// The `uint32[]` whose length stands at `at`.
fn numbers(data: &[u8], at: usize) -> Vec<u32> {
    let word = |i: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&data[i + 28..i + 32]);
        u32::from_be_bytes(bytes)
    };
    let count = word(at) as usize;
    (0..count).map(|i| word(at + 32 + 32 * i)).collect()
}
