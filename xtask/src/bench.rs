//! The bench of the sweeps: real checkpoints, texts, exports, and figures against limits.

use crate::child;
use anyhow::{Context, Result, ensure};
use exporter::Scheme;
use exporter::quality::Limits;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a sweep works.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Work folder; fetched files are kept there (default: target/sweep)
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// The kinds of text, files `texts/KIND.txt` of the work folder.
pub(crate) const KINDS: [&str; 3] = ["prose", "technical", "jargon"];

/// The figures of a sweep, printed as a table.
#[derive(Default)]
pub(crate) struct Checks {
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

    pub(crate) fn at_most(&mut self, what: &str, value: f64, limit: f64) {
        self.push(
            what,
            format!("{value:.5}"),
            format!("<= {limit}"),
            value <= limit,
        );
    }

    pub(crate) fn at_least(&mut self, what: &str, value: f64, limit: f64) {
        self.push(
            what,
            format!("{value:.5}"),
            format!(">= {limit}"),
            value >= limit,
        );
    }

    pub(crate) fn holds(&mut self, what: &str, value: &str, ok: bool) {
        self.push(what, value.into(), "true".into(), ok);
    }

    pub(crate) fn note(&mut self, what: &str, value: String) {
        self.push(what, value, "reported".into(), true);
    }

    /// A line of the table of quality.
    fn quality(&mut self, name: &str, e: &Eval) {
        self.quality.push(format!(
            "| {name} | {} | {:.3} | {:.3} | {:+.2} % | {:.4} | {:.2} % |",
            e.predictions,
            e.perplexity_float,
            e.perplexity_int,
            100.0 * (e.perplexity_int / e.perplexity_float - 1.0),
            e.kl_mean,
            100.0 * e.top1_agreement
        ));
    }

    /// Figures against the limits of a scheme.
    fn limits(&mut self, name: &str, e: &Eval, scheme: Scheme) {
        let limits = Limits::of(scheme);
        let ratio = e.perplexity_int / e.perplexity_float;
        let what = format!("{name}: perplexity ratio");
        match limits.perplexity_ratio {
            Some(limit) => self.at_most(&what, ratio, limit),
            None => self.note(&what, format!("{ratio:.5}")),
        }
        let what = format!("{name}: mean KL (nats)");
        self.at_most(&what, e.kl_mean, limits.kl_mean);
        let what = format!("{name}: top-1 agreement");
        self.at_least(&what, e.top1_agreement, limits.top1_agreement);
    }

