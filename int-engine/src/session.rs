//! The CPU session: prefill, decode and logits over one KV cache (spec 3.3, 3.4).
//!
//! Several tokens are processed in blocks: each thread carries its share of a block through a layer by itself, and
//! all meet where keys and values join the cache. A single token's matrix products are split by rows instead.

mod attend;
mod cache;
mod lane;

use std::sync::Arc;

use self::attend::grow;
use self::cache::KvCache;
use self::lane::Lane;
use crate::config::{Config, Scheme};
use crate::engine::{LogitsSink, Session, TraceSink, check_tokens};
use crate::halt::{Error, Fault};
use crate::kernels::Kernels;
use crate::model::{Linear, Model};
use crate::ops::dynq::clamp;
use crate::ops::fixed::{I31, bit_length, bit_length_64};
use crate::ops::hadamard::{Direction, Hadamard};
use crate::ops::ratio::{TokenScale, ratio};
use crate::ops::requantize::Channels;
use crate::ops::rms::{alignment, root};
use crate::pool::Pool;
use crate::probe::{Op, ProbeSink, Recorder};

/// Most tokens of a lane: enough uses of a weight while it is in the cache, and bounded memory.
const LANE_TOKENS: usize = 96;
/// Tokens that share one pass over the head when every position's logits are wanted: a multiple of the register tile.
const HEAD_TOKENS: usize = 12;
/// Rows are split among threads in multiples of this: whole cache lines of int32 results.
const ROW_GRAIN: usize = 16;

/// A model with what every session of an engine shares.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) model: Arc<Model>,
    pub(crate) kernels: &'static Kernels,
    pool: Pool,
    /// Of the residual (head only).
    hidden_hadamard: Hadamard,
    /// Of each q and k head.
    head_hadamard: Hadamard,
    /// Of the down projection's input.
    mlp_hadamard: Hadamard,
    /// r3 of spec 3.3: the smallest r with 4^r >= the block of `head_hadamard`.
    head_shift: u32,
}

/// A weight matrix with its requantisation, `[mult.len()][cols]`.
struct Matrix<'a> {
    weight: &'a [i8],
    cols: usize,
    mult: &'a [i32],
    shift: &'a [i8],
    /// Minus psh, 0 to 5.
    left: u32,
}

impl<'a> Matrix<'a> {
    fn of(w: &'a Linear) -> Self {
        Self {
            weight: &w.weight,
            cols: w.cols,
            mult: &w.mult,
            shift: &w.shift,
            left: w.pre_shift.unsigned_abs(),
        }
    }
}

impl Plan {
    pub(crate) fn new(model: Arc<Model>, kernels: &'static Kernels, pool: Pool) -> Self {
        let config = model.config();
        let head_hadamard = Hadamard::largest(config.head_dim());
        Self {
            hidden_hadamard: Hadamard::largest(config.hidden()),
            head_shift: bit_length(head_hadamard.block() as u32 - 1).div_ceil(2),
            head_hadamard,
            mlp_hadamard: match config.scheme() {
                Scheme::Dynamic => Hadamard::power_of_two(config.intermediate()),
                Scheme::Static => Hadamard::largest(config.intermediate()),
            },
            model,
            kernels,
            pool,
        }
    }

    fn head(&self) -> Matrix<'_> {
        let head = self.model.head();
        Matrix {
            weight: self.model.head_weight(),
            cols: self.model.config().hidden(),
            mult: &head.mult,
            shift: &head.shift,
            left: head.pre_shift.unsigned_abs(),
        }
    }

    /// Spec 1.5 with this plan's kernels.
    fn dynq(&self, u: &[i32], q: &mut [i8]) -> u32 {
        let m = (self.kernels.max_abs)(u);
        (self.kernels.quantize)(u, m, q);
        m
    }

    /// The codes of a row by its own largest magnitude, or by `fixed`, to which the row is then clamped (spec 1.5);
    /// returns the magnitude used.
    fn quantize_input(&self, u: &mut [i32], fixed: Option<u32>, q: &mut [i8]) -> u32 {
        let Some(m) = fixed else {
            return self.dynq(u, q);
        };
        clamp(u, m);
        (self.kernels.quantize)(u, m, q);
        m
    }

    /// `linear` of spec 3.2 for a run of tokens: `input` `[tokens][cols]`, `out` `[tokens][rows]`.
    ///
    /// The rows of a single token are split over `pool`.
    fn linear(
        &self,
        w: &Matrix<'_>,
        input: &[i8],
        scales: Option<&[TokenScale]>,
        limit: i32,
        out: &mut [i32],
        pool: Option<&Pool>,
    ) {
        let rows = w.mult.len();
        let channels = Channels {
            mult: w.mult,
            shift: w.shift,
            left: w.left,
            limit,
        };
        let requantize = self.kernels.requantize;
        match pool {
            Some(pool) if out.len() == rows => {
                // Two parts a thread, so that one delayed thread costs less than its share.
                let len = rows
                    .div_ceil(2 * pool.threads())
                    .next_multiple_of(ROW_GRAIN);
                pool.chunks_mut(out, len, |i, out| {
                    let first = i * len;
                    (self.kernels.gemm)(
                        &w.weight[first * w.cols..][..out.len() * w.cols],
                        w.cols,
                        input,
                        out,
                    );
                    requantize(
                        out,
                        scales.map(|s| s[0]),
                        channels.part(first..first + out.len()),
                    );
                });
            }
            _ => {
                (self.kernels.gemm)(w.weight, w.cols, input, out);
                for (t, out) in out.chunks_exact_mut(rows).enumerate() {
                    requantize(out, scales.map(|s| s[t]), channels);
                }
            }
        }
    }
}

