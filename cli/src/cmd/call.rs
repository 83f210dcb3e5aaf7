//! `blue call`: asks a node what the model on its chain answers.

use alloy_primitives::{Address, B256, U256};
use int_engine::commitment::Commitment;
use precompile::calldata;
use precompile::infer::Function;
use serde_json::{Map, Value, json};

use super::verify_answer::answer;
use crate::contract;
use crate::deployed::{self, Asked, INFER, Prompt, PromptArgs, refused, refused_by_contract};
use crate::failure::{Code, Failure, Outcome};
use crate::ids::TokenList;
use crate::names::{Name, default_name};
use crate::output;
use crate::progress::Progress;
use crate::rpc::{Call, Client, RpcArgs};
use crate::values;

const HELP: &str = "\
Examples:
  blue call --prompt \"It is a truth\" --max-new 8
  blue call --tokens 1,7,13,2 --max-new 2 --answer 412,40
  blue call --tokens 1,2,3 --digest --rpc http://127.0.0.1:8545 --json
  blue call --contract $ask --prompt \"It is a truth\" --max-new 8

Calls the inference precompile through a node's JSON-RPC (eth_call, nothing is paid): `generate`, `verify` with --answer,
`logitsDigest` with --digest; or, with --contract, a contract's `ask(uint32[],uint32)` that is a view and returns ids, as
the one in precompile/solidity/README.md; where `ask` is a transaction, as Oracle's, use `blue ask`.
Text is encoded and decoded here, with the tokenizer whose digest the registry's record has: the embedded model's, or
the one beside the file after --blob; another is a mismatch (exit code 3). Without --commitment the calldata names none,
so that whatever is active under the name answers. A refusal ends with exit code 2, an answer that is not the right one
with 3.

--json prints one line with the keys to, data, block, name, commitment, gas (the price of the call; of a contract the
estimate of a transaction), prompt_ids, output, and output_ids, complete and text (null without the tokenizer; complete
is null for a contract), or right, or digest; of a revert: refused (number and name, or null), reason, data.";

/// Ask a node: text or ids in, the answer of the model on the chain out.
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "blue call <--tokens <1,2,3>|--prompt <TEXT>> <--max-new <N>|--digest> [OPTIONS]",
    group = clap::ArgGroup::new("input").required(true).args(["tokens", "prompt"]),
    group = clap::ArgGroup::new("asked").required(true).args(["max_new", "digest"]))]
pub(crate) struct Args {
    #[command(flatten)]
    prompt: PromptArgs,
    /// Most new tokens
    #[arg(long, value_name = "N")]
    max_new: Option<u32>,
    /// Verify this answer, token ids between commas, "" for an empty one
    #[arg(long, value_name = "1,2,3", allow_hyphen_values = true, requires = "max_new", value_parser = answer)]
    answer: Option<TokenList>,
    /// The digest of the logits after the prompt
    #[arg(long, conflicts_with_all = ["answer", "max_new"])]
    digest: bool,
    /// Call `ask` of this contract in place of the precompile
    #[arg(long, value_name = "0xADDRESS", value_parser = values::address, conflicts_with_all = ["answer", "digest", "commitment"])]
    contract: Option<Address>,
    /// The name in the registry [default: what the contract's `name()` says, or `blue chain name blue`]
    #[arg(long, value_name = "0xNAME")]
    name: Option<Name>,
    /// The commitment that must be active, so that no other model answers
    #[arg(long, value_name = "0xHASH")]
    commitment: Option<Commitment>,
    /// The block after which to ask [default: the newest]
    #[arg(long, value_name = "N", value_parser = values::block)]
    block: Option<u64>,
    #[command(flatten)]
    rpc: RpcArgs,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let client = Client::new(&args.rpc)?;
    let spinner = Progress::new(args.json).spinner("asking the node");
    let answered = ask(args, &client);
    spinner.finish_and_clear();
    let answered = answered?;
    if args.json {
        output::json(&answered.json)?;
    } else {
        output::text(&output::pairs(&answered.rows))?;
    }
    if answered.wrong {
        return Err(Failure::told(Code::Mismatch));
    }
    Ok(())
}

/// What is printed.
struct Answered {
    json: Map<String, Value>,
    rows: Vec<(String, String)>,
    wrong: bool,
}

