//! `blue chain gas`: what calls on a model cost, and what fits a transaction.

use std::path::PathBuf;

use blue_bench::synthetic;
use precompile::{Sizes, gas};
use serde_json::json;

use crate::failure::{Context, Outcome};
use crate::output;

const HELP: &str = "\
Examples:
  blue chain gas
  blue chain gas model.blob --prompt 100 --max-new 20
  blue chain gas --qwen3

Prices follow from the record alone (spec 6.7); they are those of the precompile's call, to which a transaction adds its
own. The last columns say how many tokens fit a transaction of --limit gas, by default the most that EIP-7825 allows,
less 21,000 for the transaction itself and 440 for each token of its calldata, the most that EIP-7623 asks for it, when
the transaction calls the precompile itself: a contract in between needs gas of its own, and passes on 63 of 64 parts.
--json prints one line: limit, and rows with prompt, max_new, generate, verify, logits_digest,
most_generated, most_verified (null where not even one fits).";

/// Print what generate, verify and logitsDigest cost.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The blob [default: the embedded model]
    #[arg(conflicts_with = "qwen3")]
    blob: Option<PathBuf>,
    /// A model with the dimensions of Qwen3-0.6B in place of a blob
    #[arg(long)]
    qwen3: bool,
    /// Tokens of the prompt [default: a table]
    #[arg(long, value_name = "N", requires = "max_new", value_parser = clap::value_parser!(u32).range(1..))]
    prompt: Option<u32>,
    /// New tokens, or tokens of the claimed answer
    #[arg(long, value_name = "N", requires = "prompt")]
    max_new: Option<u32>,
    /// Gas of a transaction
    #[arg(long, value_name = "GAS", default_value = "16777216")]
    limit: u64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Gas of a transaction before it does anything.
const TRANSACTION: u64 = 21_000;
/// Gas of a token's word in calldata at most: four bytes that are not zero, 28 that are (EIP-7623).
const TOKEN: u64 = 4 * 40 + 28 * 10;

/// The largest count up to `most` whose price fits.
fn fitting(most: u32, limit: u64, price: impl Fn(u32) -> u64) -> Option<u32> {
    let fits = |n: u32| price(n) <= limit;
    if !fits(1) {
        return None;
    }
    let (mut low, mut high) = (1, most.max(1));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Some(low)
}

pub(crate) fn run(args: &Args) -> Outcome {
    let config = match args.qwen3 {
        true => synthetic::qwen3().or_runtime("the dimensions of Qwen3-0.6B")?,
        false => super::record(args.blob.as_deref())?.config,
    };
    let sizes = Sizes::of(&config);
    let asked = args.prompt.zip(args.max_new);
    let context = sizes.max_context;
    let rows: Vec<(u32, u32)> = match asked {
        Some(row) => vec![row],
        None => [
            (4, 16),
            (16, 64),
            (64, 64),
            (128, 64),
            (256, 64),
            (1024, 64),
        ]
        .into_iter()
        .filter(|(n, m)| n + m <= context)
        .collect(),
    };
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(n, m)| {
            let room = context.saturating_sub(n);
            let data = |tokens: u64| TRANSACTION.saturating_add(TOKEN.saturating_mul(tokens));
            let generated = fitting(room, args.limit, |k| {
                gas::of_generate(&sizes, n.into(), k).saturating_add(data(n.into()))
            });
            let verified = fitting(room, args.limit, |k| {
                let tokens = u64::from(n) + u64::from(k);
                gas::of_verify(&sizes, n.into(), k.into()).saturating_add(data(tokens))
            });
            let prices = [
                gas::of_generate(&sizes, n.into(), m),
                gas::of_verify(&sizes, n.into(), m.into()),
                gas::of_logits_digest(&sizes, n.into()),
            ];
            (n, m, prices, [generated, verified])
        })
        .collect();
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(n, m, [generate, verify, digest], [generated, verified])| {
                json!({"prompt": n, "max_new": m, "generate": generate, "verify": verify,
                    "logits_digest": digest, "most_generated": generated, "most_verified": verified})
            })
            .collect();
        return output::json(&json!({"limit": args.limit, "rows": rows}));
    }
    let head = [
        "prompt",
        "new",
        "generate",
        "verify",
        "logitsDigest",
        "most generated",
        "most verified",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for (n, m, prices, most) in rows {
        let mut row = vec![n.to_string(), m.to_string()];
        row.extend(prices.map(|price| price.to_string()));
        row.extend(most.map(|n| n.map_or("none".into(), |n| n.to_string())));
        table.push(row);
    }
    output::text(&output::table(&table))
}
