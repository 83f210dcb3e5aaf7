//! Sweeps on real models and real sizes, each figure against its limit.

use crate::bench::{Bench, Options};
use crate::{child, stress, synthetic};
use anyhow::{Result, bail};
use exporter::Scheme;
use std::fs;
use std::path::Path;
use std::process::Command;

const EXPORT_SECONDS: f64 = 360.0;
const GIB: f64 = (1u64 << 30) as f64;

/// The checks of [`full`] that fit CI: one export, quality on three kinds of text.
pub(crate) fn quick(options: &Options) -> Result<()> {
    let mut bench = Bench::new(options)?;
    let gguf = bench.fetch()?;
    let exported = bench.export(&gguf, "smollm2.blob", "2", Scheme::Dynamic)?;
    bench.checks.at_most(
        "SmolLM2 export, 2 threads (s)",
        exported.seconds,
        EXPORT_SECONDS,
    );
    bench.quality("SmolLM2", "smollm2.blob", &gguf, 4608, Scheme::Dynamic)?;
    bench.paris("SmolLM2", "smollm2.blob")?;
    bench.claims("smollm2.blob")?;
    bench.checks.finish()
}

/// Everything the project promises about quality, size and export; of speed, what `blue bench` measures alone.
pub(crate) fn full(options: &Options) -> Result<()> {
    let mut bench = Bench::new(options)?;
    let gguf = bench.fetch()?;

    let one = bench.export(&gguf, "smollm2-1.blob", "1", Scheme::Dynamic)?;
    let two = bench.export(&gguf, "smollm2.blob", "2", Scheme::Dynamic)?;
    bench.checks.note(
        "SmolLM2 export, 1 thread (s)",
        format!("{:.1}", one.seconds),
    );
    bench
        .checks
        .at_most("SmolLM2 export, 2 threads (s)", two.seconds, EXPORT_SECONDS);
    let same = fs::read(bench.path("smollm2-1.blob"))? == fs::read(bench.path("smollm2.blob"))?;
    let commitment = two.json()?["commitment"].to_string();
    bench.checks.holds(
        "SmolLM2 blob bytes equal on 1 and 2 threads",
        &commitment,
        same,
    );
    fs::remove_file(bench.path("smollm2-1.blob"))?;
    bench.quality("SmolLM2", "smollm2.blob", &gguf, 5120, Scheme::Dynamic)?;
    bench.paris("SmolLM2", "smollm2.blob")?;
    bench.speed("smollm2.blob")?;
    bench.claims("smollm2.blob")?;
    bench.gas("smollm2.blob")?;

    bench.export(&gguf, "smollm2-static.blob", "2", Scheme::Static)?;
    let name = "SmolLM2 static";
    bench.quality(name, "smollm2-static.blob", &gguf, 5120, Scheme::Static)?;
    bench.paris(name, "smollm2-static.blob")?;

    let stressed = bench.path("smollm2-outliers");
    stress::run(Path::new(&gguf), Path::new(&stressed), 1)?;
    bench.export(&stressed, "outliers.blob", "2", Scheme::Dynamic)?;
    bench.quality(
        "SmolLM2 with outliers",
        "outliers.blob",
        &stressed,
        5120,
        Scheme::Dynamic,
    )?;
    fs::remove_dir_all(&stressed)?;

    let qwen = bench.path("qwen3-0.6b-synthetic");
    synthetic::write(Path::new(&qwen))?;
    let exported = bench.export(&qwen, "qwen3.blob", "2", Scheme::Dynamic)?;
    bench.checks.note(
        "Qwen3-0.6B shape export, 2 threads (s)",
        format!("{:.1}", exported.seconds),
    );
    bench.checks.at_most(
        "Qwen3-0.6B shape export peak memory (GiB)",
        exported.peak_bytes as f64 / GIB,
        6.0,
    );
    let bytes = fs::metadata(bench.path("qwen3.blob"))?.len() as f64;
    bench
        .checks
        .at_most("Qwen3-0.6B shape blob (MB)", bytes / 1e6, 605.0);
    let run = bench.blue(&[
        "generate",
        &bench.path("qwen3.blob"),
        "--prompt",
        "Hello world",
        "--max-new",
        "16",
        "--json",
    ])?;
    let produced = run.json()?;
    let ids = produced["output_ids"].as_array().map_or(0, Vec::len);
    bench
        .checks
        .holds("Qwen3-0.6B shape generates", &format!("{ids} ids"), ids > 0);
    fs::remove_dir_all(&qwen)?;
    bench.checks.finish()
}

/// Re-exports `models/tiny-austen` into `models/default`.
pub(crate) fn bless() -> Result<()> {
    let blue = child::build_blue()?;
    let out = child::root().join("models/default/blue-tiny.blob");
    let source = child::root().join("models/tiny-austen");
    child::run(
        Command::new(blue)
            .arg("export")
            .arg(source)
            .arg("-o")
            .arg(&out),
    )?;
    if !out.is_file() {
        bail!("{} was not written", out.display());
    }
    Ok(())
}
