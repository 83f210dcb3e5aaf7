//! `blue blob scrub`: every byte of a store hashed again, and what the disk has changed fetched again.

use std::ops::ControlFlow;

use blue_node::fetch::{Report, fetch};
use blue_node::store::{Checked, State, Store, Verdict};
use int_engine::commitment::Commitment;
use serde_json::{Value, json};

use super::bars::Bars;
use super::fetch::How;
use super::{StoreArg, unfetched};
use crate::failure::{Code, Failure, Outcome};
use crate::loaded::threads;
use crate::output;
use crate::progress::Progress;
use crate::store::{failure, sources};

const HELP: &str = "\
Examples:
  blue blob scrub --store blobs
  blue blob scrub --store blobs --from http://127.0.0.1:9000

A damaged blob is moved to damaged/, so that nobody gets it. With --from its bad chunks, and no others, are fetched again
and the blob is published again; blobs that were found damaged earlier too. Exit code 3: damage that is not repaired.";

/// Hash every blob of a store again; repair damaged ones.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArg,
    /// A source for repairs: an address that begins with http:// or https://, or a folder; may be given several times
    #[arg(long, value_name = "URL|DIR")]
    from: Vec<String>,
    #[command(flatten)]
    how: How,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// A blob, what was found, and what became of it.
struct Row {
    commitment: Commitment,
    len: u64,
    verdict: Option<Verdict>,
    repaired: Option<Result<Report, String>>,
}

impl Row {
    fn state(&self) -> &'static str {
        match (&self.verdict, &self.repaired) {
            (_, Some(Ok(_))) => "repaired",
            (Some(Verdict::Right), _) => "right",
            (Some(Verdict::Leaves), _) => "leaves repaired",
            _ => "damaged",
        }
    }

    fn chunks(&self) -> &[u64] {
        match &self.verdict {
            Some(Verdict::Chunks(chunks)) => chunks,
            _ => &[],
        }
    }

    fn said(&self) -> String {
        let found = match &self.verdict {
            Some(Verdict::Right | Verdict::Leaves) => String::new(),
            Some(damage) => damage.to_string(),
            None => "found earlier".into(),
        };
        match &self.repaired {
            Some(Err(why)) => format!("{found}; {}", why.replace('\n', ";")),
            Some(Ok(report)) => format!(
                "{found}; {} fetched",
                output::bytes(report.len - report.kept)
            ),
            None => found,
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let from = sources(&args.from)?;
    let store = args.store.open_existing()?;
    let progress = Progress::new(args.json);
    let mut bars = Bars::new(progress);
    let checked = store
        .scrub(threads(args.how.threads), &mut |done, total| {
            bars.bytes("hashing", done, total);
        })
        .map_err(failure)?;
    bars.clear();
    let mut rows = rows(&store, checked)?;
    for row in &mut rows {
        if row.state() != "damaged" || from.is_empty() {
            continue;
        }
        let options = args.how.options();
        let fetched = fetch(&store, row.commitment, &from, &options, &mut |step| {
            bars.fetching(step);
            ControlFlow::Continue(())
        });
        bars.clear();
        row.repaired = Some(fetched.map_err(|error| unfetched(error).reason()));
    }
    let whole = rows.iter().all(|row| row.state() != "damaged");
    if args.json {
        let row = |row: &Row| {
            json!({
                "commitment": row.commitment.to_string(),
                "len": row.len,
                "state": row.state(),
                "bad_chunks": row.chunks(),
                "fetched": row.repaired.as_ref().and_then(|r| r.as_ref().ok()).map(|r| r.len - r.kept),
                "reason": row.repaired.as_ref().and_then(|r| r.as_ref().err()),
            })
        };
        let blobs: Vec<Value> = rows.iter().map(row).collect();
        output::json(&json!({"whole": whole, "blobs": blobs}))?;
    } else {
        let mut table = vec![
            ["commitment", "size", "state", ""]
                .map(String::from)
                .to_vec(),
        ];
        for row in &rows {
            table.push(vec![
                row.commitment.to_string(),
                output::bytes(row.len),
                row.state().into(),
                row.said(),
            ]);
        }
        output::text(&output::table(&table))?;
    }
    if whole {
        Ok(())
    } else {
        if from.is_empty() {
            progress.note("hint: --from fetches the bad chunks again; name a source");
        }
        Err(Failure::told(Code::Mismatch))
    }
}

/// What was checked now, and what had been found damaged before.
fn rows(store: &Store, checked: Vec<Checked>) -> Outcome<Vec<Row>> {
    let mut rows: Vec<Row> = checked
        .into_iter()
        .map(|c| Row {
            commitment: c.commitment,
            len: c.len,
            verdict: Some(c.verdict),
            repaired: None,
        })
        .collect();
    for entry in store.list().map_err(failure)? {
        let known = rows.iter().any(|row| row.commitment == entry.commitment);
        if entry.state == State::Damaged && !known {
            rows.push(Row {
                commitment: entry.commitment,
                len: entry.len,
                verdict: None,
                repaired: None,
            });
        }
    }
    Ok(rows)
}
