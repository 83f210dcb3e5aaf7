//! Models as a chain knows them: what is active under a name, and the tokenizer that its record asks for.

use std::path::{Path, PathBuf};

use alloy_primitives::{Address, B256};
use alloy_sol_types::SolCall;
use float_engine::tokenizer::Tokenizer;
use int_engine::commitment::keccak256;
use precompile::registry::Function;
use precompile::{INFERENCE, REGISTRY, calldata};

use crate::contract::{self, Oracle, Registry, Reverted};
use crate::failure::{Code, Context, Failure, Outcome};
use crate::ids::{self, TokenList};
use crate::rpc::{Call, Client, Error};
use crate::{bundle, embedded, output};

/// The address of inference.
pub(crate) const INFER: Address = Address::new(INFERENCE);

/// The prompt, and where its tokenizer is.
#[derive(clap::Args)]
pub(crate) struct PromptArgs {
    /// The prompt as token ids between commas
    #[arg(long, value_name = "1,2,3", allow_hyphen_values = true)]
    pub(crate) tokens: Option<TokenList>,
    /// The prompt as text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,
    /// The blob whose tokenizer file, beside it, is used; the blob is not read [default: the embedded model's]
    #[arg(long, value_name = "BLOB")]
    pub(crate) blob: Option<PathBuf>,
}

/// A name, and the commitment that a call names under it.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) name: B256,
    /// Zero for whatever is active.
    pub(crate) pinned: B256,
}

/// The name and the commitment that a contract asks, as far as it has getters for them.
///
/// # Errors
/// There is no contract at the address, or the node does not answer.
pub(crate) fn asked_by(
    client: &Client,
    contract: Address,
    block: u64,
) -> Outcome<[Option<B256>; 2]> {
    if client.code(contract, block)?.is_empty() {
        return Err(Failure::input(format!("no contract is at {contract}"))
            .hint("name the address that the deployment printed, and the node of that chain with --rpc"));
    }
    let getter = |data: Vec<u8>| match client.call(&Call::new(contract, &data), block) {
        Ok(output) => Ok(contract::word(&output)),
        Err(Error::Node { .. }) => Ok(None),
        Err(e) => Err(Failure::from(e)),
    };
    Ok([
        getter(Oracle::nameCall {}.abi_encode())?,
        getter(Oracle::commitmentCall {}.abi_encode())?,
    ])
}

/// A prompt as ids, and the tokenizer of the model that answers it.
pub(crate) struct Prompt {
    pub(crate) ids: Vec<u32>,
    /// The model that is asked; zero where nothing is active.
    pub(crate) commitment: B256,
    tokenizer: Option<Tokenizer>,
}

impl Prompt {
    /// Finds the model and encodes the prompt. With `json` a refusal of the chain is printed as a result.
    ///
    /// # Errors
    /// Text without the model's tokenizer: why the chain refuses every prompt, where it does; and a tokenizer that `--blob`
    /// names and that is another one.
    pub(crate) fn new(
        client: &Client,
        asked: Asked,
        block: u64,
        args: &PromptArgs,
        json: bool,
    ) -> Outcome<Self> {
        let commitment = if asked.pinned == B256::ZERO {
            active(client, asked.name, block)?
        } else {
            asked.pinned
        };
        let digest = tokenizer_digest(client, commitment, block)?;
        if args.tokens.is_none() && !embedded_or_named(args, digest) {
            refusal(client, asked, block, json)?;
        }
        let tokenizer = tokenizer(args, digest)?;
        let ids = match (&args.tokens, &args.prompt, &tokenizer) {
            (Some(list), _, _) => list.0.clone(),
            (None, Some(text), Some(tokenizer)) => ids::encode(tokenizer, text)?,
            (None, _, _) => return Err(no_tokenizer(asked)),
        };
        Ok(Self {
            ids,
            commitment,
            tokenizer,
        })
    }

    /// Ids as text, where the tokenizer is at hand.
    pub(crate) fn decode(&self, ids: &[u32]) -> Option<String> {
        Some(self.tokenizer.as_ref()?.decode(ids, true))
    }
}

/// Fails where the chain refuses every prompt for the model: its price, for one token, says so.
fn refusal(client: &Client, asked: Asked, block: u64, json: bool) -> Outcome {
    let function = precompile::infer::Function::GasOfGenerate;
    let data = calldata::gas_of(function, &asked.name.0, &asked.pinned.0, &[1, 0]);
    match client.call(&Call::new(INFER, &data), block) {
        Err(e) if e.reverted().is_some() => Err(refused(e, json)),
        _ => Ok(()),
    }
}

