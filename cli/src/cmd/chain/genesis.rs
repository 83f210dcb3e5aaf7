//! `blue chain genesis`: the two accounts of a chain's first state.

use precompile::genesis::Genesis;
use serde_json::{Map, json};

use crate::failure::{Code, Failure, Outcome};
use crate::names::Hex;
use crate::output;

const HELP: &str = "\
Example:
  blue chain genesis --admin 0xa1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 \
    --admin 0xb0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0 --admin 0xc4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4 --quorum 2

Prints the `alloc` entries of a genesis file as JSON: registry and inference with nonce 1 and code 0xfe, the registry's
admins and governance word. Delay and window cannot be changed later. With a quorum of as many votes as there are admins
one lost key ends governance for good.

A running chain writes the same at the block that makes the precompiles active (spec 6.1), but keeps what the accounts
hold: --running prints the entries without a balance. Where an older registry had admins, those that are not chosen are
named by --former-admin, and their slots become zero.";

/// Print the accounts that a genesis file needs.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// An admin's address; once for each admin
    #[arg(long = "admin", value_name = "0xADDRESS", required = true)]
    admins: Vec<Hex<20>>,
    /// An admin under older rules who is none any more; once for each
    #[arg(long = "former-admin", value_name = "0xADDRESS")]
    former: Vec<Hex<20>>,
    /// Votes that make an action happen
    #[arg(long, value_name = "N")]
    quorum: u32,
    /// Blocks between a passed adoption and its activation
    #[arg(long, value_name = "BLOCKS", default_value = "7200")]
    delay: u64,
    /// Blocks for which a round of votes is open
    #[arg(long, value_name = "BLOCKS", default_value = "50400")]
    window: u64,
    /// For a chain that is running: no balance among the entries
    #[arg(long)]
    running: bool,
    /// Yes, a quorum of 1 is meant: one key decides alone
    #[arg(long)]
    single: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let genesis = Genesis {
        admins: args.admins.iter().map(|admin| admin.0).collect(),
        former: args.former.iter().map(|admin| admin.0).collect(),
        quorum: args.quorum,
        delay: args.delay,
        window: args.window,
        single: args.single,
    };
    let accounts = genesis.accounts().map_err(|e| {
        let hint = match e {
            precompile::genesis::GenesisError::Single => "add --single if it is meant",
            _ => "see blue chain genesis --help",
        };
        Failure::new(Code::Input, e).hint(hint)
    })?;
    let alloc: Map<_, _> = accounts
        .iter()
        .map(|(address, account)| {
            let storage: Map<_, _> = account
                .storage
                .iter()
                .map(|(key, word)| (output::hex(key), json!(output::hex(word))))
                .collect();
            let mut entry = json!({
                "nonce": format!("{:#x}", account.nonce),
                "code": output::hex(&account.code),
                "storage": storage,
            });
            if !args.running {
                entry["balance"] = json!("0x0");
            }
            (output::hex(address), entry)
        })
        .collect();
    output::json(&alloc)
}
