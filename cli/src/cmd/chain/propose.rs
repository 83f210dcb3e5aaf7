//! `blue chain propose`: the calldata that brings a blob onto a chain.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use int_engine::blob::Loader;
use int_engine::commitment::verify_chunk;
use precompile::registry::Function;
use precompile::{REGISTRY, calldata};
use serde_json::json;

use crate::failure::{Code, Failure, Outcome};
use crate::loaded::{parse_threads, threads};
use crate::names::{Name, default_name};
use crate::progress::Progress;
use crate::{blob_file, output};

const HELP: &str = "\
Examples:
  blue chain propose model.blob --model-version 1
  blue chain propose better.blob --model-version 2 --name $(blue chain name assistant) --json

The blob is loaded and checked whole, and its record proved against the commitment, as the registry will check it. One admin sends
`propose`, the others `approve`, and after the chain's delay anyone sends `activate`, all to the registry.
--json prints one line with the keys to, name, version, commitment, and propose, approve and activate, each with data
and gas: gas of the call itself, to which a transaction adds its own.";

/// Print the calldata that proposes a blob, approves and activates it.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The blob
    blob: PathBuf,
    /// The version under the name, above every earlier one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    model_version: u64,
    /// The name in the registry [default: the one that `blue chain name blue` prints]
    #[arg(long, value_name = "0xNAME")]
    name: Option<Name>,
    /// Threads; the result does not depend on it [default: all]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let progress = Progress::new(args.json);
    let threads = threads(args.threads);
    blob_file::load(&args.blob, Loader::new(), threads, Code::Input, progress)?;
    let tree = blob_file::hash(&args.blob, threads, progress)?;
    let proof = tree.prove(0).unwrap_or_default();
    let bytes = blob_file::head(&args.blob)?;
    let (commitment, version) = (tree.commitment(), args.model_version);
    let name = args.name.map_or_else(default_name, |name| name.0);
    if !verify_chunk(commitment, tree.total_len(), 0, &bytes, &proof) {
        return Err(Failure::input(format!(
            "{} changed while it was read",
            args.blob.display()
        )));
    }
    let calls = [
        (
            Function::Propose,
            calldata::propose(&name, version, &commitment.0, &bytes, &proof),
        ),
        (
            Function::Approve,
            calldata::approve(&name, version, &commitment.0),
        ),
        (
            Function::Activate,
            calldata::of_version(Function::Activate, &name, version),
        ),
    ];
    let price = |function: Function, data: &[u8]| function.price(data.len() - 4);
    if args.json {
        let call = |i: usize| {
            let (function, data) = &calls[i];
            json!({"data": output::hex(data), "gas": price(*function, data)})
        };
        return output::json(&json!({
            "to": output::hex(REGISTRY),
            "name": output::hex(name),
            "version": version,
            "commitment": commitment.to_string(),
            "propose": call(0),
            "approve": call(1),
            "activate": call(2),
        }));
    }
    let mut text = format!(
        "to          {}\nname        {}\nversion     {version}\ncommitment  {commitment}\n",
        output::hex(REGISTRY),
        output::hex(name),
    );
    for (function, data) in &calls {
        let function_name = function.signature().split('(').next().unwrap_or_default();
        text.push_str(&format!(
            "\n{function_name}, {} gas:\n{}\n",
            price(*function, data),
            output::hex(data)
        ));
    }
    output::text(&text)
}
