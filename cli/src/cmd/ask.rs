//! `blue ask`: a transaction that asks a contract, and the answer that it emits.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, TxKind};
use serde_json::json;

use super::call::answer_rows;
use crate::contract::{self, Answered, Reverted};
use crate::deployed::{self, Asked, Prompt, PromptArgs, refused_by_contract};
use crate::failure::{Code, Failure, Outcome};
use crate::names::{Name, default_name};
use crate::output;
use crate::progress::Progress;
use crate::rpc::{Call, Client, Error, Receipt, RpcArgs};
use crate::values;
use crate::wallet::Key;

const HELP: &str = "\
Examples:
  blue ask 0x5FbDB2315678afecb367f032d93F642f64180aa3 --prompt \"It is a truth\" --max-new 8
  blue ask 0x5FbDB2315678afecb367f032d93F642f64180aa3 --tokens 1,2,3 --max-new 8 --key-file key --json

Sends a transaction to a contract with `ask(uint32[],uint32)`, such as precompile/solidity/examples/Oracle.sol, waits
until it is in a block, and prints the answer of its event `Answered`. The sender is the account of --key-file, whose
transaction is signed here, or one whose key the node holds. Text is encoded and decoded with the tokenizer that the
record of the contract's model asks for (see `blue call --help`). A transaction that would revert, or to an `ask` that
is a view, is not sent: exit code 2 and the reason. For precompile/solidity/examples/VerifiedOracle.sol see
precompile/solidity/README.md.

A node that is not trusted cannot make a signed transaction dearer than --max-fee times its gas, nor valid on a chain
other than --chain-id.

--json prints one line with the keys contract, from, transaction, block, gas_used, name, commitment, id, prompt_ids,
output_ids, complete, text (null without the tokenizer); of a revert: refused (number and name, or null), reason, data; of one
that was sent and brought no answer also transaction.";

/// Time between looks for a receipt: from the first to the last, doubled each time.
const LOOKS: [Duration; 2] = [Duration::from_millis(25), Duration::from_secs(1)];
/// Most gas of a transaction under EIP-7825.
const MAX_GAS: u64 = 1 << 24;

/// Ask a contract in a transaction, and print the answer from its event.
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "blue ask <CONTRACT> <--tokens <1,2,3>|--prompt <TEXT>> --max-new <N> [OPTIONS]",
    group = clap::ArgGroup::new("input").required(true).args(["tokens", "prompt"]))]
pub(crate) struct Args {
    /// The contract's address
    #[arg(value_parser = values::address)]
    contract: Address,
    #[command(flatten)]
    prompt: PromptArgs,
    /// Most new tokens; all of them are paid for
    #[arg(long, value_name = "N")]
    max_new: u32,
    /// The account that asks, whose key the node holds [default: the node's first]
    #[arg(long, value_name = "0xADDRESS", value_parser = values::address, conflicts_with = "key_file")]
    from: Option<Address>,
    /// A file with the private key of the account that asks, as hexadecimal digits
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Gas that the transaction may use [default: what the node estimates]
    #[arg(long, value_name = "GAS", value_parser = values::whole::<u64>(21_000..=MAX_GAS))]
    gas: Option<u64>,
    /// Most wei for a gas, with --key-file [default: what the node says, at most 100 gwei]
    #[arg(long, value_name = "WEI", requires = "key_file")]
    max_fee: Option<u128>,
    /// The chain that the node must follow
    #[arg(long, value_name = "N", value_parser = values::whole::<u64>(0..=u64::MAX))]
    chain_id: Option<u64>,
    /// The name in the registry [default: what the contract's `name()` says, or `blue chain name blue`]
    #[arg(long, value_name = "0xNAME")]
    name: Option<Name>,
    #[command(flatten)]
    rpc: RpcArgs,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let key = args.key_file.as_deref().map(Key::read).transpose()?;
    let client = Client::new(&args.rpc)?;
    let progress = Progress::new(args.json);
    let chain_id = chain(args, &client)?;
    if key.is_some() && args.chain_id.is_none() {
        progress.note(&format!(
            "signing for chain {chain_id}, as the node says; --chain-id {chain_id} refuses any other"
        ));
    }
    let spinner = progress.spinner("asking the contract");
    let done = ask(args, &client, key.as_ref(), chain_id);
    spinner.finish_and_clear();
    let Done {
        asked,
        from,
        prompt,
        receipt,
        answered,
    } = done?;
    let text = prompt.decode(&answered.tokens);
    let (block, gas) = (receipt.block_number.0, receipt.gas_used.0);
    if args.json {
        return output::json(&json!({
            "contract": args.contract,
            "from": from,
            "transaction": receipt.transaction_hash,
            "block": block,
            "gas_used": gas,
            "name": asked.name,
            "commitment": prompt.commitment,
            "id": answered.id,
            "prompt_ids": prompt.ids,
            "output_ids": answered.tokens,
            "complete": answered.complete,
            "text": text,
        }));
    }
    let mut rows = vec![
        (
            "transaction".to_string(),
            receipt.transaction_hash.to_string(),
        ),
        ("block".into(), block.to_string()),
        ("gas used".into(), gas.to_string()),
        ("id".into(), answered.id),
    ];
    rows.extend(answer_rows(&answered.tokens, Some(answered.complete), text));
    output::text(&output::pairs(&rows))
}

