//! Several sessions in one step, answers checked and drafted, prefixes shared: always what one plain session gives.

#[path = "../small/mod.rs"]
mod small;

mod batch;
mod faults;
mod greedy;
mod prefix;
mod speculate;
mod verify;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use int_engine::config::{Config, Dims};
use int_engine::engine::{CpuEngine, Engine, Generation, Session, generate, logits_digest};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use small::{backends, dims, engine, model, tokens};

/// Of the cases of a long test one in so many runs on machines that are tested under emulation.
const STEP: usize = if cfg!(target_arch = "x86_64") { 1 } else { 3 };

/// Every backend of this machine with 1, 2 and 5 threads.
fn engines(model: &Arc<Model>) -> Vec<CpuEngine> {
    let each = |kernels| [1, 2, 5].map(|threads| engine(model, kernels, threads));
    backends().flat_map(each).collect()
}

/// The answer of a plain session on the scalar kernels.
fn answer(model: &Arc<Model>, prompt: &[u32], max_new: usize) -> Generation {
    let mut session = engine(model, Kernels::scalar(), 1).session().unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    generate(&mut *session, prompt, max_new, go_on).unwrap()
}

/// The greedy id after every token of `tokens`, and the digests of the logits.
fn every(model: &Arc<Model>, tokens: &[u32]) -> (Vec<u32>, Vec<[u8; 32]>) {
    let mut session = engine(model, Kernels::scalar(), 1).session().unwrap();
    let step = |&id: &u32| {
        session.feed(&[id]).unwrap();
        let next = session.greedy().unwrap();
        (next, logits_digest(session.logits().unwrap()))
    };
    tokens.iter().map(step).unzip()
}

fn digest(session: &mut dyn Session) -> [u8; 32] {
    logits_digest(session.logits().expect("a fed session"))
}
