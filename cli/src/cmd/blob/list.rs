//! `blue blob list`: what is in a store.

use blue_node::store::{Entry, State};
use serde_json::{Value, json};

use super::StoreArg;
use crate::failure::Outcome;
use crate::output;
use crate::store::failure;

const HELP: &str = "\
Examples:
  blue blob list --store blobs
  blue blob list --store blobs --json

States: published (whole), partial (being fetched, or broken off), damaged (`blue blob scrub` found other bytes).
Nothing is hashed: `blue blob scrub` does that.";

/// List the blobs of a store.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArg,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

fn state(state: State) -> &'static str {
    match state {
        State::Published => "published",
        State::Partial => "partial",
        State::Damaged => "damaged",
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let entries = args.store.read()?.list().map_err(failure)?;
    if args.json {
        let entry = |e: &Entry| json!({"commitment": e.commitment.to_string(), "len": e.len, "state": state(e.state)});
        return output::json(&entries.iter().map(entry).collect::<Vec<Value>>());
    }
    let mut rows = vec![["commitment", "state", "size"].map(String::from).to_vec()];
    for entry in entries {
        rows.push(vec![
            entry.commitment.to_string(),
            state(entry.state).into(),
            output::bytes(entry.len),
        ]);
    }
    output::text(&output::table(&rows))
}
