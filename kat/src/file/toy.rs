//! The file of the toy model (spec 7.7).

use super::fields::{self, Fields};
use super::models::{HaltCase, count, halt, known, prompt, tokens};
use super::{FileError, Names};
use crate::hex;
use crate::json::Json;
use crate::legacy::errors;
use crate::row::Row;

/// Logits after a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToyLogits {
    /// Unique in the list.
    pub name: String,
    /// The ids.
    pub prompt: Row,
    /// One for each id.
    pub logits: Vec<i64>,
}

/// New tokens after a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToyTokens {
    /// Unique in the list.
    pub name: String,
    /// The ids.
    pub prompt: Row,
    /// How many new tokens.
    pub max_new: u32,
    /// The new tokens.
    pub tokens: Vec<u32>,
}

/// A packed call (spec 7.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Unique in the list.
    pub name: String,
    /// The calldata.
    pub input: Vec<u8>,
    /// Its price.
    pub gas: u64,
    /// The output, or the name of an error.
    pub result: Result<Vec<u8>, String>,
}

/// `toy.json`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToyFile {
    /// Logits.
    pub logits: Vec<ToyLogits>,
    /// Tokens.
    pub tokens: Vec<ToyTokens>,
    /// Refused prompts.
    pub halts: Vec<HaltCase>,
    /// Packed calls.
    pub calls: Vec<Call>,
}

impl ToyFile {
    pub(super) fn read(file: &mut Fields, budget: &mut usize) -> Result<Self, FileError> {
        let mut toy = Self::default();
        let mut names = Names::new("logits");
        for (i, item) in file.list("logits")?.into_iter().enumerate() {
            let (name, mut f) = names.next(i, item)?;
            let prompt = prompt(f.take("prompt")?, &f.at("prompt"), budget)?;
            let at = f.at("logits");
            let values = f.list("logits")?;
            let one = |(i, v): (usize, &Json)| {
                fields::integer(v, || format!("{at}[{i}]"), -128, 127).map(|v| v as i64)
            };
            let logits = values
                .iter()
                .enumerate()
                .map(one)
                .collect::<Result<_, _>>()?;
            f.end()?;
            toy.logits.push(ToyLogits {
                name,
                prompt,
                logits,
            });
        }
        let mut names = Names::new("tokens");
        for (i, item) in file.list("tokens")?.into_iter().enumerate() {
            let (name, mut f) = names.next(i, item)?;
            let prompt = prompt(f.take("prompt")?, &f.at("prompt"), budget)?;
            let max_new = count(&mut f, "max_new")?;
            let tokens = tokens(&mut f, "tokens")?;
            f.end()?;
            toy.tokens.push(ToyTokens {
                name,
                prompt,
                max_new,
                tokens,
            });
        }
        let mut names = Names::new("halts");
        for (i, item) in file.list("halts")?.into_iter().enumerate() {
            let (name, mut f) = names.next(i, item)?;
            let prompt = prompt(f.take("prompt")?, &f.at("prompt"), budget)?;
            let max_new = count(&mut f, "max_new")?;
            let (halt, token) = halt(&mut f)?;
            f.end()?;
            toy.halts.push(HaltCase {
                name,
                prompt,
                max_new,
                halt,
                token,
            });
        }
        let mut names = Names::new("calls");
        for (i, item) in file.list("calls")?.into_iter().enumerate() {
            let (name, mut f) = names.next(i, item)?;
            let input = f.bytes("input")?;
            let gas = f.int("gas", 0, i128::from(i64::MAX))? as u64;
            let result = match f.optional("error") {
                Some(json) => {
                    let error = fields::text(json, &f.at("error"))?;
                    known(&error, f.at("error"), &errors())?;
                    Err(error)
                }
                None => Ok(f.bytes("output")?),
            };
            f.end()?;
            toy.calls.push(Call {
                name,
                input,
                gas,
                result,
            });
        }
        Ok(toy)
    }

    pub(crate) fn cases(&self) -> usize {
        self.logits.len() + self.tokens.len() + self.halts.len() + self.calls.len()
    }

    pub(super) fn members(&self) -> Vec<(&'static str, Json)> {
        let logits = |l: &ToyLogits| {
            Json::object([
                ("name", Json::text(&l.name)),
                ("prompt", l.prompt.to_json()),
                ("logits", Json::integers(l.logits.iter().copied())),
            ])
        };
        let tokens = |t: &ToyTokens| {
            Json::object([
                ("name", Json::text(&t.name)),
                ("prompt", t.prompt.to_json()),
                ("max_new", Json::Int(t.max_new.into())),
                ("tokens", Json::integers(t.tokens.iter().copied())),
            ])
        };
        let call = |c: &Call| {
            let result = match &c.result {
                Ok(output) => ("output", Json::Text(hex::encode(output))),
                Err(error) => ("error", Json::text(error)),
            };
            Json::object([
                ("name", Json::text(&c.name)),
                ("input", Json::Text(hex::encode(&c.input))),
                ("gas", Json::integer(c.gas.into())),
                result,
            ])
        };
        vec![
            (
                "logits",
                Json::List(self.logits.iter().map(logits).collect()),
            ),
            (
                "tokens",
                Json::List(self.tokens.iter().map(tokens).collect()),
            ),
            (
                "halts",
                Json::List(self.halts.iter().map(HaltCase::to_json).collect()),
            ),
            ("calls", Json::List(self.calls.iter().map(call).collect())),
        ]
    }
}
