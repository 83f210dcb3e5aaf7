//! Random transactions of every kind, many of them reasonable for the state.

use crate::common::{Blob, NAME};
use crate::contracts::{asker, creation};
use crate::node::{Plan, TINY};
use alloy_primitives::{Address, U256};
use blue_devnet::{Chain, DevAccount};
use precompile::infer::Function as Infer;
use precompile::registry::Function as Registry;
use precompile::word::{Word, ZERO, of_u64, to_u64};
use precompile::{INFERENCE, REGISTRY, calldata, slots};

/// Names that models are proposed for.
pub(crate) const NAMES: [Word; 2] = [NAME, [8; 32]];
/// Gas that any transaction here is content with.
const ENOUGH: u64 = 5_000_000;

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn ids(&mut self, most: usize) -> Vec<u32> {
        let count = self.below(most + 1);
        (0..count).map(|_| self.below(38) as u32).collect()
    }
}

/// What a transaction is meant to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Transfer,
    Creation,
    Direct(Infer),
    Asker,
    Registry(Registry),
    Legacy,
}

/// What transactions are made for.
pub(crate) struct Mix<'a> {
    pub(crate) blobs: &'a [Blob],
    pub(crate) accounts: &'a [DevAccount],
    pub(crate) asker: Address,
}

fn registry_word(chain: &Chain, key: &Word) -> Word {
    let key = U256::from_be_bytes(*key);
    let word = chain.head().state.word(&REGISTRY.into(), key);
    word.to_be_bytes()
}

