//! `blue chain name`: a registry name as the existing SDK forms it.

use int_engine::commitment::Commitment;

use crate::failure::Outcome;
use crate::output;

const HELP: &str = "\
Example:
  blue chain name blue/tiny --model-version 1 --commitment 0x92e39a68509f47a37bb597808eeda08c1205b2049c1a3b670ca421efa2162b24

Prints 32 bytes: the Keccak-256 that binds a model's published name, version, commitment and quantisation. The registry
takes any other name but zero as well.";

/// Print the registry name of a model's specification.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The model's published name
    model: String,
    /// Its version
    #[arg(long, value_name = "N")]
    model_version: u64,
    /// The commitment of its weights
    #[arg(long, value_name = "0xHASH")]
    commitment: Commitment,
    /// How they are quantised
    #[arg(long, value_name = "TEXT", default_value = "int8")]
    quantisation: String,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let name = precompile::model_spec_hash(
        &args.model,
        args.model_version,
        args.commitment,
        &args.quantisation,
    );
    output::text(&format!("{}\n", output::hex(&name)))
}
