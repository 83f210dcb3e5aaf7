//! Calls on an implementation: the rules of the crate `precompile` with an engine of the target (spec 7.11).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use int_engine::commitment::{Commitment, commitment};
use precompile::memory::Memory;
use precompile::word::{Word, ZERO};
use precompile::{Call, Fault, Lookup, Models, Outcome, Target as To};

use super::{Expected, Form, Log, PrecompileCall, STATES, State, StatesFile, subject};
use crate::file::{self, File};
use crate::hex;
use crate::set;
use crate::target::Target;
use crate::verify::{Checked, edited, model_blob};

/// The states of a set and the blobs of its models.
#[derive(Debug)]
pub struct Chain {
    file: StatesFile,
    /// The bytes of each model of the file.
    blobs: Vec<Vec<u8>>,
}

impl Chain {
    /// Reads the states of the set in `dir`; `root` is the folder that paths of blobs start from.
    ///
    /// # Errors
    /// A file that is missing or refused, or does not name what the states name.
    pub fn read(dir: &Path, root: &Path) -> Result<Self, String> {
        let bytes = set::read_file(dir, STATES).map_err(|e| e.to_string())?;
        match file::parse(&bytes).map_err(|e| format!("{STATES} is refused: {e}"))? {
            File::States(file) => Self::of(file, dir, root),
            other => Err(format!("{STATES} is of level {}", other.level())),
        }
    }

    /// As [`Chain::read`], of states already read.
    ///
    /// # Errors
    /// As [`Chain::read`].
    pub fn of(file: StatesFile, dir: &Path, root: &Path) -> Result<Self, String> {
        let blob = |model: &super::ModelRef| {
            let at = |e: String| format!("model {}: {e}", model.name);
            let bytes = set::read_file(dir, &model.file).map_err(|e| at(e.to_string()))?;
            let parsed = file::parse(&bytes).map_err(|e| at(e.to_string()))?;
            let File::Model(of) = parsed else {
                return Err(at(format!("{} is no model", model.file)));
            };
            let blob = model_blob(&of, root).map_err(at)?;
            let Some(name) = &model.edit else {
                return Ok(blob);
            };
            let edit = of.edits.iter().find(|edit| edit.name == *name);
            let edit = edit.ok_or_else(|| at(format!("no edit is named {name}")))?;
            edited(edit, &blob).map_err(at)
        };
        let blobs = file.models.iter().map(blob).collect::<Result<_, _>>()?;
        Ok(Self { file, blobs })
    }

    /// Of states and the blobs of their models, in their order.
    pub(crate) fn new(file: StatesFile, blobs: Vec<Vec<u8>>) -> Self {
        Self { file, blobs }
    }

    /// Checks that the blobs are those of the commitments, and that the target refuses the edited ones only.
    pub(crate) fn check(&self, target: Target) -> Checked {
        for (model, blob) in self.file.models.iter().zip(&self.blobs) {
            let place = format!("model {}", model.name);
            let found = commitment(blob).0;
            if found != model.commitment {
                return Err(format!(
                    "{place}, commitment: expected {}, found {}",
                    hex::encode(&model.commitment),
                    hex::encode(&found)
                ));
            }
            let accepted = target.engine(blob).is_ok();
            if accepted != model.edit.is_none() {
                return Err(format!("{place}: accepted is {accepted}"));
            }
        }
        Ok(())
    }

    /// The states, in the order of the file.
    #[must_use]
    pub fn states(&self) -> &[State] {
        &self.file.states
    }

    /// The memory of a call's state, at its block.
    pub(crate) fn before(&self, call: &PrecompileCall) -> Result<Memory, String> {
        let state = self.file.states.iter().find(|s| s.name == call.state);
        let state = state.ok_or_else(|| format!("no state is named {}", call.state))?;
        Ok(Memory {
            block: call.block.unwrap_or(state.block),
            storage: state.storage.iter().copied().collect(),
            logs: Vec::new(),
        })
    }

    /// The models of the states on a target, loaded when they are first asked for.
    #[must_use]
    pub fn models(&self, target: Target) -> Loaded<'_> {
        Loaded {
            chain: self,
            target,
            engines: Mutex::default(),
        }
    }
}

/// The models of a set as a target loads them.
pub struct Loaded<'a> {
    chain: &'a Chain,
    target: Target,
    engines: Mutex<HashMap<Commitment, Lookup>>,
}

impl Models for Loaded<'_> {
    fn model(&self, commitment: Commitment) -> Result<Lookup, Fault> {
        let mut engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = engines.get(&commitment) {
            return Ok(found.clone());
        }
        let models = self.chain.file.models.iter();
        let mut at_hand = models.zip(&self.chain.blobs);
        let found = at_hand.find(|(model, _)| model.commitment == commitment.0);
        let missing = |reason: String| Fault::Missing { commitment, reason };
        let (model, blob) = found.ok_or_else(|| missing("not in the states".into()))?;
        // `check` has compared commitments: the bytes of an edited model are those of its commitment.
        let lookup = match (self.target.engine(blob), &model.edit) {
            (Ok(engine), _) => Lookup::Ready(engine),
            (Err(_), Some(_)) => Lookup::Refused,
            (Err(reason), None) => return Err(missing(reason)),
        };
        engines.insert(commitment, lookup.clone());
        Ok(lookup)
    }
}

/// Keys whose words differ, and the words of the later state, ascending by key.
pub type Changes = Vec<(Word, Word)>;

