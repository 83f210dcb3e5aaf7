//! `config.json` and `generation_config.json` of a Hugging Face folder.
//!
//! Two layouts are read: transformers 5 (`rope_parameters`, `dtype`) and transformers 4
//! (`rope_theta`, `rope_scaling`, `torch_dtype`).

use super::{ConfigError, Family, MAX_CONTEXT, MAX_DIM, ModelConfig, invalid};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Which release of transformers a written `config.json` imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigLayout {
    /// `rope_theta` and `rope_scaling` at the top level; the layout of most published checkpoints.
    V4,
    /// `rope_parameters: {rope_theta, rope_type}`.
    V5,
}

impl ModelConfig {
    /// Reads `config.json`, and `generation_config.json` when present, from `folder`.
    ///
    /// # Errors
    /// An unreadable file, or whatever [`ModelConfig::from_hf_json`] refuses.
    pub fn from_hf_folder(folder: &Path) -> Result<Self, ConfigError> {
        let read = |name: &str| {
            let path = folder.join(name);
            crate::files::read_capped(&path, crate::files::MAX_CONFIG)
                .map_err(|source| ConfigError::Io { path, source })
        };
        let config = read("config.json")?;
        let generation = match read("generation_config.json") {
            Ok(bytes) => Some(bytes),
            Err(ConfigError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                None
            }
            Err(e) => return Err(e),
        };
        Self::from_hf_json(&config, generation.as_deref())
    }

    /// Reads the text of `config.json` and, if given, of `generation_config.json`,
    /// whose `eos_token_id` is merged after the one of `config.json`.
    ///
    /// # Errors
    /// Any key missing, malformed, contradictory, or asking for something that is not implemented.
    pub fn from_hf_json(config: &[u8], generation: Option<&[u8]>) -> Result<Self, ConfigError> {
        let c = Object(parse("config.json", config)?);
        let name = c
            .string("model_type")?
            .ok_or_else(|| missing("model_type"))?;
        let family = Family::from_name(name).ok_or_else(|| ConfigError::UnsupportedFamily {
            found: name.chars().take(80).collect(),
        })?;

        refuse_unsupported(&c, family)?;
        let heads = c.dim("num_attention_heads", MAX_DIM)?;
        let hidden = c.dim("hidden_size", MAX_DIM)?;
        let kv_heads = match c.optional_dim("num_key_value_heads", MAX_DIM)? {
            Some(n) => n,
            // Llama's definition: no grouping. Qwen3's default is a number of its own, so it must be written.
            None if family == Family::Llama => heads,
            None => return Err(missing("num_key_value_heads")),
        };
        let head_dim = match c.optional_dim("head_dim", MAX_DIM)? {
            Some(n) => n,
            None if hidden % heads == 0 => hidden / heads,
            None => {
                return Err(invalid(
                    "hidden_size",
                    hidden,
                    format!("a multiple of {heads} heads, or a `head_dim`"),
                ));
            }
        };
        let mut eos_ids = Vec::new();
        c.eos_ids(&mut eos_ids)?;
        if let Some(text) = generation {
            Object(parse("generation_config.json", text)?).eos_ids(&mut eos_ids)?;
        }
        let config = ModelConfig {
            hidden,
            layers: c.dim("num_hidden_layers", super::MAX_LAYERS)?,
            heads,
            kv_heads,
            head_dim,
            intermediate: c.dim("intermediate_size", MAX_DIM)?,
            vocab: c.dim("vocab_size", MAX_DIM)?,
            max_context: c.dim("max_position_embeddings", MAX_CONTEXT)?,
            rope_theta: rope_theta(&c)?,
            rms_eps: c
                .number("rms_norm_eps")?
                .ok_or_else(|| missing("rms_norm_eps"))?,
            qk_norm: family == Family::Qwen3,
            tied: c
                .boolean("tie_word_embeddings")?
                .ok_or_else(|| missing("tie_word_embeddings"))?,
            eos_ids,
            family,
        };
        config.validate()?;
        Ok(config)
    }

