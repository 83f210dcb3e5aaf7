//! `blue inspect`: what a blob says about itself.

use std::path::PathBuf;

use int_engine::blob::Header;
use int_engine::tables;
use serde_json::{Map, Value, json};

use crate::failure::Outcome;
use crate::progress::Progress;
use crate::{blob_file, output};

const HELP: &str = "\
Example:
  blue inspect model.blob

Reads the record and the manifest only; `blue verify` checks the whole file.";

/// Print a blob's record, metadata and tensors.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The blob
    blob: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let (header, file_len) = blob_file::header(&args.blob)?;
    if args.json {
        return output::json(&as_json(&header, file_len));
    }
    if file_len != header.total_len {
        Progress::new(false).note(&format!(
            "warning: {} has {file_len} bytes, its record says {}: it will not load",
            args.blob.display(),
            header.total_len
        ));
    }
    let rows: Vec<(String, String)> = record(&header)
        .into_iter()
        .map(|(name, value)| {
            let text = value.as_str().map(String::from);
            (name.to_string(), text.unwrap_or_else(|| value.to_string()))
        })
        .collect();
    let mut tensors = vec![
        ["tensor", "type", "shape", "offset", "bytes"]
            .map(String::from)
            .to_vec(),
    ];
    for e in &header.entries {
        let shape: Vec<_> = e.shape.iter().map(u32::to_string).collect();
        tensors.push(vec![
            e.name.clone(),
            e.dtype.to_string(),
            format!("[{}]", shape.join(", ")),
            e.offset.to_string(),
            e.length.to_string(),
        ]);
    }
    let mut text = output::pairs(&rows);
    if !header.metadata.is_empty() {
        text.push_str("\nmetadata\n");
        let metadata: Vec<_> = header
            .metadata
            .iter()
            .map(|(key, value)| (format!("  {key}"), value.clone()))
            .collect();
        text.push_str(&output::pairs(&metadata));
    }
    text.push_str(&format!(
        "\n{}\n{} tensors, {}\n",
        output::table(&tensors),
        header.entries.len(),
        output::bytes(header.total_len)
    ));
    output::text(&text)
}

/// The record (spec 4.1) in its order.
fn record(header: &Header) -> Vec<(&'static str, Value)> {
    let c = &header.config;
    let d = c.dims();
    // A record that was read has the one accepted value of each of these.
    let bytes = header.to_bytes();
    let version = |at: usize| bytes[at..].first_chunk().map(|b| u32::from_le_bytes(*b));
    let digest = |digest: [u8; 32]| json!(output::hex(digest));
    vec![
        ("format_version", json!(version(8))),
        ("spec_version", json!(version(12))),
        ("scheme", json!(d.scheme.to_string())),
        ("total_len", json!(header.total_len)),
        ("manifest_len", json!(header.manifest_len)),
        ("hidden", json!(d.hidden)),
        ("layers", json!(d.layers)),
        ("heads", json!(d.heads)),
        ("kv_heads", json!(d.kv_heads)),
        ("head_dim", json!(d.head_dim)),
        ("intermediate", json!(d.intermediate)),
        ("vocab", json!(d.vocab)),
        ("accepted_ids", json!(d.accepted_ids)),
        ("max_context", json!(d.max_context)),
        ("qk_norm", json!(d.qk_norm)),
        ("tied", json!(d.tied)),
        ("eps", json!(d.eps)),
        ("exp2_digest", digest(tables::EXP2_DIGEST)),
        ("sigmoid_digest", digest(tables::SIGMOID_DIGEST)),
        ("rope_digest", digest(tables::ROPE_DIGEST)),
        (
            "tokenizer_digest",
            json!(output::hex(header.tokenizer_digest)),
        ),
        ("stop_ids", json!(d.stop_ids)),
    ]
}

fn as_json(header: &Header, file_len: u64) -> Value {
    let record: Map<String, Value> = record(header)
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect();
    let metadata: Map<String, Value> = header
        .metadata
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let tensors: Vec<Value> = header
        .entries
        .iter()
        .map(|e| json!({"name": e.name, "type": e.dtype.to_string(), "shape": e.shape, "offset": e.offset, "bytes": e.length}))
        .collect();
    json!({"record": record, "metadata": metadata, "tensors": tensors, "file_bytes": file_len, "complete": file_len == header.total_len})
}
