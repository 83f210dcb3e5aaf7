//! Files of one model (spec 7.6).

use super::config::BlobRecipe;
use super::fields::{self, Fields};
use super::{FileError, Names, check_path, digest, short};
use crate::hex;
use crate::json::Json;
use crate::row::Row;

/// Largest blob of a recipe, of a file and of an edit, in bytes.
pub(crate) const MAX_BLOB: u64 = 1 << 24;
/// Longest prompt: the largest context there is, and one more.
const MAX_PROMPT: usize = 32769;
/// Most ids of a prompt and new tokens together, of one run or halt.
const MAX_TOKENS: u64 = 4096;
/// Most bytes that all cases of a file together read: the blob for each token, and each edited blob once.
const MAX_WORK: u64 = 1 << 32;
/// Names of the halts (spec 3.5).
const HALTS: [&str; 3] = ["EmptyPrompt", "ContextExceeded", "TokenOutOfRange"];
const FINISHES: [&str; 3] = ["length", "stop", "context"];

/// Where a blob comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobSource {
    /// A path below the repository's root.
    File(String),
    /// A recipe.
    Recipe(BlobRecipe),
}

/// A prompt with its digests and tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Unique among the runs of the file.
    pub name: String,
    /// The prompt's ids.
    pub prompt: Row,
    /// Most new tokens.
    pub max_new: u32,
    /// For each position of the prompt its layer digests; or empty.
    pub layers: Vec<Vec<[u8; 32]>>,
    /// The logits digest of each position of the prompt; or empty.
    pub logits: Vec<[u8; 32]>,
    /// The new tokens.
    pub tokens: Vec<u32>,
    /// `length`, `stop` or `context`.
    pub finish: String,
}

/// A refused prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaltCase {
    /// Unique among the halts of the file.
    pub name: String,
    /// The prompt's ids.
    pub prompt: Row,
    /// Most new tokens.
    pub max_new: u32,
    /// The name of spec 3.5.
    pub halt: String,
    /// For TokenOutOfRange: position and id.
    pub token: Option<(u64, u64)>,
}

/// A change of the blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Unique among the edits of the file.
    pub name: String,
    /// Offsets, and the bytes that replace those there.
    pub edit: Vec<(u64, Vec<u8>)>,
    /// The length afterwards.
    pub length: Option<u64>,
    /// The commitment of the result, when it is a blob.
    pub commitment: Option<[u8; 32]>,
}

/// `models/<name>.json`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFile {
    /// Where the blob comes from.
    pub source: BlobSource,
    /// Length of the blob in bytes.
    pub bytes: u64,
    /// Keccak-256 of the blob.
    pub keccak256: [u8; 32],
    /// Its commitment.
    pub commitment: [u8; 32],
    /// Accepted prompts.
    pub runs: Vec<Run>,
    /// Refused prompts.
    pub halts: Vec<HaltCase>,
    /// Changed blobs.
    pub edits: Vec<Edit>,
}

/// A prompt's ids: at most one more than any context holds.
pub(super) fn prompt(json: Json, at: &str, budget: &mut usize) -> Result<Row, FileError> {
    let row = Row::read(json, at, budget)?;
    let (low, high) = match &row {
        Row::List(v) => (v.iter().min().copied(), v.iter().max().copied()),
        Row::Fill { value, .. } => (Some(*value), Some(*value)),
        Row::Splitmix64 { low, high, .. } => (Some(*low), Some(*high)),
        Row::Join(_) => {
            let v = row.expand();
            (v.iter().min().copied(), v.iter().max().copied())
        }
    };
    for v in [low, high].into_iter().flatten() {
        if u32::try_from(v).is_err() {
            return Err(FileError::Range {
                at: at.into(),
                value: v.to_string(),
                low: 0,
                high: u32::MAX.into(),
            });
        }
    }
    if row.count() > MAX_PROMPT {
        return Err(FileError::Shape {
            at: at.into(),
            why: "a prompt has at most 32769 ids",
        });
    }
    Ok(row)
}

/// The ids of a prompt.
pub(crate) fn ids(row: &Row) -> Vec<u32> {
    row.expand().iter().map(|&v| v as u32).collect()
}

pub(super) fn count(fields: &mut Fields, member: &'static str) -> Result<u32, FileError> {
    fields.int(member, 0, u32::MAX.into()).map(|v| v as u32)
}

pub(super) fn tokens(fields: &mut Fields, member: &'static str) -> Result<Vec<u32>, FileError> {
    let at = fields.at(member);
    let items = fields.list(member)?;
    let one = |(i, v): (usize, &Json)| {
        fields::integer(v, || format!("{at}[{i}]"), 0, u32::MAX.into()).map(|v| v as u32)
    };
    items.iter().enumerate().map(one).collect()
}

/// `halt`, and `position` and `id` where they belong to it.
pub(super) fn halt(fields: &mut Fields) -> Result<(String, Option<(u64, u64)>), FileError> {
    let name = fields.text("halt")?;
    known(&name, fields.at("halt"), &HALTS)?;
    let token = match name.as_str() {
        "TokenOutOfRange" => Some((
            fields.int("position", 0, u32::MAX.into())? as u64,
            fields.int("id", 0, u32::MAX.into())? as u64,
        )),
        _ => None,
    };
    Ok((name, token))
}