    /// Writes this architecture as the text of a `config.json`; reading it back gives an equal value.
    ///
    /// `dtype` is the name of the weights' type, such as `float32`.
    pub fn to_hf_json(&self, layout: ConfigLayout, dtype: &str) -> String {
        let architecture = match self.family {
            Family::Qwen3 => "Qwen3ForCausalLM",
            Family::Llama => "LlamaForCausalLM",
        };
        let eos = match self.eos_ids[..] {
            [] => Value::Null,
            [id] => json!(id),
            _ => json!(self.eos_ids),
        };
        let mut v = json!({
            "architectures": [architecture],
            "attention_bias": false,
            "eos_token_id": eos,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "max_position_embeddings": self.max_context,
            "model_type": self.family.name(),
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "rms_norm_eps": self.rms_eps,
            "tie_word_embeddings": self.tied,
            "vocab_size": self.vocab,
        });
        match layout {
            ConfigLayout::V4 => {
                v["rope_scaling"] = Value::Null;
                v["rope_theta"] = json!(self.rope_theta);
                v["torch_dtype"] = json!(dtype);
            }
            ConfigLayout::V5 => {
                v["dtype"] = json!(dtype);
                v["rope_parameters"] =
                    json!({"rope_theta": self.rope_theta, "rope_type": "default"});
            }
        }
        let mut text = serde_json::to_string_pretty(&v).expect("a JSON value always serialises");
        text.push('\n');
        text
    }
}

fn missing(key: &str) -> ConfigError {
    ConfigError::Missing {
        key: key.to_owned(),
    }
}

fn parse(file: &'static str, text: &[u8]) -> Result<Map<String, Value>, ConfigError> {
    match serde_json::from_slice(text) {
        Ok(Unique(map)) => Ok(map),
        Err(e) => Err(ConfigError::Json {
            file,
            detail: e.to_string(),
        }),
    }
}

/// A JSON object that has no key twice at its top level.
struct Unique(Map<String, Value>);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Unique;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Unique, A::Error> {
                let mut map = Map::new();
                while let Some((key, value)) = access.next_entry::<String, Value>()? {
                    if map.contains_key(&key) {
                        let key: String = key.chars().take(80).collect();
                        return Err(A::Error::custom(format!("the key `{key}` is there twice")));
                    }
                    map.insert(key, value);
                }
                Ok(Unique(map))
            }
        }
        d.deserialize_map(Keys)
    }
}

fn unsupported(key: &str, found: &Value, supported: &'static str) -> ConfigError {
    let found = found.to_string().chars().take(80).collect();
    ConfigError::Unsupported {
        key: key.to_owned(),
        found,
        supported,
    }
}

/// Refuses every key that would change the results and is not implemented.
fn refuse_unsupported(c: &Object, family: Family) -> Result<(), ConfigError> {
    for key in ["attention_bias", "mlp_bias"] {
        if c.boolean(key)? == Some(true) {
            return Err(unsupported(key, &json!(true), "false"));
        }
    }
    match c.string("hidden_act")? {
        None => return Err(missing("hidden_act")),
        Some("silu") => {}
        Some(other) => return Err(unsupported("hidden_act", &json!(other), "silu")),
    }
    if let Some(window) = c.get("sliding_window") {
        // Qwen3 files carry a window size that `use_sliding_window: false` turns off.
        let off = match c.boolean("use_sliding_window")? {
            Some(used) => !used,
            None => family == Family::Qwen3,
        };
        if !off {
            return Err(unsupported(
                "sliding_window",
                window,
                "null, or `use_sliding_window` false",
            ));
        }
    }
    if c.boolean("use_sliding_window")? == Some(true) {
        return Err(unsupported("use_sliding_window", &json!(true), "false"));
    }
    match c.get("layer_types") {
        None => {}
        Some(Value::Array(types)) => {
            if let Some(other) = types.iter().find(|t| t.as_str() != Some("full_attention")) {
                return Err(unsupported("layer_types", other, "full_attention"));
            }
        }
        Some(other) => return Err(invalid("layer_types", other, "a list of strings")),
    }
    for key in [
        "quantization_config",
        "partial_rotary_factor",
        "num_experts",
        "num_local_experts",
    ] {
        let harmless = |v: &Value| {
            v.as_f64().is_some_and(|x| {
                x == if key == "partial_rotary_factor" {
                    1.0
                } else {
                    0.0
                }
            })
        };
        if let Some(value) = c.get(key).filter(|v| !harmless(v)) {
            return Err(unsupported(key, value, "absent"));
        }
    }
    Ok(())
}

