//! The trace of an engine's own pass, chunk by chunk.

use std::collections::VecDeque;

use int_engine::config::Config;
use int_engine::engine::{Engine, Session};
use int_engine::halt::Error;
use int_engine::probe::{Op, Probe};

use super::{Entry, Place, row_digest};

/// Most memory that a chunk may need on its way into the order of positions.
const MAX_BUFFER: u64 = 1 << 30;

/// Why an engine's trace cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Chunks of no tokens.
    #[error("a chunk must have at least one token")]
    EmptyChunk,
    /// A chunk's operations would take too much memory.
    #[error(
        "the trace of a chunk of {chunk} tokens takes {bytes} bytes, at most {MAX_BUFFER} are used: \
             choose smaller chunks"
    )]
    Buffer {
        /// Tokens of a chunk.
        chunk: usize,
        /// Bytes of its trace.
        bytes: u64,
    },
    /// The engine refuses the prompt or fails.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// The operations of a prompt on one engine in the order of [`Place`], those of the head after the last position of
/// each chunk. The memory is that of one chunk.
pub struct Run<'a> {
    session: Box<dyn Session>,
    prompt: &'a [u32],
    chunk: usize,
    values: bool,
    ready: VecDeque<Entry>,
    failed: bool,
}

/// Bytes that the trace of a chunk takes, with its values or without.
#[must_use]
pub fn buffer_bytes(config: &Config, chunk: usize, values: bool) -> u64 {
    let layers = config.layers() as u64;
    let each = |op: &Op| {
        let kept = if values { 8 * op.len(config) as u64 } else { 0 };
        let times = if op.in_layer() { layers } else { 1 };
        times * (kept + size_of::<Entry>() as u64)
    };
    (chunk as u64).saturating_mul(Op::ALL.iter().map(each).sum())
}

impl<'a> Run<'a> {
    /// A pass over `prompt` in chunks of `chunk` tokens; `values` says whether entries carry them.
    ///
    /// # Errors
    /// When the chunks are empty or too large, or the machine lacks the memory for a session.
    pub fn new(
        engine: &dyn Engine,
        prompt: &'a [u32],
        chunk: usize,
        values: bool,
    ) -> Result<Self, RunError> {
        let chunk = chunk.min(prompt.len().max(1));
        if chunk == 0 {
            return Err(RunError::EmptyChunk);
        }
        let bytes = buffer_bytes(engine.config(), chunk, values);
        if bytes > MAX_BUFFER {
            return Err(RunError::Buffer { chunk, bytes });
        }
        int_engine::engine::check_tokens(engine.config(), 0, prompt).map_err(Error::from)?;
        Ok(Self {
            session: engine.session().map_err(Error::from)?,
            prompt,
            chunk,
            values,
            ready: VecDeque::new(),
            failed: false,
        })
    }

    /// Whether there was another chunk.
    fn advance(&mut self) -> Result<bool, RunError> {
        let left = &self.prompt[self.session.position()..];
        let tokens = &left[..left.len().min(self.chunk)];
        if tokens.is_empty() {
            return Ok(false);
        }
        let (values, ready) = (self.values, &mut self.ready);
        let mut sink = |p: Probe<'_>| {
            ready.push_back(Entry {
                place: Place {
                    position: p.position,
                    layer: p.layer,
                    op: p.op,
                },
                count: p.values.len(),
                digest: row_digest(p.values),
                values: values.then(|| p.values.to_vec()),
            });
        };
        self.session.feed_probed(tokens, &mut sink)?;
        self.session.logits_probed(&mut sink).map_err(Error::from)?;
        self.ready.make_contiguous().sort_by_key(|e| e.place);
        Ok(true)
    }

    /// The values at one place, by a pass of its own; `None` where the pass has no such operation.
    ///
    /// # Errors
    /// As [`Run::new`], and what the engine says.
    pub fn values_at(
        engine: &dyn Engine,
        prompt: &[u32],
        chunk: usize,
        place: Place,
    ) -> Result<Option<Vec<i64>>, RunError> {
        let mut run = Run::new(engine, prompt, chunk, false)?;
        let mut found = None;
        while run.session.position() <= place.position {
            let left = &prompt[run.session.position()..];
            let tokens = &left[..left.len().min(run.chunk)];
            if tokens.is_empty() {
                break;
            }
            let mut sink = |p: Probe<'_>| {
                if (p.position, p.layer, p.op) == (place.position, place.layer, place.op) {
                    found = Some(p.values.to_vec());
                }
            };
            run.session.feed_probed(tokens, &mut sink)?;
            run.session.logits_probed(&mut sink).map_err(Error::from)?;
        }
        Ok(found)
    }
}

impl Iterator for Run<'_> {
    type Item = Result<Entry, RunError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && !self.failed {
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => {
                    self.failed = true;
                    return Some(Err(e));
                }
            }
        }
        self.ready.pop_front().map(Ok)
    }
}
