//! A model of candle-transformers with the fixed tokens that every peer is fed.

use anyhow::{Context, Result, bail, ensure};
use candle_core::quantized::gguf_file;
use candle_core::{Device, Tensor};
use candle_transformers::models::{quantized_llama, quantized_qwen3};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Instant;

enum Model {
    Llama(quantized_llama::ModelWeights),
    Qwen3(quantized_qwen3::ModelWeights),
}

impl Model {
    fn clear(&mut self) {
        match self {
            Self::Llama(model) => model.clear_kv_cache(),
            Self::Qwen3(model) => model.clear_kv_cache(),
        }
    }

    /// Logits (vocabulary) after the last of `tokens`, the first of which stands at `position`.
    fn forward(&mut self, tokens: &[u32], position: usize) -> Result<Tensor> {
        let input = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        let logits = match self {
            Self::Llama(model) => model.forward(&input, position)?,
            Self::Qwen3(model) => model.forward(&input, position)?,
        };
        Ok(logits.flatten_all()?)
    }
}

/// A loaded model.
pub(crate) struct Engine {
    model: Model,
    vocab: u64,
    load_seconds: f64,
}

/// The token of a position: SplitMix64 (Steele, Lea, Flood 2014) of the position, reduced to the vocabulary.
fn token_at(position: usize, vocab: u64) -> u32 {
    let mut z = (position as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) % vocab) as u32
}

fn argmax(logits: &Tensor) -> Result<u32> {
    let values = logits.to_vec1::<f32>()?;
    let best = values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    Ok(best.context("no logits")?.0 as u32)
}

impl Engine {
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let start = Instant::now();
        let name = path.display();
        let mut reader =
            BufReader::new(File::open(path).with_context(|| format!("cannot open {name}"))?);
        let content = gguf_file::Content::read(&mut reader)?;
        let embedding = content
            .tensor_infos
            .get("token_embd.weight")
            .context("no tensor token_embd.weight")?;
        let vocab = embedding.shape.dims().first().copied().unwrap_or(0) as u64;
        ensure!(vocab > 0, "{name} has no tokens");
        let architecture = content
            .metadata
            .get("general.architecture")
            .context("no general.architecture")?;
        let model = match architecture.to_string()?.as_str() {
            "llama" => Model::Llama(quantized_llama::ModelWeights::from_gguf(
                content,
                &mut reader,
                &Device::Cpu,
            )?),
            "qwen3" => Model::Qwen3(quantized_qwen3::ModelWeights::from_gguf(
                content,
                &mut reader,
                &Device::Cpu,
            )?),
            other => bail!("architecture {other} is neither llama nor qwen3"),
        };
        Ok(Self {
            model,
            vocab,
            load_seconds: start.elapsed().as_secs_f64(),
        })
    }

    pub(crate) fn load_seconds(&self) -> f64 {
        self.load_seconds
    }

    fn prompt(&self, tokens: usize) -> Vec<u32> {
        (0..tokens).map(|i| token_at(i, self.vocab)).collect()
    }

    /// Seconds to process `tokens` tokens in an empty context, with the logits of the last.
    pub(crate) fn prefill(&mut self, tokens: usize) -> Result<f64> {
        let prompt = self.prompt(tokens);
        self.model.clear();
        let start = Instant::now();
        self.model.forward(&prompt, 0)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Seconds to decode `tokens` tokens one by one after `context` tokens, each the most likely successor of the one before.
    pub(crate) fn decode(&mut self, context: usize, tokens: usize) -> Result<f64> {
        self.model.clear();
        if context > 0 {
            let prompt = self.prompt(context);
            self.model.forward(&prompt, 0)?;
        }
        let mut next = token_at(context, self.vocab);
        let start = Instant::now();
        for i in 0..tokens {
            let logits = self.model.forward(&[next], context + i)?;
            next = argmax(&logits)?;
        }
        Ok(start.elapsed().as_secs_f64())
    }
}
