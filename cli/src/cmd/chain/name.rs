//! `blue chain name`: names for the registry.

use int_engine::commitment::Commitment;

use crate::failure::Outcome;
use crate::{names, output};

const HELP: &str = "\
Examples:
  blue chain name assistant
  blue chain name blue/tiny --model-version 1 --commitment 0x92e39a68509f47a37bb597808eeda08c1205b2049c1a3b670ca421efa2162b24

Prints the 32 bytes of a name in the registry. The name of a text alone is its Keccak-256: it stays when the model behind
it is upgraded. With a version and a commitment it is the name that binds one published model for ever (spec 6.5), which
can have no upgrade. The registry takes any other name but zero as well.";

/// Print a name for the registry.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The text: what the name is for, or a model's published name
    text: String,
    /// The version of the published model
    #[arg(long, value_name = "N", requires = "commitment")]
    model_version: Option<u64>,
    /// The commitment of its weights
    #[arg(long, value_name = "0xHASH", requires = "model_version")]
    commitment: Option<Commitment>,
    /// How they are quantised
    #[arg(long, value_name = "TEXT", default_value = "int8")]
    quantisation: String,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let name = match args.model_version.zip(args.commitment) {
        Some((version, commitment)) => {
            precompile::model_spec_hash(&args.text, version, commitment, &args.quantisation)
        }
        None => names::text_name(&args.text),
    };
    output::text(&format!("{}\n", output::hex(name)))
}
