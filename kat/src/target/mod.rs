//! What answers: implementations of the specification, one method an operation.

mod engine;
mod kernels;
mod reference;

use std::sync::Arc;

use int_engine::engine::Engine;
use int_engine::kernels::Kernels;

pub use kernels::{KernelsTarget, Setting};
pub use reference::ReferenceTarget;

/// A pair of rows: two results of an elementwise operation.
pub type Rows = (Vec<i64>, Vec<i64>);
/// Codes and their token scale.
pub type Scaled = (Vec<i64>, (i64, i64));
/// A digest.
pub type Hash = [u8; 32];

/// Inputs of [`Ops::requantize`] and [`Ops::linear`] that belong to the outputs.
#[derive(Clone, Copy, Debug)]
pub struct Channels<'a> {
    /// Shift of the accumulators, -5 ..= 0.
    pub psh: i64,
    /// Token scale.
    pub scale: Option<(i64, i64)>,
    /// Per output, 2^30 ..= 2^31 - 1.
    pub mult: &'a [i64],
    /// Per output, -64 ..= 64.
    pub shift: &'a [i64],
    /// Where the results saturate.
    pub limit: i64,
}

/// Inputs of [`Ops::attend`].
#[derive(Clone, Copy, Debug)]
pub struct Attend<'a> {
    /// `[hd]`
    pub q8: &'a [i64],
    /// Largest magnitude of the query.
    pub mq: i64,
    /// `[keys][hd]`
    pub k8: &'a [i64],
    /// `[keys]`
    pub mk: &'a [i64],
    /// `[keys][hd]`
    pub v8: &'a [i64],
    /// `[keys]`
    pub mv: &'a [i64],
    /// 2^30 ..= 2^31 - 1.
    pub score_mult: i64,
    /// 0 ..= 61.
    pub score_shift: i64,
}

