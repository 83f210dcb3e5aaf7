//! Packed calls of the toy model (spec 7.9).

use crate::target::Models;

/// Most new tokens of a call.
const MAX_NEW: u32 = 64;
/// Most tokens of prompt and output together.
const MAX_SEQUENCE: usize = 256;
const VOCAB: u32 = 48;
const SELECTOR: [u8; 4] = [1, 0, 0, 0];

/// Why a call has no output; the checks run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Less gas than the price.
    #[error("OutOfGas")]
    OutOfGas,
    /// Too few bytes for selector, count and one token.
    #[error("InputTooShort")]
    InputTooShort,
    /// Another function.
    #[error("UnknownSelector")]
    UnknownSelector,
    /// The prompt is not a whole number of words.
    #[error("InputNotWords")]
    InputNotWords,
    /// More than 64 new tokens.
    #[error("TooManyNewTokens")]
    TooManyNewTokens,
    /// More than 256 tokens in all.
    #[error("SequenceTooLong")]
    SequenceTooLong,
    /// An id that is not below 48.
    #[error("TokenOutOfRange")]
    TokenOutOfRange,
}

impl CallError {
    /// The names of all errors.
    pub const NAMES: [&'static str; 7] = [
        "OutOfGas",
        "InputTooShort",
        "UnknownSelector",
        "InputNotWords",
        "TooManyNewTokens",
        "SequenceTooLong",
        "TokenOutOfRange",
    ];
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |v, &b| v << 8 | u32::from(b))
}

/// The price of a call: 100,000 and 50,000 for each new token up to 64.
#[must_use]
pub fn gas(input: &[u8]) -> u64 {
    let count = input.get(4..8).map_or(0, word);
    100_000 + 50_000 * u64::from(count.min(MAX_NEW))
}

/// The output of a call that is given this much gas.
///
/// # Errors
/// The first check that fails.
pub fn call(input: &[u8], given: u64, toy: &(impl Models + ?Sized)) -> Result<Vec<u8>, CallError> {
    if given < gas(input) {
        return Err(CallError::OutOfGas);
    }
    if input.len() < SELECTOR.len() {
        return Err(CallError::InputTooShort);
    }
    if input[..4] != SELECTOR {
        return Err(CallError::UnknownSelector);
    }
    if input.len() < 12 {
        return Err(CallError::InputTooShort);
    }
    if input.len() % 4 != 0 {
        return Err(CallError::InputNotWords);
    }
    let count = word(&input[4..8]);
    if count > MAX_NEW {
        return Err(CallError::TooManyNewTokens);
    }
    let prompt: Vec<u32> = input[8..].chunks_exact(4).map(word).collect();
    if prompt.len() + count as usize > MAX_SEQUENCE {
        return Err(CallError::SequenceTooLong);
    }
    if prompt.iter().any(|&id| id >= VOCAB) {
        return Err(CallError::TokenOutOfRange);
    }
    let new = toy
        .toy_generate(&prompt, count)
        .map_err(|_| CallError::TokenOutOfRange)?;
    Ok(prompt
        .iter()
        .chain(&new)
        .flat_map(|id| id.to_be_bytes())
        .collect())
}
