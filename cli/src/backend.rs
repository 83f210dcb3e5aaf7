//! The backends by name, and greedy decoding with its times.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use int_engine::engine::{
    CpuEngine, Drafter, Engine, Finish, Session, generate, generate_speculative,
};
use int_engine::halt::Error;
use int_engine::kernels::Kernels;
use int_engine::model::Model;

use crate::failure::{Code, Context, Failure, Outcome};
use crate::reference::ReferenceEngine;

/// What `--backend` may name.
#[derive(Clone, Debug)]
pub(crate) enum Backend {
    /// The fastest kernels of this CPU.
    Auto,
    /// One set of kernels.
    Kernels(&'static Kernels),
    /// The slow reference that is written from the specification.
    Reference,
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "reference" => Ok(Self::Reference),
            _ => Kernels::by_name(text).map(Self::Kernels).map_err(|_| {
                let known = Kernels::all().iter().any(|(name, _)| *name == text);
                format!(
                    "{}; choose auto, {} or reference",
                    if known {
                        "this machine lacks the backend"
                    } else {
                        "no backend has this name"
                    },
                    here()
                )
            }),
        }
    }
}

/// Kernels of this machine by name, for commands that take no other backend.
pub(crate) fn kernels(name: &str) -> Result<&'static Kernels, String> {
    Kernels::by_name(name).map_err(|_| format!("this machine has {}", here()))
}

/// The names of the kernels that this machine has.
fn here() -> String {
    let all = Kernels::all().into_iter();
    let here: Vec<_> = all.filter_map(|(name, k)| k.map(|_| name)).collect();
    here.join(", ")
}

impl Backend {
    /// The engine of this name; `blob` gives the bytes for the reference, which reads a blob by itself.
    pub(crate) fn engine(
        &self,
        model: &Arc<Model>,
        threads: NonZeroUsize,
        blob: impl FnOnce() -> Outcome<Vec<u8>>,
    ) -> Outcome<Box<dyn Engine>> {
        let kernels = match self {
            Self::Auto => Kernels::detect(),
            Self::Kernels(kernels) => kernels,
            Self::Reference => {
                let engine = ReferenceEngine::new(&blob()?, Arc::clone(model))
                    .or_input("the reference refuses the blob")?;
                return Ok(Box::new(engine));
            }
        };
        Ok(Box::new(CpuEngine::new(
            Arc::clone(model),
            kernels,
            threads,
        )))
    }
}

/// An engine's error: refused input, or a failure of this machine.
pub(crate) fn refused(error: Error) -> Failure {
    match error {
        Error::Halt(halt) => Failure::new(
            Code::Input,
            anyhow::Error::new(halt).context("the model refuses the prompt"),
        ),
        Error::Fault(fault) => Failure::new(
            Code::Runtime,
            anyhow::Error::new(fault).context("this machine cannot run the model"),
        ),
    }
}

/// A finished greedy decoding.
pub(crate) struct Greedy {
    /// The produced ids, a stop id included.
    pub(crate) output: Vec<u32>,
    /// Why there are no more.
    pub(crate) finish: &'static str,
    /// Tokens that were fed before the first new one.
    fed: usize,
    prefill: Duration,
    decode: Duration,
}

impl Greedy {
    /// Prompt tokens a second, up to the first new token.
    pub(crate) fn prefill_tokens_per_s(&self) -> f64 {
        rate(self.fed, self.prefill)
    }

    /// New tokens after the first a second; 0 when there are none.
    pub(crate) fn decode_tokens_per_s(&self) -> f64 {
        rate(self.output.len().saturating_sub(1), self.decode)
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    if tokens == 0 {
        0.0
    } else {
        tokens as f64 / time.as_secs_f64().max(1e-9)
    }
}

/// Greedy generation of spec 3.5 from an empty context, with drafts where there is a drafter; `each` sees every new id
/// at once.
pub(crate) fn greedy(
    session: &mut dyn Session,
    drafter: Option<&mut Drafter>,
    prompt: &[u32],
    max_new: usize,
    mut each: impl FnMut(u32) -> Outcome,
) -> Outcome<Greedy> {
    let start = Instant::now();
    let (mut prefill, mut failed) = (None, None);
    let on_token = &mut |id| {
        prefill.get_or_insert_with(|| start.elapsed());
        match each(id) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                failed = Some(failure);
                ControlFlow::Break(())
            }
        }
    };
    let done = match drafter {
        None => generate(session, prompt, max_new, on_token),
        Some(drafter) => generate_speculative(session, drafter, prompt, max_new, on_token),
    }
    .map_err(refused)?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    let (total, finish) = (start.elapsed(), finish_name(done.finish));
    let prefill = prefill.unwrap_or(total);
    Ok(Greedy {
        output: done.ids,
        finish,
        fed: prompt.len(),
        prefill,
        decode: total - prefill,
    })
}

/// The name of a reason to end, for JSON.
pub(crate) fn finish_name(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "length",
        Finish::Stop => "stop",
        Finish::Context => "context",
        Finish::Interrupted => "interrupted",
    }
}
