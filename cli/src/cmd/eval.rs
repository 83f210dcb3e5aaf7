//! `blue eval`: how close the integer model is to the float checkpoint, on a text.

use std::path::PathBuf;

use float_engine::source::Checkpoint;
use float_engine::tokenizer::Tokenizer;
use int_engine::engine::argmax;
use serde_json::json;

use crate::backend::refused;
use crate::failure::{Context, Failure, Outcome};
use crate::loaded::{Loaded, RunArgs};
use crate::progress::Progress;
use crate::{files, output, source_file};

const HELP: &str = "\
Example:
  blue eval model.blob --against checkpoint-folder --text heldout.txt --json

The text is cut into windows of --window tokens, each predicted from its own beginning on. Control tokens
spelled out in the text, such as a separator of documents, are read as control tokens.
--json prints one line with the keys
  tokens            number of predictions, one less than the tokens of each window
  perplexity_float  exp of the mean negative log-probability under the float32 checkpoint
  perplexity_int    the same under the blob's integer logits (value / 65536)
  kl_mean           mean KL(float || int) over the whole vocabulary, in nats
  top1_agreement    fraction of positions, 0 to 1, where both have the same most likely id
  source_matches    whether the blob was exported from these weights; null when the blob does not say";

/// Tokens of a window when the context allows.
const DEFAULT_WINDOW: usize = 512;

/// Measure a blob against its float checkpoint on a text.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The blob
    blob: PathBuf,
    /// The checkpoint that it was exported from: a Hugging Face folder or a .gguf file
    #[arg(long, value_name = "SOURCE")]
    against: PathBuf,
    /// A UTF-8 text
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Tokens of a window, from 2 to the context, at most 32768 [default: 512, or the context where that is less]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=32768))]
    window: Option<u32>,
    /// Use only the first tokens of the text
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    max_tokens: Option<u32>,
    #[command(flatten)]
    run: RunArgs,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Sums over predictions, in nats.
#[derive(Default)]
struct Sums {
    predictions: u64,
    nll_float: f64,
    nll_int: f64,
    kl: f64,
    agree: u64,
}

pub(crate) fn run(args: Args) -> Outcome {
    let progress = Progress::new(args.json);
    let text = files::read_text(&args.text)?;
    let checkpoint = source_file::open(&args.against)?;
    let tokenizer = Tokenizer::open(&args.against).or_input(format!(
        "cannot read the tokenizer of {}",
        args.against.display()
    ))?;
    let loaded = Loaded::open(Some(&args.blob), &args.run, progress)?;
    let source_matches = source_matches(loaded.model.metadata(), &checkpoint)?;
    if source_matches == Some(false) {
        progress.note(
            "warning: the blob was exported from another checkpoint (source.fingerprint differs)",
        );
    }
    let float = source_file::load(&args.against, &checkpoint, progress)?;
    let (dims, config) = (loaded.model.config().dims(), float.config());
    if dims.vocab as usize != config.vocab {
        return Err(Failure::input(format!(
            "the blob has {} vocabulary rows, the checkpoint {}",
            dims.vocab, config.vocab
        ))
        .hint("--against names the checkpoint that the blob was exported from"));
    }
    let context = (dims.max_context as usize).min(config.max_context);
    let window = args
        .window
        .map_or(DEFAULT_WINDOW.min(context), |n| n as usize);
    if window > context {
        return Err(Failure::input(format!(
            "a window of {window} tokens exceeds the context of {context}"
        ))
        .hint(format!("give --window {context} or less")));
    }
    let mut ids = tokenizer
        .encode_with_specials(&text)
        .or_input("cannot encode the text")?;
    ids.truncate(args.max_tokens.map_or(usize::MAX, |n| n as usize));
    if ids.len() < 2 {
        return Err(Failure::input(format!(
            "{} holds {} tokens",
            args.text.display(),
            ids.len()
        ))
        .hint("a prediction needs at least 2"));
    }

    let mut bar = progress.items(
        "predictions",
        ids.chunks(window).map(|w| w.len() as u64 - 1).sum(),
    );
    let mut sums = Sums::default();
    for window in ids.chunks(window).filter(|w| w.len() >= 2) {
        let inputs = &window[..window.len() - 1];
        crate::ids::check(inputs, loaded.model.config())?;
        let expected = float
            .logits(inputs, args.run.threads().get())
            .or_input("the float checkpoint refuses the text")?;
        let mut sink = |position: usize, logits: &[i32]| {
            sums.add(
                &expected[position * config.vocab..][..config.vocab],
                logits,
                window[position + 1] as usize,
            );
            bar.inc(1);
        };
        loaded
            .session()?
            .feed_all_logits(inputs, &mut sink)
            .map_err(refused)?;
    }
    bar.finish_and_clear();
    report(&sums, source_matches, args.json)
}