/// The head's quantised input (spec 3.4) and the memory to make it.
#[derive(Debug, Default)]
struct HeadInput {
    /// `[tokens][hidden]`.
    codes: Vec<i8>,
    /// `[tokens]`.
    scales: Vec<TokenScale>,
    wide: Vec<i64>,
    row: Vec<i32>,
    recorder: Recorder,
}

impl HeadInput {
    fn reserve(&mut self, config: &Config, tokens: usize) -> Result<(), Fault> {
        let (n, what) = (config.hidden(), "the head's input");
        grow(&mut self.codes, tokens * n, what)?;
        grow(&mut self.scales, tokens, what)?;
        grow(&mut self.wide, n, what)?;
        grow(&mut self.row, n, what)
    }

    /// Makes the input of the residual row of a position, as number `token`.
    fn set<const PROBED: bool>(&mut self, plan: &Plan, token: usize, position: usize, x: &[i32]) {
        let n = x.len();
        let (kernels, hadamard) = (plan.kernels, &plan.hidden_hadamard);
        let (wide, y) = (&mut self.wide[..n], &mut self.row[..n]);
        let m = (kernels.max_abs)(x);
        let sh = alignment(m);
        let (r, e) = root((kernels.sum_squares)(x, sh), sh, plan.model.config().eps());
        // headroom(B) keeps each rotation below 2^31.
        let s1 = bit_length(m).saturating_sub(hadamard.headroom());
        for (wide, &x) in wide.iter_mut().zip(x) {
            *wide = i64::from(x);
        }
        (kernels.narrow)(wide, s1, y);
        hadamard.apply(y, Direction::Transpose, kernels.butterflies);
        if PROBED {
            self.recorder.rows(position, Op::HeadUnrotate, y, n);
        }
        let mut largest = 0;
        for ((wide, &y), &gain) in wide.iter_mut().zip(&*y).zip(plan.model.final_gain()) {
            // Below 2^31 * 32767 < 2^46.
            *wide = i64::from(y) * i64::from(gain);
            largest = largest.max(wide.unsigned_abs());
        }
        if PROBED {
            let values = wide.iter().copied();
            self.recorder.record(position, Op::HeadGain, values);
        }
        let s2 = bit_length_64(largest).saturating_sub(hadamard.headroom());
        (kernels.narrow)(wide, s2, y);
        hadamard.apply(y, Direction::Forward, kernels.butterflies);
        let codes = &mut self.codes[token * n..][..n];
        let m = plan.dynq(y, codes);
        let mut scale = ratio(m, r, e);
        scale.exponent -= (s1 + s2) as i32;
        self.scales[token] = scale;
        if PROBED {
            self.recorder.rows(position, Op::HeadRotate, y, n);
            self.recorder.codes(position, Op::HeadQuant, codes, scale);
        }
    }
}

/// What the last residual row has been turned into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Last {
    /// Nothing fed, or forgotten.
    None,
    /// The row itself.
    Residual,
    /// The row and its logits.
    Logits,
}

/// A session of [`crate::engine::CpuEngine`].
#[derive(Debug)]
pub(crate) struct CpuSession {
    plan: Arc<Plan>,
    cache: KvCache,
    lanes: Vec<Lane>,
    position: usize,
    last: Last,
    residual: Vec<i32>,
    logits: Vec<i32>,
    head_input: HeadInput,
    /// `[tokens][vocab]` when every position's logits are wanted.
    all_logits: Vec<i32>,
}