    pub(crate) fn finish(self) -> Result<()> {
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

/// What `blue eval` printed.
#[derive(Clone, Copy)]
pub(crate) struct Eval {
    pub(crate) predictions: f64,
    pub(crate) perplexity_float: f64,
    pub(crate) perplexity_int: f64,
    pub(crate) kl_mean: f64,
    pub(crate) top1_agreement: f64,
}

/// The figures of several texts as those of one: means over all predictions.
pub(crate) fn together(parts: &[Eval]) -> Eval {
    let predictions: f64 = parts.iter().map(|e| e.predictions).sum();
    let mean = |f: &dyn Fn(&Eval) -> f64| {
        parts.iter().map(|e| e.predictions * f(e)).sum::<f64>() / predictions
    };
    Eval {
        predictions,
        perplexity_float: mean(&|e| e.perplexity_float.ln()).exp(),
        perplexity_int: mean(&|e| e.perplexity_int.ln()).exp(),
        kl_mean: mean(&|e| e.kl_mean),
        top1_agreement: mean(&|e| e.top1_agreement),
    }
}

/// The program, a work folder, and what was found.
pub(crate) struct Bench {
    blue: PathBuf,
    dir: PathBuf,
    pub(crate) checks: Checks,
}

/// A number of a JSON object.
fn number(value: &Value, key: &str) -> Result<f64> {
    value[key]
        .as_f64()
        .with_context(|| format!("no number {key} in {value}"))
}

impl Bench {
    pub(crate) fn new(options: &Options) -> Result<Self> {
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

    pub(crate) fn blue(&self, args: &[&str]) -> Result<child::Finished> {
        child::run(Command::new(&self.blue).args(args))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    pub(crate) fn fetch(&self) -> Result<String> {
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

    /// Exports to a file of the work folder, from the beginning.
    pub(crate) fn export(
        &self,
        source: &str,
        blob: &str,
        threads: &str,
        scheme: Scheme,
    ) -> Result<child::Finished> {
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
            "--scheme",
            &scheme.to_string(),
            "--json",
        ])
    }

    /// `blue eval` on the first `tokens` tokens of a text.
    pub(crate) fn eval(
        &self,
        blob: &str,
        source: &str,
        text: &Path,
        tokens: usize,
    ) -> Result<Eval> {
        let result = self
            .blue(&[
                "eval",
                &self.path(blob),
                "--against",
                source,
                "--text",
                &text.display().to_string(),
                "--max-tokens",
                &tokens.to_string(),
                "--json",
            ])?
            .json()?;
        Ok(Eval {
            predictions: number(&result, "tokens")?,
            perplexity_float: number(&result, "perplexity_float")?,
            perplexity_int: number(&result, "perplexity_int")?,
            kl_mean: number(&result, "kl_mean")?,
            top1_agreement: number(&result, "top1_agreement")?,
        })
    }

    /// Evaluates `tokens` tokens of each kind of text. With dynamic scales every kind is held to the limits, with static ones
    /// all kinds together.
    pub(crate) fn quality(
        &mut self,
        name: &str,
        blob: &str,
        source: &str,
        tokens: usize,
        scheme: Scheme,
    ) -> Result<()> {
        let mut parts = Vec::new();
        for kind in KINDS {
            let text = self.dir.join(format!("texts/{kind}.txt"));
            let e = self.eval(blob, source, &text, tokens)?;
            self.checks.quality(&format!("{name}, {kind}"), &e);
            if scheme == Scheme::Dynamic {
                self.checks.limits(&format!("{name}, {kind}"), &e, scheme);
            }
            parts.push(e);
        }
        if scheme == Scheme::Static {
            let (name, e) = (format!("{name}, all"), together(&parts));
            self.checks.quality(&name, &e);
            self.checks.limits(&name, &e, scheme);
        }
        Ok(())
    }

    /// Greedy tokens of a prompt, as text.
    pub(crate) fn continuation(&self, blob: &str, prompt: &str, max_new: usize) -> Result<String> {
        let answer = self
            .blue(&[
                "generate",
                &self.path(blob),
                "--prompt",
                prompt,
                "--max-new",
                &max_new.to_string(),
                "--json",
            ])?
            .json()?;
        let text = answer["text"].as_str().context("no text printed")?;
        Ok(text.to_string())
    }

    pub(crate) fn paris(&mut self, name: &str, blob: &str) -> Result<()> {
        let text = self.continuation(blob, "The capital of France is", 12)?;
        self.checks.holds(
            &format!("{name}: greedy \"The capital of France is\""),
            &format!("{text:?}"),
            text.contains("Paris"),
        );
        Ok(())
    }

    /// What `blue bench` measures of the random model and a blob, printed.
    pub(crate) fn speed(&mut self, blob: &str) -> Result<()> {
        let run = self.blue(&["bench", "--blob", &self.path(blob), "--samples", "3"])?;
        println!("{}", run.stdout);
        Ok(())
    }

    /// Calls of the precompile against their prices, on the backend that prices are made for.
    pub(crate) fn gas(&mut self, blob: &str) -> Result<()> {
        let run = self.blue(&[
            "chain",
            "bench",
            "--blob",
            &self.path(blob),
            "--backend",
            "avxvnni",
            "--random",
            "2000",
            "--assert",
        ])?;
        println!("{}", run.stdout);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_together_are_means_over_predictions() {
        let text = |predictions, perplexity_int, kl_mean, top1_agreement| Eval {
            predictions,
            perplexity_float: 8.0,
            perplexity_int,
            kl_mean,
            top1_agreement,
        };
        let e = together(&[text(100.0, 2.0, 0.004, 1.0), text(300.0, 32.0, 0.0, 0.9)]);
        assert_eq!(e.predictions, 400.0);
        assert!((e.perplexity_float - 8.0).abs() < 1e-12);
        // 2^(1/4) * 32^(3/4) = 2^4.
        assert!((e.perplexity_int - 16.0).abs() < 1e-12);
        assert!((e.kl_mean - 0.001).abs() < 1e-15);
        assert!((e.top1_agreement - 0.925).abs() < 1e-12);
    }
}
