//! `blue commit`: the commitment of a file, and proofs of its chunks.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};

use blue_node::store::{chunk_range, stated_len};
use int_engine::commitment::{FIRST_CHUNK, Tree, verify_chunk};
use int_engine::read::read_exact;
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::loaded::{parse_threads, threads};
use crate::progress::Progress;
use crate::sniff::{Kind, expect_blob, sniff};
use crate::{blob_file, files, output};

const HELP: &str = "\
Examples:
  blue commit model.blob
  blue commit model.blob --proof 0

The commitment is a Keccak-256 Merkle root over chunks of the file, bound to its length (spec 5).
Chunk 0 is the 1024 byte record; the others are 64 KiB. --proof prints one line of JSON
with the keys commitment, total_len, chunks, index, offset, length, leaf, proof and chunk, the chunk's bytes.
Only the file's beginning and length are checked: `blue verify` checks that it is a valid blob.";

/// Print the commitment of a blob, or the Merkle proof of one of its chunks.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The blob
    blob: PathBuf,
    /// Print the Merkle proof of this chunk as JSON
    #[arg(long, value_name = "CHUNK")]
    proof: Option<usize>,
    /// Threads; the result does not depend on it [default: all]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let declared = declared_len(&args.blob)?;
    let progress = Progress::new(args.json);
    let tree = blob_file::hash(&args.blob, threads(args.threads), progress)?;
    if tree.total_len() != declared {
        return Err(changed(&args.blob));
    }
    let commitment = output::hex(tree.commitment().0);
    match args.proof {
        Some(index) => prove(&args.blob, &tree, index),
        None if args.json => output::json(
            &json!({"commitment": commitment, "total_len": tree.total_len(), "chunks": tree.leaves().len()}),
        ),
        None => output::text(&format!("{commitment}\n")),
    }
}

/// The length that the record states (spec 4.1), which must be the file's.
fn declared_len(path: &Path) -> Outcome<u64> {
    let refused = |why: String| {
        Failure::input(format!("{} {why}", path.display()))
            .hint("name a whole file that `blue export` wrote")
    };
    expect_blob(path)?;
    if sniff(path)? != Kind::Blob {
        return Err(refused(
            "is not a blob: it does not begin with BLUEBLOB".into(),
        ));
    }
    let (_, len) = files::open(path)?;
    if len <= FIRST_CHUNK as u64 {
        return Err(refused(format!(
            "has {len} bytes: a blob is longer than its {FIRST_CHUNK} byte record"
        )));
    }
    let declared = stated_len(&blob_file::head(path)?).unwrap_or_default();
    if declared != len {
        return Err(refused(format!(
            "has {len} bytes, its record says {declared}"
        )));
    }
    Ok(len)
}

fn changed(path: &Path) -> Failure {
    Failure::input(format!("{} changed while it was read", path.display()))
}

fn prove(blob: &Path, tree: &Tree, index: usize) -> Outcome {
    let chunks = tree.leaves().len();
    let Some(proof) = tree.prove(index) else {
        return Err(Failure::input(format!("there is no chunk {index}"))
            .hint(format!("this file has chunks 0 to {}", chunks - 1)));
    };
    let Range { start, end } = chunk_range(tree.total_len(), index as u64).unwrap_or_default();
    let (offset, length) = (start, end - start);
    let (file, _) = files::open(blob)?;
    let mut chunk = vec![0; length as usize];
    read_exact(&file, &mut chunk, offset).map_err(|e| Failure::file(blob, e.into()))?;
    if !verify_chunk(
        tree.commitment(),
        tree.total_len(),
        index as u64,
        &chunk,
        &proof,
    ) {
        return Err(changed(blob));
    }
    output::json(&json!({
        "commitment": output::hex(tree.commitment().0),
        "total_len": tree.total_len(),
        "chunks": chunks,
        "index": index,
        "offset": offset,
        "length": length,
        "leaf": output::hex(tree.leaves()[index]),
        "proof": proof.iter().map(output::hex).collect::<Vec<_>>(),
        "chunk": output::hex(&chunk),
    }))
}
