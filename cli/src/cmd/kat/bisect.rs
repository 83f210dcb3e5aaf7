//! `blue kat bisect`: the first operation at which two sides part.

use std::fs::File;
use std::io::BufReader;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use int_engine::blob::Loader;
use int_engine::engine::Engine;
use int_engine::model::Model;
use kat::bisect::{
    BisectError, Difference, Element, EngineSide, FileSide, Report, Side, SideError, bisect,
};
use kat::trace::{Header, Place, RunError};
use serde_json::{Value, json};

use super::trace::{cannot_run, machine};
use crate::backend::Backend;
use crate::failure::{Code, Context, Failure, Outcome};
use crate::ids::{self, TokenList};
use crate::loaded::{embedded_model, parse_threads, threads};
use crate::progress::Progress;
use crate::{blob_file, embedded, files, output};

const HELP: &str = "\
Examples:
  blue kat bisect mine.trace theirs.trace
  blue kat bisect reference theirs.trace --model model.blob
  blue kat bisect avx2:64 reference --tokens 1,7,13

A side is a trace file (spec 7.10) or a backend, as in `--backend`; a backend computes the prompt of the
other side's file, or that of --tokens. BACKEND:N feeds N tokens at once, and N > 1 takes the path of
prefill; without N it is one. A file whose name is a backend's is written with its folder: ./avx2.

Both sides are compared in the order of computation, as far as they have operations in common, and the
comparison ends at the first difference. The element is known where both sides have values: a backend
computes them, a file has them when it was written with --values.

Exit codes: 0 no difference, 3 a difference, 2 input that cannot be read or compared, 1 trouble here.";

/// Find the first operation at which two traces or backends differ.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// A trace file, or a backend: BACKEND or BACKEND:N
    a: String,
    /// The other one
    b: String,
    /// The blob, where a side is a backend [default: the embedded model]
    #[arg(long, value_name = "BLOB")]
    model: Option<PathBuf>,
    /// The prompt as token ids between commas [default: that of the trace file]
    #[arg(
        long,
        visible_alias = "ids",
        value_name = "1,2,3",
        allow_hyphen_values = true
    )]
    tokens: Option<TokenList>,
    /// Threads of a backend [default: all]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let report = compare(args)?;
    if report.difference.is_some() {
        Err(Failure::told(Code::Mismatch))
    } else {
        Ok(())
    }
}

/// What a side's argument names.
enum Named {
    Backend(Backend, usize),
    File(Box<FileSide<BufReader<File>>>),
}

/// A backend at work.
struct Computed {
    engine: Box<dyn Engine>,
    header: Header,
    chunk: usize,
}

fn compare(args: &Args) -> Outcome<Report> {
    let [a, b] = [named(&args.a)?, named(&args.b)?];
    let prompt = prompt(args, [&a, &b])?;
    let computed = computed(args, [&a, &b], &prompt)?;
    let (mut a, mut b) = (open(a, &computed[0])?, open(b, &computed[1])?);
    let report = bisect(&mut *a, &mut *b).map_err(|e| cannot_compare(e, args))?;
    let sides = [(&args.a, a.header()), (&args.b, b.header())];
    if args.json {
        output::json(&as_json(&report, sides))?;
    } else {
        output::text(&as_text(&report, sides))?;
    }
    Ok(report)
}

/// The engines of those sides that are backends.
fn computed(args: &Args, named: [&Named; 2], prompt: &[u32]) -> Outcome<[Option<Computed>; 2]> {
    if named.iter().all(|n| matches!(n, Named::File(_))) {
        return Ok([None, None]);
    }
    let (model, bytes) = load(args)?;
    for side in named {
        if let Named::File(file) = side {
            same_model(file.header(), &model, args.model.as_deref())?;
        }
    }
    ids::check(prompt, model.config())?;
    let threads = threads(args.threads);
    let one = |side: &Named| -> Outcome<Option<Computed>> {
        let Named::Backend(backend, chunk) = side else {
            return Ok(None);
        };
        let engine = backend.engine(&model, threads, &bytes)?;
        let header = Header {
            commitment: model.commitment().0,
            prompt: prompt.to_vec(),
            target: engine.backend().to_owned(),
            machine: machine(threads, *chunk),
        };
        Ok(Some(Computed {
            engine,
            header,
            chunk: *chunk,
        }))
    };
    Ok([one(named[0])?, one(named[1])?])
}

