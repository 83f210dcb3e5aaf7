//! Repository tasks, run as `cargo xtask NAME`.

#![deny(unsafe_code)]

mod bench;
mod child;
mod claims;
mod coherence;
mod cross;
mod differ;
mod full;
mod fuzz;
mod mutants;
mod progress;
mod soak;
mod stress;
mod synthetic;
mod vectors;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Long sweeps and generated files of the repository.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Real-model checks within CI's time: SmolLM2 export, quality on three short texts, claims about its answers
    Quick(bench::Options),
    /// Every sweep: SmolLM2 on 1 and 2 threads and with static scales, quality, injected outliers, the Qwen3-0.6B shape,
    /// speed, calls of the precompile against their prices
    Full(bench::Options),
    /// Float, dynamic and static side by side: greedy text, perplexity, divergence of SmolLM2 and the tiny Qwen3
    Coherence(coherence::Options),
    /// Write a copy of a checkpoint with function-preserving outliers
    Stress {
        /// Hugging Face folder or GGUF file
        source: PathBuf,
        /// Folder to create
        out: PathBuf,
        /// Seed of the outlier positions
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Write a random checkpoint of the exact Qwen3-0.6B shape (bf16, two shards, outlier channels)
    SyntheticQwen3 {
        /// Folder to create
        out: PathBuf,
    },
    /// Random sessions of the embedded tiny model: every backend and the reference give the same logits
    Differ(differ::Options),
    /// The tests of int-reference, int-engine and kat on arm64 and s390x under emulation
    Cross(cross::Tests),
    /// Known answers on every implementation and machine, as one table
    Vectors(vectors::Options),
    /// Run the fuzz targets, each for a time; needs a nightly compiler and cargo-fuzz
    Fuzz(fuzz::Options),
    /// Many callers of a development chain: every answer checked, memory flat, nobody waits for another model's load
    Soak(soak::Options),
    /// Mistakes planted in the reference: which levels of the known answers notice each
    Mutants(mutants::Options),
    /// Re-export the embedded default model from models/tiny-austen
    Bless,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Quick(options) => full::quick(&options),
        Task::Full(options) => full::full(&options),
        Task::Coherence(options) => coherence::run(&options),
        Task::Stress { source, out, seed } => stress::run(&source, &out, seed),
        Task::SyntheticQwen3 { out } => synthetic::write(&out),
        Task::Differ(options) => differ::run(&options),
        Task::Cross(options) => cross::run(&options),
        Task::Vectors(options) => vectors::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::Mutants(options) => mutants::run(&options),
        Task::Bless => full::bless(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
