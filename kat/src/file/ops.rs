//! Files of one operation (spec 7.4).

use super::fields::{self, Fields};
use super::{FileError, Names, digest, short};
use crate::json::Json;
use crate::op::{Answer, Kind, Op, Value};
use crate::row::{MAX_ROW, Row};

/// `ops/<op>.json`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpFile {
    /// The operation.
    pub op: &'static Op,
    /// The cases.
    pub cases: Vec<Case>,
}

/// Inputs of an operation and its results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Unique in the file.
    pub name: String,
    /// In the order of [`Op::inputs`].
    pub input: Vec<Value>,
    /// In the order of [`Op::outputs`].
    pub out: Vec<Answer>,
}

fn value(json: Json, kind: Kind, at: &str, budget: &mut usize) -> Result<Value, FileError> {
    let wide = |v: &Json, at: String| fields::integer(v, || at.clone(), -(1 << 64), 1 << 64);
    Ok(match kind {
        Kind::Int => Value::Int(wide(&json, at.into())?),
        Kind::Row => Value::Row(Row::read(json, at, budget)?),
        Kind::Scale => Value::Scale(match json {
            Json::Null => None,
            other => {
                let pair = fields::list(other, at)?;
                let [t, e] = &pair[..] else {
                    return Err(FileError::Shape {
                        at: at.into(),
                        why: "a scale is null or two integers",
                    });
                };
                let int =
                    |v: &Json| fields::integer(v, || at.into(), i64::MIN.into(), i64::MAX.into());
                Some((int(t)? as i64, int(e)? as i64))
            }
        }),
        Kind::Digest => Value::Digest(fields::digest(json, at)?),
        Kind::Digests => Value::Digests(digests(json, at)?),
    })
}

fn digests(json: Json, at: &str) -> Result<Vec<[u8; 32]>, FileError> {
    let items = fields::list(json, at)?;
    items
        .into_iter()
        .enumerate()
        .map(|(i, item)| fields::digest(item, &format!("{at}[{i}]")))
        .collect()
}

fn answer(json: Json, kind: Kind, at: &str, budget: &mut usize) -> Result<Answer, FileError> {
    Ok(match (kind, json) {
        (Kind::Row, Json::List(items)) => {
            Answer::Row(Row::read(Json::List(items), at, budget)?.expand())
        }
        (Kind::Row, json) => {
            let mut long = Fields::of(json, at)?;
            let count = long.int("count", 1, MAX_ROW as i128)? as usize;
            let keccak256 = long.digest("keccak256")?;
            long.end()?;
            Answer::RowDigest { count, keccak256 }
        }
        (Kind::Int, json) => {
            let int = fields::integer(&json, || at.into(), i64::MIN.into(), i64::MAX.into())?;
            Answer::Int(int as i64)
        }
        (Kind::Digest, json) => Answer::Digest(fields::digest(json, at)?),
        (Kind::Digests, json) => Answer::Digests(digests(json, at)?),
        (Kind::Scale, _) => unreachable!("no result is a scale"),
    })
}

impl OpFile {
    pub(super) fn read(file: &mut Fields, budget: &mut usize) -> Result<Self, FileError> {
        let name = file.text("op")?;
        let op = Op::by_name(&name).ok_or_else(|| FileError::Name {
            at: "op".into(),
            found: short(&name),
            expected: "an operation of spec 7.4".into(),
        })?;
        let mut names = Names::new("cases");
        let mut cases = Vec::new();
        for (i, item) in file.list("cases")?.into_iter().enumerate() {
            let (name, mut case) = names.next(i, item)?;
            let mut given = case.object("in")?;
            let mut input = Vec::with_capacity(op.inputs.len());
            for (member, kind) in op.inputs {
                let json = given.take(member)?;
                input.push(value(json, *kind, &given.at(member), budget)?);
            }
            given.end()?;
            let json = case.take("out")?;
            let at = case.at("out");
            let out = match op.outputs {
                [("", kind)] => vec![answer(json, *kind, &at, budget)?],
                outputs => {
                    let mut results = Fields::of(json, &at)?;
                    let mut out = Vec::with_capacity(outputs.len());
                    for (member, kind) in outputs {
                        let json = results.take(member)?;
                        out.push(answer(json, *kind, &results.at(member), budget)?);
                    }
                    results.end()?;
                    out
                }
            };
            case.end()?;
            cases.push(Case { name, input, out });
        }
        Ok(Self { op, cases })
    }

    pub(super) fn members(&self) -> Vec<(&'static str, Json)> {
        let object = |names: &[(&str, Kind)], values: Vec<Json>| {
            Json::Object(
                names
                    .iter()
                    .zip(values)
                    .map(|((name, _), v)| ((*name).to_owned(), v))
                    .collect(),
            )
        };
        let case = |case: &Case| {
            let out: Vec<Json> = case.out.iter().map(Answer::to_json).collect();
            let out = match (self.op.outputs, &out[..]) {
                ([("", _)], [one]) => one.clone(),
                (outputs, _) => object(outputs, out),
            };
            let input = case.input.iter().map(Value::to_json).collect();
            Json::object([
                ("name", Json::text(&case.name)),
                ("in", object(self.op.inputs, input)),
                ("out", out),
            ])
        };
        vec![
            ("op", Json::text(self.op.name)),
            ("cases", Json::List(self.cases.iter().map(case).collect())),
        ]
    }
}

impl Value {
    fn to_json(&self) -> Json {
        match self {
            Self::Int(v) => Json::integer(*v),
            Self::Row(row) => row.to_json(),
            Self::Scale(None) => Json::Null,
            Self::Scale(Some((t, e))) => Json::integers([*t, *e]),
            Self::Digest(d) => digest(d),
            Self::Digests(list) => Json::List(list.iter().map(digest).collect()),
        }
    }
}

impl Answer {
    fn to_json(&self) -> Json {
        match self {
            Self::Int(v) => Json::integer((*v).into()),
            Self::Row(values) => Json::integers(values.iter().copied()),
            Self::RowDigest { count, keccak256 } => Json::object([
                ("count", Json::Int(*count as i64)),
                ("keccak256", digest(keccak256)),
            ]),
            Self::Digest(d) => digest(d),
            Self::Digests(list) => Json::List(list.iter().map(digest).collect()),
        }
    }
}
