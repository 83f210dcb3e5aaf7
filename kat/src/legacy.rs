//! Packed calls in the form that Ethereum clients use: arrays with `Input`, `Expected`, `Name`, `Gas` (spec 7.9).

use std::collections::BTreeSet;

use crate::file::fields::{Fields, list};
use crate::file::{FileError, MAX_BYTES, short};
use crate::hex;
use crate::json::{self, Json};
use crate::target::Models;
use crate::verify::Checked;
use precompile::Refusal;
use precompile::packed::{self, gas};

/// The names of what a packed call can be refused for.
#[must_use]
pub fn errors() -> [&'static str; 7] {
    packed::REFUSALS.map(Refusal::name)
}

/// A packed call on the toy model of an implementation.
///
/// # Errors
/// The first check that fails.
pub fn call(input: &[u8], given: u64, toy: &(impl Models + ?Sized)) -> Result<Vec<u8>, Refusal> {
    packed::call(input, given, |prompt, count| {
        toy.toy_generate(prompt, count)
    })
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyCall {
    /// The call's name.
    pub name: String,
    /// The calldata.
    pub input: Vec<u8>,
    /// The gas: of an answer its price, of a failure what it gets, if not its price.
    pub gas: Option<u64>,
    /// The output, or the name of the error.
    pub expected: Result<Vec<u8>, String>,
}

/// Reads an array of calls.
///
/// # Errors
/// What [`crate::file::parse`] refuses, a member that the form does not name, a missing one.
pub fn parse(bytes: &[u8]) -> Result<Vec<LegacyCall>, FileError> {
    if bytes.len() > MAX_BYTES {
        return Err(FileError::TooLong {
            bytes: bytes.len(),
            max: MAX_BYTES,
        });
    }
    let items = list(json::parse(bytes)?, "")?;
    let mut calls: Vec<LegacyCall> = Vec::new();
    let mut names = BTreeSet::new();
    for (i, item) in items.into_iter().enumerate() {
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

fn one(i: usize, item: Json) -> Result<LegacyCall, FileError> {
    let mut f = Fields::of(item, &format!("[{i}]"))?;
    let name = f.text("Name")?;
    let input = f.bytes("Input")?;
    let gas = |f: &mut Fields| f.int("Gas", 0, i128::from(i64::MAX)).map(|v| v as u64);
    let (gas, expected) = match f.optional("ExpectedError") {
        Some(json) => {
            let error = crate::file::fields::text(json, &f.at("ExpectedError"))?;
            if !errors().contains(&error.as_str()) {
                return Err(FileError::Name {
                    at: f.at("ExpectedError"),
                    found: short(&error),
                    expected: errors().join(", "),
                });
            }
            let given = if f.has("Gas") {
                Some(gas(&mut f)?)
            } else {
                None
            };
            (given, Err(error))
        }
        None => {
            let output = f.bytes("Expected")?;
            let price = gas(&mut f)?;
            if let Some(json) = f.optional("NoBenchmark") {
                let Json::Bool(_) = json else {
                    return Err(FileError::Type {
                        at: f.at("NoBenchmark"),
                        expected: "a boolean",
                        found: json.kind(),
                    });
                };
            }
            (Some(price), Ok(output))
        }
    };
    f.end()?;
    Ok(LegacyCall {
        name,
        input,
        gas,
        expected,
    })
}

/// Checks every call of a file on an implementation; the number of calls, or the first difference.
///
/// # Errors
/// The refused file, or the first call that differs.
pub fn verify(bytes: &[u8], toy: &(impl Models + ?Sized)) -> Result<usize, String> {
    let calls = parse(bytes).map_err(|e| format!("the file is refused: {e}"))?;
    for (i, legacy) in calls.iter().enumerate() {
        check(&format!("call {i} ({})", legacy.name), legacy, toy)?;
    }
    Ok(calls.len())
}

fn check(place: &str, legacy: &LegacyCall, toy: &(impl Models + ?Sized)) -> Checked {
    let price = gas(&legacy.input);
    let given = legacy.gas.unwrap_or(price);
    if legacy.expected.is_ok() {
        if given != price {
            return Err(format!("{place}, Gas: expected {given}, found {price}"));
        }
        let less = call(&legacy.input, price - 1, toy);
        if less != Err(Refusal::OutOfGas) {
            return Err(format!("{place}: a call with less gas is not OutOfGas"));
        }
    }
    let found = call(&legacy.input, given, toy);
    crate::verify::outcome(place, &legacy.expected, found)
}

/// The calls as the array that [`parse`] reads, one a line.
#[must_use]
pub fn to_bytes(calls: &[LegacyCall]) -> Vec<u8> {
    let one = |c: &LegacyCall| {
        let mut members = vec![("Input", Json::Text(hex::encode(&c.input)))];
        match &c.expected {
            Ok(output) => members.push(("Expected", Json::Text(hex::encode(output)))),
            Err(error) => members.push(("ExpectedError", Json::text(error))),
        }
        members.push(("Name", Json::text(&c.name)));
        if let Some(gas) = c.gas {
            members.push(("Gas", Json::integer(gas.into())));
        }
        if c.expected.is_ok() {
            members.push(("NoBenchmark", Json::Bool(false)));
        }
        Json::Object(
            members
                .into_iter()
                .map(|(n, v)| (n.to_owned(), v))
                .collect(),
        )
    };
    json::file_text(&Json::List(calls.iter().map(one).collect())).into_bytes()
}