impl CpuSession {
    pub(crate) fn new(plan: Arc<Plan>) -> Result<Self, Fault> {
        let config = plan.model.config();
        let (mut residual, mut logits, mut head_input) =
            (Vec::new(), Vec::new(), HeadInput::default());
        grow(&mut residual, config.hidden(), "the residual")?;
        grow(&mut logits, config.vocab(), "logits")?;
        head_input.reserve(config, 1)?;
        Ok(Self {
            cache: KvCache::new(config),
            lanes: (0..plan.pool.threads()).map(|_| Lane::default()).collect(),
            position: 0,
            last: Last::None,
            residual,
            logits,
            head_input,
            all_logits: Vec::new(),
            plan,
        })
    }

    /// Checks the tokens and makes all room that feeding them needs.
    fn admit(&mut self, tokens: &[u32]) -> Result<(), Error> {
        let config = self.plan.model.config();
        check_tokens(config, self.position, tokens)?;
        self.cache.reserve(self.position + tokens.len())?;
        let share = lane_share(tokens.len(), self.lanes.len());
        let used = if share == 0 {
            0
        } else {
            tokens.len().div_ceil(share).min(self.lanes.len())
        };
        let parts = if tokens.len() == 1 {
            config.kv_heads()
        } else {
            1
        };
        for lane in &mut self.lanes[..used] {
            lane.reserve(&self.plan, share, self.cache.capacity(), parts)?;
        }
        // A last block of one token runs in the first lane with attention split by kv head.
        if let Some(lane) = self.lanes.first_mut() {
            lane.reserve(&self.plan, 1, self.cache.capacity(), config.kv_heads())?;
        }
        Ok(())
    }

    /// Feeds admitted tokens block by block; `after` sees the lanes in use after each block.
    fn feed_blocks<const PROBED: bool>(
        &mut self,
        tokens: &[u32],
        trace: TraceSink<'_>,
        probe: ProbeSink<'_>,
        mut after: impl FnMut(&Plan, &[Lane]),
    ) {
        let plan = Arc::clone(&self.plan);
        for block in tokens.chunks(LANE_TOKENS * self.lanes.len()) {
            let used = self.feed_block::<PROBED>(&plan, block, trace, probe);
            let lane = &self.lanes[used - 1];
            self.residual
                .copy_from_slice(lane.residual(&plan, lane.tokens - 1));
            self.position += block.len();
            self.last = Last::Residual;
            after(&plan, &self.lanes[..used]);
        }
    }

    /// Returns the number of lanes that hold the block's tokens.
    fn feed_block<const PROBED: bool>(
        &mut self,
        plan: &Plan,
        block: &[u32],
        trace: TraceSink<'_>,
        probe: ProbeSink<'_>,
    ) -> usize {
        let share = lane_share(block.len(), self.lanes.len());
        let lanes = &mut self.lanes[..block.len().div_ceil(share)];
        let mut emit = |stage: usize, lanes: &[Lane]| {
            for lane in lanes {
                for t in 0..lane.tokens {
                    trace(stage, lane.first + t, lane.residual(plan, t));
                }
            }
        };
        let mut drain = |layer: Option<usize>, lanes: &mut [Lane]| {
            if PROBED {
                for lane in lanes {
                    lane.recorder.drain(layer, probe);
                }
            }
        };
        for (i, (lane, ids)) in lanes.iter_mut().zip(block.chunks(share)).enumerate() {
            lane.embed::<PROBED>(plan, self.position + i * share, ids);
        }
        emit(0, lanes);
        drain(None, lanes);
        for (i, layer) in plan.model.layers().iter().enumerate() {
            each_lane(plan, lanes, |lane, pool| {
                lane.project::<PROBED>(plan, layer, pool);
            });
            let cache = self.cache.layer_mut(i);
            for lane in &*lanes {
                lane.append_to(cache, plan.model.config().head_dim());
            }
            let cache = self.cache.layer(i);
            each_lane(plan, lanes, |lane, pool| {
                lane.finish::<PROBED>(plan, layer, cache, pool);
            });
            emit(i + 1, lanes);
            drain(Some(i), lanes);
        }
        lanes.len()
    }

    /// The logits of the last residual row.
    fn compute_logits<const PROBED: bool>(&mut self) {
        let plan = &*self.plan;
        let (n, head) = (plan.model.config().hidden(), &mut self.head_input);
        let position = self.position - 1;
        head.set::<PROBED>(plan, 0, position, &self.residual);
        plan.linear(
            &plan.head(),
            &head.codes[..n],
            Some(&head.scales[..1]),
            I31,
            &mut self.logits,
            Some(&plan.pool),
        );
        if PROBED {
            let vocab = self.logits.len();
            head.recorder
                .rows(position, Op::Logits, &self.logits, vocab);
        }
        self.last = Last::Logits;
    }
}

/// Tokens a lane gets of the first block of `tokens` tokens.
fn lane_share(tokens: usize, lanes: usize) -> usize {
    tokens.div_ceil(lanes).min(LANE_TOKENS)
}

