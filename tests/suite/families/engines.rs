//! Engines of every backend on random models.

use crate::random_blob::{RandomBlob, Shape, Style, build};
use int_engine::engine::{CpuEngine, Engine, Session};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use std::num::NonZeroUsize;
use std::sync::Arc;

pub(crate) const THREADS: [usize; 3] = [1, 2, 5];

/// The backends that this machine has.
pub(crate) fn backends() -> Vec<&'static Kernels> {
    Kernels::all()
        .into_iter()
        .filter_map(|(_, kernels)| kernels)
        .collect()
}

/// One engine for each backend and number of threads, with what it is called in messages.
pub(crate) fn engines(bytes: &[u8]) -> Vec<(String, CpuEngine)> {
    let model = Arc::new(Model::from_bytes(bytes).expect("a valid blob"));
    let mut engines = Vec::new();
    for kernels in backends() {
        for threads in THREADS {
            let engine = CpuEngine::new(
                Arc::clone(&model),
                kernels,
                NonZeroUsize::new(threads).unwrap(),
            );
            engines.push((format!("{}, {threads} threads", kernels.name), engine));
        }
    }
    engines
}

/// Feeds in chunks of `chunk` tokens and returns the logits of every position.
pub(crate) fn all_logits(session: &mut dyn Session, tokens: &[u32], chunk: usize) -> Vec<Vec<i32>> {
    let mut found = Vec::new();
    for part in tokens.chunks(chunk) {
        let first = found.len();
        let sink = &mut |position: usize, logits: &[i32]| {
            assert_eq!(position, found.len());
            found.push(logits.to_vec());
        };
        session
            .feed_all_logits(part, sink)
            .expect("accepted ids within the context");
        assert_eq!(found.len(), first + part.len());
    }
    found
}

/// A session of a new engine's.
pub(crate) fn session(engine: &CpuEngine) -> Box<dyn Session> {
    engine.session().expect("memory")
}

/// A blob and the reference's model of it.
pub(crate) fn model(shape: &Shape, style: Style, seed: u64) -> (RandomBlob, int_reference::Model) {
    let blob = build(shape, style, seed);
    let reference = int_reference::Model::from_blob(&blob.bytes).expect("a valid blob");
    (blob, reference)
}
