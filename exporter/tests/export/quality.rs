//! A trained model's quality after the export, also with injected outliers.

use super::{A, B, C, bytes, folder, load, open};
use exporter::{ExportOptions, calibration, stress};
use float_engine::forward::{FloatModel, argmax};
use float_engine::source::Checkpoint;
use float_engine::tokenizer::Tokenizer;
use std::num::NonZeroUsize;

#[test]
fn stress_keeps_the_float_function() {
    for name in [A, B, C, "tiny-austen"] {
        let c = open(name);
        let ids = &calibration::random_windows(4, c.config().vocab, 1, 20)[0];
        let logits = |c: &Checkpoint| FloatModel::load(c).unwrap().logits(ids, 1).unwrap();
        let stressed = stress::inject(&c, 1).unwrap();
        let (a, b) = (logits(&c), logits(&stressed));
        let differences = a.iter().zip(&b).map(|(x, y)| (x - y).abs());
        let largest = differences.fold(0.0f32, f32::max);
        assert!(largest < 1e-3, "{name}: {largest}");
        assert!(stressed.fingerprint().unwrap() != c.fingerprint().unwrap());
    }
}

fn log_softmax(row: impl Iterator<Item = f64>) -> Vec<f64> {
    let row: Vec<f64> = row.collect();
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|v| (v - max).exp()).sum();
    row.iter().map(|v| v - max - sum.ln()).collect()
}

/// Mean KL divergence in nats and top-1 agreement with the float model.
fn compare(c: &Checkpoint, blob: &[u8], windows: &[Vec<u32>]) -> (f64, f64) {
    let (float, int) = (FloatModel::load(c).unwrap(), load(blob));
    let (mut kl, mut same, mut n) = (0.0, 0, 0);
    for w in windows {
        let expected = float.logits(w, 1).unwrap();
        let got = int.all_logits(w).unwrap();
        for (e, g) in expected.chunks(c.config().vocab).zip(&got) {
            let p = log_softmax(e.iter().map(|&v| f64::from(v)));
            let q = log_softmax(g.iter().map(|&v| f64::from(v) / 65536.0));
            kl += p
                .iter()
                .zip(&q)
                .map(|(p, q)| p.exp() * (p - q))
                .sum::<f64>();
            same += usize::from(argmax(e) == int.argmax(g));
            n += 1;
        }
    }
    (kl / f64::from(n), same as f64 / f64::from(n))
}

#[test]
fn a_trained_model_keeps_its_quality_also_with_outliers() {
    let c = open("tiny-austen");
    let tokenizer = Tokenizer::open(&folder("tiny-austen")).unwrap();
    // Four windows of the bundled text; the comparison is on text that is not in it.
    let windows: Vec<Vec<u32>> = calibration::bundled(&tokenizer, 512)
        .unwrap()
        .into_iter()
        .step_by(3)
        .collect();
    let text = std::fs::read_to_string(folder("tiny-austen/heldout.txt")).unwrap();
    let text: String = text.chars().take(20_000).collect();
    let ids = tokenizer.encode(&text).unwrap();
    let windows_of = ids.chunks_exact(128).step_by(9).take(4);
    let heldout: Vec<Vec<u32>> = windows_of.map(<[u32]>::to_vec).collect();
    assert_eq!(heldout.len(), 4);
    let options = ExportOptions::new(NonZeroUsize::new(2).unwrap(), 1536, windows);
    let stressed = stress::inject(&c, 1).unwrap();
    for (c, what) in [(c, "plain"), (stressed, "with outliers")] {
        let blob = bytes(&c, &options).unwrap();
        let (kl, agreement) = compare(&c, &blob, &heldout);
        assert!(
            kl < 0.001 && agreement > 0.95,
            "{what}: KL {kl}, agreement {agreement}"
        );
    }
}