/// Runs every lane on its own thread, or a single lane with the pool at its disposal.
fn each_lane(plan: &Plan, lanes: &mut [Lane], f: impl Fn(&mut Lane, Option<&Pool>) + Sync) {
    match lanes {
        [lane] => f(lane, Some(&plan.pool)),
        _ => plan
            .pool
            .chunks_mut(lanes, 1, |_, lane| f(&mut lane[0], None)),
    }
}

impl Session for CpuSession {
    fn config(&self) -> &Config {
        self.plan.model.config()
    }

    fn position(&self) -> usize {
        self.position
    }

    fn feed(&mut self, tokens: &[u32]) -> Result<(), Error> {
        self.admit(tokens)?;
        self.feed_blocks::<false>(tokens, &mut |_, _, _| {}, &mut |_| {}, |_, _| {});
        Ok(())
    }

    fn feed_traced(&mut self, tokens: &[u32], sink: TraceSink<'_>) -> Result<(), Error> {
        self.admit(tokens)?;
        self.feed_blocks::<false>(tokens, sink, &mut |_| {}, |_, _| {});
        Ok(())
    }

    fn feed_probed(&mut self, tokens: &[u32], sink: ProbeSink<'_>) -> Result<(), Error> {
        self.admit(tokens)?;
        let share = lane_share(tokens.len(), self.lanes.len());
        for lane in &mut self.lanes {
            lane.recorder.reserve(self.plan.model.config(), share)?;
        }
        self.feed_blocks::<true>(tokens, &mut |_, _, _| {}, sink, |_, _| {});
        Ok(())
    }

    fn feed_all_logits(&mut self, tokens: &[u32], sink: LogitsSink<'_>) -> Result<(), Error> {
        self.admit(tokens)?;
        let vocab = self.config().vocab();
        let most = (HEAD_TOKENS * self.lanes.len()).min(tokens.len());
        let (mut input, mut logits) = (
            std::mem::take(&mut self.head_input),
            std::mem::take(&mut self.all_logits),
        );
        let reserved = input
            .reserve(self.plan.model.config(), most)
            .and_then(|()| grow(&mut logits, most * vocab, "logits"));
        if reserved.is_ok() {
            self.feed_blocks::<false>(tokens, &mut |_, _, _| {}, &mut |_| {}, |plan, lanes| {
                let rows: Vec<(usize, &[i32])> = lanes
                    .iter()
                    .flat_map(|lane| {
                        (0..lane.tokens).map(move |t| (lane.first + t, lane.residual(plan, t)))
                    })
                    .collect();
                for rows in rows.chunks(most) {
                    all_logits(plan, rows, &mut input, &mut logits[..rows.len() * vocab]);
                    for ((position, _), logits) in rows.iter().zip(logits.chunks_exact(vocab)) {
                        sink(*position, logits);
                    }
                }
            });
        }
        (self.head_input, self.all_logits) = (input, logits);
        Ok(reserved?)
    }

    fn logits(&mut self) -> Option<&[i32]> {
        if self.last == Last::None {
            return None;
        }
        if self.last == Last::Residual {
            self.compute_logits::<false>();
        }
        Some(&self.logits)
    }

    fn logits_probed(&mut self, sink: ProbeSink<'_>) -> Result<Option<&[i32]>, Fault> {
        if self.last == Last::None {
            return Ok(None);
        }
        let recorder = &mut self.head_input.recorder;
        recorder.reserve(self.plan.model.config(), 1)?;
        self.compute_logits::<true>();
        self.head_input.recorder.drain(None, sink);
        Ok(Some(&self.logits))
    }

    fn truncate(&mut self, len: usize) {
        if len < self.position {
            self.cache.truncate(len);
            self.position = len;
            self.last = Last::None;
        }
    }
}

/// The logits of several residual rows, `[rows][vocab]`, tokens split among the threads.
fn all_logits(plan: &Plan, rows: &[(usize, &[i32])], input: &mut HeadInput, logits: &mut [i32]) {
    let config = plan.model.config();
    let (n, vocab) = (config.hidden(), config.vocab());
    for (i, (position, x)) in rows.iter().enumerate() {
        input.set::<false>(plan, i, *position, x);
    }
    let share = rows.len().div_ceil(plan.pool.threads());
    let (codes, scales) = (&input.codes[..rows.len() * n], &input.scales[..rows.len()]);
    plan.pool.chunks_mut(logits, share * vocab, |i, logits| {
        let (first, tokens) = (i * share, logits.len() / vocab);
        let (codes, scales) = (
            &codes[first * n..][..tokens * n],
            &scales[first..][..tokens],
        );
        plan.linear(&plan.head(), codes, Some(scales), I31, logits, None);
    });
}
