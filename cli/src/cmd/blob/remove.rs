//! `blue blob remove`: a blob leaves a store.

use int_engine::commitment::Commitment;
use serde_json::json;

use super::StoreArg;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::store::failure;

const HELP: &str = "\
Example:
  blue blob remove 0x… --store blobs

Removes the blob, whole or not, and its leaves. A node that replays or traces blocks that used the model needs it.";

/// Remove a blob from a store.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The blob's commitment: 0x and 64 hexadecimal digits
    #[arg(value_name = "0x…")]
    commitment: Commitment,
    #[command(flatten)]
    store: StoreArg,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let store = args.store.open_existing()?;
    if !store.remove(args.commitment).map_err(failure)? {
        return Err(
            Failure::input(format!("{} is not in the store", args.commitment))
                .hint("`blue blob list` tells what is"),
        );
    }
    if args.json {
        return output::json(&json!({"removed": args.commitment.to_string()}));
    }
    output::text(&format!("removed {}\n", args.commitment))
}
