//! The engine with one set of kernels as a target. Rows go through the kernels where there is one for the
//! operation, through the operations that all kernels share otherwise.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use int_engine::blob::Loader;
use int_engine::buffer::Pages;
use int_engine::commitment::{self, Commitment, Hasher};
use int_engine::config;
use int_engine::engine::{self, CpuEngine, Engine, Finish};
use int_engine::halt::{self, Error};
use int_engine::kernels::Kernels;
use int_engine::ops::attention::{QueryScale, exp2_weight};
use int_engine::ops::dynq::clamp;
use int_engine::ops::fixed::{I31, isqrt, rdbpot, srdhm};
use int_engine::ops::hadamard::{Direction, Hadamard};
use int_engine::ops::ratio::{TokenScale, norm_scale, ratio, root_fraction};
use int_engine::ops::requantize::Channels as EngineChannels;
use int_engine::ops::rms::{alignment, root};
use int_engine::ops::rope::rope_angle;
use int_engine::toy::{self, Toy, ToyError};

use super::{
    Attend, Channels, Generated, Halt, Hash, LayerSink, Model, Models, Ops, Rows, Scaled, Stop,
};

/// The engine with these kernels.
#[derive(Clone, Copy, Debug)]
pub struct KernelsTarget {
    /// What computes.
    pub kernels: &'static Kernels,
    /// How it runs.
    pub setting: Setting,
}

/// How an engine runs, which changes no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Threads.
    pub threads: NonZeroUsize,
    /// Pages of the weights' memory.
    pub pages: Pages,
}

impl Default for Setting {
    /// One thread, huge pages.
    fn default() -> Self {
        Self {
            threads: NonZeroUsize::MIN,
            pages: Pages::Huge,
        }
    }
}

/// Tokens of one matrix product of [`Ops::linear`]: more than a register tile, and not a multiple of one.
const TOKENS: usize = 13;

fn narrow<T: TryFrom<i64>>(row: &[i64]) -> Vec<T> {
    let one = |&v: &i64| T::try_from(v).unwrap_or_else(|_| panic!("{v} is outside the domain"));
    row.iter().map(one).collect()
}

fn wide<T: Copy + Into<i64>>(row: &[T]) -> Vec<i64> {
    row.iter().map(|&v| v.into()).collect()
}

fn scale_of((t, e): (i64, i64)) -> TokenScale {
    TokenScale {
        mantissa: t as i32,
        exponent: e as i32,
    }
}

fn pair(scale: TokenScale) -> (i64, i64) {
    (scale.mantissa.into(), scale.exponent.into())
}

impl KernelsTarget {
    /// Codes by `m`, which every value must not exceed.
    fn codes(self, u: &[i32], m: u32) -> Vec<i64> {
        let mut q = vec![0; u.len()];
        (self.kernels.quantize)(u, m, &mut q);
        wide(&q)
    }

    fn root(self, x: &[i32], eps: i64) -> (u32, i32) {
        let sh = alignment((self.kernels.max_abs)(x));
        root((self.kernels.sum_squares)(x, sh), sh, eps as u64)
    }

    fn requantized(self, row: &mut [i32], c: Channels<'_>) {
        let (mult, shift) = (narrow::<i32>(c.mult), narrow::<i8>(c.shift));
        let channels = EngineChannels {
            mult: &mult,
            shift: &shift,
            left: c.psh.unsigned_abs() as u32,
            limit: c.limit as i32,
        };
        (self.kernels.requantize)(row, c.scale.map(scale_of), channels);
    }

    fn rotated(self, x: &[i64], block: usize, direction: Direction) -> Vec<i64> {
        let mut x = narrow::<i32>(x);
        Hadamard::largest(block).apply(&mut x, direction, self.kernels.butterflies);
        wide(&x)
    }
}

impl Ops for KernelsTarget {
    fn isqrt(&self, n: &[i64]) -> Vec<i64> {
        n.iter().map(|&n| isqrt(n as u64).into()).collect()
    }

