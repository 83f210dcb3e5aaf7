//! What every session of an engine shares, and the products with its matrices.

use crate::config::Scheme;
use crate::kernels::operands::{Form, Inputs, Out};
use crate::kernels::{Kernels, PANEL, prefetch};
use crate::model::{Linear, Model};
use crate::ops::dynq::clamp;
use crate::ops::fixed::bit_length;
use crate::ops::hadamard::Hadamard;
use crate::ops::ratio::TokenScale;
use crate::ops::requantize::Channels;
use crate::pool::Pool;
use crate::tiles::{TILE, View};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::pass::Pass;

/// Bytes that a waiting thread fetches between looks at whether it must wait on.
const FETCH: usize = 4096;

/// A model with what every session of an engine shares.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) model: Arc<Model>,
    pub(crate) kernels: &'static Kernels,
    pub(super) pool: Pool,
    /// Of the residual (head only).
    pub(super) hidden_hadamard: Hadamard,
    /// Of each q and k head.
    pub(super) head_hadamard: Hadamard,
    /// Of the down projection's input.
    pub(super) mlp_hadamard: Hadamard,
    /// r3 of spec 3.3: the smallest r with 4^r >= the block of `head_hadamard`.
    pub(super) head_shift: u32,
    /// Memory of a pass that has ended.
    spare: Mutex<Option<Box<Pass>>>,
}

/// A weight matrix with its requantisation.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) weight: View<'a>,
    mult: &'a [i32],
    shift: &'a [i8],
    /// Minus psh, 0 to 5.
    left: u32,
}

impl<'a> Matrix<'a> {
    pub(super) fn of(w: &'a Linear) -> Self {
        Self {
            weight: w.weight.view(),
            mult: &w.mult,
            shift: &w.shift,
            left: w.pre_shift.unsigned_abs(),
        }
    }
}

/// A matrix product and where it goes.
pub(super) struct Product<'a> {
    pub(super) matrix: Matrix<'a>,
    /// One per token, or none.
    pub(super) scales: Option<&'a [TokenScale]>,
    /// Where the destination saturates.
    pub(super) limit: i32,
    /// `[tokens][rows]`.
    pub(super) out: Out<'a>,
}

/// Some rows of a product.
struct Part<'a> {
    matrix: Matrix<'a>,
    scales: Option<&'a [TokenScale]>,
    limit: i32,
    out: Out<'a>,
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
            spare: Mutex::default(),
        }
    }

    pub(super) fn head(&self) -> Matrix<'_> {
        let head = self.model.head();
        Matrix {
            weight: self.model.head_weight().view(),
            mult: &head.mult,
            shift: &head.shift,
            left: head.pre_shift.unsigned_abs(),
        }
    }

    /// The memory of a pass that has ended, or new memory.
    pub(super) fn take_pass(&self) -> Box<Pass> {
        crate::pool::lock(&self.spare).take().unwrap_or_default()
    }

    /// Keeps the memory of a pass for the next one. One is enough for passes that follow each other.
    pub(super) fn give_back(&self, pass: Box<Pass>) {
        *crate::pool::lock(&self.spare) = Some(pass);
    }

    /// Spec 1.5 with this plan's kernels.
    pub(super) fn dynq(&self, u: &[i32], q: &mut [i8]) -> u32 {
        let m = (self.kernels.max_abs)(u);
        (self.kernels.quantize)(u, m, q);
        m
    }

    /// The codes of a row by its own largest magnitude, or by `fixed`, to which the row is then clamped (spec 1.5);
    /// returns the magnitude used.
    pub(super) fn quantize_input(&self, u: &mut [i32], fixed: Option<u32>, q: &mut [i8]) -> u32 {
        let Some(m) = fixed else {
            return self.dynq(u, q);
        };
        clamp(u, m);
        (self.kernels.quantize)(u, m, q);
        m
    }

    /// Packs codes, `[tokens][cols]`, into `memory`.
    pub(super) fn pack<'a>(&self, codes: &[i8], cols: usize, memory: &'a mut [i8]) -> Inputs<'a> {
        let tokens = codes.len() / cols;
        let form = (self.kernels.form)(tokens);
        let block = form.block();
        if tokens <= block {
            return Inputs::pack(codes, cols, form, memory);
        }
        let used = &mut memory[..form.len(tokens, cols)];
        self.pool
            .chunks_mut(used, form.len(block, cols), |i, packed| {
                let first = i * block;
                let last = tokens.min(first + block);
                form.pack_block(&codes[first * cols..last * cols], cols, packed);
            });
        Inputs::packed(tokens, cols, form, memory)
    }

    /// How matrices of `rows` rows are split over the threads for `tokens` inputs: which matrix, and which of its rows, in
    /// the order in which threads claim parts. A thread's own are its share of every matrix: what it makes of several is
    /// for the same heads or channels. Parts of a matrix follow each other, and all but its last are whole tiles.
    fn parts<const N: usize>(&self, rows: [usize; N], tokens: usize) -> Vec<(usize, Range<usize>)> {
        // Several parts a thread, so that the threads end together.
        let (parts, grain) = match (tokens, (self.kernels.form)(tokens)) {
            (1, _) => (16, TILE),
            (_, Form::Blocks { .. }) => (6, PANEL),
            (_, Form::Tiles) => (8, 2 * TILE),
        };
        let (all, threads) = (rows.iter().sum::<usize>(), self.pool.threads());
        let len = all.div_ceil(parts * threads).next_multiple_of(grain);
        let mut parts = Vec::with_capacity(all / len + N * threads);
        for thread in 0..threads {
            for (matrix, &rows) in rows.iter().enumerate() {
                let grains = rows.div_ceil(grain);
                let first = |thread| rows.min(grains * thread / threads * grain);
                let end = first(thread + 1);
                let starts = (first(thread)..end).step_by(len);
                parts.extend(starts.map(|start| (matrix, start..end.min(start + len))));
            }
        }
        parts
    }

    /// Calls `f`, which prepares the inputs of the products with `next`. When there is but one token, `f` runs on one
    /// thread, and the others fetch the rows that they will multiply.
    pub(super) fn prepare<const N: usize>(
        &self,
        tokens: usize,
        next: [&Linear; N],
        f: impl FnOnce() + Send,
    ) {
        if tokens > 1 {
            return f();
        }
        self.pool.alongside(f, |thread, done| {
            let parts = self.parts(next.map(|w| w.weight.rows()), tokens);
            let own = self.pool.own(thread, parts.len());
            for (matrix, rows) in parts[own].iter().cloned() {
                for bytes in next[matrix].weight.view().part(rows).data().chunks(FETCH) {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    prefetch(bytes);
                }
            }
        });
    }

    /// `linear` of spec 3.2 for every product, each with the same inputs; the rows of all are split over the threads.
    pub(super) fn products<const N: usize>(&self, inputs: Inputs<'_>, products: [Product<'_>; N]) {
        let rows = products.each_ref().map(|p| p.matrix.weight.rows());
        let mut products = products;
        let parts = self.parts(rows, inputs.tokens());
        let mut parts: Vec<_> = parts
            .into_iter()
            .map(|(matrix, rows)| {
                let product = &mut products[matrix];
                Part {
                    matrix: product.matrix.part(rows.clone()),
                    scales: product.scales,
                    limit: product.limit,
                    out: product.out.split_off(rows.len()),
                }
            })
            .collect();
        self.pool
            .chunks_mut(&mut parts, 1, |_, part| part[0].run(self, inputs));
    }
}

