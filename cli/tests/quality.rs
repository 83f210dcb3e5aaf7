//! The trained model in integers against its float self, and the embedded blob against a new export of its checkpoint.

mod common;

use std::fs;
use std::path::Path;

use common::{blue, error_of, json_of, text_of};
use exporter::quality::Limits;
use exporter::stress;
use float_engine::source::{Checkpoint, SaveOptions};
use serde_json::Value;

/// Limits of dynamic scales on text that neither training nor calibration saw, tighter than those of any model.
const DYNAMIC: Limits = Limits {
    kl_mean: 0.002,
    top1_agreement: 0.97,
    perplexity_ratio: Some(1.002),
};

fn models(name: &str) -> String {
    format!("{}/../models/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn check(blob: &Path, source: &str, limits: &Limits) {
    let result = json_of(
        blue([
            "eval",
            "--json",
            "--max-tokens",
            "4096",
            "--against",
            source,
            "--text",
            &models("tiny-austen/heldout.txt"),
        ])
        .arg(blob),
    );
    let number = |key: &str| result[key].as_f64().unwrap();
    assert!(number("tokens") >= 4000.0, "{result}");
    assert!(number("kl_mean") <= limits.kl_mean, "{result}");
    assert!(
        number("top1_agreement") >= limits.top1_agreement,
        "{result}"
    );
    let ratio = number("perplexity_int") / number("perplexity_float");
    assert!(
        limits.perplexity_ratio.is_none_or(|limit| ratio <= limit),
        "{result}"
    );
}

#[test]
fn the_embedded_blob_is_the_export_of_its_checkpoint_and_stays_near_float() {
    let dir = tempfile::tempdir().unwrap();
    let blob = dir.path().join("blue-tiny.blob");
    text_of(blue(["export", &models("tiny-austen"), "-o"]).arg(&blob));
    for name in ["blue-tiny.blob", "blue-tiny.tokenizer.json"] {
        assert!(
            fs::read(dir.path().join(name)).unwrap()
                == fs::read(models(&format!("default/{name}"))).unwrap(),
            "models/default/{name} is out of date; run: cargo xtask bless"
        );
    }
    assert!(fs::metadata(&blob).unwrap().len() <= 4 << 20);
    check(&blob, &models("tiny-austen"), &DYNAMIC);
}

#[test]
fn static_scales_stay_within_their_own_limits() {
    let dir = tempfile::tempdir().unwrap();
    let blob = dir.path().join("static.blob");
    let source = models("tiny-austen");
    let report =
        json_of(blue(["export", &source, "--scheme", "static", "--json", "-o"]).arg(&blob));
    assert_eq!(report["scheme"], "static");
    assert_eq!(report["static_sites"].as_array().unwrap().len(), 4);
    let facts = json_of(blue(["inspect", "--json"]).arg(&blob));
    assert_eq!(facts["record"]["scheme"], "static");
    assert!(text_of(blue(["inspect"]).arg(&blob)).contains("layers.3.static"));
    check(&blob, &source, &Limits::STATIC);

    let told = error_of(
        blue(["export", &source, "--scheme", "fixed", "-o"]).arg(&blob),
        2,
    );
    assert!(told.contains("dynamic, static"), "{told}");
}

#[test]
fn outliers_do_not_hurt() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("outliers");
    let original = Checkpoint::open(Path::new(&models("tiny-austen"))).unwrap();
    stress::inject(&original, 1)
        .unwrap()
        .save_hf(&folder, &SaveOptions::default())
        .unwrap();
    fs::copy(
        models("tiny-austen/tokenizer.json"),
        folder.join("tokenizer.json"),
    )
    .unwrap();
    let source = folder.to_str().unwrap();

    // The same function: the outliers are real, and the float logits hardly move.
    let logits = |source: &str| -> Vec<f64> {
        let result: Value = json_of(&mut blue([
            "logits",
            source,
            "--tokens",
            "5,900,17,1200",
            "--json",
        ]));
        result["logits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v.as_f64().unwrap())
            .collect()
    };
    let (plain, stressed) = (logits(&models("tiny-austen")), logits(source));
    assert!(
        plain
            .iter()
            .zip(&stressed)
            .all(|(a, b)| (a - b).abs() < 1e-3)
    );
    let largest = |c: &Checkpoint| {
        c.layer(0)
            .unwrap()
            .attn_norm
            .iter()
            .fold(0f32, |m, v| m.max(v.abs()))
    };
    assert!(largest(&Checkpoint::open(&folder).unwrap()) > 20.0 * largest(&original));

    let blob = dir.path().join("outliers.blob");
    text_of(blue(["export", source, "-o"]).arg(&blob));
    check(&blob, source, &DYNAMIC);
}
