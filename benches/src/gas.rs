//! Calls of the inference precompile against the clock: does a gas buy what it is priced for?
//!
//! A call of price g may take g / 10^7 seconds on the slowest permitted backend (spec 6.7). Every call runs through the
//! precompile's own code, with a fresh session and without any cache; its answer is checked each time.

mod random;

pub use random::{Random, Spread, random_calls};

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use int_engine::blob::Record;
use int_engine::engine::{CpuEngine, Engine};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use precompile::memory::{Memory, ModelSet};
use precompile::word::{Word, ZERO, of_u64};
use precompile::{Call, Outcome, Target, calldata};
use serde::Serialize;

use crate::Error;

/// Gas that a second of the slowest permitted backend is worth (spec 6.7).
pub const TARGET: f64 = 1e12 / precompile::gas::PS_PER_GAS as f64;

/// What a call asks for, in numbers of tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// `generate`: prompt, new tokens.
    Generate(u32, u32),
    /// `verify`: prompt, claimed tokens. The claim is the answer, so that nothing ends early.
    Verify(u32, u32),
    /// `logitsDigest`: tokens.
    LogitsDigest(u32),
}

impl Shape {
    /// Tokens of prompt and output.
    #[must_use]
    pub const fn tokens(self) -> u32 {
        match self {
            Self::Generate(n, m) | Self::Verify(n, m) => n + m,
            Self::LogitsDigest(n) => n,
        }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Generate(n, m) => write!(f, "generate/{n}+{m}"),
            Self::Verify(n, m) => write!(f, "verify/{n}+{m}"),
            Self::LogitsDigest(n) => write!(f, "logitsDigest/{n}"),
        }
    }
}

/// Legacy calls of the table: prompt, new tokens. The longest prompt beside the fewest and beside the most new tokens.
pub const PACKED: [(u32, u32); 2] = [(255, 1), (192, 64)];

/// The shapes of the table: short and long prompts, few and many tokens.
pub const SHAPES: [Shape; 7] = [
    Shape::Generate(4, 4),
    Shape::Generate(16, 64),
    Shape::Generate(128, 16),
    Shape::Verify(4, 16),
    Shape::Verify(16, 64),
    Shape::Verify(128, 64),
    Shape::LogitsDigest(64),
];

/// One measured call.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Case {
    /// Model and shape.
    pub name: String,
    /// The price.
    pub gas: u64,
    /// The shortest time, in nanoseconds.
    pub ns: u64,
}

impl Case {
    /// Millions of gas a second.
    #[must_use]
    pub fn mgas(&self) -> f64 {
        self.gas as f64 * 1e3 / self.ns as f64
    }

    /// The rate in units of the target: 1 is as priced, more is faster.
    #[must_use]
    pub fn of_target(&self) -> f64 {
        self.mgas() * 1e6 / TARGET
    }
}

/// A chain in memory on which models are active.
pub struct Chain {
    state: Memory,
    models: ModelSet,
    kernels: &'static Kernels,
    threads: NonZeroUsize,
    count: u64,
}

/// A call that is ready to be timed.
pub struct Ready {
    /// Model and shape.
    pub name: String,
    data: Vec<u8>,
    gas: u64,
    answer: Vec<u8>,
}

const CALLER: [u8; 20] = [1; 20];

impl Chain {
    /// A chain without models, whose engines run on these kernels and threads.
    #[must_use]
    pub fn new(kernels: &'static Kernels, threads: NonZeroUsize) -> Self {
        Self {
            state: Memory::default(),
            models: ModelSet::default(),
            kernels,
            threads,
            count: 0,
        }
    }

    /// Makes a model active; returns its name on this chain.
    ///
    /// # Errors
    /// Never: memory is a state that can be written.
    pub fn activate(&mut self, model: &Arc<Model>) -> Result<Word, Error> {
        let engine = CpuEngine::new(Arc::clone(model), self.kernels, self.threads);
        self.count += 1;
        let name = of_u64(self.count);
        let record = Record {
            config: model.config().clone(),
            tokenizer_digest: model.tokenizer_digest(),
            total_len: 0,
            manifest_len: 0,
        };
        let commitment = engine.commitment();
        precompile::put_active(&mut self.state, &name, commitment, &record)?;
        self.models.insert(Arc::new(engine));
        Ok(name)
    }

