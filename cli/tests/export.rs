//! `blue export` and what follows from it.

mod common;

use std::fs;
use std::path::Path;

use common::{blue, error_of, json_of, run, text_of};
use serde_json::Value;

fn models(name: &str) -> String {
    format!("{}/../models/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn golden_checkpoints_export_and_their_logits_stay_close() {
    let dir = tempfile::tempdir().unwrap();
    for name in [
        "a_qwen3_tied_bf16",
        "b_qwen3_untied_f32_sharded",
        "c_llama_untied_f16",
    ] {
        let folder = models(&format!("golden/{name}"));
        let (blob, report) = (
            dir.path().join(format!("{name}.blob")),
            dir.path().join(format!("{name}.json")),
        );
        let done = json_of(
            blue(["export", &folder, "--json", "--threads", "2", "-o"])
                .arg(&blob)
                .arg("--report")
                .arg(&report),
        );
        assert_eq!(done["blob"], blob.to_str().unwrap());
        assert_eq!(done["calibration"], "random ids");
        assert!(done["tokenizer"].is_null() && done["tokenizer_config"].is_null());
        let written: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
        assert_eq!(written["commitment"], done["commitment"]);
        assert_eq!(written["calibration"], "random ids");
        let commitment = text_of(blue(["commit"]).arg(&blob));
        let commitment = commitment.trim_end();
        assert!(commitment.ends_with(done["commitment"].as_str().unwrap()));
        assert_eq!(
            json_of(blue(["verify", "--json", "--commitment", commitment]).arg(&blob))["verified"],
            true
        );
        fs::remove_file(&report).unwrap();

        let golden: Value =
            serde_json::from_slice(&fs::read(format!("{folder}/golden.json")).unwrap()).unwrap();
        let prompt = &golden["prompts"][1];
        let ids: Vec<String> = prompt["ids"]
            .as_array()
            .unwrap()
            .iter()
            .map(Value::to_string)
            .collect();
        let logits = json_of(blue(["logits", "--json", "--tokens", &ids.join(",")]).arg(&blob));
        let pairs: Vec<(f64, f64)> = logits["logits"]
            .as_array()
            .unwrap()
            .iter()
            .zip(prompt["last_logits"].as_array().unwrap())
            .map(|(a, b)| (a.as_f64().unwrap() / 65536.0, b.as_f64().unwrap()))
            .collect();
        let rms = |f: &dyn Fn(&(f64, f64)) -> f64| {
            (pairs.iter().map(|p| f(p).powi(2)).sum::<f64>() / pairs.len() as f64).sqrt()
        };
        // Eight bits a weight and a value: a few percent of the logits' spread.
        assert!(rms(&|p| p.0 - p.1) < 0.1 * rms(&|p| p.1), "{name}");
    }
    assert_eq!(
        names(dir.path()),
        [
            "a_qwen3_tied_bf16.blob",
            "b_qwen3_untied_f32_sharded.blob",
            "c_llama_untied_f16.blob"
        ]
    );
}

#[test]
fn the_blob_does_not_depend_on_threads_and_an_earlier_export_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("one.blob"), dir.path().join("other.blob"));
    let folder = models("golden/a_qwen3_tied_bf16");
    // Left by another model of the same name: it would not fit.
    fs::write(dir.path().join("other.tokenizer.json"), "{}").unwrap();
    fs::write(&other, "BLUEBLOB old").unwrap();
    text_of(blue(["export", &folder, "--threads", "1", "-o"]).arg(&one));
    let told = run(blue(["export", &folder, "--threads", "3", "-o"]).arg(&other));
    let told = String::from_utf8(told.stderr).unwrap();
    for part in [
        "random ids",
        "layers: 0/",
        "removed",
        "other.tokenizer.json",
        "run again",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap());
    assert_eq!(names(dir.path()), ["one.blob", "other.blob"]);
}

#[test]
fn a_trained_checkpoint_exports_with_its_tokenizer_and_template() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(
            Path::new(&models("tiny-austen")).join(name),
            source.join(name),
        )
        .unwrap();
    }
    let template =
        "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}<|im_start|>";
    fs::write(
        source.join("tokenizer_config.json"),
        serde_json::json!({"chat_template": template, "eos_token": "<|endoftext|>"}).to_string(),
    )
    .unwrap();
    let calibration = dir.path().join("calibration.txt");
    let heldout =
        fs::read_to_string(Path::new(&models("tiny-austen")).join("heldout.txt")).unwrap();
    let cut = heldout.char_indices().nth(8000).unwrap().0;
    fs::write(&calibration, &heldout[..cut]).unwrap();
    let blob = dir.path().join("m.blob");
    let done = json_of(
        blue(["export", "--json", "--max-context", "256", "-o"])
            .arg(&blob)
            .arg(&source)
            .arg("--calibration")
            .arg(&calibration),
    );
    assert_eq!(done["calibration"], "text");
    assert_eq!(
        fs::read(dir.path().join("m.tokenizer.json")).unwrap(),
        fs::read(source.join("tokenizer.json")).unwrap()
    );
    let commitment = format!(
        "0x{}",
        done["commitment"]
            .as_str()
            .unwrap()
            .trim_start_matches("0x")
    );
    assert_eq!(
        json_of(blue(["verify", "--json", "--commitment", &commitment]).arg(&blob))["tokenizer"],
        "verified"
    );
    let record = &json_of(blue(["inspect", "--json"]).arg(&blob))["record"];
    assert_eq!(
        (&record["max_context"], &record["stop_ids"]),
        (&256.into(), &serde_json::json!([1533]))
    );
    assert!(json_of(blue(["chat", "--message", "hello", "--max-new", "4", "--json"]).arg(&blob))["text"].is_string());

    // The text begins where the calibration ends.
    let text = dir.path().join("text.txt");
    fs::write(&text, &heldout[cut..]).unwrap();
    let eval = json_of(
        blue(["eval", "--json", "--window", "256", "--max-tokens", "1024"])
            .arg(&blob)
            .arg("--against")
            .arg(&source)
            .arg("--text")
            .arg(&text),
    );
    let number = |key: &str| eval[key].as_f64().unwrap();
    assert!(
        number("kl_mean") < 0.006 && number("top1_agreement") > 0.95,
        "{eval}"
    );
    assert!(
        (number("perplexity_int") / number("perplexity_float") - 1.0).abs() < 0.01,
        "{eval}"
    );
}