impl Part<'_> {
    fn run(&mut self, plan: &Plan, inputs: Inputs<'_>) {
        let (scales, limit) = (self.scales, self.limit);
        self.matrix
            .product(plan, inputs, scales, limit, &mut self.out);
    }
}

impl Matrix<'_> {
    /// The rows in `range`, which starts at a tile.
    pub(super) fn part(self, range: Range<usize>) -> Self {
        Self {
            weight: self.weight.part(range.clone()),
            mult: &self.mult[range.clone()],
            shift: &self.shift[range],
            left: self.left,
        }
    }

    /// `linear` of spec 3.2 on the calling thread.
    pub(super) fn product(
        self,
        plan: &Plan,
        inputs: Inputs<'_>,
        scales: Option<&[TokenScale]>,
        limit: i32,
        out: &mut Out<'_>,
    ) {
        let (kernels, rows) = (plan.kernels, out.rows());
        let channels = Channels {
            mult: self.mult,
            shift: self.shift,
            left: self.left,
            limit,
        };
        let out = out.part(0..rows);
        (kernels.linear)(kernels, self.weight, inputs, scales, channels, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lack::small::{dims, model};
    use std::num::NonZeroUsize;

    #[test]
    fn parts_are_all_rows_once_and_each_thread_has_its_share() {
        for threads in [1, 2, 3, 5, 8] {
            let pool = Pool::new(NonZeroUsize::new(threads).unwrap());
            let threads = pool.threads();
            let plan = Plan::new(model(dims()), Kernels::scalar(), pool);
            for rows in [[2048, 1024, 1024], [576, 192, 192], [16, 1, 33], [1, 1, 1]] {
                for tokens in [1, 2, 128] {
                    let parts = plan.parts(rows, tokens);
                    for (matrix, &rows) in rows.iter().enumerate() {
                        let mut next = 0;
                        for (_, part) in parts.iter().filter(|(m, _)| *m == matrix) {
                            assert!(part.start == next && part.start % TILE == 0, "{part:?}");
                            assert!(!part.is_empty());
                            next = part.end;
                        }
                        assert_eq!(next, rows, "{threads} threads, {tokens} tokens");
                    }
                    let owned = (0..threads).flat_map(|t| plan.pool.own(t, parts.len()));
                    assert!(owned.eq(0..parts.len()));
                }
            }
            // Heads of 128 channels, two queries for a key: a thread's queries are those of its keys and values.
            if 8 % threads == 0 {
                let parts = plan.parts([2048, 1024, 1024], 1);
                for thread in 0..threads {
                    for (matrix, rows) in &parts[plan.pool.own(thread, parts.len())] {
                        let all = [2048, 1024, 1024][*matrix];
                        let share = all / threads * thread..all / threads * (thread + 1);
                        assert!(share.start <= rows.start && rows.end <= share.end);
                    }
                }
            }
        }
    }
}