    fn call(&mut self, data: &[u8], gas: u64) -> Result<Outcome, Error> {
        let call = Call::new(Target::Inference, data, gas, CALLER);
        Ok(self.state.call(&call, &self.models)?)
    }

    fn answer(&mut self, what: &str, data: &[u8], gas: u64) -> Result<(u64, Vec<u8>), Error> {
        match self.call(data, gas)? {
            Outcome::Return { gas_used, output } => Ok((gas_used, output)),
            refused => Err(Error::Wrong {
                what: what.to_owned(),
                expected: "an answer".into(),
                found: format!("{refused:?}"),
            }),
        }
    }

    /// Prepares a call on a model: tokens that depend on `seed`, its price, its answer.
    ///
    /// # Errors
    /// [`Error::Wrong`] when the precompile refuses it.
    pub fn prepare(
        &mut self,
        label: &str,
        name: &Word,
        accepted: u32,
        shape: Shape,
        seed: u64,
    ) -> Result<Ready, Error> {
        let what = format!("{label}/{shape}");
        let prompt = |n: u32| -> Vec<u32> {
            let mut random = Random::new(seed);
            (0..n).map(|_| random.below(accepted)).collect()
        };
        let data = match shape {
            Shape::Generate(n, m) => calldata::generate(name, &ZERO, &prompt(n), m),
            Shape::LogitsDigest(n) => calldata::logits_digest(name, &ZERO, &prompt(n)),
            Shape::Verify(n, k) => {
                let prompt = prompt(n);
                let ask = calldata::generate(name, &ZERO, &prompt, k);
                let (_, output) = self.answer(&what, &ask, u64::MAX)?;
                let generated = calldata::generated(&output);
                let (tokens, _) = generated.ok_or_else(|| Error::Wrong {
                    what: what.clone(),
                    expected: "tokens".into(),
                    found: format!("{} bytes", output.len()),
                })?;
                calldata::verify(name, &ZERO, &prompt, k, &tokens)
            }
        };
        let (gas, answer) = self.answer(&what, &data, u64::MAX)?;
        if let Shape::Verify(..) = shape {
            check(&what, &answer, &of_u64(1))?;
        }
        Ok(Ready {
            name: what,
            data,
            gas,
            answer,
        })
    }

    /// Prepares the legacy packed call on the toy model, whose published price does not count the prompt.
    ///
    /// # Errors
    /// As [`Chain::prepare`].
    pub fn prepare_packed(&mut self, n: u32, m: u32) -> Result<Ready, Error> {
        let mut random = Random::new(n.into());
        let prompt = (0..n).map(|_| random.below(48));
        let words = [0x0100_0000, m].into_iter().chain(prompt);
        let data: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
        let name = format!("toy/packed/{n}+{m}");
        let (gas, answer) = self.answer(&name, &data, u64::MAX)?;
        Ok(Ready {
            name,
            data,
            gas,
            answer,
        })
    }

    /// Runs a call with exactly its price, and checks the answer; nanoseconds.
    ///
    /// # Errors
    /// [`Error::Wrong`] when the answer is another one.
    pub fn time(&mut self, ready: &Ready) -> Result<u64, Error> {
        let start = Instant::now();
        let outcome = self.call(&ready.data, ready.gas)?;
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        check(&ready.name, &outcome.data(), &ready.answer)?;
        Ok(ns.max(1))
    }

    /// The shortest times of some calls in `rounds` rounds, every call once a round. `progress` hears of each.
    ///
    /// # Errors
    /// As [`Chain::time`].
    pub fn rounds(
        &mut self,
        ready: &[Ready],
        rounds: usize,
        progress: &mut dyn FnMut(usize, &str),
    ) -> Result<Vec<Case>, Error> {
        let case = |r: &Ready| Case {
            name: r.name.clone(),
            gas: r.gas,
            ns: u64::MAX,
        };
        let mut cases: Vec<Case> = ready.iter().map(case).collect();
        for round in 0..rounds {
            for (case, ready) in cases.iter_mut().zip(ready) {
                progress(round, &ready.name);
                case.ns = case.ns.min(self.time(ready)?);
            }
        }
        Ok(cases)
    }
}

fn check(what: &str, found: &[u8], expected: &[u8]) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    Err(Error::Wrong {
        what: what.to_owned(),
        expected: hex(expected),
        found: hex(found),
    })
}