fn ask(args: &Args, client: &Client) -> Outcome<Answered> {
    let block = args.block.map_or_else(|| client.block_number(), Ok)?;
    let given = args.name.map(|name| B256::new(name.0));
    let [theirs, their_pin] = match args.contract {
        Some(contract) => deployed::asked_by(client, contract, block)?,
        None => [None, None],
    };
    let asked = Asked {
        name: given.or(theirs).unwrap_or_else(|| default_name().into()),
        pinned: match args.commitment {
            Some(commitment) => commitment.0.into(),
            None => their_pin.unwrap_or_default(),
        },
    };
    let prompt = Prompt::new(client, asked, block, &args.prompt, args.json)?;
    let (to, data) = match args.contract {
        Some(contract) => (
            contract,
            contract::ask(&prompt.ids, args.max_new.unwrap_or(0)),
        ),
        None => (INFER, calldata_of(args, asked, &prompt.ids)),
    };
    let call = Call::new(to, &data);
    let failed = |e| match args.contract {
        Some(_) => refused_by_contract(e, args.json),
        None => refused(e, args.json),
    };
    let output = client.call(&call, block).map_err(failed)?;
    let gas = match args.contract {
        Some(_) => client.estimate_gas(&call, Some(block)).map_err(failed)?,
        None => price(args, client, asked, &prompt.ids, block)?,
    };
    let (result, mut said) = result_of(args, &prompt, &output)?;
    let mut json = Map::new();
    for (key, value) in [
        ("to", json!(to)),
        ("data", json!(output::hex(&data))),
        ("block", json!(block)),
        ("name", json!(asked.name)),
        ("commitment", json!(prompt.commitment)),
        ("gas", json!(gas)),
        ("prompt_ids", json!(prompt.ids)),
        ("output", json!(output::hex(&output))),
    ] {
        json.insert(key.into(), value);
    }
    let wrong = result.get("right") == Some(&Value::Bool(false));
    json.extend(result);
    let mut rows = vec![
        ("block".to_string(), block.to_string()),
        ("commitment".into(), prompt.commitment.to_string()),
        ("gas".into(), gas.to_string()),
    ];
    rows.append(&mut said);
    Ok(Answered { json, rows, wrong })
}

fn calldata_of(args: &Args, asked: Asked, ids: &[u32]) -> Vec<u8> {
    let (name, pinned) = (&asked.name.0, &asked.pinned.0);
    match (args.max_new, &args.answer) {
        (None, _) => calldata::logits_digest(name, pinned, ids),
        (Some(max_new), None) => calldata::generate(name, pinned, ids, max_new),
        (Some(max_new), Some(answer)) => calldata::verify(name, pinned, ids, max_new, &answer.0),
    }
}

/// The whole price of the call, as the chain says.
fn price(args: &Args, client: &Client, asked: Asked, ids: &[u32], block: u64) -> Outcome<u64> {
    let count = |ids: &[u32]| {
        u32::try_from(ids.len()).map_err(|_| Failure::input("more tokens than any context holds"))
    };
    let prompt = count(ids)?;
    let (function, counts) = match (args.max_new, &args.answer) {
        (None, _) => (Function::GasOfLogitsDigest, vec![prompt]),
        (Some(max_new), None) => (Function::GasOfGenerate, vec![prompt, max_new]),
        (Some(_), Some(answer)) => (Function::GasOfVerify, vec![prompt, count(&answer.0)?]),
    };
    let data = calldata::gas_of(function, &asked.name.0, &asked.pinned.0, &counts);
    let output = client
        .call(&Call::new(INFER, &data), block)
        .map_err(|e| refused(e, args.json))?;
    let price =
        contract::word(&output).and_then(|word| u64::try_from(U256::from_be_bytes(word.0)).ok());
    price.ok_or_else(unlike)
}

fn unlike() -> Failure {
    Failure::runtime("the result is not of the function's form").hint(
        "is there a contract of this kind at the address, and does the chain have the precompiles?",
    )
}

/// What an `ask` returned that is no list of ids; a transaction's returns the question's number.
fn unlike_view(contract: Address, output: &[u8]) -> Failure {
    match contract::word(output) {
        Some(_) => unlike().hint(format!(
            "its `ask` is a transaction: use `blue ask {contract}`"
        )),
        None => unlike(),
    }
}

type Said = (Map<String, Value>, Vec<(String, String)>);

/// The result's own keys and lines.
fn result_of(args: &Args, prompt: &Prompt, output: &[u8]) -> Outcome<Said> {
    let mut json = Map::new();
    let mut rows = Vec::new();
    if args.digest {
        let digest = contract::word(output).ok_or_else(unlike)?;
        json.insert("digest".into(), json!(digest));
        rows.push(("digest".into(), digest.to_string()));
    } else if args.answer.is_some() {
        let right = calldata::verified(output).ok_or_else(unlike)?;
        json.insert("right".into(), json!(right));
        rows.push(("right".into(), right.to_string()));
    } else {
        let (ids, complete) = match args.contract {
            Some(contract) => {
                let ids = contract::viewed(output).ok_or_else(|| unlike_view(contract, output))?;
                (ids, None)
            }
            None => {
                let (ids, complete) = calldata::generated(output).ok_or_else(unlike)?;
                (ids, Some(complete))
            }
        };
        rows.extend(answer_rows(&ids, complete, prompt.decode(&ids)));
        json.insert("output_ids".into(), json!(ids));
        json.insert("complete".into(), json!(complete));
        json.insert("text".into(), json!(prompt.decode(&ids)));
    }
    Ok((json, rows))
}

/// Lines of an answer.
pub(crate) fn answer_rows(
    ids: &[u32],
    complete: Option<bool>,
    text: Option<String>,
) -> Vec<(String, String)> {
    let list: Vec<_> = ids.iter().map(u32::to_string).collect();
    let mut rows = vec![("tokens".to_string(), list.join(","))];
    rows.extend(complete.map(|complete| ("complete".to_string(), complete.to_string())));
    rows.extend(text.map(|text| ("text".to_string(), text)));
    rows
}
