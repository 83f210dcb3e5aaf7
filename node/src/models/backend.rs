//! What makes engines of loaded models.

use int_engine::commitment::Commitment;
use int_engine::engine::{CpuEngine, Engine, PrefixStats, logits_digest};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use precompile::Fault;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// What an engine is for. An engine runs one operation at a time, so that calls from outside must not hold up blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Purpose {
    /// Executing blocks.
    Blocks,
    /// `eth_call`, gas estimates, tracing.
    Calls,
}

impl Purpose {
    /// The word for it in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Calls => "calls",
        }
    }
}

/// An engine, and how its prefix cache is used.
pub struct Started {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Asks for the use of the prefix cache; `None` where there is none.
    pub prefix: Box<dyn Fn() -> Option<PrefixStats> + Send + Sync>,
}

/// Makes engines: on this CPU ([`Cpu`]), or on a device.
pub trait Backend: Send + Sync {
    /// The kernels' or the device's name.
    fn name(&self) -> &str;

    /// Bytes that the engines of a model take beside its weights, caches included.
    fn beside_weights(&self) -> u64;

    /// An engine of a model.
    ///
    /// # Errors
    /// When this machine cannot run the model.
    fn start(&self, model: &Arc<Model>, purpose: Purpose) -> Result<Started, Fault>;
}

/// Engines on this CPU.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// The kernels; [`Kernels::detect`] are the fastest here.
    pub kernels: &'static Kernels,
    /// Threads of the engine for blocks, of each model.
    pub threads: NonZeroUsize,
    /// Threads of the engine for calls outside blocks, of each model.
    pub call_threads: NonZeroUsize,
    /// Most bytes of keys and values that an engine keeps of earlier calls; 0 for none.
    pub prefix_cache: usize,
}

impl Cpu {
    /// The fastest kernels, all processors for blocks and half of them for calls, 256 MiB of keys and values each.
    #[must_use]
    pub fn detect() -> Self {
        let all = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            kernels: Kernels::detect(),
            threads: all,
            call_threads: NonZeroUsize::new(all.get() / 2).unwrap_or(NonZeroUsize::MIN),
            prefix_cache: 256 << 20,
        }
    }
}

impl Backend for Cpu {
    fn name(&self) -> &str {
        self.kernels.name
    }

    fn beside_weights(&self) -> u64 {
        2 * self.prefix_cache as u64
    }

    fn start(&self, model: &Arc<Model>, purpose: Purpose) -> Result<Started, Fault> {
        let threads = match purpose {
            Purpose::Blocks => self.threads,
            Purpose::Calls => self.call_threads,
        };
        let engine = CpuEngine::new(Arc::clone(model), self.kernels, threads);
        let engine = match self.prefix_cache {
            0 => engine,
            bytes => engine.with_prefix_cache(bytes),
        };
        let engine = Arc::new(engine);
        let asked = Arc::clone(&engine);
        Ok(Started {
            engine,
            prefix: Box::new(move || asked.prefix_stats()),
        })
    }
}

/// Why an engine must not answer, or could not be compared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CrossCheckError {
    /// Its logits are other ones.
    #[error(
        "{backend} and the portable kernels give different logits for model {commitment}: do not let this machine vote"
    )]
    Differs {
        /// What computes.
        backend: String,
        /// The model.
        commitment: Commitment,
    },
    /// The machine failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<CrossCheckError> for Fault {
    fn from(error: CrossCheckError) -> Self {
        match error {
            CrossCheckError::Differs { .. } => {
                Self::Engine(int_engine::halt::Fault::Device(error.to_string()))
            }
            CrossCheckError::Fault(fault) => fault,
        }
    }
}

/// Compares an engine with the portable kernels, on so many threads, on the model itself: the logits after a few tokens.
///
/// It finds what the known answers cannot, a weight that this machine keeps or multiplies wrongly.
///
/// # Errors
/// When they differ, or the machine fails.
pub fn cross_check(
    engine: &dyn Engine,
    model: &Arc<Model>,
    threads: NonZeroUsize,
) -> Result<(), CrossCheckError> {
    let other = CpuEngine::new(Arc::clone(model), Kernels::scalar(), threads);
    let accepted = model.config().accepted_ids() as u64;
    let most = model.config().max_context().min(4) as u64;
    let tokens = (0..most).map(|i| ((i * i * 7919 + 1) % accepted) as u32);
    let tokens: Vec<u32> = tokens.collect();
    if digest(engine, &tokens)? == digest(&other, &tokens)? {
        return Ok(());
    }
    Err(CrossCheckError::Differs {
        backend: engine.backend().to_owned(),
        commitment: model.commitment(),
    })
}

fn digest(engine: &dyn Engine, tokens: &[u32]) -> Result<[u8; 32], Fault> {
    let fault = |error: int_engine::halt::Error| match error {
        int_engine::halt::Error::Fault(fault) => Fault::Engine(fault),
        int_engine::halt::Error::Halt(halt) => {
            Fault::Panic(format!("accepted tokens are refused: {halt}"))
        }
    };
    let mut session = engine.session()?;
    session.feed(tokens).map_err(fault)?;
    // A failure is told by the call that may fail.
    session.try_greedy()?;
    let logits = session.logits().map(logits_digest);
    logits.ok_or_else(|| Fault::Panic("no logits after a feed".into()))
}