/// The operations of spec 7.4 on inputs of their domains. Elementwise operations take rows of one length.
#[allow(missing_docs, reason = "the names, inputs and results of spec 7.4")]
pub trait Ops {
    fn isqrt(&self, n: &[i64]) -> Vec<i64>;
    fn rdbpot(&self, x: &[i64], e: u32) -> Vec<i64>;
    fn srdhm(&self, a: &[i64], b: &[i64]) -> Vec<i64>;
    fn norm_scale(&self, m: &[i64]) -> Rows;
    fn quantize(&self, u: &[i64], m: i64) -> Vec<i64>;
    fn dynq(&self, u: &[i64]) -> (Vec<i64>, i64);
    fn rms(&self, x: &[i64], eps: i64) -> (i64, i64);
    fn ratio(&self, m: &[i64], r: &[i64], e: &[i64]) -> Rows;
    fn requantize(&self, acc: &[i64], channels: Channels<'_>) -> Vec<i64>;
    fn rope_angle(&self, phase: u64, position: &[i64]) -> Rows;
    fn rope(&self, x: &[i64], cos_sin: &[(i64, i64)]) -> Vec<i64>;
    fn had_block(&self, n: usize) -> usize;
    fn pow2_block(&self, n: usize) -> usize;
    fn had_forward(&self, x: &[i64], block: usize) -> Vec<i64>;
    fn had_transpose(&self, x: &[i64], block: usize) -> Vec<i64>;
    fn head_norm(&self, x: &[i64], gain: &[i64]) -> Vec<i64>;
    fn swiglu(&self, g: &[i64], u: &[i64]) -> Vec<i64>;
    fn exp2_weight(&self, d: &[i64]) -> Vec<i64>;
    fn attend(&self, a: Attend<'_>) -> Vec<i64>;
    fn linear(&self, weight: &[i64], q: &[i64], channels: Channels<'_>) -> Vec<i64>;
    fn add_residual(&self, x: &[i64], y: &[i64]) -> Vec<i64>;
    fn norm(&self, x: &[i64], eps: i64) -> Scaled;
    fn norm_static(&self, x: &[i64], eps: i64, c: i64) -> Scaled;
    fn argmax(&self, values: &[i64], accepted_ids: usize) -> i64;
    fn keccak256(&self, data: &[u8]) -> Hash;
    fn commitment(&self, blob: &[u8]) -> Hash;
    fn prove_chunk(&self, blob: &[u8], index: u64) -> Vec<Hash>;
    fn verify_chunk(
        &self,
        commitment: &Hash,
        total_len: u64,
        index: u64,
        chunk: &[u8],
        proof: &[Hash],
    ) -> bool;
    fn toy_gemm(&self, weight: &[i64], x: &[i64], shift: u32) -> Vec<i64>;
    fn toy_norm(&self, x: &[i64], w: &[i64], mult: i64, eps: i64) -> Vec<i64>;
    fn toy_attend(&self, q: &[i64], k: &[i64], v: &[i64]) -> Vec<i64>;
    fn toy_swiglu(&self, gate: &[i64], up: &[i64]) -> Vec<i64>;
}

/// A refused prompt (spec 3.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halt {
    /// The name.
    pub name: &'static str,
    /// For TokenOutOfRange: the first offending position and its id.
    pub token: Option<(u64, u64)>,
}

/// Why a model has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The prompt is refused.
    Halt(Halt),
    /// The machine fails.
    Fault(String),
}

/// New tokens, and why there are no more: `length`, `stop` or `context`.
pub type Generated = (Vec<u32>, &'static str);

/// Receives the position, the stage and the residual values of the position after the stage (spec 7.3).
pub type LayerSink<'a> = &'a mut dyn FnMut(usize, usize, &[i32]);

/// A loaded blob.
pub trait Model {
    /// Hands every position's residual after every stage to `sink`.
    ///
    /// # Errors
    /// A refused prompt, or trouble of the machine.
    fn layers(&self, prompt: &[u32], sink: LayerSink<'_>) -> Result<(), Stop>;

    /// Hands every position and its logits to `sink`.
    ///
    /// # Errors
    /// As [`Model::layers`].
    fn logits(&self, prompt: &[u32], sink: &mut dyn FnMut(usize, &[i32])) -> Result<(), Stop>;

    /// Greedy generation (spec 3.5).
    ///
    /// # Errors
    /// As [`Model::layers`].
    fn generate(&self, prompt: &[u32], max_new: u32) -> Result<Generated, Stop>;
}

/// Whole functions: blobs and the toy model.
pub trait Models {
    /// Reads a blob.
    ///
    /// # Errors
    /// Why the bytes are not a blob (spec 4).
    fn load(&self, blob: &[u8]) -> Result<Box<dyn Model>, String>;

    /// The logits of the toy model after `prompt` (spec 8).
    ///
    /// # Errors
    /// A refused prompt.
    fn toy_logits(&self, prompt: &[u32]) -> Result<Vec<i64>, Halt>;

    /// The new tokens of the toy model (spec 8).
    ///
    /// # Errors
    /// A refused prompt.
    fn toy_generate(&self, prompt: &[u32], max_new: u32) -> Result<Vec<u32>, Halt>;
}

/// An implementation under test.
pub trait Implementation: Ops + Models {}

impl<T: Ops + Models> Implementation for T {}

/// An implementation of this repository.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// The reference.
    Reference,
    /// The engine with one set of kernels.
    Kernels(KernelsTarget),
    /// A set of kernels that this machine lacks.
    Absent(&'static str),
}

impl Target {
    /// The name, as reports show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Kernels(target) => target.kernels.name,
            Self::Absent(name) => name,
        }
    }

    /// Every target that this build knows, the reference first.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let target = |kernels| {
            Self::Kernels(KernelsTarget {
                kernels,
                setting: Setting::default(),
            })
        };
        let kernels = Kernels::all()
            .into_iter()
            .map(|(name, kernels)| kernels.map_or(Self::Absent(name), target));
        std::iter::once(Self::Reference).chain(kernels).collect()
    }

    /// A target by name; `None` for an unknown one.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|t| t.name() == name)
    }

    /// The target with another setting; the reference has none.
    #[must_use]
    pub fn on(self, setting: Setting) -> Self {
        match self {
            Self::Kernels(target) => Self::Kernels(KernelsTarget { setting, ..target }),
            other => other,
        }
    }

    /// The engine of a blob.
    ///
    /// # Errors
    /// Why the target refuses the bytes, or that this machine lacks it.
    pub fn engine(self, blob: &[u8]) -> Result<Arc<dyn Engine>, String> {
        match self {
            Self::Reference => Ok(Arc::new(engine::ReferenceEngine::load(blob)?)),
            Self::Kernels(target) => Ok(Arc::new(target.engine(blob)?)),
            Self::Absent(name) => Err(format!("this machine lacks {name}")),
        }
    }

    /// The implementation, where this machine has it.
    pub(crate) fn implementation(self) -> Option<Box<dyn Implementation>> {
        match self {
            Self::Reference => Some(Box::new(ReferenceTarget)),
            Self::Kernels(target) => Some(Box::new(target)),
            Self::Absent(_) => None,
        }
    }
}