    fn rdbpot(&self, x: &[i64], e: u32) -> Vec<i64> {
        let shared: Vec<i64> = x.iter().map(|&x| rdbpot(x, e)).collect();
        let fits = shared.iter().all(|v| i32::try_from(*v).is_ok());
        if e > 62 || !fits || x.iter().any(|v| v.unsigned_abs() > 1 << 52) {
            return shared;
        }
        let mut out = vec![0; x.len()];
        (self.kernels.narrow)(x, e, &mut out);
        // The kernel for int32: a row that differs is the result.
        if e <= 31 && x.iter().all(|v| v.unsigned_abs() <= I31 as u64) {
            let mut short = narrow::<i32>(x);
            (self.kernels.round_shift)(&mut short, e, I31);
            if short != out {
                out = short;
            }
        }
        wide(&out)
    }

    fn srdhm(&self, a: &[i64], b: &[i64]) -> Vec<i64> {
        let one = |(&a, &b): (&i64, &i64)| srdhm(a as i32, b as i32).into();
        a.iter().zip(b).map(one).collect()
    }

    fn norm_scale(&self, m: &[i64]) -> Rows {
        m.iter().map(|&m| pair(norm_scale(m as u32))).unzip()
    }

    fn quantize(&self, u: &[i64], m: i64) -> Vec<i64> {
        let mut u = narrow::<i32>(u);
        clamp(&mut u, m as u32);
        self.codes(&u, m as u32)
    }

    fn dynq(&self, u: &[i64]) -> (Vec<i64>, i64) {
        let u = narrow::<i32>(u);
        let m = (self.kernels.max_abs)(&u);
        (self.codes(&u, m), m.into())
    }

    fn rms(&self, x: &[i64], eps: i64) -> (i64, i64) {
        let (r, e) = self.root(&narrow::<i32>(x), eps);
        (r.into(), e.into())
    }

    fn ratio(&self, m: &[i64], r: &[i64], e: &[i64]) -> Rows {
        let one = |((&m, &r), &e): ((&i64, &i64), &i64)| pair(ratio(m as u32, r as u32, e as i32));
        m.iter().zip(r).zip(e).map(one).unzip()
    }

    fn requantize(&self, acc: &[i64], c: Channels<'_>) -> Vec<i64> {
        let mut row = narrow::<i32>(acc);
        self.requantized(&mut row, c);
        wide(&row)
    }

    fn rope_angle(&self, phase: u64, position: &[i64]) -> Rows {
        let one = |&p: &i64| {
            let (cos, sin) = rope_angle(phase, p as u32);
            (i64::from(cos), i64::from(sin))
        };
        position.iter().map(one).unzip()
    }

    fn rope(&self, x: &[i64], cos_sin: &[(i64, i64)]) -> Vec<i64> {
        let mut x = narrow::<i32>(x);
        let angles: Vec<(i32, i32)> = cos_sin.iter().map(|&(c, s)| (c as i32, s as i32)).collect();
        (self.kernels.rope)(&mut x, &angles, I31);
        wide(&x)
    }

    fn had_block(&self, n: usize) -> usize {
        config::had_block(n)
    }

    fn pow2_block(&self, n: usize) -> usize {
        config::pow2_block(n)
    }

    fn had_forward(&self, x: &[i64], block: usize) -> Vec<i64> {
        self.rotated(x, block, Direction::Forward)
    }

    fn had_transpose(&self, x: &[i64], block: usize) -> Vec<i64> {
        self.rotated(x, block, Direction::Transpose)
    }

    fn head_norm(&self, x: &[i64], gain: &[i64]) -> Vec<i64> {
        let mut x = narrow::<i32>(x);
        (self.kernels.head_norm)(&mut x, &narrow::<i32>(gain));
        wide(&x)
    }

    fn swiglu(&self, g: &[i64], u: &[i64]) -> Vec<i64> {
        let mut h = vec![0; g.len()];
        (self.kernels.swiglu)(&narrow::<i32>(g), &narrow::<i32>(u), &mut h);
        h
    }

    fn exp2_weight(&self, d: &[i64]) -> Vec<i64> {
        d.iter().map(|&d| exp2_weight(d as u32).into()).collect()
    }

