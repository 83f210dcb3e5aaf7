//! The float model, dynamic and static scales side by side: what each says, and how far from the float model it is.

use crate::bench::{Bench, Eval, KINDS, Options as BenchOptions, together};
use crate::child;
use anyhow::{Result, ensure};
use exporter::Scheme;
use exporter::quality::Limits;
use float_engine::forward::FloatModel;
use float_engine::source::Checkpoint;
use float_engine::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Tokens of a greedy output.
const OUTPUT: usize = 12;

/// How the comparison runs.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    bench: BenchOptions,
    /// Take blobs of an earlier sweep from the work folder in place of new exports
    #[arg(long)]
    reuse: bool,
    /// Tokens of each text that are evaluated
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(2..))]
    tokens: u32,
    /// Print one line of JSON in place of the tables
    #[arg(long)]
    json: bool,
}

/// A checkpoint, what it is asked, and the texts that it is measured on.
struct Subject {
    name: &'static str,
    source: String,
    prompt: &'static str,
    texts: Vec<PathBuf>,
    /// What the texts are.
    about: &'static str,
    /// Beginning of its blobs' names in the work folder.
    blobs: &'static str,
}

/// One scheme's line of a table.
struct Line {
    scheme: String,
    output: String,
    /// Whether every machine computes the same bits.
    consensus: bool,
    perplexity: f64,
    /// Against the float model: change of perplexity as a share, mean KL in nats, top-1 agreement 0 to 1.
    against_float: Option<[f64; 3]>,
}

/// Greedy tokens of the float model, as text.
fn float_continuation(subject: &Subject) -> Result<String> {
    let source = Path::new(&subject.source);
    let checkpoint = Checkpoint::open(source)?;
    let tokenizer = Tokenizer::open(source)?;
    let model = FloatModel::load(&checkpoint)?;
    let stop = &checkpoint.config().eos_ids;
    let ids = model.greedy(&tokenizer.encode(subject.prompt)?, OUTPUT, stop, 2)?;
    Ok(tokenizer.decode(&ids, true))
}

impl Subject {
    /// The lines float, dynamic, static, the number of predictions, and the limits that are missed.
    fn compare(&self, bench: &Bench, options: &Options) -> Result<(Vec<Line>, f64, Vec<String>)> {
        let (mut lines, mut missed, mut predictions) = (Vec::new(), Vec::new(), 0.0);
        for scheme in [Scheme::Dynamic, Scheme::Static] {
            let blob = match scheme {
                Scheme::Dynamic => format!("{}.blob", self.blobs),
                Scheme::Static => format!("{}-static.blob", self.blobs),
            };
            if !(options.reuse && Path::new(&bench.path(&blob)).is_file()) {
                bench.export(&self.source, &blob, "2", scheme)?;
            }
            let parts: Result<Vec<Eval>> = self
                .texts
                .iter()
                .map(|text| bench.eval(&blob, &self.source, text, options.tokens as usize))
                .collect();
            let e = together(&parts?);
            let limits = Limits::of(scheme);
            let ratio = e.perplexity_int / e.perplexity_float;
            if e.kl_mean > limits.kl_mean
                || e.top1_agreement < limits.top1_agreement
                || limits.perplexity_ratio.is_some_and(|limit| ratio > limit)
            {
                missed.push(format!("{}, {scheme}: not within {limits:?}", self.name));
            }
            if lines.is_empty() {
                predictions = e.predictions;
                lines.push(Line {
                    scheme: "float".into(),
                    output: float_continuation(self)?,
                    consensus: false,
                    perplexity: e.perplexity_float,
                    against_float: None,
                });
            }
            lines.push(Line {
                scheme: scheme.to_string(),
                output: bench.continuation(&blob, self.prompt, OUTPUT)?,
                consensus: true,
                perplexity: e.perplexity_int,
                against_float: Some([ratio - 1.0, e.kl_mean, e.top1_agreement]),
            });
        }
        Ok((lines, predictions, missed))
    }

    fn markdown(&self, lines: &[Line], predictions: f64) -> String {
        let mut text = format!(
            "{}, greedy after {:?}; figures over {predictions} predictions of {}:\n\n\
             | scheme | output | consensus-safe | perplexity | change | mean KL (nats) | top-1 agreement |\n\
             |---|---|---|---|---|---|---|\n",
            self.name, self.prompt, self.about
        );
        for line in lines {
            let figures = line
                .against_float
                .map_or("| | | ".into(), |[change, kl, top1]| {
                    format!(
                        "| {:+.2} % | {kl:.4} | {:.2} % ",
                        100.0 * change,
                        100.0 * top1
                    )
                });
            text.push_str(&format!(
                "| {} | {:?} | {} | {:.3} {figures}|\n",
                line.scheme,
                line.output,
                if line.consensus { "yes" } else { "no" },
                line.perplexity,
            ));
        }
        text
    }

    fn json(&self, lines: &[Line], predictions: f64) -> Value {
        let line = |l: &Line| {
            let figure = |i: usize| l.against_float.map(|figures| figures[i]);
            json!({
                "scheme": l.scheme,
                "output": l.output,
                "consensus_safe": l.consensus,
                "perplexity": l.perplexity,
                "perplexity_change": figure(0),
                "kl_mean": figure(1),
                "top1_agreement": figure(2),
            })
        };
        json!({
            "model": self.name,
            "prompt": self.prompt,
            "predictions": predictions,
            "schemes": lines.iter().map(line).collect::<Vec<_>>(),
        })
    }
}

/// Prints the tables; fails if a scheme misses its limits.
pub(crate) fn run(options: &Options) -> Result<()> {
    let bench = Bench::new(&options.bench)?;
    let tiny = child::root().join("models/tiny-austen");
    let subjects = [
        Subject {
            name: "SmolLM2-135M-Instruct",
            source: bench.fetch()?,
            prompt: "The capital of France is",
            texts: KINDS
                .iter()
                .map(|kind| PathBuf::from(bench.path(&format!("texts/{kind}.txt"))))
                .collect(),
            about: "essays, a language tutorial and a glossary",
            blobs: "smollm2",
        },
        Subject {
            name: "the tiny Qwen3 of this repository",
            source: tiny.display().to_string(),
            prompt: "It is a truth",
            texts: vec![tiny.join("heldout.txt")],
            about: "its held-out text",
            blobs: "tiny",
        },
    ];
    let (mut tables, mut values, mut missed) = (Vec::new(), Vec::new(), Vec::new());
    for subject in &subjects {
        let (lines, predictions, missing) = subject.compare(&bench, options)?;
        tables.push(subject.markdown(&lines, predictions));
        values.push(subject.json(&lines, predictions));
        missed.extend(missing);
    }
    if options.json {
        println!("{}", Value::from(values));
    } else {
        println!("{}", tables.join("\n"));
    }
    ensure!(missed.is_empty(), "{}", missed.join("; "));
    Ok(())
}
