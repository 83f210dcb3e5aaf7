// A small model and engines of it. Tests include this file as it is, so it has no inner attributes.

use int_engine::config::{Config, Dims, Scheme};
use int_engine::engine::CpuEngine;
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use std::num::NonZeroUsize;
use std::sync::Arc;

#[path = "../sample/mod.rs"]
mod sample;

/// Widths that are no multiple of a vector, a Paley factor in the residual's rotation, three heads a group.
pub(crate) fn dims() -> Dims {
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

pub(crate) fn blob(dims: Dims) -> Vec<u8> {
    sample::sample(&Config::new(dims).unwrap(), 7)
}

pub(crate) fn model(dims: Dims) -> Arc<Model> {
    Arc::new(Model::from_bytes(&blob(dims)).unwrap())
}

pub(crate) fn engine(model: &Arc<Model>, kernels: &'static Kernels, threads: usize) -> CpuEngine {
    let threads = NonZeroUsize::new(threads).unwrap();
    CpuEngine::new(Arc::clone(model), kernels, threads)
}

/// The kernels of this machine.
pub(crate) fn backends() -> impl Iterator<Item = &'static Kernels> {
    Kernels::all().into_iter().filter_map(|(name, kernels)| {
        if kernels.is_none() {
            println!("SKIP {name}: this machine lacks it");
        }
        kernels
    })
}

/// Accepted ids that look like no other row of them.
pub(crate) fn tokens(n: usize, seed: u32) -> Vec<u32> {
    let id = |i: u32| (i * i * 31 + i * (7 + seed) + 3 * seed) % 120;
    (0..n as u32).map(id).collect()
}
