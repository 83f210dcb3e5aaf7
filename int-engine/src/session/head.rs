//! From residual rows to logits, or to the largest of them (spec 3.4).

use super::attend::grow;
use super::plan::{Plan, Product};
use crate::buffer::Buffer;
use crate::config::Config;
use crate::halt::{Fault, try_reserve};
use crate::kernels::Kernels;
use crate::kernels::operands::{Inputs, Out};
use crate::ops::fixed::{I31, bit_length, bit_length_64};
use crate::ops::hadamard::Direction;
use crate::ops::ratio::{TokenScale, ratio};
use crate::ops::rms::{alignment, root};
use crate::pool::lock;
use crate::probe::{Op, Recorder};
use std::sync::Mutex;

/// Rows of the head whose logits one thread holds at a time when only the largest is wanted: whole panels.
const ROWS: usize = 48;
/// The same for a single token.
const ROWS_OF_ONE: usize = 1024;
/// Parts of the ids for each thread, so that one delayed thread costs less than its share.
const PARTS: usize = 32;

/// The head's quantised inputs and the memory to make them.
#[derive(Debug, Default)]
pub(super) struct Head {
    tokens: usize,
    /// `[tokens][hidden]`.
    codes: Vec<i8>,
    /// The same, packed.
    packed: Buffer,
    /// `[tokens]`.
    scales: Vec<TokenScale>,
    wide: Vec<i64>,
    row: Vec<i32>,
    /// Logits of some rows of the head, `[tokens][rows]`: one for each thread that searches.
    logits: Mutex<Vec<Vec<i32>>>,
    /// The largest logits of each part of the ids, `[parts][tokens]`.
    best: Vec<Best>,
    /// The last result of [`Head::greedy`].
    ids: Vec<u32>,
    pub(super) recorder: Recorder,
}

/// The largest logit seen so far and its id, the lowest of equals.
#[derive(Clone, Copy, Debug)]
struct Best {
    logit: i32,
    id: u32,
}

const NOTHING: Best = Best {
    logit: i32::MIN,
    id: 0,
};

impl Best {
    /// Takes logits of consecutive ids, all above those seen before.
    fn take(&mut self, kernels: &Kernels, first: usize, logits: &[i32]) {
        let largest = (kernels.largest)(logits);
        if largest > self.logit {
            let at = logits.iter().position(|&v| v == largest).unwrap_or(0);
            *self = Self {
                logit: largest,
                id: (first + at) as u32,
            };
        }
    }
}

impl Head {
    /// Makes room for `tokens` tokens and forgets those that it held.
    pub(super) fn begin(&mut self, config: &Config, tokens: usize) -> Result<(), Fault> {
        let (n, what) = (config.hidden(), "the head's input");
        self.tokens = 0;
        grow(&mut self.codes, tokens * n, what)?;
        self.packed.grow(Inputs::room(tokens, n), what)?;
        grow(&mut self.scales, tokens, what)?;
        grow(&mut self.wide, n, what)?;
        grow(&mut self.row, n, what)
    }

    /// Forgets the tokens that it held.
    pub(super) fn clear(&mut self) {
        self.tokens = 0;
    }

    /// Adds the input of a position's residual row.
    pub(super) fn push<const PROBED: bool>(&mut self, plan: &Plan, position: usize, x: &[i32]) {
        let n = x.len();
        let (kernels, hadamard) = (plan.kernels, &plan.hidden_hadamard);
        let (wide, y) = (&mut self.wide[..n], &mut self.row[..n]);
        let m = (kernels.max_abs)(x);
        let sh = alignment(m);
        let (r, e) = root((kernels.sum_squares)(x, sh), sh, plan.model.config().eps());
        // headroom(B) keeps each rotation below 2^31.
        let s1 = bit_length(m).saturating_sub(hadamard.headroom());
        y.copy_from_slice(x);
        (kernels.round_shift)(y, s1, I31);
        hadamard.apply(y, Direction::Transpose, kernels.butterflies);
        if PROBED {
            self.recorder.rows(position, Op::HeadUnrotate, y, n);
        }
        let largest = (kernels.apply_gain)(y, plan.model.final_gain(), wide);
        if PROBED {
            let values = wide.iter().copied();
            self.recorder.record(position, Op::HeadGain, values);
        }
        let s2 = bit_length_64(largest).saturating_sub(hadamard.headroom());
        (kernels.narrow)(wide, s2, y);
        hadamard.apply(y, Direction::Forward, kernels.butterflies);
        let codes = &mut self.codes[self.tokens * n..][..n];
        let m = plan.dynq(y, codes);
        let mut scale = ratio(m, r, e);
        scale.exponent -= (s1 + s2) as i32;
        self.scales[self.tokens] = scale;
        self.tokens += 1;
        if PROBED {
            self.recorder.rows(position, Op::HeadRotate, y, n);
            self.recorder.codes(position, Op::HeadQuant, codes, scale);
        }
    }

