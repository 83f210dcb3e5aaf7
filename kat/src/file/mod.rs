//! The files of spec 7: [`parse`] reads any of them, [`File::to_json`] writes them.

mod config;
mod error;
pub(crate) mod fields;
mod models;
mod ops;
mod toy;

pub use config::{BlobRecipe, Scheme, Style};
pub use error::FileError;
pub(crate) use error::short;
pub use models::{BlobSource, Edit, HaltCase, ModelFile, Run};
pub(crate) use models::{MAX_BLOB, ids};
pub use ops::{Case, OpFile};
pub use toy::{Call, ToyFile, ToyLogits, ToyTokens};

use std::collections::BTreeSet;

use crate::hex;
use crate::json::{self, Json};
use crate::precompiles::StatesFile;
use crate::row::MAX_ROWS;
use fields::Fields;

/// Longest file that is read.
pub const MAX_BYTES: usize = 4 << 20;
const SCHEMA: &str = "blue-kat-1";
const SPEC_VERSION: i64 = 1;

/// A file of known answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// `index.json`
    Index(Vec<Listed>),
    /// `ops/<op>.json`
    Op(OpFile),
    /// `models/<name>.json`
    Model(Box<ModelFile>),
    /// `toy.json`
    Toy(ToyFile),
    /// `precompile/states.json`
    States(StatesFile),
}

/// A file of a set, as `index.json` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Path below the set's folder.
    pub file: String,
    /// One of [`LEVELS`].
    pub level: String,
    /// Number of cases.
    pub cases: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Keccak-256 of its bytes.
    pub keccak256: [u8; 32],
}

/// Levels of files that an index lists.
pub const LEVELS: [&str; 5] = ["op", "model", "toy", "legacy", "precompile"];

/// Reads a file of known answers: everything but the domains of operations, which [`crate::verify`] checks.
///
/// Takes memory in proportion to the bytes given, whatever counts they declare.
///
/// # Errors
/// What spec 7.1 tells a reader to refuse.
pub fn parse(bytes: &[u8]) -> Result<File, FileError> {
    if bytes.len() > MAX_BYTES {
        return Err(FileError::TooLong {
            bytes: bytes.len(),
            max: MAX_BYTES,
        });
    }
    let mut file = Fields::of(json::parse(bytes)?, "")?;
    let schema = file.text("schema")?;
    if schema != SCHEMA {
        return Err(FileError::Name {
            at: "schema".into(),
            found: short(&schema),
            expected: format!("{SCHEMA:?}"),
        });
    }
    file.int("spec_version", SPEC_VERSION.into(), SPEC_VERSION.into())?;
    let level = file.text("level")?;
    let mut budget = MAX_ROWS;
    let body = match level.as_str() {
        "index" => File::Index(index(&mut file)?),
        "op" => File::Op(OpFile::read(&mut file, &mut budget)?),
        "model" => File::Model(Box::new(ModelFile::read(&mut file, &mut budget)?)),
        "toy" => File::Toy(ToyFile::read(&mut file, &mut budget)?),
        "precompile" => File::States(StatesFile::read(&mut file)?),
        _ => {
            return Err(FileError::Name {
                at: "level".into(),
                found: short(&level),
                expected: "index, op, model, toy or precompile".into(),
            });
        }
    };
    file.end()?;
    Ok(body)
}

fn index(file: &mut Fields) -> Result<Vec<Listed>, FileError> {
    let mut listed: Vec<Listed> = Vec::new();
    for (i, entry) in file.list("files")?.into_iter().enumerate() {
        let mut entry = Fields::of(entry, &format!("files[{i}]"))?;
        let path = entry.text("file")?;
        check_path(&path, &entry.at("file"))?;
        if listed.last().is_some_and(|last| last.file >= path) {
            return Err(FileError::Shape {
                at: entry.at("file"),
                why: "files ascend",
            });
        }
        let level = entry.text("level")?;
        if !LEVELS.contains(&level.as_str()) {
            return Err(FileError::Name {
                at: entry.at("level"),
                found: short(&level),
                expected: LEVELS.join(", "),
            });
        }
        listed.push(Listed {
            file: path,
            level,
            cases: entry.int("cases", 0, i128::from(u32::MAX))? as u64,
            bytes: entry.int("bytes", 0, MAX_BYTES as i128)? as u64,
            keccak256: entry.digest("keccak256")?,
        });
        entry.end()?;
    }
    Ok(listed)
}