fn open<'a>(named: Named, computed: &'a Option<Computed>) -> Outcome<Box<dyn Side + 'a>> {
    match (named, computed) {
        (Named::File(file), _) => Ok(file),
        (Named::Backend(..), Some(c)) => Ok(Box::new(
            EngineSide::new(&*c.engine, &c.header, c.chunk).map_err(cannot_run)?,
        )),
        (Named::Backend(..), None) => Err(Failure::runtime("a backend has no engine")),
    }
}

fn named(text: &str) -> Outcome<Named> {
    let (name, chunk) = match text.rsplit_once(':') {
        Some((name, chunk)) => (name, chunk.parse::<NonZeroUsize>().ok()),
        None => (text, Some(NonZeroUsize::MIN)),
    };
    let why = match (name.parse::<Backend>(), chunk) {
        (Ok(backend), Some(chunk)) => return Ok(Named::Backend(backend, chunk.get())),
        (Ok(_), None) => "a chunk is a whole number from 1".to_owned(),
        (Err(why), _) => why,
    };
    let path = Path::new(text);
    if !path.exists() {
        return Err(Failure::input(format!(
            "`{text}` is neither a file nor a backend of this machine: {why}"
        ))
        .hint("give a trace file, a backend, or a backend and its chunk as in avx2:64"));
    }
    let (file, _) = files::open(path)?;
    let side = FileSide::new(BufReader::with_capacity(1 << 20, file))
        .or_input(format!("{text} is not a trace"))
        .map_err(|e| e.hint("a trace is a file of spec 7.10, as `blue kat trace` writes"))?;
    Ok(Named::File(Box::new(side)))
}

/// The prompt of the first file, or the one given; that all sides have the same is checked later.
fn prompt(args: &Args, named: [&Named; 2]) -> Outcome<Vec<u32>> {
    let of_file = named.into_iter().find_map(|n| match n {
        Named::File(file) => Some(&file.header().prompt),
        Named::Backend(..) => None,
    });
    match (&args.tokens, of_file) {
        (None, Some(prompt)) => Ok(prompt.clone()),
        (Some(given), None) => Ok(given.0.clone()),
        (Some(given), Some(prompt)) if given.0 == *prompt => Ok(prompt.clone()),
        (Some(_), Some(_)) => Err(
            Failure::input("--tokens is another prompt than the trace's")
                .hint("leave --tokens out: a trace file holds its prompt"),
        ),
        (None, None) => Err(Failure::input("two backends need a prompt")
            .hint("give one with --tokens, as in --tokens 1,7,13")),
    }
}

type Bytes<'a> = Box<dyn Fn() -> Outcome<Vec<u8>> + 'a>;

fn load(args: &Args) -> Outcome<(Arc<Model>, Bytes<'_>)> {
    match &args.model {
        Some(path) => {
            let progress = Progress::new(args.json);
            let threads = threads(args.threads);
            let model = blob_file::load(path, Loader::new(), threads, Code::Input, progress)?;
            let bytes = move || std::fs::read(path).map_err(|e| Failure::file(path, e));
            Ok((Arc::new(model), Box::new(bytes)))
        }
        None => Ok((
            Arc::new(embedded_model()?),
            Box::new(|| Ok(embedded::BLOB.to_vec())),
        )),
    }
}

