//! `blue verify-answer`: whether an answer is the one that `blue generate` gives.

use std::path::PathBuf;

use int_engine::engine::{Verdict, verify};
use serde_json::json;

use crate::backend::{finish_name, refused};
use crate::failure::{Code, Failure, Outcome};
use crate::ids::{self, TokenList};
use crate::loaded::{Loaded, RunArgs};
use crate::output;
use crate::progress::Progress;

const HELP: &str = "\
Examples:
  blue verify-answer --tokens 1,2,3 --answer 60,292 --max-new 2
  blue verify-answer model.blob --prompt \"It is a truth\" --answer 12,7,9 --max-new 3 --json

Says whether the answer is exactly what `blue generate` produces for the prompt and --max-new, no id more
and no id less, in a small part of the time. Another answer ends with exit code 3. --json prints one line
with the keys right, finish (of a right answer: stop, length or context), index, expected and claimed (of a
wrong one: where it first differs, the right id and the answer's; null where one of them has ended),
commitment, backend.";

/// Check an answer without generating it.
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "blue verify-answer [BLOB] <--tokens <1,2,3>|--prompt <TEXT>> --answer <1,2,3> --max-new <N> [OPTIONS]", group = clap::ArgGroup::new("input").required(true).args(["tokens", "prompt"]))]
pub(crate) struct Args {
    /// The blob [default: the embedded model]
    blob: Option<PathBuf>,
    /// The prompt as token ids between commas
    #[arg(long, value_name = "1,2,3", allow_hyphen_values = true)]
    tokens: Option<TokenList>,
    /// The prompt as text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// The answer as token ids between commas, "" for an empty one
    #[arg(long, value_name = "1,2,3", allow_hyphen_values = true, value_parser = answer)]
    answer: TokenList,
    /// Most tokens of the answer that was asked for
    #[arg(long, value_name = "N")]
    max_new: u32,
    #[command(flatten)]
    run: RunArgs,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// The list after `--answer`, which may hold nothing.
pub(crate) fn answer(text: &str) -> Result<TokenList, String> {
    if text.trim().is_empty() {
        return Ok(TokenList(Vec::new()));
    }
    text.parse()
}

pub(crate) fn run(args: Args) -> Outcome {
    let blob = args.blob.as_deref();
    let loaded = Loaded::open(blob, &args.run, Progress::new(args.json))?;
    let prompt = match (&args.tokens, &args.prompt) {
        (Some(list), _) => list.0.clone(),
        (None, text) => ids::encode(loaded.tokenizer(blob)?, text.as_deref().unwrap_or_default())?,
    };
    ids::check(&prompt, loaded.model.config())?;
    let mut session = loaded.session()?;
    let max_new = args.max_new as usize;
    let verdict = verify(&mut *session, &prompt, &args.answer.0, max_new).map_err(refused)?;
    let (finish, difference) = match verdict {
        Verdict::Right { finish } => (Some(finish_name(finish)), None),
        Verdict::Wrong {
            index,
            expected,
            claimed,
        } => (None, Some((index, expected, claimed))),
    };
    if args.json {
        output::json(&json!({
            "right": difference.is_none(),
            "finish": finish,
            "index": difference.map(|d| d.0),
            "expected": difference.and_then(|d| d.1),
            "claimed": difference.and_then(|d| d.2),
            "commitment": loaded.model.commitment().to_string(),
            "backend": loaded.engine.backend(),
        }))?;
    }
    match difference {
        None if args.json => Ok(()),
        None => output::text(&format!(
            "right: {} ids, finish {}\n",
            args.answer.0.len(),
            finish.unwrap_or_default()
        )),
        Some(_) if args.json => Err(Failure::told(Code::Mismatch)),
        Some((index, expected, claimed)) => {
            let name = |id: Option<u32>| id.map_or("its end".to_string(), |id| format!("id {id}"));
            Err(Failure::mismatch(format!(
                "the answer is wrong at index {index}: it has {}, the model's has {}",
                name(claimed),
                name(expected)
            )))
        }
    }
}
