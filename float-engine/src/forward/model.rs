//! A whole model in memory: logits, and greedy decoding with a KV cache.

use super::attention::LayerKv;
use super::layer::{PackedLayer, norm_rows};
use super::pack::PackedMatrix;
use super::rope::RopeTable;
use super::{Exec, ForwardError, Kernels};
use crate::config::ModelConfig;
use crate::source::{Checkpoint, SourceError};

/// Positions whose logits [`FloatModel::logits_each`] computes together; a multiple of every tile of the kernels.
pub const HEAD_BLOCK: usize = 48;

/// A model with all weights in memory, packed for the kernels.
#[derive(Debug, Clone)]
pub struct FloatModel {
    config: ModelConfig,
    embed: PackedMatrix,
    layers: Vec<PackedLayer>,
    final_norm: Vec<f32>,
    /// `None` when tied.
    head: Option<PackedMatrix>,
    kernels: Kernels,
}

/// The KV cache of one sequence.
#[derive(Debug, Clone)]
pub struct Session {
    layers: Vec<LayerKv>,
    rope: RopeTable,
    len: usize,
}

impl Session {
    /// Positions held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no position is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The index of the largest value, the lowest one among equals; 0 for an empty slice.
pub fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (i, x) in logits.iter().enumerate() {
        if *x > logits[best] {
            best = i;
        }
    }
    best as u32
}

impl FloatModel {
    /// Loads every weight of `checkpoint`: 4 bytes a parameter, and one unpacked matrix at a time besides.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn load(checkpoint: &Checkpoint) -> Result<Self, SourceError> {
        let config = checkpoint.config().clone();
        // The tables first: while one is packed it is held twice, and then nothing else is.
        let embed = PackedMatrix::new(&checkpoint.embed()?);
        let head = checkpoint.lm_head()?.map(|m| PackedMatrix::new(&m));
        let layers = (0..config.layers).map(|i| checkpoint.layer(i).map(|w| PackedLayer::new(&w)));
        Ok(Self {
            layers: layers.collect::<Result<_, _>>()?,
            embed,
            final_norm: checkpoint.final_norm()?,
            head,
            kernels: Kernels::detect(),
            config,
        })
    }

    /// The same model with other kernels; results do not change.
    pub fn with_kernels(self, kernels: Kernels) -> Self {
        Self { kernels, ..self }
    }

    /// The architecture.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// An empty KV cache.
    pub fn session(&self) -> Session {
        let layers = (0..self.config.layers)
            .map(|_| LayerKv::new(&self.config))
            .collect();
        Session {
            layers,
            rope: RopeTable::new(&self.config, 0),
            len: 0,
        }
    }

    /// The logits at every position of `tokens`, `[n, vocab]`.
    ///
    /// # Errors
    /// No tokens, a token outside the vocabulary, or more than `max_context`.
    pub fn logits(&self, tokens: &[u32], threads: usize) -> Result<Vec<f32>, ForwardError> {
        let mut all = Vec::new();
        self.logits_each(tokens, threads, &mut |_, row| {
            if all.is_empty() {
                all.reserve_exact(tokens.len() * row.len());
            }
            all.extend_from_slice(row);
        })?;
        Ok(all)
    }

    /// Gives `sink` the position and the logits, `[vocab]`, of every position of `tokens` in order.
    ///
    /// At most [`HEAD_BLOCK`] rows of logits are in memory at a time. They are the rows of [`FloatModel::logits`].
    ///
    /// # Errors
    /// As [`FloatModel::logits`]; `sink` is then not called.
    pub fn logits_each(
        &self,
        tokens: &[u32],
        threads: usize,
        sink: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<(), ForwardError> {
        let exec = self.exec(threads);
        let x = self.hidden(&mut self.session(), tokens, &exec)?;
        let mut position = 0;
        for block in x.chunks(HEAD_BLOCK * self.config.hidden) {
            for row in self.head(block, &exec).chunks_exact(self.config.vocab) {
                sink(position, row);
                position += 1;
            }
        }
        Ok(())
    }

    /// Appends `tokens` to a sequence; gives the logits at its last position, `[vocab]`.
    ///
    /// The result has the bits of the last row of [`FloatModel::logits`] over the whole sequence.
    ///
    /// # Errors
    /// As [`FloatModel::logits`]; the session is then unchanged.
    pub fn extend(
        &self,
        session: &mut Session,
        tokens: &[u32],
        threads: usize,
    ) -> Result<Vec<f32>, ForwardError> {
        let exec = self.exec(threads);
        let x = self.hidden(session, tokens, &exec)?;
        Ok(self.head(&x[x.len() - self.config.hidden..], &exec))
    }

    /// Up to `max_new` tokens, each the argmax (lowest id among equals); stops after an id in `stop`.
    ///
    /// # Errors
    /// As [`FloatModel::logits`], `max_new` counting towards `max_context`.
    pub fn greedy(
        &self,
        prompt: &[u32],
        max_new: usize,
        stop: &[u32],
        threads: usize,
    ) -> Result<Vec<u32>, ForwardError> {
        let mut session = self.session();
        let mut out = Vec::new();
        let mut next = prompt.to_vec();
        while out.len() < max_new {
            let id = argmax(&self.extend(&mut session, &next, threads)?);
            out.push(id);
            if stop.contains(&id) {
                break;
            }
            next = vec![id];
        }
        Ok(out)
    }

    fn exec(&self, threads: usize) -> Exec {
        Exec {
            kernels: self.kernels,
            threads: threads.max(1),
        }
    }

    /// The residual stream after the last layer, before the final norm, at the new positions.
    fn hidden(
        &self,
        session: &mut Session,
        tokens: &[u32],
        exec: &Exec,
    ) -> Result<Vec<f32>, ForwardError> {
        let c = &self.config;
        if tokens.is_empty() {
            return Err(ForwardError::Empty);
        }
        let len = session.len.saturating_add(tokens.len());
        if len > c.max_context {
            return Err(ForwardError::TooLong {
                len,
                max: c.max_context,
            });
        }
        let mut x = vec![0.0; tokens.len() * c.hidden];
        for (row, &id) in x.chunks_exact_mut(c.hidden).zip(tokens) {
            if id as usize >= c.vocab {
                return Err(ForwardError::TokenOutOfRange { id, vocab: c.vocab });
            }
            self.embed.copy_row(id as usize, row);
        }
        session.rope.extend(len);
        for (layer, kv) in self.layers.iter().zip(&mut session.layers) {
            layer.step(
                c,
                &mut x,
                session.len,
                &session.rope,
                kv,
                exec,
                &mut |_, _, _| (),
            );
        }
        session.len = len;
        Ok(x)
    }

    fn head(&self, x: &[f32], exec: &Exec) -> Vec<f32> {
        head_logits(
            &self.config,
            &self.final_norm,
            self.head.as_ref().unwrap_or(&self.embed),
            x,
            exec,
        )
    }
}

/// Logits `[n, vocab]` of residual rows `x`, `[n, hidden]`: the final norm, then the output head.
///
/// # Panics
/// When `x` is not a whole number of rows.
pub fn head_logits(
    config: &ModelConfig,
    final_norm: &[f32],
    head: &PackedMatrix,
    x: &[f32],
    exec: &Exec,
) -> Vec<f32> {
    head.matmul(&norm_rows(x, final_norm, config, exec), exec)
}