fn same_model(header: &Header, model: &Model, given: Option<&Path>) -> Outcome {
    if header.commitment == model.commitment().0 {
        return Ok(());
    }
    let which = given.map_or("the embedded model".into(), |path| {
        path.display().to_string()
    });
    Err(Failure::input(format!(
        "the trace is of another model: its commitment is {}, that of {which} is {}",
        output::hex(header.commitment),
        model.commitment()
    ))
    .hint("name the blob of the trace with --model"))
}

fn cannot_compare(e: BisectError, args: &Args) -> Failure {
    match e {
        BisectError::A(SideError::Run(RunError::Engine(e)))
        | BisectError::B(SideError::Run(RunError::Engine(e))) => crate::backend::refused(e),
        BisectError::A(e) => {
            Failure::new(Code::Input, anyhow::Error::new(e).context(args.a.clone()))
        }
        BisectError::B(e) => {
            Failure::new(Code::Input, anyhow::Error::new(e).context(args.b.clone()))
        }
        e => Failure::new(Code::Input, e),
    }
}

fn as_text(report: &Report, sides: [(&String, &Header); 2]) -> String {
    let rows: Vec<(String, String)> = ["a", "b"]
        .iter()
        .zip(sides)
        .map(|(side, (named, header))| {
            let on = if header.machine.is_empty() {
                ""
            } else {
                " on "
            };
            let said = format!("{named}: {}{on}{}", header.target, header.machine);
            ((*side).to_owned(), said)
        })
        .collect();
    let mut text = output::pairs(&rows);
    let last = report
        .last_agreed
        .map_or(String::new(), |place| format!(", the last {place}"));
    match &report.difference {
        None => {
            text += &format!("no difference: {} operations agree\n", report.agreed);
            for (side, only) in [("a", report.only_a), ("b", report.only_b)] {
                if only > 0 {
                    text += &format!("only in {side}: {only} operations, not compared\n");
                }
            }
        }
        Some(found) => {
            text += &format!("first difference: {}{}\n", found.place, values(found));
            text += &format!("agreed before it: {} operations{last}\n", report.agreed);
            if found.unseen > 0 {
                text += &format!(
                    "between these two, {} operations are on one side only: the fault may be in one of them\n",
                    found.unseen
                );
            }
        }
    }
    text
}

fn values(found: &Difference) -> String {
    let (a, b) = found.counts;
    let side = |v: Option<i64>| v.map_or("none".to_owned(), |v| v.to_string());
    match &found.element {
        Some(e) => format!(
            "; element {}: {} vs {} ({} of {} differ)",
            e.index,
            side(e.a),
            side(e.b),
            e.differing,
            a.max(b)
        ),
        None if a != b => format!("; {a} values vs {b}"),
        None => "; a side has digests only, so the element is not known".to_owned(),
    }
}

fn as_json(report: &Report, sides: [(&String, &Header); 2]) -> Value {
    let place = |p: Place| json!({"position": p.position, "layer": p.layer, "op": p.op.name()});
    // Integers as in spec 7.1.
    let integer = |v: i64| match v.unsigned_abs() {
        0..0x20_0000_0000_0000 => json!(v),
        _ => json!(v.to_string()),
    };
    let element = |e: &Element| json!({"index": e.index, "a": e.a.map(integer), "b": e.b.map(integer), "differing": e.differing});
    let difference = report.difference.as_ref().map(|d| {
        let mut value = place(d.place);
        value["count"] = json!([d.counts.0, d.counts.1]);
        value["digest"] = json!([d.digests.0, d.digests.1].map(|d| kat::hex::encode(&d)));
        value["element"] = json!(d.element.as_ref().map(element));
        value["unseen"] = json!(d.unseen);
        value
    });
    let [a, b] = sides.map(|(named, header)| {
        json!({"side": named, "target": header.target, "machine": header.machine})
    });
    json!({
        "a": a,
        "b": b,
        "commitment": kat::hex::encode(&sides[0].1.commitment),
        "agreed": report.agreed,
        "last_agreed": report.last_agreed.map(place),
        "only_a": report.only_a,
        "only_b": report.only_b,
        "difference": difference,
    })
}
