//! Arrays of calls in the form that Ethereum clients use for precompiles, with what a stateful one needs (spec 7.11).

use std::collections::BTreeSet;

use precompile::Refusal;
use precompile::word::{Address, Word};

use super::states::{object, pairs, pairs_json};
use crate::file::fields::{self, Fields};
use crate::file::{FileError, MAX_BYTES, short};
use crate::hex;
use crate::json::{self, Json};

/// How a refused call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The caller keeps the gas beyond the entry price, and gets the refusal's number.
    Revert,
    /// All gas is gone, and nothing is returned.
    Halt,
}

impl Form {
    /// `revert` or `halt`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Revert => "revert",
            Self::Halt => "halt",
        }
    }
}

/// An event of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The signature's hash and what is indexed.
    pub topics: Vec<Word>,
    /// The rest.
    pub data: Vec<u8>,
}

/// How a call ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It returns; its price is the gas of the call.
    Return {
        /// The result.
        output: Vec<u8>,
        /// Keys whose words change, and their new words, ascending by key.
        storage: Vec<(Word, Word)>,
        /// The events.
        logs: Vec<Log>,
    },
    /// It is refused.
    Refused {
        /// Why.
        refusal: Refusal,
        /// How.
        form: Form,
        /// What it costs.
        gas_used: u64,
        /// What the caller gets.
        data: Vec<u8>,
    },
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrecompileCall {
    /// Unique in its file.
    pub name: String,
    /// The name of the state before.
    pub state: String,
    /// Number of the block, if not the state's.
    pub block: Option<u64>,
    /// Who calls.
    pub caller: Address,
    /// The calldata.
    pub input: Vec<u8>,
    /// The gas that the call gets.
    pub gas: u64,
    /// Wei that it carries.
    pub value: u64,
    /// Whether the context is static.
    pub is_static: bool,
    /// Whether it is a CALL or STATICCALL.
    pub direct: bool,
    /// How it ends.
    pub expected: Expected,
}

/// Reads an array of calls.
///
/// # Errors
/// What spec 7.1 and 7.11 tell a reader to refuse.
pub fn parse(bytes: &[u8]) -> Result<Vec<PrecompileCall>, FileError> {
    if bytes.len() > MAX_BYTES {
        return Err(FileError::TooLong {
            bytes: bytes.len(),
            max: MAX_BYTES,
        });
    }
    let mut calls: Vec<PrecompileCall> = Vec::new();
    let mut names = BTreeSet::new();
    for (i, item) in fields::list(json::parse(bytes)?, "")?
        .into_iter()
        .enumerate()
    {
        let call = one(i, item)?;
        if !names.insert(call.name.clone()) {
            return Err(FileError::Repeated {
                at: "calls".into(),
                name: short(&call.name),
            });
        }
        calls.push(call);
    }
    Ok(calls)
}

/// A boolean that is written only where it is not `default`.
fn flag(f: &mut Fields, member: &str, default: bool) -> Result<bool, FileError> {
    match f.optional(member) {
        None => Ok(default),
        Some(Json::Bool(v)) if v != default => Ok(v),
        Some(_) => Err(FileError::Shape {
            at: f.at(member),
            why: "Static is true and Direct is false, where they are there",
        }),
    }
}

fn address(f: &mut Fields) -> Result<Address, FileError> {
    let caller = f.bytes("Caller")?;
    caller.try_into().map_err(|_| FileError::Shape {
        at: f.at("Caller"),
        why: "an address has 40 digits",
    })
}

fn one(i: usize, item: Json) -> Result<PrecompileCall, FileError> {
    let mut f = Fields::of(item, &format!("[{i}]"))?;
    let gas = |f: &mut Fields, member| f.int(member, 0, u64::MAX.into()).map(|v| v as u64);
    let mut call = PrecompileCall {
        name: f.text("Name")?,
        state: f.text("State")?,
        block: None,
        caller: address(&mut f)?,
        input: f.bytes("Input")?,
        gas: gas(&mut f, "Gas")?,
        value: 0,
        is_static: flag(&mut f, "Static", false)?,
        direct: flag(&mut f, "Direct", true)?,
        expected: Expected::Return {
            output: Vec::new(),
            storage: Vec::new(),
            logs: Vec::new(),
        },
    };
    if f.has("Block") {
        call.block = Some(gas(&mut f, "Block")?);
    }
    if f.has("Value") {
        call.value = f.int("Value", 1, u64::MAX.into())? as u64;
    }
    call.expected = if f.has("ExpectedError") {
        refused(&mut f)?
    } else {
        answered(&mut f)?
    };
    f.end()?;
    Ok(call)
}