pub(super) fn known(name: &str, at: String, names: &[&str]) -> Result<(), FileError> {
    if names.contains(&name) {
        Ok(())
    } else {
        Err(FileError::Name {
            at,
            found: short(name),
            expected: names.join(", "),
        })
    }
}

/// Ids of the prompt and new tokens of one case.
fn asked(prompt: &Row, max_new: u32, at: String) -> Result<u64, FileError> {
    let tokens = prompt.count() as u64 + u64::from(max_new);
    if tokens > MAX_TOKENS {
        return Err(FileError::Tokens { at, tokens });
    }
    Ok(tokens)
}

fn digests(json: Json, at: &str) -> Result<Vec<[u8; 32]>, FileError> {
    let items = fields::list(json, at)?;
    let one = |(i, item)| fields::digest(item, &format!("{at}[{i}]"));
    items.into_iter().enumerate().map(one).collect()
}

fn source(fields: &mut Fields) -> Result<BlobSource, FileError> {
    let mut model = fields.object("model")?;
    let source = if let Some(path) = model.optional("file") {
        let path = fields::text(path, &model.at("file"))?;
        check_path(&path, &model.at("file"))?;
        BlobSource::File(path)
    } else {
        let mut recipe = model.object("recipe")?;
        let read = BlobRecipe::read(&mut recipe)?;
        recipe.end()?;
        let bytes = crate::blob::header(&read.config).total_len;
        if bytes > MAX_BLOB {
            return Err(FileError::BlobLength {
                at: model.at("recipe"),
                bytes,
            });
        }
        BlobSource::Recipe(read)
    };
    model.end()?;
    Ok(source)
}

fn run(name: String, mut f: Fields, budget: &mut usize) -> Result<Run, FileError> {
    let prompt = prompt(f.take("prompt")?, &f.at("prompt"), budget)?;
    let at = f.at("layers");
    let layers = f
        .list("layers")?
        .into_iter()
        .enumerate()
        .map(|(i, stages)| digests(stages, &format!("{at}[{i}]")));
    let layers = layers.collect::<Result<Vec<_>, _>>()?;
    let logits = digests(f.take("logits")?, &f.at("logits"))?;
    if [layers.len(), logits.len()]
        .iter()
        .any(|n| *n != 0 && *n != prompt.count())
    {
        return Err(FileError::Shape {
            at: f.at("layers"),
            why: "layers and logits have an item for each position of the prompt, or none",
        });
    }
    let run = Run {
        name,
        prompt,
        max_new: count(&mut f, "max_new")?,
        layers,
        logits,
        tokens: tokens(&mut f, "tokens")?,
        finish: f.text("finish")?,
    };
    known(&run.finish, f.at("finish"), &FINISHES)?;
    f.end()?;
    Ok(run)
}

fn edit(name: String, mut f: Fields) -> Result<Edit, FileError> {
    let at = f.at("edit");
    let mut edit = Vec::new();
    for (i, pair) in f.list("edit")?.into_iter().enumerate() {
        let at = format!("{at}[{i}]");
        let pair: [Json; 2] =
            fields::list(pair, &at)?
                .try_into()
                .map_err(|_| FileError::Shape {
                    at: at.clone(),
                    why: "an edit is a pair of an offset and bytes",
                })?;
        let [offset, bytes] = pair;
        let offset = fields::integer(&offset, || at.clone(), 0, MAX_BLOB.into())?;
        edit.push((offset as u64, fields::bytes(bytes, &at)?));
    }
    let length = f
        .optional("length")
        .map(|json| fields::integer(&json, || f.at("length"), 0, MAX_BLOB.into()))
        .transpose()?;
    let accepted = match f.take("accepted")? {
        Json::Bool(accepted) => accepted,
        other => {
            return Err(FileError::Type {
                at: f.at("accepted"),
                expected: "a boolean",
                found: other.kind(),
            });
        }
    };
    let commitment = if accepted {
        Some(f.digest("commitment")?)
    } else {
        None
    };
    f.end()?;
    Ok(Edit {
        name,
        edit,
        length: length.map(|v| v as u64),
        commitment,
    })
}