/// An answered question.
struct Done {
    asked: Asked,
    from: Address,
    prompt: Prompt,
    receipt: Receipt,
    answered: Answered,
}

/// The chain that the node follows, which must be the one of `--chain-id`.
fn chain(args: &Args, client: &Client) -> Outcome<u64> {
    let chain_id = client.chain_id()?;
    if args.chain_id.is_some_and(|expected| expected != chain_id) {
        return Err(Failure::mismatch(format!(
            "the node follows chain {chain_id}, not the one of --chain-id"
        )));
    }
    Ok(chain_id)
}

fn ask(args: &Args, client: &Client, key: Option<&Key>, chain_id: u64) -> Outcome<Done> {
    let block = client.block_number()?;
    let [name, pinned] = deployed::asked_by(client, args.contract, block)?;
    let given = args.name.map(|name| B256::new(name.0));
    let asked = Asked {
        name: given.or(name).unwrap_or_else(|| default_name().into()),
        pinned: pinned.unwrap_or_default(),
    };
    let prompt = Prompt::new(client, asked, block, &args.prompt, args.json)?;
    let from = match key {
        Some(key) => key.address(),
        None => args.from.map_or_else(|| first_account(client), Ok)?,
    };
    let data = contract::ask(&prompt.ids, args.max_new);
    let mut call = Call {
        from: Some(from),
        gas: args.gas,
        ..Call::new(args.contract, &data)
    };
    let estimate = client.estimate_gas(&call, None);
    let estimate = estimate.map_err(|e| match e {
        Error::Node { .. } if args.gas.is_some() && e.reverted().is_none() => {
            Failure::new(Code::Input, e).hint("is --gas too little? Without it the node estimates")
        }
        e => refused_by_contract(e, args.json),
    })?;
    call.gas = Some(args.gas.unwrap_or(estimate));
    refuse_view(args, client, &call, block)?;
    let transaction = match key {
        Some(key) => send_signed(args, client, key, &call, chain_id)?,
        None => client.send(&call)?,
    };
    let (receipt, answered) = answer(args, client, &call, transaction, &prompt.ids)
        .map_err(|failure| sent(failure, transaction, args.json))?;
    Ok(Done {
        asked,
        from,
        prompt,
        receipt,
        answered,
    })
}

/// A transaction to a view is paid for and keeps nothing.
fn refuse_view(args: &Args, client: &Client, call: &Call<'_>, block: u64) -> Outcome {
    let output = client.call(call, block);
    let output = output.map_err(|e| refused_by_contract(e, args.json))?;
    if contract::viewed(&output).is_none() {
        return Ok(());
    }
    let contract = args.contract;
    Err(Failure::input(format!(
        "`ask` of {contract} returns the answer as a view does: a transaction would be paid for nothing"
    ))
    .hint(format!("use `blue call --contract {contract}`")))
}

/// Waits for the answer of a transaction.
fn answer(
    args: &Args,
    client: &Client,
    call: &Call<'_>,
    transaction: B256,
    prompt: &[u32],
) -> Outcome<(Receipt, Answered)> {
    let receipt = wait(client, transaction, args.rpc.timeout)?;
    if receipt.status.0 == 0 {
        return Err(reverted(client, call, &receipt, args.json));
    }
    let from = call.from.unwrap_or_default();
    let answered = contract::answered(&receipt.logs, args.contract, from, prompt);
    let answered = answered.ok_or_else(|| {
        Failure::runtime(format!(
            "transaction {transaction} went through, but {} emitted no event `Answered` for it",
            args.contract
        ))
        .hint("is there a contract like precompile/solidity/examples/Oracle.sol at the address?")
    })?;
    Ok((receipt, answered))
}