fn no_tokenizer(asked: Asked) -> Failure {
    Failure::input(format!(
        "the chain has no record of a tokenizer for the model of {}",
        output::hex(asked.name.as_slice())
    ))
    .hint("give ids with --tokens, or another name: `blue chain name TEXT` prints one")
}

/// The commitment that is active under a name; zero for none.
fn active(client: &Client, name: B256, block: u64) -> Outcome<B256> {
    let data = calldata::view(Function::GetApproved, Some(&name.0));
    let output = registry(client, &data, block)?;
    let approved = Registry::getApprovedCall::abi_decode_returns_validate(&output);
    Ok(approved.map_err(|_| no_registry())?.commitment)
}

/// The digest of a model's tokenizer; `None` where the registry has no record of the model, or the model no tokenizer.
fn tokenizer_digest(client: &Client, commitment: B256, block: u64) -> Outcome<Option<B256>> {
    if commitment == B256::ZERO {
        return Ok(None);
    }
    let data = calldata::view(Function::Record, Some(&commitment.0));
    let output = match client.call(&Call::new(Address::new(REGISTRY), &data), block) {
        Err(e) if e.reverted().is_some() => return Ok(None),
        output => output?,
    };
    let record = Registry::recordCall::abi_decode_returns_validate(&output);
    let digest = record.map_err(|_| no_registry())?.tokenizerDigest;
    Ok(Some(digest).filter(|digest| *digest != B256::ZERO))
}

fn registry(client: &Client, data: &[u8], block: u64) -> Outcome<Vec<u8>> {
    let registry = Address::new(REGISTRY);
    match client.call(&Call::new(registry, data), block) {
        Err(Error::Node { .. }) => {
            // A node that does not know the block, or no longer has its state, says so here.
            client.code(registry, block)?;
            Err(no_registry())
        }
        output => Ok(output?),
    }
}

fn no_registry() -> Failure {
    Failure::runtime("the model registry does not answer on this chain")
        .hint("ask a node of a chain that has the precompiles, such as `blue devnet`")
}

/// The tokenizer of a digest. One that was named must be it; the embedded one may be another where ids are given.
fn tokenizer(args: &PromptArgs, digest: Option<B256>) -> Outcome<Option<Tokenizer>> {
    let Some(digest) = digest else {
        return Ok(None);
    };
    let json = match &args.blob {
        Some(blob) => {
            let found = bundle::tokenizer(blob, digest.0)?;
            Some(found.ok_or_else(|| absent(blob))?)
        }
        None if keccak256(embedded::TOKENIZER) == digest.0 => Some(embedded::TOKENIZER.to_vec()),
        None if args.prompt.is_some() => {
            return Err(Failure::new(
                Code::Mismatch,
                anyhow::anyhow!(
                    "the model on the chain has the tokenizer {digest}, not the embedded model's"
                ),
            )
            .hint("name the model's blob with --blob, with its tokenizer file beside it, or give ids with --tokens"));
        }
        None => None,
    };
    json.map(|json| Tokenizer::from_json(&json))
        .transpose()
        .or_input("cannot read the tokenizer file")
}

/// Whether the tokenizer may be at hand.
fn embedded_or_named(args: &PromptArgs, digest: Option<B256>) -> bool {
    digest.is_some_and(|digest| args.blob.is_some() || keccak256(embedded::TOKENIZER) == digest.0)
}

fn absent(blob: &Path) -> Failure {
    Failure::input("the tokenizer file of the blob is not there").hint(format!(
        "put it at {}",
        bundle::tokenizer_path(blob).display()
    ))
}

/// As [`refused`], of a call to a contract's `ask`.
pub(crate) fn refused_by_contract(error: Error, json: bool) -> Failure {
    let silent = error.reverted().is_some_and(<[u8]>::is_empty);
    let failure = refused(error, json);
    match silent {
        true => failure.hint(
            "has the contract `ask(uint32[],uint32)`? One like precompile/solidity/examples/VerifiedOracle.sol has not: \
             precompile/solidity/README.md shows how to ask it",
        ),
        false => failure,
    }
}

/// A failed call: what it reverted with, or what the node says. With `json` the first is printed as a result.
pub(crate) fn refused(error: Error, json: bool) -> Failure {
    let Some(data) = error.reverted() else {
        return error.into();
    };
    let reverted = Reverted::of(data);
    if json {
        return told(&reverted.json(data), Code::Input);
    }
    Failure::input(reverted.said)
}

/// Prints `line` as the result of a command that failed.
pub(crate) fn told(line: &serde_json::Value, code: Code) -> Failure {
    match output::json(line) {
        Ok(()) => Failure::told(code),
        Err(closed) => closed,
    }
}
