//! The reference, written from the specification alone, behind the engine's interface.

use std::sync::Arc;

use int_engine::commitment::Commitment;
use int_engine::config::Config;
use int_engine::engine::{Engine, LogitsSink, Session, TraceSink, check_tokens};
use int_engine::halt::{Error, Fault};
use int_engine::model::Model;
use int_engine::probe::{Op, Probe, ProbeSink};

/// The reference's model with the facts that the engine read from the same blob.
pub(crate) struct ReferenceEngine {
    reference: Arc<int_reference::Model>,
    model: Arc<Model>,
}

impl ReferenceEngine {
    /// Reads `blob` with the reference's own parser.
    pub(crate) fn new(blob: &[u8], model: Arc<Model>) -> Result<Self, int_reference::BadBlob> {
        Ok(Self {
            reference: Arc::new(int_reference::Model::from_blob(blob)?),
            model,
        })
    }
}

impl Engine for ReferenceEngine {
    fn config(&self) -> &Config {
        self.model.config()
    }

    fn commitment(&self) -> Commitment {
        self.model.commitment()
    }

    fn backend(&self) -> &str {
        "reference"
    }

    fn session(&self) -> Result<Box<dyn Session>, Fault> {
        Ok(Box::new(ReferenceSession {
            cache: self.reference.new_cache(),
            reference: Arc::clone(&self.reference),
            model: Arc::clone(&self.model),
            tokens: Vec::new(),
            residual: None,
            logits: Vec::new(),
        }))
    }
}

/// One token at a time, with the cache of the reference.
struct ReferenceSession {
    reference: Arc<int_reference::Model>,
    model: Arc<Model>,
    cache: int_reference::Cache,
    tokens: Vec<u32>,
    /// Of the last fed token.
    residual: Option<Vec<i64>>,
    logits: Vec<i32>,
}

impl ReferenceSession {
    fn step(&mut self, token: u32) {
        self.residual = Some(self.reference.step(&mut self.cache, token));
        self.tokens.push(token);
    }
}

/// Hands what the reference shows of one position to an engine's sink.
fn probe(position: usize, sink: ProbeSink<'_>) -> impl FnMut(Option<usize>, &'static str, &[i64]) {
    move |layer, op, values| {
        let op = Op::from_name(op).expect("the reference names the operations of spec 7.10");
        sink(Probe {
            position,
            layer,
            op,
            values,
        });
    }
}

impl Session for ReferenceSession {
    fn config(&self) -> &Config {
        self.model.config()
    }

    fn position(&self) -> usize {
        self.tokens.len()
    }

    fn feed(&mut self, tokens: &[u32]) -> Result<(), Error> {
        check_tokens(self.model.config(), self.tokens.len(), tokens)?;
        tokens.iter().for_each(|&token| self.step(token));
        Ok(())
    }

    fn feed_traced(&mut self, _: &[u32], _: TraceSink<'_>) -> Result<(), Error> {
        Err(Fault::Device("the reference shows no residual between its layers".into()).into())
    }

    fn feed_probed(&mut self, tokens: &[u32], sink: ProbeSink<'_>) -> Result<(), Error> {
        check_tokens(self.model.config(), self.tokens.len(), tokens)?;
        for &token in tokens {
            let mut probe = probe(self.tokens.len(), sink);
            let residual = self
                .reference
                .step_probed(&mut self.cache, token, &mut probe);
            self.residual = Some(residual);
            self.tokens.push(token);
        }
        Ok(())
    }

    fn logits_probed(&mut self, sink: ProbeSink<'_>) -> Result<Option<&[i32]>, Fault> {
        let Some(x) = self.residual.as_deref() else {
            return Ok(None);
        };
        let mut probe = probe(self.tokens.len() - 1, sink);
        self.logits = self.reference.logits_probed(x, &mut probe);
        Ok(Some(&self.logits))
    }

    fn feed_all_logits(&mut self, tokens: &[u32], sink: LogitsSink<'_>) -> Result<(), Error> {
        check_tokens(self.model.config(), self.tokens.len(), tokens)?;
        for &token in tokens {
            self.step(token);
            let position = self.tokens.len() - 1;
            if let Some(logits) = self.logits() {
                sink(position, logits);
            }
        }
        Ok(())
    }

    fn logits(&mut self) -> Option<&[i32]> {
        self.logits = self.reference.logits(self.residual.as_deref()?);
        Some(&self.logits)
    }

    /// The reference's cache only grows: what is kept is computed again.
    fn truncate(&mut self, len: usize) {
        if len < self.tokens.len() {
            let kept: Vec<u32> = self.tokens.drain(..).take(len).collect();
            self.cache = self.reference.new_cache();
            kept.into_iter().for_each(|token| self.step(token));
            self.residual = None;
        }
    }
}
