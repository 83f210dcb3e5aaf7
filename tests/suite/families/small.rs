//! A small checkpoint, in parts that a test changes before they are written.

use exporter::{ExportError, ExportOptions, calibration, export};
use float_engine::source::{Checkpoint, SourceError};
use serde_json::{Value, json};
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

/// A tensor as a file stores it.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// A configuration and its tensors.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) config: Value,
    pub(crate) tensors: Vec<Stored>,
}

/// Bytes of one value of a type.
pub(crate) fn encode(dtype: &str, value: f32) -> Vec<u8> {
    match dtype {
        "F32" => value.to_le_bytes().to_vec(),
        "F16" => half::f16::from_f32(value).to_le_bytes().to_vec(),
        "BF16" => half::bf16::from_f32(value).to_le_bytes().to_vec(),
        other => panic!("no encoding of {other}"),
    }
}

/// Values `k / 64` with |k| <= 100, which all three types hold exactly.
fn exact(seed: usize, count: usize) -> Vec<f32> {
    let value = |i: usize| ((i * 7919 + seed * 104_729 + i * i * 31) % 201) as f32 - 100.0;
    (0..count).map(|i| value(i) / 64.0).collect()
}

pub(crate) const EMBED: &str = "model.embed_tokens.weight";
pub(crate) const HEAD: &str = "lm_head.weight";
pub(crate) const NORM: &str = "model.norm.weight";

/// The name of a tensor of layer 0.
pub(crate) fn layer(part: &str) -> String {
    format!("model.layers.0.{part}.weight")
}

impl Parts {
    /// One layer, hidden 12, two heads of width 8 over one kv head, MLP of 10, 16 ids.
    pub(crate) fn new(family: &str, tied: bool) -> Self {
        let (n, heads, kv, hd, ff, vocab) = (12, 2, 1, 8, 10, 16);
        let mut shapes = vec![
            (EMBED.to_owned(), vec![vocab, n]),
            (NORM.to_owned(), vec![n]),
            (layer("input_layernorm"), vec![n]),
            (layer("post_attention_layernorm"), vec![n]),
            (layer("self_attn.q_proj"), vec![heads * hd, n]),
            (layer("self_attn.k_proj"), vec![kv * hd, n]),
            (layer("self_attn.v_proj"), vec![kv * hd, n]),
            (layer("self_attn.o_proj"), vec![n, heads * hd]),
            (layer("mlp.gate_proj"), vec![ff, n]),
            (layer("mlp.up_proj"), vec![ff, n]),
            (layer("mlp.down_proj"), vec![n, ff]),
        ];
        if family == "qwen3" {
            shapes.push((layer("self_attn.q_norm"), vec![hd]));
            shapes.push((layer("self_attn.k_norm"), vec![hd]));
        }
        if !tied {
            shapes.push((HEAD.to_owned(), vec![vocab, n]));
        }
        let config = json!({
            "model_type": family, "hidden_size": n, "num_hidden_layers": 1, "num_attention_heads": heads,
            "num_key_value_heads": kv, "head_dim": hd, "intermediate_size": ff, "vocab_size": vocab,
            "max_position_embeddings": 32, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
            "tie_word_embeddings": tied,
        });
        let mut parts = Self {
            config,
            tensors: Vec::new(),
        };
        for (seed, (name, shape)) in shapes.into_iter().enumerate() {
            let values = exact(seed, shape.iter().product());
            parts.tensors.push(Stored {
                name,
                dtype: "F32",
                shape,
                bytes: Vec::new(),
            });
            parts.set(seed, "F32", &values);
        }
        parts
    }

    /// Stores `values` as the tensor at `index`.
    pub(crate) fn set(&mut self, index: usize, dtype: &'static str, values: &[f32]) {
        let tensor = &mut self.tensors[index];
        tensor.dtype = dtype;
        tensor.bytes = values.iter().flat_map(|&v| encode(dtype, v)).collect();
    }

    /// The tensor of this name.
    pub(crate) fn tensor(&mut self, name: &str) -> &mut Stored {
        self.tensors
            .iter_mut()
            .find(|t| t.name == name)
            .unwrap_or_else(|| panic!("no {name}"))
    }

    /// The values of an F32 tensor.
    pub(crate) fn values(&self, index: usize) -> Vec<f32> {
        let tensor = &self.tensors[index];
        assert_eq!(tensor.dtype, "F32");
        tensor
            .bytes
            .chunks(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()
    }

    /// Writes `config.json` alone.
    pub(crate) fn write_config(&self, folder: &Path) {
        fs::write(folder.join("config.json"), self.config.to_string()).unwrap();
    }

    /// Writes the folder with one file and opens it.
    pub(crate) fn open(&self) -> Result<Checkpoint, SourceError> {
        self.open_file(&file(&self.tensors))
    }

    /// Opens a folder of this configuration and these bytes as its `model.safetensors`.
    pub(crate) fn open_file(&self, bytes: &[u8]) -> Result<Checkpoint, SourceError> {
        let folder = tempfile::tempdir().unwrap();
        self.write_config(folder.path());
        fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
        // The map of an open checkpoint keeps a removed file alive.
        Checkpoint::open(folder.path())
    }

    /// The exported blob.
    pub(crate) fn blob(&self) -> Vec<u8> {
        blob(&self.open().unwrap()).unwrap()
    }
}

/// The header of a safetensors file of these tensors in this order, and their data.
pub(crate) fn file(tensors: &[Stored]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut at = 0;
    for t in tensors {
        let end = at + t.bytes.len();
        let entry = json!({"dtype": t.dtype, "shape": t.shape, "data_offsets": [at, end]});
        header.insert(t.name.clone(), entry);
        at = end;
    }
    let data: Vec<u8> = tensors
        .iter()
        .flat_map(|t| t.bytes.iter().copied())
        .collect();
    raw_file(&Value::Object(header).to_string(), &data)
}

/// A file with this header text.
pub(crate) fn raw_file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// The blob of a checkpoint, calibrated on a few random tokens.
pub(crate) fn blob(checkpoint: &Checkpoint) -> Result<Vec<u8>, ExportError> {
    let vocab = checkpoint.config().vocab;
    let windows = calibration::random_windows(1, vocab, 2, 16);
    let options = ExportOptions::new(NonZeroUsize::MIN, vocab as u32, windows);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("model.blob");
    export(checkpoint, &out, &options, &mut ())?;
    Ok(fs::read(&out).unwrap())
}
