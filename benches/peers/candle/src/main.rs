//! Prefill and decode times of candle's quantized models on one GGUF file. See `../README.md` for the protocol and what is measured.

mod engine;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use engine::Engine;
use serde_json::{Map, Value, json};
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The release that Cargo.toml pins.
const VERSION: &str = "candle-transformers 0.11.1";
/// Tokens beyond this are refused.
const MANY: usize = 1 << 20;

#[derive(Parser)]
#[command(
    name = "blue-peer-candle",
    about = "Prefill and decode times of candle"
)]
struct Options {
    /// GGUF file, Qwen3 or Llama architecture
    #[arg(long)]
    model: PathBuf,
    /// Worker threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Prompt lengths to process in an empty context
    #[arg(long, value_delimiter = ',')]
    prefill: Vec<usize>,
    /// Tokens to decode one by one
    #[arg(long)]
    decode: Option<usize>,
    /// Tokens already in the context when decoding starts
    #[arg(long, value_delimiter = ',', default_value = "0")]
    context: Vec<usize>,
    /// Samples of each measurement
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Most tokens in the context
    #[arg(long, default_value_t = 2560)]
    max_context: usize,
    /// Answer requests from standard input
    #[arg(long)]
    serve: bool,
}

fn header(options: &Options, engine: &Engine) -> Map<String, Value> {
    let build = format!("{}, target-cpu=native", env!("PEER_RUSTC"));
    let fields = json!({
        "engine": "candle", "version": VERSION, "build": build, "model": options.model.display().to_string(),
        "threads": options.threads, "load_seconds": engine.load_seconds()
    });
    fields.as_object().cloned().unwrap_or_default()
}

/// Runs one request, `prefill TOKENS` or `decode CONTEXT TOKENS`, and gives its sample.
fn sample(engine: &mut Engine, line: &str, max_context: usize) -> Result<Value> {
    let number = |word: &str, low: usize| -> Result<usize> {
        let value: usize = word
            .parse()
            .with_context(|| format!("'{word}' is not a count"))?;
        ensure!(
            (low..=MANY).contains(&value),
            "{value} is not from {low} to {MANY}"
        );
        Ok(value)
    };
    let fits = |tokens: usize| {
        ensure!(
            tokens <= max_context,
            "{tokens} tokens exceed --max-context {max_context}"
        );
        Ok(())
    };
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["prefill", tokens] => {
            let tokens = number(tokens, 1)?;
            fits(tokens)?;
            Ok(json!({"kind": "prefill", "tokens": tokens, "seconds": engine.prefill(tokens)?}))
        }
        ["decode", context, tokens] => {
            let (context, tokens) = (number(context, 0)?, number(tokens, 1)?);
            fits(context + tokens)?;
            Ok(
                json!({"kind": "decode", "context": context, "tokens": tokens, "seconds": engine.decode(context, tokens)?}),
            )
        }
        _ => bail!("expected 'prefill TOKENS' or 'decode CONTEXT TOKENS', found '{line}'"),
    }
}

fn serve(engine: &mut Engine, head: Map<String, Value>, max_context: usize) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{}", Value::Object(head))?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        let answer = match sample(engine, &line?, max_context) {
            Ok(answer) => answer,
            Err(e) => json!({"error": format!("{e:#}")}),
        };
        // The workers spin for a moment after the last operation: whoever runs next finds the cores idle.
        std::thread::sleep(Duration::from_millis(50));
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn batch(engine: &mut Engine, options: &Options, mut head: Map<String, Value>) -> Result<()> {
    let mut requests: Vec<String> = options
        .prefill
        .iter()
        .map(|n| format!("prefill {n}"))
        .collect();
    if let Some(tokens) = options.decode {
        requests.extend(
            options
                .context
                .iter()
                .map(|c| format!("decode {c} {tokens}")),
        );
    }
    let mut samples = Vec::new();
    for _ in 0..options.repeat {
        for request in &requests {
            samples.push(sample(engine, request, options.max_context)?);
        }
    }
    head.insert("samples".into(), samples.into());
    println!("{}", Value::Object(head));
    Ok(())
}

fn main() -> Result<()> {
    let options = Options::parse();
    // candle and rayon read the number of threads once, from the environment.
    let threads = options.threads.to_string();
    const VARIABLES: [&str; 2] = ["RAYON_NUM_THREADS", "CANDLE_NUM_THREADS"];
    if VARIABLES
        .iter()
        .any(|v| std::env::var(v).ok().as_deref() != Some(threads.as_str()))
    {
        let mut again = Command::new(std::env::current_exe()?);
        again
            .args(std::env::args_os().skip(1))
            .envs(VARIABLES.map(|v| (v, &threads)));
        return Err(again.exec()).context("cannot start again with another number of threads");
    }
    let mut engine = Engine::load(&options.model)?;
    engine.prefill(options.max_context.min(128))?;
    engine.decode(0, 8)?;
    let head = header(&options, &engine);
    if options.serve {
        serve(&mut engine, head, options.max_context)
    } else {
        batch(&mut engine, &options, head)
    }
}
