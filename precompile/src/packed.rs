//! The packed call of the toy model: the legacy function of inference (spec 7.9).

use crate::refusal::{Refusal, require};

/// Most new tokens of a call.
const MAX_NEW: u32 = 64;
/// Most tokens of prompt and output together.
const MAX_SEQUENCE: usize = 256;
const VOCAB: u32 = 48;
const SELECTOR: [u8; 4] = [1, 0, 0, 0];

/// What a call can be refused for, beside value sent with it.
pub const REFUSALS: [Refusal; 7] = [
    Refusal::OutOfGas,
    Refusal::InputTooShort,
    Refusal::UnknownSelector,
    Refusal::InputNotWords,
    Refusal::TooManyNewTokens,
    Refusal::SequenceTooLong,
    Refusal::TokenOutOfRange,
];

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |v, &b| v << 8 | u32::from(b))
}

/// The price of an input: 100,000 and 50,000 for each new token up to 64.
#[must_use]
pub fn gas(input: &[u8]) -> u64 {
    let count = input.get(4..8).map_or(0, word);
    100_000 + 50_000 * u64::from(count.min(MAX_NEW))
}

/// The output of a call that is given this much gas; `generate` is the toy model: new tokens after a prompt that holds at
/// least one token, only ids below 48, and with the new ones at most 256.
///
/// # Errors
/// The first check that fails, in the order of [`REFUSALS`] but for the second half of the length; what `generate` refuses
/// is [`Refusal::TokenOutOfRange`].
pub fn call<E>(
    input: &[u8],
    given: u64,
    generate: impl FnOnce(&[u32], u32) -> Result<Vec<u32>, E>,
) -> Result<Vec<u8>, Refusal> {
    require(given >= gas(input), Refusal::OutOfGas)?;
    let selector = input.first_chunk().ok_or(Refusal::InputTooShort)?;
    require(*selector == SELECTOR, Refusal::UnknownSelector)?;
    require(input.len() >= 12, Refusal::InputTooShort)?;
    require(input.len() % 4 == 0, Refusal::InputNotWords)?;
    let count = word(&input[4..8]);
    require(count <= MAX_NEW, Refusal::TooManyNewTokens)?;
    let words = input[8..].chunks_exact(4);
    let total = words.len() + count as usize;
    require(total <= MAX_SEQUENCE, Refusal::SequenceTooLong)?;
    let prompt: Vec<u32> = words.map(word).collect();
    let known = prompt.iter().all(|&id| id < VOCAB);
    require(known, Refusal::TokenOutOfRange)?;
    let new = generate(&prompt, count).map_err(|_| Refusal::TokenOutOfRange)?;
    let all = prompt.iter().chain(&new);
    Ok(all.flat_map(|id| id.to_be_bytes()).collect())
}