/// What a call has changed.
#[must_use]
pub fn changes(before: &BTreeMap<Word, Word>, after: &BTreeMap<Word, Word>) -> Changes {
    let keys: BTreeSet<&Word> = before.keys().chain(after.keys()).collect();
    let changed = keys
        .into_iter()
        .filter(|key| before.get(*key) != after.get(*key));
    changed
        .map(|key| (*key, after.get(key).copied().unwrap_or(ZERO)))
        .collect()
}

/// Executes a call on a state; how it ends, and its gas.
///
/// # Errors
/// A fault in words.
pub fn execute(
    to: To,
    call: &PrecompileCall,
    gas: u64,
    before: &Memory,
    models: &dyn Models,
) -> Result<(Expected, u64), String> {
    let mut memory = before.clone();
    let outcome = memory.call(
        &Call {
            value_sent: call.value > 0,
            is_static: call.is_static,
            direct: call.direct,
            ..Call::new(to, &call.input, gas, call.caller)
        },
        models,
    );
    let outcome = outcome.map_err(|fault| format!("a fault: {fault}"))?;
    let gas_used = outcome.gas_used(gas);
    let data = outcome.data();
    let refused = |refusal, form| Expected::Refused {
        refusal,
        form,
        gas_used,
        data: data.clone(),
    };
    let found = match &outcome {
        Outcome::Revert { refusal, .. } => refused(*refusal, Form::Revert),
        Outcome::Halt { refusal } => refused(*refusal, Form::Halt),
        Outcome::Return { output, .. } => Expected::Return {
            output: output.clone(),
            storage: changes(&before.storage, &memory.storage),
            logs: memory.logs[before.logs.len()..]
                .iter()
                .map(|(topics, data)| Log {
                    topics: topics.clone(),
                    data: data.clone(),
                })
                .collect(),
        },
    };
    if !matches!(outcome, Outcome::Return { .. }) && memory != *before {
        return Err("a refused call has changed the state".into());
    }
    Ok((found, gas_used))
}

/// Checks every call of a file on a target; `path` says what the file holds.
///
/// # Errors
/// The refused file, or the first difference.
pub fn verify(path: &str, bytes: &[u8], chain: &Chain, target: Target) -> Checked {
    let (to, refused) = subject(path).ok_or("no file of calls has this name")?;
    let calls = super::parse(bytes).map_err(|e| format!("the file is refused: {e}"))?;
    let models = chain.models(target);
    for (i, call) in calls.iter().enumerate() {
        let place = format!("call {i} ({})", call.name);
        let at = |e: String| format!("{place}: {e}");
        if refused != matches!(call.expected, Expected::Refused { .. }) {
            return Err(at("a refused call belongs into a fail file".into()));
        }
        let before = chain.before(call).map_err(at)?;
        one(to, call, &before, &models).map_err(at)?;
    }
    Ok(())
}

fn one(to: To, call: &PrecompileCall, before: &Memory, models: &dyn Models) -> Checked {
    let (found, gas_used) = execute(to, call, call.gas, before, models)?;
    same(&call.expected, &found)?;
    if let Expected::Return { .. } = found {
        if gas_used != call.gas {
            return Err(format!("Gas: expected {}, found {gas_used}", call.gas));
        }
        let less = call.gas.saturating_sub(1);
        let (found, _) = execute(to, call, less, before, models)?;
        same(&out_of_gas(less), &found).map_err(|e| format!("with one gas less: {e}"))?;
    }
    Ok(())
}

fn out_of_gas(gas: u64) -> Expected {
    Expected::Refused {
        refusal: precompile::Refusal::OutOfGas,
        form: Form::Halt,
        gas_used: gas,
        data: Vec::new(),
    }
}

/// The first member that differs.
fn same(expected: &Expected, found: &Expected) -> Checked {
    let differ = |what: &str, expected: String, found: String| {
        if expected == found {
            return Ok(());
        }
        Err(format!("{what}: expected {expected}, found {found}"))
    };
    match (expected, found) {
        (
            Expected::Return {
                output,
                storage,
                logs,
            },
            Expected::Return {
                output: found_output,
                storage: found_storage,
                logs: found_logs,
            },
        ) => {
            differ("Expected", hex::encode(output), hex::encode(found_output))?;
            let words = |changes: &Changes| {
                let pair = |(k, w): &(Word, Word)| format!("{}={}", hex::encode(k), hex::encode(w));
                changes.iter().map(pair).collect::<Vec<_>>().join(" ")
            };
            differ("Storage", words(storage), words(found_storage))?;
            let text = |logs: &[Log]| {
                let one = |log: &Log| {
                    let topics: Vec<String> = log.topics.iter().map(|t| hex::encode(t)).collect();
                    format!("{}:{}", topics.join(","), hex::encode(&log.data))
                };
                logs.iter().map(one).collect::<Vec<_>>().join(" ")
            };
            differ("Logs", text(logs), text(found_logs))
        }
        _ => differ("outcome", outcome(expected), outcome(found)),
    }
}

fn outcome(of: &Expected) -> String {
    match of {
        Expected::Return { .. } => "a return".into(),
        Expected::Refused {
            refusal,
            form,
            gas_used,
            data,
        } => format!(
            "{} {} for {gas_used} gas, data {:?}",
            form.name(),
            refusal.name(),
            hex::encode(data)
        ),
    }
}
