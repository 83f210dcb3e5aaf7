//! `blue chain bench`: whether a gas buys what it is priced for on this machine.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blue_bench::gas::{Case, Chain, PACKED, SHAPES, Shape, random_calls};
use blue_bench::synthetic;
use int_engine::blob::Loader;
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use serde_json::json;

use crate::backend::kernels;
use crate::failure::{Code, Context, Failure, Outcome};
use crate::loaded::{embedded_model, parse_threads};
use crate::measure::failed;
use crate::progress::Progress;
use crate::{blob_file, output};

const HELP: &str = "\
Examples:
  blue chain bench
  blue chain bench --quick --blob model.blob
  blue chain bench --random 2000 --assert

Times calls of generate, verify and logitsDigest through the precompile's code: the embedded model, BLOB, random weights
of the Qwen3-0.6B shape; and the legacy packed call on the toy model. A line is a call: nanoseconds, gas, millions of gas
a second, and that rate in units of the target, ten million a second. This machine keeps up where no call is below 0.5
(spec 6.7): the last line says so. Every call's answer is checked each time; another one ends the run with exit code 3.
--random times calls on models of random dimensions. --assert ends with exit code 3 when the machine does not keep up;
with --calibration also when a call is faster than twice the target, which says that prices are not made for the backend:
they are for avxvnni on two threads.
--json prints one line: backend, threads, cases (name, gas, ns) and random (calls, models, median, slowest) or null.";

/// Measure how much gas a second this machine works off.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// A blob to measure beside the others
    #[arg(long, value_name = "FILE")]
    blob: Option<PathBuf>,
    /// Leave out the random model of 0.6 GB
    #[arg(long)]
    quick: bool,
    /// Times that each call runs; the shortest counts
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Random calls on models of random dimensions
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    random: u32,
    /// Kernels to run on [default: the fastest here]
    #[arg(long, value_parser = kernels)]
    backend: Option<&'static Kernels>,
    /// Threads
    #[arg(long, value_name = "N", default_value = "2", value_parser = parse_threads)]
    threads: NonZeroUsize,
    /// Exit with code 3 when a call is slower than half the target
    #[arg(long)]
    assert: bool,
    /// With --assert, also when one is faster than twice the target
    #[arg(long, requires = "assert")]
    calibration: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// The shapes of the model of 0.6 GB: a call takes up to a second.
const LARGE: [Shape; 5] = [
    Shape::Generate(4, 4),
    Shape::Generate(128, 8),
    Shape::Verify(4, 16),
    Shape::Verify(128, 32),
    Shape::LogitsDigest(64),
];

pub(crate) fn run(args: &Args) -> Outcome {
    let kernels = args.backend.unwrap_or_else(Kernels::detect);
    let progress = Progress::new(args.json);
    let spinner = progress.spinner("preparing");
    let mut chain = Chain::new(kernels, args.threads);
    let mut ready = Vec::new();
    for (n, m) in PACKED {
        ready.push(chain.prepare_packed(n, m).map_err(failed)?);
    }
    for (label, model) in models(args, progress)? {
        spinner.set_message(format!("preparing {label}"));
        let large = label == synthetic::NAME;
        let shapes = if large { &LARGE[..] } else { &SHAPES[..] };
        let config = model.config().clone();
        let name = chain.activate(&model).map_err(failed)?;
        for &shape in shapes {
            if shape.tokens() as usize <= config.max_context() {
                let accepted = config.dims().accepted_ids;
                let call = chain.prepare(&label, &name, accepted, shape, 1);
                ready.push(call.map_err(failed)?);
            }
        }
    }
    let cases = chain.rounds(&ready, args.rounds.into(), &mut |round, name| {
        spinner.set_message(format!("round {}: {name}", round + 1));
    });
    let cases = cases.map_err(failed)?;
    let random = (args.random > 0).then(|| {
        random_calls(
            kernels,
            args.threads,
            args.random as usize,
            20,
            &mut |n, name| {
                spinner.set_message(format!("random call {}: {name}", n + 1));
            },
        )
    });
    let random = random.transpose().map_err(failed)?;
    spinner.finish_and_clear();
    if args.json {
        output::json(
            &json!({"backend": kernels.name, "threads": args.threads, "cases": cases, "random": random}),
        )?;
    } else {
        let mut text = format!("{} on {} threads\n", kernels.name, args.threads);
        text.push_str(&output::table(&rows(&cases)));
        if let Some(r) = &random {
            text.push_str(&format!(
                "{} random calls on {} random models: median {:.2} of the target, slowest {:.2} ({})\n",
                r.calls,
                r.models,
                r.median,
                r.slowest.of_target(),
                r.slowest.name
            ));
        }
        let slowest = cases.iter().chain(random.as_ref().map(|r| &r.slowest));
        let slowest = slowest.map(Case::of_target).fold(f64::INFINITY, f64::min);
        text.push_str(&match slowest >= 0.5 {
            true => {
                format!("keeps up: no call is below 0.5 of the target (slowest {slowest:.2})\n")
            }
            false => {
                format!("does not keep up: a call is at {slowest:.2} of the target, below 0.5\n")
            }
        });
        output::text(&text)?;
    }
    let all = cases.iter().chain(random.as_ref().map(|r| &r.slowest));
    // The price of the packed call is not fitted to any machine.
    let fitted = |c: &Case| !c.name.starts_with("toy/");
    let outside: Vec<_> = all
        .filter(|c| c.of_target() < 0.5 || args.calibration && fitted(c) && c.of_target() > 2.0)
        .map(|c| format!("{} at {:.2}", c.name, c.of_target()))
        .collect();
    if args.assert && !outside.is_empty() {
        return Err(Failure::mismatch(format!(
            "beyond a factor of two of the target: {}",
            outside.join(", ")
        )));
    }
    Ok(())
}

fn models(args: &Args, progress: Progress) -> Outcome<Vec<(String, Arc<Model>)>> {
    let mut models = vec![("tiny".to_owned(), Arc::new(embedded_model()?))];
    if let Some(path) = &args.blob {
        let stem = path
            .file_stem()
            .unwrap_or_else(|| Path::new("blob").as_os_str());
        let model = blob_file::load(path, Loader::new(), args.threads, Code::Input, progress)?;
        models.push((stem.to_string_lossy().into_owned(), Arc::new(model)));
    }
    if !args.quick {
        let config = synthetic::qwen3().or_runtime("the dimensions of Qwen3-0.6B")?;
        let blob = synthetic::blob(&config).map_err(failed)?;
        let model = Model::from_bytes(&blob).or_runtime("the random model does not load")?;
        models.push((synthetic::NAME.to_owned(), Arc::new(model)));
    }
    Ok(models)
}

/// Rows in the manner of the EVM clients' benchmarks of precompiles.
fn rows(cases: &[Case]) -> Vec<Vec<String>> {
    let head = ["call", "ns/op", "gas", "Mgas/s", "of the target"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(cases.iter().map(|case| {
        vec![
            case.name.clone(),
            case.ns.to_string(),
            case.gas.to_string(),
            format!("{:.2}", case.mgas()),
            format!("{:.2}", case.of_target()),
        ]
    }));
    rows
}
