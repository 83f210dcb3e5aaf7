//! The states before a call, and the models at hand (spec 7.11).

use precompile::word::{Word, ZERO};

use crate::file::fields::{self, Fields};
use crate::file::{FileError, Names, check_path};
use crate::hex;
use crate::json::Json;

/// A model at hand in every state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRef {
    /// Unique among the models.
    pub name: String,
    /// The model's file, below the set's folder.
    pub file: String,
    /// The name of an edit of that file, which spec 4 refuses: the blob is the edited one.
    pub edit: Option<String>,
    /// The blob's commitment.
    pub commitment: Word,
}

/// A state of the registry before a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Unique among the states.
    pub name: String,
    /// Number of the block that is executed.
    pub block: u64,
    /// Keys and words that are not zero, ascending by key.
    pub storage: Vec<(Word, Word)>,
}

/// `precompile/states.json`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatesFile {
    /// The models at hand.
    pub models: Vec<ModelRef>,
    /// The states.
    pub states: Vec<State>,
}

/// Pairs of key and word, ascending by key.
pub(super) fn pairs(json: Json, at: &str) -> Result<Vec<(Word, Word)>, FileError> {
    let mut out: Vec<(Word, Word)> = Vec::new();
    for (i, pair) in fields::list(json, at)?.into_iter().enumerate() {
        let at = format!("{at}[{i}]");
        let shape = |why| FileError::Shape {
            at: at.clone(),
            why,
        };
        let pair = fields::list(pair, &at)?;
        let [key, word]: [Json; 2] = pair
            .try_into()
            .map_err(|_| shape("a pair of a key and a word"))?;
        let (key, word) = (fields::digest(key, &at)?, fields::digest(word, &at)?);
        if out.last().is_some_and(|(last, _)| *last >= key) {
            return Err(shape("keys ascend"));
        }
        out.push((key, word));
    }
    Ok(out)
}

pub(super) fn pairs_json(pairs: &[(Word, Word)]) -> Json {
    let text = |word: &Word| Json::Text(hex::encode(word));
    let pair = |(key, word): &(Word, Word)| Json::List(vec![text(key), text(word)]);
    Json::List(pairs.iter().map(pair).collect())
}

impl StatesFile {
    pub(crate) fn read(file: &mut Fields) -> Result<Self, FileError> {
        let mut out = Self::default();
        let mut names = Names::new("models");
        for (i, item) in file.list("models")?.into_iter().enumerate() {
            let (name, mut f) = names.next(i, item)?;
            let path = f.text("file")?;
            check_path(&path, &f.at("file"))?;
            let edit = f.optional("edit");
            let edit = edit
                .map(|json| fields::text(json, &f.at("edit")))
                .transpose()?;
            let commitment = f.digest("commitment")?;
            f.end()?;
            out.models.push(ModelRef {
                name,
                file: path,
                edit,
                commitment,
            });
        }
        let mut names = Names::new("states");
        for (i, item) in file.list("states")?.into_iter().enumerate() {
            let (name, mut f) = names.next(i, item)?;
            let block = f.int("block", 0, u64::MAX.into())? as u64;
            let storage = pairs(f.take("storage")?, &f.at("storage"))?;
            if storage.iter().any(|(_, word)| *word == ZERO) {
                return Err(FileError::Shape {
                    at: f.at("storage"),
                    why: "words of a state are not zero",
                });
            }
            f.end()?;
            out.states.push(State {
                name,
                block,
                storage,
            });
        }
        Ok(out)
    }

    pub(crate) fn cases(&self) -> usize {
        self.models.len() + self.states.len()
    }

    pub(crate) fn members(&self) -> Vec<(&'static str, Json)> {
        let model = |m: &ModelRef| {
            let mut members = vec![("name", Json::text(&m.name)), ("file", Json::text(&m.file))];
            members.extend(m.edit.as_ref().map(|edit| ("edit", Json::text(edit))));
            members.push(("commitment", Json::Text(hex::encode(&m.commitment))));
            object(members)
        };
        let state = |s: &State| {
            object(vec![
                ("name", Json::text(&s.name)),
                ("block", Json::integer(s.block.into())),
                ("storage", pairs_json(&s.storage)),
            ])
        };
        vec![
            (
                "models",
                Json::List(self.models.iter().map(model).collect()),
            ),
            (
                "states",
                Json::List(self.states.iter().map(state).collect()),
            ),
        ]
    }
}

pub(super) fn object(members: Vec<(&str, Json)>) -> Json {
    let named = |(name, value): (&str, Json)| (name.to_owned(), value);
    Json::Object(members.into_iter().map(named).collect())
}
