//! `blue generate`: greedy decoding of one prompt.

use std::path::PathBuf;

use int_engine::engine::Drafter;
use serde_json::json;

use crate::backend::greedy;
use crate::failure::Outcome;
use crate::ids::{self, TokenList};
use crate::loaded::{Loaded, RunArgs};
use crate::output;
use crate::progress::Progress;

const HELP: &str = "\
Examples:
  blue generate --prompt \"It is a truth\" --max-new 40
  blue generate model.blob --tokens 1,2,3 --max-new 8 --json
  blue generate model.blob --prompt \"a = [1, 2, 3]; b = [1, 2,\" --max-new 99 --speculate

Without BLOB the embedded model answers. Text is encoded as it is: control tokens spelled out in it are
plain characters, and nothing is added to it. --json prints one line with the keys prompt_ids,
output_ids, text, commitment, backend, finish (stop, length or context), prefill_tokens_per_s,
decode_tokens_per_s; with --speculate also passes, drafted, accepted. output_ids and the stop id rule are
those of spec 3.5.

--speculate drafts from the prompt and the output what may come next and checks several tokens at once: the
same ids, sooner where text repeats itself.";

/// Continue a prompt, always with the most likely token.
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "blue generate [BLOB] <--tokens <1,2,3>|--prompt <TEXT>> --max-new <N> [OPTIONS]", group = clap::ArgGroup::new("input").required(true).args(["tokens", "prompt"]))]
pub(crate) struct Args {
    /// The blob [default: the embedded model]
    blob: Option<PathBuf>,
    /// The prompt as token ids between commas
    #[arg(long, value_name = "1,2,3", allow_hyphen_values = true)]
    tokens: Option<TokenList>,
    /// The prompt as text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Most tokens to produce
    #[arg(long, value_name = "N")]
    max_new: u32,
    /// Draft from the text so far; the ids are the same
    #[arg(long)]
    speculate: bool,
    #[command(flatten)]
    run: RunArgs,
    /// Print one line of JSON at the end in place of streamed text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let blob = args.blob.as_deref();
    let progress = Progress::new(args.json);
    let loaded = Loaded::open(blob, &args.run, progress)?;
    let prompt = match (&args.tokens, &args.prompt) {
        (Some(list), _) => list.0.clone(),
        (None, text) => ids::encode(loaded.tokenizer(blob)?, text.as_deref().unwrap_or_default())?,
    };
    ids::check(&prompt, loaded.model.config())?;
    let mut stream = loaded.tokenizer.as_ref().map(|t| t.stream(true));
    let mut text = String::new();
    let mut show = |piece: String| -> Outcome {
        if !args.json && !piece.is_empty() {
            output::text(&piece)?;
        }
        text.push_str(&piece);
        Ok(())
    };
    let mut drafter = args.speculate.then(Drafter::new);
    let done = greedy(
        &mut *loaded.session()?,
        drafter.as_mut(),
        &prompt,
        args.max_new as usize,
        |id| match &mut stream {
            Some(stream) => show(stream.push(id)),
            None if args.json => Ok(()),
            None => output::text(&format!("{id} ")),
        },
    )?;
    if let Some(mut stream) = stream {
        show(stream.finish())?;
    }
    if !args.json {
        output::text("\n")?;
        match done.finish {
            "length" => progress.terminal_note("note: cut at --max-new"),
            "context" => progress.terminal_note("note: cut, the context is full"),
            _ => {}
        }
        return Ok(());
    }
    let mut result = json!({
        "prompt_ids": prompt,
        "output_ids": done.output,
        "text": if loaded.tokenizer.is_some() { json!(text) } else { json!(null) },
        "commitment": loaded.model.commitment().to_string(),
        "backend": loaded.engine.backend(),
        "finish": done.finish,
        "prefill_tokens_per_s": done.prefill_tokens_per_s(),
        "decode_tokens_per_s": done.decode_tokens_per_s(),
    });
    if let Some(drafter) = drafter {
        let stats = drafter.stats();
        result["passes"] = json!(stats.passes);
        result["drafted"] = json!(stats.drafted);
        result["accepted"] = json!(stats.accepted);
    }
    output::json(&result)
}
