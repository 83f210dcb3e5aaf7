//! Inference by token ids (spec 6.6).

use crate::abi::{Args, Encoder};
use crate::function::functions;
use crate::gas;
use crate::host::{Call, Host, Lookup, Models, Outcome};
use crate::packed;
use crate::record::{self, Stored};
use crate::refusal::{Fault, Refusal, Stop, require};
use crate::slots;
use crate::word::{Word, ZERO};
use int_engine::commitment::Commitment;
use int_engine::engine::{self, Engine, Finish, Verdict, logits_digest};
use int_engine::halt::Error;
use int_engine::toy::Toy;
use std::ops::ControlFlow;

functions! {
    /// A function of inference with a selector of the ABI.
    Generate 0xbc95_b16d "generate(bytes32,bytes32,uint32[],uint32)";
    Verify 0x197e_8032 "verify(bytes32,bytes32,uint32[],uint32,uint32[])";
    LogitsDigest 0xcf0b_3533 "logitsDigest(bytes32,bytes32,uint32[])";
    GasOfGenerate 0xdf36_fccc "gasOfGenerate(bytes32,bytes32,uint32,uint32)";
    GasOfVerify 0xf27f_510f "gasOfVerify(bytes32,bytes32,uint32,uint32)";
    GasOfLogitsDigest 0x57fc_dd2e "gasOfLogitsDigest(bytes32,bytes32,uint32)";
}

/// What a call asks for.
enum Request {
    Generate {
        prompt: Vec<u32>,
        max_new: u32,
    },
    Verify {
        prompt: Vec<u32>,
        max_new: u32,
        output: Vec<u32>,
    },
    LogitsDigest {
        tokens: Vec<u32>,
    },
    GasOfGenerate {
        prompt: u32,
        max_new: u32,
    },
    GasOfVerify {
        prompt: u32,
        output: u32,
    },
    GasOfLogitsDigest {
        tokens: u32,
    },
}

/// Name, commitment and request of a call's arguments.
fn decode(function: Function, args: &[u8]) -> Result<(Word, Word, Request), Refusal> {
    let words = match function {
        Function::LogitsDigest | Function::GasOfLogitsDigest => 3,
        Function::Generate | Function::GasOfGenerate | Function::GasOfVerify => 4,
        Function::Verify => 5,
    };
    let mut a = Args::new(args, words);
    let (name, commitment) = (a.word()?, a.word()?);
    let request = match function {
        Function::Generate => Request::Generate {
            prompt: a.u32s()?,
            max_new: a.u32()?,
        },
        Function::Verify => Request::Verify {
            prompt: a.u32s()?,
            max_new: a.u32()?,
            output: a.u32s()?,
        },
        Function::LogitsDigest => Request::LogitsDigest { tokens: a.u32s()? },
        Function::GasOfGenerate => Request::GasOfGenerate {
            prompt: a.u32()?,
            max_new: a.u32()?,
        },
        Function::GasOfVerify => Request::GasOfVerify {
            prompt: a.u32()?,
            output: a.u32()?,
        },
        Function::GasOfLogitsDigest => Request::GasOfLogitsDigest { tokens: a.u32()? },
    };
    a.end()?;
    Ok((name, commitment, request))
}

impl Request {
    /// The price beside the entry price.
    fn work(&self, stored: &Stored) -> u64 {
        let sizes = &stored.sizes;
        match self {
            Self::Generate { prompt, max_new } => {
                gas::generate(sizes, prompt.len() as u64, *max_new)
            }
            Self::Verify { prompt, output, .. } => {
                gas::verify(sizes, prompt.len() as u64, output.len() as u64)
            }
            Self::LogitsDigest { tokens } => gas::logits_digest(sizes, tokens.len() as u64),
            Self::GasOfGenerate { .. }
            | Self::GasOfVerify { .. }
            | Self::GasOfLogitsDigest { .. } => 0,
        }
    }

    /// The result.
    fn answer(
        &self,
        stored: &Stored,
        commitment: Commitment,
        models: &dyn Models,
    ) -> Result<Vec<u8>, Stop> {
        let sizes = &stored.sizes;
        let out = Encoder::default();
        let out = match self {
            Self::Generate { prompt, max_new } => {
                let engine = engine_of(stored, commitment, models, prompt)?;
                let answer = on_engine(|| {
                    let mut session = engine.session()?;
                    let go_on = &mut |_| ControlFlow::Continue(());
                    engine::generate(&mut *session, prompt, *max_new as usize, go_on)
                })?;
                let complete = answer.finish == Finish::Stop;
                out.u32s(&answer.ids).u64(complete.into())
            }
            Self::Verify {
                prompt,
                max_new,
                output,
            } => {
                let engine = engine_of(stored, commitment, models, prompt)?;
                let verdict = on_engine(|| {
                    let mut session = engine.session()?;
                    engine::verify(&mut *session, prompt, output, *max_new as usize)
                })?;
                out.u64(matches!(verdict, Verdict::Right { .. }).into())
            }
            Self::LogitsDigest { tokens } => {
                let engine = engine_of(stored, commitment, models, tokens)?;
                let digest = on_engine(|| {
                    let mut session = engine.session()?;
                    session.feed(tokens)?;
                    if let Some(logits) = session.logits() {
                        return Ok(logits_digest(logits));
                    }
                    // None tells of a failure; this call says which.
                    let logits = session.logits_probed(&mut |_| {})?;
                    let missing = || int_engine::halt::Fault::Device("no logits".into());
                    Ok(logits_digest(logits.ok_or_else(missing)?))
                })?;
                out.word(&digest)
            }
            Self::GasOfGenerate { prompt, max_new } => {
                out.u64(gas::of_generate(sizes, (*prompt).into(), *max_new))
            }
            Self::GasOfVerify { prompt, output } => {
                out.u64(gas::of_verify(sizes, (*prompt).into(), (*output).into()))
            }
            Self::GasOfLogitsDigest { tokens } => {
                out.u64(gas::of_logits_digest(sizes, (*tokens).into()))
            }
        };
        Ok(out.finish())
    }
}

