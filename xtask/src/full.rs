//! Sweeps on real models and real sizes, each figure against its limit.

use crate::{child, stress, synthetic};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a sweep works.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Work folder; fetched files are kept there (default: target/sweep)
    #[arg(long)]
    dir: Option<PathBuf>,
}

const KINDS: [&str; 3] = ["prose", "technical", "jargon"];
const PERPLEXITY_LIMIT: f64 = 1.01;
const KL_LIMIT: f64 = 0.006;
const TOP1_LIMIT: f64 = 0.95;
const EXPORT_SECONDS: f64 = 360.0;
const DECODE_TOKENS_PER_S: f64 = 15.0;
const GIB: f64 = (1u64 << 30) as f64;

/// The figures of a sweep, printed as a table.
#[derive(Default)]
struct Checks {
    rows: Vec<(String, String, String, bool)>,
    /// One line of the table of quality for each model and text.
    quality: Vec<String>,
}

impl Checks {
    /// Keeps a figure and shows it at once.
    fn push(&mut self, what: &str, value: String, limit: String, ok: bool) {
        eprintln!(
            "{}: {what}: {value} ({limit})",
            if ok { "ok" } else { "FAILED" }
        );
        self.rows.push((what.into(), value, limit, ok));
    }

    fn at_most(&mut self, what: &str, value: f64, limit: f64) {
        self.push(
            what,
            format!("{value:.5}"),
            format!("<= {limit}"),
            value <= limit,
        );
    }

    fn at_least(&mut self, what: &str, value: f64, limit: f64) {
        self.push(
            what,
            format!("{value:.5}"),
            format!(">= {limit}"),
            value >= limit,
        );
    }

    fn holds(&mut self, what: &str, value: &str, ok: bool) {
        self.push(what, value.into(), "true".into(), ok);
    }

    fn note(&mut self, what: &str, value: String) {
        self.push(what, value, "reported".into(), true);
    }

    fn finish(self) -> Result<()> {
        println!(
            "\n| model, text | predictions | perplexity float | integer | change | mean KL (nats) | top-1 agreement |"
        );
        println!("|---|---|---|---|---|---|---|");
        for line in &self.quality {
            println!("{line}");
        }
        println!("\n| check | value | limit | |\n|---|---|---|---|");
        for (what, value, limit, ok) in &self.rows {
            println!(
                "| {what} | {value} | {limit} | {} |",
                if *ok { "ok" } else { "FAILED" }
            );
        }
        let failed = self.rows.iter().filter(|r| !r.3).count();
        println!("\n{} passed, {failed} failed", self.rows.len() - failed);
        ensure!(failed == 0, "{failed} checks failed");
        Ok(())
    }
}

struct Bench {
    blue: PathBuf,
    dir: PathBuf,
    checks: Checks,
}

fn number(value: &Value, key: &str) -> Result<f64> {
    value[key]
        .as_f64()
        .with_context(|| format!("no number {key} in {value}"))
}

impl Bench {
    fn new(options: &Options) -> Result<Self> {
        let dir = options
            .dir
            .clone()
            .unwrap_or_else(|| child::root().join("target/sweep"));
        fs::create_dir_all(&dir)?;
        let blue = child::build_blue()?;
        let script = child::root().join("xtask/scripts/texts.py");
        child::run(Command::new("python3").arg(script).arg(dir.join("texts")))?;
        Ok(Self {
            blue,
            dir,
            checks: Checks::default(),
        })
    }

