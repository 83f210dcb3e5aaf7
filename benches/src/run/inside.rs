//! What a decode step does besides its products, by clocks inside the step.
//!
//! The engine runs on a table of kernels whose products note when they begin and end; everything else of it, threads and
//! order and memory, is as always.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use int_engine::engine::{CpuEngine, Engine};
use int_engine::kernels::Kernels;
use int_engine::kernels::operands::{Inputs, Out, Values};
use int_engine::tiles::View;

use super::model::DECODED;
use crate::Error;
use crate::expected::{check, decode};
use crate::figures::{Key, OUTSIDE, What, Work};
use crate::rounds::Contender;
use crate::subject::Subject;

/// The context after which the step is looked into.
pub(super) const CONTEXT: usize = 256;

/// The kernels whose products are timed, and the columns of what is no weight matrix: a head's keys.
static INNER: OnceLock<(&'static Kernels, usize)> = OnceLock::new();

/// Begin and end of every product since the list was emptied.
static SPANS: Mutex<Vec<(Instant, Instant)>> = Mutex::new(Vec::new());

/// Tests that note products take turns.
#[cfg(test)]
pub(super) static ALONE: Mutex<()> = Mutex::new(());

fn spans() -> MutexGuard<'static, Vec<(Instant, Instant)>> {
    SPANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes when `f` began and ended.
fn noted(f: impl FnOnce()) {
    let begin = Instant::now();
    f();
    let end = Instant::now();
    spans().push((begin, end));
}

/// Products with weights are noted, and with `ALL` those with keys.
fn gemm<const ALL: bool>(weights: View<'_>, inputs: Inputs<'_>, out: Out<'_>) {
    let Some(&(kernels, head_dim)) = INNER.get() else {
        return;
    };
    if !ALL && weights.cols() == head_dim {
        return (kernels.gemm)(weights, inputs, out);
    }
    noted(|| (kernels.gemm)(weights, inputs, out));
}

fn weighted_sum(weights: &[u16], values: Values<'_>, sums: &mut [i64]) {
    if let Some((kernels, _)) = INNER.get() {
        noted(|| (kernels.weighted_sum)(weights, values, sums));
    }
}

/// The fastest kernels with clocks around their products with weights, and around all; `None` when a model of other head
/// sizes has them, or one whose weight matrices cannot be told from keys.
fn timed(subject: &Subject) -> Option<&'static [Kernels; 2]> {
    let config = subject.model.config();
    let head_dim = config.head_dim();
    if [config.hidden(), config.q_width(), config.intermediate()].contains(&head_dim) {
        return None;
    }
    let &(inner, known) = INNER.get_or_init(|| (Kernels::detect(), head_dim));
    static TIMED: OnceLock<[Kernels; 2]> = OnceLock::new();
    (known == head_dim).then(|| {
        TIMED.get_or_init(|| {
            let weights = Kernels {
                gemm: gemm::<false>,
                ..*inner
            };
            let all = Kernels {
                gemm: gemm::<true>,
                weighted_sum,
                ..*inner
            };
            [weights, all]
        })
    })
}

/// Of `seconds` on `threads` threads: what is outside of the spans on the mean thread, and what is outside of all.
fn outside(seconds: f64, threads: usize, mut spans: Vec<(Instant, Instant)>) -> (f64, f64) {
    let busy: Duration = spans.iter().map(|(begin, end)| *end - *begin).sum();
    spans.sort_unstable();
    let (mut any, mut last) = (Duration::ZERO, None);
    for (begin, end) in spans {
        let from = last.map_or(begin, |last| begin.max(last));
        any += end.saturating_duration_since(from);
        last = Some(last.map_or(end, |last: Instant| last.max(end)));
    }
    (
        seconds - busy.as_secs_f64() / threads as f64,
        seconds - any.as_secs_f64(),
    )
}

/// Adds the time of a decode step outside products: [`OUTSIDE`].
pub(super) fn contenders<'a>(
    subject: &'a Subject,
    threads: NonZeroUsize,
    all: &mut Vec<Contender<'a>>,
) -> Result<(), Error> {
    let Some([weights, every]) = timed(subject) else {
        return Ok(());
    };
    let first = subject.token_at(CONTEXT);
    let plain = CpuEngine::new(subject.model.clone(), Kernels::detect(), threads);
    let mut session = plain.session()?;
    session.feed(&subject.prompt(CONTEXT))?;
    let expected = decode(&mut *session, first, DECODED)?;
    let tables = [weights, weights, every, every];
    for (what, kernels) in OUTSIDE.into_iter().zip(tables) {
        let engine = CpuEngine::new(subject.model.clone(), kernels, threads);
        let key = Key {
            what,
            subject: subject.name.clone(),
            engine: engine.backend().to_owned(),
            threads: threads.get(),
            size: CONTEXT,
        };
        let work = Work {
            tokens: DECODED as f64,
            ..Work::default()
        };
        let (name, expected) = (key.to_string(), expected.clone());
        let mut session = engine.session()?;
        session.feed(&subject.prompt(CONTEXT))?;
        all.push(Contender::new(key, work, move |watch| {
            session.truncate(CONTEXT);
            let ids = watch.measure(|| {
                // Several times what a step of two threads notes at this context; touched here, not while a clock runs.
                *spans() = vec![(Instant::now(), Instant::now()); 1 << 18];
                spans().clear();
                let start = Instant::now();
                let ids = decode(&mut *session, first, DECODED);
                let seconds = start.elapsed().as_secs_f64();
                let spans = std::mem::take(&mut *spans());
                let (mean, none) = outside(seconds, threads.get(), spans);
                let of_mean = [What::OutsideWeightsMean, What::OutsideProductsMean].contains(&what);
                (if of_mean { mean } else { none }, ids)
            })?;
            check(&name, &ids, &expected)
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{blob, tests::small};

    #[test]
    fn every_product_is_noted() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = blob(&small(true, true)).unwrap();
        let subject = Subject::new("small", &bytes).unwrap();
        let config = subject.model.config();
        let tables = timed(&subject).unwrap();
        let [weights, all] = tables.each_ref().map(|kernels| {
            let engine = CpuEngine::new(subject.model.clone(), kernels, NonZeroUsize::MIN);
            let mut session = engine.session().unwrap();
            session.feed(&subject.prompt(70)).unwrap();
            spans().clear();
            session.feed(&subject.prompt(1)).unwrap();
            let feed = spans().len();
            let _ = session.greedy();
            (feed, spans().len() - feed)
        });
        // Keys of two pages and values for each kv head; the head has none.
        let attention = config.layers() * config.kv_heads() * 3;
        assert_eq!(all, (weights.0 + attention, weights.1));
        assert!(weights.0 >= 7 * config.layers() && weights.1 > 0);
    }

    #[test]
    fn spans_are_added_up_and_joined() {
        let zero = Instant::now();
        let span = |a, b| (zero + Duration::from_secs(a), zero + Duration::from_secs(b));
        // Two threads: 0 to 3 and 1 to 4, then one alone, then one inside the other.
        let spans = vec![span(6, 7), span(0, 3), span(1, 4), span(8, 12), span(9, 10)];
        let (mean, none) = outside(15.0, 2, spans);
        assert_eq!((mean, none), (15.0 - 12.0 / 2.0, 15.0 - 9.0));
        assert_eq!(outside(2.0, 2, vec![]), (2.0, 2.0));
    }
}