    fn attend(&self, a: Attend<'_>) -> Vec<i64> {
        let (q8, k8, v8) = (narrow::<i8>(a.q8), narrow::<i8>(a.k8), narrow::<i8>(a.v8));
        let (mk, mv) = (narrow::<u16>(a.mk), narrow::<u16>(a.mv));
        let (hd, keys) = (q8.len(), mk.len());
        let mut z = vec![0; keys];
        self.kernels.multiply(&k8, hd, &q8, &mut z);
        let scale = QueryScale::new(a.mq as u16, a.score_mult as i32, a.score_shift as u32);
        let top = (self.kernels.log_scores)(scale, &mut z, &mk);
        let mut w = vec![0; keys];
        let normalizer = (self.kernels.softmax_weights)(&mut z, top, &mv, &mut w);
        let mut n = vec![0; hd];
        self.kernels.weigh(&w, &v8, hd, &mut n);
        let mut out = vec![0; hd];
        (self.kernels.attention_output)(normalizer, &n, &mut out);
        wide(&out)
    }

    /// As one token, and as several equal ones: a token that differs is the result.
    fn linear(&self, weight: &[i64], q: &[i64], c: Channels<'_>) -> Vec<i64> {
        let (weight, q) = (narrow::<i8>(weight), narrow::<i8>(q));
        let rows = c.mult.len();
        let mut one = vec![0; rows];
        self.kernels.multiply(&weight, q.len(), &q, &mut one);
        let mut several = vec![0; TOKENS * rows];
        self.kernels
            .multiply(&weight, q.len(), &q.repeat(TOKENS), &mut several);
        if let Some(other) = several.chunks_exact(rows).find(|row| *row != one) {
            one = other.to_vec();
        }
        self.requantized(&mut one, c);
        wide(&one)
    }

    fn add_residual(&self, x: &[i64], y: &[i64]) -> Vec<i64> {
        let mut x = narrow::<i32>(x);
        (self.kernels.add_residual)(&mut x, &narrow::<i32>(y));
        wide(&x)
    }

    fn norm(&self, x: &[i64], eps: i64) -> Scaled {
        let x = narrow::<i32>(x);
        let m = (self.kernels.max_abs)(&x);
        let (r, e) = self.root(&x, eps);
        (self.codes(&x, m), pair(ratio(m, r, e)))
    }

    fn norm_static(&self, x: &[i64], eps: i64, c: i64) -> Scaled {
        let mut x = narrow::<i32>(x);
        let (r, e) = self.root(&x, eps);
        let m = root_fraction(c as u32, r, e);
        clamp(&mut x, m);
        (self.codes(&x, m), pair(ratio(m, r, e)))
    }

    fn argmax(&self, values: &[i64], accepted_ids: usize) -> i64 {
        let values = &narrow::<i32>(values)[..accepted_ids];
        let id = engine::argmax(values);
        // What the engine's search for the largest alone rests on: its first place, if that is another.
        let largest = (self.kernels.largest)(values);
        let at = values.iter().position(|&v| v == largest);
        at.map_or(i64::from(id), |at| at as i64)
    }

    fn keccak256(&self, data: &[u8]) -> Hash {
        commitment::keccak256(data)
    }

    fn commitment(&self, blob: &[u8]) -> Hash {
        commitment::commitment(blob).0
    }

    fn prove_chunk(&self, blob: &[u8], index: u64) -> Vec<Hash> {
        let mut hasher = Hasher::new();
        hasher.update(blob);
        hasher.finish().prove(index as usize).unwrap_or_default()
    }

    fn verify_chunk(
        &self,
        expected: &Hash,
        total_len: u64,
        index: u64,
        chunk: &[u8],
        proof: &[Hash],
    ) -> bool {
        commitment::verify_chunk(Commitment(*expected), total_len, index, chunk, proof)
    }

    fn toy_gemm(&self, weight: &[i64], x: &[i64], shift: u32) -> Vec<i64> {
        wide(&toy::gemm(&narrow::<i8>(weight), &narrow::<i8>(x), shift))
    }

    fn toy_norm(&self, x: &[i64], w: &[i64], mult: i64, eps: i64) -> Vec<i64> {
        let (x, w) = (narrow::<i8>(x), narrow::<i8>(w));
        wide(&toy::rms_norm(&x, &w, mult as i32, eps as i32))
    }

