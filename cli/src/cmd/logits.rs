//! `blue logits`: the logits at the last position of a list of ids.

use std::path::PathBuf;

use serde_json::json;

use crate::backend::{Backend, refused};
use crate::failure::{Context, Failure, Outcome};
use crate::ids::{self, TokenList};
use crate::loaded::{Loaded, RunArgs};
use crate::progress::Progress;
use crate::sniff::{Kind, sniff};
use crate::{output, source_file};

const HELP: &str = "\
Examples:
  blue logits model.blob --tokens 1,2,3 --json
  blue logits checkpoint-folder --tokens 1,2,3 --json

--json prints one line with the keys kind, scale and logits (one a vocabulary row).
  From a blob:       kind \"int\", the integers of spec 3.4 and scale 65536: a logit is value / 65536.
  From a checkpoint: kind \"float\", the float32 reference and scale 1; --backend is refused.";

/// Ids shown without `--json`.
const SHOWN: usize = 10;

/// Print the logits that follow a prompt, from a blob or from a float checkpoint.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// A blob, a Hugging Face folder or a .gguf file
    source: PathBuf,
    /// The prompt as token ids between commas
    #[arg(long, value_name = "1,2,3", allow_hyphen_values = true)]
    tokens: TokenList,
    #[command(flatten)]
    run: RunArgs,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let progress = Progress::new(args.json);
    let ids = &args.tokens.0;
    if !matches!(sniff(&args.source)?, Kind::Blob | Kind::Other) {
        let checkpoint = source_file::open(&args.source)?;
        if !matches!(args.run.backend, Backend::Auto) {
            return Err(Failure::input(
                "--backend chooses integer kernels, and a checkpoint is computed in float",
            )
            .hint("leave --backend out"));
        }
        let model = source_file::load(&args.source, &checkpoint, progress)?;
        let (vocab, max) = (model.config().vocab, model.config().max_context);
        let mut session = model.session();
        let logits = model
            .extend(&mut session, ids, args.run.threads().get())
            .or_input("the prompt is refused")
            .map_err(|e| {
                e.hint(format!(
                    "this checkpoint takes ids 0 to {} and at most {max} tokens",
                    vocab - 1
                ))
            })?;
        return if args.json {
            output::json(&json!({"kind": "float", "scale": 1, "logits": logits}))
        } else {
            show(&logits, |v| f64::from(*v))
        };
    }
    let loaded = Loaded::open(Some(&args.source), &args.run, progress)?;
    ids::check(ids, loaded.model.config())?;
    let mut session = loaded.session()?;
    session.feed(ids).map_err(refused)?;
    let logits = session.logits().unwrap_or_default();
    if args.json {
        output::json(&json!({"kind": "int", "scale": 65536, "logits": logits}))
    } else {
        show(logits, |v| f64::from(*v) / 65536.0)
    }
}

fn show<T>(logits: &[T], value: impl Fn(&T) -> f64) -> Outcome {
    if logits.is_empty() {
        return Err(Failure::runtime("no logits"));
    }
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| {
        value(&logits[b])
            .total_cmp(&value(&logits[a]))
            .then(a.cmp(&b))
    });
    let mut rows = vec![vec!["id".to_string(), "logit".into()]];
    rows.extend(
        order
            .iter()
            .take(SHOWN)
            .map(|&i| vec![i.to_string(), format!("{:.5}", value(&logits[i]))]),
    );
    output::text(&output::table(&rows))
}