impl ModelFile {
    pub(super) fn read(file: &mut Fields, budget: &mut usize) -> Result<Self, FileError> {
        let source = source(file)?;
        let mut blob = file.object("blob")?;
        let (bytes, keccak256) = (
            blob.int("bytes", 0, MAX_BLOB.into())? as u64,
            blob.digest("keccak256")?,
        );
        blob.end()?;
        let commitment = file.digest("commitment")?;
        let (mut runs, mut halts, mut edits) = (Vec::new(), Vec::new(), Vec::new());
        let mut names = Names::new("runs");
        for (i, item) in file.list("runs")?.into_iter().enumerate() {
            let (name, fields) = names.next(i, item)?;
            runs.push(run(name, fields, budget)?);
        }
        let mut names = Names::new("halts");
        for (i, item) in file.list("halts")?.into_iter().enumerate() {
            let (name, mut f) = names.next(i, item)?;
            let prompt = prompt(f.take("prompt")?, &f.at("prompt"), budget)?;
            let max_new = count(&mut f, "max_new")?;
            let (halt, token) = halt(&mut f)?;
            f.end()?;
            halts.push(HaltCase {
                name,
                prompt,
                max_new,
                halt,
                token,
            });
        }
        let mut names = Names::new("edits");
        for (i, item) in file.list("edits")?.into_iter().enumerate() {
            let (name, fields) = names.next(i, item)?;
            edits.push(edit(name, fields)?);
        }
        let read = Self {
            source,
            bytes,
            keccak256,
            commitment,
            runs,
            halts,
            edits,
        };
        read.check_work()?;
        Ok(read)
    }

    /// Refuses a file whose cases take too long.
    fn check_work(&self) -> Result<(), FileError> {
        let mut work = 0u64;
        let runs = self.runs.iter().map(|r| (&r.prompt, r.max_new));
        let halts = self.halts.iter().map(|h| (&h.prompt, h.max_new));
        for (list, i, (prompt, max_new)) in (runs.enumerate().map(|(i, case)| ("runs", i, case)))
            .chain(halts.enumerate().map(|(i, case)| ("halts", i, case)))
        {
            let tokens = asked(prompt, max_new, format!("{list}[{i}]"))?;
            work = work.saturating_add(tokens * self.bytes);
        }
        for edit in &self.edits {
            work = work.saturating_add(edit.length.unwrap_or(0).max(self.bytes));
        }
        if work > MAX_WORK {
            return Err(FileError::Work { bytes: work });
        }
        Ok(())
    }

    /// Blob and commitment are a case each.
    pub(crate) fn cases(&self) -> usize {
        2 + self.runs.len() + self.halts.len() + self.edits.len()
    }

    pub(super) fn members(&self) -> Vec<(&'static str, Json)> {
        let model = match &self.source {
            BlobSource::File(path) => Json::object([("file", Json::text(path))]),
            BlobSource::Recipe(recipe) => Json::object([("recipe", recipe.to_json())]),
        };
        let blob = Json::object([
            ("bytes", Json::integer(self.bytes.into())),
            ("keccak256", digest(&self.keccak256)),
        ]);
        vec![
            ("model", model),
            ("blob", blob),
            ("commitment", digest(&self.commitment)),
            (
                "runs",
                Json::List(self.runs.iter().map(Run::to_json).collect()),
            ),
            (
                "halts",
                Json::List(self.halts.iter().map(HaltCase::to_json).collect()),
            ),
            (
                "edits",
                Json::List(self.edits.iter().map(Edit::to_json).collect()),
            ),
        ]
    }
}

impl Run {
    fn to_json(&self) -> Json {
        let list = |d: &Vec<[u8; 32]>| Json::List(d.iter().map(digest).collect());
        Json::object([
            ("name", Json::text(&self.name)),
            ("prompt", self.prompt.to_json()),
            ("max_new", Json::Int(self.max_new.into())),
            ("layers", Json::List(self.layers.iter().map(list).collect())),
            ("logits", list(&self.logits)),
            ("tokens", Json::integers(self.tokens.iter().copied())),
            ("finish", Json::text(&self.finish)),
        ])
    }
}

/// The members of a refused prompt.
pub(super) fn halt_json(
    name: &str,
    prompt: &Row,
    max_new: u32,
    halt: &str,
    token: Option<(u64, u64)>,
) -> Json {
    let mut members = vec![
        ("name", Json::text(name)),
        ("prompt", prompt.to_json()),
        ("max_new", Json::Int(max_new.into())),
        ("halt", Json::text(halt)),
    ];
    if let Some((position, id)) = token {
        members.push(("position", Json::integer(position.into())));
        members.push(("id", Json::integer(id.into())));
    }
    Json::Object(
        members
            .into_iter()
            .map(|(n, v)| (n.to_owned(), v))
            .collect(),
    )
}

impl HaltCase {
    pub(super) fn to_json(&self) -> Json {
        halt_json(
            &self.name,
            &self.prompt,
            self.max_new,
            &self.halt,
            self.token,
        )
    }
}

impl Edit {
    fn to_json(&self) -> Json {
        let pair = |(offset, bytes): &(u64, Vec<u8>)| {
            Json::List(vec![
                Json::integer((*offset).into()),
                Json::Text(hex::encode(bytes)),
            ])
        };
        let mut members = vec![
            ("name", Json::text(&self.name)),
            ("edit", Json::List(self.edit.iter().map(pair).collect())),
        ];
        if let Some(length) = self.length {
            members.push(("length", Json::integer(length.into())));
        }
        members.push(("accepted", Json::Bool(self.commitment.is_some())));
        if let Some(commitment) = &self.commitment {
            members.push(("commitment", digest(commitment)));
        }
        Json::Object(
            members
                .into_iter()
                .map(|(n, v)| (n.to_owned(), v))
                .collect(),
        )
    }
}
