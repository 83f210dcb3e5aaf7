//! The architecture from GGUF metadata (`llama`, `qwen3`).

use super::{ConfigError, Family, MAX_CONTEXT, MAX_DIM, MAX_LAYERS, ModelConfig, invalid};
use quant_core::gguf::{GgufFile, Value};

impl ModelConfig {
    /// Reads the metadata of a GGUF file; the vocabulary is the number of rows of `token_embd.weight`, and the
    /// head is tied when the file has no `output.weight`.
    ///
    /// f32 metadata are read as the shortest decimal that gives them, so that an epsilon of 1e-5 equals the one
    /// of a `config.json`.
    ///
    /// # Errors
    /// Any key missing, malformed, or asking for something that is not implemented.
    pub fn from_gguf(file: &GgufFile<'_>) -> Result<Self, ConfigError> {
        let name = match file.get("general.architecture") {
            None => {
                return Err(ConfigError::Missing {
                    key: "general.architecture".into(),
                });
            }
            Some(v) => v
                .as_str()
                .ok_or_else(|| invalid("general.architecture", v.type_name(), "a string"))?,
        };
        let family = Family::from_name(name).ok_or_else(|| ConfigError::UnsupportedFamily {
            found: name.chars().take(80).collect(),
        })?;
        let m = Metadata { file, family };

        m.refuse_unsupported()?;
        let hidden = m.dim("embedding_length", MAX_DIM)?;
        let heads = m.dim("attention.head_count", MAX_DIM)?;
        let head_dim = match m.optional_dim("attention.key_length", MAX_DIM)? {
            Some(n) => n,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                let expected = format!("a multiple of {heads} heads, or `attention.key_length`");
                return Err(invalid(&m.key("embedding_length"), hidden, expected));
            }
        };
        for key in ["attention.value_length", "rope.dimension_count"] {
            if let Some(n) = m.optional_dim(key, MAX_DIM)?.filter(|&n| n != head_dim) {
                return Err(invalid(
                    &m.key(key),
                    n,
                    format!("the head width {head_dim}"),
                ));
            }
        }
        let embed = file
            .tensor("token_embd.weight")
            .and_then(|t| t.shape.first());
        let vocab = embed.ok_or_else(|| ConfigError::Missing {
            key: "token_embd.weight".into(),
        })?;
        let mut eos_ids = Vec::new();
        for key in ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"] {
            if let Some(v) = file.get(key) {
                let id = v.as_u64().and_then(|n| u32::try_from(n).ok());
                let id = id.ok_or_else(|| invalid(key, v.type_name(), "a token id"))?;
                if !eos_ids.contains(&id) {
                    eos_ids.push(id);
                }
            }
        }
        let config = ModelConfig {
            hidden,
            layers: m.dim("block_count", MAX_LAYERS)?,
            heads,
            kv_heads: m
                .optional_dim("attention.head_count_kv", MAX_DIM)?
                .unwrap_or(heads),
            head_dim,
            intermediate: m.dim("feed_forward_length", MAX_DIM)?,
            vocab: usize::try_from(*vocab).unwrap_or(usize::MAX),
            max_context: m.dim("context_length", MAX_CONTEXT)?,
            rope_theta: m.number("rope.freq_base")?,
            rms_eps: m.number("attention.layer_norm_rms_epsilon")?,
            qk_norm: family == Family::Qwen3,
            tied: file.tensor("output.weight").is_none(),
            eos_ids,
            family,
        };
        config.validate()?;
        Ok(config)
    }
}

struct Metadata<'a> {
    file: &'a GgufFile<'a>,
    family: Family,
}

impl Metadata<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.family.name())
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.file.get(&self.key(key))
    }

    fn optional_dim(&self, key: &str, max: usize) -> Result<Option<usize>, ConfigError> {
        let Some(v) = self.get(key) else {
            return Ok(None);
        };
        match v.as_u64() {
            Some(n) if n >= 1 && n <= max as u64 => Ok(Some(n as usize)),
            n => {
                let found = n.map_or(v.type_name().to_owned(), |n| n.to_string());
                Err(invalid(
                    &self.key(key),
                    found,
                    format!("a whole number from 1 to {max}"),
                ))
            }
        }
    }

    fn dim(&self, key: &str, max: usize) -> Result<usize, ConfigError> {
        self.optional_dim(key, max)?
            .ok_or_else(|| ConfigError::Missing { key: self.key(key) })
    }

    fn number(&self, key: &str) -> Result<f64, ConfigError> {
        match self.get(key) {
            None => Err(ConfigError::Missing { key: self.key(key) }),
            Some(Value::F32(x)) => Ok(x.to_string().parse().unwrap_or_else(|_| f64::from(*x))),
            Some(v) => v
                .as_f64()
                .ok_or_else(|| invalid(&self.key(key), v.type_name(), "a float")),
        }
    }

    fn refuse_unsupported(&self) -> Result<(), ConfigError> {
        let refuse = |key: &str, found: String, supported| {
            Err(ConfigError::Unsupported {
                key: self.key(key),
                found,
                supported,
            })
        };
        match self.get("rope.scaling.type") {
            None => {}
            Some(v) if v.as_str() == Some("none") => {}
            Some(v) => {
                return refuse(
                    "rope.scaling.type",
                    v.as_str()
                        .unwrap_or("not a string")
                        .chars()
                        .take(80)
                        .collect(),
                    "none",
                );
            }
        }
        for key in ["rope.scale_linear", "rope.scaling.factor"] {
            if let Some(v) = self.get(key).filter(|v| v.as_f64() != Some(1.0)) {
                return refuse(
                    key,
                    v.as_f64().map_or("not a float".into(), |x| x.to_string()),
                    "1, or absent",
                );
            }
        }
        for key in ["attention.sliding_window", "expert_count"] {
            if let Some(v) = self.get(key).filter(|v| v.as_u64() != Some(0)) {
                return refuse(
                    key,
                    v.as_u64()
                        .map_or("not a whole number".into(), |x| x.to_string()),
                    "0, or absent",
                );
            }
        }
        Ok(())
    }
}