/// A relative path of plain names.
pub(crate) fn check_path(path: &str, at: &str) -> Result<(), FileError> {
    let plain = |name: &str| {
        !name.is_empty()
            && name != "."
            && name != ".."
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    if path.len() <= 200 && path.split('/').all(plain) {
        Ok(())
    } else {
        Err(FileError::Path {
            at: at.into(),
            path: short(path),
        })
    }
}

/// Names of the items of one list.
pub(crate) struct Names<'a> {
    at: &'a str,
    seen: BTreeSet<String>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(at: &'a str) -> Self {
        Self {
            at,
            seen: BTreeSet::new(),
        }
    }

    /// The next item's members, with its name taken and checked.
    pub(crate) fn next(&mut self, i: usize, item: Json) -> Result<(String, Fields), FileError> {
        let mut item = Fields::of(item, &format!("{}[{i}]", self.at))?;
        let name = item.text("name")?;
        item.rename(format!("{} {:?}", self.at, short(&name)));
        if !self.seen.insert(name.clone()) {
            return Err(FileError::Repeated {
                at: self.at.into(),
                name: short(&name),
            });
        }
        Ok((name, item))
    }
}

/// The members of every file, and those of its level.
fn with_head(level: &str, members: Vec<(&str, Json)>) -> Json {
    let head = [
        ("schema", Json::text(SCHEMA)),
        ("spec_version", Json::Int(SPEC_VERSION)),
        ("level", Json::text(level)),
    ];
    Json::Object(
        head.into_iter()
            .chain(members)
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

fn digest(d: &[u8; 32]) -> Json {
    Json::Text(hex::encode(d))
}

impl File {
    /// The level.
    #[must_use]
    pub fn level(&self) -> &'static str {
        match self {
            Self::Index(_) => "index",
            Self::Op(_) => "op",
            Self::Model(_) => "model",
            Self::Toy(_) => "toy",
            Self::States(_) => "precompile",
        }
    }

    /// What the file is about: the operation, or nothing more than its level.
    #[must_use]
    pub fn subject(&self) -> &str {
        match self {
            Self::Op(file) => file.op.name,
            _ => "",
        }
    }

    /// Number of cases.
    #[must_use]
    pub fn cases(&self) -> usize {
        match self {
            Self::Index(files) => files.len(),
            Self::Op(file) => file.cases.len(),
            Self::Model(file) => file.cases(),
            Self::Toy(file) => file.cases(),
            Self::States(file) => file.cases(),
        }
    }

    /// The file as JSON.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Self::Index(files) => {
                let entry = |f: &Listed| {
                    Json::object([
                        ("file", Json::text(&f.file)),
                        ("level", Json::text(&f.level)),
                        ("cases", Json::Int(f.cases as i64)),
                        ("bytes", Json::Int(f.bytes as i64)),
                        ("keccak256", digest(&f.keccak256)),
                    ])
                };
                let files = files.iter().map(entry).collect();
                with_head("index", vec![("files", Json::List(files))])
            }
            Self::Op(file) => with_head("op", file.members()),
            Self::Model(file) => with_head("model", file.members()),
            Self::Toy(file) => with_head("toy", file.members()),
            Self::States(file) => with_head("precompile", file.members()),
        }
    }

    /// The bytes of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        json::file_text(&self.to_json()).into_bytes()
    }
}
