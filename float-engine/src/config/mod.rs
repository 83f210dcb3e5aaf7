//! The architecture of a model, validated: one struct for every supported family.

mod gguf;
mod hf;

pub use hf::ConfigLayout;

/// Largest value accepted for any dimension (hidden, vocab, ...): 2^24.
///
/// With it a product of two dimensions fits in 48 bits.
pub const MAX_DIM: usize = 1 << 24;
/// Largest number of layers accepted.
pub const MAX_LAYERS: usize = 4096;
/// Largest `max_context` accepted: 2^30 positions.
pub const MAX_CONTEXT: usize = 1 << 30;

/// A model family. It decides only how files are read; the forward pass is driven by the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Qwen3, dense: RMS norm of each q and k head before rope.
    Qwen3,
    /// Llama without biases and without rope scaling (also SmolLM2).
    Llama,
}

impl Family {
    /// The name in `model_type` of `config.json` and in `general.architecture` of a GGUF file.
    pub fn name(self) -> &'static str {
        match self {
            Family::Qwen3 => "qwen3",
            Family::Llama => "llama",
        }
    }

    /// The family called `name`, or `None`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "qwen3" => Some(Family::Qwen3),
            "llama" => Some(Family::Llama),
            _ => None,
        }
    }
}

/// The validated architecture of a decoder.
///
/// A value built by this crate's readers satisfies [`ModelConfig::validate`].
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Number of decoder layers.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`. Query head `h` reads head `h / (heads / kv_heads)`.
    pub kv_heads: usize,
    /// Width of a head; even. `heads * head_dim` need not be `hidden`.
    pub head_dim: usize,
    /// Width of the gated MLP.
    pub intermediate: usize,
    /// Rows of the embedding, at least the tokenizer's size.
    pub vocab: usize,
    /// Most positions that the model was made for.
    pub max_context: usize,
    /// Base of the rotary embedding: pair `i` turns by `pos * rope_theta^(-2i/head_dim)`.
    pub rope_theta: f64,
    /// Constant added to the mean square in RMS norm.
    pub rms_eps: f64,
    /// Whether q and k heads are normalised before rope (Qwen3).
    pub qk_norm: bool,
    /// Whether the output head is the embedding matrix.
    pub tied: bool,
    /// Ids that end generation, without repeats, in the order found; all below `vocab`.
    pub eos_ids: Vec<u32>,
    /// The family that the checkpoint names.
    pub family: Family,
}

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Text that is not JSON, or JSON that is not an object.
    #[error("{file} is not a JSON object: {detail}")]
    Json {
        /// The file's name.
        file: &'static str,
        /// What the parser said.
        detail: String,
    },
    /// A key that must be there is absent or null.
    #[error("the configuration has no `{key}`")]
    Missing {
        /// The key.
        key: String,
    },
    /// A key has a value of the wrong type or out of range.
    #[error("`{key}` is {found}; expected {expected}")]
    Invalid {
        /// The key.
        key: String,
        /// The value found, shortened.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// Two keys that say the same thing disagree.
    #[error("`{a}` and `{b}` disagree")]
    Conflict {
        /// One key.
        a: String,
        /// The other.
        b: String,
    },
    /// A model family that is not implemented.
    #[error("model type `{found}` is not supported; supported: qwen3, llama")]
    UnsupportedFamily {
        /// The name found.
        found: String,
    },
    /// A feature that is not implemented and changes the results.
    #[error("`{key}` is {found}, which is not supported; supported: {supported}")]
    Unsupported {
        /// The key.
        key: String,
        /// The value found, shortened.
        found: String,
        /// The supported values.
        supported: &'static str,
    },
    /// Query heads that cannot be shared out over the key heads.
    #[error("{heads} query heads are not a multiple of {kv_heads} key/value heads")]
    HeadsNotMultiple {
        /// Query heads.
        heads: usize,
        /// Key/value heads.
        kv_heads: usize,
    },
}

impl ModelConfig {
    /// Checks every range and relation documented on the fields.
    ///
    /// # Errors
    /// The first defect found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let dims = [
            ("hidden", self.hidden, MAX_DIM),
            ("layers", self.layers, MAX_LAYERS),
            ("heads", self.heads, MAX_DIM),
            ("kv_heads", self.kv_heads, MAX_DIM),
            ("head_dim", self.head_dim, MAX_DIM),
            (
                "heads * head_dim",
                self.heads.saturating_mul(self.head_dim),
                MAX_DIM,
            ),
            ("intermediate", self.intermediate, MAX_DIM),
            ("vocab", self.vocab, MAX_DIM),
            ("max_context", self.max_context, MAX_CONTEXT),
        ];
        for (key, value, max) in dims {
            if value == 0 || value > max {
                return Err(invalid(key, value, format!("1 to {max}")));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(ConfigError::HeadsNotMultiple {
                heads: self.heads,
                kv_heads: self.kv_heads,
            });
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(invalid("head_dim", self.head_dim, "an even number"));
        }
        if !(self.rope_theta.is_finite() && self.rope_theta > 1.0) {
            return Err(invalid(
                "rope_theta",
                self.rope_theta,
                "a finite number above 1",
            ));
        }
        if !(self.rms_eps > 0.0 && self.rms_eps < 1.0) {
            return Err(invalid(
                "rms_norm_eps",
                self.rms_eps,
                "a number between 0 and 1",
            ));
        }
        for (i, &id) in self.eos_ids.iter().enumerate() {
            if id as usize >= self.vocab {
                return Err(invalid(
                    "eos_token_id",
                    id,
                    format!("an id below {}", self.vocab),
                ));
            }
            if self.eos_ids[..i].contains(&id) {
                return Err(invalid("eos_token_id", id, "ids without repeats"));
            }
        }
        Ok(())
    }

    /// Width of all query heads: `heads * head_dim`.
    pub fn q_dim(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all key (or value) heads: `kv_heads * head_dim`.
    pub fn kv_dim(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Number of weights, the tied head counted once.
    pub fn parameters(&self) -> u64 {
        let [h, q, kv, m] =
            [self.hidden, self.q_dim(), self.kv_dim(), self.intermediate].map(|x| x as u64);
        let norms = 2 * h
            + if self.qk_norm {
                2 * self.head_dim as u64
            } else {
                0
            };
        let layer = 2 * h * q + 2 * h * kv + 3 * h * m + norms;
        let tables = if self.tied { 1 } else { 2 } * self.vocab as u64 * h;
        self.layers as u64 * layer + tables + h
    }
}

fn invalid(key: &str, found: impl std::fmt::Display, expected: impl Into<String>) -> ConfigError {
    let mut found = found.to_string();
    if found.len() > 80 {
        let cut = (0..=80)
            .rev()
            .find(|&i| found.is_char_boundary(i))
            .unwrap_or(0);
        found.truncate(cut);
        found.push('…');
    }
    ConfigError::Invalid {
        key: key.to_owned(),
        found,
        expected: expected.into(),
    }
}
