//! What is told when the chain is ready.

use std::fmt::Write as _;
use std::net::SocketAddr;

use blue_devnet::DevAccount;
use precompile::{INFERENCE, REGISTRY, gas};
use serde_json::json;

use super::Args;
use super::models::{Named, Served};
use crate::failure::Outcome;
use crate::output;

/// Tokens of the example's prompt.
const PROMPT: u32 = 16;
/// Tokens that the example generates, or claims.
const NEW: u32 = 16;

pub(super) fn print(
    args: &Args,
    served: &Served,
    address: SocketAddr,
    metrics: Option<SocketAddr>,
) -> Outcome {
    let url = format!("http://{address}");
    let accounts = DevAccount::all();
    if args.json {
        let accounts: Vec<_> = accounts
            .iter()
            .map(|a| json!({"address": a.address.to_string(), "key": a.key.to_string()}))
            .collect();
        let model = |m: &Named| {
            json!({
                "text": m.text,
                "name": output::hex(m.adoption.name),
                "version": 1,
                "commitment": m.adoption.commitment.to_string(),
            })
        };
        return output::json(&json!({
            "url": url,
            "metrics": metrics.map(|address| format!("http://{address}/metrics")),
            "chain_id": args.chain_id,
            "registry": output::hex(REGISTRY),
            "inference": output::hex(INFERENCE),
            "accounts": accounts,
            "models": served.models.iter().map(model).collect::<Vec<_>>(),
        }));
    }
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(text, "A local chain with models in it.\n");
    for (i, account) in accounts.iter().enumerate() {
        let note = if i == 0 { "  the registry's admin" } else { "" };
        let _ = writeln!(text, "({i}) {}  key {}{note}", account.address, account.key);
    }
    text.push_str(
        "\nEach owns 10,000 ether. EVERYBODY KNOWS THESE KEYS: use them on no other chain.\n\n",
    );
    for Named {
        text: name,
        sizes,
        adoption,
    } in &served.models
    {
        let (n, m) = (u64::from(PROMPT), NEW);
        let _ = writeln!(
            text,
            "model {name}, at most {} tokens\n  name        {}\n  commitment  {}\n  \
             {PROMPT} tokens, {NEW} new: generate {} gas, verify {}; logitsDigest of {PROMPT}: {}\n",
            sizes.max_context,
            output::hex(adoption.name),
            adoption.commitment,
            gas::of_generate(sizes, n, m),
            gas::of_verify(sizes, n, m.into()),
            gas::of_logits_digest(sizes, n),
        );
    }
    let mining = match args.block_time {
        None => "a block for each transaction".to_owned(),
        Some(seconds) => format!("a block every {seconds} s"),
    };
    let _ = writeln!(
        text,
        "registry   {}\ninference  {}\nchain id   {}, {mining}, {} gas a block\n\n\
         listening on {url}  (HTTP and WebSocket; Ctrl-C ends)",
        output::hex(REGISTRY),
        output::hex(INFERENCE),
        args.chain_id,
        args.gas_limit,
    );
    if let Some(metrics) = metrics {
        let _ = writeln!(
            text,
            "metrics on http://{metrics}/metrics, readiness on /ready"
        );
    }
    output::text(&text)
}
