//! `blue chain`: what goes onto a chain, what it costs there, and whether this machine is fast enough (spec 6).

mod bench;
mod call;
mod gas;
mod genesis;
mod name;
mod propose;

use std::path::Path;
use std::str::FromStr;

use int_engine::blob::Record;
use int_engine::commitment::keccak256;
use int_engine::kernels::Kernels;

use crate::embedded;
use crate::failure::{Context, Failure, Outcome};
use crate::files;
use crate::sniff::expect_blob;

const HELP: &str = "\
Examples:
  blue chain genesis --admin 0xa1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 \
    --admin 0xb0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0 --admin 0xc4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4 --quorum 2
  blue chain name assistant
  blue chain propose model.blob --model-version 1
  blue chain gas model.blob
  blue chain call --tokens 1,2,3 --max-new 8
  blue chain bench";

/// The precompiles: genesis state, proposals, prices, calls, and whether this machine is fast enough.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Genesis(genesis::Args),
    Name(name::Args),
    Propose(propose::Args),
    Gas(gas::Args),
    Call(call::Args),
    Bench(bench::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.action {
        Action::Genesis(args) => genesis::run(args),
        Action::Name(args) => name::run(&args),
        Action::Propose(args) => propose::run(&args),
        Action::Gas(args) => gas::run(&args),
        Action::Call(args) => call::run(&args),
        Action::Bench(args) => bench::run(&args),
    }
}

/// Kernels of this machine by name.
pub(crate) fn kernels(name: &str) -> Result<&'static Kernels, String> {
    Kernels::by_name(name).map_err(|_| {
        let here = Kernels::all().into_iter();
        let here: Vec<_> = here.filter_map(|(name, k)| k.map(|_| name)).collect();
        format!("this machine has {}", here.join(", "))
    })
}

/// So many bytes as `0x` and hexadecimal digits.
#[derive(Clone, Copy)]
struct Hex<const N: usize>([u8; N]);

impl<const N: usize> FromStr for Hex<N> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let refused = || format!("must be 0x and {} hexadecimal digits", 2 * N);
        if digits.len() != 2 * N || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(refused());
        }
        let mut bytes = [0; N];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| refused())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| refused())?;
        }
        Ok(Self(bytes))
    }
}

/// The record of a blob file, or of the embedded model.
fn record(blob: Option<&Path>) -> Outcome<Record> {
    let Some(path) = blob else {
        return Record::parse(embedded::BLOB).or_runtime("the embedded model's record");
    };
    expect_blob(path)?;
    let (file, _) = files::open(path)?;
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(
        &mut std::io::Read::take(file, int_engine::blob::RECORD_LEN as u64),
        &mut bytes,
    )
    .map_err(|e| Failure::file(path, e))?;
    Record::parse(&bytes).or_input(format!("{} has no valid record", path.display()))
}

/// A name in the registry: 32 bytes, not all zero.
#[derive(Clone, Copy)]
pub(crate) struct Name(pub(crate) [u8; 32]);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.parse::<Hex<32>>()?.0;
        if name == [0; 32] {
            return Err("is zero, which the registry refuses".into());
        }
        Ok(Self(name))
    }
}

/// The name of a text, for a model that will have upgrades.
pub(crate) fn text_name(text: &str) -> [u8; 32] {
    keccak256(text.as_bytes())
}

/// The name that is used when none is given.
pub(crate) fn default_name() -> [u8; 32] {
    text_name("blue")
}
