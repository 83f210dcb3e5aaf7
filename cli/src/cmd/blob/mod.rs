//! `blue blob`: blobs by commitment in a folder, served, fetched from sources that nobody has to trust.

mod bars;
mod fetch;
mod import;
mod list;
mod remove;
mod scrub;
mod serve;

use std::path::PathBuf;

use blue_node::fetch::{Fault, FetchError, SourceReport, Trouble};
use blue_node::store::Store;
use serde_json::{Value, json};

use crate::failure::{Code, Context, Failure, Outcome};
use crate::output;
use crate::store::failure;

const HELP: &str = "\
Examples:
  blue blob import model.blob --store blobs
  blue blob serve --store blobs --listen 127.0.0.1:9000
  blue blob fetch 0x… --store other --from http://127.0.0.1:9000 --from /mnt/blobs
  blue blob list --store other
  blue blob scrub --store other --from http://127.0.0.1:9000

A store is a folder: <64 digits>.blob and <64 digits>.leaves for each blob, partial/ for what is not whole yet,
damaged/ for what the disk has changed. Any file server that answers range requests can offer such a folder.";

/// Blobs by commitment: keep, serve and fetch them.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Serve(serve::Args),
    Fetch(fetch::Args),
    Import(import::Args),
    List(list::Args),
    Scrub(scrub::Args),
    Remove(remove::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.action {
        Action::Serve(args) => serve::run(&args),
        Action::Fetch(args) => fetch::run(&args),
        Action::Import(args) => import::run(&args),
        Action::List(args) => list::run(&args),
        Action::Scrub(args) => scrub::run(&args),
        Action::Remove(args) => remove::run(&args),
    }
}

/// The folder.
#[derive(clap::Args)]
struct StoreArg {
    /// The folder of the store
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
}

impl StoreArg {
    /// For writing; made if it is not there.
    fn open(&self) -> Outcome<Store> {
        Store::open(&self.store).map_err(failure)
    }

    /// For writing; it must be there.
    fn open_existing(&self) -> Outcome<Store> {
        self.read()?;
        self.open()
    }

    /// For reading, whoever writes.
    fn read(&self) -> Outcome<Store> {
        Store::open_read_only(&self.store)
            .or_input("there is no store")
            .map_err(|e| {
                e.hint("name a folder that `blue blob import` or `blue blob fetch` has made")
            })
    }
}

fn unfetched(error: FetchError) -> Failure {
    match error {
        FetchError::Store(error) => failure(error),
        error if error.only_other_bytes() => Failure::new(Code::Mismatch, error)
            .hint("compare the commitment; name another source with --from"),
        error if is_too_long(&error) => {
            Failure::new(Code::Runtime, error).hint("--max-len allows longer blobs")
        }
        error @ FetchError::Exhausted { .. } => Failure::new(Code::Runtime, error).hint(
            "run the command again, or name more sources with --from; what has arrived is kept",
        ),
        error => Failure::new(Code::Runtime, error),
    }
}

/// Whether a source has the blob, but it is longer than was allowed.
fn is_too_long(error: &FetchError) -> bool {
    let FetchError::Exhausted { sources, .. } = error else {
        return false;
    };
    let mut faults = sources.iter().flat_map(|source| &source.faults);
    faults.any(|fault| matches!(fault.trouble, Trouble::TooLong { .. }))
}

fn sources_json(sources: &[SourceReport]) -> Value {
    let fault = |fault: &Fault| json!({"chunk": fault.chunk, "kind": fault.trouble.kind(), "reason": fault.trouble.to_string()});
    let source = |source: &SourceReport| {
        json!({
            "name": source.name,
            "chunks": source.chunks,
            "bytes": source.bytes,
            "given_up": source.given_up,
            "fault_count": source.fault_count,
            "faults": source.faults.iter().map(fault).collect::<Vec<_>>(),
        })
    };
    sources.iter().map(source).collect()
}

/// A table with a row for each source.
fn sources_table(sources: &[SourceReport]) -> String {
    let mut rows = vec![
        ["source", "chunks", "bytes", "faults", ""]
            .map(String::from)
            .to_vec(),
    ];
    for source in sources {
        let said = source.worst().map(ToString::to_string).unwrap_or_default();
        let name = source.name.clone();
        rows.push(vec![
            name,
            source.chunks.to_string(),
            output::bytes(source.bytes),
            source.fault_count.to_string(),
            said,
        ]);
    }
    output::table(&rows)
}
