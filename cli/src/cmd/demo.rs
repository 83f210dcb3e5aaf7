//! `blue demo`: the embedded model answers, and every backend is compared with the reference.

use std::time::Instant;

use int_engine::kernels::Kernels;
use serde_json::{Value, json};

use crate::backend::{Backend, greedy, refused};
use crate::failure::{Code, Failure, Outcome};
use crate::loaded::{Loaded, RunArgs, threads};
use crate::output;
use crate::progress::Progress;
use crate::{embedded, ids};

const HELP: &str = "\
Example:
  blue demo

The embedded model continues a prompt. Then each backend of this program and the reference, which is
written from the specification alone, decode the same tokens, and a digest over all logits of all steps
is compared. Exit code 3 if any differs. A backend that this CPU lacks is listed as absent.";

const PROMPT: &str = "It was a truth which she could not doubt, that";
const ANSWER: usize = 48;
/// Tokens of the comparison: the first ids of the prompt at once, then one by one.
const COMPARED_PROMPT: usize = 6;
const COMPARED_STEPS: usize = 6;

/// Answer with the embedded model and compare every backend bit by bit.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// One row of the comparison.
struct Row {
    name: &'static str,
    /// Digest and tokens a second; `None` when absent.
    result: Option<([u8; 32], f64)>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let progress = Progress::new(args.json);
    let loaded = Loaded::open(
        None,
        &RunArgs {
            backend: Backend::Auto,
            threads: None,
        },
        progress,
    )?;
    let tokenizer = loaded.tokenizer(None)?;
    let prompt = ids::encode(tokenizer, PROMPT)?;
    ids::check(&prompt, loaded.model.config())?;
    let mut stream = tokenizer.stream(true);
    let mut text = String::new();
    let mut show = |piece: String| -> Outcome {
        text.push_str(&piece);
        if args.json {
            Ok(())
        } else {
            output::text(&piece)
        }
    };
    if !args.json {
        output::text(PROMPT)?;
    }
    let done = greedy(&mut *loaded.session()?, &prompt, ANSWER, |id| {
        show(stream.push(id))
    })?;
    show(stream.finish())?;
    if !args.json {
        output::text(&format!(
            "\n\nprompt ids  {prompt:?}\noutput ids  {:?}\ncommitment  {}\nbackend     {}, {:.0} tokens/s\n\n",
            done.output,
            loaded.model.commitment(),
            loaded.engine.backend(),
            done.decode_tokens_per_s()
        ))?;
    }

    let rows = compare(
        &loaded,
        &prompt[..prompt.len().min(COMPARED_PROMPT)],
        progress,
    )?;
    let expected = rows
        .first()
        .and_then(|r| r.result)
        .map(|(digest, _)| digest);
    let equal = rows
        .iter()
        .all(|r| r.result.is_none_or(|(digest, _)| Some(digest) == expected));
    if args.json {
        output::json(&json!({
            "prompt": PROMPT,
            "text": text,
            "prompt_ids": prompt,
            "output_ids": done.output,
            "commitment": loaded.model.commitment().to_string(),
            "backend": loaded.engine.backend(),
            "finish": done.finish,
            "prefill_tokens_per_s": done.prefill_tokens_per_s(),
            "decode_tokens_per_s": done.decode_tokens_per_s(),
            "backends": rows.iter().map(|row| row_json(row, expected)).collect::<Vec<_>>(),
            "equal": equal,
        }))?;
    } else {
        let mut lines = vec![
            ["backend", "tokens/s", "logits digest", "verdict"]
                .map(String::from)
                .to_vec(),
        ];
        lines.extend(rows.iter().map(|row| row_text(row, expected)));
        output::text(&output::table(&lines))?;
    }
    if equal {
        return Ok(());
    }
    Err(Failure::new(
        Code::Mismatch,
        anyhow::anyhow!("a backend differs from the reference"),
    )
    .hint("report the table above and the model of the CPU"))
}

/// The reference first, then every backend of this program.
fn compare(loaded: &Loaded, prompt: &[u32], progress: Progress) -> Outcome<Vec<Row>> {
    let all = Kernels::all();
    let bar = progress.items("comparing backends", all.len() as u64 + 1);
    let mut rows = vec![measure(
        loaded,
        "reference",
        Some(&Backend::Reference),
        prompt,
    )?];
    bar.inc(1);
    for (name, kernels) in all {
        let backend = kernels.map(Backend::Kernels);
        rows.push(measure(loaded, name, backend.as_ref(), prompt)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(rows)
}

fn measure(
    loaded: &Loaded,
    name: &'static str,
    backend: Option<&Backend>,
    prompt: &[u32],
) -> Outcome<Row> {
    let Some(backend) = backend else {
        return Ok(Row { name, result: None });
    };
    let engine = backend.engine(&loaded.model, threads(None), || Ok(embedded::BLOB.to_vec()))?;
    let mut session = engine.session().map_err(|fault| refused(fault.into()))?;
    let start = Instant::now();
    let (mut all, mut feed) = (Vec::new(), prompt.to_vec());
    for _ in 0..=COMPARED_STEPS {
        session.feed(&feed).map_err(refused)?;
        all.extend(
            session
                .logits()
                .unwrap_or_default()
                .iter()
                .flat_map(|v| v.to_le_bytes()),
        );
        feed = session.greedy().into_iter().collect();
    }
    let rate = (prompt.len() + COMPARED_STEPS) as f64 / start.elapsed().as_secs_f64().max(1e-9);
    Ok(Row {
        name,
        result: Some((int_engine::commitment::keccak256(&all), rate)),
    })
}

fn row_json(row: &Row, expected: Option<[u8; 32]>) -> Value {
    match row.result {
        None => json!({"name": row.name, "present": false}),
        Some((digest, rate)) => {
            json!({"name": row.name, "present": true, "logits_digest": output::hex(&digest), "equal": Some(digest) == expected, "tokens_per_s": rate})
        }
    }
}

fn row_text(row: &Row, expected: Option<[u8; 32]>) -> Vec<String> {
    match row.result {
        None => vec![
            row.name.to_string(),
            "-".into(),
            "-".into(),
            "absent on this CPU".into(),
        ],
        Some((digest, rate)) => {
            let verdict = if Some(digest) == expected {
                "equal"
            } else {
                "DIFFERS"
            };
            vec![
                row.name.to_string(),
                format!("{rate:.0}"),
                output::hex(&digest),
                verdict.to_string(),
            ]
        }
    }
}
