//! Exports a checkpoint and compares the blob with the float model on windows of token ids.
//!
//! `cargo run --release -p exporter --example measure -- CHECKPOINT WINDOWS.json [SECONDARY]`: WINDOWS is a JSON array of arrays of ids; prints
//! mean KL divergence, top-1 agreement and both perplexities. Without calibration text the first windows given after
//! `--calibration FILE` are used, or seeded random ids.

use exporter::{ExportOptions, export};
use float_engine::forward::{FloatModel, argmax};
use float_engine::source::Checkpoint;
use std::num::NonZeroUsize;
use std::time::Instant;

fn windows(path: &str) -> Vec<Vec<u32>> {
    serde_json::from_str(&std::fs::read_to_string(path).expect("windows file")).expect("ids")
}

fn log_softmax(row: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let max = row.clone().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.clone().map(|v| (v - max).exp()).sum();
    row.map(|v| v - max - sum.ln()).collect()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [checkpoint, evaluation, rest @ ..] = &args[..] else {
        panic!("usage: measure CHECKPOINT WINDOWS.json [CALIBRATION.json] [THREADS]");
    };
    let checkpoint = Checkpoint::open(checkpoint.as_ref()).expect("checkpoint");
    let c = checkpoint.config().clone();
    let calibration = match rest.first() {
        Some(path) => windows(path),
        None => {
            let mut x = 1u64;
            let mut id = || {
                x = x
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                ((x >> 33) % c.vocab as u64) as u32
            };
            (0..8).map(|_| (0..64).map(|_| id()).collect()).collect()
        }
    };
    let threads = rest.get(1).map_or(2, |t| t.parse().expect("threads"));
    let options = ExportOptions::new(
        NonZeroUsize::new(threads).expect("threads"),
        c.vocab as u32,
        calibration,
    );
    let dir = std::env::temp_dir().join(format!("measure-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("folder");
    let out = dir.join("model.blob");
    let start = Instant::now();
    let report = export(&checkpoint, &out, &options, &mut ()).expect("export");
    println!("{}", report.to_text());
    println!("export took {:.1} s", start.elapsed().as_secs_f64());
    let model =
        int_reference::Model::from_blob(&std::fs::read(&out).expect("blob")).expect("a valid blob");
    std::fs::remove_dir_all(&dir).expect("folder");
    let float = FloatModel::load(&checkpoint).expect("weights");
    let (mut kl, mut same, mut n) = (0.0, 0usize, 0usize);
    let (mut nll_float, mut nll_int) = (0.0, 0.0);
    for w in windows(evaluation) {
        let expected = float.logits(&w, threads).expect("float logits");
        let got = model.all_logits(&w).expect("integer logits");
        for (t, (e, g)) in expected.chunks(c.vocab).zip(&got).enumerate() {
            let p = log_softmax(e.iter().map(|&v| f64::from(v)));
            let q = log_softmax(g.iter().map(|&v| f64::from(v) / 65536.0));
            kl += p
                .iter()
                .zip(&q)
                .map(|(p, q)| p.exp() * (p - q))
                .sum::<f64>();
            same += usize::from(argmax(e) == model.argmax(g));
            n += 1;
            if let Some(&next) = w.get(t + 1) {
                nll_float -= p[next as usize];
                nll_int -= q[next as usize];
            }
        }
        let m = (n - 1) as f64;
        println!(
            "{n} positions: mean KL {:.5}, agreement {:.2} %, perplexity {:.4} float, {:.4} integer",
            kl / n as f64,
            100.0 * same as f64 / n as f64,
            (nll_float / m).exp(),
            (nll_int / m).exp()
        );
    }
}