fn refused(f: &mut Fields) -> Result<Expected, FileError> {
    let name = f.text("ExpectedError")?;
    let refusal = Refusal::of_name(&name).ok_or_else(|| FileError::Name {
        at: f.at("ExpectedError"),
        found: short(&name),
        expected: "a refusal of spec 6.2".into(),
    })?;
    let form = match f.text("Form")?.as_str() {
        "revert" => Form::Revert,
        "halt" => Form::Halt,
        other => {
            return Err(FileError::Name {
                at: f.at("Form"),
                found: short(other),
                expected: "revert or halt".into(),
            });
        }
    };
    Ok(Expected::Refused {
        refusal,
        form,
        gas_used: f.int("GasUsed", 0, u64::MAX.into())? as u64,
        data: f.bytes("Data")?,
    })
}

fn answered(f: &mut Fields) -> Result<Expected, FileError> {
    let output = f.bytes("Expected")?;
    if let Some(json) = f.optional("NoBenchmark") {
        let Json::Bool(_) = json else {
            return Err(FileError::Type {
                at: f.at("NoBenchmark"),
                expected: "a boolean",
                found: json.kind(),
            });
        };
    }
    let storage = match f.optional("Storage") {
        Some(json) => pairs(json, &f.at("Storage"))?,
        None => Vec::new(),
    };
    let mut logs = Vec::new();
    if f.has("Logs") {
        for (i, item) in f.list("Logs")?.into_iter().enumerate() {
            logs.push(log(item, &format!("{}[{i}]", f.at("Logs")))?);
        }
    }
    Ok(Expected::Return {
        output,
        storage,
        logs,
    })
}

fn log(item: Json, at: &str) -> Result<Log, FileError> {
    let mut f = Fields::of(item, at)?;
    let topics = f.list("Topics")?.into_iter().enumerate();
    let topics = topics.map(|(i, topic)| fields::digest(topic, &format!("{at}.Topics[{i}]")));
    let topics = topics.collect::<Result<_, _>>()?;
    let data = f.bytes("Data")?;
    f.end()?;
    Ok(Log { topics, data })
}

/// The calls as the array that [`parse`] reads, one a line.
#[must_use]
pub fn to_bytes(calls: &[PrecompileCall]) -> Vec<u8> {
    json::file_text(&Json::List(calls.iter().map(to_json).collect())).into_bytes()
}

fn to_json(call: &PrecompileCall) -> Json {
    let bytes = |bytes: &[u8]| Json::Text(hex::encode(bytes));
    let number = |n: u64| Json::integer(n.into());
    let mut members = vec![("Input", bytes(&call.input))];
    match &call.expected {
        Expected::Return { output, .. } => members.push(("Expected", bytes(output))),
        Expected::Refused { refusal, .. } => {
            members.push(("ExpectedError", Json::text(refusal.name())));
        }
    }
    members.push(("Name", Json::text(&call.name)));
    members.push(("Gas", number(call.gas)));
    if let Expected::Return { .. } = call.expected {
        members.push(("NoBenchmark", Json::Bool(true)));
    }
    members.push(("State", Json::text(&call.state)));
    members.extend(call.block.map(|block| ("Block", number(block))));
    members.push(("Caller", bytes(&call.caller)));
    members.extend((call.value > 0).then(|| ("Value", number(call.value))));
    members.extend(call.is_static.then_some(("Static", Json::Bool(true))));
    members.extend((!call.direct).then_some(("Direct", Json::Bool(false))));
    match &call.expected {
        Expected::Return { storage, logs, .. } => {
            members.extend((!storage.is_empty()).then(|| ("Storage", pairs_json(storage))));
            let log = |log: &Log| {
                let topics = log.topics.iter().map(|topic| bytes(topic));
                object(vec![
                    ("Topics", Json::List(topics.collect())),
                    ("Data", bytes(&log.data)),
                ])
            };
            let logs: Vec<Json> = logs.iter().map(log).collect();
            members.extend((!logs.is_empty()).then_some(("Logs", Json::List(logs))));
        }
        Expected::Refused {
            form,
            gas_used,
            data,
            ..
        } => {
            members.push(("Form", Json::text(form.name())));
            members.push(("GasUsed", number(*gas_used)));
            members.push(("Data", bytes(data)));
        }
    }
    object(members)
}
