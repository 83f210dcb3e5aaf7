//! Calls of the precompiles, chosen by mechanism (spec 7.11): answers from the rules with the reference as their engine.

mod encodings;
mod forms;
mod inference;
mod legacy;
mod registry;
mod states;
mod votes;

use std::path::Path;

use precompile::memory::Memory;
use precompile::word::{Address, Word};
use precompile::{Refusal, Target as To};

use super::GenerateError;
use crate::file::{File, ModelFile};
use crate::precompiles::{Chain, Expected, PrecompileCall, execute, to_bytes};
use crate::target::Target;
use states::Blob;

/// An admin, at the address of the published slots.
const ALICE: Address = last_byte(0xA1);
/// An admin of the states with two or three.
const BOB: Address = last_byte(0xB0);
/// An admin of the states with three.
const CAROL: Address = last_byte(0xC4);
/// No admin, proposed as one.
const DAVE: Address = last_byte(0xDA);
/// No admin.
const MALLORY: Address = last_byte(0x66);

/// What a call gets that is refused for something else.
const ENOUGH: u64 = 1_000_000_000;

const fn last_byte(byte: u8) -> Address {
    let mut address = [0; 20];
    address[19] = byte;
    address
}

/// The name of the published slots.
const NAME: Word = number(1);

/// The word of a number.
const fn number(n: u8) -> Word {
    let mut word = [0; 32];
    word[31] = n;
    word
}

/// One call as it is asked for.
#[derive(Clone)]
struct Ask {
    state: &'static str,
    block: Option<u64>,
    caller: Address,
    data: Vec<u8>,
    gas: Option<u64>,
    value: u64,
    is_static: bool,
    direct: bool,
}

impl Ask {
    /// A direct call of MALLORY without value, with as much gas as it needs.
    fn new(state: &'static str, data: Vec<u8>) -> Self {
        Self {
            state,
            block: None,
            caller: MALLORY,
            data,
            gas: None,
            value: 0,
            is_static: false,
            direct: true,
        }
    }

    fn by(self, caller: Address) -> Self {
        Self { caller, ..self }
    }

    fn at(self, block: u64) -> Self {
        let block = Some(block);
        Self { block, ..self }
    }

    fn given(self, gas: u64) -> Self {
        let gas = Some(gas);
        Self { gas, ..self }
    }

    fn fixed(self) -> Self {
        let is_static = true;
        Self { is_static, ..self }
    }

    fn delegated(self) -> Self {
        let direct = false;
        Self { direct, ..self }
    }

    fn paying(self, value: u64) -> Self {
        Self { value, ..self }
    }
}

/// The calls of one precompile as they are made.
struct Maker<'a> {
    to: To,
    chain: &'a Chain,
    answers: Vec<PrecompileCall>,
    failures: Vec<PrecompileCall>,
}

impl<'a> Maker<'a> {
    fn new(to: To, chain: &'a Chain) -> Self {
        Self {
            to,
            chain,
            answers: Vec::new(),
            failures: Vec::new(),
        }
    }

    fn run(&self, name: &str, ask: &Ask) -> PrecompileCall {
        let mut call = PrecompileCall {
            name: name.into(),
            state: ask.state.into(),
            block: ask.block,
            caller: ask.caller,
            input: ask.data.clone(),
            gas: ask.gas.unwrap_or(ENOUGH),
            value: ask.value,
            is_static: ask.is_static,
            direct: ask.direct,
            expected: Expected::Return {
                output: Vec::new(),
                storage: Vec::new(),
                logs: Vec::new(),
            },
        };
        let before: Memory = self.chain.before(&call).expect("a state of the file");
        let models = self.chain.models(Target::Reference);
        let done = execute(self.to, &call, call.gas, &before, &models);
        let (expected, gas_used) = done.unwrap_or_else(|why| panic!("{name}: {why}"));
        if let Expected::Return { .. } = expected {
            call.gas = gas_used;
        }
        call.expected = expected;
        call
    }

    /// The price of a call that returns.
    fn price(&self, ask: &Ask) -> u64 {
        let call = self.run("a price", ask);
        assert!(
            matches!(call.expected, Expected::Return { .. }),
            "{:?}",
            call.expected
        );
        call.gas
    }

    /// Adds a call that returns; its price.
    fn answer(&mut self, name: &str, ask: &Ask) -> u64 {
        let call = self.run(name, ask);
        assert!(
            matches!(call.expected, Expected::Return { .. }),
            "{name}: {:?}",
            call.expected
        );
        let price = call.gas;
        self.answers.push(call);
        price
    }

    /// Adds a call that is refused for this reason.
    fn refuse(&mut self, name: &str, why: Refusal, ask: &Ask) {
        let call = self.run(name, ask);
        assert!(
            matches!(call.expected, Expected::Refused { refusal, .. } if refusal == why),
            "{name}: {:?}",
            call.expected
        );
        self.failures.push(call);
    }

    /// Adds a call that returns, and the same with one gas less.
    fn exact(&mut self, name: &str, ask: &Ask) {
        let price = self.answer(name, ask);
        let less = ask.clone().given(price - 1);
        self.refuse(&format!("{name}, one gas less"), Refusal::OutOfGas, &less);
    }
}

/// The files of the level by their paths, with their numbers of cases.
pub(super) fn files(
    root: &Path,
    models: &[(&'static str, ModelFile)],
) -> Result<Vec<(String, usize, Vec<u8>)>, GenerateError> {
    let blobs = states::blobs(root, models)?;
    let file = states::file(&blobs);
    let states = File::States(file.clone());
    let chain = Chain::new(file, blobs.iter().map(|blob| blob.bytes.clone()).collect());
    let mut files = vec![(
        crate::precompiles::STATES.to_owned(),
        states.cases(),
        states.to_bytes(),
    )];
    for (name, maker) in [
        ("registry", registry(&chain, &blobs)),
        ("inference", inference(&chain, &blobs, models)),
    ] {
        for (prefix, calls) in [("", maker.answers), ("fail-", maker.failures)] {
            let path = format!("precompile/{prefix}{name}.json");
            files.push((path, calls.len(), to_bytes(&calls)));
        }
    }
    Ok(files)
}

fn registry<'a>(chain: &'a Chain, blobs: &[Blob]) -> Maker<'a> {
    let mut maker = Maker::new(To::Registry, chain);
    registry::cases(&mut maker, blobs);
    votes::cases(&mut maker, blobs);
    forms::registry(&mut maker, blobs);
    encodings::registry(&mut maker, blobs);
    legacy::registry(&mut maker, blobs);
    maker
}

fn inference<'a>(
    chain: &'a Chain,
    blobs: &[Blob],
    models: &[(&'static str, ModelFile)],
) -> Maker<'a> {
    let mut maker = Maker::new(To::Inference, chain);
    inference::cases(&mut maker, blobs, models);
    forms::inference(&mut maker);
    encodings::inference(&mut maker);
    legacy::inference(&mut maker);
    maker
}