/// Whether the fingerprint in a blob's metadata is the checkpoint's; `None` when there is none.
fn source_matches(metadata: &[(String, String)], checkpoint: &Checkpoint) -> Outcome<Option<bool>> {
    let Some((_, stated)) = metadata.iter().find(|(key, _)| key == "source.fingerprint") else {
        return Ok(None);
    };
    let found = checkpoint
        .fingerprint()
        .or_input("cannot read the checkpoint")?;
    Ok(Some(output::hex(&found)[2..] == **stated))
}

/// A percentage with three decimals, never a negative zero.
fn percent(value: f64) -> String {
    let value = if value.abs() < 0.0005 { 0.0 } else { value };
    format!("{value:+.3} %")
}

impl Sums {
    /// One prediction: float logits, Q16 integer logits, the id that follows.
    fn add(&mut self, float: &[f32], int: &[i32], next: usize) {
        let of_float: Vec<f64> = float.iter().map(|&v| f64::from(v)).collect();
        let of_int: Vec<f64> = int.iter().map(|&v| f64::from(v) / 65536.0).collect();
        let (log_z_float, log_z_int) = (log_sum_exp(&of_float), log_sum_exp(&of_int));
        self.predictions += 1;
        self.nll_float += log_z_float - of_float[next];
        self.nll_int += log_z_int - of_int[next];
        self.kl += of_float
            .iter()
            .zip(&of_int)
            .map(|(f, i)| (f - log_z_float).exp() * ((f - log_z_float) - (i - log_z_int)))
            .sum::<f64>();
        self.agree += u64::from(float_engine::forward::argmax(float) == argmax(int));
    }
}

fn log_sum_exp(x: &[f64]) -> f64 {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + x.iter().map(|v| (v - top).exp()).sum::<f64>().ln()
}

fn report(sums: &Sums, source_matches: Option<bool>, as_json: bool) -> Outcome {
    let n = sums.predictions as f64;
    let (float, int) = ((sums.nll_float / n).exp(), (sums.nll_int / n).exp());
    let (kl, agreement) = (sums.kl / n, sums.agree as f64 / n);
    if as_json {
        return output::json(&json!({
            "tokens": sums.predictions,
            "perplexity_float": float,
            "perplexity_int": int,
            "kl_mean": kl,
            "top1_agreement": agreement,
            "source_matches": source_matches,
        }));
    }
    output::text(&format!(
        "predictions       {}\nperplexity float  {float:.4}\nperplexity int    {int:.4}  ({})\nKL(float || int)  {kl:.6} nats\ntop-1 agreement   {:.2} %\n",
        sums.predictions,
        percent(100.0 * (int / float - 1.0)),
        100.0 * agreement
    ))
}

#[cfg(test)]
mod tests {
    use super::{Sums, percent};

    #[test]
    fn there_is_no_negative_zero() {
        assert_eq!(percent(-0.000_499), "+0.000 %");
        assert_eq!(percent(-0.000_6), "-0.001 %");
    }

    #[test]
    fn equal_logits_have_no_divergence() {
        let mut sums = Sums::default();
        sums.add(&[1.0, 2.0, -3.0], &[65536, 131_072, -196_608], 1);
        assert_eq!((sums.predictions, sums.agree), (1, 1));
        assert!(sums.kl.abs() < 1e-15 && (sums.nll_float - sums.nll_int).abs() < 1e-15);
    }

    #[test]
    fn a_known_divergence() {
        // Float: even odds. Integer: logits 0 and ln 3 give 1/4 and 3/4: KL = ln(2/sqrt 3).
        let mut sums = Sums::default();
        sums.add(&[0.0, 0.0], &[0, (3f64.ln() * 65536.0).round() as i32], 0);
        assert!((sums.kl - (2.0 / 3f64.sqrt()).ln()).abs() < 1e-5);
        assert!(
            (sums.nll_float - 2f64.ln()).abs() < 1e-12 && (sums.nll_int - 4f64.ln()).abs() < 1e-5
        );
        assert_eq!(sums.agree, 0);
    }
}
