//! `blue node check`: whether this machine can be a validator.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use blue_bench::gas::{Case, Chain, Shape};
use blue_bench::machine::Machine;
use blue_bench::memory::{self, Memory};
use blue_node::models::{Backend, Cpu, CrossCheckError, Purpose, cross_check};
use int_engine::blob::Loader;
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use serde_json::{Value, json};

use crate::backend::kernels;
use crate::failure::{Code, Context, Failure, Outcome};
use crate::loaded::{parse_threads, threads};
use crate::measure::failed;
use crate::progress::Progress;
use crate::{blob_file, output, selftest};

const HELP: &str = "\
Examples:
  blue node check
  blue node check model.blob other.blob --assert

Verifies the known answers of the specification, which this program holds, on the backend that will answer. For each BLOB
it then measures what a node takes for it: the time from the file to a model that is ready, the memory of the weights, of
keys and values for 1024 tokens, and of the rest; compares the model's logits with those of the portable kernels; and
times calls of the precompile against their prices. A machine keeps up where no call is below 0.5 of the target (spec 6.7).
A wrong answer ends with exit code 3; with --assert also a machine that does not keep up.
--json prints one line with the keys backend, threads, memory_total, selftest (files, cases, seconds), models (file,
commitment, blob, load_seconds, memory, cases) and keeps_up, null without a BLOB.";

/// Answers this machine must know, memory and time that a node's models take on it.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Blobs that the node will hold
    blobs: Vec<PathBuf>,
    /// Kernels to run on [default: the fastest here]
    #[arg(long, value_parser = kernels)]
    backend: Option<&'static Kernels>,
    /// Threads [default: all]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// Exit with code 3 when a call is slower than half the target
    #[arg(long)]
    assert: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// The calls that are timed: a question, and a claim that is checked.
const SHAPES: [Shape; 2] = [Shape::Generate(16, 16), Shape::Verify(16, 64)];
/// Times that each runs; the shortest counts.
const ROUNDS: usize = 3;

/// What a model takes.
struct Measured<'a> {
    file: &'a Path,
    model: Arc<Model>,
    load_seconds: f64,
    memory: Option<Memory>,
    cases: Vec<Case>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let cpu = Cpu {
        kernels: args.backend.unwrap_or_else(Kernels::detect),
        threads: threads(args.threads),
        call_threads: NonZeroUsize::MIN,
        prefix_cache: 0,
    };
    let progress = Progress::new(args.json);
    let machine = Machine::here();
    let begun = Instant::now();
    let passed = selftest::run(cpu.name(), cpu.threads, progress)?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut models = Vec::new();
    for file in &args.blobs {
        models.push(measure(file, &cpu, progress)?);
    }
    let slowest = models.iter().flat_map(|m| &m.cases);
    let slowest = slowest.map(Case::of_target).reduce(f64::min);
    let keeps_up = slowest.map(|slowest| slowest >= 0.5);
    if args.json {
        output::json(&json!({
            "backend": cpu.name(),
            "threads": cpu.threads,
            "memory_total": machine.memory,
            "selftest": {"files": passed.files, "cases": passed.cases, "seconds": seconds},
            "models": models.iter().map(Measured::json).collect::<Vec<_>>(),
            "keeps_up": keeps_up,
        }))?;
    } else {
        let mut text = format!(
            "machine    {}, {} of memory; {} on {} threads\n\
             self-test  {} known answers of {} files hold ({seconds:.1} s)\n",
            machine.cpu,
            output::bytes(machine.memory),
            cpu.name(),
            cpu.threads,
            passed.cases,
            passed.files,
        );
        models.iter().for_each(|model| text.push_str(&model.text()));
        match (keeps_up, slowest) {
            (Some(true), Some(slowest)) => text.push_str(&format!(
                "keeps up: no call is below 0.5 of the target (slowest {slowest:.2})\n"
            )),
            (Some(false), Some(slowest)) => text.push_str(&format!(
                "does not keep up: a call is at {slowest:.2} of the target, must be 0.5 or more\n"
            )),
            _ => {}
        }
        output::text(&text)?;
    }
    match keeps_up {
        Some(false) if args.assert => Err(Failure::told(Code::Mismatch)),
        _ => Ok(()),
    }
}

fn measure<'a>(file: &'a Path, cpu: &Cpu, progress: Progress) -> Outcome<Measured<'a>> {
    let begun = Instant::now();
    let model = blob_file::load(file, Loader::new(), cpu.threads, Code::Input, progress)?;
    let load_seconds = begun.elapsed().as_secs_f64();
    let spinner = progress.spinner("comparing with the portable kernels");
    let model = Arc::new(model);
    let started = cpu.start(&model, Purpose::Blocks);
    let started = started.or_runtime("this machine cannot run the model")?;
    cross_check(&*started.engine, &model, cpu.threads).map_err(|error| {
        let code = match error {
            CrossCheckError::Differs { .. } => Code::Mismatch,
            CrossCheckError::Fault(_) => Code::Runtime,
        };
        Failure::new(code, error)
    })?;
    spinner.set_message("measuring memory");
    let program = std::env::current_exe().or_runtime("the name of this program")?;
    // Where the system does not tell, the rest is told.
    let memory = memory::of_program(&program, &["bench", "--probe-memory"], file).ok();
    spinner.set_message("timing calls");
    let mut chain = Chain::new(cpu.kernels, cpu.threads);
    let name = chain.activate(&model).map_err(failed)?;
    let accepted = model.config().dims().accepted_ids;
    let mut ready = Vec::new();
    for shape in SHAPES {
        if shape.tokens() as usize <= model.config().max_context() {
            ready.push(
                chain
                    .prepare("", &name, accepted, shape, 1)
                    .map_err(failed)?,
            );
        }
    }
    let cases = chain
        .rounds(&ready, ROUNDS, &mut |_, _| {})
        .map_err(failed)?;
    spinner.finish_and_clear();
    Ok(Measured {
        file,
        model,
        load_seconds,
        memory,
        cases,
    })
}

impl Measured<'_> {
    fn json(&self) -> Value {
        json!({
            "file": self.file.display().to_string(),
            "commitment": self.model.commitment().to_string(),
            "blob": self.model.blob_len(),
            "load_seconds": self.load_seconds,
            "memory": self.memory,
            "cases": self.cases,
        })
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{}  {}\n  disk       {}\n  load       {:.2} s, and the logits are those of the portable kernels\n",
            self.file.display(),
            self.model.commitment(),
            output::bytes(self.model.blob_len()),
            self.load_seconds,
        );
        if let Some(memory) = &self.memory {
            text.push_str(&format!(
                "  memory     {} loaded; {} of keys and values for {} tokens; {} beside, of a whole process\n",
                output::bytes(memory.loaded),
                output::bytes(memory.kv),
                memory.context,
                output::bytes(memory.beside().max(0) as u64),
            ));
        }
        for case in &self.cases {
            let ms = case.ns as f64 / 1e6;
            text.push_str(&format!(
                "  {:<14} {ms:.1} ms for {} gas: {:.2} Mgas/s, {:.2} of the target\n",
                case.name.trim_start_matches('/'),
                case.gas,
                case.mgas(),
                case.of_target(),
            ));
        }
        text
    }
}
