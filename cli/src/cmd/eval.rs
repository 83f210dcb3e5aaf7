//! `blue eval`: how close the integer model is to the float checkpoint, on a text.

use std::path::PathBuf;

use exporter::quality::Comparison;
use float_engine::source::Checkpoint;
use float_engine::tokenizer::Tokenizer;
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

/// Positions whose float logits are held at a time.
const BLOCK: usize = 64;

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
    let mut comparison = Comparison::default();
    let threads = args.run.threads().get();
    for window in ids.chunks(window).filter(|w| w.len() >= 2) {
        let inputs = &window[..window.len() - 1];
        crate::ids::check(inputs, loaded.model.config())?;
        let mut session = loaded.session()?;
        let (mut held, mut failed) = (Vec::new(), None);
        let mut take = |position: usize, row: &[f32]| {
            held.extend_from_slice(row);
            let count = held.len() / config.vocab;
            if failed.is_some() || (count < BLOCK && position + 1 < inputs.len()) {
                return;
            }
            let first = position + 1 - count;
            let mut add = |at: usize, logits: &[i32]| {
                let float = &held[(at - first) * config.vocab..][..config.vocab];
                comparison.add(float, logits, Some(window[at + 1]));
                bar.inc(1);
            };
            failed = session
                .feed_all_logits(&inputs[first..=position], &mut add)
                .err();
            held.clear();
        };
        float
            .logits_each(inputs, threads, &mut take)
            .or_input("the float checkpoint refuses the text")?;
        if let Some(error) = failed {
            return Err(refused(error));
        }
    }
    bar.finish_and_clear();
    report(&comparison, source_matches, args.json)
}

/// Whether the fingerprint in a blob's metadata is the checkpoint's; `None` when there is none.
fn source_matches(metadata: &[(String, String)], checkpoint: &Checkpoint) -> Outcome<Option<bool>> {
    let Some((_, stated)) = metadata.iter().find(|(key, _)| key == "source.fingerprint") else {
        return Ok(None);
    };
    let found = checkpoint
        .fingerprint()
        .or_input("cannot read the checkpoint")?;
    Ok(Some(output::hex(found)[2..] == **stated))
}

/// A percentage with three decimals, never a negative zero.
fn percent(value: f64) -> String {
    let value = if value.abs() < 0.0005 { 0.0 } else { value };
    format!("{value:+.3} %")
}

fn report(comparison: &Comparison, source_matches: Option<bool>, as_json: bool) -> Outcome {
    let (float, int) = (comparison.perplexity_float(), comparison.perplexity_int());
    let (kl, agreement) = (comparison.kl_mean(), comparison.top1_agreement());
    if as_json {
        return output::json(&json!({
            "tokens": comparison.predictions(),
            "perplexity_float": float,
            "perplexity_int": int,
            "kl_mean": kl,
            "top1_agreement": agreement,
            "source_matches": source_matches,
        }));
    }
    output::text(&format!(
        "predictions       {}\nperplexity float  {float:.4}\nperplexity int    {int:.4}  ({})\nKL(float || int)  {kl:.6} nats\ntop-1 agreement   {:.2} %\n",
        comparison.predictions(),
        percent(100.0 * (int / float - 1.0)),
        100.0 * agreement
    ))
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn there_is_no_negative_zero() {
        assert_eq!(percent(-0.000_499), "+0.000 %");
        assert_eq!(percent(-0.000_6), "-0.001 %");
    }
}
