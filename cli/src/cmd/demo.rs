//! `blue demo`: the embedded model answers, and every backend is compared with the reference.

use std::time::Instant;

use int_engine::commitment::keccak256;
use int_engine::engine::logits_digest;
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
written from the specification alone, decode the same short run; the verdict compares the logits of every
position and the tokens, and the digest is that of the last position's logits (spec 3.5). tokens/s counts
this run with the logits of every position, which generating does not need. Exit code 3 if a backend
differs, else 1 if --require names one that is absent here.
--json prints one line with the keys prompt, text, prompt_ids, output_ids, commitment, backend, finish,
prefill_tokens_per_s, decode_tokens_per_s, compared_prompt_ids, compared_output_ids, backends, equal,
required_absent.";

const PROMPT: &str = "It was a truth which she could not doubt, that";
const ANSWER: usize = 48;
/// Tokens of the comparison: the first ids of the prompt at once, then one by one.
const COMPARED_PROMPT: usize = 6;
const COMPARED_STEPS: usize = 6;

/// Answer with the embedded model and compare every backend bit by bit.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// End with exit code 1 unless all of these backends are present
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = backend_name)]
    require: Vec<&'static str>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// One row of the comparison.
struct Row {
    name: &'static str,
    /// `None` when absent.
    run: Option<Run>,
}

/// One backend's run.
#[derive(PartialEq)]
struct Computed {
    /// Keccak-256 of the logits of every position.
    all: [u8; 32],
    /// The logits digest of spec 3.5 at the last position.
    last: [u8; 32],
    output: Vec<u32>,
}

struct Run {
    computed: Computed,
    tokens_per_s: f64,
}

/// A known backend's name.
fn backend_name(text: &str) -> Result<&'static str, String> {
    let all = Kernels::all();
    let mut names = all.iter().map(|(name, _)| *name).chain(["reference"]);
    names.clone().find(|name| *name == text).ok_or_else(|| {
        let first = names.next().unwrap_or_default();
        let list = names.fold(first.to_string(), |list, name| format!("{list}, {name}"));
        format!("the backends are {list}")
    })
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
        output::text(&format!("prompt      {PROMPT}\nanswer     "))?;
    }
    let done = greedy(&mut *loaded.session()?, None, &prompt, ANSWER, |id| {
        show(stream.push(id))
    })?;
    show(stream.finish())?;
    if !args.json {
        output::text(&format!(
            "\n\nprompt ids  {prompt:?}\noutput ids  {:?}\ncommitment  {}\nbackend     {}\n\n",
            done.output,
            loaded.model.commitment(),
            loaded.engine.backend(),
        ))?;
    }

    let compared = &prompt[..prompt.len().min(COMPARED_PROMPT)];
    let rows = compare(&loaded, compared, progress)?;
    let expected = rows
        .first()
        .and_then(|r| r.run.as_ref())
        .map(|r| &r.computed);
    let equal = rows
        .iter()
        .all(|r| r.run.is_none() || r.run.as_ref().map(|r| &r.computed) == expected);
    let absent: Vec<_> = rows
        .iter()
        .filter(|r| r.run.is_none() && args.require.contains(&r.name))
        .map(|r| r.name)
        .collect();
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
            "compared_prompt_ids": compared,
            "compared_output_ids": expected.map(|e| &e.output),
            "backends": rows.iter().map(|row| row_json(row, expected)).collect::<Vec<_>>(),
            "equal": equal,
            "required_absent": absent,
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
    if equal && absent.is_empty() {
        return Ok(());
    }
    if equal {
        return Err(
            Failure::runtime(format!("absent on this machine: {}", absent.join(", ")))
                .hint("--require names backends that must be present"),
        );
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
    let mut bar = progress.items("comparing backends", all.len() as u64 + 1);
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
        return Ok(Row { name, run: None });
    };
    let engine = backend.engine(&loaded.model, threads(None), || Ok(embedded::BLOB.to_vec()))?;
    let mut session = engine.session().map_err(|fault| refused(fault.into()))?;
    let start = Instant::now();
    let (mut all, mut last) = (Vec::new(), [0; 32]);
    let (mut output, mut feed) = (Vec::new(), prompt.to_vec());
    for step in 0..=COMPARED_STEPS {
        session
            .feed_all_logits(&feed, &mut |_, logits| {
                all.extend(logits.iter().flat_map(|v| v.to_le_bytes()));
                last = logits_digest(logits);
            })
            .map_err(refused)?;
        if step < COMPARED_STEPS {
            feed = session.greedy().into_iter().collect();
            output.extend(&feed);
        }
    }
    let tokens = prompt.len() + COMPARED_STEPS;
    Ok(Row {
        name,
        run: Some(Run {
            computed: Computed {
                all: keccak256(&all),
                last,
                output,
            },
            tokens_per_s: tokens as f64 / start.elapsed().as_secs_f64().max(1e-9),
        }),
    })
}

fn row_json(row: &Row, expected: Option<&Computed>) -> Value {
    match &row.run {
        None => json!({"name": row.name, "present": false}),
        Some(run) => {
            json!({"name": row.name, "present": true, "logits_digest": output::hex(run.computed.last), "equal": Some(&run.computed) == expected, "tokens_per_s": run.tokens_per_s})
        }
    }
}

fn row_text(row: &Row, expected: Option<&Computed>) -> Vec<String> {
    let Some(run) = &row.run else {
        return vec![
            row.name.to_string(),
            "-".into(),
            "-".into(),
            "absent on this CPU".into(),
        ];
    };
    let verdict = if Some(&run.computed) == expected {
        "equal"
    } else {
        "DIFFERS"
    };
    vec![
        row.name.to_string(),
        format!("{:.0}", run.tokens_per_s),
        output::hex(run.computed.last),
        verdict.to_string(),
    ]
}