    fn blue(&self, args: &[&str]) -> Result<child::Finished> {
        child::run(Command::new(&self.blue).args(args))
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn fetch(&self) -> Result<String> {
        let fetched = self.blue(&[
            "model",
            "fetch",
            "smollm2-135m",
            "--dir",
            &self.path("models"),
            "--json",
        ])?;
        Ok(fetched.json()?["path"]
            .as_str()
            .context("no path printed")?
            .to_string())
    }

    fn export(&self, source: &str, blob: &str, threads: &str) -> Result<child::Finished> {
        for stale in [self.path(blob), self.path(&format!("{blob}.partial"))] {
            if Path::new(&stale).is_dir() {
                fs::remove_dir_all(&stale)?;
            } else if Path::new(&stale).exists() {
                fs::remove_file(&stale)?;
            }
        }
        self.blue(&[
            "export",
            source,
            "-o",
            &self.path(blob),
            "--threads",
            threads,
            "--json",
        ])
    }

    /// Evaluates `tokens` tokens of each kind of text against the limits.
    fn quality(&mut self, name: &str, blob: &str, source: &str, tokens: usize) -> Result<()> {
        for kind in KINDS {
            let text = self.path(&format!("texts/{kind}.txt"));
            let max = tokens.to_string();
            let blob = self.path(blob);
            let args = [
                "eval",
                &blob,
                "--against",
                source,
                "--text",
                &text,
                "--max-tokens",
                &max,
                "--json",
            ];
            let result = self.blue(&args)?.json()?;
            let (float, int) = (
                number(&result, "perplexity_float")?,
                number(&result, "perplexity_int")?,
            );
            let (kl, top1) = (
                number(&result, "kl_mean")?,
                number(&result, "top1_agreement")?,
            );
            let name = format!("{name}, {kind}");
            self.checks.at_most(
                &format!("{name}: perplexity ratio"),
                int / float,
                PERPLEXITY_LIMIT,
            );
            self.checks
                .at_most(&format!("{name}: mean KL (nats)"), kl, KL_LIMIT);
            self.checks
                .at_least(&format!("{name}: top-1 agreement"), top1, TOP1_LIMIT);
            self.checks.quality.push(format!(
                "| {name} | {} | {float:.3} | {int:.3} | {:+.2} % | {kl:.4} | {:.2} % |",
                result["tokens"],
                100.0 * (int / float - 1.0),
                100.0 * top1
            ));
        }
        Ok(())
    }

    fn paris(&mut self, blob: &str) -> Result<()> {
        let answer = self
            .blue(&[
                "generate",
                &self.path(blob),
                "--prompt",
                "The capital of France is",
                "--max-new",
                "12",
                "--json",
            ])?
            .json()?;
        let text = answer["text"].as_str().unwrap_or_default().to_string();
        self.checks.holds(
            "greedy \"The capital of France is\"",
            &format!("{text:?}"),
            text.contains("Paris"),
        );
        Ok(())
    }

    fn decode_speed(&mut self, blob: &str) -> Result<()> {
        let run = self
            .blue(&[
                "generate",
                &self.path(blob),
                "--prompt",
                "Once upon a time",
                "--max-new",
                "64",
                "--threads",
                "1",
                "--backend",
                "avx2",
                "--json",
            ])?
            .json()?;
        let speed = number(&run, "decode_tokens_per_s")?;
        self.checks.at_least(
            "SmolLM2 decode, one thread, avx2 (tokens/s)",
            speed,
            DECODE_TOKENS_PER_S,
        );
        Ok(())
    }
}

/// The checks of [`full`] that fit CI: one export, quality on three kinds of text, one thread's decode speed.
pub(crate) fn quick(options: &Options) -> Result<()> {
    let mut bench = Bench::new(options)?;
    let gguf = bench.fetch()?;
    let exported = bench.export(&gguf, "smollm2.blob", "2")?;
    bench.checks.at_most(
        "SmolLM2 export, 2 threads (s)",
        exported.seconds,
        EXPORT_SECONDS,
    );
    bench.quality("SmolLM2", "smollm2.blob", &gguf, 4608)?;
    bench.paris("smollm2.blob")?;
    bench.decode_speed("smollm2.blob")?;
    bench.checks.finish()
}

/// Everything the project promises about quality, size, memory and time.
pub(crate) fn full(options: &Options) -> Result<()> {
    let mut bench = Bench::new(options)?;
    let gguf = bench.fetch()?;

    let one = bench.export(&gguf, "smollm2-1.blob", "1")?;
    let two = bench.export(&gguf, "smollm2.blob", "2")?;
    bench.checks.note(
        "SmolLM2 export, 1 thread (s)",
        format!("{:.1}", one.seconds),
    );
    bench
        .checks
        .at_most("SmolLM2 export, 2 threads (s)", two.seconds, EXPORT_SECONDS);
    let same = fs::read(bench.path("smollm2-1.blob"))? == fs::read(bench.path("smollm2.blob"))?;
    let commitment = two.json()?["commitment"].to_string();
    bench.checks.holds(
        "SmolLM2 blob bytes equal on 1 and 2 threads",
        &commitment,
        same,
    );
    fs::remove_file(bench.path("smollm2-1.blob"))?;
    bench.quality("SmolLM2", "smollm2.blob", &gguf, 5120)?;
    bench.paris("smollm2.blob")?;
    bench.decode_speed("smollm2.blob")?;

    let stressed = bench.path("smollm2-outliers");
    stress::run(Path::new(&gguf), Path::new(&stressed), 1)?;
    bench.export(&stressed, "outliers.blob", "2")?;
    bench.quality("SmolLM2 with outliers", "outliers.blob", &stressed, 5120)?;
    fs::remove_dir_all(&stressed)?;

    let qwen = bench.path("qwen3-0.6b-synthetic");
    synthetic::write(Path::new(&qwen))?;
    let exported = bench.export(&qwen, "qwen3.blob", "2")?;
    bench.checks.note(
        "Qwen3-0.6B shape export, 2 threads (s)",
        format!("{:.1}", exported.seconds),
    );
    bench.checks.at_most(
        "Qwen3-0.6B shape export peak memory (GiB)",
        exported.peak_bytes as f64 / GIB,
        6.0,
    );
    let bytes = fs::metadata(bench.path("qwen3.blob"))?.len() as f64;
    bench
        .checks
        .at_most("Qwen3-0.6B shape blob (MB)", bytes / 1e6, 605.0);
    let run = bench.blue(&[
        "generate",
        &bench.path("qwen3.blob"),
        "--prompt",
        "Hello world",
        "--max-new",
        "16",
        "--json",
    ])?;
    bench.checks.at_most(
        "Qwen3-0.6B shape generation peak memory / blob",
        run.peak_bytes as f64 / bytes,
        1.6,
    );
    let produced = run.json()?;
    let ids = produced["output_ids"].as_array().map_or(0, Vec::len);
    bench
        .checks
        .holds("Qwen3-0.6B shape generates", &format!("{ids} ids"), ids > 0);
    bench.checks.note(
        "Qwen3-0.6B shape decode (tokens/s)",
        format!("{:.1}", number(&produced, "decode_tokens_per_s")?),
    );
    fs::remove_dir_all(&qwen)?;
    bench.checks.finish()
}

/// Re-exports `models/tiny-austen` into `models/default`.
pub(crate) fn bless() -> Result<()> {
    let blue = child::build_blue()?;
    let out = child::root().join("models/default/blue-tiny.blob");
    let source = child::root().join("models/tiny-austen");
    child::run(
        Command::new(blue)
            .arg("export")
            .arg(source)
            .arg("-o")
            .arg(&out),
    )?;
    if !out.is_file() {
        bail!("{} was not written", out.display());
    }
    Ok(())
}
