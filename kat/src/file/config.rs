//! The recipe of a blob (spec 7.5), as a file holds it.

use int_engine::config::{Config, Dims};

use super::FileError;
use super::fields::{self, Fields};
use super::short;
use crate::json::Json;

pub use int_engine::config::Scheme;

/// How the contents of a recipe blob are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Activations neither vanish nor saturate.
    Plausible,
    /// Constants at the ends of their ranges among plausible ones.
    Extreme,
    /// Weights and gains zero.
    Zero,
}

impl Style {
    const ALL: [(&'static str, Self); 3] = [
        ("plausible", Self::Plausible),
        ("extreme", Self::Extreme),
        ("zero", Self::Zero),
    ];

    /// The name in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, style)| *style == self)
            .map_or("", |(name, _)| name)
    }
}

/// What a recipe blob is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobRecipe {
    /// The configuration.
    pub config: Config,
    /// How its contents are drawn.
    pub style: Style,
    /// The seed of the streams.
    pub seed: u64,
}

fn name_of<T: Copy>(text: &str, at: String, known: &[(&'static str, T)]) -> Result<T, FileError> {
    let found = known.iter().find(|(name, _)| *name == text);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| FileError::Name {
            at,
            found: short(text),
            expected: known.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", "),
        })
}

const SCHEMES: [(&str, Scheme); 2] = [("dynamic", Scheme::Dynamic), ("static", Scheme::Static)];

impl BlobRecipe {
    pub(super) fn read(recipe: &mut Fields) -> Result<Self, FileError> {
        let mut c = recipe.object("config")?;
        let scheme = c.text("scheme")?;
        let scheme = name_of(&scheme, c.at("scheme"), &SCHEMES)?;
        let mut dim = |name| c.int(name, 0, u32::MAX.into()).map(|v| v as u32);
        let mut dims = Dims {
            scheme,
            hidden: dim("hidden")?,
            layers: dim("layers")?,
            heads: dim("heads")?,
            kv_heads: dim("kv_heads")?,
            head_dim: dim("head_dim")?,
            intermediate: dim("intermediate")?,
            vocab: dim("vocab")?,
            accepted_ids: dim("accepted_ids")?,
            max_context: dim("max_context")?,
            qk_norm: false,
            tied: false,
            eps: 0,
            stop_ids: Vec::new(),
        };
        dims.qk_norm = c.int("qk_norm", 0, 1)? == 1;
        dims.tied = c.int("tied", 0, 1)? == 1;
        dims.eps = c.int("eps", 0, u64::MAX.into())? as u64;
        let at = c.at("stop_ids");
        for (i, id) in c.list("stop_ids")?.iter().enumerate() {
            let id = fields::integer(id, || format!("{at}[{i}]"), 0, u32::MAX.into())?;
            dims.stop_ids.push(id as u32);
        }
        let config = Config::new(dims).map_err(|e| FileError::Config {
            at: recipe.at("config"),
            why: e.to_string(),
        })?;
        c.end()?;
        let style = recipe.text("style")?;
        let style = name_of(&style, recipe.at("style"), &Style::ALL)?;
        let seed = recipe.int("seed", 0, u64::MAX.into())? as u64;
        Ok(Self {
            config,
            style,
            seed,
        })
    }

    pub(super) fn to_json(&self) -> Json {
        let d = self.config.dims();
        let scheme = SCHEMES.iter().find(|(_, s)| *s == d.scheme);
        let int = |v: u32| Json::Int(v.into());
        let config = Json::object([
            ("scheme", Json::text(scheme.map_or("", |(name, _)| name))),
            ("hidden", int(d.hidden)),
            ("layers", int(d.layers)),
            ("heads", int(d.heads)),
            ("kv_heads", int(d.kv_heads)),
            ("head_dim", int(d.head_dim)),
            ("intermediate", int(d.intermediate)),
            ("vocab", int(d.vocab)),
            ("accepted_ids", int(d.accepted_ids)),
            ("max_context", int(d.max_context)),
            ("qk_norm", Json::Int(d.qk_norm.into())),
            ("tied", Json::Int(d.tied.into())),
            ("eps", Json::integer(d.eps.into())),
            ("stop_ids", Json::integers(d.stop_ids.iter().copied())),
        ]);
        Json::object([
            ("config", config),
            ("style", Json::text(self.style.name())),
            ("seed", Json::integer(self.seed.into())),
        ])
    }
}