#[test]
fn bad_exports_end_before_the_work_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = models("golden/a_qwen3_tied_bf16");
    let blob = dir.path().join("m.blob");
    error_of(blue(["export", "no-such-folder", "-o"]).arg(&blob), 2);
    error_of(blue(["export", &folder, "-o"]).arg(dir.path()), 2);
    error_of(
        blue(["export", &folder, "-o"]).arg(dir.path().join("no/m.blob")),
        2,
    );
    error_of(
        blue(["export", &folder, "--max-context", "0", "-o"]).arg(&blob),
        2,
    );
    error_of(
        blue(["export", &folder, "--max-context", "32769", "-o"]).arg(&blob),
        2,
    );
    assert!(
        error_of(
            blue([
                "export",
                &folder,
                "--calibration",
                &format!("{folder}/config.json"),
                "-o"
            ])
            .arg(&blob),
            2
        )
        .contains("tokenizer")
    );
    assert!(
        error_of(
            blue([
                "export",
                &models("tiny-austen"),
                "--calibration",
                "no.txt",
                "-o"
            ])
            .arg(&blob),
            2
        )
        .contains("no.txt")
    );
    fs::write(&blob, "a letter").unwrap();
    assert!(error_of(blue(["export", &folder, "-o"]).arg(&blob), 2).contains("m.blob"));
    assert_eq!(fs::read(&blob).unwrap(), b"a letter");
    fs::remove_file(&blob).unwrap();
    let empty = dir.path().join("empty.txt");
    fs::write(&empty, "").unwrap();
    let error = error_of(
        blue(["export", &models("tiny-austen"), "--calibration"])
            .arg(&empty)
            .arg("-o")
            .arg(&blob),
        2,
    );
    assert!(error.contains("empty.txt holds no tokens"), "{error}");
    fs::remove_file(&empty).unwrap();
    let damaged = dir.path().join("damaged");
    fs::create_dir(&damaged).unwrap();
    fs::copy(format!("{folder}/config.json"), damaged.join("config.json")).unwrap();
    fs::write(damaged.join("model.safetensors"), u64::MAX.to_le_bytes()).unwrap();
    error_of(blue(["export", "-o"]).arg(&blob).arg(&damaged), 2);
    assert_eq!(names(dir.path()), ["damaged"]);
    let weights = damaged.join("model.safetensors");
    error_of(
        blue(["export", &folder, "-o"])
            .arg(&blob)
            .arg("--report")
            .arg(&blob),
        2,
    );
    error_of(blue(["export"]).arg(&weights).arg("-o").arg(&weights), 2);
    assert_eq!(fs::read(&weights).unwrap(), u64::MAX.to_le_bytes());
}

#[cfg(unix)]
#[test]
fn what_is_not_a_regular_file_is_neither_read_nor_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe.blob");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let source = models("golden/a_qwen3_tied_bf16");
    let error = error_of(blue(["export", &source, "-o"]).arg(&pipe), 2);
    assert!(error.contains("not a regular file"), "{error}");
    let other = dir.path().join("other.blob");
    let error = error_of(
        blue(["export", &source, "-o"])
            .arg(&other)
            .arg("--report")
            .arg(&pipe),
        2,
    );
    assert!(error.contains("not a regular file"), "{error}");
    // Opening the pipe would wait for a writer without end.
    for command in ["inspect", "commit", "verify"] {
        let mut run = blue([command]);
        if command == "verify" {
            run.args(["--commitment", &format!("0x{}", "00".repeat(32))]);
        }
        let error = error_of(run.arg(&pipe), 2);
        assert!(error.contains("not a regular file"), "{error}");
    }
    assert_eq!(names(dir.path()), ["pipe.blob"]);
}

#[test]
fn the_report_is_none_of_the_files_beside_the_blob() {
    let dir = tempfile::tempdir().unwrap();
    let blob = dir.path().join("model.blob");
    for name in [
        "model.blob",
        "model.tokenizer.json",
        "model.tokenizer_config.json",
    ] {
        error_of(
            blue(["export", &models("golden/a_qwen3_tied_bf16"), "-o"])
                .arg(&blob)
                .arg("--report")
                .arg(dir.path().join(name)),
            2,
        );
    }
    assert!(names(dir.path()).is_empty());
}
