//! The products with the weights alone: the engine's matrices, its kernels and as many threads, nothing between.

use std::num::NonZeroUsize;

use int_engine::buffer::Buffer;
use int_engine::kernels::operands::{Form, Inputs, Out};
use int_engine::kernels::{Kernels, PANEL};
use int_engine::tiles::{TILE, View};

use crate::Error;
use crate::expected::check;
use crate::figures::{Key, What, Work};
use crate::limits::{Crew, together};
use crate::rounds::Contender;
use crate::subject::{Subject, products};

/// Tokens of the two measurements, and how often a sample makes all products.
const SIZES: [(usize, usize); 2] = [(1, 16), (128, 1)];

/// Matrices that read the same inputs.
struct Step<'a> {
    views: Vec<View<'a>>,
    /// Rows of all, each filled up to whole tiles: the threads' shares are of these.
    rows: usize,
    cols: usize,
}

impl<'a> Step<'a> {
    fn new(views: Vec<View<'a>>) -> Self {
        Self {
            rows: views.iter().map(|v| v.rows().next_multiple_of(TILE)).sum(),
            cols: views.first().map_or(0, |v| v.cols()),
            views,
        }
    }
}

fn steps(subject: &Subject) -> Vec<Step<'_>> {
    let layers = subject.model.layers().iter().flat_map(products);
    let layers = layers.map(|matrices| matrices.iter().map(|m| m.weight.view()).collect());
    let head = std::iter::once(vec![subject.model.head_weight().view()]);
    layers.chain(head).map(Step::new).collect()
}

/// Packed random inputs for each number of columns.
struct Operands {
    form: Form,
    tokens: usize,
    packed: Vec<(usize, Buffer)>,
}

impl Operands {
    fn new(steps: &[Step<'_>], tokens: usize, kernels: &Kernels) -> Result<Self, Error> {
        let form = (kernels.form)(tokens);
        let mut packed: Vec<(usize, Buffer)> = Vec::new();
        for step in steps {
            if packed.iter().any(|(cols, _)| *cols == step.cols) {
                continue;
            }
            let codes: Vec<i8> = (0..(tokens * step.cols) as u32)
                .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as i8)
                .map(|code| code.max(-127))
                .collect();
            let mut memory = Buffer::default();
            memory.grow(form.len(tokens, step.cols), "inputs")?;
            let _ = Inputs::pack(&codes, step.cols, form, memory.bytes_mut());
            packed.push((step.cols, memory));
        }
        Ok(Self {
            form,
            tokens,
            packed,
        })
    }

    fn of(&self, cols: usize) -> Option<Inputs<'_>> {
        let (_, memory) = self.packed.iter().find(|(known, _)| *known == cols)?;
        Some(Inputs::packed(self.tokens, cols, self.form, memory.bytes()))
    }
}

/// Makes all products `times` times. Returns the seconds and a sum: of the last step's outputs, or of all.
fn multiply(
    kernels: &Kernels,
    steps: &[Step<'_>],
    operands: &Operands,
    threads: usize,
    times: usize,
    sum_all: bool,
) -> (f64, i64) {
    let crew = Crew::new(threads);
    let most = steps.iter().flat_map(|s| &s.views).map(|v| v.rows()).max();
    // The head reads one token; a layer's matrices have fewer rows.
    let widest = most.unwrap_or(0).max(PANEL * operands.tokens);
    let (seconds, sums) = together(threads, |t| {
        let mut memory = vec![0i32; widest];
        let mut sum = 0i64;
        for time in 0..times {
            for (i, step) in steps.iter().enumerate() {
                let is_head = i + 1 == steps.len();
                let Some(inputs) = operands.of(step.cols) else {
                    continue;
                };
                // After a prompt only its last token meets the head.
                if is_head && operands.tokens > 1 {
                    break;
                }
                let wanted = sum_all || (time + 1 == times && i + 2 >= steps.len());
                let grain = if operands.tokens == 1 { TILE } else { PANEL };
                let share = step.rows.div_ceil(threads).next_multiple_of(grain);
                let mine = t * share..(t + 1) * share;
                let mut before = 0;
                for view in &step.views {
                    let first = mine.start.clamp(before, before + view.rows()) - before;
                    let last = mine.end.clamp(before, before + view.rows()) - before;
                    before += view.rows().next_multiple_of(TILE);
                    let panel = if operands.tokens == 1 {
                        (last - first).max(1)
                    } else {
                        PANEL
                    };
                    for start in (first..last).step_by(panel) {
                        let rows = panel.min(last - start);
                        let out = &mut memory[..rows * operands.tokens];
                        let part = view.part(start..start + rows);
                        (kernels.gemm)(part, inputs, Out::new(out, rows));
                        if wanted {
                            sum += out.iter().map(|&v| i64::from(v)).sum::<i64>();
                        }
                    }
                }
                crew.meet();
            }
        }
        sum
    });
    (seconds, sums.into_iter().sum())
}

/// Adds the products of one token and of a prompt, with the fastest kernels and with those of 512-bit vectors, to whose
/// peak the prompt's are compared on every machine that has them.
pub(super) fn contenders<'a>(
    subject: &'a Subject,
    threads: NonZeroUsize,
    all: &mut Vec<Contender<'a>>,
) -> Result<(), Error> {
    let threads = threads.get();
    let mut sets = vec![Kernels::detect()];
    sets.extend(
        Kernels::by_name("avx512")
            .ok()
            .filter(|set| set.name != sets[0].name),
    );
    let present = Kernels::all()
        .into_iter()
        .rev()
        .filter_map(|(_, kernels)| kernels);
    let others: Vec<&Kernels> = present
        .filter(|k| sets.iter().all(|s| s.name != k.name))
        .collect();
    let other = others.first().copied().unwrap_or(sets[0]);
    for (tokens, times) in SIZES {
        let inputs = Operands::new(&steps(subject), tokens, other)?;
        let sum = |all| multiply(other, &steps(subject), &inputs, threads, 1, all).1;
        let (of_all, of_last) = (sum(true), sum(false));
        for &kernels in &sets {
            let steps = steps(subject);
            let operands = Operands::new(&steps, tokens, kernels)?;
            let key = Key {
                what: What::Products,
                subject: subject.name.clone(),
                engine: kernels.name.into(),
                threads,
                size: tokens,
            };
            let name = key.to_string();
            let (_, found) = multiply(kernels, &steps, &operands, threads, 1, true);
            check(&name, found, of_all)?;
            let head = if tokens == 1 {
                subject.head_weights()
            } else {
                0.0
            };
            let weights = subject.layer_weights() + head;
            let passes = times as f64;
            let work = Work {
                tokens: passes * tokens as f64,
                bytes: passes * weights,
                operations: 2.0 * passes * tokens as f64 * weights,
            };
            all.push(Contender::new(key, work, move |watch| {
                let found =
                    watch.measure(|| multiply(kernels, &steps, &operands, threads, times, false));
                check(&name, found, of_last)
            }));
        }
    }
    Ok(())
}
