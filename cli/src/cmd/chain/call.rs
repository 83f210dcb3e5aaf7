//! `blue chain call`: a call of the inference precompile on a chain in memory.

use std::path::PathBuf;
use std::sync::Arc;

use int_engine::config::Config;
use int_engine::engine::Engine;
use precompile::memory::{Memory, ModelSet};
use precompile::word::ZERO;
use precompile::{Call, INFERENCE, Outcome as Ended, Refusal, Sizes, Target, calldata, gas};
use serde_json::json;

use crate::cmd::verify_answer::answer;
use crate::failure::{Code, Failure, Outcome};
use crate::ids::TokenList;
use crate::loaded::{Loaded, RunArgs};
use crate::names::{Name, default_name};
use crate::output;
use crate::progress::Progress;

const HELP: &str = "\
Examples:
  blue chain call --tokens 1,2,3 --max-new 8
  blue chain call --tokens 1,2,3 --max-new 2 --answer 82,11
  blue chain call model.blob --tokens 1,2,3 --digest --json

Runs the precompile's own code on a chain in memory where the blob is active, and prints the calldata, the price and the
result: of `generate`, of `verify` with --answer, of `logitsDigest` with --digest. The calldata names no commitment, so
that it asks for whatever is active under the name; --pin names the blob's. A refusal ends with exit code 2, an answer
that is not the right one with 3. --json prints one line with the keys to, data, gas and output, and result (tokens and
complete, right, or digest); of a refusal: to, data, and refused (number, name, price).";

/// Run generate, verify or logitsDigest as a contract would.
#[derive(clap::Args)]
#[command(after_help = HELP, group = clap::ArgGroup::new("asked").required(true).args(["max_new", "digest"]))]
pub(crate) struct Args {
    /// The blob [default: the embedded model]
    blob: Option<PathBuf>,
    /// The prompt as token ids between commas
    #[arg(long, value_name = "1,2,3", allow_hyphen_values = true)]
    tokens: TokenList,
    /// Most new tokens
    #[arg(long, value_name = "N")]
    max_new: Option<u32>,
    /// Verify this answer, token ids between commas, "" for an empty one
    #[arg(
        long,
        value_name = "1,2,3",
        allow_hyphen_values = true,
        requires = "max_new",
        value_parser = answer
    )]
    answer: Option<TokenList>,
    /// The digest of the logits after the prompt
    #[arg(long, conflicts_with = "answer")]
    digest: bool,
    /// Gas that the call may use [default: without a limit]
    #[arg(long, value_name = "GAS")]
    gas: Option<u64>,
    /// Name the blob's commitment, so that no other model answers
    #[arg(long)]
    pin: bool,
    /// The name in the registry [default: the one that `blue chain name blue` prints]
    #[arg(long, value_name = "0xNAME")]
    name: Option<Name>,
    #[command(flatten)]
    run: RunArgs,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let record = super::record(args.blob.as_deref())?;
    let progress = Progress::new(args.json);
    let loaded = Loaded::open(args.blob.as_deref(), &args.run, progress)?;
    let engine: Arc<dyn Engine> = loaded.engine.into();
    let commitment = engine.commitment();
    let name = args.name.map_or_else(default_name, |name| name.0);
    let mut state = Memory::default();
    let mut models = ModelSet::default();
    models.insert(engine);
    let failed = |fault| Failure::new(Code::Runtime, fault);
    precompile::put_active(&mut state, &name, commitment, &record).map_err(failed)?;

    let pinned = if args.pin { commitment.0 } else { ZERO };
    let tokens = &args.tokens.0;
    let data = match (args.max_new, &args.answer) {
        (None, _) => calldata::logits_digest(&name, &pinned, tokens),
        (Some(max_new), None) => calldata::generate(&name, &pinned, tokens, max_new),
        (Some(max_new), Some(answer)) => {
            calldata::verify(&name, &pinned, tokens, max_new, &answer.0)
        }
    };
    let given = args.gas.unwrap_or(u64::MAX);
    let call = Call::new(Target::Inference, &data, given, [0; 20]);
    match state.call(&call, &models).map_err(failed)? {
        Ended::Return { gas_used, output } => print(args, &data, gas_used, &output),
        Ended::Revert { refusal, .. } | Ended::Halt { refusal } => {
            refused(args, refusal, &data, &record.config)
        }
    }
}

/// What would have been right, beside the number.
fn refused(args: &Args, refusal: Refusal, data: &[u8], config: &Config) -> Outcome {
    let sizes = Sizes::of(config);
    let n = args.tokens.0.len() as u64;
    let price = match (args.max_new, &args.answer) {
        (None, _) => gas::of_logits_digest(&sizes, n),
        (Some(max_new), None) => gas::of_generate(&sizes, n, max_new),
        (Some(_), Some(answer)) => gas::of_verify(&sizes, n, answer.0.len() as u64),
    };
    let (number, name) = (refusal.number(), refusal.name());
    if args.json {
        output::json(&json!({
            "to": output::hex(INFERENCE),
            "data": output::hex(data),
            "refused": {"number": number, "name": name, "price": price},
        }))?;
        return Err(Failure::told(Code::Input));
    }
    let right = match refusal {
        Refusal::OutOfGas => format!("the price is {price}"),
        Refusal::TokenOutOfRange => format!("ids are below {}", sizes.accepted_ids),
        Refusal::ContextExceeded => format!("the context holds {} tokens", sizes.max_context),
        _ => "the numbers are in spec/6-precompiles.md".into(),
    };
    let said = format!("refused with number {number}, {name}: {refusal}");
    Err(Failure::input(said).hint(right))
}

fn print(args: &Args, data: &[u8], gas: u64, output: &[u8]) -> Outcome {
    let unlike = || Failure::runtime("the result is not of the function's form");
    let mut wrong = false;
    let (result, said) = if args.digest {
        let digest = output::hex(output);
        (json!({"digest": digest}), format!("digest   {digest}"))
    } else if args.answer.is_some() {
        let right = calldata::verified(output).ok_or_else(unlike)?;
        wrong = !right;
        (json!({"right": right}), format!("right    {right}"))
    } else {
        let (ids, complete) = calldata::generated(output).ok_or_else(unlike)?;
        let list: Vec<_> = ids.iter().map(u32::to_string).collect();
        let said = format!("tokens   {}\ncomplete {complete}", list.join(","));
        (json!({"tokens": ids, "complete": complete}), said)
    };
    if args.json {
        output::json(&json!({
            "to": output::hex(INFERENCE),
            "data": output::hex(data),
            "gas": gas,
            "output": output::hex(output),
            "result": result,
        }))?;
    } else {
        output::text(&format!(
            "to       {}\ndata     {}\ngas      {gas}\n{said}\n",
            output::hex(INFERENCE),
            output::hex(data),
        ))?;
    }
    if wrong {
        return Err(Failure::told(Code::Mismatch));
    }
    Ok(())
}