/// The engine of the active model, after the checks of the prompt (spec 3.5) by the stored record.
fn engine_of(
    stored: &Stored,
    commitment: Commitment,
    models: &dyn Models,
    prompt: &[u32],
) -> Result<std::sync::Arc<dyn Engine>, Stop> {
    let sizes = &stored.sizes;
    require(!prompt.is_empty(), Refusal::EmptyPrompt)?;
    let fits = prompt.len() as u64 <= sizes.max_context.into();
    require(fits, Refusal::ContextExceeded)?;
    let accepted = prompt.iter().all(|&id| id < sizes.accepted_ids);
    require(accepted, Refusal::TokenOutOfRange)?;
    match Fault::guard(|| models.model(commitment))?? {
        Lookup::Refused => Err(Refusal::BadModel.into()),
        Lookup::Ready(engine) => {
            let found = engine.commitment();
            if found != commitment || !stored.agrees(engine.config()) {
                let expected = commitment;
                return Err(Fault::WrongModel { expected, found }.into());
            }
            Ok(engine)
        }
    }
}

/// Runs a part of the engine.
fn on_engine<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Stop> {
    match Fault::guard(work)? {
        Ok(value) => Ok(value),
        Err(Error::Halt(halt)) => Err(Refusal::from(halt).into()),
        Err(Error::Fault(fault)) => Err(Fault::from(fault).into()),
    }
}

/// The active commitment of a name, if it is the one that the caller wants.
fn active(host: &mut dyn Host, name: &Word, wanted: &Word) -> Result<Word, Stop> {
    let active = host.read(&slots::served(name))?;
    require(active != ZERO, Refusal::NoActiveModel)?;
    require([ZERO, active].contains(wanted), Refusal::NotActive)?;
    Ok(active)
}

/// Executes a call.
pub(crate) fn run(
    call: &Call<'_>,
    host: &mut dyn Host,
    models: &dyn Models,
) -> Result<Outcome, Fault> {
    let Some(function) = call.selector().and_then(Function::of) else {
        return Ok(legacy(call));
    };
    let entry = gas::entry(call.args().len());
    match execute(function, call, entry, host, models) {
        Ok((gas_used, output)) => Ok(Outcome::Return { gas_used, output }),
        Err(Stop::Refused(refusal)) if refusal.halts() => Ok(Outcome::Halt { refusal }),
        Err(Stop::Refused(refusal)) => Ok(Outcome::Revert {
            gas_used: entry,
            refusal,
        }),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

fn execute(
    function: Function,
    call: &Call<'_>,
    entry: u64,
    host: &mut dyn Host,
    models: &dyn Models,
) -> Result<(u64, Vec<u8>), Stop> {
    require(call.gas >= entry, Refusal::OutOfGas)?;
    require(!call.value_sent, Refusal::ValueSent)?;
    require(call.direct, Refusal::NotDirect)?;
    let (name, wanted, request) = decode(function, call.args())?;
    let active = active(host, &name, &wanted)?;
    let stored = record::load(host, &active)?;
    let price = entry.saturating_add(request.work(&stored));
    let payable = price < u64::MAX && call.gas >= price;
    require(payable, Refusal::OutOfGas)?;
    let output = request.answer(&stored, Commitment(active), models)?;
    Ok((price, output))
}

/// The packed call on the toy model.
fn legacy(call: &Call<'_>) -> Outcome {
    let gas_used = packed::gas(call.data);
    let answered = require(call.gas >= gas_used, Refusal::OutOfGas)
        .and_then(|()| require(!call.value_sent, Refusal::ValueSent))
        .and_then(|()| {
            packed::call(call.data, call.gas, |prompt, count| {
                Toy::default().generate(prompt, count as usize)
            })
        });
    match answered {
        Ok(output) => Outcome::Return { gas_used, output },
        Err(refusal) => Outcome::Halt { refusal },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_fault() {
        let stop = on_engine::<()>(|| panic!("index {} out of range", 7)).unwrap_err();
        assert_eq!(stop, Fault::Panic("index 7 out of range".into()).into());
        let stop = on_engine::<()>(|| panic!("plain")).unwrap_err();
        assert_eq!(stop, Fault::Panic("plain".into()).into());
    }
}