    /// The logits of every token that was pushed, `[tokens][vocab]`.
    pub(super) fn logits(&mut self, plan: &Plan, logits: &mut [i32]) {
        let (n, tokens) = (plan.model.config().hidden(), self.tokens);
        let inputs = plan.pack(&self.codes[..tokens * n], n, self.packed.bytes_mut());
        plan.products(
            inputs,
            [Product {
                matrix: plan.head(),
                scales: Some(&self.scales[..tokens]),
                limit: I31,
                out: Out::new(logits, plan.model.config().vocab()),
            }],
        );
    }

    /// Makes room for [`Head::greedy`] of at most `tokens` tokens, and for their inputs.
    pub(super) fn reserve_greedy(&mut self, plan: &Plan, tokens: usize) -> Result<(), Fault> {
        self.begin(plan.model.config(), tokens)?;
        let (what, threads) = ("logits", plan.pool.threads());
        let mut logits = lock(&self.logits);
        if logits.len() < threads {
            logits.resize_with(threads, Vec::new);
        }
        for logits in &mut *logits {
            grow(logits, ROWS_OF_ONE.max(ROWS * tokens), what)?;
        }
        drop(logits);
        try_reserve(&mut self.best, PARTS * threads * tokens, what)?;
        try_reserve(&mut self.ids, tokens, what)
    }

    /// The accepted id with the largest logit of every token that was pushed, the lowest of equals.
    ///
    /// [`Head::reserve_greedy`] has made room for them.
    pub(super) fn greedy(&mut self, plan: &Plan) -> &[u32] {
        let (config, tokens) = (plan.model.config(), self.tokens);
        let (n, accepted) = (config.hidden(), config.accepted_ids());
        let rows = if tokens == 1 { ROWS_OF_ONE } else { ROWS };
        let inputs = plan.pack(&self.codes[..tokens * n], n, self.packed.bytes_mut());
        let scales = &self.scales[..tokens];
        let parts = PARTS * plan.pool.threads();
        let len = accepted.div_ceil(parts).next_multiple_of(ROWS);
        let parts = accepted.div_ceil(len);
        self.best.clear();
        self.best.resize(parts * tokens, NOTHING);
        let memory = &self.logits;
        plan.pool
            .chunks_mut(&mut self.best, tokens.max(1), |part, best| {
                let end = accepted.min((part + 1) * len);
                let mut logits = lock(memory).pop().expect("one for each thread");
                for first in (part * len..end).step_by(rows) {
                    let last = end.min(first + rows);
                    let logits = &mut logits[..tokens * (last - first)];
                    let mut out = Out::new(logits, last - first);
                    let matrix = plan.head().part(first..last);
                    matrix.product(plan, inputs, Some(scales), I31, &mut out);
                    for (t, best) in best.iter_mut().enumerate() {
                        best.take(plan.kernels, first, out.token(t));
                    }
                }
                lock(memory).push(logits);
            });
        self.ids.clear();
        self.ids.extend((0..tokens).map(|t| {
            let better = |a: Best, b: Best| if b.logit > a.logit { b } else { a };
            let found = self.best.iter().skip(t).step_by(tokens).copied();
            found.fold(NOTHING, better).id
        }));
        &self.ids
    }
}
