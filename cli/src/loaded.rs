//! A model ready to run: its blob, the backend, and the tokenizer that belongs to it.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use float_engine::tokenizer::Tokenizer;
use int_engine::blob::Loader;
use int_engine::engine::{Engine, Session};
use int_engine::model::Model;

use crate::backend::Backend;
use crate::failure::{Code, Context, Failure, Outcome};
use crate::progress::Progress;
use crate::{backend, blob_file, bundle, embedded};

/// How a command runs a blob.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// Kernels to run on: auto (the fastest here), a backend that `blue demo` lists, or reference
    #[arg(long, default_value = "auto")]
    pub(crate) backend: Backend,
    /// Threads; the result does not depend on it [default: all]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZeroUsize>,
}

impl RunArgs {
    pub(crate) fn threads(&self) -> NonZeroUsize {
        threads(self.threads)
    }
}

/// Most threads that may be asked for.
const MAX_THREADS: usize = 1024;

/// The value after `--threads`.
pub(crate) fn parse_threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads = text
        .parse()
        .ok()
        .filter(|n: &NonZeroUsize| n.get() <= MAX_THREADS);
    threads.ok_or_else(|| format!("threads are a whole number from 1 to {MAX_THREADS}"))
}

/// The threads asked for, or as many as this process may use.
pub(crate) fn threads(given: Option<NonZeroUsize>) -> NonZeroUsize {
    given.unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
}

/// A loaded blob.
pub(crate) struct Loaded {
    /// The engine's model; also the source of every fact about the blob.
    pub(crate) model: Arc<Model>,
    /// Where tokens are computed.
    pub(crate) engine: Box<dyn Engine>,
    /// The tokenizer of the blob's digest, where one is present.
    pub(crate) tokenizer: Option<Tokenizer>,
}

impl Loaded {
    /// Loads a blob file, or the embedded model when there is none.
    pub(crate) fn open(blob: Option<&Path>, run: &RunArgs, progress: Progress) -> Outcome<Self> {
        let (model, tokenizer) = match blob {
            Some(path) => {
                let loader = Loader::new();
                let model = blob_file::load(path, loader, run.threads(), Code::Input, progress)?;
                let tokenizer = bundle::tokenizer(path, model.tokenizer_digest())?;
                (model, tokenizer)
            }
            None => (embedded_model()?, Some(embedded::TOKENIZER.to_vec())),
        };
        let tokenizer = tokenizer
            .map(|json| Tokenizer::from_json(&json))
            .transpose()
            .or_input("cannot read the tokenizer file beside the blob")?;
        let model = Arc::new(model);
        let engine = run.backend.engine(&model, run.threads(), || match blob {
            Some(path) => std::fs::read(path).map_err(|e| Failure::file(path, e)),
            None => Ok(embedded::BLOB.to_vec()),
        })?;
        Ok(Self {
            model,
            engine,
            tokenizer,
        })
    }

    /// A session at position 0.
    pub(crate) fn session(&self) -> Outcome<Box<dyn Session>> {
        self.engine
            .session()
            .map_err(|fault| backend::refused(fault.into()))
    }

    /// The tokenizer, or what to do about its absence.
    pub(crate) fn tokenizer(&self, blob: Option<&Path>) -> Outcome<&Tokenizer> {
        self.tokenizer.as_ref().ok_or_else(|| {
            let hint = match blob {
                Some(path) if self.model.tokenizer_digest() != [0; 32] => format!(
                    "put the tokenizer file at {}, or give ids with --tokens",
                    bundle::tokenizer_path(path).display()
                ),
                _ => {
                    "the blob was exported without a tokenizer: give ids with --tokens".to_string()
                }
            };
            Failure::input("text needs a tokenizer, and none is beside the blob").hint(hint)
        })
    }
}

/// The model inside this program.
pub(crate) fn embedded_model() -> Outcome<Model> {
    Model::from_bytes(embedded::BLOB).or_runtime("the embedded model does not load")
}