    fn toy_attend(&self, q: &[i64], k: &[i64], v: &[i64]) -> Vec<i64> {
        let rows = |flat: &[i64]| -> Vec<Vec<i8>> { flat.chunks(q.len()).map(narrow).collect() };
        wide(&toy::attend(&narrow::<i8>(q), &rows(k), &rows(v)))
    }

    fn toy_swiglu(&self, gate: &[i64], up: &[i64]) -> Vec<i64> {
        let one = |(&g, &u): (&i64, &i64)| toy::swiglu(g as i8, u as i8).into();
        gate.iter().zip(up).map(one).collect()
    }
}

fn stopped(error: Error) -> Stop {
    let (name, token) = match error {
        Error::Halt(halt::Halt::EmptyPrompt) => ("EmptyPrompt", None),
        Error::Halt(halt::Halt::ContextExceeded { .. }) => ("ContextExceeded", None),
        Error::Halt(halt::Halt::TokenOutOfRange { position, id, .. }) => {
            ("TokenOutOfRange", Some((position as u64, id.into())))
        }
        Error::Fault(fault) => return Stop::Fault(fault.to_string()),
    };
    Stop::Halt(Halt { name, token })
}

fn toy_halted(error: ToyError) -> Halt {
    let (name, token) = match error {
        ToyError::EmptyPrompt => ("EmptyPrompt", None),
        ToyError::TooLong(_) => ("ContextExceeded", None),
        ToyError::TokenOutOfRange { index, id } => {
            ("TokenOutOfRange", Some((index as u64, id.into())))
        }
    };
    Halt { name, token }
}

struct KernelsModel(CpuEngine);

impl KernelsModel {
    fn session(&self) -> Result<Box<dyn engine::Session>, Stop> {
        self.0.session().map_err(|e| Stop::Fault(e.to_string()))
    }
}

impl Model for KernelsModel {
    /// The prompt in one piece.
    fn layers(&self, prompt: &[u32], sink: LayerSink<'_>) -> Result<(), Stop> {
        let mut by_position =
            |stage: usize, position: usize, row: &[i32]| sink(position, stage, row);
        self.session()?
            .feed_traced(prompt, &mut by_position)
            .map_err(stopped)
    }

    /// The prompt token by token, after its checks as a whole.
    fn logits(&self, prompt: &[u32], sink: &mut dyn FnMut(usize, &[i32])) -> Result<(), Stop> {
        engine::check_tokens(self.0.config(), 0, prompt).map_err(|e| stopped(e.into()))?;
        let mut session = self.session()?;
        for (position, token) in prompt.iter().enumerate() {
            session.feed(&[*token]).map_err(stopped)?;
            let logits = session.logits();
            sink(position, logits.unwrap_or_default());
        }
        Ok(())
    }

    fn generate(&self, prompt: &[u32], max_new: u32) -> Result<Generated, Stop> {
        let mut session = self.session()?;
        let go_on = &mut |_| ControlFlow::Continue(());
        let done = engine::generate(&mut *session, prompt, max_new as usize, go_on);
        let done = done.map_err(stopped)?;
        let finish = match done.finish {
            Finish::Length => "length",
            Finish::Stop => "stop",
            Finish::Context => "context",
            Finish::Interrupted => "interrupted",
        };
        Ok((done.ids, finish))
    }
}

impl KernelsTarget {
    /// The engine of a blob, or why it is refused.
    pub(super) fn engine(self, blob: &[u8]) -> Result<CpuEngine, String> {
        let Setting { threads, pages } = self.setting;
        let loader = Loader::new().pages(pages);
        let model = loader.load(blob, blob.len() as u64, threads, |_| {});
        let model = model.map_err(|e| e.to_string())?;
        Ok(CpuEngine::new(Arc::new(model), self.kernels, threads))
    }
}

impl Models for KernelsTarget {
    fn load(&self, blob: &[u8]) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(KernelsModel(self.engine(blob)?)))
    }

    fn toy_logits(&self, prompt: &[u32]) -> Result<Vec<i64>, Halt> {
        let logits = Toy::default().logits(prompt).map_err(toy_halted)?;
        Ok(wide(&logits))
    }

    fn toy_generate(&self, prompt: &[u32], max_new: u32) -> Result<Vec<u32>, Halt> {
        Toy::default()
            .generate(prompt, max_new as usize)
            .map_err(toy_halted)
    }
}
