//! A trained model's quality after the export, also with injected outliers.

use super::{A, B, C, bytes, folder, load, open};
use exporter::quality::{Comparison, Limits};
use exporter::{ExportOptions, Scheme, calibration, stress};
use float_engine::forward::FloatModel;
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

fn compare(c: &Checkpoint, blob: &[u8], windows: &[Vec<u32>]) -> Comparison {
    let (float, int) = (FloatModel::load(c).unwrap(), load(blob));
    let mut comparison = Comparison::default();
    for w in windows {
        let got = int.all_logits(w).unwrap();
        let mut add = |t: usize, e: &[f32]| comparison.add(e, &got[t], w.get(t + 1).copied());
        float.logits_each(w, 1, &mut add).unwrap();
    }
    comparison
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
    let mut options = ExportOptions::new(NonZeroUsize::new(2).unwrap(), 1536, windows);
    let stressed = stress::inject(&c, 1).unwrap();
    for (c, what) in [(c, "plain"), (stressed, "with outliers")] {
        let blob = bytes(&c, &options).unwrap();
        let found = compare(&c, &blob, &heldout);
        assert!(
            found.kl_mean() < 0.001 && found.top1_agreement() > 0.95,
            "{what}: {found:?}"
        );
        options.scheme = Scheme::Static;
        let blob = bytes(&c, &options).unwrap();
        let found = compare(&c, &blob, &heldout);
        let limits = Limits::of(Scheme::Static);
        assert!(
            found.kl_mean() <= limits.kl_mean && found.top1_agreement() >= limits.top1_agreement,
            "{what}, static: {found:?}"
        );
        options.scheme = Scheme::Dynamic;
    }
}
