//! Several sessions in one step, answers checked and drafted, prefixes shared: always what one plain session gives.

#[path = "../sample/mod.rs"]
mod sample;

mod batch;
mod greedy;
mod prefix;
mod speculate;
mod verify;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use int_engine::config::{Config, Dims, Scheme};
use int_engine::engine::{CpuEngine, Engine, Generation, Session, generate, logits_digest};
use int_engine::kernels::Kernels;
use int_engine::model::Model;

fn dims() -> Dims {
    Dims {
        scheme: Scheme::Dynamic,
        hidden: 60,
        layers: 2,
        heads: 6,
        kv_heads: 2,
        head_dim: 20,
        intermediate: 104,
        vocab: 131,
        accepted_ids: 120,
        max_context: 300,
        qk_norm: false,
        tied: true,
        eps: 12345,
        stop_ids: vec![],
    }
}

fn model(dims: Dims) -> Arc<Model> {
    let blob = sample::sample(&Config::new(dims).unwrap(), 7);
    Arc::new(Model::from_bytes(&blob).unwrap())
}

fn engine(model: &Arc<Model>, kernels: &'static Kernels, threads: usize) -> CpuEngine {
    let threads = NonZeroUsize::new(threads).unwrap();
    CpuEngine::new(Arc::clone(model), kernels, threads)
}

/// Every backend of this machine with 1, 2 and 5 threads.
fn engines(model: &Arc<Model>) -> Vec<CpuEngine> {
    let mut all = Vec::new();
    for (name, kernels) in Kernels::all() {
        match kernels {
            None => println!("SKIP {name}: this machine lacks it"),
            Some(kernels) => all.extend([1, 2, 5].map(|threads| engine(model, kernels, threads))),
        }
    }
    all
}

/// Accepted ids that look like no other row of them.
fn tokens(n: usize, seed: u32) -> Vec<u32> {
    let id = |i: u32| (i * i * 31 + i * (7 + seed) + 3 * seed) % 120;
    (0..n as u32).map(id).collect()
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
