//! The reference behind the engine's seam: every row is the reference's.

use std::sync::Arc;

use int_engine::commitment::Commitment;
use int_engine::config::Config;
use int_engine::engine::{Engine, LogitsSink, Session, TraceSink, check_tokens};
use int_engine::halt::{Error, Fault};
use int_engine::probe::ProbeSink;
use int_reference as spec;

/// A loaded blob.
pub(super) struct ReferenceEngine {
    model: Arc<spec::Model>,
    config: Config,
    commitment: Commitment,
}

impl ReferenceEngine {
    /// Reads a blob.
    ///
    /// # Errors
    /// Why the reference refuses it.
    pub(super) fn load(blob: &[u8]) -> Result<Self, String> {
        let model = spec::Model::from_blob(blob).map_err(|e| e.to_string())?;
        let record = int_engine::blob::Record::parse(blob).map_err(|e| e.to_string())?;
        Ok(Self {
            model: Arc::new(model),
            config: record.config,
            commitment: Commitment(spec::commitment(blob)),
        })
    }
}

impl Engine for ReferenceEngine {
    fn config(&self) -> &Config {
        &self.config
    }

    fn commitment(&self) -> Commitment {
        self.commitment
    }

    fn backend(&self) -> &str {
        "reference"
    }

    fn session(&self) -> Result<Box<dyn Session>, Fault> {
        Ok(Box::new(ReferenceSession {
            cache: self.model.new_cache(),
            model: Arc::clone(&self.model),
            config: self.config.clone(),
            tokens: Vec::new(),
            logits: None,
        }))
    }
}

/// A sequence, position by position.
struct ReferenceSession {
    model: Arc<spec::Model>,
    config: Config,
    cache: spec::Cache,
    tokens: Vec<u32>,
    logits: Option<Vec<i32>>,
}

fn no_rows() -> Error {
    Fault::Device("the reference hands out no rows here".into()).into()
}

impl ReferenceSession {
    fn each(&mut self, tokens: &[u32], sink: LogitsSink<'_>) -> Result<(), Error> {
        check_tokens(&self.config, self.tokens.len(), tokens)?;
        for &token in tokens {
            let x = self.model.step(&mut self.cache, token);
            let logits = self.model.logits(&x);
            sink(self.tokens.len(), &logits);
            self.tokens.push(token);
            self.logits = Some(logits);
        }
        Ok(())
    }
}

impl Session for ReferenceSession {
    fn config(&self) -> &Config {
        &self.config
    }

    fn position(&self) -> usize {
        self.tokens.len()
    }

    fn feed(&mut self, tokens: &[u32]) -> Result<(), Error> {
        self.each(tokens, &mut |_, _| {})
    }

    fn feed_traced(&mut self, _: &[u32], _: TraceSink<'_>) -> Result<(), Error> {
        Err(no_rows())
    }

    fn feed_probed(&mut self, _: &[u32], _: ProbeSink<'_>) -> Result<(), Error> {
        Err(no_rows())
    }

    fn feed_all_logits(&mut self, tokens: &[u32], sink: LogitsSink<'_>) -> Result<(), Error> {
        self.each(tokens, sink)
    }

    fn logits(&mut self) -> Option<&[i32]> {
        self.logits.as_deref()
    }

    fn logits_probed(&mut self, _: ProbeSink<'_>) -> Result<Option<&[i32]>, Fault> {
        Ok(self.logits.as_deref())
    }

    fn truncate(&mut self, len: usize) {
        if len >= self.tokens.len() {
            return;
        }
        let kept: Vec<u32> = self.tokens.drain(..).take(len).collect();
        self.cache = self.model.new_cache();
        for &token in &kept {
            self.model.step(&mut self.cache, token);
        }
        self.tokens = kept;
        self.logits = None;
    }
}
