//! Calldata of the functions, for tools and tests: the one encoding that spec 6.3 accepts; and what inference returns.

use crate::abi::{Args, Encoder};
use crate::infer::Function as Infer;
use crate::registry::Function as Registry;
use crate::word::{Address, Word, of_address};

fn with(selector: [u8; 4], args: Encoder) -> Vec<u8> {
    [&selector[..], &args.finish()].concat()
}

/// `propose(name, version, commitment, record, proof)`.
#[must_use]
pub fn propose(
    name: &Word,
    version: u64,
    commitment: &Word,
    record: &[u8],
    proof: &[Word],
) -> Vec<u8> {
    let args = Encoder::default().word(name).u64(version).word(commitment);
    with(
        Registry::Propose.selector(),
        args.bytes(record).words(proof),
    )
}

/// `approve(name, version, commitment)`.
#[must_use]
pub fn approve(name: &Word, version: u64, commitment: &Word) -> Vec<u8> {
    let args = Encoder::default().word(name).u64(version).word(commitment);
    with(Registry::Approve.selector(), args)
}

/// A function of a name and a version: `activate`, `revoke` or `isRevoked`.
#[must_use]
pub fn of_version(function: Registry, name: &Word, version: u64) -> Vec<u8> {
    with(
        function.selector(),
        Encoder::default().word(name).u64(version),
    )
}

/// `setAdmin(admin, enabled)`.
#[must_use]
pub fn set_admin(admin: &Address, enabled: bool) -> Vec<u8> {
    let args = Encoder::default()
        .word(&of_address(admin))
        .u64(enabled.into());
    with(Registry::SetAdmin.selector(), args)
}

/// `setQuorum(quorum)`.
#[must_use]
pub fn set_quorum(quorum: u32) -> Vec<u8> {
    with(
        Registry::SetQuorum.selector(),
        Encoder::default().u64(quorum.into()),
    )
}

/// A view of the registry with one word, or none, as its argument.
#[must_use]
pub fn view(function: Registry, word: Option<&Word>) -> Vec<u8> {
    let args = Encoder::default();
    with(
        function.selector(),
        word.into_iter().fold(args, Encoder::word),
    )
}

/// `generate(name, commitment, prompt, maxNewTokens)`.
#[must_use]
pub fn generate(name: &Word, commitment: &Word, prompt: &[u32], max_new: u32) -> Vec<u8> {
    let args = Encoder::default().word(name).word(commitment);
    with(
        Infer::Generate.selector(),
        args.u32s(prompt).u64(max_new.into()),
    )
}

/// `verify(name, commitment, prompt, maxNewTokens, output)`.
#[must_use]
pub fn verify(
    name: &Word,
    commitment: &Word,
    prompt: &[u32],
    max_new: u32,
    output: &[u32],
) -> Vec<u8> {
    let args = Encoder::default().word(name).word(commitment);
    let args = args.u32s(prompt).u64(max_new.into()).u32s(output);
    with(Infer::Verify.selector(), args)
}

/// `logitsDigest(name, commitment, tokens)`.
#[must_use]
pub fn logits_digest(name: &Word, commitment: &Word, tokens: &[u32]) -> Vec<u8> {
    let args = Encoder::default().word(name).word(commitment);
    with(Infer::LogitsDigest.selector(), args.u32s(tokens))
}

/// A `gasOf` function: its numbers of tokens, one for `gasOfLogitsDigest`, two for the others.
#[must_use]
pub fn gas_of(function: Infer, name: &Word, commitment: &Word, tokens: &[u32]) -> Vec<u8> {
    let args = Encoder::default().word(name).word(commitment);
    let number = |args: Encoder, &n: &u32| args.u64(n.into());
    with(function.selector(), tokens.iter().fold(args, number))
}

/// Tokens and completeness of what `generate` returns; `None` for other bytes.
#[must_use]
pub fn generated(output: &[u8]) -> Option<(Vec<u32>, bool)> {
    let mut results = Args::new(output, 2);
    let answer = (results.u32s().ok()?, results.bool().ok()?);
    results.end().ok().map(|()| answer)
}

/// What `verify` returns; `None` for other bytes.
#[must_use]
pub fn verified(output: &[u8]) -> Option<bool> {
    let mut results = Args::new(output, 1);
    let right = results.bool().ok()?;
    results.end().ok().map(|()| right)
}