impl Mix<'_> {
    /// A transaction of an account, which may be given too little gas.
    pub(crate) fn plan(&self, random: &mut Random, chain: &Chain) -> (Kind, Plan) {
        let (kind, mut plan) = match random.below(14) {
            0 => self.transfer(random),
            1 => self.creation(random),
            2..=4 => {
                let (function, data) = self.inference(random, chain);
                (Kind::Direct(function), Plan::call(INFERENCE, data, ENOUGH))
            }
            5 | 6 => {
                let (_, data) = self.inference(random, chain);
                (Kind::Asker, Plan::call(self.asker, data, ENOUGH))
            }
            7 => self.legacy(random, chain),
            _ => {
                let (function, data) = self.registry(random, chain);
                let kind = Kind::Registry(function);
                (kind, Plan::call(REGISTRY, data, ENOUGH))
            }
        };
        if random.one_in(12) {
            plan.gas = least(&plan.data) + 32_000 + random.next() % 20_000;
        }
        (kind, plan)
    }

    fn transfer(&self, random: &mut Random) -> (Kind, Plan) {
        let known = self.accounts[random.below(self.accounts.len())].address;
        let fresh = Address::from_word(of_u64(random.next()).into());
        let to = random.pick(&[known, fresh, self.asker, REGISTRY.into()]);
        let mut plan = Plan::call(to, vec![], 60_000);
        plan.value = random.next() % 1_000_000;
        (Kind::Transfer, plan)
    }

    fn creation(&self, random: &mut Random) -> (Kind, Plan) {
        let code = match random.below(4) {
            0 => vec![revm::bytecode::opcode::INVALID],
            1 => creation(&[]),
            _ => creation(&asker()),
        };
        (Kind::Creation, Plan::create(code, 400_000))
    }

    fn inference(&self, random: &mut Random, chain: &Chain) -> (Infer, Vec<u8>) {
        let tiny = random.one_in(4);
        let name = match tiny {
            true => TINY,
            false => random.pick(&NAMES),
        };
        let blob = &self.blobs[random.below(self.blobs.len())];
        let active = registry_word(chain, &slots::commitment(&name));
        let commitment = random.pick(&[ZERO, ZERO, active, active, blob.commitment.0]);
        let (prompt, tokens) = (random.ids(8), random.ids(4));
        let max_new = random.below(if tiny { 4 } else { 12 }) as u32;
        let function = random.pick(Infer::ALL);
        let mut data = match function {
            Infer::Generate => calldata::generate(&name, &commitment, &prompt, max_new),
            Infer::Verify => calldata::verify(&name, &commitment, &prompt, max_new, &tokens),
            Infer::LogitsDigest => calldata::logits_digest(&name, &commitment, &prompt),
            Infer::GasOfLogitsDigest => calldata::gas_of(function, &name, &commitment, &[max_new]),
            Infer::GasOfGenerate | Infer::GasOfVerify => {
                calldata::gas_of(function, &name, &commitment, &[max_new, 7])
            }
        };
        if random.one_in(10) {
            let at = random.below(data.len());
            data[at] ^= 1 << random.below(8);
        }
        (function, data)
    }

    fn registry(&self, random: &mut Random, chain: &Chain) -> (Registry, Vec<u8>) {
        // What admins vote about changes slowly, so that they meet.
        let round = (chain.head().block.header.number / 6) as usize;
        let name = NAMES[round % NAMES.len()];
        let word = |key: &Word| registry_word(chain, key);
        let passed = to_u64(&word(&slots::highest(&name))).unwrap();
        let active = to_u64(&word(&slots::version(&name))).unwrap();
        let waiting = word(&slots::pending(&name, 0));
        let waiting = u64::from_be_bytes(waiting[..8].try_into().unwrap());
        let next = passed.max(active) + random.pick(&[1, 1, 1, 1, 2, 0]);
        let either = match waiting > 0 && !round.is_multiple_of(3) {
            true => waiting,
            false => active,
        };
        let blob = &self.blobs[round % self.blobs.len()];
        let functions = [
            Registry::Propose,
            Registry::Approve,
            Registry::Approve,
            Registry::Activate,
            Registry::Revoke,
            Registry::Revoke,
            Registry::Revoke,
            Registry::SetAdmin,
            Registry::SetQuorum,
        ];
        let function = match random.one_in(8) {
            true => random.pick(Registry::ALL),
            false => random.pick(&functions),
        };
        let admin = self.accounts[3 + round % 2].address.0.0;
        let data = match function {
            Registry::Propose => blob.propose(&name, next),
            Registry::Approve => calldata::approve(&name, next, &blob.commitment.0),
            Registry::Activate if waiting > 0 => calldata::of_version(function, &name, waiting),
            Registry::Activate | Registry::Revoke | Registry::IsRevoked => {
                calldata::of_version(function, &name, either)
            }
            Registry::SetAdmin => {
                let enabled = word(&slots::admin(&admin)) == ZERO;
                calldata::set_admin(&admin, enabled)
            }
            Registry::SetQuorum => calldata::set_quorum(2 + (round % 2) as u32),
            Registry::Record | Registry::Tally => {
                calldata::view(function, Some(&blob.commitment.0))
            }
            Registry::Activation => calldata::view(function, Some(&of_u64(random.next() % 3))),
            Registry::IsAdmin => {
                let admin = precompile::word::of_address(&admin);
                calldata::view(function, Some(&admin))
            }
            Registry::Pending | Registry::HighestVersion | Registry::GetApproved => {
                calldata::view(function, Some(&name))
            }
            Registry::Governance | Registry::ActivationCount => calldata::view(function, None),
        };
        (function, data)
    }

    fn legacy(&self, random: &mut Random, chain: &Chain) -> (Kind, Plan) {
        if random.one_in(2) {
            let words = [&[0x0100_0000, 4][..], &random.ids(6)].concat();
            let data = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            return (Kind::Legacy, Plan::call(INFERENCE, data, ENOUGH));
        }
        let name = random.pick(&NAMES);
        let next = to_u64(&registry_word(chain, &slots::version(&name))).unwrap() + 1;
        let words = [name, of_u64(next), self.blobs[0].commitment.0];
        let data = [&[1, 0, 0, 0][..], &words.concat()].concat();
        (Kind::Legacy, Plan::call(REGISTRY, data, ENOUGH))
    }
}

/// Gas that a transaction with this calldata uses at least (EIP-7623).
fn least(data: &[u8]) -> u64 {
    let zeros = data.iter().filter(|&&b| b == 0).count() as u64;
    21_000 + 10 * zeros + 40 * (data.len() as u64 - zeros)
}
