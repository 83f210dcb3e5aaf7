//! `blue verify`: the whole file against a commitment.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use int_engine::blob::Loader;
use int_engine::commitment::Commitment;
use serde_json::json;

use crate::failure::{Code, Outcome};
use crate::loaded::{parse_threads, threads};
use crate::progress::Progress;
use crate::{blob_file, bundle, output};

const HELP: &str = "\
Example:
  blue verify model.blob --commitment \"$(blue commit model.blob)\"

Loads the blob as the engine does: format, ranges of every tensor, commitment; then the digest of the
tokenizer file beside it, where there is one. A defect or another commitment ends with exit code 3;
--json then prints {\"verified\": false, \"reason\": …}.";

/// Check a blob and the tokenizer file beside it against a commitment.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The blob
    blob: PathBuf,
    /// The expected commitment: 0x and 64 hexadecimal digits
    #[arg(long, value_name = "0x…")]
    commitment: Commitment,
    /// Threads; the result does not depend on it [default: all]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let checked = check(&args);
    if let Err(failure) = &checked
        && args.json
        && failure.is_mismatch()
    {
        output::json(&json!({"verified": false, "reason": failure.reason()}))?;
    }
    checked
}

fn check(args: &Args) -> Outcome {
    let model = blob_file::load(
        &args.blob,
        Loader::new().expect(args.commitment),
        threads(args.threads),
        Code::Mismatch,
        Progress::new(args.json),
    )?;
    let digest = model.tokenizer_digest();
    let tokenizer = match bundle::tokenizer(&args.blob, digest)? {
        Some(_) => "verified",
        None if digest == [0; 32] => "none belongs to this blob",
        None => "absent",
    };
    if args.json {
        return output::json(
            &json!({"verified": true, "commitment": model.commitment().to_string(), "total_len": model.blob_len(), "tokenizer": tokenizer}),
        );
    }
    output::text(&format!(
        "blob       verified, {}\ncommitment {}\ntokenizer  {tokenizer}\n",
        output::bytes(model.blob_len()),
        model.commitment()
    ))
}
