//! Exports a checkpoint and compares the blob with the float model.
//!
//! `cargo run --release -p exporter --example measure -- CHECKPOINT TEXT [OPTION=VALUE]...`
//!
//! TEXT is a text file, or a JSON array of arrays of ids for a model without a tokenizer. Options: `threads` (2), `window` (256
//! tokens), `windows` (4, evenly spaced over the text), `stress` (a seed: inject outliers first), `out` (keep the blob there),
//! `blob` (compare this blob, export nothing), `skip` (1: export only), `scheme` (dynamic, or static).

use exporter::quality::Comparison;
use exporter::{ExportOptions, Scheme, calibration, export, stress};
use float_engine::forward::FloatModel;
use float_engine::source::Checkpoint;
use float_engine::tokenizer::Tokenizer;
use int_engine::engine::{CpuEngine, Engine};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, text, options @ ..] = &args[..] else {
        return Err("usage: measure CHECKPOINT TEXT [OPTION=VALUE]...".into());
    };
    let option = |name: &str| {
        let value = |o: &'_ String| {
            o.split_once('=')
                .filter(|(n, _)| *n == name)
                .map(|(_, v)| v.to_owned())
        };
        options.iter().find_map(value)
    };
    let number = |name: &str, default: usize| -> Result<usize, Failure> {
        Ok(option(name)
            .map(|v| v.parse())
            .transpose()?
            .unwrap_or(default))
    };
    let threads = number("threads", 2)?;
    let mut checkpoint = Checkpoint::open(Path::new(folder))?;
    if let Some(seed) = option("stress") {
        checkpoint = stress::inject(&checkpoint, seed.parse()?)?;
    }
    let c = checkpoint.config().clone();
    let tokenizer = Tokenizer::open(Path::new(folder)).ok();
    let text = std::fs::read_to_string(text)?;
    let (calibration, evaluation, accepted) = match &tokenizer {
        Some(t) => {
            let (window, count) = (number("window", 256)?, number("windows", 4)?);
            let ids = t.encode(&text)?;
            let all: Vec<Vec<u32>> = ids.chunks_exact(window).map(<[u32]>::to_vec).collect();
            let count = count.min(all.len());
            let some = (0..count)
                .map(|i| all[i * all.len() / count].clone())
                .collect();
            (
                calibration::bundled(t, c.max_context)?,
                some,
                t.vocab_size() as u32,
            )
        }
        None => {
            let windows: Vec<Vec<u32>> = serde_json::from_str(&text)?;
            (
                calibration::random_windows(1, c.vocab, 12, 64),
                windows,
                c.vocab as u32,
            )
        }
    };
    let threads_ = NonZeroUsize::new(threads).ok_or("threads must be at least 1")?;
    let mut options = ExportOptions::new(threads_, accepted.min(c.vocab as u32), calibration);
    options.scheme = match option("scheme").as_deref() {
        None | Some("dynamic") => Scheme::Dynamic,
        Some("static") => Scheme::Static,
        Some(other) => return Err(format!("no scheme {other}").into()),
    };
    let bytes = match option("blob") {
        Some(path) => std::fs::read(path)?,
        None => {
            let keep = option("out").map(PathBuf::from);
            let temporary = format!("measure-{}.blob", std::process::id());
            let out = keep
                .clone()
                .unwrap_or_else(|| std::env::temp_dir().join(temporary));
            let start = Instant::now();
            let report = export(&checkpoint, &out, &options, &mut ())?;
            println!("{}", report.to_text());
            println!("export took {:.1} s", start.elapsed().as_secs_f64());
            let bytes = std::fs::read(&out)?;
            if keep.is_none() {
                std::fs::remove_file(&out)?;
            }
            bytes
        }
    };
    if number("skip", 0)? == 1 {
        return Ok(());
    }
    let model = Arc::new(Model::from_bytes(&bytes)?);
    drop(bytes);
    let engine = CpuEngine::new(model, Kernels::detect(), threads_);
    let float = FloatModel::load(&checkpoint)?;
    let mut comparison = Comparison::default();
    for w in evaluation {
        let w: &[u32] = &w;
        let expected = float.logits(w, threads)?;
        engine.session()?.feed_all_logits(w, &mut |t, g| {
            let e = &expected[t * c.vocab..][..c.vocab];
            comparison.add(e, g, w.get(t + 1).copied());
        })?;
        println!(
            "{} positions: mean KL {:.5}, agreement {:.2} %, perplexity {:.4} float, {:.4} integer",
            comparison.positions(),
            comparison.kl_mean(),
            100.0 * comparison.top1_agreement(),
            comparison.perplexity_float(),
            comparison.perplexity_int()
        );
    }
    Ok(())
}