/// A failure after a transaction was sent: its hash is told, with `json` as a result.
fn sent(failure: Failure, transaction: B256, json: bool) -> Failure {
    if failure.is_told() {
        return failure;
    }
    if json {
        let line = json!({"transaction": transaction, "reason": failure.reason()});
        return deployed::told(&line, failure.code());
    }
    match failure.reason().contains(&transaction.to_string()) {
        true => failure,
        false => failure.context(format!("transaction {transaction} was sent")),
    }
}

fn first_account(client: &Client) -> Outcome<Address> {
    let accounts = client.accounts()?;
    accounts.first().copied().ok_or_else(|| {
        Failure::input("the node holds no key")
            .hint("give --key-file: the transaction is signed here then")
    })
}

/// Highest fee that is signed without being told to, in wei for a gas.
const MAX_FEE: u128 = 100_000_000_000;

fn send_signed(
    args: &Args,
    client: &Client,
    key: &Key,
    call: &Call<'_>,
    chain_id: u64,
) -> Outcome<B256> {
    let gas_limit = call.gas.unwrap_or(MAX_GAS);
    if gas_limit > MAX_GAS {
        return Err(Failure::runtime(format!(
            "the node estimates {gas_limit} gas; a transaction may use at most {MAX_GAS}"
        )));
    }
    let tip = client.priority_fee()?;
    let base = client.base_fee()?.unwrap_or_default();
    let wanted = base.saturating_mul(2).saturating_add(tip);
    let most = args.max_fee.unwrap_or(MAX_FEE);
    if args.max_fee.is_none() && wanted > most {
        return Err(Failure::runtime(format!(
            "the node says that a gas costs up to {wanted} wei; more than {most} is not signed unasked"
        ))
        .hint("give --max-fee if that is right"));
    }
    let max_fee = wanted.min(most);
    let signed = key.sign(TxEip1559 {
        chain_id,
        nonce: client.next_nonce(key.address())?,
        gas_limit,
        max_fee_per_gas: max_fee,
        max_priority_fee_per_gas: tip.min(max_fee),
        to: TxKind::Call(call.to),
        input: call.data.to_vec().into(),
        ..TxEip1559::default()
    })?;
    let hash = client.send_raw(&signed.raw).map_err(|e| {
        // A node that gave no answer may have taken it.
        match e.is_passing() {
            true => sent(e.into(), signed.hash, args.json),
            false => e.into(),
        }
    })?;
    if hash != signed.hash {
        return Err(Failure::runtime(format!(
            "the node names the transaction {hash}, but its hash is {}",
            signed.hash
        )));
    }
    Ok(hash)
}

/// Looks for the receipt until it is there or the time is over.
fn wait(client: &Client, transaction: B256, limit: Duration) -> Outcome<Receipt> {
    let start = Instant::now();
    let mut pause = LOOKS[0];
    loop {
        match client.receipt(transaction) {
            Ok(Some(receipt)) => return Ok(receipt),
            Err(e) if !e.is_passing() || start.elapsed() >= limit => return Err(e.into()),
            _ => {}
        }
        if start.elapsed() >= limit {
            return Err(Failure::runtime(format!(
                "transaction {transaction} is in no block after {} s",
                limit.as_secs_f64()
            ))
            .hint("it may be later: ask for its receipt, and do not send it again before"));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LOOKS[1]);
    }
}

/// Why a transaction did nothing, as the same call on the state before its block says.
fn reverted(client: &Client, call: &Call<'_>, receipt: &Receipt, json: bool) -> Failure {
    let block = receipt.block_number.0;
    match client.call(call, block.saturating_sub(1)) {
        Err(e) if e.reverted().is_some() => {
            let data = e.reverted().unwrap_or_default();
            let reverted = Reverted::of(data);
            if json {
                let mut line = reverted.json(data);
                line["transaction"] = json!(receipt.transaction_hash);
                return deployed::told(&line, Code::Input);
            }
            Failure::input(reverted.said)
        }
        _ => Failure::runtime(format!(
            "transaction {} failed in block {block} after {} gas",
            receipt.transaction_hash, receipt.gas_used.0
        ))
        .hint("the state has changed since the estimate, or --gas is too little"),
    }
}
