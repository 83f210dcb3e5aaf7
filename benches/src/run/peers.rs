//! Decode and prefill of other engines as contenders.

use crate::figures::{CANDLE, Key, What, Work};
use crate::peers::Running;
use crate::rounds::Contender;

use super::Group;
use super::model::DECODED;

/// Contexts and lengths at which the engines are compared; candle, whose long prompts take longer than everything else
/// together, at the first of each.
const CONTEXTS: [usize; 2] = [16, 1024];
const LENGTHS: [usize; 2] = [128, 512];
/// Positions that a peer needs.
pub(super) const MAX_CONTEXT: usize = 2048;

/// Adds the comparisons with a peer that runs the model of `subject` on `threads` threads.
pub(super) fn contenders<'a>(
    subject: &str,
    peer: &'a Running,
    threads: usize,
    groups: &[Group],
    all: &mut Vec<Contender<'a>>,
) {
    let sizes = if peer.name() == CANDLE { 1 } else { 2 };
    let mut add = |what, size, steps: usize, request: String| {
        let key = Key {
            what,
            subject: subject.to_owned(),
            engine: peer.name().to_owned(),
            threads,
            size,
        };
        let work = Work {
            tokens: steps as f64,
            bytes: 0.0,
            operations: 0.0,
        };
        all.push(Contender::new(key, work, move |watch| {
            watch.measure(|| match peer.request(&request) {
                Ok(seconds) => (seconds, Ok(())),
                Err(error) => (0.0, Err(error)),
            })
        }));
    };
    if groups.contains(&Group::Prefill) {
        for &size in &LENGTHS[..sizes] {
            add(What::Prefill, size, size, format!("prefill {size}"));
        }
    }
    if groups.contains(&Group::Decode) {
        for &size in &CONTEXTS[..sizes] {
            add(
                What::Decode,
                size,
                DECODED,
                format!("decode {size} {DECODED}"),
            );
        }
    }
}
