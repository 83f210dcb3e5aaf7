//! Prefill and decode speed on random weights of the SmolLM2-135M shape.
//!
//! `cargo run --release -p int-engine --example speed [backend] [threads] [prompt tokens] [new tokens]`

#[path = "../tests/sample/mod.rs"]
mod sample;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use int_engine::config::{Config, Dims, Scheme};
use int_engine::engine::{CpuEngine, Engine, logits_digest};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use sample::sample;

/// Layers' weights, each used once a prefilled token.
const LAYER_WEIGHTS: f64 =
    30.0 * (2.0 * 576.0 * 576.0 + 2.0 * 192.0 * 576.0 + 3.0 * 1536.0 * 576.0);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: usize| {
        args.get(i)
            .map_or(default, |a| a.parse().expect("a number"))
    };
    let kernels = match args.first() {
        Some(name) => Kernels::by_name(name).unwrap_or_else(|e| panic!("{e}")),
        None => Kernels::detect(),
    };
    let (threads, prompt, new) = (number(1, 1), number(2, 256), number(3, 64));
    let dims = Dims {
        scheme: Scheme::Dynamic,
        hidden: 576,
        layers: 30,
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        intermediate: 1536,
        vocab: 49152,
        accepted_ids: 49152,
        max_context: 8192,
        qk_norm: false,
        tied: true,
        eps: 25_000_000,
        stop_ids: vec![],
    };
    let config = Config::new(dims).expect("the shape is valid");
    let model = Arc::new(Model::from_bytes(&sample(&config, 1)).expect("a sample loads"));
    let threads = NonZeroUsize::new(threads).expect("at least one thread");
    let engine = CpuEngine::new(Arc::clone(&model), kernels, threads);
    let ids: Vec<u32> = (0..(prompt + new) as u32)
        .map(|i| i.wrapping_mul(2_654_435_761) % 49152)
        .collect();

    let mut session = engine.session().expect("memory");
    let start = Instant::now();
    session
        .feed(&ids[..prompt])
        .expect("ids within the context");
    let prefill = start.elapsed().as_secs_f64();
    let start = Instant::now();
    for id in &ids[prompt..] {
        session.feed(&[*id]).expect("ids within the context");
        session.logits();
    }
    let decode = start.elapsed().as_secs_f64();
    let digest = logits_digest(session.logits().expect("fed"));

    // The work that was timed is the right work: another chunking gives the same logits.
    let mut check = engine.session().expect("memory");
    for ids in ids.chunks(50) {
        check.feed(ids).expect("ids within the context");
    }
    assert_eq!(
        logits_digest(check.logits().expect("fed")),
        digest,
        "chunked prefill"
    );

    println!(
        "{}, {threads} thread(s): prefill of {prompt} tokens {:.1} tokens/s ({:.1} GOP/s in the layers' weights), \
         decode of {new} tokens {:.1} tokens/s",
        kernels.name,
        prompt as f64 / prefill,
        2e-9 * LAYER_WEIGHTS * prompt as f64 / prefill,
        new as f64 / decode,
    );
    println!(
        "digest {}",
        digest
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect::<String>()
    );
}
