//! `blue commit`: the commitment of a file, and proofs of its chunks.

use std::path::PathBuf;

use int_engine::commitment::{CHUNK, FIRST_CHUNK, Hasher, Tree};
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::progress::Progress;
use crate::{blob_file, output};

const HELP: &str = "\
Examples:
  blue commit model.blob
  blue commit model.blob --proof 0

The commitment is a Keccak-256 Merkle root over chunks of the file, bound to its length (spec 5).
Chunk 0 is the 1024 byte record; the others are 64 KiB. --proof prints one line of JSON.
The bytes are hashed as they are: `blue verify` also checks that they form a valid blob.";

/// Print the commitment of a blob, or the Merkle proof of one of its chunks.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The blob
    blob: PathBuf,
    /// Print the Merkle proof of this chunk as JSON
    #[arg(long, value_name = "CHUNK")]
    proof: Option<usize>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut hasher = Hasher::new();
    blob_file::pieces(&args.blob, "hashing", Progress::new(args.json), |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    let tree = hasher.finish();
    if tree.total_len() <= FIRST_CHUNK as u64 {
        return Err(Failure::input(format!(
            "{} has {} bytes: a blob is longer than its {FIRST_CHUNK} byte record",
            args.blob.display(),
            tree.total_len()
        ))
        .hint("name a file that `blue export` wrote"));
    }
    let commitment = output::hex(&tree.commitment().0);
    match args.proof {
        Some(index) => prove(&tree, index, &commitment),
        None if args.json => output::json(
            &json!({"commitment": commitment, "total_len": tree.total_len(), "chunks": tree.leaves().len()}),
        ),
        None => output::text(&format!("{commitment}\n")),
    }
}

fn prove(tree: &Tree, index: usize, commitment: &str) -> Outcome {
    let chunks = tree.leaves().len();
    let Some(proof) = tree.prove(index) else {
        return Err(Failure::input(format!("there is no chunk {index}"))
            .hint(format!("this file has chunks 0 to {}", chunks - 1)));
    };
    let offset = if index == 0 {
        0
    } else {
        FIRST_CHUNK as u64 + (index as u64 - 1) * CHUNK as u64
    };
    let size = if index == 0 { FIRST_CHUNK } else { CHUNK } as u64;
    output::json(&json!({
        "commitment": commitment,
        "total_len": tree.total_len(),
        "chunks": chunks,
        "index": index,
        "offset": offset,
        "length": size.min(tree.total_len() - offset),
        "leaf": output::hex(&tree.leaves()[index]),
        "proof": proof.iter().map(|hash| output::hex(hash)).collect::<Vec<_>>(),
    }))
}