/// The rope base, from either layout; a scaling other than `default` is refused.
fn rope_theta(c: &Object) -> Result<f64, ConfigError> {
    let mut nested = None;
    for key in ["rope_parameters", "rope_scaling"] {
        match c.get(key) {
            None => {}
            Some(Value::Object(map)) => {
                let inner = Object(map.clone());
                for kind in ["rope_type", "type"] {
                    match inner.string(kind)? {
                        None | Some("default") => {}
                        Some(other) => {
                            return Err(unsupported(
                                &format!("{key}.{kind}"),
                                &json!(other),
                                "default",
                            ));
                        }
                    }
                }
                if let Some(extra) = map
                    .keys()
                    .find(|k| !["rope_type", "type", "rope_theta"].contains(&k.as_str()))
                {
                    return Err(unsupported(
                        &format!("{key}.{extra}"),
                        &map[extra],
                        "absent",
                    ));
                }
                if let Some(theta) = inner.number("rope_theta")? {
                    if nested.is_some_and(|other| other != theta) {
                        return Err(ConfigError::Conflict {
                            a: "rope_parameters.rope_theta".into(),
                            b: "rope_scaling.rope_theta".into(),
                        });
                    }
                    nested = Some(theta);
                }
            }
            Some(other) => return Err(invalid(key, other, "null or an object")),
        }
    }
    match (c.number("rope_theta")?, nested) {
        (Some(a), Some(b)) if a != b => Err(ConfigError::Conflict {
            a: "rope_theta".into(),
            b: "rope_parameters.rope_theta".into(),
        }),
        (Some(a), _) => Ok(a),
        (None, Some(b)) => Ok(b),
        (None, None) => Err(missing("rope_theta")),
    }
}

/// A JSON object whose null values count as absent.
struct Object(Map<String, Value>);

impl Object {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|v| !v.is_null())
    }

    fn string(&self, key: &str) -> Result<Option<&str>, ConfigError> {
        self.get(key)
            .map(|v| v.as_str().ok_or_else(|| invalid(key, v, "a string")))
            .transpose()
    }

    fn boolean(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        self.get(key)
            .map(|v| v.as_bool().ok_or_else(|| invalid(key, v, "true or false")))
            .transpose()
    }

    fn number(&self, key: &str) -> Result<Option<f64>, ConfigError> {
        self.get(key)
            .map(|v| v.as_f64().ok_or_else(|| invalid(key, v, "a number")))
            .transpose()
    }

    fn optional_dim(&self, key: &str, max: usize) -> Result<Option<usize>, ConfigError> {
        let Some(v) = self.get(key) else {
            return Ok(None);
        };
        match v.as_u64() {
            Some(n) if n >= 1 && n <= max as u64 => Ok(Some(n as usize)),
            _ => Err(invalid(key, v, format!("a whole number from 1 to {max}"))),
        }
    }

    fn dim(&self, key: &str, max: usize) -> Result<usize, ConfigError> {
        self.optional_dim(key, max)?.ok_or_else(|| missing(key))
    }

    fn eos_ids(&self, out: &mut Vec<u32>) -> Result<(), ConfigError> {
        let key = "eos_token_id";
        let list = match self.get(key) {
            None => return Ok(()),
            Some(Value::Array(list)) => list.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        for v in list {
            let id = v.as_u64().and_then(|n| u32::try_from(n).ok());
            let id = id.ok_or_else(|| invalid(key, v, "token ids: whole numbers below 2^32"))?;
            if !out.contains(&id) {
                out.push(id);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
